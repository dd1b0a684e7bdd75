"""A quota that stops an engine, and threads that wait for CPUs that others have."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CoreType, CpuFacts
from nodecheck.checks.engine.facts import EngineFacts, OtherProcess
from nodecheck.model import Finding, Owner, Severity
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    CROWDED,
    CROWDED_BY_OTHERS,
    HEALTHY,
    IDLE,
    PAGING,
    STRESS,
    THROTTLED,
    engine,
    ids,
    judged,
    model,
    node,
    process,
    quota,
    threads,
    with_process,
)


def only(made: EngineFacts, **facts: Any) -> Finding:
    [found] = judged(node(made, **facts))
    return found


def test_eight_threads_on_half_a_cpu() -> None:
    found = only(THROTTLED)
    assert (found.id, found.severity) == ("engine.throttled_quota", Severity.CRITICAL)
    assert found.subject == "llama.cpp"
    assert "0.5 CPUs" in found.summary
    assert "98 %" in found.summary
    assert "8 threads" in found.summary
    assert found.headline == "A CPU quota of 0.5 stops its 8 threads"
    assert found.evidence[0].source == "/sys/fs/cgroup/system.slice/llama.service/cpu.stat"
    assert found.evidence[0].value.startswith("49 of 50 periods")
    assert "93 %" in found.impact
    assert found.remedy.commands == (
        "llama-server --threads 1 --threads-batch 1",
        "sudo systemctl set-property llama.service CPUQuota=800%",
    )


@pytest.mark.parametrize(("throttled", "raised"), [(9, False), (10, True)])
def test_bursts_that_a_quota_cuts_are_left(throttled: int, raised: bool) -> None:
    made = engine(threads(8, 0.8, 0.1), cpu_group=quota(7.0, throttled))
    assert ("throttled_quota" in ids(node(made))) is raised


@pytest.mark.parametrize(("periods", "raised"), [(9, False), (10, True)])
def test_a_few_periods_tell_nothing(periods: int, raised: bool) -> None:
    made = engine(threads(8, 0.5, 0.4), cpu_group=quota(4.0, periods, periods))
    assert ("throttled_quota" in ids(node(made))) is raised


def test_an_uncounted_quota_is_not_judged() -> None:
    group = replace(quota(4.0, 0), periods=None, throttled_periods=None)
    made = engine(threads(8, 0.5, 0.45), cpu_group=group, others=(STRESS,))
    assert ids(node(made)) == []
    assert ids(node(replace(made, cpu_group=replace(group, quota_cpus=16.0)))) == ["oversubscribed"]


def test_another_programs_throttling_in_the_same_group_is_not_the_engines() -> None:
    """A group above both counts the sidecar's stops too."""
    assert ids(node(replace(IDLE, cpu_group=quota(4.0, 50)))) == []


def test_a_sidecar_that_uses_up_the_quota_stops_the_engine_too() -> None:
    """Fewer threads cannot help one thread."""
    found = only(engine(threads(1, 0.3, 0.6), cpu_group=quota(2.0, 40)))
    assert found.id == "engine.throttled_quota"
    assert found.owner is Owner.OPERATOR
    assert "cannot help" in found.remedy.text
    assert found.remedy.commands == ("sudo systemctl set-property llama.service CPUQuota=300%",)


@pytest.mark.parametrize(
    ("made", "logical", "text", "raised"),
    [
        (replace(THROTTLED, usable_cpus=(0, 1)), 16,
         "Start it with 1 thread, or raise the quota to 2 CPUs; even one thread needs a whole CPU",
         "200%"),
        (replace(THROTTLED, usable_cpus=None), 2,
         "Start it with 1 thread, or raise the quota to 2 CPUs; even one thread needs a whole CPU",
         "200%"),
        (engine(threads(8, 0.3, 0.6), usable=4, cpu_group=quota(2.5, 40)), 16,
         "Start it with 2 threads, the whole CPUs of the quota, or raise the quota to 4 CPUs",
         "400%"),
        (engine(threads(8, 0.2, 0.7), usable=2, cpu_group=quota(2.0, 40)), 16,
         "Start it with 2 threads, the whole CPUs of the quota", None),
        (engine(threads(8, 0.2, 0.7), usable=2, cpu_group=quota(6.0, 40)), 16,
         "Start it with 2 threads, the whole CPUs of the quota", None),
        (engine(threads(1, 0.3, 0.6), usable=2, cpu_group=quota(2.0, 40)), 16,
         "Move the other programs of its control group out of it", None),
    ],
)  # fmt: skip
def test_no_more_cpus_are_advised_than_it_may_use(
    made: EngineFacts, logical: int, text: str, raised: str | None
) -> None:
    found = only(made, cpu=CpuFacts(logical_cpus=logical))
    assert found.remedy.text.startswith(text)
    quotas = [each.partition("CPUQuota=")[2] for each in found.remedy.commands]
    assert [each for each in quotas if each] == ([raised] if raised else [])


def test_one_thread_on_half_a_cpu_waits_for_no_other() -> None:
    found = only(engine(threads(1, 0.5, 0.4), cpu_group=quota(0.5, 40)))
    assert found.headline == "A CPU quota of 0.5 stops it"
    assert "It gets no more than 0.5 CPUs" in found.impact
    assert found.impact.startswith("Its thread stood still for 40 % of the window.")
    assert "wait for each other" not in found.impact


def test_without_schedstat_the_quota_is_judged_by_its_own_counts() -> None:
    made = engine(threads(8, 0.06, None), cpu_group=quota(0.5, 50))
    found = only(made)
    assert found.id == "engine.throttled_quota"
    assert found.severity is Severity.WARNING


def test_paging_is_the_cause_of_what_a_quota_cuts() -> None:
    made = replace(PAGING, threads=THROTTLED.threads, cpu_group=quota(0.5, 50))
    assert ids(node(made)) == ["paging"]


def test_what_a_quota_stopped_did_not_wait_for_others() -> None:
    """The kernel counts the time as run delay; below the threshold too."""
    made = engine(threads(8, 0.8, 0.2), usable=4, cpu_group=quota(7.0, 9))
    assert ids(node(made)) == []
    assert ids(node(replace(made, cpu_group=None))) == ["oversubscribed"]


def test_more_threads_than_cpus() -> None:
    found = only(CROWDED)
    assert (found.id, found.severity) == ("engine.oversubscribed", Severity.WARNING)
    assert found.summary == "8 threads share 4 CPUs and waited up to 45 % of the window for one"
    assert found.headline == "Its threads wait up to 45 % of the time for CPUs"
    assert "1.8x" in found.impact
    assert found.remedy.commands == ("llama-server --threads 4 --threads-batch 4",)


def test_siblings_of_a_core_are_no_second_core() -> None:
    cpu = CpuFacts(logical_cpus=4, physical_cores=2)
    assert only(CROWDED, cpu=cpu).remedy.text == (
        "Start it with 2 threads, one for each core that it may use"
    )


def test_other_programs_take_its_cpus() -> None:
    found = only(CROWDED_BY_OTHERS, cpu=CpuFacts(online=tuple(range(16))))
    assert found.id == "engine.oversubscribed"
    assert "with other programs" in found.summary
    assert found.headline == ("Its threads wait up to 42 % of the time for CPUs that others use")
    assert any("stress-ng (77) 4.0 CPUs" in piece.value for piece in found.evidence)
    assert "the 4 threads that they leave room for" in found.remedy.text
    assert found.remedy.commands[0] == "taskset -acp 8-15 77"


def test_as_many_threads_as_cpus_are_not_too_many() -> None:
    """Beside a busy neighbour all want a CPU all the time: the sum alone tells nothing."""
    yes = OtherProcess(pid=77, name="yes", cpus=0.9)
    made = engine(threads(2, 0.55, 0.46), usable=2, others=(yes,), usable_busy_cpus=2.0)
    found = only(made)
    assert found.headline == "Its threads wait up to 46 % of the time for CPUs that others use"
    assert found.remedy.text.startswith("Stop or move the other programs (yes 77)")
    assert "2 threads" not in found.remedy.text


def test_what_is_set_already_is_not_advised() -> None:
    """A thread beside the four that compute, as the server's own."""
    running = [*threads(4, 0.7, 0.28), *threads(1, 0.5, 0.2, first=4)]
    made = engine(running, usable=4, settings={"threads": "4"}, usable_busy_cpus=3.3)
    assert ids(node(made)) == []
    assert ids(node(replace(made, settings={}))) == ["oversubscribed"]
    yes = OtherProcess(pid=77, name="yes", cpus=0.2)
    crowded = replace(made, others=(yes,), usable_busy_cpus=None, busy_cpus=3.5)
    text = only(crowded).remedy.text
    assert text.startswith("Stop or move the other programs (yes 77)")
    assert "4 threads" not in text


def test_others_on_cpus_that_it_may_not_use_take_nothing_from_it() -> None:
    made = replace(CROWDED_BY_OTHERS, usable_busy_cpus=4.4, others=())
    assert ids(node(made)) == []


def test_programs_that_came_and_went_are_told() -> None:
    made = replace(CROWDED_BY_OTHERS, others=(replace(STRESS, cpus=1.0),), usable_busy_cpus=7.9)
    found = only(made, cpu=CpuFacts(online=tuple(range(16))))
    assert found.evidence[2].value == (
        "stress-ng (77) 1.0 CPUs and 2.5 CPUs by programs that came and went or are hidden from us"
    )
    assert not any("taskset" in command for command in found.remedy.commands)
    assert "77" not in found.remedy.text


def test_many_others_are_not_said_to_be_gone() -> None:
    made = replace(CROWDED_BY_OTHERS, others=(replace(STRESS, cpus=0.5),) * 3)
    assert only(made).evidence[2].value.endswith(" and 2.1 CPUs by other programs")


def test_where_no_cpu_is_left_for_others_they_are_not_moved() -> None:
    found = only(CROWDED_BY_OTHERS, cpu=CpuFacts(online=tuple(range(8))))
    assert not any("taskset" in command for command in found.remedy.commands)


@pytest.mark.parametrize(("ran", "raised"), [(0.33, False), (0.34, True)])
def test_a_thread_that_seldom_wants_a_cpu_waits_for_something_else(
    ran: float, raised: bool
) -> None:
    """dd: it ran for 17 % of the window, waited 15 % for a CPU, and for the disk else."""
    made = engine(threads(1, ran, 0.16), usable=2, others=(STRESS,))
    assert bool(judged(node(made))) is raised


def test_what_waits_for_the_disk_does_not_want_for_cpus() -> None:
    made = with_process(
        replace(CROWDED, model_files=(model(cached=GIB),)),
        major_faults=900, read_bytes=900_000_000,
    )  # fmt: skip
    assert "oversubscribed" not in ids(node(made))


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (4, "Start each of its 2 processes with 2 threads: one for each CPU that it may use"),
        (3, "Start each of its 2 processes with 2 threads: one for each CPU that it may use"),
    ],
)
def test_several_processes_share_the_cpus(each: int, text: str) -> None:
    running = [*threads(each, 0.5, 0.45), *threads(each, 0.5, 0.45, pid=4300)]
    assert only(engine(running, usable=4)).remedy.text == text


def test_processes_of_one_thread_are_run_in_smaller_number() -> None:
    running = [thread for n in range(3) for thread in threads(1, 0.6, 0.35, pid=4300 + n)]
    found = only(engine(running, usable=2))
    assert found.remedy.text == "Run no more than 2 of its 3 processes that compute at a time"
    assert found.remedy.commands == ()


def test_an_engine_that_is_nice_lets_others_go_first() -> None:
    found = only(replace(CROWDED_BY_OTHERS, nice=19))
    assert "nice 19: others go first" in [each.value for each in found.evidence]
    assert found.remedy.commands[0] == "sudo renice -n 0 -p 4242"
    assert found.remedy.text.startswith("Let it have the priority of others. Stop or move")


def test_the_slowest_thread_sets_the_pace() -> None:
    """Of 16 threads one shares its CPU with another program: 3 % on average."""
    other = OtherProcess(pid=77, name="make", cpus=0.5)
    running = [*threads(15, 0.99, 0.0), *threads(1, 0.5, 0.5, first=15)]
    found = only(engine(running, usable=16, others=(other,)))
    assert found.id == "engine.oversubscribed"
    assert "50 %" in found.summary


@pytest.mark.parametrize(("waited", "raised"), [(0.149, False), (0.15, True)])
def test_how_long_a_thread_may_wait(waited: float, raised: bool) -> None:
    made = engine(threads(8, 0.8, waited), others=(STRESS,))
    assert bool(judged(node(made))) is raised


def test_one_thread_that_shares_its_cpus() -> None:
    made = engine(threads(1, 0.1, 0.8), usable=2, others=(STRESS,))
    found = only(made)
    assert found.summary.startswith("1 thread shares 2 CPUs with other programs")
    assert found.headline == "It waits 80 % of the time for CPUs that others use"
    assert found.impact == "Without the wait its thread does up to 5.0x as much"


def test_one_cpu_is_told_as_one() -> None:
    found = only(engine(threads(4, 0.2, 0.75), usable=1))
    assert found.headline == "Its threads wait up to 75 % of the time for CPUs"
    assert found.summary == "4 threads share 1 CPU and waited up to 75 % of the window for it"
    assert found.remedy.text == "Start it with 1 thread"
    assert found.evidence[1].value == "CPU 0; on average 3.8 threads wanted one"


def test_a_quota_and_no_core_is_why_it_has_fewer_threads() -> None:
    made = engine(threads(16, 0.4, 0.55), cpu_group=quota(7.0, 2))
    assert only(made).remedy.text == "Start it with 7 threads, one for each whole CPU of its quota"


def test_next_to_no_progress_is_critical() -> None:
    assert only(engine(threads(48, 0.08, 0.92), usable=4)).severity is Severity.CRITICAL


@pytest.mark.parametrize(
    "made",
    [
        HEALTHY,
        IDLE,
        engine(threads(200, 0.01, 0.0), thread_count=10_000),  # a pool that sleeps
        engine(threads(20, 0.05, 0.001)),  # Python threads that wait for one lock
        engine(threads(1, 1.0, 0.0)),  # a tokenizer
        engine([*threads(8, 0.97, 0.02), *threads(4, 0.1, 0.1, first=8)]),  # servers beside them
        engine(threads(8, 0.2, 0.04), others=(STRESS,)),  # a request now and then
        engine(threads(8, 0.6, 0.3)),  # nothing known has the CPUs
        engine(threads(8, 0.5, None), usable=4),  # no schedstat
        engine(threads(8, 0.5, 0.45), usable_cpus=None),
        engine(threads(16, 0.99, 0.01), usable=16),  # both siblings of each core
        replace(CROWDED, state="absent"),
        replace(CROWDED, state=None),
    ],
)
def test_what_looks_like_it(made: EngineFacts) -> None:
    assert ids(node(made)) == []


def test_two_kinds_of_cores_alone_are_none() -> None:
    kinds = (CoreType(name="cpu_core", cpus=(0, 1)), CoreType(name="cpu_atom", cpus=(2, 3)))
    assert ids(node(engine(threads(4, 0.99, 0.0), usable=4), cpu=CpuFacts(core_types=kinds))) == []


def test_one_that_ended_meanwhile_is_judged_by_what_was_seen() -> None:
    assert ids(node(replace(CROWDED, state="ended"))) == ["oversubscribed"]


def test_threads_of_several_workers_count_together() -> None:
    running = [*threads(4, 0.5, 0.45), *threads(4, 0.5, 0.45, pid=4300)]
    made = engine(running, process(2.0), process(2.0, pid=4300), usable=4)
    assert ids(node(made)) == ["oversubscribed"]
