"""How CPUs and memory lie on NUMA nodes."""

DEADLINE_SECONDS = 4.0
"""After this the probe's child is killed."""
