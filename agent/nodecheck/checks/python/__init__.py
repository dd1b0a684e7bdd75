"""The libraries of a Python interpreter that serves models."""
