"""Instruction sets and disk space: met, missed, or not known with the reason."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.disk.facts import DiskFacts, Filesystem
from nodecheck.checks.seen import Facts
from nodecheck.model import Reason
from nodecheck.units import GIB
from tests.judge.gate.nodes import answers, gap, node, told
from tests.nodes import AVX2, SSE2, root

UNREAD = gap("cpu", "flags", Reason.DENIED, "/proc/cpuinfo: Permission denied")
NEEDED = ("avx2", "fma")


def cpu(flags: tuple[str, ...] | None, usable: tuple[str, ...] | None) -> Facts:
    return Facts(cpu=CpuFacts(arch="x86_64", flags=flags, usable_flags=usable))


@pytest.mark.parametrize(
    ("facts", "status", "text"),
    [
        (cpu(AVX2, AVX2), "ok", "avx2, fma"),
        (cpu(SSE2, SSE2), "critical", "no avx2, fma"),
        (cpu((*SSE2, "fma"), None), "critical", "no avx2"),
        (cpu(AVX2, SSE2), "critical", "no avx2, fma"),  # listed, and not enabled
        (cpu(None, None), "unknown", f"instruction sets: {UNREAD.detail}"),
        (cpu((), None), "critical", "no avx2, fma"),
    ],
)
def test_instruction_sets_must_be_usable(facts: Facts, status: str, text: str) -> None:
    assert told(node(facts, UNREAD), instruction_sets=NEEDED) == (status, text, None)


def test_of_many_instruction_sets_the_number_is_told() -> None:
    assert told(node(cpu(AVX2, AVX2)), instruction_sets=AVX2)[1] == (
        f"{len(AVX2)} instruction sets"
    )


def test_those_of_another_architecture_are_for_other_nodes() -> None:
    asked = (*NEEDED, "asimddp")
    assert told(node(cpu(AVX2, AVX2)), instruction_sets=asked)[:2] == ("ok", "avx2, fma")
    arm = Facts(cpu=CpuFacts(arch="aarch64", flags=("asimd",)))
    assert told(node(arm), instruction_sets=asked)[:2] == ("critical", "no asimddp")


SMALL, LARGE = root(57 * GIB, 950 * GIB), replace(root(300 * GIB, 900 * GIB), mount="/data")
HUNG = replace(LARGE, mount="/srv", available_bytes=None, total_bytes=None, hung=True)
NFS = replace(LARGE, mount="/nfs", network=True)
TMPFS = replace(LARGE, mount="/dev/shm", persistent=False)
NO_MOUNTS = gap("disk", "filesystems", Reason.ABSENT, "/proc/mounts: No such file or directory")


@pytest.mark.parametrize(
    ("filesystems", "status", "text"),
    [
        ((SMALL, LARGE), "ok", "322 GB free on /data >= 200 GB"),
        ((SMALL,), "critical", "61.2 GB free on / < 200 GB"),
        ((root(200 * 10**9 - 1, 950 * GIB),), "critical", "200 GB free on / just < 200 GB"),
        ((SMALL, NFS, TMPFS), "critical", "61.2 GB free on / < 200 GB"),
        ((SMALL, LARGE, HUNG), "ok", "322 GB free on /data >= 200 GB"),
        ((SMALL, HUNG), "unknown", "disk: /srv does not tell its room, else 61.2 GB free on /"),
        ((HUNG,), "unknown", "disk: /srv does not tell its room"),
        ((replace(HUNG, network=True),), "unknown", f"disk: {NO_MOUNTS.detail}"),
        ((), "unknown", f"disk: {NO_MOUNTS.detail}"),
    ],
)
def test_the_roomiest_disk_of_its_own_counts(
    filesystems: tuple[Filesystem, ...], status: str, text: str
) -> None:
    report = node(Facts(disk=DiskFacts(filesystems=filesystems)), NO_MOUNTS)
    found = told(report, disk_free_bytes=200 * 10**9)
    assert found[:2] == (status, text)
    assert (found[2] is None) == (status == "unknown")


@pytest.mark.parametrize(
    ("least", "text"),
    [
        (50 * 10**9, "61.2 GB free on / >= 50 GB"),
        (500 * 10**6, "61.2 GB free on / >= 0.5 GB"),
        (50 * GIB, "57 GiB free on / >= 50 GiB"),
        (512 << 20, "57 GiB free on / >= 512 MiB"),
    ],
)
def test_room_is_told_in_the_units_that_it_was_asked_in(least: int, text: str) -> None:
    report = node(Facts(disk=DiskFacts(filesystems=(SMALL,))))
    assert told(report, disk_free_bytes=least)[1] == text


def test_what_is_not_asked_for_is_not_answered() -> None:
    assert answers(node(Facts())) == ()


def test_each_requirement_is_answered_in_one_order() -> None:
    found = answers(
        node(Facts()),
        pcie="gen4x16",
        gpus=1,
        disk_free_bytes=1,
        dram_read_bytes_per_second=1.0,
        instruction_sets=NEEDED,
    )
    assert [answer.name for answer in found] == [
        "instruction_sets", "dram_read", "disk_free", "gpus", "pcie_generation", "pcie_width",
    ]  # fmt: skip
