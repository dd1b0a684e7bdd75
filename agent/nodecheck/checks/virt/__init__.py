"""Whether the node is a guest or a container, and whose."""

DEADLINE_SECONDS = 4.0
"""After this the probe's child is killed."""
