"""Rows of a benchmark beside what the node allows, and what they say together. Pure."""
