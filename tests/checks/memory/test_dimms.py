"""Boards name their slots in many ways; only what names a channel counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.memory import dimms
from nodecheck.checks.memory.facts import Dimm
from tests.checks.memory.examples import EMPTY, HEADER, memory_device


def one(locator: str, bank: str, size: str = "32 GB") -> Dimm:
    (dimm,) = dimms.parse(HEADER + memory_device(locator, bank, size))
    return dimm


@pytest.mark.parametrize(
    ("locator", "bank", "socket", "channel"),
    [
        ("DIMM 0", "P0 CHANNEL A", "P0", "A"),
        ("DIMM_A1", "NODE 1", "NODE 1", "A"),
        ("CPU0_DIMM_B2", "Not Specified", "CPU0", "B"),
        ("P1-DIMMA1", "P0_Node1_Channel0_Dimm0", "P0", "NODE1:0"),
        ("ChannelA-DIMM0", "BANK 0", None, "A"),
        ("Controller1-ChannelA-DIMM0", "BANK 2", None, "1:A"),
        ("DIMM_P1_C0", "Not Specified", "P1", "C"),
        ("DDR4_B1", "BANK 2", None, "B"),
        ("DIMM A2", "BANK 1", None, "A"),
        ("CPU1_C3D0", "Not Specified", "CPU1", "3"),
        ("PROC 1 DIMM 3", "Not Specified", "PROC 1", None),
        ("A1", "Not Specified", None, None),
        ("DIMM 0", "BANK 0", None, None),
        ("DIMM1", "Not Specified", None, None),
        ("M0001", "_Node0_", "NODE0", None),
    ],
)
def test_names(locator: str, bank: str, socket: str | None, channel: str | None) -> None:
    dimm = one(locator, bank)
    assert (dimm.socket, dimm.channel) == (socket, channel)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 GB", 64 << 30),
        ("16384 MB", 16 << 30),
        ("1 TB", 1 << 40),
        (EMPTY, 0),
        ("Not Installed", 0),
        ("Unknown", None),
        ("", None),
        ("-1 GB", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert one("DIMM 0", "P0 CHANNEL A", text).size_bytes == size


def test_speeds_of_old_and_new_releases() -> None:
    text = memory_device("DIMM 0", "P0 CHANNEL A", speed="3200 MT/s").replace(
        "Configured Memory Speed: 3200 MT/s", "Configured Clock Speed: 2933 MHz"
    )
    (dimm,) = dimms.parse(text)
    assert (dimm.speed_mts, dimm.configured_mts) == (3200, 2933)


def test_a_letter_with_many_slots_is_a_processor_not_a_channel() -> None:
    text = "".join(
        memory_device(
            f"DIMM_{letter}{number}", "Not Specified", "16 GB" if letter == "A" else EMPTY
        )
        for letter in "AB"
        for number in range(1, 7)
    )
    assert {dimm.channel for dimm in dimms.parse(text)} == {None}


def test_firmware_chips_and_cut_off_blocks_are_no_slots() -> None:
    flash = memory_device("SYSTEM ROM", "Not Specified", "32 MB").replace("DDR5", "Flash")
    assert dimms.parse(flash + "Handle 0x1\nMemory Device\n\tSize: 3") == ()


def test_a_block_ends_with_its_last_indented_line() -> None:
    text = memory_device("DIMM 0", "P0 CHANNEL A") + "Physical Memory Array\n\tLocator: other\n"
    assert [dimm.locator for dimm in dimms.parse(text)] == ["DIMM 0"]


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    dimms.parse(text)
    dimms.parse("Memory Device\n\tLocator: " + text)
