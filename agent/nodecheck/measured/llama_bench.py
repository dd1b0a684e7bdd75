"""A row of `llama-bench -o json` or `-o jsonl`. Pure.

Keys and their meaning: llama.cpp, tools/llama-bench/llama-bench.cpp.
"""

from __future__ import annotations

import re

from nodecheck.measured.fields import Fields
from nodecheck.serving import Run

NO_GPU_BACKENDS = frozenset({"cpu", "blas", "accelerate"})
"""With none but these, -ngl has no effect."""

MMAP_MODES = {"mmap": True, "mmap+mlock": True, "none": False, "mlock": False, "dio": False}
"""What --load-mode says of mmap; "auto" says nothing."""


def is_row(row: Fields) -> bool:
    """Whether this is one of llama-bench's."""
    return row.has("avg_ts") or row.has("n_gpu_layers") or row.has("samples_ts")


def read(row: Fields, source: str) -> Run:
    """What the row says. Raises MeasuredError, which names row and key."""
    if not row.has("n_prompt") and not row.has("n_gen"):
        raise row.error("n_prompt and n_gen are missing: reading and generating look alike")
    prompt, generated = row.count("n_prompt") or 0, row.count("n_gen") or 0
    rate = _rate(row, prompt + generated)
    depth = row.count("n_depth")
    only_cpu = _only_cpu(row)
    remarks = (*row.remarks(), *_both(prompt, generated, rate))
    return Run(
        source=source,
        tool="llama-bench",
        model=_file_name(row.text("model_filename")) or row.text("model_type"),
        model_bytes=row.count("model_size") or None,
        tokens_per_second=rate if generated and not prompt else None,
        spread=row.number("stddev_ts"),
        prompt_tokens_per_second=rate if prompt and not generated else None,
        prompt_tokens=prompt,
        generated_tokens=generated,
        gpu_layers=0 if only_cpu else row.signed("n_gpu_layers"),
        cpu_expert_layers=row.count("n_cpu_moe") or None,
        threads=row.count("n_threads") or None,
        tensor_parallel=row.parallel(),
        split_mode=row.text("split_mode"),
        concurrency=1,
        accepted_tokens=row.number("accepted_tokens"),
        kv_type=_kv_type(row),
        build=_build(row),
        cpu=row.text("cpu_info") or row.text("cpu"),
        gpus=() if only_cpu else _used(row),
        when=row.text("test_time"),
        context_tokens=depth,
        kv_on_host=row.row.get("no_kv_offload") in (True, 1),
        mmap=_mmap(row),
        placement=_placement(row),
        remarks=remarks,
    )


def _rate(row: Fields, tokens: int) -> float | None:
    """Tokens a second, from the times where the rate itself is missing."""
    if (rate := row.number("avg_ts")) is not None:
        return rate or None
    nanoseconds = row.number("avg_ns")
    if not nanoseconds or not tokens:
        raise row.error("avg_ts is missing")
    return 1e9 * tokens / nanoseconds


def _both(prompt: int, generated: int, rate: float | None) -> tuple[str, ...]:
    """A row of -pg: its one rate is that of prompt and generated tokens together."""
    if not (prompt and generated and rate):
        return ()
    return (f"{prompt} tokens read and {generated} generated at {rate:.4g} tok/s together",)


def _only_cpu(row: Fields) -> bool:
    """Whether the build or the row leaves no card to be used."""
    backends = row.text("backends")
    if (row.text("devices") or "").casefold() == "none":
        return True
    names = {name.strip().casefold() for name in (backends or "").split(",")}
    return bool(backends) and names <= NO_GPU_BACKENDS


def _used(row: Fields) -> tuple[str, ...]:
    """The cards that the row's settings let it use, of those that the machine has."""
    cards = row.gpus()
    devices = row.text("devices")
    if devices and devices != "auto":
        return cards[: len(re.split(r"[/,]", devices))]
    if row.text("split_mode") == "none":
        return cards[:1]
    shares = [s for s in (row.text("tensor_split") or "").split("/") if _is_share(s)]
    return cards[: len(shares)] if shares else cards


def _is_share(text: str) -> bool:
    return bool(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text)) and float(text) > 0


def _kv_type(row: Fields) -> str | None:
    """The type of the keys, and that of the values where it differs."""
    keys, values = row.text("type_k"), row.text("type_v")
    return keys if values in (None, keys) else f"{keys}/{values}"


def _build(row: Fields) -> str | None:
    """The commit and number that the program was built from; "unknown" and 0 say nothing."""
    commit, number = row.text("build_commit"), row.count("build_number")
    known = [commit] if commit and commit != "unknown" else []
    return " ".join([*known, *([f"({number})"] if number else [])]) or row.text("build")


def _mmap(row: Fields) -> bool | None:
    old = row.row.get("use_mmap")
    if isinstance(old, (bool, int)):
        return bool(old)
    return MMAP_MODES.get(row.text("load_mode") or "")


def _placement(row: Fields) -> str | None:
    overrides = row.text("tensor_buft_overrides")
    return None if overrides in (None, "none") else f"-ot {overrides}"


def _file_name(path: str | None) -> str | None:
    return re.split(r"[/\\]", path)[-1] if path else None
