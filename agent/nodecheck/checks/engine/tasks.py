"""What the kernel counts of processes and of their threads."""

from __future__ import annotations

import time
from collections.abc import Iterable

from nodecheck.machine.reader import Reader, parse_list
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Struct

TICKS_PER_SECOND = 100
"""USER_HZ, in which /proc counts: so on every architecture that engines run on."""

NANOSECONDS = 1_000_000_000

_STATE, _PARENT, _FLAGS, _MINOR, _MAJOR, _USER, _SYSTEM = 0, 1, 6, 7, 9, 11, 12
_REAPED, _NICE, _THREADS, _START, _SIZE, _CPU = slice(13, 15), 16, 17, 19, 20, 36
"""Places in /proc/PID/stat, from the state on (proc(5) counts from 1 and calls it the third)."""

_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD among the flags of stat."""

Task = tuple[int, int]
"""A thread: its process's id and its own."""


class Moment:
    """The node at one end of the window: a capture holds its second end in files `<name>.2`."""

    def __init__(self, reader: Reader, captured_at: float = 0.0) -> None:
        self.reader = reader
        self._captured_at = None if reader.host.live else captured_at
        self._suffix = ".2" if self._captured_at else ""

    def now(self) -> float:
        """Seconds of the monotonic clock, in a capture since its first end."""
        return time.monotonic() if self._captured_at is None else self._captured_at

    def text(self, path: str, field: str | None = None) -> str | None:
        """As Reader.text. No gap where `field` is None."""
        return self.reader.text(path + self._suffix, field)

    def readable(self, path: str) -> str | UnreadableError:
        """A file's text, or why there is none; no gap."""
        try:
            return self.reader.host.read(path + self._suffix)
        except UnreadableError as error:
            return error


class Stat(Struct, frozen=True):
    """/proc/PID/stat, or that of a thread. Counts are since it began, of a process all threads'.

    `reaped_ticks` are those of its children, and theirs, that have ended and were waited for.
    `start_ticks` is when it began: with the id it names one process for ever.
    """

    name: str
    state: str
    parent: int
    is_kernels: bool
    minor_faults: int
    major_faults: int
    cpu_ticks: int
    reaped_ticks: int
    nice: int
    threads: int
    start_ticks: int
    mapped_bytes: int
    cpu: int | None

    @property
    def is_over(self) -> bool:
        """It waits to be reaped. A process whose first thread alone has ended still runs."""
        return self.state in ("Z", "X", "x") and self.threads <= 1


class Ran(Struct, frozen=True):
    """How long a thread has run and waited for a CPU since it began, and when that was read."""

    run_seconds: float
    waited_seconds: float | None
    at: float


class Status(Struct, frozen=True):
    """What is read of /proc/PID/status, or of a thread's; None for what does not stand there."""

    process: int | None = None
    allowed_cpus: tuple[int, ...] | None = None
    allowed_nodes: tuple[int, ...] | None = None
    resident_bytes: int | None = None
    swapped_bytes: int | None = None
    locked_bytes: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None


def parse_stat(text: str) -> Stat | None:
    """A process may call itself anything, `) R 1` and line ends too: the last `)` ends its name."""
    head, opened, rest = text.partition("(")
    name, closed, tail = rest.rpartition(")")
    fields = tail.split()
    if not (head.strip().isdigit() and opened and closed and len(fields) > _SIZE):
        return None
    try:
        numbers = [0, *map(int, fields[1:])]
    except ValueError:
        return None
    return Stat(
        name="".join(letter if letter.isprintable() else "?" for letter in name),
        state=fields[_STATE],
        parent=numbers[_PARENT],
        is_kernels=bool(numbers[_FLAGS] & _KERNEL_THREAD),
        minor_faults=numbers[_MINOR],
        major_faults=numbers[_MAJOR],
        cpu_ticks=numbers[_USER] + numbers[_SYSTEM],
        reaped_ticks=sum(numbers[_REAPED]),
        nice=numbers[_NICE],
        threads=numbers[_THREADS],
        start_ticks=numbers[_START],
        mapped_bytes=numbers[_SIZE],
        cpu=numbers[_CPU] if len(numbers) > _CPU else None,
    )


def parse_schedstat(text: str, at: float) -> Ran | None:
    """Three numbers: nanoseconds that it ran, that it waited for a CPU, and how often it ran."""
    fields = text.split()
    if len(fields) < 2 or not all(each.isascii() and each.isdigit() for each in fields):
        return None
    return Ran(int(fields[0]) / NANOSECONDS, int(fields[1]) / NANOSECONDS, at)


def parse_status(text: str) -> Status:
    """Lines `Name:  value`; the process's name has its line ends escaped here."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return Status(
        process=_number(lines.get("Tgid")),
        allowed_cpus=_numbers(lines.get("Cpus_allowed_list")),
        allowed_nodes=_numbers(lines.get("Mems_allowed_list")),
        resident_bytes=_kib(lines.get("VmRSS")),
        swapped_bytes=_kib(lines.get("VmSwap")),
        locked_bytes=_kib(lines.get("VmLck")),
        voluntary_switches=_number(lines.get("voluntary_ctxt_switches")),
        involuntary_switches=_number(lines.get("nonvoluntary_ctxt_switches")),
    )


def parse_io(text: str) -> int | None:
    """Bytes that a process had fetched from storage, page faults' included (/proc/PID/io)."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return _number(lines.get("read_bytes"))


def _number(text: str | None) -> int | None:
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None


def _kib(text: str | None) -> int | None:
    number = _number((text or "").strip().removesuffix("kB"))
    return None if number is None else number << 10


def _numbers(text: str | None) -> tuple[int, ...] | None:
    try:
        return parse_list(text or "") or None
    except ValueError:
        return None


def stat(moment: Moment, pid: int, tid: int | None = None) -> Stat | None:
    """A process, or a thread of it; None where it is gone or hidden."""
    place = f"/proc/{pid}/stat" if tid is None else f"/proc/{pid}/task/{tid}/stat"
    return parse_stat(moment.text(place) or "")


def status(moment: Moment, pid: int, tid: int | None = None) -> Status | None:
    """As `stat`."""
    place = f"/proc/{pid}/status" if tid is None else f"/proc/{pid}/task/{tid}/status"
    text = moment.text(place)
    return parse_status(text) if text else None


def page_bytes(moment: Moment, pid: int) -> int | None:
    """A page of memory: the kernel tells all that a process maps in bytes, and in pages.

    None where it tells one of both alone. It may map more between the two: a page is a power of 2.
    """
    found, sizes = stat(moment, pid), moment.text(f"/proc/{pid}/statm") or ""
    pages = _number(sizes.partition(" ")[0])
    if found is None or found.mapped_bytes <= 0 or not pages:
        return None
    bits = (3 * found.mapped_bytes // (2 * pages)).bit_length()
    return 1 << (bits - 1) if bits else None


def processes(moment: Moment) -> dict[int, Stat]:
    """All that we see, by their ids, those that have ended and wait to be reaped among them."""
    pids = (int(name) for name in moment.reader.names("/proc") if name.isdigit())
    return {pid: found for pid in pids if (found := stat(moment, pid)) is not None}


def threads(moment: Moment, pids: tuple[int, ...]) -> list[Task]:
    """All that these processes have."""
    return [
        (pid, int(name))
        for pid in pids
        for name in moment.reader.names(f"/proc/{pid}/task")
        if name.isdigit()
    ]


def ran(moment: Moment, wanted: Iterable[Task], *, has_delays: bool = True) -> dict[Task, Ran]:
    """How long each of these threads has run; those that vanish meanwhile are left out.

    Without `has_delays` it is taken from `stat`, which is coarser and knows of no waiting.
    """
    one = _from_schedstat if has_delays else _from_stat
    found = ((task, one(moment, *task)) for task in wanted)
    return {task: each for task, each in found if each is not None}


def _from_schedstat(moment: Moment, pid: int, tid: int) -> Ran | None:
    return parse_schedstat(moment.text(f"/proc/{pid}/task/{tid}/schedstat") or "", moment.now())


def _from_stat(moment: Moment, pid: int, tid: int) -> Ran | None:
    found = stat(moment, pid, tid)
    return Ran(found.cpu_ticks / TICKS_PER_SECOND, None, moment.now()) if found else None
