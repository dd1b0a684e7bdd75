"""What CUDA programs get of the NVIDIA cards: whether it starts, and what copies reach."""

DEADLINE_SECONDS = 12.0
"""Without persistence mode the driver starts each card anew, one after the other."""
