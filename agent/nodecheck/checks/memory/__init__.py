"""The node's RAM: size, pressure, errors, modules."""

DEADLINE_SECONDS = 4.0
"""After this the probe's child is killed."""
