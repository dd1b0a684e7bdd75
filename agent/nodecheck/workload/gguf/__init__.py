"""GGUF files: the header, and what it says of a model."""
