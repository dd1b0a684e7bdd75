"""Whether the node is a guest or a container, and whose."""
