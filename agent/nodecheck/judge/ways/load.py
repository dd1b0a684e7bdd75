"""How long a model takes to load, and whether a disk has the room for it."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.disk.facts import Filesystem
from nodecheck.checks.disk.mounts import NETWORK_TYPES
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.fits.room import LLAMA_CPP, SGLANG, VLLM, engines_for
from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.ways.answers import refused, unknown
from nodecheck.model import Lever, Strategy, Viability
from nodecheck.serving import Storage, Workload
from nodecheck.units import gb_per_second, gib, percent

NAME, SECONDS = "model-load", "s"

SLOW_TO_MAP = NETWORK_TYPES | {"overlay", "fuseblk", "fuse"}
"""File systems on which pages of a mapped file come in small reads over a wire or through a program
or layers of an image; `fuse.` and anything too. Source: vLLM, config/load.py, for NFS and Lustre;
nodecheck's own judgement for the others."""

WITHOUT_MAPPING = {
    LLAMA_CPP: "--load-mode none",
    SGLANG: "--weight-loader-disable-mmap",
    VLLM: "--safetensors-load-strategy eager",
}
"""Flags that read files in large pieces instead. Source: llama.cpp 0c1e57098, common/arg.cpp (older
builds: --no-mmap); SGLang 0.5.23, arg_groups/fields/model.py; vLLM 0.33.0, config/load.py."""

HOLES_MIN = 0.99
"""A file with less of its size on the disk is not complete."""

COMPRESSING = frozenset(("btrfs", "zfs", "bcachefs", "f2fs", "ntfs3", "squashfs", "erofs"))
"""File systems that may keep files in fewer bytes than they hold."""


def model_load(seen: Seen, work: Workload) -> Strategy:
    """Seconds until the weights lie where they are used, from the disk and the page cache.

    Also whether there is a disk with the room for them.
    """
    where = filesystem(seen, work)
    short = _no_room(work, where)
    if short:
        lever = Lever(resource="disk", change=f"{gib(_wanted(work))} free on one file system")
        return _refused(short, lever)
    said = [_disk_room(work, where), _mapping(seen, work), holes(work.storage)]
    time = load_seconds(seen, work)
    if time is None:
        return unknown(NAME, _joined(_why_unknown(work), *said), unit=SECONDS)
    storage = work.storage
    rate = (storage.sequential_bytes_per_second or 0.0) if storage else 0.0
    return Strategy(
        strategy=NAME,
        viability=Viability.VIABLE,
        limit=f"disk, {gb_per_second(rate)}" if _uncached(work) else "page cache",
        low=time.low,
        high=time.high,
        unit=SECONDS,
        basis=_joined(_sources(work), *said),
        levers=_levers(seen, work, time),
    )


def load_seconds(seen: Seen, work: Workload) -> Range | None:
    """Fastest: disk, memory and link at once; slowest: one after the other. None without a rate."""
    storage = work.storage
    if storage is None or not storage.sequential_bytes_per_second:
        return None
    size = storage.size_bytes or work.weight_bytes_shipped
    disk = _uncached(work) / storage.sequential_bytes_per_second
    read = node.best_read(seen.measurements)
    cached = (size - _uncached(work)) / read.median_bytes_per_second if read else 0.0
    link = node.host_link(seen, node.cards(seen))
    low, high = ceilings.LINK_EFFICIENCY
    fast, slow = (size / (link * high), size / (link * low)) if link else (0.0, 0.0)
    return Range(max(disk + cached, fast), disk + cached + slow)


def _uncached(work: Workload) -> int:
    """Bytes that the disk must give."""
    storage = work.storage
    if storage is None:
        return work.weight_bytes_shipped
    size = storage.size_bytes or work.weight_bytes_shipped
    return max(0, size - (storage.cached_bytes or 0))


def slow_to_map(seen: Seen, work: Workload) -> str | None:
    """The type of the model's file system where mapping its files is slow; None where it is not."""
    storage = work.storage
    if storage is None or storage.fstype is None:
        return None
    where = _mounted(seen, storage)
    remote = where is not None and where.network
    kind = storage.fstype
    return kind if remote or _is_slow(kind) else None


def filesystem(seen: Seen, work: Workload) -> Filesystem | None:
    """The file system that holds the model, else the one with the most room; None if unknown."""
    if work.storage and (held := _mounted(seen, work.storage)):
        return held
    roomy = [
        f for f in seen.facts.disk.filesystems if f.persistent and f.available_bytes is not None
    ]
    return max(roomy, key=lambda f: f.available_bytes or 0, default=None)


def _mounted(seen: Seen, storage: Storage) -> Filesystem | None:
    return next((f for f in seen.facts.disk.filesystems if f.mount == storage.mount), None)


def is_here(work: Workload) -> bool:
    """Whether the weights themselves lie on this node already."""
    return work.storage is not None and work.format in ("gguf", "safetensors")


def conversion_bytes(work: Workload) -> int | None:
    """Room for what llama.cpp makes of a checkpoint beside it; None where it needs none.

    convert_hf_to_gguf.py keeps MXFP4 as it is and writes all else with 16 bits a weight, to be
    quantised then.
    """
    if LLAMA_CPP in engines_for(work) or work.format not in ("safetensors", "config"):
        return None
    kept = work.weight_type == "mxfp4"
    return (
        work.weight_bytes_shipped if kept else work.weight_bytes_bf16 or work.weight_bytes_shipped
    )


def _wanted(work: Workload) -> int:
    return 0 if is_here(work) else work.weight_bytes_shipped


def _no_room(work: Workload, where: Filesystem | None) -> str | None:
    if where is None or where.available_bytes is None or where.available_bytes >= _wanted(work):
        return None
    return f"{gib(_wanted(work))} needed, {where.mount} has {gib(where.available_bytes)} free"


def _refused(why: str, lever: Lever) -> Strategy:
    found = refused(NAME, "disk space", why, unit=SECONDS)
    return replace(found, levers=(lever,))


def _disk_room(work: Workload, where: Filesystem | None) -> str | None:
    """How often the model fits beside itself, and whether a conversion does."""
    if where is None or where.available_bytes is None:
        return None
    times = where.available_bytes // max(1, work.weight_bytes_shipped)
    often = "once" if times == 1 else f"{times} times"
    more = " more" if is_here(work) else ""
    said = f"this model fits {often}{more} on {where.mount}"
    needed = conversion_bytes(work)
    if needed is None:
        return said
    there = "has" if where.available_bytes >= needed + _wanted(work) else "has not"
    return f"{said}; a conversion for llama.cpp needs {gib(needed)} beside it, which it {there}"


def _mapping(seen: Seen, work: Workload) -> str | None:
    """Which flags keep the engines from mapping files where that is slow."""
    kind = slow_to_map(seen, work)
    if kind is None:
        return None
    flags = ", ".join(f"{each} {WITHOUT_MAPPING[each]}" for each in engines_for(work))
    return f"on {kind} mapped pages come one by one: start {flags}"


def holes(storage: Storage | None) -> str | None:
    """A file that is still being fetched, or was left incomplete.

    Servers and FUSE programs that tell of no block at all tell nothing.
    """
    if storage is None or not storage.size_bytes or storage.allocated_bytes is None:
        return None
    if not storage.allocated_bytes and _is_slow(storage.fstype or ""):
        return None
    share = storage.allocated_bytes / storage.size_bytes
    if share >= HOLES_MIN:
        return None
    may = ", or is compressed" if storage.fstype in COMPRESSING else ""
    said = "it has holes, or is not complete"
    return f"only {percent(share)} of the file is on the disk: {said}{may}"


def _is_slow(fstype: str) -> bool:
    return fstype in SLOW_TO_MAP or fstype.startswith("fuse.")


def _joined(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)


def _why_unknown(work: Workload) -> str:
    detail = work.storage.detail if work.storage else None
    return f"disk read not measured{f': {detail}' if detail else ''}"


def _sources(work: Workload) -> str:
    """How much comes from where."""
    storage = work.storage
    if storage is None:
        return ""
    size, uncached = storage.size_bytes or work.weight_bytes_shipped, _uncached(work)
    rate = gb_per_second(storage.sequential_bytes_per_second or 0.0)
    if not uncached:
        return f"all {gib(size)} lie in the page cache"
    share = f", {gib(size - uncached)} of it in the page cache" if uncached < size else ""
    return f"{gib(size)}{share}; disk {rate} (measured)"


def _levers(seen: Seen, work: Workload, time: Range) -> tuple[Lever, ...]:
    """Twice the disk; the page cache, where free RAM holds the files."""
    storage = work.storage
    if storage is None or not storage.sequential_bytes_per_second or not _uncached(work):
        return ()
    quick = replace(storage, sequential_bytes_per_second=2 * storage.sequential_bytes_per_second)
    sooner = load_seconds(seen, replace(work, storage=quick)) or time
    faster = Lever(
        resource="disk", change="a disk of twice the rate", low=sooner.low, high=sooner.high
    )
    free = node.free_ram_bytes(seen)
    if free is None or free < work.weight_bytes_shipped:
        return (faster,)
    warm = replace(storage, cached_bytes=storage.size_bytes or work.weight_bytes_shipped)
    again = load_seconds(seen, replace(work, storage=warm))
    if again is None:
        return (faster,)
    change = "the files read once before, so that the page cache holds them"
    return Lever(resource="ram", change=change, low=again.low, high=again.high), faster
