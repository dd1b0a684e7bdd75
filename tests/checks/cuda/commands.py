"""Runs nodecheck as a command against fake NVIDIA libraries."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from nodecheck.machine import lock
from nodecheck.report import Report, from_json
from tests.fake_cuda import profiles as cuda
from tests.fake_cuda.build import FakeCuda
from tests.fake_nvml import profiles as nvml
from tests.fake_nvml.build import FakeNvml

HERE = Path(__file__).parent
SMALL = 1 << 30
"""Memory of a card that has room for copies over the link alone: nothing large is allocated."""


class Done(NamedTuple):
    """What a run printed, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> Report:
        return from_json(self.out.encode(), "standard output")

    def ids(self) -> list[str]:
        """The findings on CUDA and on links, whatever else this machine has."""
        return [f.id for f in self.report.findings if f.id in OURS]


OURS = (
    "gpu.cuda_unavailable",
    "gpu.data_corrupt",
    "gpu.vram_slow",
    "pcie.link_slow",
    "pcie.shared_uplink",
)


class Node:
    """A node with idle L40, as both libraries tell of it."""

    def __init__(self, libraries: tuple[FakeNvml, FakeCuda], place: Path) -> None:
        self._nvml, self._cuda = libraries
        self.place = place

    def environment(
        self,
        *,
        driver: Sequence[Mapping[str, str | int]] = ({},),
        cards: Sequence[Mapping[str, str | float]] = ({},),
        missing: Sequence[str] = (),
        **system: str | float,
    ) -> dict[str, str]:
        """One mapping a card: what differs of it in NVML (`driver`) and in CUDA (`cards`)."""
        told = [
            nvml.at(
                nvml.L40S,
                number,
                **{
                    "memory_total": SMALL,
                    "memory_reserved": 0,
                    "link_generation": 4,
                    **change,
                },
            )
            for number, change in enumerate(driver, 1)
        ]
        idle = [
            {**cuda.L40, "pci_address": f"0000:{number:02x}:00.0", **change}
            for number, change in enumerate(cards, 1)
        ]
        return self._cuda.environment(
            idle,
            self.place,
            missing=missing,
            beside=self._nvml.environment(told, self.place),
            **system,
        )


def wait_for_others() -> None:
    """Tests beside this one may be measuring: one at a time does so on a node."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with lock.measuring() as free:
            if free:
                return
        time.sleep(0.2)


def run(environment: Mapping[str, str], *arguments: str, seconds: float = 100) -> Done:
    """`nodecheck` with these arguments."""
    wait_for_others()
    done = subprocess.run(
        [sys.executable, "-m", "nodecheck", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def live(environment: Mapping[str, str], tree: Path, seconds: float | None = None) -> Report:
    """The report of a planted tree: an ordinary one, or of `bench gpu` in that time."""
    wait_for_others()
    what = "report" if seconds is None else str(seconds)
    done = subprocess.run(
        [sys.executable, str(HERE / "live_bench.py"), str(tree), what],
        env=environment,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return from_json(done.stdout, "live_bench.py")


@pytest.fixture
def node(fake_nvml: FakeNvml, fake_cuda: FakeCuda, tmp_path: Path) -> Node:
    """A node of this test alone."""
    return Node((fake_nvml, fake_cuda), tmp_path)
