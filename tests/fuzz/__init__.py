"""Fuzzing of what reads model files; `make fuzz` runs it, the tests replay what it found."""
