"""The header of a GGUF file: what it says of itself and which tensors it holds, not their data.

Versions 2 and 3, little endian. Source: ggml, docs/gguf.md; the limits are those of llama.cpp,
ggml/src/gguf.cpp, where no other reason is given.
"""

from __future__ import annotations

import struct
from typing import Any, final

from nodecheck.model import Struct
from nodecheck.workload.errors import WorkloadError, shown
from nodecheck.workload.files import GGUF_MAGIC, HEAD_BYTES, RegularFile, refuse_other_kinds
from nodecheck.workload.gguf import ggml
from nodecheck.workload.gguf.buffer import U32, U64, Window

MOST_KEYS = 1 << 16
"""A model has a hundred. Bounds the time that a hostile file takes."""

MOST_TENSORS = 1 << 17
"""A model has two thousand. Bounds time and memory."""

MOST_STRINGS = 1 << 22
"""Of all arrays together: tokenizers have less than a million. Bounds the time."""

MOST_ELEMENTS = 1 << 30
"""Of an array, and bytes of a string."""

MOST_KEY_BYTES = (1 << 16) - 1
"""Source: ggml, docs/gguf.md."""

MOST_NAME_BYTES = 63
MOST_DIMENSIONS = 4
MOST_TENSOR_ELEMENTS = (1 << 63) - 1

MOST_DATA_BYTES = 1 << 56
"""No file is as large. Keeps every sum of sizes within 64 bits."""

KEPT_ELEMENTS = 1 << 16
"""Arrays up to this length are kept; those of tokenizers are not needed."""

KEPT_STRING_BYTES = 1 << 16
KEPT_BYTES = 8 << 20
"""Of keys, strings and arrays together, as they lie in the file. Bounds memory."""

DEFAULT_ALIGNMENT = 32

_FEWEST_KEY_BYTES = 14
_FEWEST_TENSOR_BYTES = 24
"""What the shortest possible entry takes: for counts that no file of this size can hold."""


class Skipped(Struct, frozen=True, kw_only=True):
    """A value that was not kept: `count` elements of `kind`, or bytes of a string."""

    kind: str
    count: int


Value = bool | int | float | str | tuple[int, ...] | tuple[float, ...] | Skipped


class TensorInfo(Struct, frozen=True, kw_only=True, gc=False):
    """A tensor: `shape` has the contiguous row first, `offset` counts from the data section."""

    name: str
    shape: tuple[int, ...]
    type: str
    elements: int
    bytes: int
    offset: int


class Header(Struct, frozen=True, kw_only=True):
    """What a file says. `missing_bytes` of its tensors lie past its end: it was cut off."""

    version: int
    metadata: dict[str, Value]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    missing_bytes: int


def read_header(file: RegularFile) -> Header:
    """The header of an open file. WorkloadError names the key, tensor and byte that is wrong."""
    _check_magic(file)
    window = Window(file)
    version, tensor_count, key_count = _counts(window)
    metadata = _Metadata(window).read(key_count)
    alignment = _alignment(metadata)
    tensors = _tensors(window, tensor_count, alignment)
    data_offset = _padded(window.offset, alignment) if tensors else window.offset
    end = data_offset + (tensors[-1].offset + tensors[-1].bytes if tensors else 0)
    return Header(
        version=version,
        metadata=metadata,
        tensors=tensors,
        data_offset=data_offset,
        missing_bytes=max(0, end - file.size),
    )


_COUNTS = struct.Struct("<QQ")
_ARRAY_HEAD = struct.Struct("<IQ")
_TYPE_AND_OFFSET = struct.Struct("<IQ")
_DIMENSIONS = tuple(struct.Struct(f"<{n}Q") for n in range(MOST_DIMENSIONS + 1))


def _counts(window: Window) -> tuple[int, int, int]:
    """Version, number of tensors, number of keys."""
    window.skip(len(GGUF_MAGIC))
    (version,) = window.unpack(U32)
    _check_version(version)
    tensors, keys = window.unpack(_COUNTS)
    left = window.size - window.offset
    for what, count, most, fewest in (
        ("tensors", tensors, MOST_TENSORS, _FEWEST_TENSOR_BYTES),
        ("keys", keys, MOST_KEYS, _FEWEST_KEY_BYTES),
    ):
        if count * fewest > left:
            raise window.error(f"claims {count} {what}, for which {left} bytes are too few")
        if count > most:
            raise window.error(f"claims {count} {what}, more than the {most} that are read")
    return version, tensors, keys


_OLD_MAGICS = (b"lmgg", b"fmgg", b"tjgg", b"algg")
"""ggml, ggmf, ggjt and ggla, as they lie in the file. Source: llama.cpp before GGUF."""


def _check_magic(file: RegularFile) -> None:
    head = file.read_at(0, HEAD_BYTES)
    if head.startswith(GGUF_MAGIC):
        return
    if not head:
        raise WorkloadError("an empty file")
    if head.startswith(_OLD_MAGICS):
        raise WorkloadError("a GGML file from before GGUF, which nothing reads: convert it again")
    if not any(head):
        raise WorkloadError("begins with zero bytes: not downloaded yet, or damaged")
    refuse_other_kinds(head, file.name)
    magic = shown(head[: len(GGUF_MAGIC)].decode("ascii", "replace"))
    raise WorkloadError(f"not a GGUF file: it begins with {magic!r}")


def _check_version(version: int) -> None:
    if version and not version & 0xFFFF:
        raise WorkloadError(
            "a GGUF file of the other byte order (big endian): convert it with gguf-convert-endian"
        )
    if version < 2:
        raise WorkloadError(
            f"GGUF version {version}, which llama.cpp no longer reads: convert the model again"
        )
    if version > 3:
        raise WorkloadError(f"GGUF version {version}: only 2 and 3 are known")


_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS = {
    0: ("u8", "B"),
    1: ("i8", "b"),
    2: ("u16", "H"),
    3: ("i16", "h"),
    4: ("u32", "I"),
    5: ("i32", "i"),
    6: ("f32", "f"),
    _BOOL: ("bool", "B"),
    10: ("u64", "Q"),
    11: ("i64", "q"),
    12: ("f64", "d"),
}
_FORMS = {kind: struct.Struct("<" + code) for kind, (_, code) in _SCALARS.items()}


@final
class _Metadata:
    """Reads the keys and their values; counts what it has kept."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._kept_bytes = 0
        self._strings = 0

    def read(self, count: int) -> dict[str, Value]:
        """As many keys."""
        window = self._window
        metadata: dict[str, Value] = {}
        for number in range(count):
            window.begin("key", number)
            start = window.offset
            key = window.named(window.name(MOST_KEY_BYTES))
            if not key:
                raise window.error("its name is empty", start)
            if key in metadata:
                raise window.error("it is there twice", start)
            if not self._keep(len(key)):
                raise window.error(f"more than {KEPT_BYTES} bytes of names: no model has as many")
            metadata[key] = self._value(window.unpack(U32)[0])
        return metadata

    def _keep(self, length: int) -> bool:
        """Whether so many bytes more may be kept."""
        kept = self._kept_bytes + length <= KEPT_BYTES
        self._kept_bytes += length if kept else 0
        return kept

    def _value(self, kind: int) -> Value:
        if kind == _ARRAY:
            return self._array()
        if kind == _STRING:
            return self._string()
        if kind not in _FORMS:
            raise self._window.error(f"unknown value type {kind}")
        value: Value = self._checked(kind, self._window.unpack(_FORMS[kind]))[0]
        return value

    def _checked(self, kind: int, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if kind != _BOOL:
            return values
        if max(values, default=0) > 1:
            raise self._window.error(f"a bool of {max(values)}, neither 0 nor 1")
        return tuple(map(bool, values))

    def _string(self) -> str | Skipped:
        (length,) = self._window.unpack(U64)
        if length > MOST_ELEMENTS:
            raise self._window.error(
                f"a string of {length} bytes, at most {MOST_ELEMENTS} are allowed"
            )
        if length <= KEPT_STRING_BYTES and self._keep(length):
            return self._window.text(length)
        self._window.skip(length)
        return Skipped(kind="string", count=length)

    def _array(self) -> Value:
        window = self._window
        kind, count = window.unpack(_ARRAY_HEAD)
        if kind == _ARRAY:
            raise window.error("an array of arrays, which GGUF has none of")
        if kind != _STRING and kind not in _FORMS:
            raise window.error(f"an array of unknown value type {kind}")
        if count > MOST_ELEMENTS:
            raise window.error(f"an array of {count} elements, at most {MOST_ELEMENTS} are allowed")
        return self._strings_of(count) if kind == _STRING else self._numbers(kind, count)

    def _numbers(self, kind: int, count: int) -> Value:
        name, code = _SCALARS[kind]
        length = count * _FORMS[kind].size
        if count <= KEPT_ELEMENTS and self._keep(length):
            return self._checked(kind, self._window.unpack(struct.Struct(f"<{count}{code}")))
        self._window.skip(length)
        return Skipped(kind=name, count=count)

    def _strings_of(self, count: int) -> Skipped:
        window = self._window
        left = window.size - window.offset
        if count * U64.size > left:
            raise window.error(f"an array of {count} strings, for which {left} bytes are too few")
        self._strings += count
        if self._strings > MOST_STRINGS:
            raise window.error(f"more than {MOST_STRINGS} strings: no tokenizer has as many")
        window.skip_strings(count)
        return Skipped(kind="string", count=count)


def _alignment(metadata: dict[str, Value]) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(value) is not int or value < 1 or value & (value - 1):
        raise WorkloadError(f"general.alignment is {shown(value)}, which is no power of two")
    return value


def _padded(offset: int, alignment: int) -> int:
    return (offset + alignment - 1) & -alignment


def _tensors(window: Window, count: int, alignment: int) -> tuple[TensorInfo, ...]:
    infos: dict[str, TensorInfo] = {}
    expected = 0
    for number in range(count):
        window.begin("tensor", number)
        start = window.offset
        info = _tensor(window, start)
        if info.name in infos:
            raise window.error("it is there twice", start)
        if info.offset != expected:
            raise window.error(
                f"its data begins at {info.offset}, where {expected} was expected", start
            )
        expected = _padded(expected + info.bytes, alignment)
        if expected > MOST_DATA_BYTES:
            raise window.error(f"{expected} bytes up to here: no file is as large", start)
        infos[info.name] = info
    return tuple(infos.values())


def _tensor(window: Window, start: int) -> TensorInfo:
    name = window.named(window.name(MOST_NAME_BYTES))
    (dimensions,) = window.unpack(U32)
    if dimensions > MOST_DIMENSIONS:
        raise window.error(f"{dimensions} dimensions, at most {MOST_DIMENSIONS} are allowed", start)
    shape = window.unpack(_DIMENSIONS[dimensions])
    kind, offset = window.unpack(_TYPE_AND_OFFSET)
    try:
        elements, size = _sizes(shape, ggml.type_of(kind))
    except WorkloadError as error:
        raise window.error(error, start) from None
    return TensorInfo(
        name=name,
        shape=shape,
        type=ggml.TYPES[kind].name,
        elements=elements,
        bytes=size,
        offset=offset,
    )


def _sizes(shape: tuple[int, ...], kind: ggml.GgmlType) -> tuple[int, int]:
    """Elements and bytes. A tensor without dimensions has one element."""
    rows, product = 1, 1
    for length in shape:
        product *= length or 1
    if product > MOST_TENSOR_ELEMENTS:
        raise WorkloadError(f"dimensions {' x '.join(map(str, shape))}, more than 2^63 elements")
    for length in shape[1:]:
        rows *= length
    row = shape[0] if shape else 1
    return row * rows, ggml.row_bytes(row, kind) * rows
