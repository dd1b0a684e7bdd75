"""What CUDA programs get of the NVIDIA cards: whether it starts, and what copies reach."""

from nodecheck.machine import nvidia_driver

DEADLINE_SECONDS = nvidia_driver.LIMIT_SECONDS + 1.0
"""Above the longest that CUDA may take to start."""
