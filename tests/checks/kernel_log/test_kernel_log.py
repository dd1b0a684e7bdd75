from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.kernel_log.facts import DimmErrors, KernelLogFacts
from nodecheck.checks.kernel_log.probe import AS_ROOT, JOURNAL, probe
from nodecheck.machine.host import CapturedHost, LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from tests.checks.kernel_log.logs import BOOT, LOST, PREFIXES, Read, xid
from tests.trees import Tree, plant

Node = Callable[[Tree], CapturedHost]


# --- memory


@pytest.mark.parametrize(
    ("line", "errors"),
    [
        (
            (
                "EDAC MC1: 262 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1"
                " slot:0 page:0x2031c14 - OVERFLOW area:DRAM socket:0 ha:0 channel_mask:2 rank:1)"
            ),
            DimmErrors(dimm="CPU_SrcID#0_Ha#0_Chan#1_DIMM#0", correctable=262),
        ),
        (
            "EDAC MC0: 1 UE memory read error on mc#0csrow#1channel#0 (csrow:1 channel:0)",
            DimmErrors(dimm="mc#0csrow#1channel#0", uncorrectable=1),
        ),
        (
            (
                "EDAC MC0: CE page 0x1, offset 0x0, grain 0, syndrome 0x1, row 1, "
                'channel 0, label "DIMM_A1": amd64_edac'
            ),
            DimmErrors(dimm="DIMM_A1", correctable=1),
        ),
        (
            "EDAC MC3: 2 CE Cannot decode normalized address on unknown memory (x)",
            DimmErrors(dimm="MC3", correctable=2),
        ),
        ("EDAC MC0: UE - no information available: x", DimmErrors(dimm="MC0", uncorrectable=1)),
        ("EDAC MC0: " + "9" * 900 + " CE x", DimmErrors(dimm="MC0", correctable=1 << 32)),
    ],
)
def test_memory_errors_name_their_dimm(line: str, errors: DimmErrors, read: Read) -> None:
    facts = read(f"[1.0] {line}\n")
    assert facts.dimm_errors == (errors,)
    assert facts.memory_errors == (line,)


@pytest.mark.parametrize(
    "line",
    [
        "EDAC sbridge MC1: HANDLING MCE MEMORY ERROR",
        "EDAC MC0: Giving out device to module skx_edac controller Skylake",
        "EDAC PCI0: Giving out device",
        "EDAC MC0: 5 CEILING",
        "user: EDAC MC0: 5 CE x on DIMM (y)",
    ],
)
def test_what_is_no_memory_error(line: str, read: Read) -> None:
    facts = read(f"[1.0] {line}\n")
    assert (facts.memory_errors, facts.dimm_errors) == ((), ())


def test_a_storm_is_summed_and_its_lines_are_few(read: Read) -> None:
    facts = read("".join(f"[{n}.0] EDAC MC0: 2 CE e{n} on DIMM_A1 (x)\n" for n in range(9000)))
    assert facts.dimm_errors == (DimmErrors(dimm="DIMM_A1", correctable=18_000),)
    assert len(facts.memory_errors) == 40


def test_errors_of_an_earlier_boot_are_over(read: Read) -> None:
    old = "[9.0] EDAC MC0: 9 CE x on A (y)\n[9.1] EXT4-fs error (device sda1): x\n"
    assert read(old + BOOT) == KernelLogFacts(source="dmesg")


# --- file systems


@pytest.mark.parametrize(
    "line",
    [
        "EXT4-fs error (device loop2): trigger_test_error:129: comm bash: x",
        "EXT4-fs (loop2): Remounting filesystem read-only",
        "EXT4-fs (sda1): error count since last fsck: 3",
        "EXT3-fs error (device sda8): ext3_find_entry: reading directory",
        "Aborting journal on device loop2-8.",
        "JBD2: Error -5 detected when updating journal superblock for dm-0-8.",
        (
            "XFS (dm-0): Corruption of in-memory data (0x8) detected at "
            "xfs_defer_finish.  Shutting down filesystem."
        ),
        "XFS (dm-0): Filesystem has been shut down due to log error (0x2).",
        'XFS (sdb1): metadata I/O error in "xfs_read_agi" at daddr 0x2',
        "BTRFS error (device sda2): bdev /dev/sda2 errs: wr 1, rd 0",
        (
            "BTRFS: error (device sda2: state EA) in "
            "btrfs_commit_transaction:2494: errno=-5 IO failure"
        ),
        "BTRFS info (device sda2: state EA): forced readonly",
        "Buffer I/O error on dev dm-0, logical block 1, lost async page write",
        "I/O error, dev nvme0n1, sector 2048 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
        "blk_update_request: critical medium error, dev sda, sector 4096",
    ],
)
def test_file_system_errors(line: str, read: Read) -> None:
    assert read(f"[1.0] {line}\n").filesystem_errors == (line,)


@pytest.mark.parametrize(
    "line",
    [
        (
            "EXT4-fs (vda): mounted filesystem "
            "00000000-0000-0000-0000-000000000000 r/w with ordered data mode"
        ),
        "EXT4-fs (vda): re-mounted r/w",
        "XFS (dm-0): Mounting V5 Filesystem",
        "BTRFS info (device sda2): using free-space-tree",
        "traps: EXT4-fs error[12] general protection",
        "audit: EXT4-fs error (device sda1): spoofed",
    ],
)
def test_what_is_no_file_system_error(line: str, read: Read) -> None:
    assert read(f"[1.0] {line}\n").filesystem_errors == ()


def test_each_kind_once_a_device(read: Read) -> None:
    text = "".join(
        f"[{n}.0] EXT4-fs error (device dm-{n % 12}): ext4_find:{n}: inode #{n * 100}: x\n"
        for n in range(600)
    )
    assert len(read(text).filesystem_errors) == 12


# --- where it comes from


def gaps(node: Node, made: Tree) -> tuple[KernelLogFacts, list[tuple[str, Reason, str]]]:
    reader = Reader(node(made), "kernel_log")
    facts = probe(reader)
    return facts, [(gap.field, gap.reason, gap.detail) for gap in reader.gaps]


DENIED = "dmesg: read kernel buffer failed: Operation not permitted\n"


@pytest.mark.parametrize("rc", [{}, {"cmd/dmesg.rc": "1\n"}])
def test_a_denial_is_a_gap_with_the_command_that_ends_it(rc: Tree, node: Node) -> None:
    facts, found = gaps(node, {"cmd/dmesg.txt": DENIED, **rc})
    assert facts == KernelLogFacts()
    assert found == [("source", Reason.DENIED, f"{DENIED.strip()}; {AS_ROOT}")]


def test_the_journal_serves_where_dmesg_is_denied(node: Node) -> None:
    journal = "cmd/" + "_".join(JOURNAL) + ".txt"
    line = xid("79, GPU has fallen off the bus.", "[ 8123.100000] node kernel: ")
    facts, found = gaps(node, {"cmd/dmesg.txt": DENIED, journal: line})
    assert (facts.source, facts.gpus_lost, found) == ("journal", ("0000:03:00.0",), [])


@pytest.mark.parametrize(
    "text", ["", "-- No entries --\n", "Hint: You are currently not seeing messages\n"]
)
def test_a_journal_without_kernel_messages_is_none(text: str, node: Node) -> None:
    journal = "cmd/" + "_".join(JOURNAL) + ".txt"
    assert gaps(node, {"cmd/dmesg.txt": DENIED, journal: text})[0].source is None


def test_no_log_is_a_gap(node: Node) -> None:
    facts, found = gaps(node, {"proc/x": ""})
    assert facts.source is None
    assert [(field, reason) for field, reason, _ in found] == [("source", Reason.ABSENT)]


def test_a_log_that_was_cleared_is_read(node: Node) -> None:
    assert gaps(node, {"cmd/dmesg.txt": ""}) == (KernelLogFacts(source="dmesg"), [])


@pytest.mark.parametrize(
    "content", [b"\xff\x00" * 5000, "[" * 100_000, "NVRM: Xid (" * 10_000, "\n" * 100_000]
)
def test_garbage(content: str | bytes, node: Node) -> None:
    facts, _ = gaps(node, {"cmd/dmesg.txt": content})
    assert facts == KernelLogFacts(source="dmesg")


@given(
    st.lists(
        st.sampled_from(
            [
                *PREFIXES,
                "NVRM: ",
                "Xid (PCI:0000:03:00): 79",
                ", pid=",
                "name=",
                "EDAC MC0: ",
                "1 CE",
                "\n",
                "(",
                "] ",
                "on A (",
            ]
        ),
        max_size=40,
    )
)
def test_any_mixture_is_read_and_can_be_reported(pieces: list[str]) -> None:
    with TemporaryDirectory() as directory:
        host = plant({"cmd/dmesg.txt": "".join(pieces)}, Path(directory))
        facts = probe(Reader(host, "kernel_log"))
    assert msgspec.json.decode(msgspec.json.encode(facts), type=KernelLogFacts) == facts


def test_a_huge_log_is_cheap(read: Read) -> None:
    line = "[  123.456789] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n"
    text = line * (7_000_000 // len(line)) + LOST
    start = time.process_time()
    facts = read(text)
    spent = time.process_time() - start
    assert facts.gpus_lost
    start = time.process_time()
    for each in text.splitlines():
        each.split()
    assert spent < 5 * (time.process_time() - start)


def test_long_lines_are_cheap(read: Read) -> None:
    read("[1.0] NVRM: Xid (PCI:0000:03:00): 13, pid=1, name=" + "a, " * 1_000_000 + "\n")
    read(("[1.0] EDAC MC0: 1 CE " + "on a or " * 200 + "\n") * 2000)


def test_the_live_node() -> None:
    reader = Reader(LiveHost(), "kernel_log")
    facts = probe(reader)
    assert facts.source in ("dmesg", "journal") or [gap.field for gap in reader.gaps] == ["source"]
