"""Reads what is there of RAM, how it is pressed, its errors, and how its slots are filled."""

from __future__ import annotations

import re
import time

from nodecheck.checks.memory import dimms
from nodecheck.checks.memory.facts import Dimm, MemoryController, MemoryFacts
from nodecheck.machine.reader import Reader, counters
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Struct

COMMAND_SECONDS = 2.0
CONFIRM_SECONDS = 0.5
CAPTURE_SAMPLE_SECONDS = 10.0
"""A capture's second sample (`proc/vmstat.2`) is that much later than its first."""

SWAP_SUSPICION_SHARE = 0.1
"""A swap less used than this needs no second sample."""

THP_ORDER = 9
"""2 MiB in pages of 4 KiB, as a power of two."""

_DMIDECODE = ("dmidecode", "-t", "17")
_ASK_ROOT = "only root may read which memory slots are filled; run: sudo dmidecode -t 17"
_INSTALL = "dmidecode is not installed; install the package dmidecode, then: sudo dmidecode -t 17"
_NO_EDAC = "the kernel shows no memory controller (EDAC)"
_MEMINFO = re.compile(r"^(\w+(?:\(\w+\))?):\s+(\d{1,16})(?: kB)?\s*$", re.MULTILINE)
_POOL = re.compile(r"hugepages-(\d{1,9})kB")
_EDAC = "/sys/devices/system/edac/mc"


class _Pressure(Struct, frozen=True):
    some_avg10: float
    full_avg10: float


def probe(reader: Reader) -> MemoryFacts:
    """The memory of the node. Members that end in `_now` exist only where a second sample does."""
    sizes = _meminfo(reader)
    pages = _hugepages(sizes)
    vmstat = counters(reader.text("/proc/vmstat", "swapped_in_pages") or "")
    pressure = _pressure(reader)
    later, seconds = _second_sample(reader, _is_suspicious(sizes, vmstat, pressure))
    return MemoryFacts(
        total_bytes=_kib(sizes, "MemTotal"),
        available_bytes=_available(reader, sizes),
        swap_total_bytes=_kib(sizes, "SwapTotal"),
        swap_free_bytes=_kib(sizes, "SwapFree"),
        hugepages_total=pages.get("Total"),
        hugepages_free=pages.get("Free"),
        hugepages_reserved=pages.get("Rsvd"),
        hugepage_bytes=_kib(sizes, "Hugepagesize"),
        hugepages_idle_bytes=_idle_hugepages(reader, sizes, pages),
        thp=_thp(reader),
        free_order9_blocks=_free_order9_blocks(reader),
        swapped_in_pages=vmstat.get("pswpin"),
        swapped_in_pages_now=_rise(vmstat, later, "pswpin"),
        major_faults_now=_rise(vmstat, later, "pgmajfault"),
        file_refaults_now=_rise(vmstat, later, _refaults(vmstat)),
        full_stall_avg10=pressure.full_avg10 if pressure else None,
        sample_seconds=seconds if later else None,
        controllers=_controllers(reader),
        dimms=_dimms(reader),
    )


def _meminfo(reader: Reader) -> dict[str, int]:
    """The numbers of /proc/meminfo as they stand there: KiB, or pages for HugePages_*."""
    text = reader.text("/proc/meminfo", "total_bytes")
    sizes = {name: int(value) for name, value in _MEMINFO.findall(text or "")}
    if text is not None and not sizes.get("MemTotal"):
        reader.gap("total_bytes", Reason.FAILED, "/proc/meminfo: no MemTotal that can be believed")
        sizes.pop("MemTotal", None)
    return sizes


def _kib(sizes: dict[str, int], name: str) -> int | None:
    return sizes[name] << 10 if name in sizes else None


def _available(reader: Reader, sizes: dict[str, int]) -> int | None:
    """MemAvailable; a kernel before 3.14 and some emulations do not have it."""
    available, total = sizes.get("MemAvailable"), sizes.get("MemTotal")
    if not sizes:
        return None
    if available is None:
        reader.gap("available_bytes", Reason.ABSENT, "/proc/meminfo: no MemAvailable")
    elif total is not None and available > total:
        reader.gap("available_bytes", Reason.FAILED, "/proc/meminfo: MemAvailable above MemTotal")
        return None
    return _kib(sizes, "MemAvailable")


def _hugepages(sizes: dict[str, int]) -> dict[str, int]:
    """Total, Free and Rsvd of the default size; nothing where they contradict each other."""
    pages = {
        name: sizes[f"HugePages_{name}"]
        for name in ("Total", "Free", "Rsvd")
        if f"HugePages_{name}" in sizes
    }
    surplus = sizes.get("HugePages_Surp", 0)
    return pages if pages.get("Free", 0) <= pages.get("Total", 0) + surplus else {}


def _idle_hugepages(reader: Reader, sizes: dict[str, int], pages: dict[str, int]) -> int | None:
    """Bytes of free and unreserved huge pages: the default size of meminfo, the others of sysfs."""
    default = sizes.get("Hugepagesize")
    idle = []
    if default and "Free" in pages:
        idle.append(max(0, pages["Free"] - pages.get("Rsvd", 0)) * default << 10)
    root = "/sys/kernel/mm/hugepages"
    for name in reader.names(root):
        pool = _POOL.fullmatch(name)
        if pool and int(pool[1]) != default:
            free = reader.integer(f"{root}/{name}/free_hugepages", None) or 0
            reserved = reader.integer(f"{root}/{name}/resv_hugepages", None) or 0
            idle.append(max(0, free - max(0, reserved)) * int(pool[1]) << 10)
    total = _kib(sizes, "MemTotal")
    believable = bool(idle) and (total is None or sum(idle) <= total)
    return sum(idle) if believable else None


def _thp(reader: Reader) -> str | None:
    text = reader.text("/sys/kernel/mm/transparent_hugepage/enabled", None)
    chosen = re.search(r"\[(\w+)\]", text or "")
    return chosen[1] if chosen else None


def _free_order9_blocks(reader: Reader) -> int | None:
    """Free blocks of order 9 and above over all zones; None unless every line has those columns."""
    text = reader.text("/proc/buddyinfo", "free_order9_blocks")
    total, lines = 0, 0
    for line in (text or "").splitlines():
        found = re.fullmatch(r"Node\s+\d+, zone\s+\w+((?:\s+\d{1,18})+)\s*", line)
        orders = [int(number) for number in found[1].split()] if found else []
        if len(orders) <= THP_ORDER:
            return None
        total += sum(orders[THP_ORDER:])
        lines += 1
    return total if lines else None


def _pressure(reader: Reader) -> _Pressure | None:
    """The share of the last 10 s in which some or all tasks waited for memory (PSI)."""
    text = reader.text("/proc/pressure/memory", "full_stall_avg10")
    lines = re.findall(r"^(some|full) avg10=(\d{1,3}\.\d+)\s", text or "", re.MULTILINE)
    shares = {name: float(percentage) / 100 for name, percentage in lines}
    if not 0 <= shares.get("full", -1) <= 1:
        return None
    return _Pressure(shares.get("some", shares["full"]), shares["full"])


def _is_suspicious(
    sizes: dict[str, int], vmstat: dict[str, int], pressure: _Pressure | None
) -> bool:
    """Whether a second sample may find memory being read from disk again and again."""
    total, free = sizes.get("SwapTotal", 0), sizes.get("SwapFree", 0)
    swapping = total - free >= SWAP_SUSPICION_SHARE * total > 0 and vmstat.get("pswpin", 0) > 0
    if pressure is None:
        return swapping or vmstat.get(_refaults(vmstat), 0) > 0
    return swapping or pressure.some_avg10 > 0


def _second_sample(reader: Reader, suspicious: bool) -> tuple[dict[str, int], float]:
    """A later vmstat and by how much: live only to confirm, of a capture `proc/vmstat.2`."""
    if not reader.host.live:
        return counters(reader.text("/proc/vmstat.2", None) or ""), CAPTURE_SAMPLE_SECONDS
    if not suspicious:
        return {}, 0.0
    start = time.monotonic()
    time.sleep(CONFIRM_SECONDS)
    return counters(reader.text("/proc/vmstat", None) or ""), time.monotonic() - start


def _refaults(vmstat: dict[str, int]) -> str:
    """Linux 5.9 split the counter into file and anonymous pages."""
    split = "workingset_refault_file"
    return split if split in vmstat else "workingset_refault"


def _rise(before: dict[str, int], after: dict[str, int], name: str) -> int | None:
    if name not in before or name not in after or after[name] < before[name]:
        return None
    return after[name] - before[name]


def _errors(reader: Reader, controller: str, kind: str) -> int | None:
    """What a controller counted; where it has no sum, the sum over its rows or its modules."""
    folder = f"{_EDAC}/{controller}"
    parts = [n for n in reader.names(folder) if re.fullmatch(r"(csrow|dimm|rank)\d+", n)]
    files = [
        f"{folder}/{part}/{'' if part.startswith('csrow') else 'dimm_'}{kind}_count"
        for part in parts
    ]
    total = reader.integer(f"{folder}/{kind}_count", None if files else "controllers")
    counts = [n for n in (reader.integer(file, None) for file in files) if n is not None]
    return total if total is not None or not counts else sum(counts)


def _controllers(reader: Reader) -> tuple[MemoryController, ...]:
    """The EDAC counters; a controller whose files cannot be read is a gap."""
    controllers = []
    for name in _controller_names(reader):
        correctable = _errors(reader, name, "ce")
        uncorrectable = _errors(reader, name, "ue")
        if correctable is None and uncorrectable is None:
            continue
        controllers.append(
            MemoryController(
                name=name,
                correctable=max(0, correctable or 0),
                uncorrectable=max(0, uncorrectable or 0),
                dimms=_failing_dimms(reader, f"{_EDAC}/{name}"),
            )
        )
    return tuple(controllers)


def _controller_names(reader: Reader) -> list[str]:
    """The folders of the memory controllers; a kernel without one (as in guests) is a gap."""
    try:
        names = [n for n in reader.host.names(_EDAC) if re.fullmatch(r"mc\d+", n)]
    except UnreadableError as error:
        detail = f"{_NO_EDAC}: {error.detail}" if error.reason is Reason.ABSENT else error.detail
        reader.gap("controllers", error.reason, detail)
        return []
    if not names:
        reader.gap("controllers", Reason.ABSENT, f"{_NO_EDAC}: {_EDAC} is empty")
    return names


def _failing_dimms(reader: Reader, controller: str) -> tuple[str, ...]:
    failing = []
    for name in reader.names(controller):
        if re.fullmatch(r"(dimm|rank)\d+", name):
            path = f"{controller}/{name}"
            counts = [reader.integer(f"{path}/dimm_{kind}_count", None) for kind in ("ce", "ue")]
            if any(count and count > 0 for count in counts):
                failing.append(reader.text(f"{path}/dimm_label", None) or name)
    return tuple(failing)


def _dimms(reader: Reader) -> tuple[Dimm, ...]:
    """How the slots are filled; only root may read it on most systems."""
    try:
        output = reader.host.run(_DMIDECODE, COMMAND_SECONDS)
    except UnreadableError as error:
        is_missing = error.reason is Reason.ABSENT and reader.host.live
        reader.gap("dimms", error.reason, _INSTALL if is_missing else error.detail)
        return ()
    found = dimms.parse(output.text)
    if found:
        return found
    if re.search(r"permission denied|not permitted", output.text, re.IGNORECASE):
        reader.gap("dimms", Reason.DENIED, _ASK_ROOT)
    else:
        detail = "dmidecode -t 17: the firmware describes no memory slot"
        reader.gap("dimms", Reason.UNSUPPORTED, detail)
    return ()
