"""Registers of PCI devices: by their bytes, against lspci's reading of them, and of no sense."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.machine import pci
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.pci_config import ACS_CONTROLS, Config, parse, without_serial
from nodecheck.machine.reader import Reader
from tests.machine.config_space import (
    ACS,
    ATS,
    EXPRESS_AT,
    RESIZABLE_BAR,
    SERIAL,
    acs,
    ats,
    dump,
    put,
    space,
    windows,
)
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]

SPACES = {
    "capped port": space(port=True, target=8.0, extended={ACS: acs(0x1D)}),
    "card": space(
        maximum=(32.0, 16),
        target=32.0,
        extended={
            SERIAL: bytes(range(1, 9)),
            ATS: ats(enabled=True),
            RESIZABLE_BAR: windows((16,), (256, 512, 32768), (32,)),
        },
    ),
    "not tuned": space(equalised=False, extended={ATS: ats(enabled=False)}),
    "no redirect": space(port=True, extended={ACS: acs(0x11)}),
    "nothing extended": space(maximum=(2.5, 1), target=2.5),
}


def test_what_is_set_is_told() -> None:
    port, card = parse(SPACES["capped port"]), parse(SPACES["card"])
    assert (port.target_gts, port.maximum_gts, port.equalised) == (8.0, 16.0, True)
    assert port.acs == (
        "source_validation",
        "request_redirect",
        "completion_redirect",
        "upstream_forwarding",
    )
    assert (card.maximum_gts, card.maximum_width, card.target_gts) == (32.0, 16, 32.0)
    assert (card.ats, card.acs, card.bar_maximum_bytes) == (True, (), 32 << 30)
    assert parse(SPACES["not tuned"]).equalised is False


@pytest.mark.parametrize(
    ("control", "redirects"),
    [(0x04, True), (0x08, True), (0x20, True), (0x11, False), (0x53, False), (0x00, False)],
)
def test_requests_completions_and_egress_control_redirect(control: int, redirects: bool) -> None:
    config = parse(space(port=True, extended={ACS: acs(control)}))
    assert config.acs_redirect is redirects
    assert config.acs == tuple(n for bit, n in enumerate(ACS_CONTROLS) if control >> bit & 1)


@pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci is not installed")
@pytest.mark.parametrize("name", SPACES)
def test_lspci_reads_the_same(name: str, node: Node, tmp_path: Path) -> None:
    (tmp_path / "dump").write_text(dump("01:00.0", SPACES[name]))
    text = subprocess.run(
        ["lspci", "-F", tmp_path / "dump", "-vvv", "-nn"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    (told,) = pci.read(Reader(node({"cmd/lspci_-vvv_-nn.txt": text}), "pcie")).devices.values()
    mine = parse(SPACES[name])
    assert (told.maximum_gts, told.maximum_width) == (mine.maximum_gts, mine.maximum_width)
    if name == "nothing extended":  # lspci says nothing of capabilities that are not there
        assert (mine.acs, mine.ats) == ((), False)
        return
    assert told.config == Config(
        **{n: getattr(mine, n) for n in Config.__struct_fields__ if not n.startswith("maximum")}
    )


@pytest.mark.parametrize("size", [0, 1, 64, 96, 0x60 + 0x31])
def test_what_an_ordinary_user_may_not_read_is_not_known(size: int) -> None:
    config = parse(SPACES["card"][:size])
    assert (config.target_gts, config.acs, config.acs_redirect, config.ats) == (None,) * 4


def test_without_extended_space_its_capabilities_are_not_known() -> None:
    config = parse(SPACES["card"][:256])
    assert config.target_gts == 32.0
    assert (config.acs, config.ats, config.bar_maximum_bytes) == (None, None, None)


def test_a_device_that_does_not_answer_tells_nothing() -> None:
    assert parse(b"\xff" * 4096) == Config()
    assert parse(SPACES["card"][:256] + b"\xff" * 3840).ats is None


def test_a_device_without_a_list_of_capabilities() -> None:
    data = bytearray(SPACES["card"])
    data[0x06] = 0
    assert parse(bytes(data)).target_gts is None


@pytest.mark.parametrize("first", [EXPRESS_AT, 0x40, 0xFC])
def test_lists_that_go_round_in_a_circle_end(first: int) -> None:
    data = bytearray(space(extended={ACS: acs(0x04)}))
    data[0x34] = first
    put(data, first, 0x05 | first << 8, size=2)
    put(data, 0x100, 0x0001 | 1 << 16 | 0x100 << 20)
    config = parse(bytes(data))
    assert (config.target_gts, config.acs) == (None, ())


@pytest.mark.parametrize("last", [0xFFC, 0xFF8])
def test_a_capability_at_the_end_of_the_space_is_cut_off(last: int) -> None:
    data = bytearray(space())
    for id_ in (ACS, ATS, RESIZABLE_BAR):
        put(data, 0x100, 0x0001 | 1 << 16 | last << 20)
        put(data, last, id_ | 1 << 16)
        assert parse(bytes(data)).bar_maximum_bytes is None
        assert parse(bytes(data)).ats in (None, False)


@given(st.binary(max_size=4500))
def test_any_bytes_are_survived(data: bytes) -> None:
    parse(data)
    assert len(without_serial(data)) == len(data)


@given(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=60))
def test_any_damage_is_survived(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SPACES["card"])
    for place, byte in changes:
        data[place] = byte
    config = parse(bytes(data))
    assert config.bar_maximum_bytes is None or config.bar_maximum_bytes <= 128 << 40
    assert without_serial(without_serial(bytes(data))) == without_serial(bytes(data))


def test_the_serial_number_is_left_out_and_nothing_else() -> None:
    card = SPACES["card"]
    assert bytes(range(1, 9)) in card
    bare = without_serial(card)
    assert bytes(range(1, 9)) not in bare
    assert parse(bare) == parse(card)
    assert sum(a != b for a, b in zip(card, bare, strict=True)) == 8
    assert without_serial(SPACES["capped port"]) == SPACES["capped port"]
