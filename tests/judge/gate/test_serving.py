"""A model's answer: short, and never better than what is known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.judge.gate.answers import Answer
from nodecheck.judge.gate.serving import serving, shortage
from nodecheck.model import Gap, Reason, Status, Viability
from nodecheck.plan import Plan
from nodecheck.serving import Fit
from tests.render.plans import CPU_NODE, L40_FITS, MOE, SMALL, THREE_L40, UNKNOWN, strategy

NOT_READ = strategy("model-load", Viability.UNKNOWN, "not known", "disk read not measured")


def answer(plan: Plan, name: str | None, minimum: float | None, *gaps: Gap) -> Answer:
    return serving(plan.strategies, plan.fits, gaps, name, minimum)


@pytest.mark.parametrize(
    ("plan", "name", "minimum", "status", "text"),
    [
        (SMALL, "gpu-resident", 20, "ok", "gpu-resident 75-86 tok/s >= 20"),
        (SMALL, "gpu-resident", 80, "warning", "gpu-resident 75-86 tok/s, >= 80 not sure"),
        (SMALL, "gpu-resident", 86.5, "critical", "gpu-resident 75-86 tok/s just < 86.5"),
        (SMALL, "gpu-resident", 75, "ok", "gpu-resident 75-86 tok/s >= 75"),
        (SMALL, "gpu-resident", 74.9, "ok", "gpu-resident 75-86 tok/s just >= 74.9"),
        (SMALL, None, 20, "ok", "gpu-resident 75-86 tok/s >= 20"),
        (SMALL, None, None, "ok", "gpu-resident viable, 75-86 tok/s"),
        (CPU_NODE, None, None, "critical", "cpu-only not viable, 2.1-3.1 tok/s"),
        (CPU_NODE, None, 2, "ok", "cpu-only 2.1-3.1 tok/s >= 2"),
        (CPU_NODE, "gpu-resident", 5, "critical", "gpu-resident is no way to serve it here"),
        (CPU_NODE, "model-load", None, "unknown", "model-load could not be judged"),
        (MOE, "gpu-resident", 5, "critical", "gpu-resident does not fit: VRAM of one card"),
        (replace(MOE, fits=()), "gpu-resident", 5, "critical",
         "gpu-resident not viable: VRAM size"),
        (MOE, None, 30, "ok", "expert-offload 31-48 tok/s >= 30"),
        (THREE_L40, "tensor-parallel", 20, "unknown",
         "tensor-parallel 124 tok/s or less, whether it reaches 20 is not known"),
        (THREE_L40, "tensor-parallel", 200, "critical", "tensor-parallel 124 tok/s or less, < 200"),
        (THREE_L40, "tensor-parallel", None, "unknown",
         "tensor-parallel not known: link between the cards, not measured"),
        (replace(UNKNOWN, strategies=(NOT_READ,)), "model-load", None, "unknown",
         "model-load not known: disk read not measured"),
        (THREE_L40, "host-kv-pool", None, "ok",
         "host-kv-pool viable, 0.06-0.11 s to fetch 10k cached tokens from RAM"),
        (UNKNOWN, None, 20, "unknown",
         "gpu-resident not known: the VRAM rate of a card is not known"),
        (replace(UNKNOWN, strategies=()), None, 20, "unknown",
         "no way to serve the model could be judged"),
    ],
)  # fmt: skip
def test_the_whole_range_must_reach_the_minimum(
    plan: Plan, name: str | None, minimum: float | None, status: str, text: str
) -> None:
    found = answer(plan, name, minimum)
    assert (found.status.value, found.text) == (status, text)


def test_a_rate_without_certainty_that_it_fits_is_unknown() -> None:
    doubtful = strategy("gpu-resident", Viability.UNKNOWN, "x", "y", 30.0, 40.0)
    found = answer(replace(SMALL, strategies=(doubtful,), fits=()), None, 20)
    assert found.status is Status.UNKNOWN
    assert found.text == "gpu-resident 30-40 tok/s >= 20, but not known if it can be"


def test_a_driver_that_does_not_answer_is_no_missing_gpu() -> None:
    gap = Gap(check="gpu", field="*", reason=Reason.TIMEOUT, detail="no answer")
    found = answer(CPU_NODE, "gpu-resident", 20, gap)
    assert (found.status, found.text) == (Status.UNKNOWN, "gpu-resident could not be judged")


@pytest.mark.parametrize(
    ("minimum", "text"),
    [(None, "cpu-only not viable, 2.1-3.1 tok/s"), (20, "cpu-only 2.1-3.1 tok/s < 20")],
)
def test_where_a_better_way_could_not_be_judged_no_way_is_not_enough(
    minimum: float | None, text: str
) -> None:
    hangs = Gap(check="gpu", field="gpus", reason=Reason.TIMEOUT, detail="no answer")
    found = answer(CPU_NODE, None, minimum, hangs)
    assert (found.status, found.text) == (Status.UNKNOWN, f"GPUs could not be judged; {text}")
    assert found.value is None
    dark = strategy("gpu-resident", Viability.UNKNOWN, "not known", "its driver did not tell")
    ways = (dark, *CPU_NODE.strategies)
    found = answer(replace(CPU_NODE, strategies=ways), None, minimum)
    assert (found.status, found.text) == (
        Status.UNKNOWN, f"gpu-resident could not be judged; {text}",
    )  # fmt: skip
    assert answer(replace(CPU_NODE, strategies=ways), "cpu-only", minimum).status is Status.CRITICAL
    pool = strategy("host-kv-pool", Viability.UNKNOWN, "not known", "x")  # decodes nothing itself
    ways = (pool, *CPU_NODE.strategies)
    assert answer(replace(CPU_NODE, strategies=ways), None, minimum).status is Status.CRITICAL


@pytest.mark.parametrize(
    ("plan", "name", "minimum", "value"),
    [
        (SMALL, None, 20, 75),  # what is sure
        (SMALL, None, None, 75),
        (THREE_L40, "tensor-parallel", 20, None),
        (MOE, "gpu-resident", 5, None),  # a rate of what does not fit is none
    ],
)
def test_the_figure_is_the_rate_that_is_sure(
    plan: Plan, name: str | None, minimum: float | None, value: float | None
) -> None:
    found = answer(plan, name, minimum)
    assert found.name == "tokens_per_second"
    assert found.value == (value if value is None else pytest.approx(value, rel=0.02))
    assert found.warning_below == minimum


def test_what_is_told_in_seconds_has_no_rate() -> None:
    found = answer(THREE_L40, "host-kv-pool", None)
    assert (found.name, found.value, found.warning_below) == ("model", None, None)


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
