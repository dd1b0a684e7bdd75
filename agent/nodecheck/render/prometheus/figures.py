"""Figures of the node itself: CPU, RAM, file systems, errors that were counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nodecheck.records.figures import LOGGED, Figure, Kind
from nodecheck.records.figures import figures as figures_of
from nodecheck.render.prometheus.text import Sample, Series
from nodecheck.report import Report
from nodecheck.units import MHZ

CPUS = Series("nodecheck_cpus", "Logical CPUs.")
LEVEL = Series("nodecheck_cpu_x86_64_level", "Level of x86-64 that programs can use, 1 to 4.")
STEAL = Series("nodecheck_cpu_steal_ratio", "Share of CPU time that the hypervisor took, 0 to 1.")
BUSY = Series("nodecheck_cpu_busy_ratio", "Share of CPU time in use, 0 to 1.")
LOAD = Series("nodecheck_load1", "Load average over a minute.")
CLOCK = Series("nodecheck_cpu_clock_hertz", "Median clock of the CPUs.")
RAM = Series("nodecheck_memory_size_bytes", "RAM of the node.")
RAM_AVAILABLE = Series("nodecheck_memory_available_bytes", "RAM that programs can still get.")
RAM_ERRORS = Series(
    "nodecheck_memory_errors_total",
    "Errors that a memory controller counted since boot.",
    ("controller", "kind"),
)
DISK = Series(
    "nodecheck_filesystem_size_bytes",
    "Size of a file system that a model could be kept on.",
    ("mount",),
)
DISK_AVAILABLE = Series(
    "nodecheck_filesystem_available_bytes", "What users may still write on it.", ("mount",)
)
INODES = Series("nodecheck_filesystem_inodes", "Files that it can hold.", ("mount",))
INODES_FREE = Series(
    "nodecheck_filesystem_inodes_free", "Files that it can still take.", ("mount",)
)
DISK_ERRORS = Series(
    "nodecheck_filesystem_errors_total", "Errors that ext4 or btrfs counted on it.", ("mount",)
)
ECC_ERRORS = Series(
    "nodecheck_gpu_ecc_errors_total", "ECC errors since the driver was loaded.", ("gpu", "kind")
)
REMAPPED = Series(
    "nodecheck_gpu_remapped_rows_total",
    "Rows of VRAM that were replaced after errors that ECC could not correct.",
    ("gpu",),
)
REPLAYS = Series(
    "nodecheck_gpu_pcie_replays_total", "PCIe packets that the card sent again.", ("gpu",)
)
AER = Series(
    "nodecheck_pcie_errors_total",
    "PCIe errors that a device on the way to a card reported since boot (AER).",
    ("device", "kind"),
)
XIDS = Series(
    "nodecheck_kernel_log_xids",
    "Xid events in the kernel log since boot; the log forgets its oldest lines.",
    ("gpu", "xid"),
)
TEMPERATURE = Series("nodecheck_gpu_temperature_celsius", "Temperature of a GPU.", ("gpu",))
POWER = Series("nodecheck_gpu_power_watts", "Power that a GPU draws.", ("gpu",))
VRAM_USED = Series("nodecheck_gpu_memory_used_bytes", "VRAM in use.", ("gpu",))
SERIES = (
    CPUS, LEVEL, STEAL, BUSY, LOAD, CLOCK, RAM, RAM_AVAILABLE, RAM_ERRORS, DISK, DISK_AVAILABLE,
    INODES, INODES_FREE, DISK_ERRORS, ECC_ERRORS, REMAPPED, REPLAYS, AER, XIDS, TEMPERATURE, POWER,
    VRAM_USED,
)  # fmt: skip


class Place(NamedTuple):
    """The series of a figure: `kind` is the label after its place, `scale` makes base units."""

    series: Series
    kind: str | None = None
    scale: float = 1.0


SERIES_OF = {
    "disk_available": Place(DISK_AVAILABLE),
    "inodes_free": Place(INODES_FREE),
    "disk_errors": Place(DISK_ERRORS),
    "ecc_corrected": Place(ECC_ERRORS, "corrected"),
    "ecc_uncorrected": Place(ECC_ERRORS, "uncorrected"),
    "rows_remapped": Place(REMAPPED),
    "pcie_replays": Place(REPLAYS),
    "aer_correctable": Place(AER, "correctable"),
    "aer_nonfatal": Place(AER, "nonfatal"),
    "aer_fatal": Place(AER, "fatal"),
    "ram_corrected": Place(RAM_ERRORS, "corrected"),
    "ram_uncorrected": Place(RAM_ERRORS, "uncorrected"),
    "memory_available": Place(RAM_AVAILABLE),
    "steal_share": Place(STEAL),
    "busy_share": Place(BUSY),
    "load_1min": Place(LOAD),
    "cpu_clock": Place(CLOCK, scale=MHZ),
    "gpu_temperature": Place(TEMPERATURE),
    "gpu_power": Place(POWER),
    "gpu_memory_used": Place(VRAM_USED),
}
"""Every figure of records.figures that is not measured, by its name."""


def samples(report: Report) -> Iterator[Sample]:
    """What the history follows, and the sizes that it is held against."""
    for figure in figures_of(report):
        if figure.metric.kind is not Kind.RATE:
            yield _followed(figure)
    cpu, memory = report.facts.cpu, report.facts.memory
    for series, value in (
        (CPUS, cpu.logical_cpus),
        (LEVEL, cpu.x86_64_level),
        (RAM, memory.total_bytes),
    ):
        if value is not None:
            yield Sample(series, value)
    for each in report.facts.disk.filesystems:
        if each.persistent and not each.network:
            if each.total_bytes is not None:
                yield Sample(DISK, each.total_bytes, (each.mount,))
            if each.inodes_total:
                yield Sample(INODES, each.inodes_total, (each.mount,))


def _followed(figure: Figure) -> Sample:
    name, _, where = figure.metric.name.partition("@")
    if name.startswith(LOGGED):
        return Sample(XIDS, figure.value, (where, name.removeprefix(LOGGED)))
    series, kind, scale = SERIES_OF[name]
    place = (where,) if where else ()
    return Sample(series, figure.value * scale, place if kind is None else (*place, kind))
