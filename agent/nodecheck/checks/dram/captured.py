"""The measurements that a capture holds (`measurements.json`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from nodecheck.checks.dram.facts import DramFacts, DramProbe
from nodecheck.checks.dram.statistics import READ_CONVENTION
from nodecheck.machine.reader import CPU_LIMIT, Reader
from nodecheck.model import Measurement, Reason

PATH = "/measurements.json"
SIZE_MAX = 1e15
GBPS_MAX = 1e5
"""Ten times the fastest memory there is: more is a unit gone wrong."""


def read(reader: Reader) -> DramProbe:
    """The file's figures, by threads, and the model that was to be served on the node.

    What is no measurement is a gap.
    """
    content = _content(reader)
    found = [
        *_own(reader, content.get("measurements")),
        *_plain(reader, content.get("dram_read_gbps")),
    ]
    return DramProbe(
        facts=DramFacts(skipped=None if found else "this capture holds no measurement"),
        measurements=tuple(sorted(found, key=lambda each: (each.name, each.threads))),
        model_bytes=_model_bytes(reader, content.get("model_bytes")),
    )


def _content(reader: Reader) -> dict[str, Any]:
    text = reader.text(PATH, "measurements")
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        reader.gap("measurements", Reason.FAILED, f"{PATH}: {error}")
        return {}


def _model_bytes(reader: Reader, size: Any) -> int | None:
    if size is None:
        return None
    if isinstance(size, (int, float)) and not isinstance(size, bool) and 1 <= size <= SIZE_MAX:
        return int(size)
    reader.gap("model_bytes", Reason.FAILED, f"{PATH}: model_bytes is no size")
    return None


def _plain(reader: Reader, rates: Any) -> Iterator[Measurement]:
    """`{threads: GB/s}`."""
    for threads, rate in rates.items() if isinstance(rates, dict) else ():
        if not (_is_count(threads) and _is_rate(rate)):
            reader.gap(
                "measurements", Reason.FAILED, f"{PATH}: dram_read_gbps {threads[:20]!r} is no rate"
            )
            continue
        yield Measurement(
            name="dram_read",
            kernel="unknown",
            threads=int(threads),
            median_bytes_per_second=rate * 1e9,
            convention=READ_CONVENTION,
        )


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= CPU_LIMIT


def _is_rate(value: Any) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and math.isfinite(value) and 0 < value <= GBPS_MAX


def _own(reader: Reader, listed: Any) -> Iterator[Measurement]:
    """Measurements in the report's own form."""
    for each in listed if isinstance(listed, list) else ():
        try:
            found = msgspec.convert(each, Measurement)
        except msgspec.ValidationError as error:
            reader.gap("measurements", Reason.FAILED, f"{PATH}: {error}")
            continue
        if 1 <= found.threads <= CPU_LIMIT and _is_rate(found.median_bytes_per_second / 1e9):
            yield found
        else:
            reader.gap("measurements", Reason.FAILED, f"{PATH}: {found.name[:40]!r} holds no rate")
