"""How a row is named in a sentence beside others."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.judge.figures import between
from nodecheck.judge.runs.rows import Row


def named(row: Row) -> str:
    """The setting, or the cards: "-ngl 50", "2x L40 in tensor parallel"."""
    run = row.run
    if run.gpu_layers is None:
        return row.machine.words
    experts = f" -ncmoe {run.cpu_expert_layers}" if run.cpu_expert_layers else ""
    where = "" if row.machine.here else f" on {row.machine.words}"
    return f"-ngl {run.gpu_layers}{experts}{where}"


def rate(row: Row) -> str:
    """Tokens a second with the digits that it was told with: "38.0", "37.99", "0.07"."""
    digits = f"{row.rate:.4g}" if row.rate >= 10 else f"{row.rate:.3g}"
    return f"{digits}.0" if digits.isdigit() and len(digits) < 4 else digits


def rates(rows: Iterable[Row]) -> str:
    """Those of several rows: "38-39"."""
    found = sorted(rows, key=lambda row: row.rate)
    if rate(found[0]) == rate(found[-1]):
        return rate(found[0])
    return between(found[0].rate, found[-1].rate)


def guessing(rows: Iterable[Row]) -> str:
    """What guessed the tokens, as far as the rows say."""
    told = (text.casefold() for row in rows for text in row.run.remarks)
    return "MTP" if any("mtp" in text for text in told) else "speculative decoding"
