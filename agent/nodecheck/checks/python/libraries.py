"""The libraries that serving environments are made of, and what their builds ask of a processor."""

from __future__ import annotations

DISTRIBUTIONS: dict[str, str] = {
    "numpy": "numpy",
    "scipy": "scipy",
    "scikit-learn": "sklearn",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "polars": "polars",
    "polars-lts-cpu": "polars",
    "duckdb": "duckdb",
    "numba": "numba",
    "gguf": "gguf",
    "safetensors": "safetensors",
    "tokenizers": "tokenizers",
    "sentencepiece": "sentencepiece",
    "tiktoken": "tiktoken",
    "opencv-python": "cv2",
    "opencv-python-headless": "cv2",
    "faiss-cpu": "faiss",
    "faiss-gpu": "faiss",
    "jaxlib": "jaxlib.xla_client",
    "jax": "jax",
    "onnxruntime": "onnxruntime",
    "onnxruntime-gpu": "onnxruntime",
    "ctranslate2": "ctranslate2",
    "llama-cpp-python": "llama_cpp",
    "exllamav2": "exllamav2",
    "torch": "torch",
    "triton": "triton",
    "bitsandbytes": "bitsandbytes",
    "xformers": "xformers",
    "transformers": "transformers",
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "vllm": "vllm",
    "sglang": "sglang",
}
"""Distribution -> module, in the order of the trials: what others build on comes first."""

NEEDS: dict[str, str] = {
    "numpy": "x86-64-v2 from version 2.4 on",
    "pyarrow": "SSE4.2",
    "faiss": "SSE4",
    "polars": "AVX2, BMI1 and BMI2; polars[rtcompat] needs x86-64-v2",
    "duckdb": "AVX2, BMI1 and BMI2",
    "jaxlib": "AVX",
    "jax": "AVX",
    "tensorflow": "AVX",
}
"""What the published builds of a library (the first part of its module) need, where it is known."""

PINS: dict[str, str] = {
    "numpy": "pip install 'numpy<2.4'",
    "polars": "pip install 'polars[rtcompat]'",
}
"""Builds of the same library that ask for less."""
