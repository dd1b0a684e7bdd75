"""What functions return, read from files that a compiler made, and from what is no such file."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.machine.elf import ElfError, constants

SOURCE = """
#include <time.h>
int has_avx2(void) {
#if defined(__AVX2__) || defined(__ARM_NEON)
    return 1;
#else
    return 0;
#endif
}
int has_never(void) { return 0; }
int has_many(void) { return 2; }
int has_hours(void) { return time(0) % 2; }
int has_given(int which) { return which; }
int variable_has_avx2 = 1;
int elsewhere_has(void);
int uses(void) { return elsewhere_has(); }
"""
NAMES = ("has_avx2", "has_never", "has_many", "has_hours", "has_given", "elsewhere_has", "absent")

Compile = Callable[..., Path]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    def make(*flags: str, compiler: str = "gcc", source: str = SOURCE) -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler}")
        (tmp_path / "source.c").write_text(source)
        target = tmp_path / "made.so"
        command = [compiler, "-shared", "-fPIC", *flags, "source.c", "-o", str(target)]
        subprocess.run(command, cwd=tmp_path, check=True)
        return target

    return make


def read(path: Path, names: Collection[str] = NAMES) -> tuple[str, dict[str, int | None]]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return constants(fd, names)
    finally:
        os.close(fd)


@pytest.mark.parametrize("optimised", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("branches", ["-fcf-protection=full", "-fcf-protection=none"])
@pytest.mark.parametrize("avx2", [True, False])
def test_x86_64(compiled: Compile, optimised: str, branches: str, avx2: bool) -> None:
    machine, found = read(compiled(optimised, branches, "-mavx2" if avx2 else "-mno-avx2"))
    assert machine == "x86_64"
    assert found == {
        "has_avx2": int(avx2), "has_never": 0,
        "has_many": None, "has_hours": None, "has_given": None,
    }  # fmt: skip


@pytest.mark.parametrize("optimised", ["-O0", "-O2", "-Os"])
@pytest.mark.parametrize("branches", ["-mbranch-protection=standard", "-mbranch-protection=none"])
def test_aarch64(compiled: Compile, optimised: str, branches: str) -> None:
    made = compiled(optimised, branches, compiler="aarch64-linux-gnu-gcc")
    machine, found = read(made)
    assert machine == "aarch64"
    assert (found["has_avx2"], found["has_never"]) == (1, 0)
    assert found["has_many"] is found["has_hours"] is found["has_given"] is None


def test_a_stripped_library_exports_them_still(compiled: Compile) -> None:
    made = compiled("-O2", "-mavx2", "-s")
    assert read(made)[1]["has_avx2"] == 1


def test_a_program_that_holds_all_itself(compiled: Compile, tmp_path: Path) -> None:
    """Its functions stand in the table that a debugger reads, until it is stripped."""
    compiled("-O2", source=f"{SOURCE}\nint elsewhere_has(void) {{ return 5; }}")
    source = (tmp_path / "source.c").read_text() + "int main(void) { return uses(); }"
    (tmp_path / "program.c").write_text(source)
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O2", "-mavx2", "program.c", "-o", program], cwd=tmp_path, check=True)
    assert read(program)[1]["has_avx2"] == 1
    subprocess.run(["strip", program], check=True)
    assert read(program)[1] == {}


def test_a_name_that_ends_another(compiled: Compile) -> None:
    """Linkers keep both in one string."""
    source = "int has(void) { return 1; } int ggml_has(void) { return 0; }"
    found = read(compiled("-O2", source=source), ["has", "ggml_has"])[1]
    assert found == {"has": 1, "ggml_has": 0}


def test_instrumented_code_is_no_constant(compiled: Compile) -> None:
    assert read(compiled("-O2", "-pg"))[1]["has_never"] is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"not an ELF file at all" * 100, bytes(1 << 16)],
    ids=["empty", "a magic", "a header of zeroes", "text", "zeroes"],
)
def test_what_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "none").write_bytes(content)
    with pytest.raises(ElfError):
        read(tmp_path / "none")


def test_a_file_that_was_cut(compiled: Compile, tmp_path: Path) -> None:
    whole = compiled("-O2").read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(ElfError):
            read(tmp_path / "cut")


TERABYTE = (1 << 40) // 24 * 24
"""In whole symbols."""

SECTIONS_AT, SECTION_BYTES, SECTION_COUNT_AT, COUNT_AT = 0x28, 64, 0x3C, 0x38


@pytest.mark.parametrize(("place", "count"), [(SECTION_COUNT_AT, 60_000), (COUNT_AT, 60_000)])
def test_headers_without_end(compiled: Compile, tmp_path: Path, place: int, count: int) -> None:
    content = bytearray(compiled("-O2").read_bytes())
    content[place : place + 2] = struct.pack("<H", count)
    (tmp_path / "many").write_bytes(content + bytes(SECTION_BYTES * count))
    with pytest.raises(ElfError, match="more than 1000"):
        read(tmp_path / "many")


@pytest.mark.parametrize("kinds", [(2, 11), (3,)], ids=["symbols", "strings"])
def test_a_table_without_end(compiled: Compile, kinds: tuple[int, ...]) -> None:
    """A section that says it had a terabyte, in a file that has a hole of one."""
    made = compiled("-O2")
    content = bytearray(made.read_bytes())
    (sections_at,) = struct.unpack_from("<Q", content, SECTIONS_AT)
    (count,) = struct.unpack_from("<H", content, SECTION_COUNT_AT)
    for at in range(sections_at, sections_at + count * SECTION_BYTES, SECTION_BYTES):
        if struct.unpack_from("<I", content, at + 4)[0] in kinds:
            struct.pack_into("<Q", content, at + 32, TERABYTE)
    with made.open("r+b") as file:
        file.write(content)
        file.truncate(1 << 41)
    tracemalloc.start()
    begun = time.monotonic()
    with pytest.raises(ElfError, match=f"a table of {TERABYTE} bytes"):
        read(made)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert time.monotonic() - begun < 5


@pytest.mark.soak
def test_a_hundred_thousand_symbols(compiled: Compile) -> None:
    many = "".join(f"int f{n}(void){{return 1;}}\n" for n in range(100_000))
    begun = time.monotonic()
    found = read(compiled("-O0", source=SOURCE + many))[1]
    assert found["has_never"] == 0
    assert time.monotonic() - begun < 60


@settings(
    max_examples=300, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, 1 << 15), st.integers(0, 255)), min_size=1, max_size=8))
def test_damage_ends_in_one_error(
    compiled: Compile, tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    whole = tmp_path / "whole"
    if not whole.exists():
        whole.write_bytes(compiled("-O2").read_bytes())
    content = bytearray(whole.read_bytes())
    for at, value in changes:
        content[at % len(content)] = value
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    with contextlib.suppress(ElfError):
        assert set(read(damaged)[1].values()) <= {0, 1, None}


def test_it_is_loaded_where_it_is_used() -> None:
    code = (
        "import sys, nodecheck.cli, nodecheck.checks.engine.held; print('elftools' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
