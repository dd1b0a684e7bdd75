"""One pass in its own process, as the daemon starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.daemon import carry
from nodecheck.daemon.collector import judged
from nodecheck.daemon.findings import Findings
from nodecheck.daemon.passes import Pass, Task
from nodecheck.model import Gap, Reason, Status
from nodecheck.policy import Policy
from nodecheck.records.snapshots import database
from nodecheck.report import Report, from_json
from nodecheck.thresholds import Thresholds
from nodecheck.units import GIB
from tests.checks.cuda.commands import Node, node, wait_for_others
from tests.daemon.test_carry import CUDA_STARTS, SEEN, full, light
from tests.fake_cuda.build import FakeCuda, fake_cuda
from tests.fake_nvml.build import fake_nvml
from tests.nodes import l40, root
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
    assert report.facts.dram.skipped == 'not asked for (kernels = "never")'
    assert database.read_report(history, "@-1") == report


@pytest.mark.usefixtures("history")
def test_nobody_is_said_to_have_asked_for_less() -> None:
    """Before the first full pass, and after one that found the node busy."""
    first = made("light", given=Task(measured_seconds=3600))
    assert b"--quick" not in first.report + first.findings
    assert report_of(first).facts.dram.skipped == "a full pass is yet to come"
    busy = Policy(thresholds=Thresholds(busy_node_share=0.0, busy_gpu_share=0.0))
    task = Task(policy=msgspec.msgpack.encode(busy), measured_seconds=3600)
    refused = made("full", given=task)
    if refused.skipped is None:
        pytest.skip("no CPU did anything for a while")
    after = made("light", given=replace(task, unmeasured=refused.unmeasured))
    assert after.unmeasured == refused.unmeasured
    assert report_of(after).facts.dram.skipped == f"{refused.skipped}, at the last full pass"
    assert b"--quick" not in after.report + after.findings


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


ROOMY = replace(SEEN, disk=replace(SEEN.disk, filesystems=(root(600 * GIB, 950 * GIB),)))
XID = KernelLogFacts(
    source="dmesg", xids=(Xid(code=79, pci_address=l40(0).pci_address, text="fallen off the bus"),)
)
HUNG = Gap(check="kernel_log", field="source", reason=Reason.TIMEOUT, detail="dmesg: no answer")
DENIED = replace(HUNG, reason=Reason.DENIED)
OTHER = Gap(check="kernel_log", field="older_lines", reason=Reason.FAILED, detail="always")


def logged(log: KernelLogFacts, *gaps: Gap) -> Report:
    seen = light(facts=replace(ROOMY, kernel_log=log))
    return replace(seen, gaps=(*seen.gaps, *gaps))


def verdicts(*reports: Report, kinds: str = "") -> list[tuple[Status, bool]]:
    """The status of each, judged after those before it, and whether it names the kernel log."""
    task, told = Task(measured_seconds=1e6), []
    for number, report in enumerate(reports):
        kind = "full" if kinds[number : number + 1] == "f" else "light"
        made = judged(kind, report, Policy(), task)
        told.append((made.status, "Not judged: kernel_log." in made.headline))
        task = replace(task, sources=made.sources, measured=made.measured)
    return told


LOG = KernelLogFacts(source="dmesg")
CLEAR, FAULT, DOUBT = (Status.OK, False), (Status.CRITICAL, False), (Status.UNKNOWN, True)


@pytest.mark.usefixtures("history")
def test_a_fault_is_not_gone_because_its_source_is_silent() -> None:
    """An Xid is in the kernel's log, then reading that hangs, then it can be read again."""
    bad, hung, good = logged(XID), logged(KernelLogFacts(), HUNG), logged(LOG)
    assert verdicts(good, bad, hung, hung, good, hung) == [
        CLEAR, FAULT, DOUBT, DOUBT, CLEAR, CLEAR,
    ]  # fmt: skip
    assert verdicts(bad, hung, bad, hung, logged(KernelLogFacts(), DENIED)) == [
        FAULT, DOUBT, FAULT, DOUBT, CLEAR,
    ]  # fmt: skip


@pytest.mark.usefixtures("history")
def test_what_was_silent_while_the_fault_was_seen_does_not_keep_it() -> None:
    assert verdicts(logged(XID, OTHER), logged(LOG, OTHER)) == [FAULT, CLEAR]
    assert verdicts(logged(XID), logged(LOG, replace(OTHER, check="disk"))) == [FAULT, CLEAR]


@pytest.mark.usefixtures("history")
def test_cuda_that_hangs_after_a_fault_is_unknown_until_it_is_asked_again() -> None:
    hangs = Gap(check="cuda", field="state", reason=Reason.TIMEOUT, detail="no answer")
    good, bad = full(read=140.0, facts=ROOMY, cuda=CUDA_STARTS), full(read=140.0, facts=ROOMY)
    silent = replace(good, gaps=(hangs,), facts=replace(good.facts, cuda=CudaFacts()))
    reads = light(facts=ROOMY)
    told = verdicts(bad, reads, silent, reads, good, reads, kinds="flflfl")
    assert [status for status, _ in told] == [
        Status.CRITICAL, Status.CRITICAL, Status.UNKNOWN, Status.UNKNOWN, Status.OK, Status.OK,
    ]  # fmt: skip
