"""One pass in its own process, as the daemon starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from nodecheck.daemon import carry
from nodecheck.daemon.collector import judged
from nodecheck.daemon.findings import Findings
from nodecheck.daemon.passes import Pass, Task
from nodecheck.model import Reason
from nodecheck.policy import Policy, Thresholds
from nodecheck.records.snapshots import database
from nodecheck.report import Report, from_json
from tests.checks.cuda.commands import Node, node, wait_for_others
from tests.daemon.test_carry import full, light
from tests.fake_cuda.build import FakeCuda, fake_cuda
from tests.fake_nvml.build import fake_nvml
from tests.processes import eventually

__all__ = ["fake_cuda", "fake_nvml", "node"]

NEVER_BUSY = msgspec.msgpack.encode(
    Policy(thresholds=Thresholds(busy_node_share=1.0, busy_gpu_share=1.0))
)
COLLECTOR = [sys.executable, "-m", "nodecheck.daemon.collector"]


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state" / "history.db"
    monkeypatch.setenv("NODECHECK_HISTORY", str(path))
    return path


def run(
    *arguments: str, given: Task | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COLLECTOR, *arguments],
        input=b"" if given is None else msgspec.msgpack.encode(given),
        env=environment,
        capture_output=True,
        timeout=100,
        check=False,
    )


def made(*arguments: str, given: Task | None = None) -> Pass:
    done = run(*arguments, given=given)
    assert (done.returncode, done.stderr) == (0, b"")
    return msgspec.msgpack.decode(done.stdout, type=Pass)


def report_of(made: Pass) -> Report:
    return from_json(made.report, "report")


def test_a_light_pass_gives_a_report_in_all_forms_and_stores_it(history: Path) -> None:
    light_pass = made("light")
    report = report_of(light_pass)
    assert (light_pass.time, light_pass.status, light_pass.headline) == (
        report.time, report.verdict.status, report.verdict.headline,
    )  # fmt: skip
    told = msgspec.json.decode(light_pass.findings, type=Findings)
    assert (told.findings, told.gaps, told.stale) == (report.findings, report.gaps, False)
    assert b"nodecheck_status{" in light_pass.metrics
    assert light_pass.measured is None
    assert light_pass.skipped is None  # or a full pass would follow soon
    assert report.measurements == ()
    assert database.read_report(history, "@-1") == report


def test_a_full_pass_measures_and_hands_on_what_it_measured(history: Path) -> None:
    wait_for_others()
    first = made("full", given=Task(policy=NEVER_BUSY))
    assert first.skipped is None
    report = report_of(first)
    assert report.measurements
    assert first.measured is not None
    later = made("light", given=Task(measured=first.measured, measured_seconds=3600))
    published = report_of(later)
    assert published.measurements == report.measurements
    assert published.measured_time == report.time
    assert later.measured == first.measured
    assert database.read_report(history, "@-1").measurements == ()
    assert database.read_report(history, "@-2").measurements == report.measurements


def test_the_history_gets_what_was_collected(history: Path) -> None:
    earlier = msgspec.msgpack.encode(carry.measured(full()))
    published = judged("light", light(), Policy(), Task(measured=earlier, measured_seconds=1e6))
    assert published.confirm
    stored = database.read_report(history, "@-1")
    assert {gap.check for gap in stored.gaps} >= {"dram", "cuda"}
    assert stored.measurements == ()
    assert "mem.bandwidth_low" in published.findings.decode()
    assert "mem.bandwidth_low" not in {finding.id for finding in stored.findings}


def test_what_was_measured_too_long_ago_is_dropped(history: Path) -> None:
    earlier = msgspec.msgpack.encode(carry.measured(full()))
    published = judged("light", light(5), Policy(), Task(measured=earlier, measured_seconds=3600))
    assert (published.measured, published.confirm) == (None, False)
    assert history.exists()


def test_a_history_that_takes_nothing_loses_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "file" / "history.db"))
    told = made("light")
    assert told.not_stored
    assert "Not a directory" in told.not_stored


def test_it_judges_by_the_policy_that_it_is_given(history: Path) -> None:
    policy = msgspec.msgpack.encode(Policy(name="given", required=("dram",)))
    told = made("light", given=Task(policy=policy))
    report = report_of(told)
    assert report.policy
    assert report.policy.startswith("given")
    assert any(gap.check == "dram" and gap.reason is Reason.ABSENT for gap in report.gaps)
    assert history.exists()


LOADED = """
#include <fcntl.h>
__attribute__((constructor)) static void note(void) { open("%s", O_CREAT | O_WRONLY, 0600); }
"""


def test_a_light_pass_loads_no_cuda_and_a_full_one_does(
    node: Node, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    """CUDA wakes idle cards: the library notes that it is loaded at all."""
    loaded, place = tmp_path / "loaded", tmp_path / "noting"
    place.mkdir()
    (place / "note.c").write_text(LOADED % loaded)
    subprocess.run(
        [fake_cuda.compiler, "-shared", "-fPIC", "-o", place / "libcuda.so.1", place / "note.c"],
        check=True,
    )
    environment = node.environment()
    environment["LD_LIBRARY_PATH"] = f"{place}:{environment['LD_LIBRARY_PATH']}"
    for kind, asks in (("light", False), ("light", False), ("full", True)):
        wait_for_others()
        done = run(kind, given=Task(policy=NEVER_BUSY), environment=environment)
        assert done.returncode == 0, done.stderr
        report = report_of(msgspec.msgpack.decode(done.stdout, type=Pass))
        assert [gpu.name for gpu in report.facts.gpus] == ["NVIDIA L40S"]
        assert loaded.exists() == asks


def test_cuda_that_does_not_start_is_told_until_a_full_pass_sees_it_start(node: Node) -> None:
    broken, mended = {"cuInit": "!802"}, dict[str, str | float]()
    measured: bytes | None = None
    for kind, system, found, confirms in (
        ("light", broken, False, False),
        ("full", broken, True, False),
        ("light", broken, True, True),
        ("light", mended, True, True),
        ("full", mended, False, False),
        ("light", mended, False, False),
    ):
        task = Task(policy=NEVER_BUSY, measured=measured, measured_seconds=3600)
        wait_for_others()
        done = run(kind, given=task, environment=node.environment(**system))
        assert done.returncode == 0, done.stderr
        told = msgspec.msgpack.decode(done.stdout, type=Pass)
        ids = {finding.id for finding in report_of(told).findings}
        assert ("gpu.cuda_unavailable" in ids, told.confirm) == (found, confirms)
        measured = told.measured


@pytest.mark.parametrize("arguments", [(), ("deep",), ("light", "full")])
def test_wrong_use_is_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"say light or full\n"


def test_a_policy_that_cannot_be_used_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODECHECK_POLICY", str(tmp_path / "none.toml"))
    done = run("light")
    assert done.returncode == 1
    assert done.stderr.decode() == f"{tmp_path}/none.toml: No such file or directory\n"


def test_it_ends_its_own_children_when_it_is_told_to_end(history: Path, tmp_path: Path) -> None:
    """A program that hangs, and has a session of its own, as every program that a probe starts."""
    slow = tmp_path / "bin"
    slow.mkdir()
    for name in ("dmesg", "journalctl", "lspci", "df", "lvs", "nvidia-smi"):
        (slow / name).write_text(f'#!/bin/sh\necho $$ >> "{tmp_path}/started"\nexec sleep 600\n')
        (slow / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{slow}:{os.environ['PATH']}"}
    started = tmp_path / "started"
    process = subprocess.Popen(
        [*COLLECTOR, "light"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        if not eventually(started.exists):
            pytest.skip("no probe starts a program here")
        begun = time.monotonic()
        process.terminate()
        process.communicate(timeout=10)
        assert time.monotonic() - begun < 0.6
    finally:
        process.kill()
        process.communicate()
    pids = [int(pid) for pid in started.read_text().split()]
    assert not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]
    assert not history.exists()
