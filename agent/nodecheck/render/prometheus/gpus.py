"""Figures of each card, by its PCI address: an identifier of the card itself is none of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.render.prometheus.text import Sample, Series
from nodecheck.report import Report
from nodecheck.units import MHZ


def _of_card(name: str, text: str, *labels: str) -> Series:
    return Series(f"nodecheck_gpu_{name}", text, ("gpu", *labels))


INFO = _of_card("info", "A card, always 1.", "index", "name", "vendor", "driver")
GRANTED = _of_card("granted", "1 where this node's programs may use the card.")
LOST = _of_card("lost", "1 where the driver has lost the card.")
VRAM = _of_card("memory_size_bytes", "VRAM of the card.")
USED = _of_card("utilisation_ratio", "Share of time in which a kernel ran, 0 to 1.")
POWER_LIMIT = _of_card("power_limit_watts", "Power that it may draw.")
MARGIN = _of_card("thermal_margin_celsius", "What is left before it slows down.")
VRAM_TEMPERATURE = _of_card("memory_temperature_celsius", "Temperature of its memory.")
CLOCK = _of_card("sm_clock_hertz", "Clock of its multiprocessors.")
CLOCK_MAX = _of_card("sm_clock_maximum_hertz", "Clock that they can reach.")
SLOWED = _of_card("clock_event", "1 for each reason that holds its clocks now.", "reason")
SLOWED_FOR = _of_card(
    "clock_event_seconds_total",
    "How long each reason has held its clocks since the driver was loaded.",
    "reason",
)
LIFETIME_ECC = _of_card("ecc_lifetime_errors_total", "ECC errors in the card's life.", "kind")
PENDING = _of_card("row_remap_pending", "1 where a row is to be replaced at the next reset.")
REMAP_FAILED = _of_card("row_remap_failed", "1 where no spare row was left for one.")
GENERATION = _of_card("pcie_link_generation", "PCIe generation now; idle cards lower it.")
GENERATION_MAX = _of_card("pcie_link_generation_maximum", "PCIe generation that the link can have.")
LANES = _of_card("pcie_link_lanes", "PCIe lanes in use.")
LANES_MAX = _of_card("pcie_link_lanes_maximum", "PCIe lanes that the link can have.")
NVLINKS = _of_card("nvlinks_active", "NVLinks of the card that are up.")
NVLINK_ERRORS = _of_card(
    "nvlink_errors_total", "Errors of all its NVLinks since the driver was loaded.", "kind"
)
PROGRAMS = _of_card("processes", "Programs on the card.")
SERIES = (
    INFO, GRANTED, LOST, VRAM, USED, POWER_LIMIT, MARGIN, VRAM_TEMPERATURE, CLOCK, CLOCK_MAX,
    SLOWED, SLOWED_FOR, LIFETIME_ECC, PENDING, REMAP_FAILED, GENERATION, GENERATION_MAX, LANES,
    LANES_MAX, NVLINKS, NVLINK_ERRORS, PROGRAMS,
)  # fmt: skip


def samples(report: Report) -> Iterator[Sample]:
    """All cards, those of others too: what is not known of one has no sample."""
    for gpu in report.facts.gpus:
        where = gpu.pci_address or str(gpu.index)
        yield _info(gpu, where, report.facts.gpu.driver_version)
        for series, value in _readings(gpu):
            if value is not None:
                yield Sample(series, value, (where,))
        yield from _clock_events(gpu, where)
        for series, kinds in ((LIFETIME_ECC, _lifetime_ecc(gpu)), (NVLINK_ERRORS, _nvlinks(gpu))):
            for kind, count in kinds.items():
                if count is not None:
                    yield Sample(series, count, (where, kind))


def _info(gpu: Gpu, where: str, driver_version: str | None) -> Sample:
    """The driver is NVIDIA's version, the kernel module of others."""
    index = "" if gpu.index is None else str(gpu.index)
    driver = driver_version if gpu.vendor == "nvidia" else gpu.driver
    about = (gpu.name or gpu.pci_device_id, gpu.vendor, driver)
    return Sample(INFO, 1, (where, index, *(each or "" for each in about)))


def _readings(gpu: Gpu) -> Iterator[tuple[Series, float | None]]:
    yield GRANTED, gpu.granted
    yield LOST, gpu.lost
    yield VRAM, gpu.memory_bytes
    yield USED, gpu.utilisation_share
    yield POWER_LIMIT, gpu.power_limit_watts
    yield MARGIN, gpu.thermal.margin_celsius if gpu.thermal else None
    yield VRAM_TEMPERATURE, gpu.memory_temperature_celsius
    yield CLOCK, _hertz(gpu.sm_clock_mhz)
    yield CLOCK_MAX, _hertz(gpu.maximum_sm_clock_mhz)
    yield PENDING, gpu.remap_pending
    yield REMAP_FAILED, gpu.remap_failure
    yield GENERATION, gpu.link_generation
    yield GENERATION_MAX, gpu.link_generation_max
    yield LANES, gpu.link_width
    yield LANES_MAX, gpu.link_width_max
    yield NVLINKS, sum(bool(link.active) for link in gpu.nvlinks) if gpu.nvlinks else None
    yield PROGRAMS, None if gpu.processes is None else len(gpu.processes)


def _hertz(mhz: int | None) -> float | None:
    return None if mhz is None else mhz * MHZ


def _clock_events(gpu: Gpu, where: str) -> Iterator[Sample]:
    for reason in gpu.clocks_event_reasons or ():
        yield Sample(SLOWED, 1, (where, reason))
    for reason, seconds in (gpu.clock_event_seconds or {}).items():
        yield Sample(SLOWED_FOR, seconds, (where, reason))


def _lifetime_ecc(gpu: Gpu) -> dict[str, int | None]:
    return {
        "corrected": gpu.ecc_aggregate_correctable,
        "uncorrected": gpu.ecc_aggregate_uncorrectable,
    }


def _nvlinks(gpu: Gpu) -> dict[str, int | None]:
    links = gpu.nvlinks or ()
    return {
        "crc": _sum(link.crc_errors for link in links),
        "replay": _sum(link.replay_errors for link in links),
        "recovery": _sum(link.recovery_errors for link in links),
        "fatal": _sum(link.fatal_errors for link in links),
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    """None where no link tells a count."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
