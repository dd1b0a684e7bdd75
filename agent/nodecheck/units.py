"""Numbers as a report prints them. GB is 10^9 bytes, GiB is 2^30."""

from __future__ import annotations

from collections.abc import Iterable

GB = 10**9
GIB = 1 << 30
MIB = 1 << 20


def gib(size_bytes: float) -> str:
    """Capacity in binary units: "57 GiB", "9.8 GiB", "64 MiB"."""
    if size_bytes < GIB:
        return f"{_short(size_bytes / MIB)} MiB"
    return f"{_short(size_bytes / GIB)} GiB"


def gb_per_second(rate: float) -> str:
    """A rate in bytes a second as "11.7 GB/s"."""
    return f"{_short(rate / GB)} GB/s"


def percent(share: float) -> str:
    """A share of 0 to 1 as "94 %"."""
    return f"{100 * share:.0f} %"


def _short(value: float) -> str:
    """Three significant figures at most, no trailing `.0`."""
    text = f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
    return text.removesuffix(".0")


def ranges(numbers: Iterable[int]) -> str:
    """CPU numbers in the kernel's list format: "0-3,8"."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def count(number: int, noun: str) -> str:
    """Write "1 core" or "3 cores"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
