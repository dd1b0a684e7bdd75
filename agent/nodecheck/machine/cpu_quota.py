"""How much CPU time a process's control groups let it use (CFS quota)."""

from __future__ import annotations

from nodecheck.machine.cgroups import NO_LIMIT, Groups
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Struct

_DEFAULT_PERIOD_MICROSECONDS = 100_000


class Quota(Struct, frozen=True):
    """`cpus` is quota / period, exact; `directory` the group that sets it, `source` the file."""

    cpus: float
    directory: str
    source: str


def quotas(reader: Reader, groups: Groups | None, field: str) -> tuple[Quota, ...]:
    """Those of the process's group and its ancestors that set one; `field` names a gap."""
    if groups is None:
        return ()
    found = (_quota(reader, groups.version, directory, field) for directory in groups.directories)
    return tuple(quota for quota in found if quota is not None)


def _quota(reader: Reader, version: str, directory: str, field: str) -> Quota | None:
    v2 = version == "v2"
    source = f"{directory}/{'cpu.max' if v2 else 'cpu.cfs_quota_us'}"
    words = (reader.text(source, None) or "").split()
    if not v2 and words:
        words = [words[0], reader.text(f"{directory}/cpu.cfs_period_us", None) or ""]
    if not words or words[0] in ("max", "-1"):
        return None
    try:
        quota = int(words[0])
        period = int(words[1]) if len(words) > 1 else _DEFAULT_PERIOD_MICROSECONDS
    except ValueError:
        quota = period = 0
    if quota <= 0 or period <= 0:
        reader.gap(field, Reason.FAILED, f"{source}: {' '.join(words)[:40]!r} is no quota")
        return None
    return Quota(quota / period, directory, source) if quota < NO_LIMIT else None
