"""The only importer of pyelftools: what functions of a program or library return, unexecuted."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Section

MOST_READ_BYTES = 192 << 20
"""Of one file. Bounds time and memory: the largest unstripped builds of llama.cpp need a tenth."""

MOST_TABLE_BYTES = 48 << 20
"""Of one table: two million symbols. Bounds the time."""

MOST_HEADERS = 1000
"""Sections or segments. A linked file has fifty; each takes tens of microseconds to parse."""

_SYMBOL = struct.Struct("<IBBHQQ")
"""Name, kind and binding, visibility, section, address, size. Source: gABI, Elf64_Sym."""

_FUNCTION, _UNDEFINED = 2, 0
_CODE_BYTES = 16

_ENDBR64 = rb"(?:\xf3\x0f\x1e\xfa)?"
_RETURN = rb"(?:\xf3)?\xc3"
_X86_64 = re.compile(
    _ENDBR64
    + rb"(?:\xb8(?P<moved>[\0\1])\0{3}" + _RETURN  # mov eax,n; ret
    + rb"|(?:\x31\xc0|\x33\xc0)" + _RETURN  # xor eax,eax; ret
    + rb"|\x6a(?P<pushed>[\0\1])\x58" + _RETURN  # push n; pop rax; ret
    + rb"|\x55\x48\x89\xe5\xb8(?P<framed>[\0\1])\0{3}\x5d" + _RETURN + rb")",  # unoptimised
    re.DOTALL,
)  # fmt: skip
_AARCH64 = re.compile(
    rb"(?:\x5f\x24\x03\xd5)?"  # bti c
    rb"(?:(?P<moved>[\x00\x20])\x00\x80\x52|\xe0\x03\x1f\x2a)"  # mov w0,#n or mov w0,wzr
    rb"\xc0\x03\x5f\xd6",  # ret
    re.DOTALL,
)
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}


class ElfError(Exception):
    """No ELF file that can be read: one line that says why."""


class _Bounded(io.FileIO):
    """A file of which no more than MOST_READ_BYTES are read."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, closefd=False)
        self._left = MOST_READ_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= self._left:
            raise ElfError(f"more than {MOST_READ_BYTES} bytes of tables")
        self._left -= size
        return super().read(size) or b""


def constants(fd: int, names: Collection[str]) -> tuple[str, dict[str, int | None]]:
    """The machine that an open file is for, and what its functions of these names return: 0 or 1.

    None where the code is anything but the return of a constant; a name that the file does not
    define is left out. Raises ElfError.
    """
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(_Bounded(fd))
        machine = _machine(elf)
        found: dict[str, int | None] = {}
        for table in ("SHT_DYNSYM", "SHT_SYMTAB"):
            for name, address in _functions(elf, table, set(names) - found.keys()):
                found[name] = _constant(machine, _code(elf, address))
    except ElfError:
        raise
    except Exception as error:  # what a hostile file does to the parser has no end
        raise ElfError(f"no ELF file that can be read ({type(error).__name__})") from error
    return machine, found


def _machine(elf: ELFFile) -> str:
    """The machine's name as uname gives it."""
    machine = _MACHINES.get(str(elf["e_machine"]))
    if machine is None or elf.elfclass != 64 or not elf.little_endian:
        raise ElfError("an ELF file for another kind of machine")
    if elf.num_sections() > MOST_HEADERS or elf.num_segments() > MOST_HEADERS:
        raise ElfError(f"more than {MOST_HEADERS} sections or segments")
    return machine


def _functions(elf: ELFFile, kind: str, names: Collection[str]) -> Iterator[tuple[str, int]]:
    """Those of `names` that tables of this kind define, and their addresses."""
    for section in elf.iter_sections(kind):
        strings = _content(elf, elf.get_section(section["sh_link"]))
        named = {at: name for name in names for at in _places(strings, name.encode() + b"\0")}
        if not named:
            continue
        symbols = _content(elf, section)
        whole = len(symbols) // _SYMBOL.size * _SYMBOL.size
        for at, info, _, where, address, _ in _SYMBOL.iter_unpack(symbols[:whole]):
            if at in named and info & 0xF == _FUNCTION and where != _UNDEFINED:
                yield named[at], address


def _content(elf: ELFFile, section: Section) -> bytes:
    """A table, which is never compressed."""
    if section["sh_size"] > MOST_TABLE_BYTES:
        raise ElfError(f"a table of {section['sh_size']} bytes")
    elf.stream.seek(section["sh_offset"])
    return elf.stream.read(section["sh_size"])


def _places(strings: bytes, text: bytes) -> Iterator[int]:
    """Wherever it stands: linkers let a name be the end of a longer one."""
    at = strings.find(text)
    while at >= 0:
        yield at
        at = strings.find(text, at + 1)


def _code(elf: ELFFile, address: int) -> bytes:
    """What is loaded at an address."""
    for segment in elf.iter_segments("PT_LOAD"):
        within = address - segment["p_vaddr"]
        if 0 <= within < segment["p_filesz"]:
            elf.stream.seek(segment["p_offset"] + within)
            return elf.stream.read(min(_CODE_BYTES, segment["p_filesz"] - within))
    return b""


def _constant(machine: str, code: bytes) -> int | None:
    if machine == "aarch64":
        arm = _AARCH64.match(code)
        return None if arm is None else int(arm["moved"] == b"\x20")
    if (x86 := _X86_64.match(code)) is None:
        return None
    return (x86["moved"] or x86["pushed"] or x86["framed"] or b"\0")[0]
