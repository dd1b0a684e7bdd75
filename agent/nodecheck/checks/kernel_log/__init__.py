"""What the kernel said about devices that other checks judge."""

DEADLINE_SECONDS = 5.0
"""After this the probe's child is killed."""
