"""What is told to run has the room, and what makes it fit does: one arithmetic for all answers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.judge import node
from nodecheck.judge.fits.fit import fits, largest_ngl
from nodecheck.judge.fits.room import LLAMA_CPP, SGLANG, VLLM
from nodecheck.judge.rates.reads import reads
from nodecheck.judge.ways.kv_host import kv_on_host
from nodecheck.judge.ways.offload import cpu_only, curves
from nodecheck.judge.ways.resident import gpu_resident
from nodecheck.model import Strategy
from nodecheck.serving import Kind
from nodecheck.units import GIB, MIB
from tests.judge.fits.test_fit import checkpoint, named, node_of
from tests.judge.models import qwen_27b, qwen_30b_a3b, small_mix


def refused(found: Strategy) -> bool:
    return found.limit in ("VRAM size", "RAM size")


@pytest.mark.parametrize("tenths", range(80, 106, 2))
@pytest.mark.parametrize("form", ["gguf", "safetensors"])
def test_what_is_told_to_run_has_the_room(form: str, tenths: int) -> None:
    """Two cards of every size about the one at which a 27B model just fits."""
    work = replace(qwen_27b(), format=form)
    seen = node_of(*[tenths * GIB // 10] * 2)
    fit = [f.fits for f in fits(seen, work) if f.strategy in ("gpu-resident", "tensor-parallel")]
    assert refused(gpu_resident(seen, work, node.cards(seen))) is not any(fit)


@pytest.mark.parametrize("mebibytes", range(17_000, 19_000, 250))
def test_what_is_told_to_run_on_the_cpu_has_the_room(mebibytes: int) -> None:
    seen = node_of()
    memory = MemoryFacts(total_bytes=64 * GIB, available_bytes=mebibytes * MIB)
    seen = replace(seen, facts=replace(seen.facts, memory=memory))
    fit = named(seen, qwen_27b())["cpu-only", LLAMA_CPP, "host RAM"]
    assert refused(cpu_only(seen, qwen_27b())) is not fit.fits


@pytest.mark.parametrize("gigabytes", range(5, 20))
def test_the_largest_ngl_is_the_first_of_the_curve_that_fits(gigabytes: int) -> None:
    """On three cards, each of which leaves a part of a layer unused."""
    seen, work = node_of(*[gigabytes * GIB] * 3), qwen_27b(50 * GIB)
    points = curves(seen, work)[0].points
    first = next(point.setting for point in points if point.fits)
    assert first == f"ngl {largest_ngl(seen, work, node.cards(seen))}"


def test_cards_of_two_sizes_are_taken_as_they_are() -> None:
    """A small card beside a large one bounds nothing where the large one holds the model."""
    fit = named(node_of(80 * GIB, 16 * GIB), checkpoint(40 * GIB))
    assert fit["gpu-resident", VLLM, "VRAM of one card"].available_bytes == 72 * GIB
    assert fit["gpu-resident", SGLANG, "VRAM of one card"].fits is True


def test_experts_come_before_layers() -> None:
    fit = named(node_of(12 * GIB), qwen_30b_a3b())
    advice = fit["gpu-resident", LLAMA_CPP, "VRAM of one card"].advice or ""
    assert "--n-cpu-moe 19, which leaves experts of 19 layers on the CPU" in advice
    assert "-ngl" not in advice


def test_nothing_is_left_to_a_cpu_without_the_ram() -> None:
    seen = node_of(12 * GIB)
    memory = MemoryFacts(total_bytes=8 * GIB, available_bytes=2 * GIB)
    seen = replace(seen, facts=replace(seen.facts, memory=memory))
    fit = named(seen, qwen_27b())["gpu-resident", LLAMA_CPP, "VRAM of one card"]
    assert "on the CPU" not in (fit.advice or "")


@pytest.mark.parametrize(("weight_type", "copied"), [("f16", False), ("q4_0", True)])
def test_a_tied_output_is_the_table_itself_where_no_card_holds_it(
    weight_type: str, copied: bool
) -> None:
    """llama.cpp copies it to a card, or into another layout, which q4_0 takes with AVX2."""
    work = small_mix(weight_type, weight_type)
    table = next(w for w in work.outside if w.kind is Kind.EMBEDDING)
    tied = replace(work, outside=(table, replace(table, kind=Kind.OUTPUT, bytes=0,
                                                 read_bytes=table.bytes)))  # fmt: skip
    seen = node_of()
    fit = named(seen, tied)["cpu-only", LLAMA_CPP, "host RAM"]
    apart = named(seen, work)["cpu-only", LLAMA_CPP, "host RAM"]
    assert (apart.needed_bytes == fit.needed_bytes) is copied
    assert apart.needed_bytes - fit.needed_bytes == (0 if copied else table.bytes)


def test_a_cache_in_ram_leaves_the_embedding_there_too() -> None:
    """The card needs no room for it."""
    work = qwen_27b()
    held = reads(node_of(), work).without_embedding.stored_bytes
    seen = node_of(round(held) + GIB)
    found = kv_on_host(seen, work, node.cards(seen))
    assert found is not None
    assert found.limit != "VRAM size"


def test_no_instance_holds_what_the_whole_card_does_not() -> None:
    seen = node_of(80 * GIB)
    cut = tuple(replace(gpu, mig=True) for gpu in seen.facts.gpus)
    seen = replace(seen, facts=replace(seen.facts, gpus=cut))
    fit = named(seen, qwen_27b(200 * GIB))["gpu-resident", LLAMA_CPP, "VRAM of one card"]
    assert fit.fits is False
    assert refused(gpu_resident(seen, qwen_27b(200 * GIB), node.cards(seen)))
