"""What outlives a report: its history on a node, and reports beside each other."""
