"""Rows that a capture holds beside the node's own measurements (`measurements.json`). Pure.

`llama_bench` is `{"model_gib": 16.3, "ngl": {"99": 38.0}}`, `mtp` `{"on": 70.9, "off": 39.1}`, with
`accepted_tokens` where it was noted: rates in tokens a second.
"""

from __future__ import annotations

import re

from nodecheck.measured.fields import Fields
from nodecheck.serving import Run
from nodecheck.units import GIB


def is_row(row: Fields) -> bool:
    """Whether this is a capture's object."""
    return isinstance(row.row.get("llama_bench"), dict) or isinstance(row.row.get("mtp"), dict)


def read(row: Fields, source: str) -> list[Run]:
    """One row for each setting. Raises MeasuredError."""
    bench = row.inner("llama_bench")
    size = bench.number("model_gib", 1e6)
    by_layers = bench.inner("ngl")
    runs = [
        Run(
            source=source,
            tool="llama-bench",
            model_bytes=round(size * GIB) if size else None,
            tokens_per_second=by_layers.positive(layers),
            gpu_layers=_layers(by_layers, layers),
            concurrency=1,
        )
        for layers in by_layers.row
    ]
    return runs + _speculative(row.inner("mtp"), source)


def _layers(by_layers: Fields, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,5}", text):
        raise by_layers.error(f"{text[:20]!r} is no number of layers")
    return int(text)


def _speculative(mtp: Fields, source: str) -> list[Run]:
    """The rates with and without MTP; by which tool is not said."""
    plain, guessed = mtp.positive("off"), mtp.positive("on")
    accepted = mtp.number("accepted_tokens")
    off = Run(source=source, tool="unknown", tokens_per_second=plain, concurrency=1)
    on = Run(
        source=source,
        tool="unknown",
        tokens_per_second=guessed,
        concurrency=1,
        accepted_tokens=accepted,
        remarks=("MTP",),
    )
    return [run for run in (off, on) if run.tokens_per_second is not None]
