"""The forms of nvidia-smi: one card, one set of facts, whichever form it was captured in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.machine.host import CapturedHost
from nodecheck.model import Gap
from tests.checks.gpu.inputs import (
    GB10,
    IDLE_4090,
    L40,
    Values,
    card,
    csv,
    device,
    table,
    text,
    xml,
)
from tests.checks.gpu.judging import probed
from tests.trees import Tree, plant

Node = Callable[[Tree], CapturedHost]
MIB = 1 << 20

BUSY = card(L40, bus="0B", active="sw_power_cap hw_slowdown", unc="3", rows="2", pending="Yes")
CARDS = (BUSY, card(IDLE_4090, bus="41"), card(GB10, bus="C1"))


def cards(host: CapturedHost) -> tuple[Gpu, ...]:
    return probed(host)[0].gpus


def facts(gpu: Gpu) -> dict[str, object]:
    return {name: getattr(gpu, name) for name in gpu.__struct_fields__}


def test_the_xml_of_both_dtd_versions_says_the_same(node: Node) -> None:
    host = node({"cmd/nvidia-smi_-q_-x.txt": xml(CARDS, 12)})
    old = cards(host)
    new = cards(node({"cmd/nvidia-smi_-q_-x.txt": xml(CARDS, 13)}))
    assert old == new
    assert [gpu.pci_address for gpu in old] == ["0000:0b:00.0", "0000:41:00.0", "0000:c1:00.0"]


FORMS: dict[str, tuple[str, Callable[[list[Values]], str]]] = {
    "text": ("cmd/nvidia-smi_-q.txt", text),
    "csv": ("cmd/nvidia-smi_--query-gpu.csv", csv),
    "table": ("cmd/nvidia-smi.txt", table),
}
NOT_IN = {
    "text": set[str](),
    "csv": {"virtualisation", "pcie_replays"},
    "table": {
        "virtualisation", "pci_device_id", "memory_clock_mhz", "maximum_memory_clock_mhz",
        "sm_clock_mhz", "maximum_sm_clock_mhz", "default_power_limit_watts",
        "clocks_event_reasons", "remap_pending", "remap_failure", "remapped_rows_uncorrectable",
        "link_generation", "link_generation_max", "link_generation_device_max",
        "link_generation_host_max", "link_width", "link_width_max", "vram_rate_source",
        "subsystem_id", "pcie_replays",
    },
}  # fmt: skip
"""Members that a form does not print."""


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_facts_of_the_xml(
    form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, write = FORMS[form]
    full = cards(plant({"cmd/nvidia-smi_-q_-x.txt": xml(CARDS)}, tmp_path_factory.mktemp("xml")))
    other = cards(plant({path: write(list(CARDS))}, tmp_path_factory.mktemp(form)))
    for expected, got in zip(full, other, strict=True):
        wanted = {k: v for k, v in facts(expected).items() if k not in NOT_IN[form]}
        assert {k: v for k, v in facts(got).items() if k not in NOT_IN[form]} == wanted


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


def test_a_capture_without_it_was_not_tried(node: Node) -> None:
    answer, found = probed(node({"proc/cpuinfo": ""}))
    assert answer.gpu.state is None
    assert [(gap.field, gap.reason.value) for gap in found] == [("*", "absent")]


@pytest.mark.parametrize(
    ("header", "row", "member", "value"),
    [
        ("memory.total [MiB], utilization.gpu [%]", "46068 MiB, 97 %", "memory_bytes", 46068 << 20),
        ("temperature.gpu, clocks.max.sm [MHz]", "61, 2520 MHz", "maximum_sm_clock_mhz", 2520),
        ("index, ecc.errors.uncorrected.volatile.dram", "0, 2", "ecc_volatile_uncorrectable", 2),
        ("index, pcie.link.gen.gpucurrent", "0, 3", "link_generation", 3),
    ],
)
def test_any_columns_make_a_csv(header: str, row: str, member: str, value: int, node: Node) -> None:
    (gpu,) = cards(node({"cmd/nvidia-smi_--query-gpu.csv": f"{header}\n{row}\n"}))
    assert getattr(gpu, member) == value
