"""The PCIe links from each accelerator to its root: lanes, speed, and who limits them."""
