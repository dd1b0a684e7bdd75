"""Labels that a scheduler may rely on: valid, steady under load, no health for want of facts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.diagnose import diagnose, rules
from nodecheck.model import Gap, Reason, Severity, Status
from nodecheck.policy import Policy
from nodecheck.render.nfd import NAMESPACE, labels, render
from nodecheck.report import Report
from tests.nodes import AVX2, l40
from tests.render.reports import REPORTS, of_tree

DOCUMENT = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text()
EXPIRES = "2026-11-30T12:00:00Z"
NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
"""A label's name, and its value. Source: Kubernetes, labels and selectors."""


def told(report: Report) -> dict[str, str]:
    return labels(report, Policy())


def judged(report: Report) -> dict[str, str]:
    return told(diagnose(report, Policy()))


def test_the_node_with_a_masked_cpu() -> None:
    assert told(of_tree("three-l40")) == {
        "status": "critical",
        "critical.cpu.hypervisor_masked": "true",
        "x86-64-level": "1",
        "cpu-masked": "true",
        "gpus": "3",
        "pcie-width": "16",
        "strategy.gpu-resident": "viable",
        "strategy.partial-offload": "not-viable",
        "strategy.cpu-only": "not-viable",
        "strategy.host-kv-pool": "viable",
    }


def test_a_healthy_server_tells_its_link_too() -> None:
    found = told(of_tree("healthy"))
    assert (found["status"], found["cpu-masked"]) == ("ok", "false")
    assert (found["pcie-generation"], found["pcie-width"]) == ("4", "16")
    assert not [name for name in found if name.startswith("critical.")]


@pytest.mark.parametrize("name", REPORTS)
def test_every_name_and_value_is_valid(name: str) -> None:
    first, expiry, *lines = render(REPORTS[name](), Policy(), EXPIRES).splitlines()
    assert first.startswith("# nodecheck ")
    assert expiry == f"# +expiry-time={EXPIRES}"
    assert lines
    for line in lines:
        assert re.fullmatch(rf"{re.escape(NAMESPACE)}/{NAME}={NAME}", line), line


def test_every_finding_can_be_a_label() -> None:
    for rule in rules():
        assert re.fullmatch(NAME, f"critical.{rule.id}"), rule.id


INJECTED = f"x\n{NAMESPACE}/status=ok\n# +expiry-time=2099-01-01T00:00:00Z"


@pytest.mark.parametrize("text", [INJECTED, "x\r", "x ", "", "é", "a=b", "x" * 64, "1.0\u2028y"])
def test_no_value_of_a_report_makes_a_line_of_its_own(text: str) -> None:
    report = of_tree("three-l40")
    finding = replace(report.findings[0], severity=Severity.CRITICAL, id=text)
    made = replace(report, nodecheck_version=text, findings=(finding, *report.findings))
    clean = render(replace(report, nodecheck_version="?"), Policy(), EXPIRES)
    assert render(made, Policy(), EXPIRES) == clean


def busy(report: Report) -> Report:
    """The same node at work: its cards and its memory in use."""
    facts = report.facts
    gpus = (replace(g, memory_used_bytes=g.memory_bytes, performance_state=0) for g in facts.gpus)
    memory = replace(facts.memory, available_bytes=1 << 30)
    return replace(report, facts=replace(facts, gpus=tuple(gpus), memory=memory))


def quick(report: Report) -> Report:
    return replace(report, measurements=(), latencies=(), transfers=())


@pytest.mark.parametrize("change", [busy, quick, lambda report: busy(quick(report))])
@pytest.mark.parametrize("name", ["three-l40", "healthy"])
def test_labels_are_the_same_on_a_busy_node_and_without_measuring(
    change: Callable[[Report], Report], name: str
) -> None:
    report = of_tree(name)
    changed = diagnose(change(report), Policy())
    assert changed.strategies != report.strategies
    assert told(changed) == told(report)


def test_a_waiver_takes_the_label_of_its_finding() -> None:
    report = of_tree("three-l40")
    lived_with = tuple(
        replace(f, severity=Severity.INFO, waived="known") if f.id.startswith("cpu.") else f
        for f in report.findings
    )
    found = told(replace(report, findings=lived_with))
    assert "critical.cpu.hypervisor_masked" not in found
    assert found["cpu-masked"] == "true"


def without_cpu(report: Report, cpu: CpuFacts) -> Report:
    return replace(report, facts=replace(report.facts, cpu=cpu), findings=())


def test_what_is_not_known_of_the_cpu_has_no_label() -> None:
    unread = told(without_cpu(of_tree("three-l40"), CpuFacts()))
    assert not {"cpu-masked", "x86-64-level"} & set(unread)
    arm = CpuFacts(arch="aarch64", flags=("asimd",))
    assert not {"cpu-masked", "x86-64-level"} & set(told(without_cpu(of_tree("healthy"), arm)))
    plain = CpuFacts(arch="x86_64", flags=AVX2, usable_flags=AVX2, x86_64_level=2)
    assert "cpu-masked" not in told(without_cpu(of_tree("healthy"), plain))


def test_a_driver_that_hangs_leaves_no_number_of_cards() -> None:
    report = of_tree("healthy")
    gap = Gap(check="gpu", field="gpus", reason=Reason.TIMEOUT, detail="no answer")
    facts = replace(report.facts, gpus=(), gpu=replace(report.facts.gpu, state="unresponsive"))
    found = told(replace(report, facts=facts, gaps=(*report.gaps, gap)))
    assert not {"gpus", "pcie-width", "pcie-generation"} & set(found)


def test_a_report_that_could_not_look_for_cards_tells_no_number() -> None:
    report = of_tree("healthy")
    captured = replace(report, facts=replace(report.facts, gpus=()))
    assert "gpus" not in told(captured)
    live = replace(of_tree("healthy"), host=replace(of_tree("healthy").host, source="live"))
    none = replace(
        live, facts=replace(live.facts, gpus=(), pcie=replace(live.facts.pcie, paths=()))
    )
    assert told(replace(none, gaps=()))["gpus"] == "0"


def test_a_container_without_its_cards_tells_no_number_for_the_node() -> None:
    report = of_tree("three-l40")
    virt = replace(report.facts.virt, container="docker")
    cards = tuple(replace(g, device_file=False, granted=None) for g in report.facts.gpus)
    for seen in (cards, (*report.facts.gpus[:2], cards[2])):
        facts = replace(report.facts, gpus=seen, virt=virt)
        found = judged(replace(report, facts=facts))
        assert not {"gpus", "pcie-width"} & set(found)
    whole = judged(replace(report, facts=replace(report.facts, virt=virt)))
    assert whole["gpus"] == "3"


def test_a_card_that_is_lost_does_not_count() -> None:
    report = of_tree("three-l40")
    cards = (*report.facts.gpus[:2], replace(l40(2), lost=True))
    found = judged(replace(report, facts=replace(report.facts, gpus=cards)))
    assert found["gpus"] == "2"
    assert "critical.gpu.lost" in found


def test_a_card_whose_link_is_hidden_leaves_no_width() -> None:
    report = of_tree("healthy")
    bare = replace(l40(0), link_width=None, link_generation=None, link_generation_max=None)
    facts = replace(report.facts, gpus=(bare,), pcie=replace(report.facts.pcie, paths=()))
    assert not {"pcie-width", "pcie-generation"} & set(told(replace(report, facts=facts)))


def test_a_limit_of_memory_counts_and_what_is_used_of_it_does_not() -> None:
    report = of_tree("healthy")
    limited = LimitsFacts(memory_limit_bytes=4 << 30, memory_headroom_bytes=4 << 30)
    small = judged(replace(report, facts=replace(report.facts, limits=limited)))
    assert small["strategy.host-kv-pool"] == "not-viable"
    used = LimitsFacts(memory_limit_bytes=200 << 30, memory_headroom_bytes=1 << 30)
    full = judged(replace(report, facts=replace(report.facts, limits=used)))
    assert full["strategy.host-kv-pool"] == told(report)["strategy.host-kv-pool"]


def test_a_status_that_is_unknown_is_said() -> None:
    report = REPORTS["unread"]()
    assert (
        told(replace(report, verdict=replace(report.verdict, status=Status.UNKNOWN)))["status"]
        == "unknown"
    )


def test_the_sample_in_the_documents_is_what_is_printed() -> None:
    text = render(of_tree("three-l40"), Policy(), "2026-11-30T14:00:00Z")
    assert f"```\n{text}```\n" in DOCUMENT


def test_the_documents_name_every_label() -> None:
    rows = set(re.findall(r"^\| `([a-z][^`]*)` \|", DOCUMENT, re.MULTILINE))
    known = {
        re.sub(r"^critical\..*", "critical.ID", name)
        for r in REPORTS.values()
        for name in told(r())
    }
    assert known <= rows
