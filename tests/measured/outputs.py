"""What benchmarks write: rows as the programs print them, with members to change."""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]


def llama_bench(**members: Any) -> Row:
    """A row of decode, as llama-bench 0.5.0-dev printed it on a machine without a GPU."""
    return {
        "build_commit": "unknown",
        "build_number": 0,
        "cpu_info": "AMD EPYC",
        "gpu_info": "",
        "backends": "CPU",
        "model_filename": "/srv/models/Q4_K_M.gguf",
        "model_type": "llama 1B Q4_K - Medium",
        "model_size": 1100703744,
        "model_n_params": 1807322112,
        "n_batch": 2048,
        "n_ubatch": 512,
        "n_threads": 2,
        "cpu_mask": "0x0",
        "cpu_strict": False,
        "poll": 50,
        "type_k": "f16",
        "type_v": "f16",
        "n_gpu_layers": -1,
        "n_cpu_moe": 0,
        "split_mode": "layer",
        "main_gpu": 0,
        "no_kv_offload": False,
        "flash_attn": -1,
        "devices": "auto",
        "tensor_split": "0.00",
        "tensor_buft_overrides": "none",
        "load_mode": "auto",
        "lazy_mode": "auto",
        "embeddings": False,
        "no_op_offload": 0,
        "no_host": False,
        "repack": True,
        "fit_target": 0,
        "fit_min_ctx": 0,
        "n_prompt": 0,
        "n_gen": 4,
        "n_depth": 0,
        "test_time": "2026-11-30T08:51:07Z",
        "avg_ns": 706752345,
        "stddev_ns": 175134940,
        "avg_ts": 5.838965,
        "stddev_ts": 1.446910,
        "samples_ns": [830591449, 582913241],
        "samples_ts": [4.81585, 6.86208],
    } | members


def on_gpus(gpus: str = "NVIDIA L40, NVIDIA L40, NVIDIA L40", **members: Any) -> Row:
    """The same with a CUDA build, and the names that older versions had."""
    row = llama_bench(backends="CUDA", gpu_info=gpus, n_gpu_layers=99, use_mmap=True)
    del row["load_mode"]
    return row | {"build_commit": "8cf427ff", "build_number": 5163} | members


def sglang(**members: Any) -> Row:
    """A row of bench_serving: 16 requests one after the other."""
    return {
        "tag": None,
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 1,
        "sharegpt_output_len": None,
        "random_input_len": 1024,
        "random_output_len": 256,
        "random_range_ratio": 1.0,
        "server_info": {
            "model_path": "Qwen/Qwen3.5-27B",
            "tp_size": 1,
            "kv_cache_dtype": "auto",
            "version": "0.5.23",
            "internal_states": [{"avg_spec_accept_length": 2.84}],
        },
        "duration": 63.1,
        "completed": 16,
        "total_input_tokens": 16384,
        "total_output_tokens": 4096,
        "request_throughput": 0.254,
        "input_throughput": 259.7,
        "output_throughput": 64.9,
        "total_throughput": 324.6,
        "mean_e2e_latency_ms": 3943.0,
        "mean_ttft_ms": 346.0,
        "mean_tpot_ms": 14.104,
        "median_tpot_ms": 14.09,
        "std_tpot_ms": 0.7052,
        "mean_itl_ms": 39.9,
        "median_itl_ms": 39.8,
        "concurrency": 0.9998,
        "accept_length": 2.84,
    } | members


def vllm(**members: Any) -> Row:
    """A file of `vllm bench serve --save-result --metadata ...`: metadata are text."""
    return {
        "date": "20261130-085057",
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": "Qwen/Qwen3.5-27B-AWQ",
        "tokenizer_id": "Qwen/Qwen3.5-27B-AWQ",
        "num_prompts": 16,
        "tensor_parallel_size": "2",
        "gpu": "NVIDIA L40",
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 1,
        "duration": 156.2,
        "completed": 16,
        "failed": 0,
        "total_input_tokens": 16384,
        "total_output_tokens": 4096,
        "request_throughput": 0.102,
        "request_goodput": None,
        "output_throughput": 26.2,
        "total_token_throughput": 131.1,
        "mean_ttft_ms": 390.0,
        "mean_tpot_ms": 36.7647,
        "median_tpot_ms": 36.7,
        "std_tpot_ms": 0.4,
        "mean_itl_ms": 36.8,
    } | members


def as_json(*rows: Row) -> bytes:
    """As `-o json` prints it."""
    return json.dumps(list(rows), indent=2).encode()


def as_lines(*rows: Row) -> bytes:
    """As `-o jsonl` prints it."""
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
