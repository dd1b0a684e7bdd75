from __future__ import annotations

import pytest

from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.checks.kernel_log.lines import messages
from tests.checks.kernel_log.logs import BOOT, LOAD, LOST, PREFIXES, Read, xid


@pytest.mark.parametrize(
    ("line", "code", "address", "text"),
    [
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00.0", "Channel 00000001"),
        ("NVRM: Xid (PCI:0000:03:00): 46", 46, "0000:03:00.0", ""),
        ("NVRM: Xid (PCI:0000:03:00.0): 46", 46, "0000:03:00.0", ""),
        ("NVRM: Xid (PCI:00000000:C1:00): 46, x", 46, "0000:c1:00.0", "x"),
        ("NVRM: Xid (PCI:00010000:C1:00): 46, x", 46, "10000:c1:00.0", "x"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 31, x", 31, "0000:01:00.0", "x"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 31, x", 31, "0000:01:00.0", "x"),
        (
            (
                "NVRM: Xid (PCI:0000:03:00): 79, pid='<unknown>', name=<unknown>, GPU "
                "has fallen off the bus."
            ),
            79,
            "0000:03:00.0",
            "GPU has fallen off the bus.",
        ),
        (
            (
                "NVRM: Xid (PCI:0000:03:00): 13, pid=1234, name=python3, Graphics SM Warp Exception"
                " on (GPC 1, TPC 3, SM 0): Out Of Range Address"
            ),
            13,
            "0000:03:00.0",
            "Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address",
        ),
        (
            "NVRM: Xid (PCI:0000:03:00): 79, pid=1234, GPU has fallen",
            79,
            "0000:03:00.0",
            "GPU has fallen",
        ),
        (
            "NVRM: Xid (PCI:0000:03:00): 45, pid=77, name=x, Ch 00000008, y",
            45,
            "0000:03:00.0",
            "Ch 00000008, y",
        ),
        (
            "NVRM: Xid (PCI:0000:03:00): 43, pid=77, name='a b', Ch 00000008",
            43,
            "0000:03:00.0",
            "Ch 00000008",
        ),
        (
            "NVRM: Xid (PCI:0000:03:00): 43, pid=77, name=a_name_beyond_fifteen, x",
            43,
            "0000:03:00.0",
            "x",
        ),
    ],
)
def test_the_forms_of_an_xid(line: str, code: int, address: str, text: str, read: Read) -> None:
    assert read(f"[    1.0] {line}\n").xids == (Xid(code=code, pci_address=address, text=text),)


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32",
        "r8169 0000:03:00.0 eth0: RTL8168h, XID 541",
        "NVRM: Xid (PCI:0000:03:00): many",
        "NVRM: Xid (PCI:0000:03:00) 79",
        "NVRM: Xid (PCI:zzzz:03:00): 79, x",
        "comm[12]: NVRM: Xid (PCI:0000:03:00): 79, x",
        "oom-kill:task_memcg=/NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.",
        "systemd[1]: NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.",
        "EDAC fake: NVRM: GPU 0000:03:00.0: GPU has fallen off the bus.",
    ],
)
def test_what_is_no_xid(line: str, read: Read) -> None:
    facts = read(f"[    1.0] {line}\n")
    assert facts.xids == ()
    assert facts.gpus_lost == ()


@pytest.mark.parametrize(
    "name",
    [
        "x, GPU has fal",
        "Uncontained: L",
        "a, RST: Yes",
        "', Row Remap",
        "x): 79, GPU h",
        "fallen off t",
        "a,b, c, d",
    ],
)
def test_a_process_name_is_never_evidence(name: str, read: Read) -> None:
    """A process gives itself any name of 15 characters."""
    assert len(name) <= 15
    facts = read(xid(f"31, pid=12, name={name}, MMU Fault: ENGINE GRAPHICS faulted"))
    assert facts.xids[0].code == 31
    assert facts.xids[0].text == "MMU Fault: ENGINE GRAPHICS faulted"
    assert facts.gpus_lost == ()


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_stands_before_a_message(prefix: str, read: Read) -> None:
    facts = read(xid("79, pid=1, GPU has fallen off the bus.", prefix))
    assert facts.gpus_lost == ("0000:03:00.0",)
    assert list(messages(prefix + "EDAC MC0: 1 CE x on DIMM_A1 (y)")) == [
        "EDAC MC0: 1 CE x on DIMM_A1 (y)"
    ]


def test_a_lost_gpu_wrapped_over_three_lines_without_an_xid(read: Read) -> None:
    facts = read(
        "[    5.1] NVRM: The NVIDIA GPU 0000:41:00.0\n"
        "[    5.1] NVRM: (PCI ID: 10de:2230) installed in this system has\n"
        "[    5.1] usb 1-1: something between\n"
        "[    5.1] NVRM: fallen off the bus and is not responding to commands.\n"
        "[    5.2] nvidia: probe of 0000:41:00.0 failed with error -1\n"
    )
    assert facts.gpus_lost == ("0000:41:00.0",)
    assert facts.xids == ()


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("[1.0] NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", ("0000:01:00.0",)),
        ("[1.0] NVRM: GPU at PCI:0000:01:00: GPU-x has fallen off the bus.", ("unknown",)),
        ("[1.0] NVRM: fallen off the bus and is not responding", ("unknown",)),
        (
            "[1.0] NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2230) has fallen off the bus",
            ("0000:41:00.0",),
        ),
        ("[1.0] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x56:1463)", ()),
    ],
)
def test_lost_gpus(text: str, lost: tuple[str, ...], read: Read) -> None:
    assert read(text).gpus_lost == lost


def test_two_lost_gpus_are_kept_apart(read: Read) -> None:
    text = "".join(
        f"[1.0] NVRM: The NVIDIA GPU 0000:{bus}:00.0\n[1.0] NVRM: (PCI ID: 10de:2230) has\n"
        "[1.0] NVRM: fallen off the bus and is not responding to commands.\n"
        for bus in ("41", "c1")
    )
    assert read(text).gpus_lost == ("0000:41:00.0", "0000:c1:00.0")


@pytest.mark.parametrize(
    "later",
    [
        LOAD,
        BOOT,
        xid(
            "154, pid=1, name=x, GPU recovery action changed from 0x1 (GPU Reset "
            "Required) to 0x0 (None)"
        ),
        "[9.0] vfio-pci 0000:03:00.0: reset done\n",
    ],
)
def test_what_came_before_a_recovery_is_over(later: str, read: Read) -> None:
    facts = read(LOST + later)
    assert facts.gpus_lost == ()
    assert all(event.recovered for event in facts.xids)


@pytest.mark.parametrize(
    "later",
    [
        "",
        LOAD.replace("NVRM: loading NVIDIA", "NVRM: unloading"),
        xid("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        xid(
            "154, pid=1, name=to 0x0 (None), GPU recovery action changed from 0x0 "
            "(None) to 0x2 (Node Reboot Required)"
        ),
        "[9.0] vfio-pci 0000:04:00.0: reset done\n",
        "[9.0] vfio-pci 0000:03:00.0: resetting\n",
    ],
)
def test_what_is_no_recovery(later: str, read: Read) -> None:
    facts = read(LOAD + LOST + later)
    assert facts.gpus_lost == ("0000:03:00.0",)
    assert not any(event.recovered for event in facts.xids)


def test_a_recovery_of_one_gpu_is_not_that_of_another(read: Read) -> None:
    other = LOST.replace("0000:03:00", "0000:04:00")
    facts = read(LOST + other + "[9.0] nvidia 0000:03:00.0: reset done\n")
    assert facts.gpus_lost == ("0000:04:00.0",)
    assert {e.pci_address: e.recovered for e in facts.xids} == {
        "0000:03:00.0": True,
        "0000:04:00.0": False,
    }


def test_an_event_after_the_recovery_is_current(read: Read) -> None:
    facts = read(LOST + LOAD + xid("48, An uncorrectable double bit error"))
    assert [(event.code, event.recovered) for event in facts.xids] == [
        (79, True),
        (31, True),
        (48, False),
    ]


def test_repetitions_are_counted_and_a_recovery_starts_anew(read: Read) -> None:
    many = "".join(xid(f"31, pid={n}, name=p{n}, MMU Fault @ 0x7f{n:04x}") for n in range(500))
    facts = read(many + LOAD + many)
    assert [(event.count, event.recovered) for event in facts.xids] == [(500, True), (500, False)]
    assert facts.xids[1].text == "MMU Fault @ 0x7f01f3"


def test_a_flood_of_different_texts_hides_no_other_event(read: Read) -> None:
    words = ["".join(chr(103 + int(digit)) for digit in str(n)) for n in range(3000)]
    flood = "".join(xid(f"13, {word}") for word in words)
    facts = read(flood + xid("79, GPU has fallen off the bus.") + flood)
    assert sum(event.count for event in facts.xids) == 6001
    assert len(facts.xids) < 50
    assert 79 in {event.code for event in facts.xids}


def test_texts_that_mean_different_things_are_kept_apart(read: Read) -> None:
    facts = read(
        xid(
            "64, Row Remapper: (0x1) - Attempting to remap a row that is already pending remapping."
        )
        + xid("64, Row Remapper Error: (0x2) - Row Remapping table is full")
    )
    assert len(facts.xids) == 2


def test_devices_that_could_not_be_started(read: Read) -> None:
    failed = "[1.0] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x56:1463)\n"
    assert read(failed * 3).driver_errors == (failed[6:-1],)
    assert read(failed + LOAD).driver_errors == ()


@pytest.mark.parametrize("cut", [6, 11, 15, 19, 23])
def test_the_phrase_may_be_wrapped_anywhere(cut: int, read: Read) -> None:
    told = "in this system has fallen off the bus and is not responding"
    words = told.split()
    middle = len(told[: told.index("fallen") + cut].split())
    text = "\n".join((
        "NVRM: The NVIDIA GPU 0000:41:00.0",
        "NVRM: (PCI ID: 10de:2230) installed",
        f"NVRM: {' '.join(words[:middle])}",
        f"NVRM: {' '.join(words[middle:])}",
    ))  # fmt: skip
    assert read(text).gpus_lost == ("0000:41:00.0",)


@pytest.mark.parametrize("marker", ["-- Reboot --", "-- Boot 0123456789abcdef --"])
def test_what_a_journal_writes_between_boots_is_a_boot(marker: str, read: Read) -> None:
    (event,) = read(f"{xid('95, Uncontained: LTC')}{marker}\n").xids
    assert event.recovered
