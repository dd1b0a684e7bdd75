"""What a node's snapshots tell together: changes, drift, what fills up, what grows."""
