"""Each row of a benchmark beside its ceiling, and what explains it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.seen import Facts, Seen
from nodecheck.judge.runs.compare import compare
from nodecheck.serving import Comparison, Run, Storage, Workload
from nodecheck.units import GIB
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, qwen_30b_a3b, small_mix
from tests.judge.runs.rows import (
    L40,
    ONE_L40,
    ONE_PRO_6000,
    PRO_6000,
    TWO_L40,
    WITH_MTP,
    ngl,
    served,
)
from tests.nodes import AVX2, SSE2, dram, three_l40

NUMBERS = from_numbers("27B", round(16.3 * GIB), 64, "q4_k", 65536)
BY_LAYER = qwen_27b()
NOW = "2026-11-30T09:00:00+00:00"
JUST_BEFORE = "2026-11-30T08:57:00Z"


def one(run: Run, work: Workload = BY_LAYER, seen: Seen | None = None, **more: Any) -> Comparison:
    (found,) = compare(seen or three_l40(), work, [run], **more)
    return found


def with_facts(seen: Seen, **members: Any) -> Seen:
    return replace(seen, facts=replace(seen.facts, **members))


def with_cpu(seen: Seen, **members: Any) -> Seen:
    return with_facts(seen, cpu=replace(seen.facts.cpu, **members))


@pytest.mark.parametrize(
    ("work", "says"),
    [(NUMBERS, "73-77 % of what 864 GB/s allow"), (BY_LAYER, "77 % with all 17.5 GB of the file")],
)
def test_all_on_a_card_is_73_to_77_percent_of_its_vram(work: Workload, says: str) -> None:
    row = one(ngl(99, 38.0), work)
    assert row.strategy == "gpu-resident"
    assert row.share is not None
    assert 0.73 <= row.share <= 0.77
    assert row.explained_by is not None
    assert row.explained_by.startswith("VRAM bandwidth")
    assert says in row.says
    assert row.low is not None
    assert row.high is not None
    assert row.low < 38.0 < row.high
    assert not row.look_at


@pytest.mark.parametrize("layers", [99, 96, 65, -1])
def test_values_that_leave_no_layer_have_one_ceiling(layers: int) -> None:
    assert one(ngl(layers, 38.0)).ceiling == one(ngl(99, 38.0)).ceiling
    assert one(ngl(layers, 38.0)).strategy == "gpu-resident"


def test_half_on_the_cpu_is_faster_than_that_cpu_allows() -> None:
    row = one(ngl(50, 3.72))
    assert row.strategy == "partial-offload"
    assert row.explained_by is None
    assert row.share is not None
    assert row.share > 1.5
    assert "15 of 65 layers, 3.7 GB a token" in row.says
    assert "14-16 GB/s" in row.says
    assert "above the 11.7 GB/s that its DRAM delivers" in row.says
    assert "that its cores use up (reference)" in row.says
    assert any(text.startswith("the build") for text in row.look_at)


def test_all_on_the_cpu_is_slower_than_that_cpu_allows() -> None:
    row = one(ngl(0, 0.07))
    assert row.strategy == "cpu-only"
    assert row.explained_by is None
    assert "1.1-1.2 GB/s" in row.says
    assert "times slower than predicted" in row.says
    looked = " ".join(row.look_at)
    for word in ("paging", "contention", "number of threads"):
        assert word in looked
    assert "one core alone uses up 0.9-1.1 GB/s (reference)" in looked
    assert "the build" not in looked  # SSE2 is the least there is


def test_cards_in_parallel_fall_short_of_both_and_of_one() -> None:
    row = one(TWO_L40)
    assert row.strategy == "tensor-parallel"
    assert row.explained_by is None
    assert row.ceiling == pytest.approx(2 * (one(ngl(99, 38.0)).ceiling or 0), rel=0.01)
    assert "2 x 864 GB/s" in row.says
    assert "less than one of the cards allows" in row.says
    assert row.look_at[0].startswith("the link between the cards")
    assert "its circumstances: live traffic" in row.look_at


def test_cards_in_parallel_that_reach_their_vram_are_explained_by_it() -> None:
    row = one(served(75.0, L40, L40))
    assert row.explained_by is not None
    assert row.explained_by.startswith("VRAM bandwidth")
    assert row.low is None


def test_another_machine_is_held_to_its_own_card() -> None:
    row = one(ONE_PRO_6000)
    assert row.says.startswith("Another machine (RTX PRO 6000 Blackwell Workstation Edition).")
    assert "1,792 GB/s" in row.says
    assert row.ceiling == pytest.approx(1792.128 / 16.9886, rel=0.01)
    assert one(served(78.0, PRO_6000)).explained_by is not None


def test_a_short_name_that_stands_for_several_products_has_a_range() -> None:
    assert "1,597-1,792 GB/s" in one(served(78.0, "RTX PRO 6000")).says


def test_a_card_that_nobody_knows_has_no_ceiling() -> None:
    row = one(served(78.0, "Imaginary 9000"))
    assert (row.ceiling, row.low, row.high, row.explained_by) == (None, None, None, None)
    assert "the VRAM rate of its card is not known" in row.says


def test_another_cpu_is_not_judged_by_this_one() -> None:
    seen = with_cpu(three_l40(), brand="Common KVM processor")
    row = one(ngl(0, 0.7, cpu="AMD EPYC 9354"), seen=seen)
    assert row.high is None
    assert "what its CPU and memory reach is not known" in row.says
    assert one(ngl(0, 0.3, cpu="Common KVM processor"), seen=seen).high is not None


def test_guessing_ahead_multiplies_the_ceiling() -> None:
    row, plain = one(WITH_MTP[0]), one(ONE_L40)
    assert row.strategy == "speculative"
    assert row.ceiling == pytest.approx(2.75 * (plain.ceiling or 0))
    assert row.explained_by is not None
    assert row.explained_by.startswith("acceptance of guesses, then VRAM bandwidth")


def test_guessing_of_unknown_length_has_no_ceiling_and_is_not_too_fast() -> None:
    row = one(served(70.9, L40, remarks=("MTP",)))
    assert (row.strategy, row.ceiling) == ("speculative", None)
    assert "accepted length is not told" in row.says
    assert one(served(39.0, L40, remarks=("no MTP",))).strategy == "gpu-resident"


def test_faster_than_the_ceiling_is_said_and_what_may_be_why() -> None:
    row = one(served(70.9, L40))
    assert row.share is not None
    assert row.share > 1
    assert row.explained_by is None
    assert "Faster than so many bytes can be read" in row.says
    looked = " ".join(row.look_at)
    assert "MTP" in looked
    assert "the row does not say" in looked


def test_a_row_of_another_file_is_not_compared() -> None:
    row = one(ngl(99, 70.0, model_bytes=9 * GIB))
    assert (row.ceiling, row.strategy) == (None, None)
    assert "another file: 9 GiB of weights, and here 16.3 GiB" in row.says
    assert one(ngl(99, 38.0, model_bytes=round(16.31 * GIB))).ceiling is not None


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (ngl(99, 20.0, placement="-ot exps=CPU"), "-ot exps=CPU"),
        (replace(ngl(99, 20.0), gpu_layers=None), "does not say -ngl"),
        (replace(ngl(99, 20.0), tokens_per_second=None), "not told"),
    ],
)
def test_what_is_not_comparable_says_why(run: Run, why: str) -> None:
    row = one(run)
    assert why in row.says
    assert (row.share, row.explained_by) == (None, None)


def test_a_prompt_row_is_not_compared() -> None:
    row = one(replace(ngl(99, 1.0), tokens_per_second=None, prompt_tokens_per_second=1500.0))
    assert "compute, which is not predicted" in row.says


# A node of which nothing is amiss: every row is explained, and nothing is to be looked at.

CLEAN = three_l40(AVX2, read=60.0)


@pytest.mark.parametrize(
    ("run", "by"),
    [
        (ngl(99, 38.0), "VRAM bandwidth"),
        (ngl(64, 33.0), "VRAM bandwidth"),
        (ngl(50, 11.0), "CPU"),
        (ngl(0, 3.0), "CPU"),
        (ngl(0, 0.35, threads=1), "CPU"),
        (served(75.0, L40, L40), "VRAM bandwidth"),
    ],
)
def test_on_a_clean_node_every_row_is_explained(run: Run, by: str) -> None:
    row = one(run, seen=CLEAN)
    assert row.explained_by is not None
    assert by in row.explained_by or "DRAM" in row.explained_by
    assert not row.look_at


def test_fewer_threads_are_held_to_fewer_threads() -> None:
    few, every = (one(ngl(0, 0.35, threads=n), seen=CLEAN) for n in (1, 8))
    assert few.high is not None
    assert every.low is not None
    assert few.high < every.low
    assert every.explained_by is None


def test_experts_on_the_cpu_are_their_own_strategy() -> None:
    row = one(ngl(99, 30.0, cpu_expert_layers=24), qwen_30b_a3b(), CLEAN)
    assert row.strategy == "expert-offload"
    assert "the experts of 24 layers" in row.says
    whole = one(ngl(99, 30.0, cpu_expert_layers=24), BY_LAYER, CLEAN)
    assert whole.strategy == "gpu-resident"  # it has no experts


def test_a_single_layer_tells_nothing_of_the_cpu() -> None:
    assert "too little to tell its time" in one(ngl(64, 15.0)).says


def test_the_cache_that_lay_before_counts() -> None:
    empty, deep = (one(ngl(99, 30.0, context_tokens=n)) for n in (0, 100_000))
    assert empty.low is not None
    assert deep.low is not None
    assert deep.low < 0.8 * empty.low


def test_many_sequences_are_held_by_compute_too() -> None:
    row = one(served(12.0, L40, concurrency=64, all_tokens_per_second=760.0))
    assert row.low is None
    assert "held by compute too" in row.says
    assert "One of 64 sequences at a time, 760 tok/s together" in row.says


# What to look at follows from the facts.

SLOW = ngl(0, 0.3)


def looked(run: Run, seen: Seen, work: Workload = BY_LAYER, **more: Any) -> str:
    row = one(run, work, seen, **more)
    assert row.explained_by is None
    assert row.look_at
    return "; ".join(row.look_at)


def test_more_threads_than_cpus() -> None:
    assert "oversubscription: 16 threads on 8 CPUs" in looked(replace(SLOW, threads=16), CLEAN)
    assert "oversubscription" not in looked(replace(SLOW, threads=8), CLEAN)


def test_more_threads_than_a_quota() -> None:
    limits = replace(CLEAN.facts.limits, cpu_quota=2.0, thread_budget=2)
    seen = with_facts(CLEAN, limits=limits)
    run = replace(ngl(0, 0.1), threads=8)
    assert "CPU quota: 8 threads on a quota of 2 CPUs" in looked(run, seen)


def test_too_little_ram() -> None:
    memory = replace(CLEAN.facts.memory, available_bytes=8 * GIB)
    assert "paging: 16.5 GiB needed in RAM, 8 GiB free" in looked(
        SLOW, with_facts(CLEAN, memory=memory)
    )


def test_a_rate_that_is_the_disks() -> None:
    disk = Storage(path="/m.gguf", sequential_bytes_per_second=1.2e9)
    work = replace(BY_LAYER, storage=disk)
    assert "paging: the disk below the model reads 1.2 GB/s" in looked(ngl(0, 0.07), CLEAN, work)
    assert "the disk below" not in looked(ngl(0, 0.6), CLEAN, work)


def test_without_mmap_nothing_is_paged() -> None:
    assert "paging" in looked(SLOW, CLEAN)
    assert "paging" not in looked(replace(SLOW, mmap=False), CLEAN)


def test_a_build_without_the_cpus_instructions() -> None:
    """8 cores use up 4 to 9 GB/s of q4_k with SSE2 alone."""
    assert "the build: code for SSE2 alone" in looked(ngl(0, 0.45), CLEAN)
    assert "the build" not in looked(ngl(0, 0.05), CLEAN)


def test_passes_that_disagree() -> None:
    assert "its own passes differ by 30 %" in looked(replace(SLOW, spread=0.09), CLEAN)


IDLE = with_cpu(CLEAN, load_1min=0.1, busy_share=0.01, steal_share=0.0)
LOADED = with_cpu(CLEAN, load_1min=14.0, busy_share=0.97, steal_share=0.2)


def test_what_kept_the_node_busy_is_told_where_it_was_looked_at_then() -> None:
    run = replace(SLOW, when=JUST_BEFORE)
    said = looked(run, LOADED, time=NOW)
    assert "a load of 14.0 on 8 CPUs" in said
    assert "20 % of CPU time stolen" in said
    assert "The node was busy near that time" in one(run, seen=LOADED, time=NOW).says
    assert "contention" not in looked(run, IDLE, time=NOW)


@pytest.mark.parametrize("when", [None, "2026-11-29T08:57:00Z", "2026-11-30T08:57:00", "today"])
def test_else_the_nodes_state_then_is_not_known(when: str | None) -> None:
    run = replace(SLOW, when=when)
    assert "what else ran then is not known" in looked(run, LOADED, time=NOW)
    assert "busy near" not in one(run, seen=LOADED, time=NOW).says


def test_an_explained_row_on_a_busy_node_says_so_too() -> None:
    row = one(ngl(99, 38.0, when=JUST_BEFORE), seen=LOADED, time=NOW)
    assert row.explained_by is not None
    assert "The node was busy near that time" in row.says


def test_a_busy_card() -> None:
    gpus = (replace(CLEAN.facts.gpus[0], utilisation_share=0.97), *CLEAN.facts.gpus[1:])
    seen = with_facts(IDLE, gpus=gpus)
    run = ngl(99, 20.0, when=JUST_BEFORE)
    assert "GPU 0 97 % busy" in looked(run, seen, time=NOW)


def test_clocks_that_are_held_and_a_cache_in_ram() -> None:
    held = tuple(
        replace(g, clocks_event_reasons=("hw_thermal_slowdown",)) for g in CLEAN.facts.gpus
    )
    said = looked(ngl(99, 20.0, kv_on_host=True), with_facts(CLEAN, gpus=held))
    assert "GPU clocks: hw_thermal_slowdown" in said
    assert "-nkvo" in said


# Nodes of which little is known.


def test_a_node_without_a_gpu_and_without_a_measurement() -> None:
    bare = Seen(facts=Facts(cpu=three_l40(SSE2).facts.cpu), policy=three_l40().policy)
    row = one(replace(ngl(0, 0.45), gpus=()), seen=bare)
    assert (row.strategy, row.low) == ("cpu-only", None)
    assert row.explained_by is not None
    slow = one(replace(ngl(0, 0.05), gpus=()), seen=bare)
    assert slow.explained_by is None
    assert slow.look_at
    assert "the memory was not measured" in slow.says
    nothing = Seen(facts=Facts(), policy=bare.policy)
    assert "Not compared" in one(replace(ngl(0, 0.3), gpus=()), seen=nothing).says


def test_a_disturbed_measurement_still_bounds_from_below() -> None:
    seen = replace(CLEAN, measurements=(dram(20.0, 8, "contended"),))
    assert one(ngl(0, 2.0), seen=seen).explained_by is not None


def test_a_small_model_on_a_fast_card_is_held_by_its_kernels() -> None:
    row = one(ngl(99, 400.0, gpus=("NVIDIA GeForce RTX 4090",)), small_mix())
    assert row.explained_by is not None or row.high is not None


def test_names_of_cards() -> None:
    assert one(served(38.0, "L40")).says == one(served(38.0, "NVIDIA L40 48GB")).says
    assert "Another machine" not in one(served(38.0, "l40")).says
    assert "Another machine" in one(served(38.0, "NVIDIA L40S")).says
    assert "Another machine" in one(served(60.0, *(L40,) * 4)).says
