"""Writes GGUF files: sound ones, and whatever a reader must not trip over."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nodecheck.workload.gguf import ggml

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
          U64: "Q", I64: "q", F64: "d"}  # fmt: skip
NUMBERS = {kind.name: number for number, kind in ggml.TYPES.items()}


class Typed(NamedTuple):
    """A value of a certain type; `of` is that of an array's elements."""

    kind: int
    value: object
    of: int = U32


class Raw(NamedTuple):
    """Bytes that stand for a type and a value."""

    data: bytes


class Tensor(NamedTuple):
    """`shape` has the contiguous row first; `kind` may be no type at all, `offset` a wrong one."""

    name: str
    shape: Sequence[int]
    kind: str | int = "f32"
    offset: int | None = None
    dimensions: int | None = None


Value = int | float | str | bool | Sequence[int] | Sequence[bool] | Sequence[str] | Typed | Raw
Keys = Mapping[str, Value] | Sequence[tuple[str, Value]]


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def scalar(kind: int, value: object) -> bytes:
    if kind == STRING:
        assert isinstance(value, str)
        return string(value)
    return struct.pack("<" + _CODES[kind], value)


def typed(value: Value) -> Typed:
    """What a converter would write it as."""
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed(BOOL, value)
    if isinstance(value, int):
        return Typed(U32, value)
    if isinstance(value, float):
        return Typed(F32, value)
    if isinstance(value, str):
        return Typed(STRING, value)
    assert not isinstance(value, Raw)
    first = value[0] if value else 0
    of = BOOL if isinstance(first, bool) else STRING if isinstance(first, str) else I32
    return Typed(ARRAY, value, of)


def written(value: Value) -> bytes:
    """Type and value."""
    if isinstance(value, Raw):
        return value.data
    kind, content, of = typed(value)
    if kind != ARRAY:
        return struct.pack("<I", kind) + scalar(kind, content)
    assert isinstance(content, Sequence)
    if of in _CODES:
        elements = struct.pack(f"<{len(content)}{_CODES[of]}", *content)
    else:
        elements = b"".join(scalar(of, element) for element in content)
    return struct.pack("<IIQ", ARRAY, of, len(content)) + elements


def tensor_bytes(tensor: Tensor) -> int:
    if isinstance(tensor.kind, int):
        return 4 * 32
    kind = ggml.BY_NAME[tensor.kind]
    size = kind.bytes
    for place, length in enumerate(tensor.shape):
        size = size * length if place else -(-size * length // kind.block)
    return size


def padded(size: int, alignment: int = 32) -> int:
    return -(-size // alignment) * alignment


def header(
    keys: Keys = (),
    tensors: Iterable[Tensor] = (),
    *,
    version: int = 3,
    alignment: int = 32,
    key_count: int | None = None,
    tensor_count: int | None = None,
) -> bytes:
    """All before the data section, padded."""
    pairs = list(keys.items() if isinstance(keys, Mapping) else keys)
    infos = list(tensors)
    counts = (
        len(infos) if tensor_count is None else tensor_count,
        len(pairs) if key_count is None else key_count,
    )
    out = [b"GGUF", struct.pack("<IQQ", version, *counts)]
    out += [string(key) + written(value) for key, value in pairs]
    offset = 0
    for tensor in infos:
        number = tensor.kind if isinstance(tensor.kind, int) else NUMBERS[tensor.kind]
        dimensions = len(tensor.shape) if tensor.dimensions is None else tensor.dimensions
        at = offset if tensor.offset is None else tensor.offset
        out += [
            string(tensor.name),
            struct.pack("<I", dimensions),
            struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape),
            struct.pack("<IQ", number, at),
        ]
        offset = padded(offset + tensor_bytes(tensor), alignment)
    whole = b"".join(out)
    return whole.ljust(padded(len(whole), alignment), b"\0") if infos else whole


def data_bytes(tensors: Iterable[Tensor], alignment: int = 32) -> int:
    """Of the data section, the last tensor unpadded."""
    size = 0
    for tensor in tensors:
        size = padded(size, alignment) + tensor_bytes(tensor)
    return size


def write(
    path: Path,
    keys: Keys = (),
    tensors: Iterable[Tensor] = (),
    *,
    alignment: int = 32,
    cut: int = 0,
    extra: int = 0,
) -> Path:
    """A file with a hole for its data, `cut` bytes short or `extra` bytes too long."""
    infos = list(tensors)
    head = header(keys, infos, alignment=alignment)
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(len(head) + data_bytes(infos, alignment) - cut + extra)
    return path
