"""Inputs that lie, are cut, are binary or never end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.gpu.gaps import note_gaps
from nodecheck.checks.gpu.nvidia_smi import FORMS, _lost
from nodecheck.checks.gpu.nvidia_smi_fields import gpu_of
from nodecheck.checks.gpu.nvidia_smi_xml import XmlError
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from tests.checks.gpu.inputs import (
    L40,
    Values,
    card,
    csv,
    device,
    running,
    table,
    text,
    xml,
)
from tests.checks.gpu.judging import judge, node_of, probed
from tests.checks.gpu.printed import programs
from tests.trees import Tree, plant

Node = Callable[[Tree], CapturedHost]
FILES = (
    "cmd/nvidia-smi_-q_-x.txt",
    "cmd/nvidia-smi_-q.txt",
    "cmd/nvidia-smi_--query-gpu.csv",
    "cmd/nvidia-smi.txt",
    "nvml.json",
    "cmd/lspci_-vvv.txt",
)
WHOLE = {
    FILES[0]: xml([L40]),
    FILES[1]: text([L40]),
    FILES[2]: csv([L40]),
    FILES[3]: table([L40]),
    FILES[4]: '{"gpu":{"state":"ok"},"gpus":[{"name":"NVIDIA L40"}]}',
    FILES[5]: "01:00.0 3D controller: NVIDIA Corporation Device 26b5\n"
    "\t\tLnkSta:\tSpeed 16GT/s, Width x16\n",
}
SINGLE = sorted(set(L40) - {"active", "health", "instances", "processes"})
"""Values that are printed as they are."""

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 4096,
        b"\xff\xfe\x00garbage\n" * 50,
        b"{",
        b"[1,2",
        b"<gpu>" * 2000,
        b"|" * 200_000,
    ],
)
def test_nonsense_is_a_gap_and_not_a_card(path: str, content: bytes, node: Node) -> None:
    answer, gaps = probed(node({path: content}))
    assert answer.gpus == ()
    assert gaps
    assert judge(node_of(node({}))) == {}


@pytest.mark.parametrize("path", FILES)
def test_every_cut_of_a_good_file_is_survived(path: str, tmp_path: Path) -> None:
    whole = WHOLE[path]
    for number, cut in enumerate(range(0, len(whole), max(1, len(whole) // 25))):
        host = plant({path: whole[:cut]}, tmp_path / f"{number}")
        judge(node_of(host))


@pytest.mark.parametrize(
    "changes",
    [
        {"total": "-5 MiB"},
        {"total": "99999999999999999999999 MiB"},
        {"util": "250 %"},
        {"pstate": "P99"},
        {"gen": "0", "width": "0"},
        {"gen": "99", "width": "63"},
        {"limit": "-1.00 W", "default": "0.00 W"},
        {"default": "0.00 W"},
        {"sm": "ERR!", "max_sm": "0 MHz"},
        {"unc": "184467440737095516150000"},
        {"unc": "-3"},
        {"bus": "zz"},
        {"temp": "Requested functionality has been deprecated"},
        {"persistence": "Unknown Error"},
    ],
)
def test_values_that_cannot_be_raise_nothing(changes: dict[str, str], node: Node) -> None:
    tree: Tree = {"cmd/nvidia-smi_-q.txt": text([card(L40, **changes)])}
    assert judge(node_of(node(tree))) == {}


@pytest.mark.parametrize("parse", [parse for _, parse in FORMS])
@FEW
@given(content=st.text(alphabet=st.characters(codec="utf-8"), max_size=400))
def test_any_text_can_be_parsed(parse: Callable[[str], object], content: str) -> None:
    try:
        for record in parse(content):  # type: ignore[attr-defined]
            assert isinstance(gpu_of(record), Gpu)
    except XmlError:
        pass


@FEW
@given(st.dictionaries(st.sampled_from(SINGLE), st.text(max_size=30), max_size=6))
def test_any_value_can_stand_in_a_field(values: dict[str, str]) -> None:
    lines = text([{**L40, **values}])
    for record in FORMS[1][1](lines):
        gpu = gpu_of(record)
        assert gpu.memory_bytes is None or gpu.memory_bytes >= 0
        assert gpu.utilisation_share is None or 0 <= gpu.utilisation_share <= 1
        assert gpu.performance_state is None or 0 <= gpu.performance_state <= 15


MEGABYTES = 10_000_000
PIECES = {
    "blank": " ",
    "empty lines": "\n",
    "bars": "|",
    "short lines": "a:\n",
    "blank lines that end": " " * 4000 + "x:\n",
    "a key of blanks": "x" + " " * 4000 + ":\n",
    "rows of a card": "| 1 a" + " " * 250 + "b|c|d|\n",
    "rows of words": "| 1 " + "a " * 240 + "|c|d|\n",
    "programs of the table": "|    0   N/A  N/A            2165    C+G   /usr/bin/x    25MiB |\n",
    "cards of the text": "GPU 00000000:01:00.0\n    Product Name : x\n",
    "programs of the text": "        Process ID : 1\n            Type : C\n            Name : x\n",
    "stairs": "".join(" " * depth + "k\n" for depth in range(64)),
    "instances": "    MIG Device\n        GPU Instance ID : 1\n",
    "elements": "<a/>",
    "elements that open": "<a>",
    "cards of the XML": "<gpu id='0000:01:00.0'><a/></gpu>",
    "names that open": "<process_name>",
    "programs of the XML": "<process_info><pid>1</pid>\n<process_name>x</process_name>\n"
    "</process_info>",
    "declarations": "<! ",
    "cells": "index," * 600 + "\n",
    "lost cards": "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n",
}
BEFORE = (
    "<nvidia_smi_log><gpu id='0000:01:00.0'><processes>",
    text([L40]).replace("Processes                                      : None", "Processes"),
    "index, name\n",
    "| Processes: |\n",
)
"""What each form prints before a list that may be long."""


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_ten_megabytes_are_read_in_a_second(form: int, piece: str) -> None:
    content = BEFORE[form] + PIECES[piece] * (MEGABYTES // len(PIECES[piece]))

    def is_fast() -> bool:
        began = time.process_time()
        try:
            for record in FORMS[form][1](content):
                gpu_of(record)
        except XmlError:
            pass
        list(_lost(content, cards_follow=True))
        return time.process_time() - began < 1.5  # a second, and room for a machine half as fast

    assert any(is_fast() for _ in range(3))  # others slow a shared core down now and then


NAMES = (
    "Serial Number : 666",
    "a: Serial Number : 666",
    "|    0   N/A  N/A               1      C   forged                  1MiB |",
    "left | right",
    "\x01\x02\x1b[31mred",
    "a\x0b    Serial Number : 666",
    "a\x1c    Serial Number : 666",
    "a\x85    Serial Number : 666",
    "a\u2028    Serial Number : 666",
    "a\r    Serial Number : 666",
    "GPU is lost",
    "GPU requires reset",
    "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost",
    "NVML library version: 1.2.3",
    "Driver Version: 1.2.3  CUDA Version: 9.9",
    "</process_name></process_info></processes><serial>666</serial><processes><process_name>",
    "</process_name></process_info></processes></gpu><gpu id='00000000:02:00.0'><process_name>",
    "<!ENTITY a 'b'>",
    "a & b && c &amp;",
    "\ud800",
)
LINES = (
    "a\n    Serial Number : 666\n    GPU UUID : GPU-66666666",
    "a\nGPU 00000000:02:00.0\n    Product Name : forged",
    "a\nb\nGPU 00000000:02:00.0\n    Product Name : forged",
    "a\n        Process ID : 99\n            Type : C",
    "a\nUnable to determine the device handle for GPU 0000:01:00.0: Unknown Error",
    "a\nWARNING: infoROM is corrupted at gpu 0000:01:00.0",
    "a\n+-----+\nWARNING: infoROM is corrupted at gpu 0000:01:00.0",
    "a\n| 7  forged  Off | 00000000:07:00.0 Off | 0 |",
)
"""Names of several lines."""

PLAIN = card(L40, processes=running((41, "C", "7 MiB", "plain"), (42, "G", "9 MiB", "last")))


def unescaped(cards: list[Values]) -> str:
    """XML as a driver that does not escape names would print it."""
    names = [name for values in cards for _, _, _, name in programs(values)]
    whole = xml(cards)
    for name in names:
        whole = whole.replace(escape(name), name)
    return whole


PRINTERS = {
    "xml": (FILES[0], xml),
    "xml unescaped": (FILES[0], unescaped),
    "text": (FILES[1], text),
    "table": (FILES[3], table),
}


@pytest.mark.parametrize("form", PRINTERS)
@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_program_is_nothing_else(name: str, form: str, tmp_path: Path) -> None:
    assert_a_name_alone(name, form, tmp_path)


@pytest.mark.parametrize("form", ["xml", "text", "table"])
@pytest.mark.parametrize("name", LINES)
def test_a_name_of_several_lines_is_nothing_else(name: str, form: str, tmp_path: Path) -> None:
    assert_a_name_alone(name, form, tmp_path)


def assert_a_name_alone(name: str, form: str, tmp_path: Path) -> None:
    path, prints = PRINTERS[form]
    programs = running((41, "C", "7 MiB", name), (42, "G", "9 MiB", "last"))
    raw = prints([card(L40, processes=programs)]).encode(errors="surrogatepass")
    got, gaps = probed(plant({path: raw}, tmp_path / "named"))
    wanted, gaps_without = probed(plant({path: prints([PLAIN]).encode()}, tmp_path / "plain"))
    assert got.gpu == wanted.gpu
    assert gaps == gaps_without
    (one,), (other,) = got.gpus, wanted.gpus
    assert replace(one, processes=None) == replace(other, processes=None)
    if "\n" not in name or form != "table":  # the table's rows are lines
        assert [p.pid for p in one.processes or ()] == [41, 42]
        assert [p.memory_bytes for p in one.processes or ()] == [7 << 20, 9 << 20]


def test_a_deep_xml_is_survived(node: Node) -> None:
    deep = "<nvidia_smi_log><gpu>" + "<a>" * 20_000 + "</a>" * 20_000 + "</gpu></nvidia_smi_log>"
    probed(node({FILES[0]: deep}))


def test_links_that_lead_nowhere_are_survived(node: Node) -> None:
    tree: Tree = {
        **device("0000:01:00.0"),
        "sys/bus/pci/devices/0000:02:00.0": b"../../../\0devices\n",
        "sys/bus/pci/devices/0000:03:00.0": "../devices/0000:03:00.0\n",
        "sys/bus/pci/devices/not-an-address": "../../../devices/pci0000:00/0000:01:00.0\n",
    }
    answer, _ = probed(node(tree))
    assert [gpu.pci_address for gpu in answer.gpus] == ["0000:01:00.0"]


@pytest.mark.parametrize(
    ("vendors", "words"), [(("amd",), "1 AMD card"), (("amd", "1da3"), "2 AMD and Habana cards")]
)
def test_what_is_not_read_of_other_makers_cards_is_said(
    vendors: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    reader = Reader(plant({"proc/version": ""}, tmp_path / "node"), "gpu")
    cards = tuple(Gpu(vendor=vendor, seen_by=("pci",)) for vendor in vendors)
    note_gaps(reader, GpuFacts(), cards, {})
    (gap,) = reader.gaps
    assert gap.reason is Reason.UNSUPPORTED
    assert gap.detail.startswith(f"clocks, power, temperature and ECC errors of {words} (")
