"""What a capture holds of CUDA: whether it started (`cuda.json`) and rates of copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from nodecheck.checks.cuda.facts import CudaFacts, CudaProbe
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Transfer

PATH = "/cuda.json"
MEASUREMENTS = "/measurements.json"
RATE_MAX = 1e14
"""Ten times the fastest memory of a card: more is a unit gone wrong."""


def read(reader: Reader) -> CudaProbe:
    """Both; what is not ours is a gap."""
    return CudaProbe(facts=_facts(reader), transfers=tuple(_transfers(reader)))


def _facts(reader: Reader) -> CudaFacts:
    text = _text(reader, PATH)
    if text is None:
        return CudaFacts()
    try:
        return msgspec.json.decode(text, type=CudaFacts)
    except (msgspec.MsgspecError, RecursionError) as error:
        reader.gap("state", Reason.FAILED, f"{PATH}: {error}")
        return CudaFacts()


def _transfers(reader: Reader) -> Iterator[Transfer]:
    """Rates in the report's own form, beside those of the node's memory."""
    text = _text(reader, MEASUREMENTS)
    try:
        content = msgspec.json.decode(text, type=dict[str, Any]) if text is not None else {}
    except (msgspec.MsgspecError, RecursionError):
        return  # the dram probe tells of a file that is none
    listed = content.get("transfers")
    for each in listed if isinstance(listed, list) else ():
        try:
            found = msgspec.convert(each, Transfer)
        except (msgspec.ValidationError, RecursionError) as error:
            reader.gap("transfers", Reason.FAILED, f"{MEASUREMENTS}: {error}")
            continue
        if 0 < found.median_bytes_per_second <= RATE_MAX and found.cards >= 1:
            yield found
        else:
            name = found.name[:40]
            reader.gap("transfers", Reason.FAILED, f"{MEASUREMENTS}: {name!r} holds no rate")


def _text(reader: Reader, path: str) -> str | None:
    try:
        return reader.host.read(path)
    except UnreadableError:
        return None
