"""Models read from files: GGUF, safetensors and Hugging Face configurations, to exact sizes."""
