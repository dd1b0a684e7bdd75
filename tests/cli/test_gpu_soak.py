"""Report after report on a node whose NVML hangs: in time, with NVML named, and nothing left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodecheck.machine import nvidia_driver
from nodecheck.model import Reason
from tests.cli.live_node import nodecheck
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import node
from tests.processes import eventually

__all__ = ["fake_nvml"]

SLACK_SECONDS = 4.0
"""For a busy machine: what stands around NVML's child, which used up its deadline."""

SIDE_BY_SIDE_PER_CPU = 3
"""Each report computes for 0.7 s and waits for the rest of 5."""

IN_PROCESS = Path(__file__).with_name("hanging_reports.py")


def hanging(fake_nvml: FakeNvml, place: Path) -> dict[str, str]:
    cards, system = node("three_l40")
    return fake_nvml.describing(cards, {**system, "fault": "hang/3"}, place)


def left_over(environment: dict[str, str]) -> list[str]:
    """Processes that run with this test's description, which only children of its reports have."""
    mark = f"FAKE_NVML={environment['FAKE_NVML']}".encode()
    return [p.name for p in Path("/proc").glob("[0-9]*") if mark in _environment_of(p)]


def _environment_of(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.parametrize(
    "reports", [6, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_every_report_names_nvml_in_time(reports: int, fake_nvml: FakeNvml, tmp_path: Path) -> None:
    environment = hanging(fake_nvml, tmp_path)
    pool = ThreadPoolExecutor(SIDE_BY_SIDE_PER_CPU * (os.cpu_count() or 1))
    try:
        for report in pool.map(lambda _: nodecheck(environment, "--quick"), range(reports)):
            assert report.elapsed_seconds is not None
            assert report.elapsed_seconds < nvidia_driver.BASE_SECONDS + SLACK_SECONDS
            hung = [gap for gap in report.gaps if gap.reason is Reason.TIMEOUT]
            assert [gap.check for gap in hung] == ["gpu"]
            assert "NVML: no answer within 4 s" in (hung[0].detail or "")
    finally:
        pool.shutdown(cancel_futures=True)
    assert eventually(lambda: left_over(environment) == [])


@pytest.mark.parametrize("reports", [3, pytest.param(100, marks=pytest.mark.soak)])
def test_nothing_is_left_in_the_process(reports: int, fake_nvml: FakeNvml, tmp_path: Path) -> None:
    environment = hanging(fake_nvml, tmp_path)
    done = subprocess.run(
        (sys.executable, str(IN_PROCESS), str(reports)),
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["hung"] == reports
    assert said["after"] == said["before"]
    assert left_over(environment) == []
