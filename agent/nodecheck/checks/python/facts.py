"""Whether the libraries of a serving environment can be imported on this processor."""

from __future__ import annotations

from nodecheck.model import Struct


class Library(Struct, frozen=True, kw_only=True):
    """A library that is installed in the interpreter, and what became of its import.

    `outcome` is ok, illegal_instruction (died by SIGILL), refused (said itself that the processor
    lacks an instruction set), failed (any other error, not of the processor) or timeout. `detail`
    holds the library's last words, None where it is ok. `name` is that of the import; the
    interpreter itself stands as `python` where it cannot even start.
    """

    name: str
    version: str | None = None
    outcome: str
    detail: str | None = None


class PythonFacts(Struct, frozen=True, kw_only=True):
    """`interpreter` is None where none was named: then nothing was tried.

    `torch_archs` are the generations of cards that its torch has code for: sm_90 (a binary),
    compute_90 (PTX) or gfx942; None where torch does not say, or is built without.
    """

    interpreter: str | None = None
    libraries: tuple[Library, ...] = ()
    torch_archs: tuple[str, ...] | None = None
