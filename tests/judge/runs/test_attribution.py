"""What rows say together: one setting, contradictions, what is left of a difference."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge.runs.compare import compare
from nodecheck.judge.runs.conclusions import conclusions
from nodecheck.serving import Run, Workload
from nodecheck.units import GIB
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b
from tests.judge.runs.rows import (
    EVERY,
    L40,
    LAYERS,
    ONE_L40,
    ONE_PRO_6000,
    PRO_6000,
    TWO_L40,
    WITH_MTP,
    ngl,
    served,
)
from tests.nodes import AVX2, three_l40

BY_LAYER = qwen_27b()
NUMBERS = from_numbers("27B", round(16.3 * GIB), 64, "q4_k", 65536)
CLEAN = three_l40(AVX2, read=60.0)


def together(
    runs: Iterable[Run], seen: Seen | None = None, work: Workload = BY_LAYER
) -> tuple[str, ...]:
    node = seen or three_l40()
    return conclusions(node, work, compare(node, work, runs))


def the_one(sentences: Iterable[str], *words: str) -> str:
    found = [text for text in sentences if all(word in text for word in words)]
    assert len(found) == 1, (words, found)
    return found[0]


# The node with three L40.


@pytest.mark.parametrize("work", [BY_LAYER, NUMBERS])
def test_the_rows_of_three_l40_say_four_things(work: Workload) -> None:
    said = together(EVERY, work=work)
    assert len(said) == 4
    assert said == tuple(dict.fromkeys(said))


def test_96_changed_nothing() -> None:
    said = the_one(together(LAYERS), "-ngl 96")
    assert "-ngl 99 (38.0) and -ngl 96 (37.99) are one setting, so it changed nothing" in said
    assert "every value from 65 up does with 64 layers" in said
    assert "noise" in said


@pytest.mark.parametrize(("work", "apart"), [(BY_LAYER, "12-14x"), (NUMBERS, "12-15x")])
def test_50_and_0_contradict_each_other(work: Workload, apart: str) -> None:
    said = the_one(together(LAYERS, work=work), "contradict")
    assert "-ngl 50" in said
    assert "-ngl 0" in said
    assert apart in said
    assert "Neither calibrates anything" in said


def test_the_two_machines_are_set_apart_by_neither_vram_nor_cpu() -> None:
    said = the_one(together(EVERY), "27.2")
    assert "RTX PRO 6000" in said
    assert "46.7" in said
    assert (
        "neither VRAM bandwidth (2 x 864 against 1,792 GB/s) nor the CPU type explains it" in said
    )
    assert "one L40 of the same machine reaches 38-39 with another build, and 70.9 with MTP" in said
    left = said.partition("What is left is ")[2]
    assert "the link between the cards (PCIe, peer copies in a VM)" in left
    assert 'the traffic ("live traffic")' in left
    assert "the build (0.5.10 against 0.5.23)" in left
    assert left.endswith("These were not separated.")


def test_a_masked_cpu_is_not_blamed_for_cards() -> None:
    for said in together(EVERY):
        if "contradict" not in said:
            assert "SSE2" not in said
            assert "instruction" not in said


def test_what_mtp_gains_and_what_a_cycle_costs() -> None:
    said = the_one(together(EVERY), "plain steps")
    assert said == (
        "With MTP: 70.9 tok/s against 39.1, 1.81 times as fast: with 2.75-2.93 tokens accepted, "
        "a cycle took 1.52-1.62 plain steps."
    )


# Elimination is by what the rows hold, whatever they are.


def test_rows_that_do_not_tell_build_and_traffic_say_that_they_do_not() -> None:
    plain = (served(27.2, L40, L40), served(46.7, PRO_6000), served(39.1, L40))
    said = the_one(together(plain), "27.2")
    assert "the link between the cards" in said
    assert "the rows do not tell the traffic and the build" in said
    assert "not separated" in said


def test_the_one_that_is_left_is_named() -> None:
    quiet = {"build": "0.5.23", "remarks": ("no other traffic",)}
    rows = (served(27.2, L40, L40, **quiet), served(39.1, L40, **quiet))
    said = the_one(together(rows), "27.2")
    assert "What is left is" in said
    assert "the link between the cards" in said
    assert "build" not in said


def test_without_a_row_of_the_same_machine_its_cpu_stays() -> None:
    said = the_one(together((TWO_L40, ONE_PRO_6000)), "27.2")
    assert "VRAM bandwidth (2 x 864 against 1,792 GB/s) does not explain it" in said
    assert "the CPU type and its memory" in said.partition("What is left")[2]


def test_a_row_of_another_host_is_no_witness() -> None:
    elsewhere = replace(ONE_L40, remarks=("host: node8",))
    said = the_one(together((TWO_L40, ONE_PRO_6000, elsewhere)), "27.2")
    assert "the CPU type and its memory" in said


def test_a_slower_witness_shows_nothing() -> None:
    slow = replace(ONE_L40, tokens_per_second=28.0)
    said = the_one(together((TWO_L40, ONE_PRO_6000, slow)), "27.2 tok/s")
    assert "the CPU type and its memory" in said


def test_on_one_machine_the_cpu_is_no_difference() -> None:
    said = the_one(together((TWO_L40, ONE_L40)), "27.2")
    assert "CPU" not in said
    assert "VRAM bandwidth (2 x 864 against 864 GB/s) does not explain it" in said


def test_bandwidth_that_explains_is_all_that_is_told() -> None:
    said = the_one(together((served(20.0, L40), served(41.0, PRO_6000))), "20.0")
    assert said.endswith("VRAM bandwidth (864 against 1,792 GB/s) explains it.")


def test_another_engine_is_a_difference_unless_it_does_better_itself() -> None:
    slow = served(20.0, L40, tool="vllm", build="1", remarks=("quiet load",))
    fast = served(39.0, L40, build="1")
    assert "the engine (vllm against sglang)" in the_one(together((slow, fast)), "20.0")


def test_sequences_at_a_time_are_traffic() -> None:
    slow = served(10.0, L40, L40, concurrency=4, build="1")
    said = the_one(together((slow, served(46.7, PRO_6000, build="1"))), "10.0")
    assert "the traffic (4 sequences at a time against 1)" in said


def test_more_sequences_on_one_machine_are_no_riddle() -> None:
    rows = [served(39.0 / n, L40, concurrency=n) for n in (1, 8, 32)]
    assert together(rows) == ()


# Nothing is claimed where nothing is amiss.

CONSISTENT = (ngl(99, 38.0), ngl(64, 33.0), ngl(50, 11.0), ngl(32, 5.0), ngl(0, 2.5))


def test_a_curve_of_one_cpu_says_nothing_more() -> None:
    assert together(CONSISTENT, CLEAN) == ()


def test_rows_within_noise_do_not_contradict() -> None:
    assert together((ngl(50, 9.0), ngl(0, 2.9)), CLEAN) == ()


def test_one_layer_is_too_little_to_contradict_anything() -> None:
    for rate in (15.0, 25.0, 33.0):
        assert not [s for s in together((ngl(64, rate), ngl(0, 2.5)), CLEAN) if "contradict" in s]


def test_other_threads_and_other_builds_may_be_slower() -> None:
    threads = (ngl(50, 11.0, threads=8), ngl(0, 0.4, threads=1))
    builds = (ngl(50, 11.0, build="a (1)"), ngl(0, 0.4, build="b (2)"))
    assert together(threads, CLEAN) == ()
    assert together(builds, CLEAN) == ()


def test_the_one_that_stands_alone_is_named() -> None:
    rows = (*CONSISTENT[:-1], ngl(0, 0.2))
    said = the_one(together(rows, CLEAN), "contradict")
    assert said.endswith("-ngl 0 stands alone: the other 2 rows agree.")


def test_what_ram_does_not_hold_is_no_contradiction() -> None:
    memory = replace(CLEAN.facts.memory, available_bytes=10 * GIB)
    seen = replace(CLEAN, facts=replace(CLEAN.facts, memory=memory))
    said = the_one(together((ngl(50, 11.0), ngl(0, 0.1)), seen), "-ngl 0")
    assert "contradict" not in said
    assert "16.5 GiB do not fit the 10 GiB of free RAM" in said


def test_one_setting_that_differs_more_than_noise_was_disturbed() -> None:
    said = the_one(together((ngl(99, 38.0), ngl(96, 19.0)), CLEAN), "one setting")
    assert "yet differ 2.0x: something else ran beside one of them" in said
    wide = (ngl(99, 38.0, spread=8.0), ngl(96, 30.0, spread=8.0))
    assert "changed nothing" in the_one(together(wide, CLEAN), "one setting")


def test_the_same_row_twice_is_not_worth_a_word() -> None:
    assert together((ngl(99, 38.0), ngl(99, 37.5)), CLEAN) == ()


def test_experts_of_a_model_without_any_change_nothing() -> None:
    said = together((ngl(99, 38.0), ngl(99, 37.9, cpu_expert_layers=20)), CLEAN)
    assert "-ngl 99 -ncmoe 20 (37.9) are one setting" in the_one(said, "one setting")


def test_guessing_that_costs_more_than_it_brings() -> None:
    rows = (ONE_L40, replace(WITH_MTP[0], tokens_per_second=30.0, accepted_tokens=1.2))
    said = the_one(together(rows), "MTP")
    assert "0.77 times as fast" in said
    assert "a cycle took 1.56 plain steps" in said


def test_guessing_of_unknown_length_has_a_gain_and_no_cost() -> None:
    rows = (ONE_L40, served(70.9, L40, remarks=("MTP",), build="0.5.23"))
    assert the_one(together(rows), "1.81 times").endswith(
        "how many tokens were accepted a cycle is not told."
    )


def test_guessing_is_held_against_the_same_cards_alone() -> None:
    assert together((TWO_L40, WITH_MTP[0])) == ()


# Prompts.


def prompt(rate: float, tokens: int = 16, **members: object) -> Run:
    bare = ngl(0, 1.0, gpus=())
    return replace(bare, tokens_per_second=None, generated_tokens=0, prompt_tokens=tokens,
                   prompt_tokens_per_second=rate, **members)  # fmt: skip


def test_prompts_no_faster_than_decode_show_the_instructions() -> None:
    said = together((prompt(0.5), ngl(0, 0.45, gpus=())))
    assert "held by the CPU's instructions, not by memory" in the_one(said, "prompts")


@pytest.mark.parametrize(
    "rows",
    [
        (prompt(5.0), ngl(0, 0.45, gpus=())),
        (prompt(0.5, 4), ngl(0, 0.45, gpus=())),
        (prompt(0.5), ngl(0, 0.45, gpus=(), threads=1)),
        (prompt(0.5, 512, gpus=(L40,)), ngl(0, 0.45, gpus=(L40,))),
        (prompt(0.5, spread=0.2), ngl(0, 0.45, gpus=())),
        (prompt(0.5), ngl(0, 0.45, gpus=(), spread=0.2)),
        (prompt(0.3), ngl(0, 0.45, gpus=())),
    ],
)
def test_else_they_show_nothing(rows: tuple[Run, ...]) -> None:
    assert not [said for said in together(rows) if "prompts" in said]


def test_no_rows_say_nothing() -> None:
    assert together(()) == ()


def test_a_thousand_rows_are_judged_in_seconds() -> None:
    rows = [ngl(n % 70, 1.0 + n / 100) for n in range(1000)]
    assert len(together(rows)) < 500
