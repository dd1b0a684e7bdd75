"""How much memory the process's control groups leave it."""

from __future__ import annotations

import re

from nodecheck.machine import cgroups
from nodecheck.machine.cgroups import NO_LIMIT, Groups
from nodecheck.machine.reader import Reader, counters
from nodecheck.model import Struct

INHERITED = "hierarchical_memory_limit"
"""Ends the source of a limit that a group above sets."""

_AVAILABLE = re.compile(r"^MemAvailable:\s*(\d{1,15}) kB", re.MULTILINE)


class _Names(Struct, frozen=True):
    limit: str
    high: str | None
    current: str
    file_counters: tuple[str, str]


_FILES = {
    "v1": _Names(
        "memory.limit_in_bytes",
        None,
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
    "v2": _Names("memory.max", "memory.high", "memory.current", ("active_file", "inactive_file")),
}


class MemoryLimit(Struct, frozen=True):
    """What the tightest group sets, in bytes.

    `limit_bytes` is the smallest hard limit; `current_bytes` and `file_bytes` are of the group that
    sets it. `high_bytes` is the smallest memory.high, where the kernel begins to reclaim.
    `headroom_bytes` is the least that any limited group leaves: limit - current + file pages.
    """

    limit_bytes: int | None = None
    source: str | None = None
    current_bytes: int | None = None
    file_bytes: int | None = None
    high_bytes: int | None = None
    headroom_bytes: int | None = None
    high_events: int | None = None
    events_source: str | None = None


class _Group(Struct, frozen=True):
    limit: int | None
    source: str
    high: int | None
    current: int | None
    file: int | None

    @property
    def is_inherited(self) -> bool:
        """Whether a group above sets the limit: in v1 those below it tell it as theirs."""
        return self.source.endswith(INHERITED)

    @property
    def headroom(self) -> int | None:
        ends = [end for end in (self.limit, self.high) if end is not None]
        if not ends or self.current is None:
            return None
        return max(0, min(ends) - self.current + (self.file or 0))


def smallest(reader: Reader, groups: Groups | None) -> MemoryLimit:
    """The tightest limit of the process's group and all its ancestors."""
    if groups is None:
        return MemoryLimit()
    seen = [_group(reader, directory, _FILES[groups.version]) for directory in groups.directories]
    tightest = min(
        (group for group in seen if group.limit is not None),
        key=lambda group: (group.limit or 0, group.is_inherited),
        default=None,
    )
    events = f"{groups.directories[0]}/memory.events"
    return MemoryLimit(
        limit_bytes=tightest.limit if tightest else None,
        source=tightest.source if tightest else None,
        current_bytes=tightest.current if tightest else None,
        file_bytes=tightest.file if tightest else None,
        high_bytes=min((g.high for g in seen if g.high is not None), default=None),
        headroom_bytes=min((g.headroom for g in seen if g.headroom is not None), default=None),
        high_events=counters(reader.text(events, None) or "").get("high"),
        events_source=events,
    )


def later_high_events(reader: Reader, limit: MemoryLimit) -> int | None:
    """`high_events` of a second sample: live now, in a capture `memory.events.2`."""
    path = f"{limit.events_source}{'' if reader.host.live else '.2'}"
    return counters(reader.text(path, None) or "").get("high")


def _group(reader: Reader, directory: str, names: _Names) -> _Group:
    statistics = counters(reader.text(f"{directory}/memory.stat", None) or "")
    source = f"{directory}/{names.limit}"
    limit = _limit(reader.text(source, None))
    inherited = _limit(str(statistics.get(INHERITED, "")))
    if inherited is not None and (limit is None or inherited < limit):
        limit, source = inherited, f"{directory}/memory.stat {INHERITED}"
    plain = [name.removeprefix("total_") for name in names.file_counters]
    file_parts = [statistics[name] for name in names.file_counters if name in statistics]
    file_parts = file_parts or [statistics[name] for name in plain if name in statistics]
    return _Group(
        limit=limit,
        source=source,
        high=_limit(reader.text(f"{directory}/{names.high}", None)) if names.high else None,
        current=_number(reader.text(f"{directory}/{names.current}", None)),
        file=sum(file_parts) if file_parts else None,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 20 else None


def _limit(text: str | None) -> int | None:
    """Bytes; None for `max`, the sentinels, 0 and what is no number."""
    value = _number(text)
    return value if value and value < NO_LIMIT else None


def available_bytes(reader: Reader) -> int | None:
    """What a process may still take: MemAvailable, and what its control groups leave; now."""
    found = _AVAILABLE.search(reader.text("/proc/meminfo", None) or "")
    if not found:
        return None
    membership = cgroups.parse_membership(reader.text("/proc/self/cgroup", None) or "")
    mounts = cgroups.read_mounts(reader) if membership.paths else []
    left = smallest(reader, cgroups.groups(reader, membership, mounts, "memory")).headroom_bytes
    available = int(found[1]) << 10
    return available if left is None else min(available, left)
