"""What would move a strategy: only what can help, with where it leads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.seen import Seen
from nodecheck.judge.strategies import strategies
from nodecheck.model import Lever, Strategy
from nodecheck.serving import Kind, Workload
from nodecheck.units import GIB
from nodecheck.workload.assemble import assemble
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, small_mix, weights
from tests.nodes import AVX2, SSE2, dram, three_l40

KVM64 = "Common KVM processor"


def node_of(flags: tuple[str, ...] = SSE2, *, read: float | None = 11.7, **cpu: object) -> Seen:
    seen = three_l40(flags, read=read)
    facts: CpuFacts = replace(seen.facts.cpu, **cpu)
    return replace(seen, facts=replace(seen.facts, cpu=facts), workload=qwen_27b())


def way(seen: Seen, name: str = "cpu-only") -> Strategy:
    return next(s for s in strategies(seen) if s.strategy == name)


def lever(found: Strategy, resource: str) -> Lever | None:
    return next((each for each in found.levers if each.resource == resource), None)


def without_gpus(seen: Seen, work: Workload) -> Seen:
    return replace(seen, facts=replace(seen.facts, gpus=()), workload=work)


# --- the instruction set ---


def test_a_hidden_avx2_moves_the_cpu_to_where_memory_holds_it() -> None:
    hidden = node_of(brand=KVM64, witness={"bmi2": "executed"})
    found = lever(way(hidden), "instruction_set")
    assert found is not None
    assert found.change == "CPU type host"
    open_ = way(node_of(AVX2))
    assert (found.low, found.high) == (open_.low, open_.high)


def test_what_the_host_has_is_not_claimed_without_a_proof() -> None:
    found = lever(way(node_of(brand=KVM64)), "instruction_set")
    assert found is not None
    assert found.change == "CPU type host, if the host has AVX2"


def test_silicon_that_lacks_it_gets_no_advice() -> None:
    nehalem = node_of(
        vendor="GenuineIntel", family=6, model=26, stepping=5, brand="Intel Xeon X5570"
    )
    found = lever(way(nehalem), "instruction_set")
    assert found == Lever(resource="instruction_set", change="none: Nehalem has SSE4 without AVX")


def test_silicon_that_is_not_known_gets_none_either() -> None:
    assert lever(way(node_of()), "instruction_set") is None


def test_a_switch_of_the_kernel_is_named() -> None:
    off = node_of(
        vendor="AuthenticAMD",
        family=25,
        model=1,
        brand="AMD EPYC 7313",
        boot_options=("clearcpuid=avx",),
        flags=(*SSE2, "ssse3", "sse4_1", "sse4_2", "popcnt"),
        usable_flags=(*SSE2, "ssse3", "sse4_1", "sse4_2", "popcnt"),
    )
    found = lever(way(off), "instruction_set")
    assert found is not None
    assert found.change == "vector instructions switched on again (clearcpuid=avx)"


def test_sandy_bridge_behind_a_hypervisor_reaches_avx_and_no_more() -> None:
    old = node_of(vendor="GenuineIntel", family=6, model=45, stepping=7, brand="Intel Xeon E5-2670")
    found = lever(way(old), "instruction_set")
    assert found is not None
    assert found.change == "CPU type host"
    avx = way(node_of((*SSE2, "ssse3", "sse4_1", "sse4_2", "popcnt", "avx")))
    assert (found.low, found.high) == (avx.low, avx.high)


def test_with_avx2_there_is_nothing_to_hide() -> None:
    assert lever(way(node_of(AVX2)), "instruction_set") is None


# --- memory ---


def test_twice_the_memory_doubles_what_memory_holds() -> None:
    found = way(node_of(AVX2))
    more = lever(found, "bandwidth")
    assert more is not None
    assert more.high == pytest.approx(2 * (found.high or 0))


def test_memory_does_not_move_what_instructions_hold() -> None:
    assert lever(way(node_of(SSE2)), "bandwidth") is None


def test_what_was_measured_from_memory_moves_in_proportion() -> None:
    whole = replace(dram(9.0, 8), name="decode_dram_q4_k", kernel="avx2")
    products = replace(dram(60.0, 8), name="decode_q4_k", kernel="avx2")
    seen = replace(node_of(AVX2), measurements=(dram(11.7, 8), products, whole))
    found = way(seen)
    more = lever(found, "bandwidth")
    assert more is not None
    assert more.high is not None
    assert found.high is not None
    assert 1.5 < more.high / found.high <= 2


# --- VRAM and the link ---


def test_layers_that_fit_on_the_cards_belong_there() -> None:
    seen = node_of()
    found, whole = lever(way(seen, "partial-offload"), "vram"), way(seen, "gpu-resident")
    assert found is not None
    assert found.change == "all of the 64 layers on the GPUs: they fit (-ngl 65)"
    assert (found.low, found.high) == (whole.low, whole.high)


def test_a_model_that_fits_no_card_is_told_how_much_it_takes() -> None:
    seen = replace(node_of(AVX2), workload=from_numbers("m", 200 * GIB, 80, "q8_0"))
    refused = way(seen, "gpu-resident")
    room = lever(refused, "vram")
    assert room is not None
    assert room.change == "201 GiB of VRAM in all, as fast as L40"
    assert room.high == pytest.approx(0.8 * 864.096e9 / (0.95 * 200 * GIB))
    smaller = lever(refused, "quantisation")
    assert smaller is not None
    assert smaller.change == "q4_k instead of q8_0, 106 GiB"


def test_the_vram_rate_holds_a_model_that_fits() -> None:
    found = way(node_of(), "gpu-resident")
    faster = lever(found, "bandwidth")
    assert faster is not None
    assert faster.high == pytest.approx(2 * (found.high or 0), rel=0.05)


def test_tensor_parallel_is_moved_by_its_link() -> None:
    found = way(node_of(), "tensor-parallel")
    link = lever(found, "link")
    assert link is not None
    assert link.high == found.high


# --- RAM and the type of the weights ---


def test_too_little_ram_is_the_lever_and_nothing_else() -> None:
    seen = without_gpus(node_of(AVX2), from_numbers("m", 200 * GIB, 80, "q4_k"))
    found = way(seen)
    assert found.limit == "RAM size"
    assert [each.resource for each in found.levers] == ["ram"]
    assert found.levers[0].high is not None


def test_where_memory_holds_it_a_smaller_type_is_faster() -> None:
    seen = without_gpus(node_of(AVX2, read=11.7), small_mix("q8_0", None))
    found = way(seen)
    smaller = lever(found, "quantisation")
    assert smaller is not None
    assert smaller.change.startswith("q6_k instead of q8_0")
    assert smaller.high == pytest.approx((found.high or 0) * 8.5 / 6.5625, rel=0.05)


def test_where_instructions_hold_it_a_larger_type_is_faster() -> None:
    seen = without_gpus(node_of(SSE2, read=100.0), small_mix("q4_k", None))
    found = lever(way(seen), "quantisation")
    assert found is not None
    assert found.change.startswith("q8_0 instead of q4_k")


def test_below_four_bits_nothing_is_advised() -> None:
    seen = without_gpus(node_of(AVX2), small_mix("q4_k", None))
    assert lever(way(seen), "quantisation") is None


def test_a_mixture_that_is_small_on_the_whole_is_not_advised_to_grow() -> None:
    """Most that is read is bf16, but four bits is what most weighs: 8 bits would be more."""
    placed = [
        (0, weights(Kind.ATTENTION, 10**9, "bf16")),
        (0, weights(Kind.EXPERTS, 18 * 10**9, "mxfp4", 2 * 10**9)),
    ]
    work = assemble(placed, {}, name="moe", layers=1, format="config")
    found = lever(way(without_gpus(node_of(AVX2), work)), "quantisation")
    assert found is None or found.change.startswith("q4_k")


def test_a_type_without_a_rate_is_told_of_one_that_has_it() -> None:
    work = assemble([(0, weights(Kind.FFN, 10**9, "bnb_fp4", bits=4.5))], {}, name="m", layers=1)
    found = way(without_gpus(node_of(AVX2), work))
    assert found.high is None
    assert [each.change for each in found.levers] == ["q8_0 instead of bnb_fp4, 1013 MiB"]


def test_the_largest_comes_first() -> None:
    levers = way(node_of(AVX2), "partial-offload").levers
    assert len(levers) > 1
    assert [each.high or 0 for each in levers] == sorted(
        (each.high or 0 for each in levers), reverse=True
    )
