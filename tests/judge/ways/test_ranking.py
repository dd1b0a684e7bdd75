"""Quantisations by their speed on a CPU, where the instruction set turns the order around."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.judge.strategies import reference_workload
from nodecheck.judge.ways.ranking import ranked, ranking
from nodecheck.model import Measurement
from nodecheck.policy import Policy
from tests.judge.models import qwen_27b, small_mix
from tests.nodes import AVX2, SSE2, dram, three_l40

WORK = reference_workload(Policy())
SSE4 = (*SSE2, "ssse3", "sse4_1", "sse4_2")


def products(**gigabytes: float) -> tuple[Measurement, ...]:
    return tuple(
        replace(dram(rate, 8), name=f"decode_{weight_type}", kernel="sse2")
        for weight_type, rate in gigabytes.items()
    )


def test_with_sse2_and_memory_to_spare_q8_beats_q4_by_three() -> None:
    (said,) = ranking(three_l40(SSE2, read=100.0), WORK)
    assert said.startswith("On the CPU, with SSE2 (reference), q8_0 decodes this model at ")
    assert "3.2 times as fast as q4_0 at 1.9 times its size" in said
    assert said.endswith("Take no smaller type for speed there")


def test_where_memory_takes_the_gain_away_that_is_said() -> None:
    """8.5 bits through 11.7 GB/s are as slow as 4.5 bits that the cores hold back."""
    (said,) = ranking(three_l40(SSE2, read=11.7), WORK)
    assert "3.2 times as many q8_0 weights a second as q4_0 ones" in said
    assert "DRAM (11.7 GB/s) takes that gain away" in said
    assert "q8_0 decodes this model at 0.2-0.4 tok/s, q4_0 at 0.2-0.5, q4_k at 0.2-0.5" in said


@pytest.mark.parametrize("flags", [SSE4, (*SSE4, "avx"), AVX2])
@pytest.mark.parametrize("read", [11.7, 100.0, None])
def test_from_ssse3_on_nothing_is_inverted(flags: tuple[str, ...], read: float | None) -> None:
    assert ranking(three_l40(flags, read=read), WORK) == ()


def test_what_was_measured_here_comes_before_the_reference() -> None:
    measured = (dram(100.0, 8), *products(q4_0=8.0, q4_k=7.6, q6_k=11.0, q8_0=50.0, f16=18.0))
    seen = replace(three_l40(SSE2), measurements=measured)
    (said,) = ranking(seen, small_mix())
    assert said.startswith("On the CPU, with SSE2, q8_0 decodes this model at ")
    assert "reference" not in said
    assert {each.weight_type for each in ranked(seen, small_mix())} == {
        "q4_0",
        "q4_k",
        "q6_k",
        "q8_0",
        "f16",
    }


def test_the_same_measured_with_avx2_says_nothing() -> None:
    measured = (dram(30.0, 2), *products(q4_0=35.0, q4_k=47.0, q6_k=55.0, q8_0=60.0, f16=100.0))
    assert ranking(replace(three_l40(AVX2), measurements=measured), small_mix()) == ()


def test_a_model_by_its_layers_is_ranked_by_its_parameters() -> None:
    order = ranked(three_l40(AVX2, read=11.7), qwen_27b())
    assert [each.weight_type for each in order][-2:] == ["q8_0", "f16"]
    q8 = next(each for each in order if each.weight_type == "q8_0")
    assert q8.speed.high == pytest.approx(11.7e9 / (25.6246e9 * 8.5 / 8 + 0.31e9), rel=0.02)


def test_where_nothing_is_known_of_the_cpu_nothing_is_said() -> None:
    seen = three_l40(SSE2)
    bare = replace(seen.facts.cpu, arch="riscv64")
    assert ranking(replace(seen, facts=replace(seen.facts, cpu=bare)), WORK) == ()
