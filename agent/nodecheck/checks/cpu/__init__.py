"""The processor: what it executes, how many cores there are, how fast they run."""

DEADLINE_SECONDS = 4.0
"""After this the probe's child is killed."""
