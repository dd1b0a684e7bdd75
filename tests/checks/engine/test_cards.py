"""What an engine holds on cards, asked of a fake libnvidia-ml.so.1 by the real code."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodecheck.checks.engine.cards import use_of, watch
from nodecheck.checks.engine.facts import CardUse
from nodecheck.machine.host import open_host
from nodecheck.machine.nvml_activity import CardActivity
from nodecheck.machine.nvml_fields import Process
from nodecheck.machine.reader import Reader
from tests.checks.live_tree import live_tree, while_sleeping
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import L40, Card, at
from tests.trees import Link, Tree

__all__ = ["fake_nvml"]

WATCHES = """
import sys, msgspec
from nodecheck.checks.engine.cards import watch
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
reader = Reader(open_host(None), "engine")
import os
living = {os.getpid()} if len(sys.argv) < 2 else set()  # else theirs alone, which live nowhere
uses = watch(reader, {4194301, 4194302} | living, float(1 if living else 40))
sys.stdout.buffer.write(msgspec.json.encode((uses, reader.gaps)))
"""
MIB = 1 << 20
ON_HOST = Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n"


def watched(
    fake: FakeNvml, cards: list[Card], place: Path, *arguments: str, **system: str
) -> tuple[list[CardUse], list[dict[str, Any]]]:
    done = subprocess.run(
        (sys.executable, "-c", WATCHES, *arguments),
        env=fake.describing(cards, system, place),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    uses, gaps = msgspec.json.decode(done.stdout, type=tuple[list[CardUse], list[dict[str, Any]]])
    return uses, gaps


def holding(index: int, **told: str | int) -> Card:
    card: Mapping[str, str | int] = at(L40, index)
    return {**card, **told}


def test_load_is_a_mean_and_memory_that_of_the_tree(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    first = holding(
        1,
        compute_processes=f"4194301:{300 * MIB} 4194302:{200 * MIB} 99:{5 * MIB}",
        utilisation="10,30,50",
    )
    second = holding(2, compute_processes=f"4194301:{MIB}", utilisation=0)
    (one, two), gaps = watched(fake_nvml, [first, second], tmp_path)
    assert one.memory_bytes == 500 * MIB
    assert one.samples >= 4
    mean = (0.1 + 0.3 + 0.5 * (one.samples - 2)) / one.samples
    assert one.utilisation_share == pytest.approx(mean)
    assert (two.memory_bytes, two.utilisation_share) == (MIB, 0.0)
    assert one.card != two.card
    assert gaps == []


@pytest.mark.skipif(not ON_HOST, reason="in a PID namespace, where the driver's ids prove nothing")
def test_a_card_without_the_engine_is_told_as_such(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    cards = [holding(1, compute_processes=f"99:{MIB}", utilisation=0)]
    (use,), gaps = watched(fake_nvml, cards, tmp_path)
    assert use.memory_bytes == 0
    assert gaps == []


def test_what_the_driver_does_not_tell_is_a_gap(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    card = {name: value for name, value in holding(1).items() if name != "utilisation"}
    (use,), gaps = watched(fake_nvml, [{**card, "compute_processes": "4194301:-"}], tmp_path)
    assert (use.memory_bytes, use.utilisation_share) == (None, None)
    assert [gap["field"] for gap in gaps] == ["cards.memory_bytes", "cards.utilisation_share"]


def test_it_ends_with_the_engine(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    (use,), _ = watched(fake_nvml, [holding(1, utilisation=7)], tmp_path, "theirs alone")
    assert use.samples == 1


def test_a_driver_that_hangs_is_left(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    began = time.monotonic()
    uses, gaps = watched(fake_nvml, [holding(1)], tmp_path, fault="hang 4")
    assert time.monotonic() - began < 15
    assert uses == []
    assert [(gap["field"], gap["reason"]) for gap in gaps] == [("cards", "timeout")]


def test_in_a_container_a_list_without_ours_proves_nothing() -> None:
    card = CardActivity(bus_id="00000000:01:00.0", processes=(Process(pid=9, kind="compute"),))
    assert use_of(card, {4194301}, names_ours=False).memory_bytes is None
    assert use_of(card, {4194301}, names_ours=True).memory_bytes == 0
    assert use_of(card, {9}, names_ours=True).memory_bytes is None  # on it, with what is not told


def test_amdgpu_tells_the_load_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = "sys/devices/pci0000:00/0000:03:00.0"
    tree: Tree = {
        f"{device}/gpu_busy_percent": "10\n",
        "sys/class/drm/card1": Link("../../devices/pci0000:00/0000:03:00.0/drm/card1"),
        f"{device}/drm/card1/device": Link("../.."),
        "proc/7/stat": f"7 (llama-server) R {'1 ' * 49}",
    }
    host = live_tree(tree, tmp_path)
    load: Tree = {f"{device}/gpu_busy_percent": "50\n"}
    while_sleeping(monkeypatch, "nodecheck.checks.engine.cards", tmp_path, load)
    reader = Reader(host, "engine")
    (use,) = watch(reader, {7}, 0.3)
    assert (use.card, use.memory_bytes) == ("0000:03:00.0", None)
    assert use.utilisation_share is not None
    assert 0.1 < use.utilisation_share <= 0.5
    assert [gap.field for gap in reader.gaps] == ["cards.memory_bytes"]


def test_a_node_without_cards_has_none() -> None:
    reader = Reader(open_host(None), "engine")
    if Path("/dev/nvidiactl").exists() or list(Path("/sys/class/drm").glob("card*")):
        pytest.skip("this machine has cards")
    assert watch(reader, {1}, 0.1) == ()
    assert reader.gaps == []
