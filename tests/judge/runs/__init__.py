"""Rows of benchmarks."""
