"""Which libraries compute on the CPU for an engine, and for what CPU they were built.

ggml says it itself: each of its functions ggml_cpu_has_* returns a constant, by what it was
compiled with. Source: ggml/src/ggml-cpu/ggml-cpu.c, and ggml/src/ggml.c before November 2024. Names
of its variants: ggml/src/CMakeLists.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

from nodecheck.checks.engine import mappings
from nodecheck.checks.engine.facts import CpuLibrary
from nodecheck.checks.engine.mappings import Mapped
from nodecheck.machine import elf
from nodecheck.model import Reason, Struct

_X86_64 = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "avx": "avx",
    "f16c": "f16c",
    "fma": "fma",
    "avx2": "avx2",
    "bmi2": "bmi2",
    "avx_vnni": "avx_vnni",
    "avx512": "avx512f",
    "avx512_vbmi": "avx512vbmi",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "amx_int8": "amx_int8",
}
_AARCH64 = {
    "neon": "asimd",
    "fp16_va": "asimdhp",
    "dotprod": "asimddp",
    "matmul_int8": "i8mm",
    "sve": "sve",
    "sme": "sme",
}
_SETS: Mapping[str, Mapping[str, str]] = {"x86_64": _X86_64, "aarch64": _AARCH64}
"""What ggml calls an instruction set, and what the kernel does."""

_PREFIX = "ggml_cpu_has_"
_FUNCTIONS = tuple(_PREFIX + name for sets in _SETS.values() for name in sets)

_GGML_CPU = re.compile(r"libggml-cpu(?:-(?P<variant>[\w.]+?))?\.so[\d.]*")
_MAY_BE_GGML = re.compile(
    r"lib(?:ggml|llama|llava|mtmd)[\w-]*\.so[\d.]*|koboldcpp_(?P<variant>\w+)\.so"
    r"|llama-[\w-]+|main|server|ollama_llama_server"
)
"""Where ggml's CPU code is besides: in one library with all else, or in the program itself."""

_BLAS = re.compile(r"libggml-(?P<variant>blas)\.so[\d.]*")
_OTHERS = (
    ("onednn", re.compile(r"libdnnl\.so[\d.]*")),
    ("openblas", re.compile(r"lib(?:openblas)[\w.-]*?\.so[\d.]*")),
    ("mkl", re.compile(r"libmkl_(?:core|rt|(?P<variant>def|mc3?|avx\w*))\.so[\d.]*")),
    ("torch", re.compile(r"libtorch_cpu\.so")),
)
_OF_PYTHON_PACKAGES = re.compile(r"/(?:numpy|scipy|opencv_\w+|scikit_learn)\.libs/")
"""They bring an OpenBLAS of their own, with which no engine computes."""


class Seen(Struct, frozen=True, kw_only=True):
    """The libraries, and why the first of those that could not be read was not."""

    libraries: tuple[CpuLibrary, ...] = ()
    reason: Reason | None = None
    detail: str = ""


def is_candidate(file: Mapped) -> bool:
    """Whether a mapped file may be one of them, by its name."""
    return file.is_code and (_family(file) is not None or _is_maybe(file))


def without_looking(files: Iterable[Mapped]) -> tuple[CpuLibrary, ...]:
    """Those that their names tell."""
    named = ((file, _family(file)) for file in files if file.is_code)
    return tuple(CpuLibrary(path=f.path, family=k[0], variant=k[1]) for f, k in named if k)


def look(files: Iterable[Mapped]) -> Seen:
    """The libraries among mapped files, each once; of ggml's, what they were built with."""
    found: list[CpuLibrary] = []
    failed: tuple[Reason, str] | None = None
    for file in files:
        library, error = _look_at(file)
        found += [library] if library else []
        failed = failed or error
    reason, detail = failed or (None, "")
    return Seen(libraries=tuple(found), reason=reason, detail=detail)


def _look_at(file: Mapped) -> tuple[CpuLibrary | None, tuple[Reason, str] | None]:
    family = _family(file)
    if family is not None and (family[0] != "ggml" or family[1] == "blas"):
        return CpuLibrary(path=file.path, family=family[0], variant=family[1]), None
    try:
        with mappings.opened(file) as fd:
            machine, says = elf.constants(fd, _FUNCTIONS)
    except elf.ElfError as error:
        return _unread(file, Reason.UNSUPPORTED, str(error))
    except OSError as error:
        reason = Reason.DENIED if isinstance(error, PermissionError) else Reason.FAILED
        return _unread(file, reason, error.strerror)
    if not says and family is None:
        return None, None
    return _ggml(file, machine, says), None


def _unread(
    file: Mapped, reason: Reason, why: str | None
) -> tuple[CpuLibrary | None, tuple[Reason, str] | None]:
    """One whose file could not be read: by its name, where that tells."""
    named = next(iter(without_looking([file])), None)
    return named, (reason, f"{file.path}: {why}") if named else None


def _ggml(file: Mapped, machine: str, says: Mapping[str, int | None]) -> CpuLibrary:
    sets = _SETS[machine]
    told = {kernel: says.get(_PREFIX + name) for name, kernel in sets.items()}
    is_told = any(value is not None for value in told.values())
    variant = _GGML_CPU.fullmatch(file.name) or _MAY_BE_GGML.fullmatch(file.name)
    return CpuLibrary(
        path=file.path,
        family="ggml",
        variant=variant["variant"] if variant else None,
        compiled=tuple(n for n, value in told.items() if value == 1) if is_told else None,
        left_out=tuple(n for n, value in told.items() if value == 0) if is_told else None,
    )


def _family(file: Mapped) -> tuple[str, str | None] | None:
    """The family and the variant that a name tells for certain."""
    for ggml in (_GGML_CPU, _BLAS):
        if match := ggml.fullmatch(file.name):
            return "ggml", match["variant"]
    if _OF_PYTHON_PACKAGES.search(file.path):
        return None
    for family, form in _OTHERS:
        if match := form.fullmatch(file.name):
            return family, cast("str | None", match.groupdict().get("variant"))
    return None


def _is_maybe(file: Mapped) -> bool:
    return bool(_MAY_BE_GGML.fullmatch(file.name))
