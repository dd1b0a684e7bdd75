"""What is said of an engine that was watched, and what is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.facts import EngineFacts, ModelFile
from nodecheck.diagnose import diagnose
from nodecheck.judge.engine.answer import Doing, answer
from nodecheck.judge.engine.looked_at import looked_at
from nodecheck.model import Gap, Reason, Status
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from tests.checks.engine.engines import (
    HEALTHY,
    IDLE,
    LOADING,
    ON_CARD,
    PAGING,
    THROTTLED,
    engine,
    gpu,
    model,
    node,
    quota,
    threads,
    two_nodes,
    use,
    with_process,
)
from tests.render.attached import REPORTS, judged, of


@pytest.mark.parametrize(
    ("facts", "doing", "sentence"),
    [
        (HEALTHY, Doing.WELL, "Nothing was found that slows it."),
        (
            IDLE,
            Doing.IDLE,
            "It is idle: 0.01 CPUs used. There is nothing to judge: watch it while it serves.",
        ),
        (
            replace(IDLE, cards=(use(18 << 30, 0.01),)),
            Doing.IDLE,
            (
                "It is idle: 0.01 CPUs used, its card 1 % busy. There is nothing to judge: watch "
                "it while it serves."
            ),
        ),
        (
            replace(ON_CARD, cards=(use(18 << 30, 0.0),)),
            Doing.IDLE,
            (
                "It is idle: its card 0 % busy, and 1.00 CPUs used to look for work. There is "
                "nothing to judge: watch it while it serves."
            ),
        ),
        (
            with_process(LOADING, read_bytes=None),
            Doing.LOADING,
            (
                "It is still loading: it waits for the disk, 1 GiB of 4 GiB in memory. Watch it "
                "when it serves."
            ),
        ),
        (
            with_process(IDLE, state="T"),
            Doing.STOPPED,
            "It is stopped (state T): kill -CONT 4242 lets it go on.",
        ),
        (
            with_process(IDLE, state="t"),
            Doing.STOPPED,
            "It is stopped (state t): a debugger or tracer holds process 4242.",
        ),
        (
            replace(with_process(IDLE, state="D"), frozen_by="/sys/fs/cgroup/x/cgroup.events"),
            Doing.STOPPED,
            (
                "It is frozen (/sys/fs/cgroup/x/cgroup.events): docker unpause, podman unpause or "
                "systemctl thaw lets it go on."
            ),
        ),
        (
            with_process(IDLE, first_state="D", state="D"),
            Doing.STOPPED,
            "It waits in the kernel (process 4242, state D), for a disk or a driver.",
        ),
        (replace(IDLE, cards=(use(18 << 30, 0.9),)), Doing.WELL, None),
        (replace(IDLE, cards=(use(None, 0.9),)), Doing.WELL, None),
        (replace(IDLE, cards=(use(0, 0.9),)), Doing.IDLE, None),
        (
            LOADING,
            Doing.LOADING,
            (
                "It is still loading: 180 MB/s from disk, 1 GiB of 4 GiB in memory. Watch it when "
                "it serves."
            ),
        ),
        (replace(LOADING, model_files=(model(),)), Doing.WELL, None),
        (
            replace(LOADING, model_files=(ModelFile(path="/m"),)),
            Doing.LOADING,
            "It is still loading: 180 MB/s from disk. Watch it when it serves.",
        ),
        (
            replace(HEALTHY, state="ended", seconds=2.04),
            Doing.ENDED,
            "It ended after 2.0 s. Until then nothing was found that slowed it.",
        ),
        (replace(IDLE, state="ended"), Doing.ENDED, "It ended after 5.0 s."),
        (replace(HEALTHY, seconds=None), Doing.UNKNOWN, "What it does could not be watched."),
        (
            EngineFacts(state="ended", seconds=0.0),
            Doing.ENDED,
            "It ended before anything was seen of it.",
        ),
        (EngineFacts(), Doing.UNKNOWN, None),
    ],
)
def test_the_answer_without_a_finding(
    facts: EngineFacts, doing: Doing, sentence: str | None
) -> None:
    told = answer(of(facts))
    assert told.doing is doing
    assert sentence is None or told.sentence == sentence


def test_an_engine_that_was_slow_and_ended() -> None:
    told = answer(of(replace(THROTTLED, state="ended")))
    assert told.doing is Doing.SLOW
    assert told.sentence.endswith("It ended after 5.0 s.")


def test_a_policy_says_what_idle_is() -> None:
    strict = Policy(thresholds=Thresholds(engine_idle_cpus=0.001))
    assert answer(REPORTS["idle"], strict).doing is Doing.WELL


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (of(HEALTHY), "CPU quota: none"),
        (of(replace(HEALTHY, cpu_group=quota(8, 0))), "CPU quota: 8 CPUs, never reached"),
        (of(replace(HEALTHY, cpu_group=quota(8, 2))), "CPU quota: 8 CPUs, stopped it in 4 %"),
        (of(HEALTHY), "CPUs: its threads waited 1 % of the time"),
        (of(HEALTHY), "instruction sets: avx2, fma and f16c"),
        (of(HEALTHY), "disk: no page fault waited for it, nothing read"),
        (of(with_process(HEALTHY, swapped_bytes=0)), "swap: none of it"),
        (
            judged(
                node(with_process(HEALTHY, numa_bytes={0: 3 << 30, 1: 1 << 30}), numa=two_nodes())
            ),
            "NUMA: 75 % of its memory is where it runs",
        ),
        (
            judged(node(HEALTHY, numa=replace(two_nodes(), nodes=two_nodes().nodes[:1]))),
            "NUMA: one node",
        ),
        (of(replace(HEALTHY, cpu_group=quota(1, 0))), "CPU quota: 1 CPU, never reached"),
        (of(engine(threads(1, 0.9, 0.02))), "CPUs: its thread waited 2 % of the time"),
        (of(with_process(HEALTHY, major_faults=1)), "disk: 1 page fault waited for it"),
        (REPORTS["on a card"], "GPUs: 18 GiB held on 1 card, 93 % busy"),
        (
            judged(node(replace(HEALTHY, settings={"gpu_layers": "0"}), gpu())),
            "GPUs: none used, as gpu_layers 0 asks",
        ),
        (of(HEALTHY), "GPUs: none"),
        (of(replace(HEALTHY, steal_share=0.004)), "steal: 0 %"),
    ],
)
def test_what_was_looked_at_is_told(report: Report, said: str) -> None:
    assert any(said in each for each in looked_at(report)), looked_at(report)


@pytest.mark.parametrize(
    ("report", "subject"),
    [
        (of(THROTTLED), "CPU quota"),
        (of(THROTTLED), "CPUs"),
        (of(PAGING), "disk"),
        (REPORTS["engine.slow_variant"], "instruction sets"),
        (REPORTS["engine.cpu_fallback"], "GPUs"),
        (REPORTS["engine.remote_memory"], "NUMA"),
        (of(replace(HEALTHY, steal_share=0.5)), "steal"),
        (
            of(HEALTHY, Gap(check="engine", field="cpu_group", reason=Reason.ABSENT, detail="")),
            "CPU quota",
        ),
        (of(with_process(HEALTHY, major_faults=None)), "disk"),
        (of(HEALTHY), "swap"),
        (of(replace(HEALTHY, libraries=())), "instruction sets"),
        (of(engine(threads(8, 0.98, None))), "CPUs"),
        (judged(node(with_process(IDLE, numa_bytes={0: 1 << 30}), numa=two_nodes())), "NUMA"),
    ],
)
def test_what_is_at_fault_or_unknown_is_not_called_well(report: Report, subject: str) -> None:
    assert not any(each.startswith(f"{subject}:") for each in looked_at(report))


def test_a_required_engine_that_nobody_watched_is_not_judged() -> None:
    policy = Policy(required=("engine",))
    assert diagnose(of(EngineFacts()), policy).verdict.status is Status.UNKNOWN
    assert diagnose(of(HEALTHY), policy).verdict.status is Status.OK
