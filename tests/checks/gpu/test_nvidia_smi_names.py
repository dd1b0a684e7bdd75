"""The names that nvidia-smi had and has for the same things, and its words for them."""

from __future__ import annotations

import pytest

from nodecheck.checks.gpu.facts import Fabric, Gpu, GpuProcess, RetiredPages, Thermal
from nodecheck.checks.gpu.nvidia_smi import FORMS
from nodecheck.checks.gpu.nvidia_smi_fields import gpu_of, node_facts
from tests.checks.gpu.inputs import H100, L40, card
from tests.checks.gpu.printed import CUDA, DRIVER, xml
from tests.checks.gpu.printed_text import csv, table, text

MIB = 1 << 20


def read(form: int, content: str) -> Gpu:
    """The one card of a text, as the form of this number tells of it."""
    (record,) = FORMS[form][1](content)
    return gpu_of(record)


NEWER_HEAD = (
    f"Driver Version : {DRIVER} [Deprecated; use KMD Version]\nKMD Version : {DRIVER}\n"
    f"CUDA Version : {CUDA} [Deprecated; use CUDA UMD Version]\nCUDA UMD Version : {CUDA}\n"
)


@pytest.mark.parametrize(
    ("form", "content"),
    [
        (1, f"{NEWER_HEAD}GPU 00000000:01:00.0\n    Product Name : NVIDIA L40\n"),
        (
            1,
            "\n".join(NEWER_HEAD.splitlines()[::2])
            + "\nGPU 00000000:01:00.0\n    Fan Speed : N/A\n",
        ),
        (
            3,
            table([L40]).replace("Driver Version:", "KMD Version:").replace("CUDA V", "CUDA UMD V"),
        ),
        (2, f"index, driver_version, kmd_version\n0, [N/A], {DRIVER}\n"),
        (0, xml([L40]).replace("driver_version>", "kmd_version>")),
    ],
)
def test_versions_by_their_newer_names(form: int, content: str) -> None:
    facts = node_facts(FORMS[form][1](content))
    assert facts["driver_version"] == DRIVER
    assert facts["cuda_version"] in (CUDA, None if form == 2 else CUDA)


def test_a_sentence_is_no_version() -> None:
    records = [{"driver_version": 'Deprecated, see "KMD version" instead', "cuda_version": "N/A"}]
    assert node_facts(records)["driver_version"] is None
    assert node_facts(records)["cuda_version"] is None


def test_limits_by_their_newer_names() -> None:
    old = text([card(H100, limit="500.00 W", requested="450.00 W")])
    new = old.replace("GPU T.Limit Temp", "GPU Current T.Limit Temp")
    for name in ("GPU Shutdown", "GPU Slowdown", "GPU Max Operating", "Memory Max Operating"):
        new = new.replace(f"{name} T.Limit Temp", f"{name} T.Limit Temp Specification")
    ceiling = "        GPU Ceiling Power Limit\n"
    begin = new.index("        Current Power Limit")
    end = new.index("        Min Power Limit")
    new = (
        new[:begin]
        + ceiling
        + new[begin:end]
        .replace("        C", "            C")
        .replace("        R", "            R")
        .replace("        D", "            D")
        + new[end:]
    )
    assert new != old
    assert read(1, new) == read(1, old)


def test_memory_errors_by_bits_as_drivers_before_450_print_them() -> None:
    bits = (
        "<single_bit><device_memory>4</device_memory><total>4</total></single_bit>"
        "<double_bit><device_memory>1</device_memory><total>2</total></double_bit>"
    )
    older = (
        '<nvidia_smi_log><gpu id="0000:01:00.0"><ecc_errors>'
        f"<volatile>{bits}</volatile><aggregate>{bits.replace('4', '40')}</aggregate>"
        "</ecc_errors></gpu></nvidia_smi_log>"
    )
    as_text = (
        "GPU 0000:01:00.0\n    ECC Errors\n        Volatile\n            Single Bit\n"
        "                Device Memory : 4\n                Total : 4\n            Double Bit\n"
        "                Device Memory : 1\n                Total : 2\n        Aggregate\n"
        "            Single Bit\n                Total : 40\n            Double Bit\n"
        "                Total : 2\n"
    )
    for gpu in (read(0, older), read(1, as_text)):
        assert gpu.ecc_volatile_correctable == 4
        assert gpu.ecc_volatile_uncorrectable == 2
        assert gpu.ecc_aggregate_correctable == 40
        assert gpu.ecc_aggregate_uncorrectable == 2


@pytest.mark.parametrize(
    ("printed", "action"),
    [
        ("None", "none"), ("Reset", "reset_gpu"), ("Reboot", "reboot"),
        ("Drain P2P", "drain_p2p"), ("Drain and Reset", "drain_and_reset"),
        ("N/A", None), ("Unknown Error", None), ("", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [0, 1, 2])
def test_what_the_driver_asks_for(form: int, printed: str, action: str | None) -> None:
    prints = (xml, text, csv)[form]
    assert read(form, prints([card(L40, recovery=printed)])).recovery_action == action


@pytest.mark.parametrize(
    ("health", "problems"),
    [
        ("Summary=Healthy;Bandwidth=Full;Partition Assigned=True", ()),
        ("Summary=Limited Capacity", ("limited capacity",)),
        ("Summary=Limited Capacity;Bandwidth=Degraded", ("bandwidth degraded",)),
        ("Route Recovery in progress=True", ("route recovery in progress",)),
        ("Access Timeout Recovery=True", ("access timeout recovery in progress",)),
        ("Incorrect Configuration=Insufficient Nvlink Resources", ("too few NVLinks",)),
        ("Incorrect Configuration=None;Route Unhealthy=False", ()),
    ],
)
@pytest.mark.parametrize("form", [0, 1])
def test_what_is_wrong_with_a_fabric(form: int, health: str, problems: tuple[str, ...]) -> None:
    gpu = read(form, (xml, text)[form]([card(H100, health=health)]))
    assert gpu.fabric is not None
    assert gpu.fabric.problems == problems
    assert gpu.fabric.error is None


@pytest.mark.parametrize(
    "state", ["N/A", "Not Supported", "Requested functionality has been deprecated"]
)
def test_a_card_without_a_fabric_has_none(state: str) -> None:
    assert read(1, text([card(H100, fabric_state=state)])).fabric is None


def test_a_fabric_that_is_not_completed_has_not_failed() -> None:
    values = card(H100, fabric_state="In Progress", fabric_status="Unknown Error", health="")
    assert read(1, text([values])).fabric == Fabric(state="in_progress")


def test_no_program_is_told_apart_from_no_list() -> None:
    assert read(0, xml([L40])).processes == ()
    assert (
        read(
            0, xml([L40]).replace("<processes>\n</processes>", "<processes>N/A</processes>")
        ).processes
        is None
    )
    assert read(0, "<nvidia_smi_log><gpu id='0000:01:00.0'/></nvidia_smi_log>").processes is None
    assert read(1, text([L40])).processes == ()
    assert (
        read(
            1,
            text([L40]).replace(
                "Processes                                      : None", "Processes : N/A"
            ),
        ).processes
        is None
    )
    assert read(3, table([L40])).processes == ()
    assert read(3, table([L40]).partition("| Processes:")[0]).processes is None


def test_the_table_of_drivers_before_450() -> None:
    older = (
        "| NVIDIA-SMI 418.87.00    Driver Version: 418.87.00    CUDA Version: 10.1     |\n"
        "|   0  Tesla P40           On   | 0000:03:00.0     Off |                    0 |\n"
        "| N/A   26C    P8    10W / 250W |      0MiB / 22912MiB |      0%   E. Process |\n"
        "+-------------------------------+----------------------+----------------------+\n"
        "| Processes:                                                       GPU Memory |\n"
        "|  GPU       PID   Type   Process name                             Usage      |\n"
        "|=============================================================================|\n"
        "|    0     78799      C   python                                     15861MiB |\n"
    )
    gpu = read(3, older)
    assert gpu.compute_mode == "exclusive_process"
    assert gpu.display_active is False
    assert gpu.mig is None
    assert gpu.processes == (
        GpuProcess(pid=78799, kind="compute", name="python", memory_bytes=15861 * MIB),
    )


def test_the_table_of_a_card_that_fails() -> None:
    failing = (
        table([L40]).replace("NVIDIA L40 ", "ERR!       ").replace("270W /  300W", "ERR! / ERR!")
    )
    gpu = read(3, failing)
    assert gpu.name is None
    assert gpu.power_watts is None
    assert gpu.power_limit_watts is None
    assert gpu.memory_bytes == 46068 * MIB


def test_ecc_that_is_off_is_told_by_the_table() -> None:
    gpu = read(3, table([card(L40, ecc="Disabled")]))
    assert gpu.ecc_enabled is False
    assert gpu.ecc_volatile_uncorrectable is None


COLUMNS: list[tuple[str, str, str, object]] = [
    ("memory.total [MiB], utilization.gpu [%]", "46068 MiB, 97 %", "memory_bytes", 46068 << 20),
    ("temperature.gpu, clocks.max.sm [MHz]", "61, 2520 MHz", "maximum_sm_clock_mhz", 2520),
    ("index, pcie.link.gen.gpucurrent", "0, 3", "link_generation", 3),
    ("pstate, clocks.max.mem [MHz]", "P0, 9001", "maximum_memory_clock_mhz", 9001),
    ("gpu_uuid, clocks.sm [MHz]", "GPU-00aa11bb22cc, 1", "uuid", "GPU-00aa11bb22cc"),
    ("gpu_serial, gpu_name", "0324817, NVIDIA L4", "serial", "0324817"),
    ("gpu_bus_id, gpu_name", "00000000:0A:00.0, NVIDIA L4", "pci_address", "0000:0a:00.0"),
    ("compute_cap, name", "9.0, NVIDIA H100 NVL", "compute_capability", "9.0"),
    ("index, power.limit [W]", "0, 250.00 W", "power_limit_watts", 250.0),
    ("index, enforced.power.limit [W]", "0, 250.00 W", "power_limit_watts", 250.0),
    ("index, enforced.power.limit [W]", "0, 250.00 W", "requested_power_limit_watts", None),
    ("index, power.draw.instant [W]", "0, 91.10 W", "power_watts", 91.1),
    ("index, power.draw.average [W], power.draw.instant [W]", "0, 7 W, 9 W", "power_watts", 7.0),
    ("index, power.draw [W], power.draw.average [W]", "0, [N/A], 7 W", "power_watts", 7.0),
    ("index, retired_pages.sbe", "0, 3", "retired_pages", RetiredPages(single_bit=3)),
    ("index, temperature.gpu.tlimit", "0, 46", "thermal", Thermal(margin_celsius=46)),
]
REASONS: list[tuple[str, str, tuple[str, ...] | None]] = [
    ("clocks_throttle_reasons.sw_power_cap", "Active", ("sw_power_cap",)),
    ("clocks_throttle_reasons.active", "0x8", ("hw_slowdown",)),
    ("clocks_event_reasons.active", "0x0000000000000600", ("board_limit", "reliability")),
    ("clocks_event_reasons.active", "0x0000000000000800", ("0x800",)),
    ("clocks_event_reasons.supported", "0x1ff", None),
]
COUNTS: list[tuple[str, str, int | None]] = [
    ("dram", "2", 2),
    ("sram|dram", "2, 5", 7),
    ("dram|device_memory", "5, 5", 5),
    ("dram|register_file|l2_cache", "5, 1, 2", 7),
    ("dram|total", "5, [N/A]", None),
    ("total", "12345678901", 12345678901),
    ("dram|sram", "[N/A], [Unknown Error]", None),
]


@pytest.mark.parametrize(("header", "row", "member", "value"), COLUMNS)
def test_any_columns_make_a_csv(header: str, row: str, member: str, value: object) -> None:
    assert getattr(read(2, f"{header}\n{row}\n"), member) == value


@pytest.mark.parametrize(("column", "text_of_it", "names"), REASONS)
def test_reasons_in_a_csv(column: str, text_of_it: str, names: tuple[str, ...] | None) -> None:
    gpu = read(2, f"index, {column}\n0, {text_of_it}\n")
    assert gpu.clocks_event_reasons == names


@pytest.mark.parametrize(("places", "row", "count"), COUNTS)
@pytest.mark.parametrize("scope", ["volatile", "aggregate"])
@pytest.mark.parametrize("kind", ["", "un"])
def test_counts_in_a_csv(kind: str, scope: str, places: str, row: str, count: int | None) -> None:
    columns = [f"ecc.errors.{kind}corrected.{scope}.{place}" for place in places.split("|")]
    gpu = read(2, f"index, {', '.join(columns)}\n0, {row}\n")
    assert getattr(gpu, f"ecc_{scope}_{kind}correctable") == count


def test_a_message_may_stand_before_the_columns() -> None:
    content = "WARNING: infoROM is corrupted at gpu 0000:01:00.0\nindex, pstate\n0, P2\n"
    assert read(2, content).performance_state == 2
