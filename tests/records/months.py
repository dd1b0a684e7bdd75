"""Weeks of one node in which much happens: quick snapshots, and full ones twice a day."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from random import Random

from msgspec.structs import replace

from nodecheck.checks.disk.facts import Filesystem
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.checks.pcie.facts import Path as PciePath
from nodecheck.checks.pcie.facts import PcieFacts
from nodecheck.diagnose import diagnose
from nodecheck.model import Latency, Measurement
from nodecheck.policy import Policy
from nodecheck.records.snapshots import database
from nodecheck.report import Report
from nodecheck.units import GB, GIB
from tests.nodes import link
from tests.records.histories import KEPT
from tests.records.sides import facts

LAST = 1_795_960_800
"""2026-11-29 14:00 UTC."""

DAY = 24
"""Hours."""

FULL_EVERY = 12
OFF = range(14 * DAY, 16 * DAY)
SLOWER = 11 * DAY + 15
"""Hours ago: from then on memory reads 15 % slower."""

NARROW, NEW_DRIVER, FIRST_ERROR = 6 * DAY + 22, 5 * DAY, 25 * DAY


def reports(days: int, every: int) -> Iterator[Report]:
    """Judged ones, so many hours apart, oldest first."""
    chance = Random(5)
    for ago in range(days * DAY, -1, -every):
        if ago not in OFF:
            yield _report(ago, chance)


def store(path: Path, days: int, every: int) -> None:
    """All of them in one history."""
    for each in reports(days, every):
        database.add(path, each, KEPT)


def _report(ago: int, chance: Random) -> Report:
    seen = facts("host type")
    full = ago % FULL_EVERY == 0
    when = datetime.datetime.fromtimestamp(LAST - 3600 * ago, datetime.timezone.utc)
    here = seen.facts
    made = replace(
        seen,
        time=when.isoformat(),
        host=replace(seen.host, name="node7", kernel="6.1.0-28-amd64"),
        facts=replace(
            here,
            gpus=tuple(_card(place, card, ago) for place, card in enumerate(here.gpus)),
            gpu=replace(here.gpu, driver_version="570.86.10" if ago < NEW_DRIVER else "550.54.14"),
            pcie=PcieFacts(
                paths=tuple(
                    _path(card.pci_address or "", _width(place, ago))
                    for place, card in enumerate(here.gpus)
                )
            ),
            disk=replace(here.disk, filesystems=(*_disks(ago, chance),)),
            kernel_log=KernelLogFacts(source="dmesg"),
        ),
        measurements=_rates(ago, chance) if full else (),
        latencies=_latencies(chance) if full else (),
        gaps=(),
    )
    return diagnose(made, Policy())


def _width(place: int, ago: int) -> int:
    return 8 if place == 2 and ago <= NARROW else 16


def _path(address: str, width: int) -> PciePath:
    whole = link(address)
    return replace(whole, hops=tuple(replace(hop, current_width=width) for hop in whole.hops))


def _card(place: int, card: Gpu, ago: int) -> Gpu:
    errors = max(0, FIRST_ERROR - ago) // 26 if place == 1 else 0
    return replace(
        card,
        ecc_volatile_correctable=errors,
        ecc_volatile_uncorrectable=0,
        pcie_replays=0,
        link_width=_width(place, ago),
    )


def _disks(ago: int, chance: Random) -> Iterator[Filesystem]:
    """The system's, and one for models that fills up at 4 GiB a day."""
    for mount, total, free in (
        ("/", 200, 120 + chance.uniform(-1, 1)),
        ("/srv/models", 950, 71 + ago / 6 + chance.uniform(-0.05, 0.05)),
    ):
        yield Filesystem(
            mount=mount,
            fstype="ext4",
            device="/dev/vda1" if mount == "/" else "/dev/vdb1",
            device_number="252:1" if mount == "/" else "252:17",
            persistent=True,
            total_bytes=total * GIB,
            available_bytes=int(free * GIB),
            used_share=1 - free / total,
            errors_count=0,
        )


def _rates(ago: int, chance: Random) -> tuple[Measurement, ...]:
    disturbed = chance.random() < 0.1
    level = chance.gauss(1, 0.01) * (0.85 if ago <= SLOWER else 1)
    level *= chance.uniform(0.5, 0.8) if disturbed else 1
    return tuple(
        Measurement(
            name="dram_read",
            kernel="avx2",
            threads=threads,
            median_bytes_per_second=rate * level * GB,
            passes=20,
            flags=("contended",) if disturbed else (),
        )
        for threads, rate in ((1, 12.9), (8, 41.3))
    )


def _latencies(chance: Random) -> tuple[Latency, ...]:
    seconds = chance.gauss(104e-9, 1e-9)
    return (
        Latency(
            name="dram_latency",
            other_threads=0,
            median_seconds=seconds,
            p10_seconds=0.99 * seconds,
            p90_seconds=1.01 * seconds,
            passes=5,
            spread_bytes=GIB,
        ),
    )
