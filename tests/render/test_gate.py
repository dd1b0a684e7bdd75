"""A line that a pager shows: short, the worst first, never better than what is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.seen import Facts
from nodecheck.model import Finding, Gap, Reason, Severity, Status, Verdict, Viability
from nodecheck.plan import Plan
from nodecheck.render.gate import FIRST_LINE_BYTES, gate, shortage
from nodecheck.report import HostInfo, Report
from nodecheck.serving import Fit
from tests.render.benches import SLOW
from tests.render.plans import CPU_NODE, L40_FITS, MOE, SMALL, THREE_L40, UNKNOWN, strategy


def node(status: Status = Status.OK, *findings: Finding, gaps: tuple[Gap, ...] = ()) -> Report:
    return Report(
        nodecheck_version="0",
        time="2026-01-01T00:00:00+00:00",
        host=HostInfo(source="live", holds=()),
        facts=Facts(),
        findings=findings,
        verdict=Verdict(status=status, headline="The node."),
        gaps=gaps,
    )


HEALTHY = node()
WARNING = replace(SLOW, id="disk.low", severity=Severity.WARNING)


@pytest.mark.parametrize(
    ("plan", "name", "minimum", "line"),
    [
        (SMALL, "gpu-resident", 20, "OK gpu-resident 75-86 tok/s >= 20"),
        (SMALL, "gpu-resident", 80, "WARNING gpu-resident 75-86 tok/s, >= 80 not sure"),
        (SMALL, "gpu-resident", 86.5, "CRITICAL gpu-resident 75-86 tok/s < 86.5"),
        (SMALL, "gpu-resident", 75, "OK gpu-resident 75-86 tok/s >= 75"),
        (SMALL, None, 20, "OK gpu-resident 75-86 tok/s >= 20"),
        (SMALL, None, None, "OK gpu-resident viable, 75-86 tok/s"),
        (CPU_NODE, None, None, "CRITICAL cpu-only not viable, 2.1-3.1 tok/s"),
        (CPU_NODE, None, 2, "OK cpu-only 2.1-3.1 tok/s >= 2"),
        (CPU_NODE, "gpu-resident", 5, "CRITICAL gpu-resident is no way to serve it here"),
        (CPU_NODE, "model-load", None, "UNKNOWN model-load could not be judged"),
        (MOE, "gpu-resident", 5, "CRITICAL gpu-resident does not fit: VRAM of one card"),
        (replace(MOE, fits=()), "gpu-resident", 5, "CRITICAL gpu-resident not viable: VRAM size"),
        (MOE, None, 30, "OK expert-offload 31-48 tok/s >= 30"),
        (THREE_L40, "tensor-parallel", 20,
         "UNKNOWN tensor-parallel 124 tok/s or less, >= 20 not known"),
        (THREE_L40, "tensor-parallel", 200, "CRITICAL tensor-parallel 124 tok/s or less, < 200"),
        (THREE_L40, "host-kv-pool", None,
         "OK host-kv-pool viable, 0.06-0.11 s to fetch 10k cached tokens from RAM"),
        (UNKNOWN, None, 20,
         "UNKNOWN gpu-resident not known: the VRAM rate of a card is not known"),
        (replace(UNKNOWN, strategies=()), None, 20,
         "UNKNOWN no way to serve the model could be judged"),
    ],
)  # fmt: skip
def test_the_first_line_is_the_answer(
    plan: Plan, name: str | None, minimum: float | None, line: str
) -> None:
    told = gate(plan, HEALTHY, name, minimum)
    assert told.line == line
    assert told.line.startswith(told.status.value.upper())


def test_a_rate_without_certainty_that_it_fits_is_unknown() -> None:
    doubtful = strategy("gpu-resident", Viability.UNKNOWN, "x", "y", 30.0, 40.0)
    told = gate(replace(SMALL, strategies=(doubtful,), fits=()), HEALTHY, None, 20)
    assert told.status is Status.UNKNOWN
    assert told.line == "UNKNOWN gpu-resident 30-40 tok/s >= 20, but not known if it can be"


def test_a_driver_that_does_not_answer_is_no_missing_gpu() -> None:
    gap = Gap(check="gpu", field="*", reason=Reason.TIMEOUT, detail="no answer")
    told = gate(CPU_NODE, node(gaps=(gap,)), "gpu-resident", 20)
    assert told.line == "UNKNOWN gpu-resident could not be judged"


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (node(Status.CRITICAL, SLOW, WARNING),
         "CRITICAL node: cpu.decode_compute_bound and 1 more; gpu-resident 75-86 tok/s >="),
        (node(Status.WARNING, WARNING), "WARNING node: disk.low; gpu-resident 75-86 tok/s >= 20"),
        (node(Status.UNKNOWN), "UNKNOWN the node could not be judged whole; gpu-resident 75-86"),
    ],
)  # fmt: skip
def test_the_nodes_own_status_counts(report: Report, line: str) -> None:
    told = gate(SMALL, report, "gpu-resident", 20)
    assert told.status is report.verdict.status
    assert told.line.startswith(line[:74])


def test_the_worst_of_both_comes_first() -> None:
    told = gate(SMALL, node(Status.WARNING, WARNING), "gpu-resident", 100)
    assert told.line == "CRITICAL gpu-resident 75-86 tok/s < 100; node: disk.low"


def test_the_grounds_follow() -> None:
    told = gate(THREE_L40, node(Status.WARNING, WARNING), "gpu-resident", 20)
    assert told.details[0] == "model: Qwen3.5-27B-Q4_K_XL, 16 GiB"
    assert told.details[1].startswith("gpu-resident: limited by VRAM bandwidth, 864 GB/s; 0.7-0.8")
    assert told.details[2].startswith(
        "SGLang: VRAM of one card 51.3 GiB needed, 45 GiB there; --tp"
    )
    assert told.details[-1] == "node: The node."


ROOMY, TIGHT, _, MEMLOCK = L40_FITS
FOR_ALL = replace(TIGHT, engine=None, room="disk")


@pytest.mark.parametrize(
    ("fits", "short"),
    [
        ((), None),
        ((ROOMY, TIGHT), None),  # one engine has the room
        ((TIGHT,), TIGHT),
        ((ROOMY, replace(TIGHT, engine="llama.cpp")), replace(TIGHT, engine="llama.cpp")),
        ((ROOMY, FOR_ALL), FOR_ALL),
        ((replace(MEMLOCK, strategy="gpu-resident"),), None),  # not known is not too little
        ((replace(TIGHT, strategy="cpu-only"),), None),
    ],
)
def test_it_does_not_fit_where_no_engine_has_the_room(
    fits: tuple[Fit, ...], short: Fit | None
) -> None:
    assert shortage("gpu-resident", fits) == short


@given(st.text(), st.text())
def test_the_first_line_is_short_whatever_the_names(limit: str, finding: str) -> None:
    refused = strategy("gpu-resident", Viability.NOT_VIABLE, limit, "x")
    report = node(Status.CRITICAL, replace(SLOW, id=finding))
    told = gate(replace(SMALL, strategies=(refused,), fits=()), report, None, None)
    assert len(told.line.encode(errors="replace")) <= FIRST_LINE_BYTES
    assert "\n" not in told.line
