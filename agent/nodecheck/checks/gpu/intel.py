"""A card of Intel as i915 or xe tells it in sysfs.

Sources: Linux, Documentation/ABI/testing/sysfs-driver-intel-{xe,i915}-hwmon, xe_gt_freq.c,
xe_gt_throttle.c, i915's intel_gt_sysfs_pm.c. Neither driver tells how busy a card is, nor its
memory's size and errors: of the size and the rate the product table knows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

import msgspec

from nodecheck.checks.gpu import intel_products
from nodecheck.checks.gpu.card_files import CardFiles, Reasons, Told, confirmed, link_of
from nodecheck.checks.gpu.facts import HW_SLOWDOWN, HW_THERMAL, POWER_CAP, SW_THERMAL, Gpu, Thermal
from nodecheck.machine.pci import PciDevice
from nodecheck.model import Reason
from nodecheck.units import GB, GIB, gib

DRIVERS = ("i915", "xe")
ENERGY_SECONDS = 0.25
"""Between two readings of the energy counter, which moves every millisecond or so."""

_REASONS = {
    **dict.fromkeys(("pl1", "pl2", "pl4", "psys_pl1", "psys_pl2"), POWER_CAP),
    **dict.fromkeys(
        ("thermal", "soc_thermal", "mem_thermal", "vr_thermal", "vr_thermalert"), HW_THERMAL
    ),
    **dict.fromkeys(("ratl", "soc_avg_thermal"), SW_THERMAL),
    "prochot": HW_SLOWDOWN,  # heat or power: the pin does not say which
}
"""The drivers' names of what holds the clocks -> reason; others are kept under Intel's name."""

_XE_REASON, _I915_REASON = "reason_", "throttle_reason_"
_NOT_ONE = "status"
_WINDOW = 2
_RANGE = re.compile(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x[0-9a-f]{1,16}")


def read(files: CardFiles, card: Gpu, way: Sequence[PciDevice]) -> Told:
    """All that the files tell of `card`, whose way to the root is `way`."""
    at = files.sensors()
    energy = _Energy(files, at)
    engines = list(_engines(files))
    found = {
        "sm_clock_mhz": min(filter(None, (clock for clock, _ in engines)), default=None),
        "maximum_sm_clock_mhz": max(filter(None, (most for _, most in engines)), default=None),
        "clocks_event_reasons": confirmed(
            _reasons(files), lambda: _reasons(files), live=files.live
        ),
        **(_power(files, at) if at is not None else {}),
        **(_temperatures(files, at) if at is not None else {}),
        "power_watts": energy.watts(),
    }
    found = {member: value for member, value in found.items() if value is not None}
    memory = _memory(files, card)
    if not found:
        return Told(gpu=msgspec.structs.replace(card, **memory), refusals=files.refusals)
    gpu = msgspec.structs.replace(card, **{**link_of(way), **memory, **found}, seen_by=("sysfs",))
    return Told(gpu=gpu, refusals=files.refusals)


class _Energy:
    """The power that a card draws, from what its energy counter gains while the rest is read."""

    def __init__(self, files: CardFiles, at: str | None) -> None:
        self._files = files
        places = [f"{at}/energy{n}_input" for n in (1, 2)] if at is not None and files.live else []
        self._place = next((p for p in places if files.number(p) is not None), None)
        self._started, self._first = time.monotonic(), self._microjoules()

    def _microjoules(self) -> int | None:
        return self._files.number(self._place) if self._place is not None else None

    def watts(self) -> float | None:
        """The mean since it was first read; None without a counter, or where it began anew."""
        if self._first is None:
            return None
        time.sleep(max(0.0, self._started + ENERGY_SECONDS - time.monotonic()))
        last, seconds = self._microjoules(), time.monotonic() - self._started
        if last is None or last < self._first:
            return None
        return round((last - self._first) / 1e6 / seconds, 1)


def _engines(files: CardFiles) -> Iterator[tuple[int | None, int | None]]:
    """Clock now and maximum of each tile's main engine; a sleeping one has no clock."""
    for place in _main(files):
        yield (
            files.mhz(f"{place[0]}{place[1]}", "sm_clock_mhz"),
            files.mhz(f"{place[0]}{place[2]}", "maximum_sm_clock_mhz"),
        )


def _main(files: CardFiles) -> Iterator[tuple[str, str, str]]:
    """Directory and the two files' names, of xe and then of i915."""
    for tile in files.names():
        if re.fullmatch(r"tile\d", tile):
            engines = [name for name in files.names(tile) if re.fullmatch(r"gt\d", name)]
            yield from ((f"{tile}/{gt}/freq0/", "act_freq", "rp0_freq") for gt in engines[:1])
    for card in _drm_cards(files):
        for name in files.names(f"drm/{card}/gt"):
            where = f"drm/{card}/gt/{name}/"
            yield (where, "rps_act_freq_mhz", "rps_RP0_freq_mhz")


def _drm_cards(files: CardFiles) -> list[str]:
    return [name for name in files.names("drm") if re.fullmatch(r"card\d+", name)]


def _reasons(files: CardFiles) -> Reasons | None:
    """What holds the clocks of any engine now; None where no engine tells."""
    active: dict[str, None] = {}
    told = False
    for directory, prefix in _reason_directories(files):
        for name in files.names(directory):
            if not name.startswith(prefix) or name == f"{prefix}{_NOT_ONE}":
                continue
            value = files.number(f"{directory}/{name}", "clocks_event_reasons")
            told = told or value is not None
            if value == 1:
                word = name.removeprefix(prefix)
                active[_REASONS.get(word, f"intel_{word}")] = None
    return tuple(active) if told else None


def _reason_directories(files: CardFiles) -> Iterator[tuple[str, str]]:
    for tile in files.names():
        if re.fullmatch(r"tile\d", tile):
            for gt in files.names(tile):
                yield f"{tile}/{gt}/freq0/throttle", _XE_REASON
    for card in _drm_cards(files):
        for gt in files.names(f"drm/{card}/gt"):
            yield f"drm/{card}/gt/{gt}", _I915_REASON


def _power(files: CardFiles, at: str) -> dict[str, object]:
    """The sustained limit (PL1) of the card, or else of its package; 0 is none."""
    limit = files.watts(f"{at}/power1_max", "power_limit_watts")
    rated = files.watts(f"{at}/power1_rated_max")
    if limit is None and rated is None:
        limit = files.watts(f"{at}/power2_max", "power_limit_watts")
        rated = files.watts(f"{at}/power2_rated_max")
    return {
        "power_limit_watts": limit,
        "requested_power_limit_watts": limit,
        "default_power_limit_watts": rated,
    }


def _temperatures(files: CardFiles, at: str) -> dict[str, object]:
    """The package's and the memory's, by their labels; i915 has the first alone."""
    labels = {files.text(f"{at}/temp{n}_label"): f"{at}/temp{n}" for n in range(1, 6)}
    package, memory = labels.get("pkg") or f"{at}/temp1", labels.get("vram")
    thermal = Thermal(
        slowdown_celsius=files.celsius(f"{package}_crit"),
        shutdown_celsius=files.celsius(f"{package}_emergency"),
        gpu_max_celsius=files.celsius(f"{package}_max"),
        memory_max_celsius=files.celsius(f"{memory}_crit") if memory else None,
    )
    return {
        "temperature_celsius": files.celsius(f"{package}_input", "temperature_celsius"),
        "memory_temperature_celsius": files.celsius(f"{memory}_input") if memory else None,
        "thermal": thermal if thermal != Thermal() else None,
    }


def _memory(files: CardFiles, card: Gpu) -> dict[str, object]:
    """Size and rate: what the driver tells of the size, else what the product comes with."""
    device = (card.pci_device_id or "").partition(":")[2]
    window = _window_bytes(files)
    told = _told_bytes(files)
    product = intel_products.memory(device, window, told)
    name = intel_products.SIZES.get(device, ("", ()))[0]
    found: dict[str, object] = {"bar1_bytes": window, "memory_bytes": told}
    if name:
        found["name"] = f"Intel {name}"
    if product is not None:
        rate = product.rate_gb_per_second
        found["memory_bytes"] = told or product.gib * GIB
        found["vram_bytes_per_second"] = rate * GB
        found["vram_rate_source"] = f"product table, PCI id {card.pci_device_id}: {rate:.0f} GB/s"
        if told is None:
            size = f"{gib(product.gib * GIB)} is what {name} comes with"
            words = f"{card.driver or 'the driver'} does not tell it; {size}"
            files.refusals["memory_used_bytes"] = (Reason.UNSUPPORTED, words)
    return {member: value for member, value in found.items() if value is not None}


def _told_bytes(files: CardFiles) -> int | None:
    """What some builds of the drivers tell: a file a tile, or one for the card."""
    tiles = [name for name in files.names() if re.fullmatch(r"tile\d", name)]
    sizes = [files.number(f"{tile}/physical_vram_size_bytes") for tile in tiles]
    if sizes and all(sizes):
        return sum(size or 0 for size in sizes)
    totals = [files.number(f"drm/{card}/lmem_total_bytes") for card in _drm_cards(files)]
    return next((total for total in totals if total), None)


def _window_bytes(files: CardFiles) -> int | None:
    """The size of the window (BAR 2) through which the CPU sees the card's memory."""
    lines = (files.text("resource") or "").splitlines()
    match = _RANGE.fullmatch(lines[_WINDOW].strip()) if len(lines) > _WINDOW else None
    if match is None:
        return None
    first, last = int(match[1], 16), int(match[2], 16)
    return last - first + 1 if last > first else None
