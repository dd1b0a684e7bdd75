"""Whether a node may go on: what was asked for against what was seen. Pure."""
