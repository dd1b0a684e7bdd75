"""How NVML is asked: one call at a time, each announced, each refusal kept.

Newer drivers drop old functions, older ones lack new ones, and a card may refuse any. The binding
is handed in by its only importer.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Mapping
from typing import Any

from nodecheck.machine.nvml_codes import (
    DRIVER_GONE,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    NEUTRAL,
    NOT_SUPPORTED,
    UNKNOWN,
)

Values = dict[str, int | float]

_VALUE_MEMBERS = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}
"""nvmlValueType_t -> the member of the union that holds the value."""

_LINE_BYTES, _LENGTH_BYTES = 128, 8
_HEAD_BYTES = _LINE_BYTES + _LENGTH_BYTES
_SHARED_BYTES = 1 << 20


class Notes:
    """What the child is about to ask and what it has been told, for its parent to read.

    Shared memory: a child that hangs in a call can neither write to a pipe nor be questioned.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _SHARED_BYTES)  # anonymous: no descriptor, and shared by fork

    def asking(self, what: str) -> None:
        """Note the next call, in words that follow "it was asked"."""
        line = what.encode(errors="replace")[:_LINE_BYTES]
        self._shared[:_LINE_BYTES] = line.ljust(_LINE_BYTES, b"\0")

    def asked(self) -> str | None:
        """What was asked last; None before the first call."""
        return self._shared[:_LINE_BYTES].rstrip(b"\0").decode(errors="replace") or None

    def keep(self, part: bytes) -> None:
        """Add a part of the answer, one line; what does not fit is dropped."""
        length = self._length()
        start, end = _HEAD_BYTES + length, _HEAD_BYTES + length + len(part) + 1
        if end <= _SHARED_BYTES:
            self._shared[start:end] = part + b"\n"
            # The length comes last: a reader never takes half a part.
            self._shared[_LINE_BYTES:_HEAD_BYTES] = (end - _HEAD_BYTES).to_bytes(
                _LENGTH_BYTES, "big"
            )

    def kept(self) -> list[bytes]:
        """The parts so far, in order."""
        return self._shared[_HEAD_BYTES : _HEAD_BYTES + self._length()].splitlines()

    def _length(self) -> int:
        return int.from_bytes(self._shared[_LINE_BYTES:_HEAD_BYTES], "big")


class DriverGoneError(Exception):
    """The driver as a whole is not there any more: `code` is NVML's for it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Fields:
    """Reads the fields of one card or of the driver; a refusal is noted and leaves a field None.

    A field goes by its name in words, which is also how a hang in it is told. A card that is lost
    is asked nothing more: every call would fail, and may take its time over it. All that asks
    raises DriverGoneError where the driver went.
    """

    def __init__(self, pynvml: Any, asking: Callable[[str], None], owner: str = "") -> None:
        self._pynvml = pynvml
        # Raised in place of "function not found" where the binding is newer than the library.
        self._mismatch = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
        self._asking = asking
        self._owner = f" of {owner}" if owner else ""
        self.errors: dict[str, int] = {}
        self.unsupported: list[str] = []
        self._lost = False

    def read(self, name: str, *calls: Callable[[], Any]) -> Any:
        """The answer to the first call that the driver knows; None where none is answered."""
        value, refused = self.attempt(name, *calls)
        if refused is not None:
            self.note(name, refused)
        return value

    def attempt(self, name: str, *calls: Callable[[], Any]) -> tuple[Any, int | None]:
        """As read, but a refusal is handed back, not noted: the value, or None and its code."""
        refused = None
        for call in calls:
            if self._lost:
                return None, GPU_IS_LOST
            self._asking(f"for the {name}{self._owner}")
            value, refused = self._one(name, call, refused)
            if refused not in NEUTRAL:
                return value, refused
        return None, refused

    def _one(
        self, name: str, call: Callable[[], Any], before: int | None
    ) -> tuple[Any, int | None]:
        """The value and None, or None and the code of the refusal."""
        try:
            return call(), None
        except self._pynvml.NVMLError as error:
            return None, self._code(name, code_of(error))
        except (AttributeError, TypeError, ValueError, self._mismatch):  # an older or newer pynvml
            return None, before or INVALID_ARGUMENT

    def _code(self, name: str, code: int) -> int:
        if code in DRIVER_GONE:
            raise DriverGoneError(code)
        if code == GPU_IS_LOST:
            self._lost = True
            self.errors[name] = code
        return code

    def note(self, name: str, code: int) -> None:
        """Keep why a field is not known."""
        if code in NEUTRAL:
            self.unsupported.append(name)
        elif code != GPU_IS_LOST:  # which was noted where it was met
            self.errors[name] = code

    def values(self, handle: Any, wanted: Mapping[str, int]) -> Values:
        """Field values by name, all in one call; `wanted` are NVML's ids. Refusals are noted."""
        answers = self.attempt_values(
            "field values", handle, {n: (i, 0) for n, i in wanted.items()}
        )
        found: Values = {}
        for name, (value, refused) in answers.items():
            if value is not None:
                found[name] = value
            elif refused is not None:
                self.note(name, refused)
        return found

    def attempt_values(
        self, name: str, handle: Any, wanted: Mapping[Any, tuple[int, int]]
    ) -> dict[Any, tuple[int | float | None, int | None]]:
        """Field values by key, all in one call: the value, or None and the code of its refusal.

        `wanted` holds pairs of NVML's id and its scope, which is a link's number.
        """
        ids = list(wanted.values())
        answers, refused = self.attempt(
            name, lambda: self._pynvml.nvmlDeviceGetFieldValues(handle, ids)
        )
        if answers is None:
            return dict.fromkeys(wanted, (None, refused))
        return {key: self._value(name, answer) for key, answer in zip(wanted, answers, strict=True)}

    def _value(self, name: str, answer: Any) -> tuple[int | float | None, int | None]:
        if answer.nvmlReturn != 0:
            return None, self._code(name, int(answer.nvmlReturn))
        value = getattr(answer.value, _VALUE_MEMBERS.get(answer.valueType, ""), None)
        if value is None or not math.isfinite(value):
            return None, NOT_SUPPORTED
        return value, None


def calling(pynvml: Any, function: str, *arguments: Any) -> Callable[[], Any]:
    """A call that looks for its function only when it is made: an older binding may lack it."""
    return lambda: getattr(pynvml, function)(*arguments)


def code_of(error: Any) -> int:
    """NVML's number for an error."""
    return int(getattr(error, "value", UNKNOWN))


def text_of(value: Any) -> str | None:
    """A string, which older bindings give as bytes."""
    if isinstance(value, bytes):  # pynvml before 11.5
        return value.decode(errors="replace")
    return None if value is None else str(value)
