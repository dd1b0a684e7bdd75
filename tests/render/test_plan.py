"""What an operator reads: the answer first, no line too long, nothing that decides nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.judge.strategies import best
from nodecheck.model import Viability
from nodecheck.plan import Plan
from nodecheck.render.layout import plain
from nodecheck.render.plan.fits import fit_cells, needs
from nodecheck.render.plan.measured import cells, rate_words, run_words
from nodecheck.render.plan.terminal import drawn, is_easy, marks, render, steps
from nodecheck.render.plan.words import headline, model, types
from nodecheck.serving import CacheBytes, Fit, Run, Serving, Storage
from nodecheck.units import GIB
from tests.render import plans
from tests.render.plans import CPU_NODE, MEASURED, MOE, PLANS, SMALL, THREE_L40, UNKNOWN, strategy

EVERY = pytest.mark.parametrize("name", sorted(PLANS))


def text(plan: Plan, width: int = 100, *, unicode: bool = True) -> str:
    return plain(render(plan, width, unicode=unicode))


def flat(plan: Plan, width: int = 100) -> str:
    return " ".join(text(plan, width).split())


def commands(plan: Plan) -> set[str]:
    return {engine.command for engine in plan.engines if engine.command}


# --- the shape ---


@EVERY
@settings(max_examples=25, deadline=None)
@given(width=st.integers(60, 140), unicode=st.booleans())
def test_no_line_is_longer_than_the_terminal_save_commands(
    name: str, width: int, unicode: bool
) -> None:
    for line in text(PLANS[name], width, unicode=unicode).splitlines():
        assert len(line) <= width or any(each in line for each in commands(PLANS[name])), line


@EVERY
def test_without_unicode_all_is_ascii(name: str) -> None:
    assert text(PLANS[name], unicode=False).isascii()


@EVERY
def test_the_answer_comes_first(name: str) -> None:
    lines = text(PLANS[name]).splitlines()
    assert lines[0].startswith("nodecheck 0.1.0   ")
    assert lines[2].startswith(("VIABLE", "MARGINAL", "NOT VIABLE", "UNKNOWN"))


def test_a_small_model_on_a_healthy_node_does_not_scroll() -> None:
    assert is_easy(SMALL)
    lines = text(SMALL, 100).splitlines()
    assert len(lines) <= 32
    assert not any("OFFLOAD" in line or "would move it" in line for line in lines)
    assert "864 / 8.0 GB" in flat(SMALL)  # the basis of the way that is advised
    assert "147,456 B a token" not in flat(SMALL)  # that of another is in the page
    assert "how the others were got: --json, --html" in flat(SMALL)


def test_a_basis_is_told_once() -> None:
    shown = flat(THREE_L40)
    assert shown.count("4-8 cores x 0.9-1.1 GB/s (reference)") == 1
    assert "cpu-only 0.2-0.5 CPU instruction set (SSE2), then DRAM not viable as above" in shown


def test_the_usual_case_takes_forty_lines_and_a_hopeless_one_few() -> None:
    assert len(text(CPU_NODE, 100).splitlines()) <= 20
    assert len(text(MOE, 100).splitlines()) <= 50


@given(st.text(min_size=1))
def test_names_do_not_steer_the_terminal(name: str) -> None:
    nasty = replace(
        MEASURED,
        workload=replace(MEASURED.workload, name=name, notes=(name,)),
        node=(name,),
        engines=(replace(MEASURED.engines[0], command=name, risks=(name,)),),
        comparisons=(replace(MEASURED.comparisons[0], says=name, look_at=(name,)),),
        conclusions=(name,),
    )
    shown = text(nasty).replace("\n", "")
    assert not [each for each in shown if unicodedata.category(each) == "Cc"]


# --- the answer ---


def test_the_three_l40_are_told_strategy_by_strategy() -> None:
    status, said = headline(THREE_L40)
    assert status is Viability.VIABLE
    assert said == (
        "All of it on the GPU (gpu-resident) gives 36-42 tok/s, limited by VRAM bandwidth, "
        "864 GB/s. Keep its weights off the CPU: 0.2-0.5 tok/s there (CPU instruction set (SSE2), "
        "then DRAM)."
    )
    shown = flat(THREE_L40)
    for words in (
        "gpu-resident 36-42 VRAM bandwidth, 864 GB/s viable",
        "link between the cards,",
        "host-kv-pool 0.06-0.11 s to DRAM, 11.7 GB/s viable",
        "would move it: CPU type host (AVX2): 0.6-0.7",
        "65 (0): 35-42 64 (1): 10-19 50 (15): 0.9-2.2 0 (64): 0.2-0.5",
    ):
        assert words in shown


def test_a_model_that_does_not_fit_is_served_another_way() -> None:
    status, said = headline(MOE)
    assert status is Viability.VIABLE
    assert "Experts on the CPU (expert-offload) gives 31-48 tok/s" in said
    assert "It does not fit the GPU whole: 17.9 GiB needed, 12 GiB of VRAM on 1 card." in said


def test_a_node_that_is_too_slow_is_told_so() -> None:
    status, said = headline(CPU_NODE)
    assert status is Viability.NOT_VIABLE
    assert said.startswith(
        "No way to serve it here is viable: the fastest, cpu-only, gives 2.1-3.1"
    )


def test_a_gpu_that_does_not_answer_leaves_it_open_beside_a_slow_cpu() -> None:
    unseen = strategy("gpu-resident", Viability.UNKNOWN, "not known", "its driver did not answer")
    status, said = headline(replace(CPU_NODE, strategies=(unseen, *CPU_NODE.strategies)))
    assert status is Viability.UNKNOWN
    assert said.startswith(
        "Whether it runs well is not known (gpu-resident: its driver did not answer). "
        "The CPU alone gives 2.1-3.1"
    )


def test_a_node_that_cannot_hold_it_at_all_is_told_why() -> None:
    refused = replace(MOE, strategies=MOE.strategies[:1])
    status, said = headline(refused)
    assert status is Viability.NOT_VIABLE
    assert "(gpu-resident: 17.9 GiB needed, 12 GiB of VRAM on 1 card)" in said


def test_what_is_not_known_is_no_verdict() -> None:
    status, said = headline(UNKNOWN)
    assert status is Viability.UNKNOWN
    assert "the VRAM rate of a card is not known" in said
    assert headline(replace(UNKNOWN, strategies=()))[0] is Viability.UNKNOWN
    ceiling = replace(UNKNOWN, strategies=(THREE_L40.strategies[1],))
    assert headline(ceiling)[0] is Viability.UNKNOWN
    assert "124 tok/s or less" in headline(ceiling)[1]


@pytest.mark.parametrize(
    ("reaches", "wanted"),
    [
        ([("a", Viability.VIABLE, 5, 9), ("b", Viability.VIABLE, 7, 8)], "b"),
        ([("a", Viability.MARGINAL, 3, 99), ("b", Viability.VIABLE, 5, 6)], "b"),
        ([("speculative", Viability.VIABLE, 50, 90), ("a", Viability.VIABLE, 5, 6)], "a"),
        ([("a", Viability.NOT_VIABLE, 1, 2), ("b", Viability.UNKNOWN, None, 9)], "b"),
        ([("a", Viability.NOT_VIABLE, None, None)], None),
    ],
)
def test_the_best_way_is_the_one_that_is_sure_to_be_fast(
    reaches: list[tuple[str, Viability, float | None, float | None]], wanted: str | None
) -> None:
    found = best([strategy(name, v, "x", "y", low, high) for name, v, low, high in reaches])
    assert (found.strategy if found else None) == wanted


# --- the model ---


def told(plan: Plan) -> dict[str, str]:
    return {label: " | ".join(items) for label, items in model(plan)}


def test_a_hybrid_is_told_by_its_layers_and_its_state() -> None:
    said = told(THREE_L40)
    assert said["layers"] == (
        "65 layers | 16 with an attention cache | 48 with a recurrent state | "
        "1 for multi-token prediction (MTP)"
    )
    assert "adds 65,536 B of bf16 cache" in said["a token"]
    assert "state 153,944,064 B in SGLang, 156,893,184 B in llama.cpp" in said["a request"]


def test_experts_are_told_with_what_a_token_takes() -> None:
    assert "128 experts a layer, 15.2 GiB, a token takes 8" in told(MOE)["layers"]
    assert "reads 1.83 GB of weights" in told(MOE)["a token"]


def test_an_unknown_cache_is_called_so() -> None:
    assert told(UNKNOWN)["a token"] == "cache not known"
    assert "a request" not in told(UNKNOWN)


def test_a_model_without_a_cache_adds_none() -> None:
    none = replace(THREE_L40.workload, kv_bytes_per_token=CacheBytes(bf16=0, fp8=0, q8_0=0, q4_0=0))
    assert "adds no cache" in told(replace(THREE_L40, workload=none))["a token"]


def test_the_type_of_the_cache_that_is_asked_for_comes_first() -> None:
    asked = replace(THREE_L40, serving=Serving(context_tokens=8192, kv_type="q8_0"))
    assert "adds 34,816 B of q8_0 cache (bf16 65,536, fp8 32,768," in told(asked)["a token"]
    assert "8,192 tokens: 272 MiB of cache" in told(asked)["a request"]


def test_a_context_beyond_the_model_is_told() -> None:
    asked = replace(SMALL, serving=Serving(context_tokens=131_072))
    assert "more than the 40,960 tokens that it was made for" in told(asked)["a request"]


def test_types_are_told_with_their_shares_where_there_are_several() -> None:
    assert types(THREE_L40.workload) == "q4_k 66 %, q6_k 34 %"
    assert types(SMALL.workload) == "q8_0"
    assert types(UNKNOWN.workload) == "q4_k"


def test_a_file_with_holes_and_on_a_server_is_told() -> None:
    lies = Storage(
        path="/m", fstype="nfs4", mount="/m", size_bytes=40 * GIB, allocated_bytes=8 * GIB,
        cached_bytes=10 * GIB,
    )  # fmt: skip
    said = told(replace(SMALL, workload=replace(SMALL.workload, storage=lies)))["its file"]
    holes = "only 20 % of the file is on the disk: it has holes, or is not complete"
    assert said == f"on /m (nfs4) | 25 % in the page cache | {holes}"


# --- what decides ---


def test_the_curve_of_the_better_way_is_drawn() -> None:
    shown = drawn(MOE)
    assert shown is not None
    assert shown.setting == "--n-cpu-moe"
    assert steps(MOE, shown) == ["0 (0): 100-125, no room", "22 (22): 31-47", "48 (48): 17-27"]
    assert "OFFLOAD" not in text(CPU_NODE)


def test_measured_settings_are_marked_and_told() -> None:
    shown = drawn(MEASURED)
    assert shown is not None
    assert marks(MEASURED, shown) == [(99, 38.0), (96, 37.99), (50, 3.72), (0, 0.07)]
    assert "x: measured" in text(MEASURED)


def test_what_does_not_fit_is_told_with_what_would() -> None:
    shown = flat(THREE_L40)
    assert "gpu-resident, SGLang VRAM of one card 51.3 GiB 45 GiB no" in shown
    assert "to fit: --tp 2, or weights of 8 bits or fewer" in shown
    assert "also fits host-kv-pool, SGLang: 26.9 GiB of 126 GiB host RAM" in shown
    assert fit_cells(plans.L40_FITS[3])[-2:] == ("-", "unknown")
    assert needs(plans.L40_FITS[1]) == "weights 50.9 GiB + 3 state slots a request 440 MiB"


def test_rows_that_contradict_each_other_are_set_side_by_side() -> None:
    shown = flat(MEASURED, 120)
    assert "ngl 99 38.00 ±0.05 36-42 52 73 % VRAM bandwidth" in shown
    assert "ngl 50 3.72 ±0.02 0.9-2.2 3.3 113 % not explained" in shown
    assert "look at: paging; contention; the number of threads" in shown
    assert "=> -ngl 50 and -ngl 0 contradict each other" in shown
    assert "Not explained. 6 to 10 times slower than predicted." in flat(MEASURED, 80)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (Run(source="x", tool="llama-bench", gpu_layers=99), "ngl 99"),
        (Run(source="x", tool="llama-bench", gpu_layers=99, cpu_expert_layers=22),
         "ngl 99, n-cpu-moe 22"),
        (Run(source="x", tool="sglang", tensor_parallel=2, concurrency=4.0), "tp 2, 4 at once"),
        (Run(source="x", tool="vllm", model="Qwen3-8B", tensor_parallel=1, concurrency=1.0),
         "Qwen3-8B"),
        (Run(source="x", tool="vllm"), "vllm"),
        (Run(source="x", tool="llama-bench", threads=8), "8 threads"),
    ],
)  # fmt: skip
def test_a_run_is_named_by_what_it_differs_in(run: Run, words: str) -> None:
    assert run_words(run) == words


def test_a_row_without_a_rate_or_a_prediction_has_no_figures() -> None:
    run = Run(source="x", tool="llama-bench", prompt_tokens_per_second=812.0)
    assert rate_words(run) == "812 of prompt"
    assert rate_words(replace(run, prompt_tokens_per_second=None)) == "-"
    row = replace(MEASURED.comparisons[0], low=None, high=None, ceiling=None, share=None)
    assert cells(row)[2:5] == ("-", "-", "-")
    assert cells(replace(row, high=12.0))[2] == "<= 12"


def test_engines_are_told_with_every_flag_and_why() -> None:
    shown = flat(THREE_L40)
    for engine in THREE_L40.engines:
        for flag in engine.flags:
            assert f"{flag.flag} {flag.why}" in shown
    assert "vLLM not for this: it loads no GGUF of this architecture" in shown
    assert "known risk: wrong output on host hits" in shown


def test_assumptions_and_advice_stand_at_the_end() -> None:
    assert "NOTE Without SSSE3" in flat(THREE_L40)
    assert "ASSUMED the file has no tokenizer" in flat(MOE)


def test_speeds_beside_other_requests_are_those_of_each() -> None:
    several = replace(THREE_L40, serving=Serving(context_tokens=8192, requests=16))
    assert "16 requests, speeds of each" in flat(several)
    assert "to each of 16 requests" in headline(several)[1]
    assert "alone, limited" not in headline(THREE_L40)[1]


def test_a_way_of_llama_cpp_asks_for_a_gguf_file() -> None:
    """SGLang and vLLM read a checkpoint, and leave nothing to the CPU as llama.cpp does."""
    experts = replace(MOE, workload=replace(MOE.workload, format="safetensors"))
    assert "with a GGUF file of this size" in headline(experts)[1]
    assert (
        "GGUF file" not in headline(replace(MOE, workload=replace(MOE.workload, format="gguf")))[1]
    )
    short = Fit(strategy="model-load", engine="llama.cpp", room="disk", needs=(), needed_bytes=2,
                available_bytes=1, fits=False, basis="")  # fmt: skip
    assert "the disk has no room" in headline(replace(experts, fits=(short,)))[1]
