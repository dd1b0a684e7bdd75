"""What a setting of llama.cpp leaves on the CPU, and what that makes of a token."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.judge import node
from nodecheck.judge.rates.reads import BLOCKS_MOST, reads
from nodecheck.judge.ways import offload
from nodecheck.judge.ways.offload import cpu_layers, curves
from nodecheck.model import Measurement, Point, Strategy, Viability
from nodecheck.policy import Policy
from nodecheck.serving import Curve, Kind, LayerCache, Serving, Workload
from nodecheck.units import GB, GIB
from nodecheck.workload.assemble import assemble
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, qwen_30b_a3b, small_mix, weights
from tests.nodes import AVX2, SSE2, dram, l40, three_l40

SEEN = three_l40()


def one_card(size_gib: float, flags: tuple[str, ...] = AVX2, read: float | None = 11.7) -> Seen:
    seen = three_l40(flags, read=read)
    gpu = replace(l40(0), memory_bytes=round(size_gib * GIB))
    return replace(seen, facts=replace(seen.facts, gpus=(gpu,)))


def partial(seen: Seen, work: Workload) -> Strategy:
    return offload.partial_offload(seen, work, node.cards(seen))


def experts(seen: Seen, work: Workload) -> Strategy:
    found = offload.expert_offload(seen, work, node.cards(seen))
    assert found is not None
    return found


def curve(seen: Seen, work: Workload, setting: str = "-ngl") -> Curve:
    return next(each for each in curves(seen, work) if each.setting == setting)


def at(found: Curve, setting: str) -> Point:
    return next(point for point in found.points if point.setting == setting)


# --- where layers lie ---


@pytest.mark.parametrize(
    ("ngl", "left"),
    [(-1, 0), (99, 0), (96, 0), (66, 0), (65, 0), (64, 1), (50, 15), (1, 64), (0, 65)],
)
def test_what_ngl_leaves_of_64_layers_the_output_counted(ngl: int, left: int) -> None:
    assert cpu_layers(from_numbers("m", 10, 64, "q4_k"), ngl) == left


def test_a_block_that_guesses_is_one_more() -> None:
    guessing = qwen_27b(mtp=True)
    assert [cpu_layers(guessing, ngl) for ngl in (66, 65, 50)] == [0, 1, 16]


def test_the_curve_holds_every_value_from_all_to_none() -> None:
    found = curve(SEEN, qwen_27b())
    assert (found.strategy, found.setting) == ("partial-offload", "-ngl")
    assert [p.setting for p in found.points] == [f"ngl {n}" for n in range(65, -1, -1)]
    assert [p.cpu_layers for p in found.points] == list(range(66))
    highs = [p.high for p in found.points]
    assert highs == sorted(highs, reverse=True)
    lows = [p.low or 0.0 for p in found.points]
    assert lows == sorted(lows, reverse=True)


def test_the_first_blocks_stay_on_the_cpu() -> None:
    """Block 3 is the first with attention, which weighs 11 MB less than a recurrent mixer."""
    work = qwen_27b()
    sizes = [block.stored_bytes for block in reads(SEEN, work).both]
    assert sizes[3] < sizes[2] == sizes[0]
    points = curve(SEEN, work).points
    for kept in range(65):
        assert points[kept].cpu_bytes == pytest.approx(sum(sizes[:kept]))


def test_the_output_layer_is_the_last_to_leave_the_card() -> None:
    found = curve(SEEN, qwen_27b())
    output = reads(SEEN, qwen_27b()).output.stored_bytes
    last = (at(found, "ngl 0").cpu_bytes or 0) - (at(found, "ngl 1").cpu_bytes or 0)
    assert last == pytest.approx(output, abs=2)


def test_a_curve_of_many_blocks_leaves_values_out() -> None:
    points = curve(SEEN, from_numbers("deep", 10 * GB, 500, "q4_k")).points
    assert len(points) <= 131
    assert (points[0].setting, points[-1].setting) == ("ngl 501", "ngl 0")


def test_more_blocks_than_any_model_has_are_not_drawn() -> None:
    work = from_numbers("damaged", 10 * GB, 10**12, "q4_k")
    assert reads(SEEN, work).blocks == ()
    assert curves(SEEN, work) == ()
    assert "not told apart" in partial(SEEN, work).basis
    assert len(reads(SEEN, replace(work, layers=BLOCKS_MOST)).blocks) == BLOCKS_MOST


def test_a_node_without_a_gpu_has_no_curve() -> None:
    assert curves(replace(SEEN, facts=replace(SEEN.facts, gpus=())), qwen_27b()) == ()


def test_vram_bounds_the_curve() -> None:
    found = curve(one_card(10), qwen_27b())
    fitting = [p for p in found.points if p.fits]
    assert 0 < len(fitting) < len(found.points)
    assert not found.points[0].fits
    assert found.points[-1].fits
    left = 10 * GIB - GIB
    on_card = round(16.3 * GIB) - (fitting[0].cpu_bytes or 0)
    assert on_card < left + 1.3 * GB  # the embedding is not on the card


def test_the_cache_of_layers_on_the_card_takes_room_there() -> None:
    long = replace(one_card(16), serving=Serving(context_tokens=131_072))
    short = one_card(16)
    fits = [sum(p.fits or False for p in curve(s, qwen_27b()).points) for s in (short, long)]
    assert fits[0] > fits[1]


# --- what a token takes ---


def test_the_told_points_are_one_layer_and_a_quarter() -> None:
    found = partial(SEEN, qwen_27b())
    assert [(p.setting, p.cpu_layers, p.fits) for p in found.points] == [
        ("ngl 64", 1, True),
        ("ngl 50", 15, True),
    ]
    assert found.limit == "CPU instruction set (SSE2), then DRAM"
    assert found.viability is Viability.NOT_VIABLE


def test_where_vram_asks_for_some_layers_they_are_what_is_judged() -> None:
    """15.5 GiB hold all but a few layers; a quarter of them on the CPU would be slow."""
    found = partial(one_card(15.5, read=100.0), qwen_27b())
    fewest = found.points[0]
    assert 1 < (fewest.cpu_layers or 0) < 15
    assert (found.low, found.high) == (fewest.low, fewest.high)
    assert found.viability is Viability.VIABLE


def test_a_layer_on_the_cpu_adds_its_bytes_at_the_cpus_rate() -> None:
    found = curve(one_card(46, AVX2, read=11.7), qwen_27b())
    none, one = at(found, "ngl 65"), at(found, "ngl 64")
    added = 1 / one.high - 1 / none.high
    block = reads(SEEN, qwen_27b()).both[0]
    least = block.weight_bytes.floor / 11.7e9 - block.weight_bytes.floor / (0.8 * 864e9)
    assert added == pytest.approx(least, rel=0.05)


def test_ram_that_does_not_hold_the_layers_refuses() -> None:
    seen = one_card(10)
    poor = replace(seen.facts.memory, available_bytes=2 * GIB)
    found = partial(replace(seen, facts=replace(seen.facts, memory=poor)), qwen_27b())
    assert found.limit == "RAM size"


def test_a_card_that_holds_not_one_layer_refuses() -> None:
    assert partial(one_card(1), qwen_27b()).limit == "VRAM size"


def test_a_fast_memory_leaves_the_card_as_the_limit() -> None:
    seen = one_card(46, AVX2, read=900.0)
    cores = replace(seen.facts.cpu, logical_cpus=128, physical_cores=128)
    slow = replace(seen.facts.gpus[0], vram_bytes_per_second=200e9)
    seen = replace(seen, facts=replace(seen.facts, cpu=cores, gpus=(slow,)))
    assert partial(seen, qwen_27b()).limit == "VRAM bandwidth, 200 GB/s"


def test_without_a_measured_memory_there_is_a_ceiling_while_something_is_on_the_cpu() -> None:
    found = curve(three_l40(AVX2, read=None), qwen_27b())
    assert at(found, "ngl 65").low is not None
    assert at(found, "ngl 64").low is None


# --- experts ---


def test_experts_of_the_first_blocks_lie_on_the_cpu() -> None:
    found = curve(SEEN, qwen_30b_a3b(), "--n-cpu-moe")
    assert [p.setting for p in found.points] == [f"ncmoe {n}" for n in range(49)]
    assert [p.cpu_layers for p in found.points] == list(range(49))
    of_one = 128 * 3 * 2048 * 768 * 4.5 / 8
    assert [p.cpu_bytes for p in found.points] == [round(n * of_one) for n in range(49)]


def test_dense_blocks_have_no_experts_to_move() -> None:
    expert = weights(Kind.EXPERTS, 64 * 10**6, "q4_k", 6 * 10**6)
    placed = [(n, weights(Kind.FFN, 10**6, "q4_k")) for n in range(4)]
    placed += [(n, expert) for n in (1, 2)]
    caches = dict.fromkeys(range(4), LayerCache(key_elements=512, value_elements=512))
    work = assemble(placed, caches, name="moe", layers=4, format="gguf")
    points = curve(SEEN, work, "--n-cpu-moe").points
    assert [p.cpu_layers for p in points] == [0, 0, 1, 2]


def test_a_dense_model_has_none() -> None:
    assert offload.expert_offload(SEEN, qwen_27b(), node.cards(SEEN)) is None
    assert [each.setting for each in curves(SEEN, qwen_27b())] == ["-ngl"]


def test_the_fewest_experts_that_vram_asks_for_are_told_and_judged() -> None:
    found = experts(one_card(8, read=60.0), qwen_30b_a3b())
    first, every = found.points
    assert first.setting != "ncmoe 1"
    assert (every.setting, every.cpu_layers) == ("cmoe", 48)
    assert (found.low, found.high) == (first.low, first.high)


def test_experts_on_the_cpu_beat_whole_layers_there_in_the_same_vram() -> None:
    """Experts are read in part, attention and its cache in whole."""
    seen, work = one_card(8, read=60.0), qwen_30b_a3b()
    by_experts, by_layers = experts(seen, work).points[0], partial(seen, work).points[0]
    assert by_experts.high > by_layers.high


def test_a_public_row_of_experts_on_the_cpu_lies_in_its_range() -> None:
    """llmfit#755: RTX 2080, i9-10900X with four channels, --n-cpu-moe 36, 36.7 tok/s."""
    seen = one_card(8, AVX2)
    cpu = replace(seen.facts.cpu, logical_cpus=10, physical_cores=10)
    gpu = replace(seen.facts.gpus[0], vram_bytes_per_second=448e9)
    facts = replace(seen.facts, cpu=cpu, virt=VirtFacts(guest=False), gpus=(gpu,))
    seen = replace(seen, facts=facts, measurements=(dram(75.0, 10),))
    found = at(curve(seen, qwen_30b_a3b(), "--n-cpu-moe"), "ncmoe 36")
    assert found.low is not None
    assert found.low < 36.7 < found.high


# --- the reference rates against llama.cpp on the machine that they come from ---


def two_cores(flags: tuple[str, ...]) -> Seen:
    """Two cores of a Zen 4 server whose memory reads 29 to 35 GB/s."""
    read = Measurement(
        name="dram_read",
        kernel="avx2",
        threads=2,
        median_bytes_per_second=31e9,
        p10_bytes_per_second=29e9,
        p90_bytes_per_second=35e9,
    )
    cpu = CpuFacts(arch="x86_64", flags=flags, usable_flags=flags, logical_cpus=2, physical_cores=2)
    return Seen(
        facts=Facts(cpu=cpu, virt=VirtFacts(guest=False)), policy=Policy(), measurements=(read,)
    )


SSE4 = (*SSE2, "ssse3", "sse4_1", "sse4_2")
AVX = (*SSE4, "avx")


@pytest.mark.parametrize(
    ("flags", "weight_type", "megabytes", "measured"),
    [
        (SSE2, "q4_0", 987, 1.88),
        (SSE2, "q4_k", 1045, 1.68),
        (SSE2, "q8_0", 1816, 6.70),
        (SSE2, "f16", 3418, 1.06),
        (SSE4, "q4_0", 987, 13.0),
        (SSE4, "q8_0", 1816, 6.46),
        (SSE4, "f16", 3418, 1.48),
        (AVX, "q4_0", 987, 15.3),
        (AVX, "q4_k", 1045, 19.8),
        (AVX, "q8_0", 1816, 13.4),
        (AVX, "f16", 3418, 1.45),
        (AVX2, "q4_0", 987, 27.7),
        (AVX2, "q4_k", 1045, 31.4),
        (AVX2, "f16", 3418, 7.51),
    ],
)
def test_the_reference_holds_what_llama_cpp_reached(
    flags: tuple[str, ...], weight_type: str, megabytes: float, measured: float
) -> None:
    """Two threads, an empty context; points that other work disturbed are left out."""
    work = from_numbers("small", round(megabytes * 1e6 / 0.975), 16, weight_type)
    speed = offload.cpu_speed(two_cores(flags), work)
    assert speed is not None
    assert speed.floor < measured < speed.high


def test_a_mix_of_types_takes_the_time_of_each() -> None:
    """A q4_k file with its output in q6_k is between the two."""
    four, mix, six = (
        offload.cpu_speed(two_cores(SSE2), small_mix(first, second))
        for first, second in (("q4_k", "q4_k"), ("q4_k", "q6_k"), ("q6_k", "q6_k"))
    )
    assert four
    assert mix
    assert six
    assert six.floor < mix.floor < four.floor
