"""The parser of /proc/cpuinfo."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.cpu.cpuinfo import CpuInfo, parse
from tests.checks.cpu import cpus


def test_x86() -> None:
    info = parse(cpus.cpuinfo(cpus.V4))
    assert (info.arch, info.vendor) == ("x86_64", "GenuineIntel")
    assert (info.family, info.model, info.stepping) == (6, 85, 7)
    assert info.brand == "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"
    assert (info.logical_cpus, info.physical_cores, info.sockets) == (4, 4, 1)
    assert info.flags is not None
    assert "avx512f" in info.flags


def test_two_threads_a_core_on_two_sockets() -> None:
    text = "\n".join(
        f"processor : {n}\nphysical id : {n // 4}\nsiblings : 4\ncore id : {n % 2}\ncpu cores : 2\n"
        "flags : lm\n"
        for n in range(8)
    )
    info = parse(text)
    assert (info.logical_cpus, info.physical_cores, info.sockets) == (8, 4, 2)


def test_an_excerpt_is_not_the_only_cpu() -> None:
    info = parse(cpus.cpuinfo(cpus.V4, count=1, siblings=112, cores=56))
    assert (info.logical_cpus, info.physical_cores, info.sockets) == (None, None, None)


def test_a_single_block_without_topology_is_an_excerpt() -> None:
    assert parse("processor : 0\nflags : lm avx\n").logical_cpus is None
    assert parse(cpus.arm("fp asimd", ("0xac3",))).logical_cpus is None


def test_a_single_cpu_is_one() -> None:
    assert parse(cpus.cpuinfo(cpus.V4, count=1)).logical_cpus == 1


def test_the_first_block_may_be_any_processor() -> None:
    info = parse("processor       : 2\nsiblings : 2\nflags : lm avx\n\nprocessor : 0\nflags : lm\n")
    assert info.flags == ("lm", "avx")
    assert info.logical_cpus == 2


def test_blocks_need_no_empty_line_between_them() -> None:
    assert parse("processor:0\nflags:lm\nprocessor:1\nflags:lm\n").logical_cpus == 2


def test_arm_parts() -> None:
    info = parse(cpus.arm("fp asimd i8mm", ("0xd46", "0xd46", "0xd4d")))
    assert (info.arch, info.implementer, info.logical_cpus) == ("aarch64", "0x41", 3)
    assert info.part_of == ((0, "0xd46"), (1, "0xd46"), (2, "0xd4d"))


def test_power_ends_in_a_block_that_is_no_cpu() -> None:
    text = (
        "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n\n"
        "processor\t: 1\ncpu\t\t: POWER9, altivec supported\n\n"
        "timebase\t: 512000000\nmodel\t\t: 8335-GTW\nmachine\t\t: PowerNV 8335-GTW\n"
    )
    info = parse(text)
    assert (info.arch, info.logical_cpus, info.model) == ("ppc64", 2, None)


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("processor : 0\nflags : fpu sse2\n", "i686"),
        ("processor : 0\nCPU implementer : 0x41\nCPU architecture: 7\n", "arm"),
        ("processor : 0\nisa : rv64imafdc\n", "riscv64"),
        ("vendor_id : IBM/S390\n", "s390x"),
        ("", None),
        ("processor : 0\n", None),
        ("no colon at all\n\0\0\0", None),
    ],
)
def test_architectures(text: str, arch: str | None) -> None:
    assert parse(text).arch == arch


@pytest.mark.parametrize("value", ["", "-1", "x", "99999999999999999999", "6.5", "٣"])
def test_numbers_out_of_reason_are_unknown(value: str) -> None:
    text = f"processor : 0\ncpu family : {value}\nmodel : {value}\nsiblings : {value}\nflags : lm\n"
    info = parse(text)
    assert (info.family, info.model) == (None, None)


@given(st.text(max_size=400))
def test_any_text_parses(text: str) -> None:
    assert isinstance(parse(text), CpuInfo)


@given(st.integers(1, 40), st.lists(st.sampled_from(cpus.V4.split()), min_size=1, unique=True))
def test_what_was_written_is_read(count: int, flags: list[str]) -> None:
    info = parse(cpus.cpuinfo(" ".join(flags), count=count))
    assert info.flags == tuple(flags)
    assert info.logical_cpus == count


@given(st.permutations(cpus.cpuinfo(cpus.V3, count=1).splitlines()))
def test_the_order_of_lines_does_not_matter(lines: list[str]) -> None:
    first, rest = "processor\t: 0", [line for line in lines if not line.startswith("processor")]
    info = parse("\n".join([first, *rest]))
    assert (info.family, info.model, info.logical_cpus) == (6, 85, 1)
