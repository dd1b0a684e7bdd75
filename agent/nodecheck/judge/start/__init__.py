"""Flags to start engines with, each with why. Pure."""
