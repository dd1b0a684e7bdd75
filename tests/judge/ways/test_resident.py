"""A model in VRAM: what a token moves there, which cards hold it, what several cards make of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.rates.gpu_stage import gpu_seconds
from nodecheck.judge.rates.reads import reads
from nodecheck.judge.strategies import reference_workload
from nodecheck.judge.ways import resident
from nodecheck.model import Strategy, Viability
from nodecheck.policy import Policy
from nodecheck.serving import Kind, Serving, Workload
from nodecheck.units import GB, GIB
from nodecheck.workload.assemble import assemble
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, qwen_30b_a3b, small_mix, weights
from tests.nodes import l40, three_l40

SEEN = three_l40()
CARDS = node.cards(SEEN)


def on(*gpus: Gpu) -> node.Cards:
    return replace(CARDS, gpus=gpus)


def card(index: int, size_gib: float, rate: float = 864.0, used_gib: float = 0.0) -> Gpu:
    return replace(
        l40(index),
        name=f"NVIDIA {size_gib:g} GiB",
        memory_bytes=round(size_gib * GIB),
        memory_used_bytes=round(used_gib * GIB),
        vram_bytes_per_second=rate * GB,
    )


def resident_on(work: Workload, *gpus: Gpu, seen: Seen = SEEN) -> Strategy:
    return resident.gpu_resident(seen, work, on(*gpus))


# --- what a token moves ---


def test_a_token_reads_all_but_the_embedding_and_what_is_remembered() -> None:
    whole = reads(SEEN, qwen_27b()).whole
    embedding = 1_271_398_400
    matrices, norms = 26_895_998_464 - 674_816, 674_816
    bits = 8 * (round(16.3 * GIB) - 4 * norms) / matrices
    read = (matrices - embedding + 5120) * bits / 8 + 4 * norms
    state = 2 * 156_893_184
    assert whole.bytes.floor == pytest.approx(read + state, rel=1e-6)
    assert whole.bytes.high == pytest.approx(read + state + 65_536 * 8192, rel=1e-6)


def test_several_requests_read_weights_once_and_each_its_own_cache() -> None:
    one, sixteen = (reads(asked(requests), qwen_27b()).whole for requests in (1, 16))
    assert sixteen.weight_bytes == one.weight_bytes
    assert sixteen.step_bytes == one.step_bytes
    assert sixteen.cache_bytes == 16 * one.cache_bytes
    assert sixteen.state_bytes == 16 * one.state_bytes


def test_several_requests_read_more_experts_but_not_all_of_each() -> None:
    spread = [reads(asked(n), qwen_30b_a3b()).all_experts.step_bytes.high for n in (1, 16, 4096)]
    assert spread[1] / spread[0] == pytest.approx((1 - (15 / 16) ** 16) * 16, rel=1e-4)
    assert spread[2] / spread[0] == pytest.approx(16, rel=1e-4)


def test_each_of_several_requests_is_slower_and_all_together_faster() -> None:
    alone, each = (
        resident.gpu_resident(asked(n, context=32768), qwen_27b(), CARDS) for n in (1, 8)
    )
    assert alone.low is not None
    assert each.low is not None
    assert each.low < 0.8 * alone.low
    assert 8 * each.low > 3 * alone.low
    assert "each of 8 requests" in each.basis


def asked(requests: int, context: int = 8192) -> Seen:
    return replace(SEEN, serving=Serving(requests=requests, context_tokens=context))


def test_the_context_and_the_type_of_the_cache_are_those_asked_for() -> None:
    asked = replace(SEEN, serving=Serving(context_tokens=1000, kv_type="q8_0"))
    assert reads(asked, qwen_27b()).whole.cache_bytes == 1000 * 34_816


def test_a_hybrid_of_27b_at_four_bits_holds_the_measured_rate() -> None:
    found = resident_on(qwen_27b(), l40(0))
    assert found.limit == "VRAM bandwidth, 864 GB/s"
    assert found.low is not None
    assert found.high is not None
    assert 33 < found.low < 38.0 < found.high < 42
    assert found.basis == "0.7-0.8 x 864 / 17.0-17.5 GB, context 0-8,192"


def test_a_module_that_guesses_is_stored_and_not_read() -> None:
    plain, guessing = (reads(SEEN, qwen_27b(mtp=mtp)).whole for mtp in (False, True))
    assert guessing.bytes == plain.bytes
    assert guessing.stored_bytes > plain.stored_bytes


def test_experts_are_read_in_part() -> None:
    whole = reads(SEEN, qwen_30b_a3b()).whole
    assert whole.weight_bytes.high < 0.12 * whole.stored_bytes


def test_a_tied_output_takes_vram_although_no_file_holds_it() -> None:
    table = weights(Kind.EMBEDDING, 2048 * 32000, "q8_0", 2048)
    tied = replace(table, kind=Kind.OUTPUT, parameters=0, bytes=0,
                   read_parameters=table.parameters, read_bytes=table.bytes)  # fmt: skip
    work = assemble([(None, table), (None, tied)], {}, name="tied", layers=0)
    parts = reads(SEEN, work)
    assert parts.output.stored_bytes == table.bytes
    assert parts.output.weight_bytes.high == table.bytes


@pytest.mark.parametrize(
    ("name", "rate", "gigabytes", "blocks", "measured"),
    [
        ("gpt-oss-20b MXFP4, RTX PRO 6000", 1792, 2.56, 24, 391.2),
        ("Qwen3-8B Q4_K_M, RTX 5090", 1792, 4.70, 36, 221.7),
        ("Llama-3.1-8B Q4_K_M, RTX 3080", 760, 4.63, 32, 111.95),
        ("Mistral-7B Q4_K_M, RTX 2080", 448, 4.30, 32, 77.8),
        ("Llama-3.2-1B Q4_K_M, RTX 2080", 448, 0.80, 16, 304.3),
    ],
)
def test_small_models_and_fast_cards_as_public_rows_have_them(
    name: str, rate: float, gigabytes: float, blocks: int, measured: float
) -> None:
    """llama.cpp#16991, continuum#1627, LLM-inference-speed-benchmarks#12, llmfit#778."""
    work = from_numbers(name, round(gigabytes * GB), blocks, "q4_k")
    seconds = gpu_seconds(reads(SEEN, work).whole, rate * GB, blocks)
    assert 1 / seconds.high < measured < 1 / seconds.floor


def test_starting_kernels_holds_a_small_model_on_a_fast_card() -> None:
    found = resident_on(small_mix(), card(0, 140, rate=4800))
    assert found.limit == "starting kernels, then VRAM bandwidth, 4800 GB/s"


# --- which cards hold it ---


def test_another_programs_memory_is_not_free() -> None:
    work = qwen_27b()
    assert resident_on(work, card(0, 24)).viability is Viability.VIABLE
    shared = resident_on(work, card(0, 24, used_gib=8))
    assert shared.limit == "VRAM size"
    assert "16 GiB of 24 GiB of VRAM free on 1 card" in shared.basis


def test_what_the_driver_itself_takes_counts_as_free() -> None:
    assert node.Cards((card(0, 24, used_gib=0.5),), GIB).all_free_bytes == 24 * GIB


def test_of_the_cards_that_hold_a_model_the_fastest_counts() -> None:
    found = resident_on(qwen_27b(), card(0, 48, 300), card(1, 32, 1792), card(2, 8, 2000))
    assert found.limit == "VRAM bandwidth, 1792 GB/s"
    assert found.basis.endswith(", on one 32 GiB")


def test_layers_over_unlike_cards_are_read_in_turn() -> None:
    found = resident_on(qwen_27b(), card(0, 12, 400), card(1, 12, 800))
    assert "layers split over 2 cards" in found.basis
    assert found.limit == f"VRAM bandwidth, {2 / (1 / 400 + 1 / 800):.0f} GB/s"


def test_each_card_of_a_split_has_an_engines_overhead() -> None:
    """And leaves a part of a layer unused."""
    need = resident.needed_vram_bytes(SEEN, qwen_27b(), l40(0)) / GIB
    assert resident_on(qwen_27b(), card(0, need / 2), card(1, need / 2)).limit == "VRAM size"
    roomy = resident_on(qwen_27b(), card(0, need / 2 + 0.7), card(1, need / 2 + 0.7))
    assert roomy.viability is Viability.VIABLE


def test_each_request_takes_a_cache_and_a_state() -> None:
    one, eight = (
        resident.needed_vram_bytes(replace(SEEN, serving=Serving(requests=n)), qwen_27b(), l40(0))
        for n in (1, 8)
    )
    assert eight - one == 7 * (8192 * 65_536 + 156_893_184)


def test_a_model_that_holds_nothing_to_read_is_not_judged() -> None:
    tower = assemble([(None, weights(Kind.OTHER, 1000))], {}, name="tower", layers=12)
    found = resident_on(tower, l40(0))
    assert found.viability is Viability.UNKNOWN
    assert "nothing that a token of text reads" in found.basis


# --- layers cut across cards ---


def parallel(work: Workload, *gpus: Gpu, seen: Seen = SEEN) -> Strategy:
    found = resident.tensor_parallel(seen, work, on(*gpus))
    assert found is not None
    return found


def test_the_link_is_named_and_not_guessed() -> None:
    found = parallel(qwen_27b(), l40(0), l40(1))
    assert found.low is None
    assert found.viability is Viability.UNKNOWN
    assert found.limit == "link between the cards, not measured"
    assert "peer copies in this VM not known" in found.basis
    bare = replace(SEEN, facts=replace(SEEN.facts, virt=replace(SEEN.facts.virt, guest=False)))
    assert "peer copies not known" in parallel(qwen_27b(), l40(0), l40(1), seen=bare).basis


def test_the_ceiling_is_the_cards_rates_together_less_what_a_link_must_carry() -> None:
    alone, both = resident_on(qwen_27b(), l40(0)), parallel(qwen_27b(), l40(0), l40(1))
    assert alone.high is not None
    assert both.high is not None
    assert 1.98 * alone.high < both.high < 2 * alone.high


def test_what_an_all_reduce_may_take_follows_from_one_cards_time() -> None:
    """64 layers sum twice: 24.6 ms on one card, 12.3 on two, so 96 us for each of 128."""
    basis = parallel(qwen_27b(), l40(0), l40(1)).basis
    assert "pays while each of 128 all-reduces a token takes under 96 us" in basis


@pytest.mark.parametrize(
    ("heads", "cards", "used"),
    [(4, 3, 2), (8, 3, 2), (2, 8, 8), (1, 5, 4), (None, 3, 3), (10, 4, 2)],
)
def test_heads_divide_by_the_cards_or_the_cards_by_the_heads(
    heads: int | None, cards: int, used: int
) -> None:
    work = replace(reference_workload(Policy()), kv_heads=heads)
    assert resident.parallel_cards(work, cards) == used


def test_one_card_is_not_cut_across() -> None:
    assert resident.tensor_parallel(SEEN, qwen_27b(), on(l40(0))) is None


# --- why not ---


def test_what_each_card_lacks_is_told_of_the_engine_that_lacks_least() -> None:
    """vLLM takes 0.9 of a card: 22 GiB of 24 are not there for it."""
    work = replace(qwen_27b(round(20.6 * GIB)), format="safetensors")
    found = resident_on(work, card(0, 24))
    assert found.limit == "VRAM size"
    assert found.basis.startswith("vLLM needs 22")
    assert "21.6 GiB there for it" in found.basis
    assert "llama.cpp would hold it, as a GGUF file of this size" in found.basis
    need = resident.needed_vram_bytes(SEEN, work, card(0, 24))
    assert need == pytest.approx(22.26 * GIB / 0.9, rel=0.01)
