"""Which instruction sets can be used: the kernel's list, confirmed by the processor itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nodecheck.checks.cpu import cpuid, hwcap, isa
from nodecheck.checks.cpu.cpuinfo import CpuInfo
from nodecheck.checks.cpu.silicon import is_generic
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Struct

T = TypeVar("T")


class Sets(Struct, frozen=True):
    """Instruction sets: listed by the kernel, shown by CPUID (or HWCAP), usable, shown but off."""

    listed: tuple[str, ...] | None
    shown: tuple[str, ...] | None = None
    usable: tuple[str, ...] | None = None
    disabled: tuple[str, ...] = ()


def instruction_sets(
    reader: Reader, arch: str | None, info: CpuInfo, leaves: cpuid.Leaves | None
) -> Sets:
    """The kernel's list held against CPUID (x86-64) or HWCAP (aarch64), where either can be had."""
    # under user-mode emulation cpuinfo may be of another architecture
    listed = info.flags if info.arch in {arch, None} else None
    if leaves:
        xcr0 = ask(reader, None, reader.host.xcr0)
        can = cpuid.usable(leaves, xcr0)
        disabled = tuple(sorted(cpuid.shown(leaves) - can))
        return Sets(listed, tuple(sorted(can)), _both(listed, can, cpuid.COVERED), disabled)
    if arch == "aarch64" and reader.host.live:
        capabilities = ask(reader, "cpuid_flags", _hwcaps)
        if capabilities is not None:
            can = hwcap.names(*capabilities)
            return Sets(listed, tuple(sorted(can)), _both(listed, can, hwcap.COVERED))
    return Sets(listed, usable=listed)


def _both(
    listed: tuple[str, ...] | None, can: frozenset[str], covered: frozenset[str]
) -> tuple[str, ...]:
    """Listed flags that the processor confirms; its own word alone where there is no list."""
    if listed is None:
        return tuple(sorted(can))
    return tuple(name for name in listed if name in can or name not in covered)


def _hwcaps() -> tuple[int, int]:
    from nodecheck.machine import native

    return native.hwcaps()


def witness(
    reader: Reader, arch: str | None, sets: Sets, brand: str | None
) -> dict[str, str] | None:
    """Which hidden instructions execute; asked only where something seems hidden.

    Refused instructions leave a line in the kernel log, so a sound node is left in peace.
    """
    if arch != "x86_64" or sets.usable is None:
        return None
    if not isa.missing(sets.usable) and not is_generic(brand, guest=False):
        return None
    return ask(reader, "witness", reader.host.witness)


def ask(reader: Reader, field: str | None, question: Callable[[], T]) -> T | None:
    """What only the processor or our own C code can tell; a gap where it does not."""
    try:
        return question()
    except UnreadableError as error:
        reason, detail = error.reason, error.detail
    except Exception as error:  # noqa: BLE001  the extension may be missing or built for another CPU
        reason, detail = Reason.UNSUPPORTED, str(error)
    if field is not None:
        reader.gap(field, reason, detail)
    return None
