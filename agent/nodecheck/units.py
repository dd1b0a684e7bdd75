"""Numbers as a report prints them. GB is 10^9 bytes, GiB is 2^30."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GB = 10**9
MHZ = 10**6
GIB = 1 << 30
MIB = 1 << 20


def gib(size_bytes: float) -> str:
    """Capacity in binary units: "57 GiB", "9.8 GiB", "64 MiB"."""
    if size_bytes < GIB:
        return f"{_short(size_bytes / MIB)} MiB"
    return f"{_short(size_bytes / GIB)} GiB"


def gb(size_bytes: float) -> str:
    """A size in decimal units: "200 GB", "0.5 GB"."""
    return f"{_short(size_bytes / GB)} GB"


def gb_per_second(rate: float) -> str:
    """A rate in bytes a second as "11.7 GB/s"."""
    return f"{gb(rate)}/s"


def percent(share: float) -> str:
    """A share of 0 to 1 as "94 %"."""
    return f"{100 * share:.0f} %"


def _short(value: float) -> str:
    """Three significant figures at most, no trailing `.0`."""
    text = f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
    return text.removesuffix(".0")


def cuda_version(number: int) -> str:
    """CUDA's number of a version, which its driver and NVML tell: 13010 is "13.1"."""
    return f"{number // 1000}.{number % 1000 // 10}"


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
    """Write "1 core", "3 cores" or "10,000 nodes"."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int | None = None, last: str = "and") -> str:
    """Write "a", "a and b", "a, b and c"; with more than `most` "a, b and 7 more"."""
    if most is not None and len(names) > most:
        names = [*names[:most], f"{len(names) - most:,} more"]
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def times(ratio: float) -> str:
    """A ratio in two decimals, or in as many digits: 0.40x, 2.51x, 0.0021x, 480x."""
    if ratio >= 100:
        return f"{ratio:.0f}x"
    return f"{ratio:.2f}x" if ratio >= 0.1 or ratio == 0 else f"{ratio:.2g}x"
