"""Flags to start with."""
