"""What AMD's own tool prints in JSON, for what amdgpu's files leave open.

`amd-smi static` and `amd-smi metric`: a list of cards, from ROCm 7 on under `gpu_data`. A value is
a number, `{"value": 1, "unit": "W"}` or "N/A"; -1 and all ones stand for what is not there. MB are
2^20 bytes. Source: AMD's documentation of the tool and what it prints on MI210, MI300X and Navi.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from nodecheck.checks.gpu.amd_metrics import VIOLATIONS
from nodecheck.checks.gpu.card_files import SECOND_SAMPLE_SECONDS, lasting
from nodecheck.checks.gpu.facts import HOLDING, Gpu, Thermal
from nodecheck.checks.gpu.wording import AMD, card_key
from nodecheck.links import GENERATIONS
from nodecheck.machine.pci import normal_address
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from nodecheck.units import MIB

STATIC = ("amd-smi", "static", "--json")
METRIC = ("amd-smi", "metric", "--json")
DEADLINE_SECONDS = 3.0
"""A Python program that starts the library anew: it takes about half a second."""

WANTED = (
    "memory_bytes",
    "utilisation_share",
    "sm_clock_mhz",
    "power_watts",
    "temperature_celsius",
)
"""Members for whose sake it is asked on a live node."""

_ALL_ONES = ((1 << 16) - 1, (1 << 32) - 1)
_LARGEST = 1 << 53

Json = dict[str, object]


class _Printed(msgspec.Struct):
    """What the tool prints from ROCm 7 on."""

    gpu_data: list[Json]


def read(reader: Reader, on_pci: Sequence[Gpu], told: Sequence[Gpu]) -> list[Gpu]:
    """The cards as the tool tells them; () where it is not needed, not there or says nothing.

    A card in partitions is several for the tool: what PCI does not list is no card.
    """
    if reader.host.live and not _is_wanted(told):
        return []
    static, metric = _asked(reader, STATIC), _asked(reader, METRIC)
    by_index = {_whole(record, "gpu"): record for record in metric}
    known = {card_key(gpu.pci_address): gpu.pci_address for gpu in on_pci}
    found: dict[str, Gpu] = {}
    for record in static:
        said = _text(record, "bus", "bdf")
        address = normal_address(said) if said else None
        if address is None:
            continue
        if known and address not in known.values():
            continue
        key = card_key(address) or address
        found.setdefault(key, _gpu(address, record, by_index.get(_whole(record, "gpu"), {})))
    return _confirmed(reader, static, list(found.values()))


def _confirmed(reader: Reader, static: Sequence[Json], cards: list[Gpu]) -> list[Gpu]:
    """The cards with only those reasons that a second look of a live node shows too."""
    held = [gpu for gpu in cards if set(gpu.clocks_event_reasons or ()) & set(HOLDING)]
    if not held or not reader.host.live:
        return cards
    time.sleep(SECOND_SAMPLE_SECONDS)
    again = {_whole(record, "gpu"): _reasons(record) for record in _asked(reader, METRIC)}
    seconds = {
        normal_address(_text(record, "bus", "bdf") or ""): again.get(_whole(record, "gpu"))
        for record in static
    }
    return [
        msgspec.structs.replace(
            gpu,
            clocks_event_reasons=lasting(
                gpu.clocks_event_reasons or (), seconds.get(gpu.pci_address)
            ),
        )
        if gpu in held
        else gpu
        for gpu in cards
    ]


def _is_wanted(told: Sequence[Gpu]) -> bool:
    cards = [gpu for gpu in told if gpu.vendor == AMD and gpu.error is None and gpu.driver]
    return any(getattr(gpu, member) is None for gpu in cards for member in WANTED)


def _asked(reader: Reader, argv: tuple[str, ...]) -> list[Json]:
    """The records that it prints; what is no JSON of cards is a gap, that it is not there none."""
    output = reader.command(argv, None, DEADLINE_SECONDS)
    if output is None or output.status != 0:
        return []
    try:
        printed = msgspec.json.decode(output.text, type=list[Json] | _Printed)
    except (msgspec.MsgspecError, RecursionError) as error:
        reader.gap("gpus", Reason.FAILED, f"{' '.join(argv)}: {error}")
        return []
    return printed.gpu_data if isinstance(printed, _Printed) else printed


def _gpu(address: str, static: Json, metric: Json) -> Gpu:
    busy = _number(metric, "usage", "gfx_activity")
    errors = dict(_blocks(metric))
    uncorrectable = _number(metric, "ecc", "total_uncorrectable_count")
    return Gpu(
        pci_address=address,
        vendor=AMD,
        seen_by=("amd-smi",),
        name=_text(static, "asic", "market_name"),
        serial=_text(static, "asic", "asic_serial"),
        vbios_version=_text(static, "vbios", "version"),
        compute_capability=_text(static, "asic", "target_graphics_version"),
        memory_bytes=_bytes(static, "vram", "size") or _bytes(metric, "mem_usage", "total_vram"),
        memory_used_bytes=_bytes(metric, "mem_usage", "used_vram"),
        memory_bus_bits=_whole(static, "vram", "bit_width") or None,
        utilisation_share=busy / 100 if busy is not None and busy <= 100 else None,
        sm_clock_mhz=_whole(metric, "clock", "gfx_0", "clk") or None,
        maximum_sm_clock_mhz=_whole(metric, "clock", "gfx_0", "max_clk") or None,
        memory_clock_mhz=_whole(metric, "clock", "mem_0", "clk") or None,
        maximum_memory_clock_mhz=_whole(metric, "clock", "mem_0", "max_clk") or None,
        power_watts=_number(metric, "power", "socket_power"),
        power_limit_watts=_limit(static, "socket_power", "socket_power_limit"),
        minimum_power_limit_watts=_limit(static, "min_power", "min_power_limit"),
        maximum_power_limit_watts=_limit(static, "max_power", "max_power_limit"),
        temperature_celsius=_whole(metric, "temperature", "hotspot")
        or _whole(metric, "temperature", "edge"),
        memory_temperature_celsius=_whole(metric, "temperature", "mem"),
        thermal=_thermal(static),
        clocks_event_reasons=_reasons(metric),
        ecc_volatile_uncorrectable=None if uncorrectable is None else int(uncorrectable),
        ecc_volatile_correctable=_whole(metric, "ecc", "total_correctable_count"),
        uncorrectable_by_block=errors or None,
        pcie_replays=_whole(metric, "pcie", "replay_count"),
        pcie_replay_rollovers=_whole(metric, "pcie", "replay_roll_over_count"),
        link_generation=_generation(metric, "pcie", "speed"),
        link_width=_whole(metric, "pcie", "width") or None,
        link_generation_device_max=_generation(static, "bus", "max_pcie_speed"),
        link_width_max=_whole(static, "bus", "max_pcie_width") or None,
        performance_level=_level(metric),
        numa_node=_whole(static, "numa", "node"),
    )


def _at(record: Json, *path: str) -> object:
    """What lies at `path`, without its unit."""
    value: object = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value.get("value") if isinstance(value, dict) else value


def _unit(record: Json, *path: str) -> str:
    value: object = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return str(value.get("unit", "")) if isinstance(value, dict) else ""


def _text(record: Json, *path: str) -> str | None:
    value = _at(record, *path)
    said = isinstance(value, str) and value.strip() and value.strip() != "N/A"
    return value.strip()[:80] if isinstance(value, str) and said else None


def _number(record: Json, *path: str) -> float | None:
    value = _at(record, *path)
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= 20 else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 <= value < _LARGEST and value not in _ALL_ONES else None


def _whole(record: Json, *path: str) -> int | None:
    value = _number(record, *path)
    return int(value) if value is not None else None


def _bytes(record: Json, *path: str) -> int | None:
    value = _number(record, *path)
    scale = {"B": 1, "KB": 1 << 10, "MB": MIB, "GB": 1 << 30}.get(_unit(record, *path))
    return int(value * scale) if value and scale else None


def _limit(static: Json, *names: str) -> float | None:
    """A power limit, which stands under `ppt0` from ROCm 7 on."""
    places = [("limit", name) for name in names] + [("limit", "ppt0", name) for name in names]
    return next(filter(None, (_number(static, *place) for place in places)), None)


def _thermal(static: Json) -> Thermal | None:
    found = Thermal(
        slowdown_celsius=_whole(static, "limit", "slowdown_hotspot_temperature"),
        shutdown_celsius=_whole(static, "limit", "shutdown_hotspot_temperature"),
        memory_max_celsius=_whole(static, "limit", "slowdown_vram_temperature"),
    )
    return found if found != Thermal() else None


def _reasons(metric: Json) -> tuple[str, ...] | None:
    """What violated a limit while the tool looked; None unless it says so of every one."""
    found: dict[str, None] = {}
    for name, reason in VIOLATIONS.items():
        status = _text(metric, "throttle", f"{name}_violation_status")
        if status not in ("ACTIVE", "NOT ACTIVE"):
            return None
        if status == "ACTIVE":
            found[reason] = None
    return tuple(found)


def _blocks(metric: Json) -> Iterator[tuple[str, int]]:
    """Part of the card -> its uncorrectable errors, where there are any."""
    blocks = metric.get("ecc_blocks")
    for name in blocks if isinstance(blocks, dict) else ():
        if count := _whole(metric, "ecc_blocks", name, "uncorrectable_count"):
            yield str(name)[:20].casefold(), count


def _generation(record: Json, *path: str) -> int | None:
    """A lane's speed as a generation; the tool's library counts in MT/s."""
    speed = _number(record, *path)
    if speed is None:
        return None
    return GENERATIONS.get(speed / 1000 if _unit(record, *path) == "MT/s" else speed)


def _level(metric: Json) -> str | None:
    level = _text(metric, "perf_level")
    return level.removeprefix("AMDSMI_DEV_PERF_LEVEL_").casefold() if level else None
