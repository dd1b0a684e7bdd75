"""Libraries of a serving stack that need more than x86-64-v1, and what happens without it.

From running the wheels under emulated CPUs, taking one flag away at a time. The emulator refuses
every hidden instruction; KVM refuses only AVX, so libraries that stop at SSE4 may start there.
"""

from __future__ import annotations

from collections.abc import Collection

from nodecheck.checks.cpu import isa
from nodecheck.model import Struct


class Library(Struct, frozen=True):
    """A library and the instruction sets that it uses without asking."""

    name: str
    needs: frozenset[str]


NUMPY = Library("NumPy >= 2.4 (and with it gguf, pandas)", isa.V2)

LIBRARIES = (
    Library("pyarrow", isa.V2),
    Library("faiss-cpu", isa.V2),
    Library("RHEL 9 based images", isa.V2),
    Library("jaxlib", isa.V2 | {"avx"}),
    Library("TensorFlow", isa.V2 | {"avx"}),
    Library("MongoDB >= 5", isa.V2 | {"avx"}),
    Library("Polars", isa.V2 | {"avx", "avx2", "bmi1", "bmi2", "abm"}),
    Library("DuckDB", isa.V2 | {"avx", "avx2", "bmi1", "bmi2"}),
    Library("RHEL 10 based images", isa.V3),
)

_REFUSED_BY_KVM = frozenset(("avx", "avx2", "fma", "f16c"))


def broken(flags: Collection[str], *, faults: bool | None) -> str | None:
    """What cannot run with these flags, None where all of it can.

    `faults`: true where every missing instruction faults (an emulator, old silicon), false where
    only AVX does (hidden by KVM), None where it may be either.
    """
    have = frozenset(flags)
    lost = [library for library in LIBRARIES if library.needs - have]
    fatal = [x for x in lost if faults or (x.needs - have) & _REFUSED_BY_KVM]
    perhaps = [x for x in lost if x not in fatal]
    parts = []
    if NUMPY.needs - have:
        parts.append(f"{NUMPY.name} cannot be imported ({_numpy_end(faults)})")
    if fatal:
        parts.append(f"{_names(fatal)} die with SIGILL or refuse to start")
    if perhaps:
        parts.append(f"{_names(perhaps)} may not start")
    return "; ".join(parts) or None


def _numpy_end(faults: bool | None) -> str:
    if faults is True:
        return "SIGILL"
    by_kvm = "RuntimeError: baseline X86_V2"
    return by_kvm if faults is False else f"{by_kvm}; SIGILL under emulation"


def _names(libraries: list[Library]) -> str:
    return ", ".join(library.name for library in libraries)
