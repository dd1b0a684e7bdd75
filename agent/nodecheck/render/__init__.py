"""Reports as people and machines read them. Pure: a report in, text out."""
