"""Cards that an engine leaves alone, or lets wait."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Measurement
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    CARD,
    CROWDED,
    FALLEN_BACK,
    FEEDER_WAITS,
    HEALTHY,
    IDLE,
    LOADING,
    ON_CARD,
    PAGING,
    PARTLY_ON_CARD,
    STRESS,
    engine,
    gpu,
    ids,
    judged,
    node,
    process,
    quota,
    threads,
    use,
    with_process,
)

DRAM = Measurement(name="dram_read", kernel="avx2", threads=8, median_bytes_per_second=30e9)
OPEN = ("/dev/nvidia0", "/dev/nvidiactl")


def test_it_fell_back_to_the_cpu_in_silence() -> None:
    [found] = judged(node(FALLEN_BACK, gpu(), measurements=(DRAM,)))
    assert found.id == "engine.cpu_fallback"
    assert "7.8 CPUs" in found.summary
    assert found.headline == "It computes on 7.8 CPUs and not on the card"
    assert found.evidence[0].value == "device files of cards that it has open: none"
    assert "48 GiB" in found.evidence[1].value
    assert "864 GB/s, RAM 30 GB/s: up to 29x" in found.impact
    assert found.remedy.commands[-1] == "llama-server --n-gpu-layers 999"


def test_the_driver_lists_others_and_none_of_it() -> None:
    made = with_process(replace(FALLEN_BACK, cards=(use(0, 0.0),)), gpu_files=("/dev/nvidiactl",))
    assert ids(node(made, gpu())) == ["cpu_fallback"]


@pytest.mark.parametrize(("held", "load", "raised"), [
    (0.39, 0.04, True), (0.41, 0.04, False), (0.39, 0.06, False), (0.39, None, False),
])  # fmt: skip
def test_a_context_and_no_weights(held: float, load: float | None, raised: bool) -> None:
    made = replace(FALLEN_BACK, cards=(use(held * GIB, load),))
    assert (ids(node(with_process(made, gpu_files=OPEN), gpu())) == ["cpu_fallback"]) is raised


def test_memory_on_cards_outweighs_that_no_device_file_is_open() -> None:
    """What is open stands where we cannot see it; the driver counts 70 GiB on each of 8 cards."""
    cards = [f"0000:0{n}:00.0" for n in range(1, 9)]
    held = tuple(use(70 * GIB, 0.55, card) for card in cards)
    made = with_process(replace(FALLEN_BACK, cards=held, model_files=()), gpu_files=())
    assert ids(node(made, *map(gpu, cards))) == []


def test_a_card_that_others_fill_is_freed_first() -> None:
    [found] = judged(node(FALLEN_BACK, gpu(memory_used_bytes=47 * GIB)))
    assert found.remedy.text.startswith("Free the card's memory first")


@pytest.mark.parametrize(
    "settings",
    [
        {"settings": {"gpu_layers": "0"}},
        {"settings": {"device": "none"}},
        {"settings": {"device": "cpu"}},
        {"environment": {"CUDA_VISIBLE_DEVICES": ""}},
        {"environment": {"CUDA_VISIBLE_DEVICES": "-1"}},
    ],
)
def test_who_asked_for_the_cpu_has_it(settings: dict[str, dict[str, str]]) -> None:
    assert ids(node(replace(FALLEN_BACK, **settings), gpu())) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"settings": {"gpu_layers": "20"}},
        {"environment": {"CUDA_VISIBLE_DEVICES": "0"}},
        {"environment": {"HIP_VISIBLE_DEVICES": ""}},  # of another maker
        {"engine": "ollama", "settings": {"gpu_layers": "0"}},  # Ollama's own choice
    ],
)
def test_who_did_not_ask_has_it_told(settings: dict[str, Any]) -> None:
    assert ids(node(replace(FALLEN_BACK, **settings), gpu())) == ["cpu_fallback"]


@pytest.mark.parametrize(
    ("card", "facts"),
    [
        (gpu(granted=None), {}),
        (gpu(granted=False), {}),  # another container's
        (gpu(device_file=False), {"virt": VirtFacts(container="docker")}),
        (gpu(lost=True), {}),
        (gpu(error="GPU is lost"), {}),
        (gpu(memory_bytes=2 * GIB), {}),  # a display adapter
        (gpu(memory_bytes=None), {}),
        (gpu(), {"gpu": GpuFacts(state="mismatch")}),
    ],
)
def test_a_card_that_it_cannot_use_is_not_missed(card: Gpu, facts: dict[str, Any]) -> None:
    assert ids(node(FALLEN_BACK, card, **facts)) == []


@pytest.mark.parametrize(
    "made",
    [
        ON_CARD,
        with_process(LOADING, cpu_seconds=4.5),  # and reads it with one thread
        IDLE,
        with_process(FALLEN_BACK, gpu_files=None),  # another user's
        with_process(FALLEN_BACK, gpu_files=OPEN),  # in a PID namespace NVML lists no process
        with_process(replace(FALLEN_BACK, cards=(use(None, 0.0),)), gpu_files=OPEN),
        engine(threads(1, 0.9), engine="vllm", model_files=(), libraries=()),  # an API server
        engine(threads(8, 0.9), engine=None, model_files=(), libraries=()),  # no engine at all
        engine(threads(1, 0.49)),
    ],
)
def test_what_looks_like_it(made: EngineFacts) -> None:
    assert ids(node(made, gpu())) == []


def test_an_instance_of_a_card_is_not_in_the_drivers_list() -> None:
    made = with_process(replace(FALLEN_BACK, cards=(use(0, None),)), gpu_files=OPEN)
    assert ids(node(made, gpu(mig=True))) == []


def test_a_worker_without_a_card_beside_one_with_it() -> None:
    made = engine(
        [*threads(8, 0.9), *threads(1, 1.0, pid=4300)],
        process(7.2),
        process(1.0, pid=4300, gpu_files=OPEN),
        cards=(use(4 * GIB, 0.9),),
    )
    assert ids(node(made, gpu())) == []


def test_layers_on_the_cpu_let_the_card_wait() -> None:
    [found] = judged(node(PARTLY_ON_CARD, gpu(memory_used_bytes=13 * GIB)))
    assert found.id == "engine.gpu_starved"
    assert found.summary == (
        "8 threads compute layers on the CPU: its card holds 12 GiB for 16 GiB of weights and is "
        "25 % busy"
    )
    assert found.headline == "Its card waits for layers on the CPU, 25 % busy"
    assert "up to 4.0x" in found.impact
    assert found.remedy.commands == ("llama-server --n-gpu-layers 999",)


def test_layers_that_the_card_does_not_hold_need_smaller_weights() -> None:
    made = replace(PARTLY_ON_CARD, settings={"cpu_offload": "--cpu-moe"})
    [found] = judged(node(made, gpu(memory_used_bytes=46 * GIB)))
    assert "4 GiB are left to the CPU (it was started with --cpu-moe)" in found.remedy.text
    assert found.remedy.commands == ()


@pytest.mark.parametrize(("load", "raised"), [
    (0.049, False), (0.05, True), (0.499, True), (0.50, False), (None, False),
])  # fmt: skip
def test_how_busy_a_card_that_waits_is(load: float | None, raised: bool) -> None:
    made = replace(PARTLY_ON_CARD, cards=(use(12 * GIB, load),))
    assert bool(ids(node(made, gpu()))) is raised


def test_layers_over_three_cards_make_each_a_third_busy() -> None:
    cards = [f"0000:0{n}:00.0" for n in (1, 2, 3)]
    made = replace(PARTLY_ON_CARD, cards=tuple(use(4 * GIB, 0.3, card) for card in cards))
    assert ids(node(made, *map(gpu, cards))) == []
    slower = replace(made, cards=tuple(use(4 * GIB, 0.1, card) for card in cards))
    [found] = judged(node(slower, *map(gpu, cards)))
    assert found.headline == ("Its 3 cards wait for layers on the CPU, 30 % busy")
    assert found.summary.endswith("and are 30 % busy together")
    assert "all on the cards" in found.impact
    assert found.remedy.text == "Put all layers onto the cards"


@pytest.mark.parametrize(
    "made",
    [
        replace(PARTLY_ON_CARD, threads=tuple(threads(1, 1.0))),  # CUDA's wait
        replace(PARTLY_ON_CARD, cards=(use(15 * GIB, 0.3),)),  # all on it; its pool spins
        replace(PARTLY_ON_CARD, model_files=()),
        replace(PARTLY_ON_CARD, engine="vllm"),  # computes no layers on the CPU
        replace(PARTLY_ON_CARD, settings={"gpu_layers": "0"}),  # the card takes prompts alone
        replace(ON_CARD, engine="sglang", cards=(use(18 * GIB, 0.0),)),  # its scheduler spins
    ],
)
def test_what_lets_a_card_wait_in_order(made: EngineFacts) -> None:
    assert ids(node(made, gpu())) == []


def test_the_thread_that_feeds_the_card_waits() -> None:
    [found] = judged(node(FEEDER_WAITS, gpu()))
    assert found.id == "engine.gpu_starved"
    assert "30 % busy" in found.summary
    assert "38 % of the window" in found.summary
    assert found.headline == ("Its card waits for a thread that has no CPU 38 % of the time")
    assert any("stress-ng" in piece.value for piece in found.evidence)
    assert "1.6x" in found.impact


@pytest.mark.parametrize(("waited", "raised"), [(0.19, False), (0.2, True)])
def test_how_long_the_feeder_may_wait(waited: float, raised: bool) -> None:
    made = replace(FEEDER_WAITS, threads=tuple(threads(1, 0.6, waited)), others=(), busy_cpus=0.6)
    assert bool(ids(node(made, gpu()))) is raised


def test_a_cpu_is_left_for_the_feeder() -> None:
    made = with_process(
        replace(CROWDED, cards=(use(18 * GIB, 0.3),), model_files=()), gpu_files=OPEN
    )
    [found] = judged(node(made, gpu()))
    assert found.id == "engine.gpu_starved"
    assert found.remedy.commands == ("llama-server --threads 3 --threads-batch 3",)


def test_the_busiest_of_several_cards_is_named_so() -> None:
    cards = [f"0000:0{n}:00.0" for n in (1, 2)]
    held = tuple(use(9 * GIB, load, card) for load, card in zip((0.1, 0.3), cards, strict=True))
    [found] = judged(node(replace(FEEDER_WAITS, cards=held), *map(gpu, cards)))
    assert found.summary.startswith("The busiest of its 2 cards is 30 % busy")


def test_a_quota_is_the_cause_of_the_feeders_wait() -> None:
    made = replace(FEEDER_WAITS, threads=tuple(threads(1, 0.3, 0.6)), cpu_group=quota(0.5, 13))
    assert ids(node(made, gpu())) == ["throttled_quota"]


def test_a_busy_card_and_a_waiting_thread_are_the_threads_matter() -> None:
    made = replace(FEEDER_WAITS, cards=(use(18 * GIB, 0.9),))
    assert ids(node(made, gpu())) == ["oversubscribed"]


def test_a_thread_of_a_process_without_the_card_feeds_none() -> None:
    made = engine(
        [*threads(1, 1.0, 0.0), *threads(1, 0.5, 0.14, pid=4300)],
        process(1.0, gpu_files=OPEN),
        process(0.5, pid=4300),
        engine="vllm",
        cards=(use(18 * GIB, 0.3),),
        others=(STRESS,),
        model_files=(),
    )
    assert ids(node(made, gpu())) == []


def test_what_falls_back_does_not_starve() -> None:
    """It holds a context on one idle card and its layers on the CPU."""
    made = with_process(replace(FALLEN_BACK, cards=(use(0.2 * GIB, 0.04),)), gpu_files=OPEN)
    assert ids(node(made, gpu())) == ["cpu_fallback"]


def test_layers_that_come_from_disk_are_paging() -> None:
    made = replace(PAGING, cards=(use(GIB, 0.2),), threads=tuple(threads(8, 0.3)))
    assert ids(node(with_process(made, gpu_files=OPEN), gpu())) == ["paging"]


def test_a_node_without_cards_misses_none() -> None:
    assert ids(node(HEALTHY)) == []
    assert CARD not in str(judged(node(FALLEN_BACK, gpu("0000:02:00.0"))))
