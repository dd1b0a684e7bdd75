"""The PCIe links from each accelerator to its root: lanes, speed, and who limits them."""

DEADLINE_SECONDS = 4.0
"""After this the probe's child is killed."""
