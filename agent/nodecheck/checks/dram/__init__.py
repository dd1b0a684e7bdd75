"""Memory bandwidth, measured."""

DEADLINE_SECONDS = 5.0
"""After this the probe's child is killed."""
