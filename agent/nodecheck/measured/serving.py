"""Rows of SGLang's and vLLM's benchmarks. Pure.

Keys and their meaning: SGLang 0.5.23, sglang/benchmark/{serving,one_batch,one_batch_server,
offline_throughput}.py; vLLM, vllm/benchmarks/{serve,latency,throughput}.py.
"""

from __future__ import annotations

import re
from typing import Any

from nodecheck.measured.fields import BUILD_KEYS, CPU_KEYS, Fields
from nodecheck.serving import Run
from nodecheck.workload.errors import shown

SGLANG_KEYS = ("total_throughput", "mean_e2e_latency_ms", "sharegpt_output_len", "server_info")
"""Keys of SGLang's serving benchmark that vLLM's has not."""

SERVING_KEYS = ("output_throughput", "mean_tpot_ms", "median_tpot_ms")
BATCH_KEYS = ("median_decode_throughput", "median_decode_latency", "prefill_throughput")
OFFLINE_KEYS = ("successful_requests", "total_latency")
KV_TYPES = {"bfloat16": "bf16", "float16": "f16", "half": "f16"}
WITHOUT_LENGTHS = "vLLM's latency and throughput outputs do not say how many tokens were generated"


def is_row(row: Fields) -> bool:
    """Whether this is one of a serving benchmark's."""
    keys = (*SERVING_KEYS, *BATCH_KEYS, "last_ttft", "avg_latency")
    return any(row.has(key) for key in keys) or row.has("elapsed_time", "requests_per_second")


def read(row: Fields, source: str) -> Run:
    """What the row says. Raises MeasuredError, which names row and key."""
    if row.has("last_ttft", "batch_size") or any(row.has(key) for key in BATCH_KEYS):
        return _one_batch(row, source)
    if row.has(*OFFLINE_KEYS):
        return _offline(row, source)
    if any(row.has(key) for key in SERVING_KEYS):
        return _served(row, source)
    rate = row.positive("output_tokens_per_second")
    members = {**_common(row), "all_tokens_per_second": rate}
    members["remarks"] = (*members["remarks"], WITHOUT_LENGTHS)
    return Run(source=source, tool="vllm", **members)


def _served(row: Fields, source: str) -> Run:
    """Requests to a server: the rate of one of them is the inverse of its time per token."""
    together = row.positive("output_throughput")
    milliseconds = row.positive("mean_tpot_ms") or row.positive("median_tpot_ms")
    requests = row.positive("completed") or row.positive("num_prompts")
    concurrency = _concurrency(row, together, milliseconds)
    rate = 1000 / milliseconds if milliseconds else None
    remarks: tuple[str, ...] = ()
    if rate is None and together and concurrency is not None and concurrency <= 1:
        rate, remarks = together, ("the time to the first token is in the rate",)
    prompt, generated = (
        _each(row, key, requests) for key in ("total_input_tokens", "total_output_tokens")
    )
    members = _common(row)
    members["remarks"] = (*members["remarks"], *remarks)
    return Run(
        source=source,
        tool="sglang" if any(row.has(key) for key in SGLANG_KEYS) else "vllm",
        tokens_per_second=rate,
        spread=_spread(row, rate, milliseconds),
        prompt_tokens_per_second=_prompt_rate(row, prompt, concurrency),
        prompt_tokens=prompt,
        context_tokens=prompt,
        generated_tokens=generated,
        concurrency=concurrency,
        accepted_tokens=row.positive("accept_length")
        or row.positive("spec_decode_acceptance_length"),
        all_tokens_per_second=together,
        **members,
    )


def _concurrency(row: Fields, together: float | None, milliseconds: float | None) -> float | None:
    """Requests at a time: as it was, else as it was allowed, else what the rates imply."""
    allowed, seen = row.positive("max_concurrency"), row.positive("concurrency")
    told = [number for number in (allowed, seen) if number]
    if told:
        return max(1.0, min(told))
    return max(1.0, together * milliseconds / 1000) if together and milliseconds else None


def _spread(row: Fields, rate: float | None, milliseconds: float | None) -> float | None:
    deviation = row.number("std_tpot_ms")
    return rate * deviation / milliseconds if rate and deviation and milliseconds else None


def _prompt_rate(row: Fields, prompt: int | None, concurrency: float | None) -> float | None:
    """Of one request alone; beside others the time to the first token is mostly waiting."""
    first = row.positive("mean_ttft_ms")
    alone = concurrency is not None and concurrency <= 1
    return 1000 * prompt / first if alone and prompt and first else None


def _each(row: Fields, key: str, requests: float | None) -> int | None:
    total = row.positive(key)
    return round(total / requests) if total and requests else None


def _one_batch(row: Fields, source: str) -> Run:
    """A batch that starts together: the rate of one sequence is the batch's over its size."""
    size = row.positive("batch_size") or 1
    decode = row.positive("median_decode_throughput") or row.positive("output_throughput")
    read = row.positive("prefill_throughput") or row.positive("input_throughput")
    lengths = [row.positive(key) for key in ("input_len", "output_len")]
    prompt, generated = (int(n) if n else None for n in lengths)
    return Run(
        source=source,
        tool="sglang",
        tokens_per_second=decode / size if decode else None,
        prompt_tokens_per_second=read,
        prompt_tokens=prompt,
        context_tokens=prompt,
        generated_tokens=generated,
        concurrency=size,
        accepted_tokens=row.positive("acc_length"),
        all_tokens_per_second=decode,
        **_common(row),
    )


def _offline(row: Fields, source: str) -> Run:
    """Requests all at once: only the sum of their rates is known."""
    requests = row.positive("successful_requests")
    return Run(
        source=source,
        tool="vllm" if row.text("backend") == "vllm" else "sglang",
        prompt_tokens=_each(row, "total_input_tokens", requests),
        generated_tokens=_each(row, "total_output_tokens", requests),
        concurrency=requests,
        all_tokens_per_second=row.positive("output_throughput"),
        **_common(row),
    )


def _common(row: Fields) -> dict[str, Any]:
    """What every kind of row may say of model, engine and machine."""
    server = row.inner("server_info")
    model = row.first_text(("model_id", "model", "model_path")) or server.text("model_path")
    return {
        "model": model,
        "model_bytes": row.count("model_bytes") or row.count("model_size") or None,
        "tensor_parallel": row.parallel() or server.parallel(),
        "kv_type": _kv_type(row) or _kv_type(server),
        "build": row.first_text(BUILD_KEYS) or server.text("version"),
        "cpu": row.first_text(CPU_KEYS),
        "gpus": row.gpus(),
        "when": _when(row.text("date")),
        "placement": _placement(row) or _placement(server),
        "remarks": row.remarks(),
    }


def _kv_type(row: Fields) -> str | None:
    named = row.text("kv_cache_dtype")
    if named is None or named == "auto":
        return None
    return "fp8" if named.startswith("fp8") else KV_TYPES.get(named, named)


def _placement(row: Fields) -> str | None:
    gigabytes = row.number("cpu_offload_gb")
    return f"--cpu-offload-gb {gigabytes:g}" if gigabytes else None


def _when(date: str | None) -> str | None:
    """ISO 8601 of a date as 20261130-085057, which has no zone."""
    match = re.fullmatch(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)", date or "")
    if not match:
        return shown(date) if date else None
    year, month, day, hour, minute, second = match.groups()
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}"
