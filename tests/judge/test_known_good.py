"""A policy drawn from a node: the node meets it, and no fault becomes the norm."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodecheck.checks import CHECKS
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.collect import collect
from nodecheck.diagnose import diagnose
from nodecheck.judge.gate.requirements import requirements
from nodecheck.judge.known_good import DRAWN, SUBJECTS, KnownGood, known_good
from nodecheck.judge.offers import OFFERS
from nodecheck.model import Gap, Measurement, Reason, Status
from nodecheck.policy import Policy, Requirements, parse_policy
from nodecheck.render.known_good import toml
from nodecheck.report import HostInfo, Report
from nodecheck.units import GIB
from tests.hosts import HEALTHY, THREE_L40
from tests.nodes import AVX2, dram, l40, link, root, three_l40
from tests.trees import Tree, plant

LEFT_OUT = {
    "cpu.hypervisor_masked": "instruction_sets",
    "cpu.flags_disagree": "instruction_sets",
    "cpu.quota": "dram_read_bytes_per_second",
    "cpu.steal": "dram_read_bytes_per_second",
    "cpu.freq_low_under_load": "dram_read_bytes_per_second",
    "mem.bandwidth_low": "dram_read_bytes_per_second",
    "mem.ecc_uncorrectable": "dram_read_bytes_per_second",
    "numa.memoryless": "dram_read_bytes_per_second",
    "disk.low": "disk_free_bytes",
    "disk.readonly_after_error": "disk_free_bytes",
    "disk.unresponsive": "disk_free_bytes",
    "gpu.lost": "gpus pcie",
    "gpu.driver_mismatch": "gpus pcie",
    "gpu.unresponsive": "gpus pcie",
    "gpu.xid": "gpus pcie",
    "pcie.width_below_max": "pcie",
    "pcie.speed_below_max": "pcie",
}
"""Finding -> what must not be asked of others because of it."""


def examples() -> dict[str, Tree | Seen]:
    """What raises these findings, on a node that is in order otherwise, and all facts by hand."""
    found: dict[str, Tree | Seen] = {"healthy": HEALTHY, "masked": THREE_L40}
    for check in CHECKS:
        for id_, example in importlib.import_module(
            f"tests.checks.{check}.examples"
        ).RAISES.items():
            if isinstance(example, Seen):
                found[id_] = example
            elif id_ in LEFT_OUT:
                found[id_] = {**HEALTHY, **example}
    return found


EXAMPLES = examples()


def judged(example: Tree | Seen, place: Path) -> Report:
    if isinstance(example, Seen):
        return as_report(example)
    return diagnose(collect(plant(example, place)), Policy())


def as_report(seen: Seen, *gaps: Gap, holds: tuple[str, ...] = CHECKS) -> Report:
    made = Report(
        nodecheck_version="0",
        time="2026-01-01T00:00:00+00:00",
        host=HostInfo(source="live", holds=holds),
        facts=seen.facts,
        measurements=seen.measurements,
        gaps=gaps,
    )
    return diagnose(made, Policy(), seen.workload)


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_drawn_from_a_node_is_met_by_it(name: str, tmp_path: Path) -> None:
    report = judged(EXAMPLES[name], tmp_path / "node")
    known = known_good(report)
    policy = parse_policy(toml(known, report), "drawn")
    assert policy == Policy(name="drawn", required=known.required, requirements=known.requirements)
    assert [a.text for a in requirements(report, policy) if a.status is not Status.OK] == []
    for left_out in LEFT_OUT.get(name, "").split():
        assert left_out not in known.seen
        reasons = next(each.why for each in known.left_out if each.name == left_out)
        assert any(line.startswith(f"{name} (") for line in reasons)


def test_a_node_in_order_gives_all_that_can_be_asked_for(tmp_path: Path) -> None:
    tree = {**HEALTHY, "sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}
    known = known_good(judged(tree, tmp_path / "node"))
    assert known.required == SUBJECTS
    assert known.requirements.instruction_sets == (
        "ssse3", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2",
    )  # fmt: skip
    assert known.requirements.disk_free_bytes is not None
    assert known.requirements.gpus == 1
    assert known.requirements.dram_read_bytes_per_second == 110e9


def bare(*measurements: Measurement, guest: bool | None = False, used: int = 8) -> Report:
    """Three L40 in a server of 8 CPUs, of which so many may be used."""
    seen = three_l40(AVX2)
    facts = replace(
        seen.facts,
        virt=VirtFacts(guest=guest),
        limits=LimitsFacts(usable_cpus=tuple(range(used))),
        disk=replace(seen.facts.disk, filesystems=(root(600 * GIB, 1000 * GIB),)),
    )
    return as_report(Seen(facts=facts, policy=Policy(), measurements=measurements))


def floor(report: Report) -> float | None:
    return known_good(report).requirements.dram_read_bytes_per_second


def why(known: KnownGood, name: str) -> str:
    return "; ".join(*(each.why for each in known.left_out if each.name == name))


def test_the_floor_of_memory_allows_for_where_a_host_puts_vcpus() -> None:
    assert floor(bare(dram(100, 8))) == 80e9
    assert floor(bare(dram(100, 8), guest=True)) == 50e9
    assert floor(bare(dram(100, 8), guest=None)) == 50e9
    assert floor(bare(dram(100, 8), used=4)) == 50e9


def test_the_floor_of_memory_is_not_above_its_own_p10() -> None:
    spread = replace(dram(100, 8), p10_bytes_per_second=61.7e9, p90_bytes_per_second=120e9)
    assert floor(bare(spread)) == 61e9


@pytest.mark.parametrize("flag", ["contended", "unsteady", "bimodal", "undersized"])
def test_a_doubtful_figure_is_no_floor(flag: str) -> None:
    known = known_good(bare(dram(100, 8, flag)))
    assert known.requirements.dram_read_bytes_per_second is None
    assert flag in why(known, "dram_read_bytes_per_second")


def test_what_was_not_measured_is_no_floor() -> None:
    assert "not measured" in why(known_good(bare()), "dram_read_bytes_per_second")


def test_room_is_asked_for_as_far_as_a_full_disk_would_be_told() -> None:
    report = bare()
    assert known_good(report).requirements.disk_free_bytes == 107 * 10**9  # a tenth of 1000 GiB
    disk = replace(report.facts.disk, filesystems=(root(9000 * GIB, 20_000 * GIB),))
    large = replace(report, facts=replace(report.facts, disk=disk))
    assert known_good(large).requirements.disk_free_bytes == 256 * GIB // 10**9 * 10**9


def test_of_a_disk_with_little_to_fill_no_room_is_asked_for() -> None:
    report = bare()
    reserved = replace(root(75 * GIB, 252 * GIB), used_share=0.25)
    facts = replace(report.facts, disk=replace(report.facts.disk, filesystems=(reserved,)))
    assert why(known_good(replace(report, facts=facts)), "disk_free_bytes") == (
        "disk.low would warn at 10 GiB free on /, of 100 GiB that can be filled: too little to "
        "ask for"
    )


def test_an_idle_link_is_not_made_the_norm() -> None:
    idle = replace(l40(0), link_generation=1, performance_state=8, utilisation_share=0.0)
    slow = link("0000:01:00.0")
    slow = replace(slow, hops=(replace(slow.hops[0], current_gts=2.5),))
    for guest, expected in ((False, "gen4x16"), (True, "gen1x16")):
        facts = replace(
            bare(guest=guest).facts, gpus=(idle,), pcie=replace(Facts().pcie, paths=(slow,))
        )
        known = known_good(as_report(Seen(facts=facts, policy=Policy())))
        assert known.requirements.pcie == expected


def test_a_link_that_is_fast_now_is_asked_for_as_it_is_when_idle() -> None:
    known = known_good(bare(guest=True))
    assert known.requirements.pcie == "gen1x16"
    assert "not asked for" in known.seen["pcie"]


def test_a_subject_that_could_not_be_judged_is_not_required() -> None:
    gap = Gap(check="memory", field="*", reason=Reason.TIMEOUT, detail="the memory probe: 5 s")
    known = known_good(as_report(three_l40(AVX2), gap))
    assert "memory" not in known.required
    assert why(known, "required memory") == "the memory probe: 5 s"


def test_what_a_capture_does_not_hold_is_not_required() -> None:
    known = known_good(as_report(three_l40(AVX2), holds=("cpu",)))
    assert known.required == ("cpu",)


def test_a_gpu_that_is_not_there_is_not_asked_for() -> None:
    seen = three_l40(AVX2)
    facts = replace(seen.facts, gpus=(), pcie=Facts().pcie)
    known = known_good(as_report(Seen(facts=facts, policy=Policy())))
    assert (known.requirements.gpus, known.requirements.pcie) == (None, None)
    assert "gpu" not in known.required
    assert why(known, "gpus") == why(known, "pcie") == "no GPU was seen that this node may use"


def test_every_requirement_is_drawn_from_checks_and_excuses_only_their_findings() -> None:
    assert list(OFFERS) == list(DRAWN) == list(Requirements.__struct_fields__)
    for drawn in DRAWN.values():
        ids = {
            rule.id
            for check in drawn.checks
            for rule in importlib.import_module(f"nodecheck.checks.{check}.rules").RULES
        }
        assert set(drawn.unrelated) <= ids
