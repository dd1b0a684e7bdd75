"""What this process may use of the node: CPUs, quota, memory."""

DEADLINE_SECONDS = 4.0
"""After this the probe's child is killed."""
