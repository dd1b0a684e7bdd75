"""Which cards are measured, with what buffers, from which CPUs."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.checks.cuda.subjects import (
    DEVICE_BUFFER_BYTES,
    LeftAlone,
    Subject,
    fit,
    located,
)
from nodecheck.checks.gpu.facts import Gpu, GpuProcess
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.cuda import Card
from nodecheck.model import Reason
from nodecheck.thresholds import Thresholds
from nodecheck.units import GIB, MIB
from tests.checks.cuda.nodes import address, card, node, way

LARGE, SMALL = DEVICE_BUFFER_BYTES
IDLE_PROCESS = GpuProcess(pid=7, kind="graphics", name="Xorg", memory_bytes=200 * MIB)
ENGINE = GpuProcess(pid=8, kind="compute", name="vllm", memory_bytes=30 * GIB)


def chosen(
    *cards: Gpu, force: bool = False, hidden: tuple[int, ...] = (), **facts: Any
) -> tuple[list[Subject], list[LeftAlone]]:
    listed = tuple(
        Card(position=position, pci_address=gpu.pci_address)
        for position, gpu in enumerate(cards)
        if position not in hidden
    )
    seen = node(cards, **facts).facts
    found, left = fit(seen, Thresholds(), force=force)
    subjects, missing = located(seen, found, listed, Thresholds())
    return subjects, [*left, *missing]


def test_an_idle_card_is_measured() -> None:
    (subject,), left = chosen(card(0))
    assert (subject.address, subject.position) == (address(0), 0)
    assert subject.device_bytes == LARGE
    assert not subject.busy
    assert left == []


def test_positions_are_cudas_whatever_the_order() -> None:
    listed = (Card(position=0, pci_address=address(1)), Card(position=1, pci_address=address(0)))
    cards = (card(0), card(1))
    found, _ = located(node(cards).facts, cards, listed, Thresholds())
    assert [(s.gpu.index, s.position) for s in found] == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("gpu", "reason", "why"),
    [
        (card(0, utilisation_share=0.5), Reason.DENIED, "it is busy (50 %)"),
        (card(0, memory_used_bytes=20 * GIB), Reason.DENIED, "others hold 20 GiB of its memory"),
        (card(0, processes=(ENGINE,)), Reason.DENIED, "others hold 30 GiB"),
        (card(0, mig=True), Reason.UNSUPPORTED, "MIG is on"),
        (card(0, compute_mode="exclusive_process"), Reason.DENIED, "exclusive process"),
        (card(0, compute_mode="prohibited"), Reason.DENIED, "prohibited"),
        (card(0, lost=True), Reason.FAILED, "the driver does not reach it"),
        (card(0, error="GPU requires reset"), Reason.FAILED, "the driver does not reach it"),
        (card(0, memory_bytes=700 * MIB), Reason.FAILED, "too little of its memory is free"),
        (card(0, pci_address=None), Reason.ABSENT, "CUDA does not list it"),
    ],
)
def test_a_card_is_left_alone_and_why(gpu: Gpu, reason: Reason, why: str) -> None:
    found, (left,) = chosen(gpu)
    assert found == []
    assert left.reason is reason
    assert why in left.why


def test_a_card_that_cuda_hides_is_told() -> None:
    found, (left,) = chosen(card(0), card(1), hidden=(1,))
    assert [s.gpu.index for s in found] == [0]
    assert "CUDA does not list it" in left.why


@pytest.mark.parametrize(
    "gpu", [card(0, utilisation_share=0.5), card(0, memory_used_bytes=20 * GIB)]
)
def test_force_takes_a_busy_card_and_says_so(gpu: Gpu) -> None:
    assert "--force" in chosen(gpu)[1][0].why
    (subject,), left = chosen(gpu, force=True)
    assert subject.busy
    assert left == []


@pytest.mark.parametrize(
    "gpu",
    [card(0, mig=True), card(0, compute_mode="exclusive_process"), card(0, lost=True)],
)
def test_force_takes_nothing_that_cannot_be_measured(gpu: Gpu) -> None:
    assert chosen(gpu, force=True)[0] == []


def test_a_desktop_is_no_stranger() -> None:
    assert len(chosen(card(0, utilisation_share=0.3, processes=(IDLE_PROCESS,)))[0]) == 1


def test_cards_of_others_and_other_makers_are_none_of_ours() -> None:
    container = VirtFacts(container="docker")
    found, left = chosen(
        card(0, granted=False), card(1, vendor="amd"), card(2, device_file=False), virt=container
    )
    assert (found, left) == ([], [])


@pytest.mark.parametrize(
    ("memory", "used", "expected"),
    [
        (48 * GIB, 0, LARGE),
        (48 * GIB, 46 * GIB, SMALL),
        (2 * GIB, 0, SMALL),
        (1 * GIB, 0, None),
        (None, None, LARGE),
    ],
)
def test_buffers_leave_room_for_others(
    memory: int | None, used: int | None, expected: int | None
) -> None:
    gpu = card(0, memory_bytes=memory, memory_used_bytes=used)
    (subject,), _ = chosen(gpu, force=True)
    assert subject.device_bytes == expected


def test_memory_that_is_the_hosts_is_taken_sparingly() -> None:
    gpu = card(0, unified_memory=True, memory_bytes=None, memory_used_bytes=None)
    (subject,), _ = chosen(gpu, memory=MemoryFacts(available_bytes=60 * GIB))
    assert subject.device_bytes == 64 * MIB
    found, (left,) = chosen(gpu, memory=MemoryFacts(available_bytes=3 * GIB))
    assert found == []
    assert "too little" in left.why


NODES = NumaFacts(nodes=(NumaNode(id=0, cpus=(0, 1)), NumaNode(id=1, cpus=(2, 3))))


@pytest.mark.parametrize(
    ("number", "usable", "expected"),
    [
        (1, (0, 1, 2, 3), (2, 3)),
        (1, (0, 1, 3), (3,)),
        (1, (0, 1), ()),
        (-1, (0, 1, 2, 3), ()),
        (None, (0, 1, 2, 3), ()),
        (7, (0, 1, 2, 3), ()),
        (1, None, ()),
    ],
)
def test_copies_are_issued_near_the_card(
    number: int | None, usable: tuple[int, ...] | None, expected: tuple[int, ...]
) -> None:
    limits = LimitsFacts(usable_cpus=usable)
    (subject,), _ = chosen(card(0, numa_node=number), numa=NODES, limits=limits, paths=(way(0),))
    assert subject.cpus == expected
