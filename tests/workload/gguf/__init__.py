"""GGUF files, sound and hostile."""
