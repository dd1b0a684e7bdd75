"""The accelerators: whether they are there, answer, are healthy, and run at their clocks."""
