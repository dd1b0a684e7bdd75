"""Takes the time, level and origin off the lines of a kernel log, in the forms that it comes in."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINE_LIMIT = 1000
"""Longest message that is looked at, in characters; the kernel's own limit is about 1,000 bytes."""

_NEEDLES = (
    "NVRM:",
    "reset done",
    "EDAC ",
    "Memory failure",
    "-fs ",
    "XFS (",
    "BTRFS",
    "JBD2",
    "journal on device",
    "error on dev ",
    "error, dev ",
    "Linux version ",
    "-- Reboot --",
    "-- Boot ",
)
"""One of these is in every message that a parser here looks for."""

_PREFIX = re.compile(
    r"(?:<\d{1,4}>|\d+,\d+,\d+,[^;]{0,40};|[a-z]{3,8} *:[a-z]{3,6} *: *)?"  # kmsg, dmesg -r, -x
    r"(?:\d{4}-\d\d-\d\d[T ]\S{8,26} |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\[ *\d+\.\d+\] )?"
    r"(?:[\w.-]{1,64} kernel: ?|kernel: ?)?"  # a journal's or syslog's line
    r"(?:\[[^\]]{0,40}\] ?){0,3}"  # [   12.345678] [  T123]
)


def messages(text: str) -> Iterator[str]:
    """The messages that any parser here may want, in order, each without what stands before it."""
    for start, end in sorted(_spans(text)):
        line = text[start : min(end, start + LINE_LIMIT)]
        prefix = _PREFIX.match(line)
        yield line[prefix.end() if prefix else 0 :].strip()


def _spans(text: str) -> set[tuple[int, int]]:
    """Where the lines with a needle are. Plain searches: most of a long log is of no use."""
    spans = set()
    for needle in _NEEDLES:
        at = text.find(needle)
        while at >= 0:
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            end = len(text) if end < 0 else end
            spans.add((start, end))
            at = text.find(needle, end)
    return spans
