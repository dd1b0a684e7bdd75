"""Benchmark output to rows: what llama-bench, SGLang, vLLM and captures wrote down. Pure."""
