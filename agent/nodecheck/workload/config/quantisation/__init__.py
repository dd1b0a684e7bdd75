"""The bytes that a checkpoint takes: which quantisation it names, what that takes of a matrix."""
