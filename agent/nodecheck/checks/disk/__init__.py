"""Room for models, and whether the mounts that hold them answer and can be written."""

DEADLINE_SECONDS = 6.0
"""After this the probe's child is killed."""
