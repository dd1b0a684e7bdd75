"""Which libraries compute on the CPU, and what ggml's were built with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nodecheck.checks.engine.facts import CpuLibrary
from nodecheck.checks.engine.libraries import is_candidate, look, without_looking
from nodecheck.checks.engine.mappings import Mapped
from nodecheck.model import Reason

SETS = {
    "sse3": "__SSE3__", "ssse3": "__SSSE3__", "avx": "__AVX__", "f16c": "__F16C__",
    "fma": "__FMA__", "avx2": "__AVX2__", "bmi2": "__BMI2__", "avx_vnni": "__AVXVNNI__",
    "avx512": "__AVX512F__", "avx512_vbmi": "__AVX512VBMI__", "avx512_vnni": "__AVX512VNNI__",
    "avx512_bf16": "__AVX512BF16__", "amx_int8": "__AMX_INT8__", "neon": "__ARM_NEON",
    "dotprod": "__ARM_FEATURE_DOTPROD", "matmul_int8": "__ARM_FEATURE_MATMUL_INT8",
    "sve": "__ARM_FEATURE_SVE", "fp16_va": "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC",
    "sme": "__ARM_FEATURE_SME", "vsx": "__POWER9_VECTOR__",
}  # fmt: skip
SOURCE = "\n".join(
    f"int ggml_cpu_has_{name}(void) {{\n#ifdef {macro}\nreturn 1;\n#else\nreturn 0;\n#endif\n}}"
    for name, macro in SETS.items()
)
"""As ggml-cpu.c has them."""

REAL = Path(__file__).parents[3] / "build"


def compiled(
    directory: Path, *flags: str, name: str = "libggml-cpu.so", compiler: str = "gcc"
) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (directory / "ggml-cpu.c").write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O3", *flags, "ggml-cpu.c", "-o", name]
    subprocess.run(command, cwd=directory, check=True)
    return directory / name


def mapping(path: Path | str, *, place: Path | None = None, is_code: bool = True) -> Mapped:
    return Mapped(
        path=str(path), place=str(place or path), device=(0, 0), inode=1,
        mapped_bytes=4096, is_code=is_code, is_deleted=False,
    )  # fmt: skip


def library(path: Path, place: Path | None = None) -> CpuLibrary:
    seen = look([mapping(path, place=place)])
    assert seen.reason is None
    (found,) = seen.libraries
    return found


def test_a_build_for_avx2(tmp_path: Path) -> None:
    found = library(compiled(tmp_path, "-march=haswell"))
    assert found.family == "ggml"
    assert found.variant is None
    assert found.compiled == ("pni", "ssse3", "avx", "f16c", "fma", "avx2", "bmi2")
    assert found.left_out is not None
    assert "avx512f" in found.left_out
    assert "asimd" not in found.left_out


def test_a_build_for_any_cpu(tmp_path: Path) -> None:
    found = library(compiled(tmp_path, "-march=x86-64", "-s"))
    assert found.compiled == ()
    assert found.left_out == (
        "pni", "ssse3", "avx", "f16c", "fma", "avx2", "bmi2", "avx_vnni", "avx512f", "avx512vbmi",
        "avx512_vnni", "avx512_bf16", "amx_int8",
    )  # fmt: skip


def test_a_build_for_arm(tmp_path: Path) -> None:
    made = compiled(tmp_path, "-march=armv8.2-a+dotprod", compiler="aarch64-linux-gnu-gcc")
    found = library(made)
    assert found.compiled == ("asimd", "asimddp")
    assert found.left_out == ("asimdhp", "i8mm", "sve", "sme")


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("libggml-cpu.so", None),
        ("libggml-cpu.so.0.25.3", None),
        ("libggml-cpu-haswell.so", "haswell"),
        ("libggml-cpu-sandybridge.so.0", "sandybridge"),
        ("libggml-cpu-armv8.2_1.so", "armv8.2_1"),
        ("libllama.so", None),
        ("libggml.so", None),
        ("libllama.so.0", None),
        ("koboldcpp_noavx2.so", "noavx2"),
        ("koboldcpp_default.so", "default"),
        ("llama-server", None),
        ("ollama_llama_server", None),
    ],
)
def test_where_ggml_may_be(tmp_path: Path, name: str, variant: str | None) -> None:
    made = compiled(tmp_path, "-mavx2")
    file = mapping(Path("/opt/engine") / name, place=made)
    assert is_candidate(file)
    (found,) = look([file]).libraries
    assert (found.family, found.variant) == ("ggml", variant)
    assert found.compiled is not None
    assert "avx2" in found.compiled


@pytest.mark.parametrize(
    ("path", "family", "variant"),
    [
        ("/usr/lib/libdnnl.so.3.6", "onednn", None),
        ("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", "openblas", None),
        ("/usr/lib/libopenblasp-r0.3.21.so", "openblas", None),
        ("/conda/lib/libmkl_rt.so.2", "mkl", None),
        ("/conda/lib/libmkl_core.so.2", "mkl", None),
        ("/conda/lib/libmkl_avx2.so.2", "mkl", "avx2"),
        ("/conda/lib/libmkl_def.so.2", "mkl", "def"),
        ("/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so", "torch", None),
        ("/opt/llama/libggml-blas.so", "ggml", "blas"),
    ],
)
def test_other_libraries(path: str, family: str, variant: str | None) -> None:
    """Their files are not opened: they choose at run time."""
    file = mapping(path)
    assert is_candidate(file)
    expected = (CpuLibrary(path=path, family=family, variant=variant),)
    assert look([file]).libraries == without_looking([file]) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/venv/lib/python3.11/site-packages/numpy.libs/libscipy_openblas64_-32a4b2a6.so",
        "/venv/lib/python3.11/site-packages/numpy.libs/libopenblas64_p-r0-0cf96a72.so",
        "/venv/lib/python3.11/site-packages/scipy.libs/libopenblas-d0f4.so",
        "/usr/lib/libc.so.6",
        "/opt/libggml-cpu.so.txt",
        "/opt/libmkl_intel_thread.so",
        "/models/libtorch_cpu.so.gguf",
    ],
)
def test_what_is_none_of_them(path: str) -> None:
    assert not is_candidate(mapping(path))


def test_a_library_that_is_only_read() -> None:
    assert not is_candidate(mapping("/opt/libggml-cpu.so", is_code=False))


def test_one_without_cpu_code_is_left_out(tmp_path: Path) -> None:
    """libllama.so of today: what computes lies beside it."""
    (tmp_path / "empty.c").write_text("int llama_decode(void) { return 0; }")
    subprocess.run(["gcc", "-shared", "empty.c", "-o", "libllama.so"], cwd=tmp_path, check=True)
    assert look([mapping(tmp_path / "libllama.so")]).libraries == ()


def test_one_that_looks_at_run_time(tmp_path: Path) -> None:
    """Nothing is guessed: late 2024's ggml asked the CPU for some of Arm's."""
    (tmp_path / "own.c").write_text("extern int seen; int ggml_cpu_has_avx2(void){return seen;}")
    subprocess.run(["gcc", "-shared", "-fPIC", "own.c", "-o", "own.so"], cwd=tmp_path, check=True)
    found = library(Path("/opt/libggml-cpu-haswell.so"), tmp_path / "own.so")
    assert (found.variant, found.compiled, found.left_out) == ("haswell", None, None)


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01\x01" + bytes(9), os.urandom(4096)])
def test_a_file_that_is_no_library(tmp_path: Path, content: bytes) -> None:
    for name in ("libggml-cpu.so", "libllama.so"):
        (tmp_path / name).write_bytes(content)
    seen = look([mapping(tmp_path / "libggml-cpu.so"), mapping(tmp_path / "libllama.so")])
    assert seen.libraries == (
        CpuLibrary(path=str(tmp_path / "libggml-cpu.so"), family="ggml"),
    )  # fmt: skip
    assert seen.reason is Reason.UNSUPPORTED
    assert "\n" not in seen.detail


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    seen = look([mapping(tmp_path / "libggml-cpu.so")])
    assert [each.compiled for each in seen.libraries] == [None]
    assert seen.reason is Reason.FAILED


@pytest.mark.parametrize(
    ("path", "has_avx2"),
    [
        ("engines/lib/sse2/libggml-cpu.so", False),
        ("engines/lib/avx2/libggml-cpu.so", True),
        ("attach-engines/venv/lib/python3.11/site-packages/llama_cpp/lib/libggml-cpu.so", True),
    ],
)
def test_those_of_llama_cpp(path: str, has_avx2: bool) -> None:
    """Built by the benchmarks of engines, where they have run."""
    if not (REAL / path).exists():
        pytest.skip("no llama.cpp in build/engines: make bench-engines builds it")
    found = library(REAL / path)
    assert found.compiled is not None
    assert found.left_out is not None
    assert ("avx2" in found.compiled) is has_avx2
    assert ("avx2" in found.left_out) is not has_avx2
