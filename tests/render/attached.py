"""Judged reports of engines that were watched."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks import CHECKS
from nodecheck.checks.disk.facts import DiskFacts
from nodecheck.checks.engine.facts import EngineFacts, OtherProcess
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.diagnose import diagnose
from nodecheck.model import Gap, Reason
from nodecheck.policy import Policy
from nodecheck.report import HostInfo, Report
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    HEALTHY,
    IDLE,
    LOADING,
    ON_CARD,
    SECONDS,
    engine,
    gpu,
    node,
    process,
    threads,
    use,
    with_process,
)
from tests.checks.engine.examples import RAISES
from tests.nodes import root

DENIED = tuple(
    Gap(check="engine", field=field, reason=Reason.DENIED, detail=f"/proc/4242/x: {field}")
    for field in ("libraries", "model_files", "processes.gpu_files")
)


def judged(seen: Seen, *gaps: Gap) -> Report:
    """The report of a live node on which this was seen at 02:14."""
    made = Report(
        nodecheck_version="0",
        time="2026-12-01T02:14:09+00:00",
        host=HostInfo(source="live", holds=CHECKS),
        facts=seen.facts if seen.facts.memory.total_bytes else _in_order(seen.facts),
        gaps=gaps,
    )
    return diagnose(made, Policy())


def _in_order(facts: Facts) -> Facts:
    """With what a node must tell to be judged."""
    return replace(
        facts,
        cpu=replace(facts.cpu, flags=facts.cpu.usable_flags),
        memory=MemoryFacts(total_bytes=128 * GIB, available_bytes=64 * GIB),
        disk=DiskFacts(filesystems=(root(600 * GIB, 950 * GIB),)),
    )


def of(facts: EngineFacts, *gaps: Gap) -> Report:
    """The same of a node without a card."""
    return judged(node(facts), *gaps)


def crowd() -> EngineFacts:
    """A server with eight workers, each with a busy thread and a pool, and long names."""
    workers = [
        process(1.0, pid=5000 + n, name="sglang::scheduler", parent=4242, resident_bytes=9 << 30)
        for n in range(8)
    ]
    busy = [
        replace(thread, name=f"scheduler_TP{n}")
        for n, each in enumerate(workers)
        for thread in threads(1, 0.98 - n / 1000, 0.01, pid=each.pid, first=n)
    ]
    pools = [
        replace(thread, name=f"pt_main_thread{n}")
        for n, each in enumerate(workers)
        for thread in threads(1, 0.10, 0.0, pid=each.pid, first=100 + n)
    ]
    return engine(
        [*busy, *pools],
        process(0.1, name="python3"),
        *workers,
        engine="sglang",
        thread_count=900,
        cards=tuple(use(70 << 30, 0.5 + n / 100, f"0000:{n + 1:02x}:00.0") for n in range(8)),
        others=tuple(OtherProcess(pid=n, name=f"cc1plus-{n}", cpus=0.5) for n in range(9)),
        environment={"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(8)))},
    )


NASTY = engine(
    [replace(each, name="\x1b[2Jx" + "\u202e") for each in threads(1, 0.9)],
    process(0.9, name="a\nb\x1b]0;" + "n" * 300),
    command=("\x1b[31mserver",),
    settings={"threads": "\x1b[1m" + "9" * 500},
    others=(OtherProcess(pid=1, name="\r\x1b[A", cpus=1.0),),
)

REPORTS = {
    **{name: judged(seen) for name, seen in RAISES.items() if isinstance(seen, Seen)},
    "well": of(HEALTHY),
    "idle": of(IDLE),
    "loading": of(LOADING),
    "stopped": of(with_process(IDLE, state="T")),
    "on a card": judged(node(ON_CARD, gpu())),
    "ended": of(replace(HEALTHY, state="ended", seconds=SECONDS / 2)),
    "hidden": of(replace(HEALTHY, libraries=(), model_files=()), *DENIED),
    "crowd": judged(node(crowd(), *(gpu(f"0000:{n + 1:02x}:00.0", index=n) for n in range(8)))),
    "nasty": of(NASTY),
    "bare": of(EngineFacts(state="watched", pid=4242)),
}
