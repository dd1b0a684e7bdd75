"""A running engine: why it is slow right now."""

DEADLINE_SECONDS = 100.0
"""After this the probe's child is killed; it watches for MOST_SECONDS at most."""

MOST_SECONDS = 60
"""The longest window: what is slow now shows in seconds."""
