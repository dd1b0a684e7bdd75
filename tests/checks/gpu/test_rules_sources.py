"""What rules need beside the cards: switches, their manager, versions, excluded cards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.card_files import Refusals
from nodecheck.checks.gpu.facts import GpuFacts, MigInstance, RetiredPages
from nodecheck.checks.gpu.gaps import note_gaps
from nodecheck.checks.gpu.merge import together
from nodecheck.machine import nvml
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Severity
from tests.checks.gpu.inputs import device
from tests.checks.gpu.judging import ADDRESS, CARD, node_of, numbered, probed, severities
from tests.checks.live_tree import live_tree
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
H100 = device(ADDRESS, ids="10de:2330")


def switch(number: int, **changes: str) -> Tree:
    values = {"ids": "10de:22a3", "pci_class": "0x068000", **changes}
    return device(f"0000:8{number}:00.0", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("others", "count"),
    [
        ({}, 0),
        ({**switch(1), **switch(2), **switch(3), **switch(4)}, 4),
        (switch(1, ids="8086:7113"), 0),  # a bridge of another maker
        (switch(1, pci_class="0x060400"), 0),  # a PCIe switch's port
    ],
)
def test_nvswitches_are_counted_on_pci(others: Tree, count: int, node: Node) -> None:
    facts, _ = probed(node({**H100, **others}))
    assert facts.gpu.nvswitches == count
    assert facts.gpu.fabric_manager is None  # a capture has no processes
    assert len(facts.gpus) == 1


def test_a_node_without_nvidias_cards_is_not_looked_through(node: Node) -> None:
    facts, _ = probed(node({**device(ADDRESS, ids="1002:74a1"), **switch(1)}))
    assert facts.gpu.nvswitches is None


@pytest.mark.parametrize(("name", "runs"), [("nv-fabricmanage", True), ("sshd", False)])
def test_the_manager_is_looked_for_among_the_processes(
    name: str, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = " ".join(["S", "1", *["0"] * 49])
    proc: Tree = {
        "stat": "cpu 1 1 1 1 1 1 1 1 1 1\nbtime 1700000000\n",
        "2/stat": f"2 (kthreadd) {fields}\n",
        "2/cmdline": "",
        "812/stat": f"812 ({name}) {fields}\n",
        "812/cmdline": "",
    }
    live_tree(proc, tmp_path / "proc")
    psutil.process_iter.cache_clear()
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    monkeypatch.setattr(nvml, "worth_trying", lambda *_, **__: False)
    facts, _ = probed(live_tree({**H100, **switch(1)}, tmp_path / "node"))
    psutil.process_iter.cache_clear()
    assert facts.gpu.nvswitches == 1
    assert facts.gpu.fabric_manager is runs


VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.51.03  Release Build\n"
    "GCC version:  gcc version 13.3.0\n"
)


def test_the_loaded_modules_version(node: Node) -> None:
    facts, _ = probed(node({**H100, "proc/driver/nvidia/version": VERSION}))
    assert facts.gpu.module_version == "575.51.03"
    assert facts.gpu.driver_version == "575.51.03"


@pytest.mark.parametrize(("excluded", "granted"), [("Yes", False), ("No", None)])
def test_a_card_that_the_driver_was_told_to_leave_alone(
    excluded: str, granted: bool | None, node: Node
) -> None:
    information = f"Model: \t\t NVIDIA H100\nDevice Minor: \t 0\nGPU Excluded:\t {excluded}\n"
    tree: Tree = {
        **H100,
        f"proc/driver/nvidia/gpus/{ADDRESS}/information": information,
        "dev/null": "",
    }
    host = node(tree)
    facts, _ = probed(host)
    assert facts.gpus[0].granted is granted
    found = severities(node_of(host))
    assert ("gpu.not_granted" in found) is (granted is False)
    assert Severity.CRITICAL not in found.values()


def test_a_card_that_retires_pages_lacks_no_rows(node: Node) -> None:
    host = node(H100)
    for pages, gaps in ((RetiredPages(pending=False), 0), (None, 2)):
        reader = Reader(host, "gpu")
        card = replace(CARD, remap_pending=None, remap_failure=None, retired_pages=pages)
        note_gaps(reader, GpuFacts(state="ok", source="nvml"), (card,), {})
        assert sum("remap_" in gap.field for gap in reader.gaps) == gaps


def test_what_one_source_lacks_another_fills_in() -> None:
    first = replace(CARD, nvlinks=(), mig_instances=(), vbios_version=None, ecc_enabled=False)
    instance = MigInstance(profile="1g.10gb")
    second = replace(CARD, mig_instances=(instance,), vbios_version="96.00", nvlinks=None)
    (card,) = together([[first], [second]], ())
    assert card.mig_instances == (instance,)
    assert card.vbios_version == "96.00"
    assert card.nvlinks == ()


def test_a_gaps_reason_is_each_cards_own(node: Node) -> None:
    """A card that has no such thing beside one that did not tell it, and one that refused it."""
    reader = Reader(node(H100), "gpu")
    cards = tuple(numbered(CARD, number, remap_pending=None) for number in range(4))
    why: dict[str, Refusals] = {
        "0000:01:00.0": {"remap_pending": (Reason.UNSUPPORTED, "Not Supported")},
        "0000:02:00.0": {
            "remap_pending": (Reason.FAILED, "Unknown Error"),
            "serial": (Reason.DENIED, "Insufficient Permissions"),
        },
        "GPU 3": {"remap_pending": (Reason.UNSUPPORTED, "Not Supported")},
    }
    note_gaps(reader, GpuFacts(state="ok", source="nvml"), cards, why)
    told = {gap.detail: gap.reason for gap in reader.gaps if gap.field == "gpus.remap_pending"}
    assert told == {
        "nvml: Not Supported for 0000:01:00.0, 0000:04:00.0": Reason.UNSUPPORTED,
        "nvml: Unknown Error for 0000:02:00.0": Reason.FAILED,
        "nvml: not told for 0000:03:00.0": Reason.ABSENT,
    }
    (serial,) = [gap for gap in reader.gaps if gap.field == "gpus.serial"]
    assert serial.detail == "nvml: Insufficient Permissions for 0000:02:00.0: serial"
