"""Inputs that lie, are cut, are binary or never end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.gpu.gaps import note_gaps
from nodecheck.checks.gpu.nvidia_smi import FORMS
from nodecheck.checks.gpu.nvidia_smi_fields import gpu_of
from nodecheck.checks.gpu.nvidia_smi_xml import XmlError
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from tests.checks.gpu.inputs import L40, card, csv, device, table, text, xml
from tests.checks.gpu.judging import judge, node_of, probed
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
@given(st.dictionaries(st.sampled_from(sorted(L40)), st.text(max_size=30), max_size=6))
def test_any_value_can_stand_in_a_field(values: dict[str, str]) -> None:
    lines = text([{**L40, "active": "", **{k: v for k, v in values.items() if k != "active"}}])
    for record in FORMS[1][1](lines):
        gpu = gpu_of(record)
        assert gpu.memory_bytes is None or gpu.memory_bytes >= 0
        assert gpu.utilisation_share is None or 0 <= gpu.utilisation_share <= 1
        assert gpu.performance_state is None or 0 <= gpu.performance_state <= 15


@pytest.mark.parametrize("path", FILES)
def test_a_huge_line_does_not_hold_the_parsers_up(path: str, node: Node) -> None:
    started = time.monotonic()
    probed(node({path: "0" + " " * 2_000_000 + ":"}))
    assert time.monotonic() - started < 20


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
    ("vendors", "words"), [(("amd",), "1 AMD card"), (("amd", "1da3"), "2 AMD and other cards")]
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
