"""Hugging Face configurations to exact sizes."""
