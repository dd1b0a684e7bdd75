"""Takes the time, level and origin off the lines of a kernel log, in the forms that it comes in."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINE_LIMIT = 1000
"""Longest message that is looked at, in characters; the kernel's own limit is about 1,000 bytes."""

_INTERESTING = re.compile(
    r"NVRM:|EDAC |EXT[234]-fs|XFS|BTRFS|F2FS-fs|JBD2|journal on device|I/O error"
    r"|Memory failure|Linux version |reset done"
)

_PREFIX = re.compile(
    r"(?:<\d{1,4}>|\d+,\d+,\d+,[^;]{0,40};|[a-z]{3,8} *:[a-z]{3,6} *: *)?"  # kmsg, dmesg -r, -x
    r"(?:\d{4}-\d\d-\d\d[T ]\S{8,26} |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\[ *\d+\.\d+\] )?"
    r"(?:[\w.-]{1,64} kernel: ?|kernel: ?)?"  # a journal's or syslog's line
    r"(?:\[[^\]]{0,40}\] ?){0,3}"  # [   12.345678] [  T123]
)


def messages(text: str) -> Iterator[str]:
    """The messages that any parser here may want, in order, each without what stands before it."""
    for line in text.splitlines():
        if _INTERESTING.search(line, 0, LINE_LIMIT):
            prefix = _PREFIX.match(line)
            yield line[prefix.end() if prefix else 0 : LINE_LIMIT].strip()
