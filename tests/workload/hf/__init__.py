"""Checkpoints, sound and hostile."""
