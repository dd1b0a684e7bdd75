"""nvidia-smi as a whole: what it says of the node, and what is no list of cards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.nvidia_smi import FORMS
from nodecheck.checks.gpu.nvidia_smi_fields import node_facts
from nodecheck.machine.host import CapturedHost
from nodecheck.model import Gap
from tests.checks.gpu.inputs import GB10, H100, IDLE_4090, L40, card, device, running
from tests.checks.gpu.judging import judge, probed, seen
from tests.checks.gpu.printed import CUDA, DRIVER, xml
from tests.checks.gpu.printed_text import csv, table, text
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
MIB = 1 << 20

BUSY = card(L40, bus="0B", active="sw_power_cap hw_slowdown", unc="3", rows="2", pending="Yes")
CARDS = (BUSY, card(IDLE_4090, bus="41"), card(GB10, bus="C1"))


def cards(host: CapturedHost) -> tuple[Gpu, ...]:
    return probed(host)[0].gpus


def test_the_values_are_those_that_were_printed(node: Node) -> None:
    busy, idle, shared = cards(node({"cmd/nvidia-smi_-q.txt": text(CARDS)}))
    assert busy.memory_bytes == 46068 * MIB
    assert busy.memory_used_bytes == 5 * MIB
    assert busy.utilisation_share == 0.97
    assert busy.performance_state == 0
    assert busy.power_watts == 270.0
    assert busy.clocks_event_reasons == ("sw_power_cap", "hw_slowdown")
    assert busy.ecc_volatile_uncorrectable == 3
    assert busy.remap_pending is True
    assert busy.remap_failure is False
    assert busy.link_width == 16
    assert busy.vram_bytes_per_second == pytest.approx(864.1e9, rel=1e-4)
    assert busy.mig is False
    assert idle.performance_state == 8
    assert idle.link_generation == 1
    assert idle.clocks_event_reasons == ("gpu_idle",)
    assert idle.remap_pending is None
    assert shared.memory_bytes is None
    assert shared.unified_memory
    assert shared.vram_bytes_per_second == 273e9


def test_all_forms_of_one_capture_are_one_card(node: Node) -> None:
    (gpu,) = cards(
        node(
            {
                "cmd/nvidia-smi_-q_-x.txt": xml([BUSY]),
                "cmd/nvidia-smi_-q.txt": text([BUSY]),
                "cmd/nvidia-smi_--query-gpu.csv": csv([BUSY], "name", "utilization.gpu [%]"),
                "cmd/nvidia-smi.txt": table([BUSY]),
            }
        )
    )
    assert gpu.utilisation_share == 0.97


@pytest.mark.parametrize("form", [xml, text])
def test_an_instance_is_not_the_card(form: Callable[..., str], node: Node) -> None:
    path = "cmd/nvidia-smi_-q_-x.txt" if form is xml else "cmd/nvidia-smi_-q.txt"
    (gpu,) = cards(node({path: form([card(L40, mig="Enabled")])}))
    assert gpu.memory_bytes == 46068 * MIB
    assert gpu.mig is True


def test_under_mig_a_card_without_a_size_is_not_unified(node: Node) -> None:
    values = card(L40, mig="Enabled", total="N/A", used="N/A")
    (gpu,) = cards(node({"cmd/nvidia-smi_-q_-x.txt": xml([values])}))
    assert not gpu.unified_memory


def test_csv_without_units_takes_them_from_the_columns(node: Node) -> None:
    content = (
        "index, name, memory.total [MiB], utilization.gpu [%], power.limit [W]\n"
        "0, NVIDIA L40, 46068, 97, 300.00\n"
    )
    (gpu,) = cards(node({"cmd/nvidia-smi_--query-gpu.csv": content}))
    assert gpu.memory_bytes == 46068 * MIB
    assert gpu.utilisation_share == 0.97
    assert gpu.power_limit_watts == 300.0


def test_a_row_of_the_csv_finds_its_card_by_index(node: Node) -> None:
    tree: Tree = {"cmd/nvidia-smi_--query-gpu.csv": csv([L40, L40], "index", "name")}
    for bus in ("0000:0a:00.0", "0000:02:00.0"):
        tree |= device(bus)
    first, second = cards(node(tree))
    assert (first.index, first.pci_address) == (0, "0000:02:00.0")
    assert (second.index, second.pci_address) == (1, "0000:0a:00.0")
    assert first.pci_device_id == "10de:26b5"


def test_names_that_the_table_cut_short_name_no_product(node: Node) -> None:
    short = table([card(L40, name="NVIDIA GeForce RTX 4080 ...")])
    (gpu,) = cards(node({"cmd/nvidia-smi.txt": short}))
    assert gpu.name is None
    assert gpu.vram_bytes_per_second is None


def gaps(host: CapturedHost) -> list[Gap]:
    return probed(host)[1]


def test_a_truncated_xml_keeps_the_cards_before_the_cut(node: Node) -> None:
    whole = xml([L40, card(L40, bus="02")])
    host = node({"cmd/nvidia-smi_-q_-x.txt": whole[: whole.index("02:00.0")]})
    assert len(cards(host)) == 1
    assert any("not whole" in gap.detail for gap in gaps(host))


def test_entities_are_refused(node: Node) -> None:
    bomb = (
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aa">]>'
        '<nvidia_smi_log><gpu id="&a;"/></nvidia_smi_log>'
    )
    host = node({"cmd/nvidia-smi_-q_-x.txt": bomb})
    assert cards(host) == ()
    assert any("entities" in gap.detail for gap in gaps(host))


def test_a_message_before_the_xml_is_heard(node: Node) -> None:
    message = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n"
    answer, _ = probed(node({"cmd/nvidia-smi_-q_-x.txt": message + xml([L40])}))
    assert answer.gpu.lost == ("0000:0b:00.0",)
    assert {gpu.pci_address for gpu in answer.gpus if gpu.lost} == {"0000:0b:00.0"}


NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)


@pytest.mark.parametrize(
    ("message", "status", "state"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", 18, "mismatch"),
        ("bash: nvidia-smi: command not found", 127, "missing"),
        ("", 127, "missing"),
        (NO_DRIVER, 9, "missing"),
        ("Failed to initialize NVML: Driver Not Loaded", 9, "missing"),
        ("Failed to initialize NVML: Unknown Error", 255, "failed"),
        ("No devices were found", 6, "failed"),
        ("Failed to initialize NVML: GPU access blocked by the operating system", 17, "failed"),
        ("", 124, "unresponsive"),
        ("", 137, "unresponsive"),
        ("Segmentation fault", 139, "failed"),
    ],
)
def test_what_it_says_in_place_of_an_answer(
    message: str, status: int, state: str, node: Node
) -> None:
    tree: Tree = {"cmd/nvidia-smi.txt": message + "\n", "cmd/nvidia-smi.rc": f"{status}\n"}
    answer, _ = probed(node(tree))
    assert answer.gpu.state == state


CORRUPTED = "WARNING: infoROM is corrupted at gpu 0000:02:00.0\n"


@pytest.mark.parametrize(
    ("path", "prints"),
    [
        ("cmd/nvidia-smi_-q_-x.txt", lambda whole: f"{CORRUPTED}{whole}"),
        ("cmd/nvidia-smi_-q_-x.txt", lambda whole: f"{whole}{CORRUPTED}"),
        ("cmd/nvidia-smi_-q.txt", lambda whole: f"{CORRUPTED}{whole}"),
        ("cmd/nvidia-smi.txt", lambda whole: f"{CORRUPTED}{whole}"),
        ("cmd/nvidia-smi.txt", lambda whole: f"{whole}{CORRUPTED}"),
    ],
)
def test_a_warning_of_the_inforom_is_what_nvml_calls_it(
    path: str, prints: Callable[[str], str], node: Node
) -> None:
    cards = [L40, card(L40, bus="02", processes=running((7, "C", "1 MiB", "python3")))]
    answer, gaps = probed(node({path: prints(FILES[path](cards))}))
    assert [gpu.error for gpu in answer.gpus] == [None, "Corrupted infoROM"]
    assert [gap for gap in gaps if gap.field == "gpus"] == []
    finding = judge(seen(*answer.gpus))["gpu.nvml_failed"]
    assert finding.subject.endswith("0000:02:00.0)")
    assert finding.summary == "The configuration memory (infoROM) of 1 card is corrupted"


def test_a_capture_without_it_was_not_tried(node: Node) -> None:
    answer, found = probed(node({"proc/cpuinfo": ""}))
    assert answer.gpu.state is None
    assert [(gap.field, gap.reason.value) for gap in found] == [("*", "absent")]


FILES = {
    "cmd/nvidia-smi_-q_-x.txt": xml,
    "cmd/nvidia-smi_-q.txt": text,
    "cmd/nvidia-smi_--query-gpu.csv": csv,
    "cmd/nvidia-smi.txt": table,
}


@pytest.mark.parametrize("path", FILES)
def test_the_node_is_told_of_too(path: str, node: Node) -> None:
    values = card(H100, protected="81000 MiB")
    facts = probed(node({path: FILES[path]([values])}))[0].gpu
    assert (facts.state, facts.source) == (
        "ok",
        path.split("/")[1].rsplit(".", 1)[0].replace("_", " "),
    )
    assert facts.driver_version == DRIVER
    assert facts.cuda_version == (None if path.endswith("csv") else CUDA)
    assert facts.confidential_compute is (None if path == "cmd/nvidia-smi.txt" else True)


def test_without_protected_memory_nothing_is_confidential(node: Node) -> None:
    path = "cmd/nvidia-smi_-q.txt"
    assert probed(node({path: text([H100])}))[0].gpu.confidential_compute is False
    unknown = node_facts(FORMS[1][1](text([card(H100, protected="N/A")])))
    assert unknown["confidential_compute"] is None
