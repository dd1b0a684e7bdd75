"""Models read from files: GGUF, safetensors and Hugging Face configurations, to exact sizes.

`read` tells what a path holds; `gguf`, `hf` and `config` make of it the weights and caches of each
layer, and `assemble` of these a Workload. `restate` is what it would be in another type or size.
"""
