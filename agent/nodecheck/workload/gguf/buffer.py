"""Reading forward through a file of which only a window is in memory."""

from __future__ import annotations

import struct
from typing import Any, final

from nodecheck.workload.errors import WorkloadError, shown
from nodecheck.workload.files import RegularFile

WINDOW_BYTES = 256 << 10
"""What is read at a time: the strings of a tokenizer in ten steps, a small header in one."""

MOST_READ_BYTES = 256 << 20
"""Headers have up to 50 MB. Bounds the time where the strings of an array lie far apart."""

U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")


@final
class Window:
    """The bytes from `offset` on. Every failure is a WorkloadError that says at which byte.

    `begin` and `named` say what is read, for the messages.
    """

    def __init__(self, file: RegularFile) -> None:
        """Stand at the first byte; nothing is read yet."""
        self.offset = 0
        self.size = file.size
        self.bytes = b""
        self._file = file
        self._base = 0
        self._read_bytes = 0
        self._entry = ("header", 0)
        self._name = ""

    def begin(self, what: str, number: int) -> None:
        """Say which entry comes next."""
        self._entry = (what, number)
        self._name = ""

    def named(self, name: str) -> str:
        """Say what it is called."""
        self._name = name
        return name

    def error(self, problem: object, offset: int | None = None) -> WorkloadError:
        """What is wrong with the entry, `offset` bytes into the file or where reading stands."""
        what, number = self._entry
        which = f" {shown(self._name)!r}" if self._name else f" {number}"
        if what == "header":
            which = ""
        at = self.offset if offset is None else offset
        return WorkloadError(f"{what}{which} at byte {at}: {problem}")

    def take(self, length: int) -> int:
        """Go on by so many bytes; where in `bytes` they lie."""
        at = self.offset - self._base
        if at + length > len(self.bytes):
            self._move(length)
            at = 0
        self.offset += length
        return at

    def _move(self, length: int) -> None:
        if length > self.size - self.offset:
            raise self._past_the_end(length)
        self.bytes = self._file.read_at(self.offset, max(length, WINDOW_BYTES))
        self._base = self.offset
        self._read_bytes += len(self.bytes)
        if len(self.bytes) < length:
            raise self.error("the file became shorter while it was read")
        if self._read_bytes > MOST_READ_BYTES:
            raise self.error(f"more than {MOST_READ_BYTES} bytes of header: no model has as many")

    def _past_the_end(self, length: int) -> WorkloadError:
        return self.error(
            f"{length} bytes are needed, but the file ends at byte {self.size}: cut off?"
        )

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """The next numbers."""
        at = self.take(form.size)
        return form.unpack_from(self.bytes, at)

    def text(self, length: int) -> str:
        """The next so many bytes, which must be UTF-8."""
        start = self.offset
        at = self.take(length)
        try:
            return self.bytes[at : at + length].decode()
        except UnicodeDecodeError as error:
            raise self.error("text that is not UTF-8", start) from error

    def name(self, most: int) -> str:
        """The next string, of `most` bytes at most."""
        start = self.offset
        (length,) = self.unpack(U64)
        if length > most:
            raise self.error(f"a name of {length} bytes, at most {most} are allowed", start)
        return self.text(length)

    def skip(self, length: int) -> None:
        """Go on by so many bytes without looking at them."""
        if length > self.size - self.offset:
            raise self._past_the_end(length)
        self.offset += length

    def skip_strings(self, count: int) -> None:
        """Go past as many strings, by their lengths."""
        left = count
        length_at = U64.unpack_from
        while left:
            at = self.take(U64.size)
            window = self.bytes
            last = len(window) - U64.size
            passed = left
            for number in range(left):
                if at > last:
                    passed = number
                    break
                at += 8 + length_at(window, at)[0]
            left -= passed
            self.offset = self._base + at
            if self.offset > self.size:
                over = self.offset - self.size
                raise self.error(f"string {count - left - 1} ends {over} bytes past the file's end")
