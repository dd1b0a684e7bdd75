"""The accelerators: whether they are there, answer, are healthy, and run at their clocks."""

DEADLINE_SECONDS = 16.0
"""Above the longest that NVML and then the look at /dev may take."""
