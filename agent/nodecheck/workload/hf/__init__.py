"""Checkpoints of Hugging Face: folders, safetensors headers, tensor names."""
