"""Status, headline, what is fine, what is not known."""

from __future__ import annotations

import msgspec
import pytest

from nodecheck.checks.gpu.facts import NvLink
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.pcie.facts import PcieFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.diagnose import diagnose
from nodecheck.judge.figures import between, figure
from nodecheck.judge.not_checked import not_checked
from nodecheck.judge.ruled_out import ruled_out
from nodecheck.judge.strategies import strategies
from nodecheck.judge.verdict import unjudged, verdict
from nodecheck.model import (
    Action,
    Evidence,
    Finding,
    Gap,
    Owner,
    Reason,
    Remedy,
    Severity,
    Status,
)
from nodecheck.policy import Policy
from nodecheck.report import HostInfo, Report
from tests.nodes import AVX2, SSE2, three_l40


def report(
    seen: Seen,
    *findings: Finding,
    source: str = "live",
    holds: tuple[str, ...] = ("cpu", "memory", "disk"),
    gaps: tuple[Gap, ...] = (),
) -> Report:
    return Report(
        nodecheck_version="0",
        time="2026-01-01T00:00:00+00:00",
        host=HostInfo(source=source, holds=holds),
        facts=seen.facts,
        measurements=seen.measurements,
        strategies=strategies(seen),
        findings=findings,
        gaps=gaps,
    )


def finding(id_: str, severity: Severity, summary: str = "Something is wrong") -> Finding:
    return Finding(
        id=id_,
        severity=severity,
        subject="x",
        summary=summary,
        evidence=(Evidence(value="1", source="/proc/x"),),
        impact="-",
        remedy=Remedy(text="-", action=Action.NONE),
        owner=Owner.USER,
    )


MASKED = finding("cpu.hypervisor_masked", Severity.CRITICAL, "The hypervisor hides AVX2 and FMA")


def test_the_headline_gives_the_consequence_and_its_limits() -> None:
    said = verdict(report(three_l40(), MASKED), Policy())
    assert said.status is Status.CRITICAL
    assert "Weights on the CPU decode at 0.2-0.5 tok/s" in said.headline
    assert "Serving from the GPUs alone is not affected" in said.headline


def test_a_fault_of_the_disk_says_nothing_about_the_cpu() -> None:
    low = finding("disk.low", Severity.WARNING, "57 GiB free of 950 GiB")
    said = verdict(report(three_l40(AVX2), low), Policy())
    assert said.status is Status.WARNING
    assert "CPU" not in said.headline


def test_info_never_changes_the_status() -> None:
    assert (
        verdict(report(three_l40(AVX2), finding("virt.guest", Severity.INFO)), Policy()).status
        is Status.OK
    )


def test_a_required_subject_that_was_not_judged_makes_it_unknown() -> None:
    blind = Seen(facts=Facts(), policy=Policy())
    assert verdict(report(blind), Policy()).status is Status.UNKNOWN
    assert unjudged(report(blind), Policy()) == ("cpu", "memory", "disk")


def test_a_gpu_that_is_required_and_not_there_is_told_as_such() -> None:
    none = report(Seen(facts=Facts(), policy=Policy()), holds=("cpu", "gpu"))
    said = verdict(none, Policy(required=("gpu",)))
    assert said.status is Status.UNKNOWN
    assert said.headline.startswith("A GPU is required and there is none. Nothing worse ")
    both = verdict(none, Policy(required=("cpu", "gpu")))
    assert both.headline.startswith("Not judged: cpu. A GPU is required and there is none. ")


def test_something_worse_outranks_unknown() -> None:
    blind = Seen(facts=Facts(), policy=Policy())
    assert verdict(report(blind, MASKED), Policy()).status is Status.CRITICAL


def test_a_capture_is_held_to_what_it_holds() -> None:
    blind = Seen(facts=Facts(), policy=Policy())
    partial = report(blind, source="captured", holds=())
    assert verdict(partial, Policy()).status is Status.OK
    assert "capture" in verdict(partial, Policy()).headline


def test_a_live_node_with_a_granted_gpu_must_judge_it() -> None:
    seen = three_l40(AVX2)
    hung = Gap(check="gpu", field="*", reason=Reason.TIMEOUT, detail="no answer within 5 s")
    said = verdict(report(seen, gaps=(hung,), holds=("cpu", "memory", "disk", "gpu")), Policy())
    assert said.status is Status.UNKNOWN
    assert any("no answer within 5 s" in line for line in said.not_checked)


@pytest.mark.parametrize("reason", [Reason.FAILED, Reason.TIMEOUT])
def test_a_card_that_pci_shows_must_be_judged_though_its_probe_died(reason: Reason) -> None:
    seen = three_l40(AVX2)
    blind = msgspec.structs.replace(seen, facts=msgspec.structs.replace(seen.facts, gpus=()))
    died = Gap(check="gpu", field="*", reason=reason, detail="the gpu probe: died")
    holds = ("cpu", "memory", "disk", "gpu")
    assert verdict(report(blind, gaps=(died,), holds=holds), Policy()).status is Status.UNKNOWN
    bare = msgspec.structs.replace(
        blind, facts=msgspec.structs.replace(blind.facts, pcie=PcieFacts())
    )
    assert verdict(report(bare, gaps=(died,), holds=holds), Policy()).status is Status.OK


@pytest.mark.parametrize(
    ("subject", "field", "status"), [("gpu", "gpus", Status.UNKNOWN), ("pcie", "*", Status.OK)]
)
def test_what_a_capture_holds_and_nobody_could_read_is_not_called_well(
    subject: str, field: str, status: Status
) -> None:
    blind = Seen(facts=Facts(), policy=Policy())
    cut = Gap(check=subject, field=field, reason=Reason.FAILED, detail="not whole")
    said = verdict(report(blind, source="captured", holds=(subject,), gaps=(cut,)), Policy())
    assert said.status is status
    assert f"holds: {subject}" not in said.headline
    whole = verdict(report(blind, source="captured", holds=(subject,)), Policy())
    assert (whole.status, f"holds: {subject}" in whole.headline) == (Status.OK, True)


def test_absent_data_rules_nothing_out() -> None:
    assert ruled_out(report(Seen(facts=Facts(), policy=Policy()))) == ()


def test_what_was_read_and_is_fine_is_ruled_out() -> None:
    fine = ruled_out(report(three_l40(SSE2), MASKED))
    assert "PCIe: 3x Gen4 x16" in fine
    assert "RAM: 126 GiB available" in fine
    assert not any(line.startswith("CPU") for line in fine)


def with_cards(**members: object) -> Report:
    """Three cards with these members, the last of them as given, the others whole."""
    seen = three_l40()
    whole = {
        "ecc_volatile_uncorrectable": 0,
        "remap_pending": False,
        "nvlinks": (NvLink(link=0, active=True),),
    }
    cards = [msgspec.structs.replace(gpu, **whole) for gpu in seen.facts.gpus]
    cards[-1] = msgspec.structs.replace(cards[-1], **members)
    facts = msgspec.structs.replace(seen.facts, gpus=tuple(cards))
    return report(msgspec.structs.replace(seen, facts=facts))


@pytest.mark.parametrize(
    ("members", "memory", "links"),
    [
        ({}, True, True),
        ({"ecc_volatile_uncorrectable": 2}, False, True),
        ({"ecc_volatile_uncorrectable": None}, False, True),
        ({"remap_pending": True}, False, True),
        ({"nvlinks": (NvLink(link=0, active=False),)}, True, False),
        ({"nvlinks": (NvLink(link=0),)}, True, False),
        ({"nvlinks": None}, True, False),
        ({"nvlinks": ()}, True, False),
    ],
)
def test_memory_and_nvlinks_are_ruled_out_where_every_card_says_so(
    members: dict[str, object], memory: bool, links: bool
) -> None:
    fine = ruled_out(with_cards(**members))
    assert ("GPU memory: no uncorrectable error" in fine) is memory
    assert ("NVLink: 3x 1 up" in fine) is links


def test_a_link_that_says_nothing_of_its_card_is_not_ruled_out() -> None:
    assert any(line == "PCIe: 2x Gen4 x16" for line in ruled_out(with_cards(chip_to_chip=True)))


def test_a_subject_with_a_fault_is_not_ruled_out() -> None:
    narrow = finding("pcie.width_below_max", Severity.WARNING)
    assert not any("PCIe" in line for line in ruled_out(report(three_l40(), narrow)))


def test_the_same_facts_always_give_the_same_report() -> None:
    seen = report(three_l40())
    once, again = diagnose(seen, Policy()), diagnose(seen, Policy())
    assert msgspec.json.encode(once) == msgspec.json.encode(again)
    assert diagnose(once, Policy()) == once


def test_figures_have_the_digits_that_matter() -> None:
    assert [figure(x) for x in (0.056, 0.53, 9.7, 38.2)] == ["0.06", "0.5", "9.7", "38"]
    assert between(0.056, 0.112) == "0.06-0.11"
    assert between(7.01, 7.02) == "7.0"


def test_a_healthy_node_without_a_gpu_says_what_it_can_do() -> None:
    seen = three_l40(AVX2)
    alone = msgspec.structs.replace(seen, facts=msgspec.structs.replace(seen.facts, gpus=()))
    said = verdict(report(alone), Policy()).headline
    assert said.endswith("It has no GPU: its CPU decodes a model at 0.5-0.7 tok/s.")


def test_gpus_are_not_called_well_beside_a_fault_of_theirs() -> None:
    well = "Serving from the GPUs alone is not affected."
    assert well in verdict(report(three_l40(), MASKED), Policy()).headline
    slow = finding("gpu.vram_slow", Severity.WARNING)
    assert well not in verdict(report(three_l40(), MASKED, slow), Policy()).headline


def test_of_equal_findings_those_of_gpus_come_first() -> None:
    made = report(three_l40(AVX2))
    stolen = msgspec.structs.replace(made.facts.cpu, steal_share=0.3)
    cards = tuple(
        msgspec.structs.replace(gpu, ecc_volatile_uncorrectable=2) for gpu in made.facts.gpus
    )
    facts = msgspec.structs.replace(made.facts, cpu=stolen, gpus=cards)
    judged = diagnose(msgspec.structs.replace(made, facts=facts), Policy())
    found = [f.id for f in judged.findings if f.severity is Severity.WARNING]
    assert found[0] == "gpu.ecc_uncorrectable"
    assert "cpu.steal" in found


def test_the_headline_counts_what_it_leaves_out() -> None:
    low = finding("disk.low", Severity.WARNING)
    said = verdict(report(three_l40(), MASKED, low, low), Policy()).headline
    assert said.endswith("Beside it: 2 warnings.")


def test_what_one_gap_says_is_not_denied_beside_it() -> None:
    seen = three_l40(AVX2)
    unread = Gap(check="limits", field="cpu_quota", reason=Reason.ABSENT, detail="no cgroup")
    limits = LimitsFacts(cgroup_path="/x")
    seen = msgspec.structs.replace(seen, facts=msgspec.structs.replace(seen.facts, limits=limits))
    assert "limits: no CPU quota" in ruled_out(report(seen))
    assert "limits: no CPU quota" not in ruled_out(report(seen, gaps=(unread,)))


def test_cuda_that_was_not_asked_is_told_where_there_are_cards() -> None:
    gap = Gap(check="cuda", field="state", reason=Reason.ABSENT, detail="CUDA not started: so")
    nvidia = with_cards(vendor="nvidia")
    assert "CUDA not started: so" in not_checked(msgspec.structs.replace(nvidia, gaps=(gap,)))
    none = msgspec.structs.replace(nvidia.facts, gpus=())
    bare = msgspec.structs.replace(nvidia, facts=none, gaps=(gap,))
    assert "CUDA not started: so" not in not_checked(bare)
