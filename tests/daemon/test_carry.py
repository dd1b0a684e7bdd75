"""What was measured is kept in light reports as long as it holds, and no longer."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.dram.facts import DramFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts
from nodecheck.daemon import carry
from nodecheck.diagnose import diagnose
from nodecheck.model import Gap, Reason, faults
from nodecheck.policy import Policy
from nodecheck.report import HostInfo, Report
from tests.nodes import AVX2, dram, l40, three_l40

ON_NODE = three_l40(AVX2).facts
SEEN = replace(ON_NODE, gpu=replace(ON_NODE.gpu, state="ok"))
POLICY = Policy()
DAY = 86_400.0
NOT_ASKED = (
    Gap(check="dram", field="measurements", reason=Reason.ABSENT, detail="not asked for"),
    Gap(check="cuda", field="state", reason=Reason.ABSENT, detail="not asked for"),
)
CUDA_STARTS = CudaFacts(state="ok", devices=tuple(gpu.pci_address or "" for gpu in SEEN.gpus))
FAILED = CudaFacts(state="failed", error=802, call="cuInit", message="system not yet initialized",
                   uvm=True)  # fmt: skip


def at(hour: int) -> str:
    moment = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
    return (moment + datetime.timedelta(hours=hour)).isoformat()


def light(hour: int = 1, facts: Facts | None = None) -> Report:
    """Nothing was measured, nor CUDA asked."""
    seen = facts or SEEN
    return Report(
        nodecheck_version="1",
        time=at(hour),
        host=HostInfo(source="live", holds=("cpu", "memory", "disk")),
        facts=replace(seen, dram=DramFacts(skipped="not asked for"), cuda=CudaFacts()),
        gaps=(Gap(check="pcie", field="x", reason=Reason.DENIED, detail=""), *NOT_ASKED),
    )


def full(
    hour: int = 0, *, read: float = 2.0, cuda: CudaFacts = FAILED, facts: Facts | None = None
) -> Report:
    """Memory is read at `read` GB/s, and CUDA has answered."""
    made = light(hour, facts)
    known = replace(made.facts, dram=DramFacts(kernel="sse2"), cuda=cuda)
    return replace(made, facts=known, gaps=made.gaps[:1], measurements=(dram(read, 8),))


def published(seen: Report, earlier: carry.Measured | None, seconds: float = DAY) -> Report:
    held = carry.still(earlier or carry.Measured(), seen, seconds)
    return diagnose(carry.carried(seen, held), POLICY)


def ids(report: Report) -> set[str]:
    return {finding.id for finding in faults(report.findings)}


def test_faults_that_were_measured_do_not_come_and_go() -> None:
    first = diagnose(full(), POLICY)
    assert {"mem.bandwidth_low", "gpu.cuda_unavailable"} <= ids(first)
    kept: carry.Measured | None = carry.measured(full())
    for hour in range(1, 6):
        seen = light(hour)
        alone, told = diagnose(seen, POLICY), published(seen, kept)
        assert not {"mem.bandwidth_low", "gpu.cuda_unavailable"} & ids(alone)
        assert ids(told) == ids(first)
        assert told.measured_time == at(0)
        assert carry.rests_on_measured(told, alone)
        assert {gap.check for gap in told.gaps} == {"pcie"}
        kept = carry.handed_on(seen, carry.still(kept or carry.Measured(), seen, DAY))
    assert kept == carry.measured(full())


def test_a_fault_that_is_gone_goes_with_the_next_full_pass() -> None:
    earlier = carry.measured(full())
    again = full(2, read=140.0, cuda=CUDA_STARTS)
    told = published(again, earlier)
    assert not {"mem.bandwidth_low", "gpu.cuda_unavailable"} & ids(told)
    assert told.measured_time is None
    kept = carry.handed_on(again, carry.still(earlier, again, DAY))
    assert kept == carry.measured(again)
    later = light(3)
    assert not carry.rests_on_measured(published(later, kept), diagnose(later, POLICY))


def test_a_full_pass_that_could_not_measure_keeps_what_was_measured() -> None:
    busy = replace(light(2).facts, dram=DramFacts(skipped="the CPUs are busy"), cuda=CUDA_STARTS)
    seen = replace(light(2), facts=busy, gaps=NOT_ASKED[:1])
    earlier = carry.measured(full())
    told = published(seen, earlier)
    assert "mem.bandwidth_low" in ids(told)
    assert "gpu.cuda_unavailable" not in ids(told)
    assert carry.why_not_measured(seen) == "the CPUs are busy"
    kept = carry.handed_on(seen, carry.still(earlier, seen, DAY))
    assert kept
    assert kept.memory == earlier.memory
    assert kept.cuda
    assert kept.cuda.time == at(2)
    assert published(light(3), kept).measured_time == at(0)


def test_where_kernels_cannot_run_at_all_they_are_not_tried_again_soon() -> None:
    never = replace(light(), gaps=(replace(NOT_ASKED[0], reason=Reason.UNSUPPORTED),))
    assert carry.why_not_measured(never) is None
    assert carry.why_not_measured(full()) is None


QUICK = replace(
    light(),
    facts=replace(light().facts, dram=DramFacts(skipped="not asked for (--quick)")),
    gaps=tuple(
        replace(gap, detail=f"{what}: not asked for (--quick)")
        for gap, what in zip(
            NOT_ASKED, ("DRAM bandwidth not measured", "CUDA not started"), strict=True
        )
    ),
)


def whys(report: Report) -> list[str]:
    return [report.facts.dram.skipped or "", *(gap.detail for gap in report.gaps)]


def test_a_light_report_says_why_the_last_full_one_did_not_measure() -> None:
    yet = carry.told(QUICK, {}, carry.YET)
    assert whys(yet) == [
        "a full pass is yet to come",
        "DRAM bandwidth not measured: a full pass is yet to come",
        "CUDA not started: a full pass is yet to come",
    ]
    seen = full(cuda=CudaFacts(message="out of memory"))
    refused = replace(
        seen,
        measurements=(),
        facts=replace(seen.facts, dram=DramFacts(skipped="the CPUs are busy (93 %)")),
        gaps=(
            Gap(check="cuda", field="state", reason=Reason.FAILED, detail="CUDA: out of memory"),
        ),
    )
    assert whys(carry.told(QUICK, carry.unmeasured(refused), carry.YET)) == [
        "the CPUs are busy (93 %), at the last full pass",
        "DRAM bandwidth not measured: the CPUs are busy (93 %), at the last full pass",
        "CUDA not started: out of memory, at the last full pass",
    ]
    assert carry.unmeasured(full()) == {}
    assert not [why for why in whys(carry.told(QUICK, {}, carry.NEVER)) if "--quick" in why]


def changed(part: str, **members: Any) -> Facts:
    return replace(SEEN, **{part: replace(getattr(SEEN, part), **members)})


@pytest.mark.parametrize(
    ("facts", "memory", "cuda"),
    [
        (changed("cpu", brand="another"), True, True),
        (changed("cpu", logical_cpus=16), False, True),
        (changed("cpu", x86_64_level=2), False, True),
        (replace(SEEN, memory=MemoryFacts(total_bytes=300 * 10**9)), False, True),
        (replace(SEEN, memory=MemoryFacts(total_bytes=149 * 10**9)), True, True),
        (replace(SEEN, gpus=(l40(0), l40(1))), True, False),
        (replace(SEEN, gpus=(l40(0), l40(1), l40(7))), True, False),
        (changed("gpu", driver_version="570.1", state="ok"), True, True),
        (changed("gpu", state="failed"), True, True),
        (Facts(), True, False),
    ],
)
def test_it_holds_on_the_same_machine(facts: Facts, memory: bool, cuda: bool) -> None:
    """Names that were not known before contradict nothing: the brand, the driver."""
    held = carry.still(carry.measured(full()), light(1, facts), DAY)
    assert (held.memory is not None, held.cuda is not None) == (memory, cuda)


def test_another_cpu_or_driver_is_another_machine() -> None:
    was = replace(changed("cpu", brand="one"), gpu=replace(SEEN.gpu, driver_version="550.1"))
    now = replace(changed("cpu", brand="two"), gpu=replace(SEEN.gpu, driver_version="570.1"))
    held = carry.still(carry.measured(full(facts=was)), light(1, now), DAY)
    assert held == carry.Measured()
    assert carry.handed_on(light(1, now), held) is None
    assert published(light(1, now), carry.measured(full(facts=was))).measured_time is None


def test_a_probe_that_hung_has_changed_no_machine() -> None:
    hung = (Gap(check="gpu", field="*", reason=Reason.TIMEOUT, detail=""),
            Gap(check="cpu", field="*", reason=Reason.TIMEOUT, detail=""))  # fmt: skip
    held = carry.still(carry.measured(full()), replace(light(1, Facts()), gaps=hung), DAY)
    assert held == carry.measured(full())


@pytest.mark.parametrize(("hour", "holds"), [(1, True), (24, True), (25, False), (-1, False)])
def test_it_holds_for_a_time(hour: int, holds: bool) -> None:
    held = carry.still(carry.measured(full()), light(hour), DAY)
    assert (held != carry.Measured()) == holds


@pytest.mark.parametrize("check", ["dram", "cuda"])
def test_what_was_tried_in_vain_is_not_what_it_was(check: str) -> None:
    hung = Gap(check=check, field="*", reason=Reason.TIMEOUT, detail="no answer within 5 s")
    seen = replace(light(2), gaps=(*light(2).gaps, hung))
    earlier = carry.measured(full())
    held = carry.still(earlier, seen, DAY)
    assert (held.memory is None, held.cuda is None) == (check == "dram", check == "cuda")
    told = published(seen, earlier)
    assert hung in told.gaps
    assert carry.why_not_measured(seen) == hung.detail
