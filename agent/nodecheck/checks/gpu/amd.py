"""A card of AMD as amdgpu tells it in sysfs.

Source: Linux, Documentation/gpu/amdgpu and amdgpu_pm.c. What the driver has not for a card has no
file; during a reset, and in a guest that shares the card, it refuses those that are there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

import msgspec

from nodecheck.checks.gpu import amd_metrics, amd_products
from nodecheck.checks.gpu.amd_metrics import Table
from nodecheck.checks.gpu.card_files import (
    SECOND_SAMPLE_SECONDS,
    CardFiles,
    Reasons,
    Told,
    confirmed,
    link_of,
)
from nodecheck.checks.gpu.facts import Gpu, RetiredPages, Thermal
from nodecheck.machine.pci import PciDevice
from nodecheck.units import GB

DRIVER = "amdgpu"
KFD_NODES = "/sys/class/kfd/kfd/topology/nodes"

_LEVEL = re.compile(
    r"^\s*(?:\d{1,2}|S)\s*:\s*(\d{1,5})\s*Mhz\s*(\*?)", re.MULTILINE | re.IGNORECASE
)
_BAD_PAGES = re.compile(r"^0x[0-9a-f]{1,16}\s*:\s*0x[0-9a-f]{1,16}\s*:\s*[RPF]\s*$", re.MULTILINE)
_LAYER = re.compile(r"[0-9a-zA-Z_]{1,30}_err_count")
_WORD = re.compile(r"[\w.() /+-]{1,64}")
_UNIQUE = re.compile(r"[0-9a-f]{8,32}")


def read(files: CardFiles, card: Gpu, way: Sequence[PciDevice]) -> Told:
    """All that the files tell of `card`, whose way to the root is `way`."""
    table = amd_metrics.parse(files.binary("gpu_metrics", "clocks_event_reasons"))
    found = {
        **_identity(files),
        **_memory(files),
        **_clocks(files, table),
        **_power(files, table),
        **_temperatures(files, table),
        **_errors(files, table),
        **_of_compute_node(files, card.pci_address or ""),
        "clocks_event_reasons": _reasons(files, table),
    }
    found = {member: value for member, value in found.items() if value is not None}
    if not found:
        return Told(gpu=card, refusals=files.refusals)
    gpu = msgspec.structs.replace(card, **{**link_of(way), **found}, seen_by=("sysfs",))
    return Told(gpu=gpu, refusals=files.refusals)


def _identity(files: CardFiles) -> dict[str, object]:
    unique, serial = files.text("unique_id"), files.text("serial_number")
    name = files.text("product_name")
    return {
        "name": _whole(name) or _known_name(files),
        "uuid": unique if unique and _UNIQUE.fullmatch(unique) else None,
        "serial": _whole(serial),
        "vbios_version": _whole(files.text("vbios_version")),
        "performance_level": _whole(files.text("power_dpm_force_performance_level")),
        "partition_mode": _partition(files),
    }


def _whole(text: str | None) -> str | None:
    """One line of ordinary characters that says something."""
    said = text is not None and _WORD.fullmatch(text) and text.casefold() not in _UNSAID
    return text if said else None


_UNSAID = ("n/a", "unknown", "removed", "none")


def _known_name(files: CardFiles) -> str | None:
    """The product that shares its device id with others: the revision tells them apart."""
    device, revision = files.text("device"), files.text("revision")
    name = amd_products.BY_REVISION.get(f"{device}/{revision}".replace("0x", "").lower())
    return f"AMD {name}" if name else None


def _partition(files: CardFiles) -> str | None:
    compute = _whole(files.text("current_compute_partition"))
    memory = _whole(files.text("current_memory_partition"))
    return "/".join(part for part in (compute, memory) if part) or None


def _memory(files: CardFiles) -> dict[str, object]:
    """The whole card's, however it is cut up: partitions add nothing to it."""
    total = files.number("mem_info_vram_total", "memory_bytes")
    visible = files.number("mem_info_vis_vram_total", "bar1_bytes")
    return {
        "memory_bytes": total or None,
        "memory_used_bytes": files.number("mem_info_vram_used", "memory_used_bytes"),
        "bar1_bytes": visible or None,
    }


def _clocks(files: CardFiles, table: Table | None) -> dict[str, object]:
    busy = files.number("gpu_busy_percent", "utilisation_share")
    if busy is None and table is not None:
        busy = table.get("busy")
    now, most = _levels(files, "pp_dpm_sclk", "sm_clock_mhz")
    memory_now, memory_most = _levels(files, "pp_dpm_mclk", "memory_clock_mhz")
    return {
        "utilisation_share": busy / 100 if busy is not None and busy <= 100 else None,
        "sm_clock_mhz": now or _in_table(table, "gfx_clock"),
        "maximum_sm_clock_mhz": most,
        "memory_clock_mhz": memory_now or _in_table(table, "memory_clock"),
        "maximum_memory_clock_mhz": memory_most,
        **_rate(table),
    }


def _in_table(table: Table | None, name: str) -> int | None:
    return (table.get(name) if table is not None else None) or None


def _rate(table: Table | None) -> dict[str, object]:
    """What the firmware of newer cards says of their memory."""
    rate = _in_table(table, "memory_gb_per_second")
    known = rate is not None and rate < 1 << 20
    return {
        "vram_bytes_per_second": float(rate * GB) if rate is not None and known else None,
        "vram_rate_source": f"gpu_metrics: {rate} GB/s" if known else None,
    }


def _levels(files: CardFiles, name: str, member: str) -> tuple[int | None, int | None]:
    """The clock now (the line with a star) and the highest; `S` is that of deep sleep."""
    lines = _LEVEL.findall(files.text(name, member) or "")
    now = next((int(mhz) for mhz, star in lines if star), None)
    return now, max((int(mhz) for mhz, _ in lines), default=0) or None


def _power(files: CardFiles, table: Table | None) -> dict[str, object]:
    at = files.sensors()
    if at is None:
        power = _in_table(table, "power")
        return {"power_watts": float(power) if power is not None else None}
    drawn = files.watts(f"{at}/power1_average", "power_watts")
    limit = files.watts(f"{at}/power1_cap", "power_limit_watts")
    return {
        "power_watts": drawn or files.watts(f"{at}/power1_input", "power_watts"),
        "power_limit_watts": limit,
        "requested_power_limit_watts": limit,
        "default_power_limit_watts": files.watts(f"{at}/power1_cap_default"),
        "minimum_power_limit_watts": files.watts(f"{at}/power1_cap_min"),
        "maximum_power_limit_watts": files.watts(f"{at}/power1_cap_max"),
    }


def _temperatures(files: CardFiles, table: Table | None) -> dict[str, object]:
    """The hottest point's where it is told, with its own limits; else the edge's."""
    at = files.sensors()
    if at is None:
        return {
            "temperature_celsius": _in_table(table, "hotspot") or _in_table(table, "edge"),
            "memory_temperature_celsius": _in_table(table, "memory"),
        }
    labels = {files.text(f"{at}/temp{n}_label"): f"{at}/temp{n}" for n in (1, 2, 3)}
    core = labels.get("junction") or labels.get("edge") or f"{at}/temp1"
    memory = labels.get("mem")
    thermal = Thermal(
        slowdown_celsius=files.celsius(f"{core}_crit"),
        shutdown_celsius=files.celsius(f"{core}_emergency"),
        memory_max_celsius=files.celsius(f"{memory}_crit") if memory else None,
    )
    return {
        "temperature_celsius": files.celsius(f"{core}_input", "temperature_celsius"),
        "memory_temperature_celsius": files.celsius(f"{memory}_input") if memory else None,
        "thermal": thermal if thermal != Thermal() else None,
    }


def _errors(files: CardFiles, table: Table | None) -> dict[str, object]:
    """RAS (reliability, availability, serviceability): errors by part since the driver was loaded.

    Deferred ones (de) are poison that nothing has used yet: they are neither.
    """
    by_block = dict(_blocks(files))
    uncorrectable = {block: ue for block, (ue, _) in by_block.items() if ue}
    replays = files.number("pcie_replay_count", "pcie_replays")
    naks = {name: _counter(table, name) for name in ("nak_sent", "nak_received")}
    told = {name: value for name, value in naks.items() if value is not None}
    return {
        "ecc_volatile_uncorrectable": sum(ue for ue, _ in by_block.values()) if by_block else None,
        "ecc_volatile_correctable": sum(ce for _, ce in by_block.values()) if by_block else None,
        "uncorrectable_by_block": uncorrectable or None,
        "retired_pages": _retired(files),
        "pcie_replays": replays if replays is not None else _counter(table, "replays"),
        "pcie_replay_rollovers": _counter(table, "rollovers"),
        "pcie_errors": told or None,
    }


def _counter(table: Table | None, name: str) -> int | None:
    return table.get(name) if table is not None else None


def _blocks(files: CardFiles) -> Iterator[tuple[str, tuple[int, int]]]:
    """Part of the card -> its uncorrectable and its correctable errors."""
    for name in files.names("ras"):
        if not _LAYER.fullmatch(name):
            continue
        text = files.text(f"ras/{name}", "ecc_volatile_uncorrectable") or ""
        counts = dict(re.findall(r"^\s*(ue|ce)\s*:\s*(\d{1,18})\s*$", text, re.MULTILINE))
        if "ue" in counts:
            yield (
                name.removesuffix("_err_count"),
                (int(counts["ue"]), int(counts.get("ce", 0))),
            )


def _retired(files: CardFiles) -> RetiredPages | None:
    """Pages of memory that the driver took out of use, each after an uncorrectable error."""
    if "gpu_vram_bad_pages" not in files.names("ras"):
        return None
    text = files.text("ras/gpu_vram_bad_pages", "retired_pages")
    if text is None and "retired_pages" in files.refusals:
        return None
    return RetiredPages(double_bit=len(_BAD_PAGES.findall(text or "")))


def _of_compute_node(files: CardFiles, address: str) -> dict[str, object]:
    """What KFD, the driver's compute side, tells of the card.

    A card that is cut into partitions has one node for each, with the whole card's memory width and
    clock: only what all have in common is taken.
    """
    for node in files.names_at(KFD_NODES):
        text = files.text_at(f"{KFD_NODES}/{node}/properties") or ""
        properties = dict(re.findall(r"^(\w{1,40}) (\d{1,20})$", text, re.MULTILINE))
        if _address(properties) != address[:-2]:
            continue
        bank = files.text_at(f"{KFD_NODES}/{node}/mem_banks/0/properties") or ""
        width = re.search(r"^width (\d{1,5})$", bank, re.MULTILINE)
        return {
            "compute_capability": _generation(int(properties.get("gfx_target_version", 0))),
            "memory_bus_bits": int(width[1]) or None if width else None,
        }
    return {}


def _address(properties: dict[str, str]) -> str | None:
    """A node's PCI address without the function, in whose place a partition's number may stand."""
    if int(properties.get("gfx_target_version", 0)) == 0:  # a processor
        return None
    domain, place = int(properties.get("domain", 0)), int(properties.get("location_id", 0))
    return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}"


def _generation(version: int) -> str | None:
    """90402 as gfx942, 90010 as gfx90a, 110000 as gfx1100."""
    if not version:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _reasons(files: CardFiles, table: Table | None) -> Reasons | None:
    def again() -> Table | None:
        return amd_metrics.parse(files.binary("gpu_metrics", "clocks_event_reasons"))

    if table is None or not amd_metrics.counts_reasons(table):
        first = amd_metrics.reasons(table)
        return confirmed(first, lambda: amd_metrics.reasons(again()), live=files.live)
    if not files.live:
        return None
    time.sleep(SECOND_SAMPLE_SECONDS)
    return amd_metrics.reasons_between(table, again())
