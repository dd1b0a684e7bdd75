"""The forms in which firmware and kernels tell of modules and their errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodecheck.checks.memory.dimms import parse
from nodecheck.checks.memory.probe import probe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from tests.trees import Tree

MC = "sys/devices/system/edac/mc/mc0"


@pytest.mark.parametrize(
    "files",
    [
        {f"{MC}/ce_count": "12\n", f"{MC}/csrow0/ce_count": "12\n"},
        {f"{MC}/csrow0/ce_count": "5\n", f"{MC}/csrow1/ce_count": "7\n"},
        {f"{MC}/dimm0/dimm_ce_count": "12\n", f"{MC}/dimm1/dimm_ce_count": "0\n"},
    ],
)
def test_errors_are_counted_once(files: Tree, node: Callable[[Tree], CapturedHost]) -> None:
    (controller,) = probe(Reader(node(files), "memory")).controllers
    assert controller.correctable == 12


@pytest.mark.parametrize(
    "locators",
    [
        ("P0 CHANNEL A", "P0 CHANNEL B"),
        ("P0_C0_D0", "P0_C1_D0"),
        ("DIMM_CHA_0", "DIMM_CHB_0"),
        ("ChA-DIMM0", "ChB-DIMM0"),
        ("CPU0_A0", "CPU0_B0"),
    ],
)
def test_channels_are_told_apart(locators: tuple[str, str]) -> None:
    blocks = "".join(
        f"Memory Device\n\tSize: 32 GB\n\tLocator: {name}\n\tType: DDR4\n\n" for name in locators
    )
    first, second = parse(blocks)
    assert first.channel
    assert second.channel
    assert first.channel != second.channel
