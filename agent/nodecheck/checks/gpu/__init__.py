"""The accelerators: whether they are there, answer, are healthy, and run at their clocks."""

from nodecheck.machine import nvidia_driver

DEADLINE_SECONDS = nvidia_driver.LIMIT_SECONDS + 8.0
"""Above the longest that NVML, then sysfs of other cards and the look at /dev may take."""
