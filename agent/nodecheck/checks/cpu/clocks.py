"""Frequencies, the clock source, and what share of CPU time was busy or stolen."""

from __future__ import annotations

import time

from nodecheck.checks.cpu.topology import CPU_FOLDER
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Struct
from nodecheck.thresholds import Thresholds

_SAMPLED_CPUS = 16
"""Frequencies are medians: 16 CPUs, spread evenly, stand for all."""

_FIRST_WINDOW_SECONDS = 0.1
_CONFIRMING_WINDOW_SECONDS = 1.0
_CAPTURED_WINDOW_SECONDS = 10.0

_USER_HZ_FIELDS = 8
"""user nice system idle iowait irq softirq steal; guest time is in user already."""


class Frequencies(Struct, frozen=True):
    """Medians over the sample, in MHz."""

    driver: str | None = None
    governors: tuple[str, ...] = ()
    cpus: int | None = None
    current_mhz: float | None = None
    maximum_mhz: float | None = None


class Shares(Struct, frozen=True):
    """Parts of all CPUs' time between two samples, 0 to 1."""

    busy: float | None = None
    steal: float | None = None
    seconds: float | None = None


class Ticks(Struct, frozen=True):
    """One sample of the CPU line of /proc/stat, and when it was taken."""

    fields: tuple[int, ...]
    at: float


def frequencies(reader: Reader, cpus: tuple[int, ...]) -> Frequencies:
    """Clock driver, governors, current and maximum frequency."""
    own = [f"{CPU_FOLDER}/cpu{cpu}/cpufreq" for cpu in cpus]
    if not own or not reader.names(own[0]):
        policies = reader.names(f"{CPU_FOLDER}/cpufreq")
        own = [f"{CPU_FOLDER}/cpufreq/{p}" for p in policies if p.startswith("policy")]
    folders = _spread(own) if reader.host.live else own
    if not folders:
        reader.gap("current_mhz", Reason.ABSENT, f"{CPU_FOLDER}: no cpufreq, as in most guests")
        return Frequencies()
    governors = (reader.text(f"{folder}/scaling_governor", None) for folder in folders)
    current = [_mhz(reader, folder, "scaling_cur_freq", "cpuinfo_cur_freq") for folder in folders]
    maximum = [_mhz(reader, folder, "cpuinfo_max_freq", "scaling_max_freq") for folder in folders]
    pairs = [(now, most) for now, most in zip(current, maximum, strict=True) if now and most]
    if not pairs:
        reader.gap("current_mhz", Reason.ABSENT, f"{folders[0]}: no current and maximum frequency")
    from statistics import median  # most guests have no frequencies, and it loads slowly

    return Frequencies(
        driver=reader.text(f"{folders[0]}/scaling_driver", None),
        governors=tuple(sorted({name for name in governors if name})),
        cpus=len(cpus) or len(folders),
        current_mhz=median(now for now, _ in pairs) if pairs else None,
        maximum_mhz=median(most for _, most in pairs) if pairs else None,
    )


def _spread(items: list[str]) -> list[str]:
    """At most _SAMPLED_CPUS of them, evenly spread."""
    step = max(1, -(-len(items) // _SAMPLED_CPUS))
    return items[::step]


def _mhz(reader: Reader, folder: str, *names: str) -> float | None:
    for name in names:
        khz = reader.integer(f"{folder}/{name}", None)
        if khz is not None and 0 < khz < 100_000_000:
            return khz / 1000
    return None


def load_1min(reader: Reader) -> float | None:
    """The first figure of /proc/loadavg."""
    path = "/proc/loadavg"
    text = reader.text(path, "load_1min")
    if text is None:
        return None
    try:
        load = float(text.split()[0])
    except (ValueError, IndexError):
        load = -1.0
    if not 0 <= load < 1e6:
        reader.gap("load_1min", Reason.FAILED, f"{path}: {text[:40]!r} is no load average")
        return None
    return load


def sample(reader: Reader) -> Ticks | None:
    """The CPU time so far."""
    text = reader.text("/proc/stat", "steal_share")
    return None if text is None else _ticks(reader, "/proc/stat", text, time.monotonic())


def shares(reader: Reader, first: Ticks | None) -> Shares:
    """What happened since the first sample: at least 0.1 s live, 10 s in a capture.

    Steal above the threshold is looked at for a further second before it is believed.
    """
    if first is None:
        return Shares()
    if not reader.host.live:
        text = reader.text("/proc/stat.2", "steal_share")
        last = None if text is None else _ticks(reader, "/proc/stat.2", text, first.at)
        return _between(reader, first, last, _CAPTURED_WINDOW_SECONDS)
    seen = _wait_and_compare(reader, first, _FIRST_WINDOW_SECONDS)
    if seen.steal is not None and seen.steal >= Thresholds().steal_warning_share:
        again = sample(reader)
        return (
            seen if again is None else _wait_and_compare(reader, again, _CONFIRMING_WINDOW_SECONDS)
        )
    return seen


def _wait_and_compare(reader: Reader, first: Ticks, seconds: float) -> Shares:
    time.sleep(max(0.0, first.at + seconds - time.monotonic()))
    last = sample(reader)
    return _between(reader, first, last, last.at - first.at if last else seconds)


def _between(reader: Reader, first: Ticks, last: Ticks | None, seconds: float) -> Shares:
    if last is None:
        return Shares()
    delta = [after - before for before, after in zip(first.fields, last.fields, strict=True)]
    total = sum(delta)
    # idle and iowait may step back by a tick or two; all other counters only grow
    if total <= 0 or any(ticks < 0 for ticks in (*delta[:3], *delta[5:])):
        reader.gap("steal_share", Reason.FAILED, "/proc/stat: the counters do not grow")
        return Shares()
    idle = max(0, delta[3]) + max(0, delta[4])
    steal = delta[7]
    return Shares(
        busy=min(1.0, max(0.0, 1 - idle / total)), steal=min(1.0, steal / total), seconds=seconds
    )


def _ticks(reader: Reader, path: str, text: str, at: float) -> Ticks | None:
    for line in text.splitlines():
        name, *values = line.split() or [""]
        if name == "cpu":
            fields = values[:_USER_HZ_FIELDS]
            if len(fields) == _USER_HZ_FIELDS and all(
                v.isdecimal() and len(v) < 20 for v in fields
            ):
                return Ticks(tuple(int(value) for value in fields), at)
            break
    reader.gap("steal_share", Reason.FAILED, f"{path}: no line of CPU times with steal")
    return None
