"""What guessing ahead gains, and what it takes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.ways.speculative import (
    accepted_length,
    check_cost,
    draft_cost,
    experts_read,
    speculative,
    speed_up,
)
from nodecheck.model import Strategy, Viability
from nodecheck.serving import Kind, Serving, Workload
from nodecheck.units import GIB
from nodecheck.workload.assemble import PlacedWeights, assemble
from tests.judge.models import qwen_27b, qwen_30b_a3b, weights
from tests.nodes import three_l40


def answer(work: Workload, serving: Serving = Serving(), **changes: int) -> Strategy | None:  # noqa: B008
    seen = replace(three_l40(), workload=work, serving=serving)
    if changes:
        cards = tuple(replace(gpu, **changes) for gpu in seen.facts.gpus[:1])
        seen = replace(seen, facts=replace(seen.facts, gpus=cards))
    return speculative(seen, work, node.cards(seen))


def at(serving: Serving) -> Seen:
    return replace(three_l40(), serving=serving)


@pytest.mark.parametrize(
    ("acceptance", "drafts", "length"),
    [(0.75, 3, 2.734), (0.8, 3, 2.952), (0.0, 3, 1.0), (1.0, 3, 4.0), (0.5, 1, 1.5)],
)
def test_accepted_length(acceptance: float, drafts: int, length: float) -> None:
    assert accepted_length(acceptance, drafts) == pytest.approx(length, abs=0.001)


def test_a_guess_of_a_27b_reads_its_module_and_the_output() -> None:
    """425 M of the MTP block and 1,271 M of the output, of 25.6 B: 6.6 %."""
    cost = draft_cost(three_l40(), qwen_27b(mtp=True))
    assert cost is not None
    assert cost.low == cost.high == pytest.approx(0.066, abs=0.001)


def test_what_was_measured_lies_in_the_range() -> None:
    """39.1 tok/s became 70.9 on an L40 with 3 tokens ahead and accepted lengths of 2.75 to 2.93."""
    found = answer(qwen_27b(mtp=True))
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < 70.9 < found.high
    assert found.viability is Viability.VIABLE
    for acceptance in (0.755, 0.795):
        gain = speed_up(at(Serving(draft_tokens=3, acceptance=acceptance)), qwen_27b(mtp=True))
        assert gain is not None
        assert gain.floor * 0.97 < 70.9 / 39.1 < gain.high * 1.03


def test_the_basis_says_what_is_a_reference() -> None:
    found = answer(qwen_27b(mtp=True))
    assert found is not None
    assert "acceptance 0.6-0.85 (reference)" in found.basis
    told = answer(qwen_27b(mtp=True), Serving(draft_tokens=2, acceptance=0.9))
    assert told is not None
    assert "2 tokens ahead, acceptance 0.9," in told.basis


def test_a_model_without_a_module_has_nothing_to_guess_with() -> None:
    assert answer(qwen_27b()) is None
    asked = answer(qwen_27b(), Serving(draft_tokens=3))
    assert asked is not None
    assert asked.viability is Viability.UNKNOWN


def test_a_draft_model_costs_its_bytes() -> None:
    serving = Serving(draft_bytes=2 * GIB)
    cost = draft_cost(at(serving), qwen_27b())
    assert cost is not None
    assert cost.high == pytest.approx(2 * GIB / qwen_27b().read_bytes_per_token_shipped, rel=0.001)  # type: ignore[operator]
    found = answer(qwen_27b(), serving)
    assert found is not None
    assert "a draft model" in found.basis


def test_a_poor_guesser_is_not_worth_it() -> None:
    found = answer(qwen_27b(mtp=True), Serving(draft_tokens=3, acceptance=0.1))
    assert found is not None
    assert found.viability is Viability.NOT_VIABLE


def test_several_tokens_read_more_experts_than_one() -> None:
    dense, sparse = qwen_27b(), qwen_30b_a3b()
    assert experts_read(dense, 4) == 1.0
    share = 8 / 128
    distinct = (1 - (1 - share) ** 4) / share
    assert 1 < experts_read(sparse, 4) < distinct
    assert experts_read(sparse, 1) == pytest.approx(1.0)


def test_checking_with_experts_reads_from_one_tokens_to_all() -> None:
    dense, sparse = check_cost(qwen_27b(), 3), check_cost(qwen_30b_a3b(), 3)
    assert sparse.low == dense.low == pytest.approx(1.32)
    assert sparse.high > 1.5 * dense.high


def test_a_module_with_copies_of_its_own_may_not_read_the_output() -> None:
    """As heavy as embedding and output: that it has its own cannot be told from experts."""
    placed: list[PlacedWeights] = [
        (None, weights(Kind.EMBEDDING, 10**9, read=4096)),
        (None, weights(Kind.OUTPUT, 10**9)),
        (0, weights(Kind.FFN, 8 * 10**9)),
        (1, weights(Kind.MTP, 3 * 10**9, read=2 * 10**9)),
    ]
    work = assemble(placed, {}, name="m", layers=2, mtp_layers=1)
    cost = draft_cost(three_l40(), work)
    assert cost is not None
    assert (cost.low, cost.high) == pytest.approx((2 / 9, 3 / 9), rel=0.001)


def test_states_to_roll_back_to_may_not_fit() -> None:
    """All 8 requests of the 27B fit; with 36 states more they do not."""
    work = replace(qwen_27b(25 * GIB, mtp=True), format="safetensors")
    serving = Serving(requests=8)
    refused = answer(work, serving, memory_bytes=42 * GIB)
    assert refused is not None
    assert refused.limit == "VRAM size"
    assert "to guess" in refused.basis
    roomy = answer(work, serving, memory_bytes=47 * GIB)
    assert roomy is not None
    assert roomy.limit != "VRAM size"


def test_twice_the_rate_moves_it() -> None:
    found = answer(qwen_27b(mtp=True))
    assert found is not None
    lever = found.levers[0]
    assert lever.resource == "bandwidth"
    assert lever.high is not None
    assert found.high is not None
    assert lever.high > 1.5 * found.high


def test_without_a_card_there_is_none() -> None:
    seen = three_l40()
    bare = replace(seen, facts=replace(seen.facts, gpus=()))
    assert speculative(bare, qwen_27b(mtp=True), node.cards(bare)) is None


def test_stages_do_not_guess() -> None:
    """Three cards hold it in stages alone, across which neither server guesses."""
    work = replace(qwen_27b(100 * GIB, mtp=True), format="safetensors")
    seen = three_l40()
    found = speculative(seen, work, node.cards(seen))
    assert found is not None
    assert found.viability is Viability.NOT_VIABLE
    assert "in stages" in found.basis
    gguf = speculative(seen, replace(work, format="gguf"), node.cards(seen))
    assert gguf is not None
    assert gguf.high is not None
