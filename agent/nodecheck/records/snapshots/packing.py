"""Reports in few bytes: each as what it changes in an earlier one, which is kept whole.

Both are one byte that tells the encoding, then zlib. A change is found in the tree of the JSON and
not in its text, so that the 32 KiB which zlib looks back bound no report: what is equal is left out
wherever it lies, and zlib sees the rest, with the end of the earlier text to quote from.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Union

import msgspec

from nodecheck.model import Struct

ENCODING = b"\x01"
"""Of all that is written; a reader that finds another byte does not guess."""

WINDOW_BYTES = 32 << 10
"""How far zlib looks back. Source: RFC 1951."""

LARGEST_BYTES = 64 << 20
"""More than any report has, to bound what broken bytes can unpack to."""


class PackingError(ValueError):
    """Bytes that are no packed report; the message is one line."""


class _Put(Struct, frozen=True, array_like=True, tag=0):
    """Another value."""

    value: Any


class _Object(Struct, frozen=True, array_like=True, tag=1):
    """Members that changed or came, and those that went."""

    changed: dict[str, _Patch]
    gone: tuple[str, ...] = ()


class _Array(Struct, frozen=True, array_like=True, tag=2):
    """Elements that changed, by their place; as many as before."""

    changed: dict[int, _Patch]


class _Splice(Struct, frozen=True, array_like=True, tag=3):
    """`values` in the place of all but so many elements at the head and at the tail."""

    head: int
    tail: int
    values: list[Any]


_Patch = Union[_Put, _Object, _Array, _Splice]  # noqa: UP007 - msgspec evaluates it on Python 3.10


class Whole(Struct, frozen=True):
    """An earlier report: its JSON, and the same decoded."""

    text: bytes
    content: Any


def whole(text: bytes) -> Whole:
    """The report of a JSON text."""
    return Whole(text, msgspec.json.decode(text))


def pack_whole(report: Whole) -> bytes:
    """All of a report."""
    return ENCODING + zlib.compress(report.text, 9)


def unpack_whole(packed: bytes) -> Whole:
    """What `pack_whole` packed. Raises PackingError."""
    text = _inflate(packed, zlib.decompressobj())
    try:
        return whole(text)
    except msgspec.MsgspecError as error:
        raise PackingError(f"no packed report: {error}") from error


def pack(report: Whole, earlier: Sequence[Whole]) -> tuple[int, bytes]:
    """The report as changes to that of the earlier ones which it is nearest to: its place in them.

    Raises ValueError where there are none.
    """
    patches = [_ENCODE(_difference(each.content, report.content)) for each in earlier]
    place = min(range(len(patches)), key=lambda n: len(patches[n]))
    deflater = zlib.compressobj(9, zdict=earlier[place].text[-WINDOW_BYTES:])
    return place, ENCODING + deflater.compress(patches[place]) + deflater.flush()


def unpack(packed: bytes, earlier: Whole) -> Any:
    """The report, decoded, of its changes to an earlier one. Raises PackingError."""
    text = _inflate(packed, zlib.decompressobj(zdict=earlier.text[-WINDOW_BYTES:]))
    try:
        patch = _DECODER.decode(text)
        return earlier.content if patch is None else _patched(earlier.content, patch)
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise PackingError(f"no changes to that report: {error}") from error


def _inflate(packed: bytes, inflater: Any) -> bytes:
    if packed[:1] != ENCODING:
        raise PackingError("packed by another version of nodecheck, or broken")
    try:
        text: bytes = inflater.decompress(packed[1:], LARGEST_BYTES)
    except zlib.error as error:
        raise PackingError(f"no packed report: {error}") from error
    if not inflater.eof or inflater.unused_data:
        raise PackingError("no packed report: it ends too early or too late")
    return text


def _difference(before: Any, after: Any) -> _Patch | None:
    """What makes `before` to `after`; None where they are equal. 1, 1.0 and true are not."""
    if before == after and _ENCODE(before) == _ENCODE(after):
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        return _between_objects(before, after)
    if isinstance(before, list) and isinstance(after, list):
        return _between_arrays(before, after)
    return _Put(after)


def _between_objects(before: dict[str, Any], after: dict[str, Any]) -> _Patch | None:
    changed: dict[str, _Patch] = {}
    for key, value in after.items():
        patch = _difference(before[key], value) if key in before else _Put(value)
        if patch is not None:
            changed[key] = patch
    gone = tuple(key for key in before if key not in after)
    return _Object(changed, gone) if changed or gone else None


def _between_arrays(before: list[Any], after: list[Any]) -> _Patch | None:
    if len(before) != len(after):
        return _splice(before, after)
    changed = {
        place: patch
        for place, (old, new) in enumerate(zip(before, after, strict=True))
        if (patch := _difference(old, new)) is not None
    }
    return _Array(changed) if changed else None


def _splice(before: list[Any], after: list[Any]) -> _Splice:
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and _difference(before[head], after[head]) is None:
        head += 1
    tail = 0
    while tail < shorter - head and _difference(before[-1 - tail], after[-1 - tail]) is None:
        tail += 1
    return _Splice(head, tail, after[head : len(after) - tail])


def _patched(before: Any, patch: _Patch) -> Any:
    """A copy with the changes; what has none is shared with `before`."""
    if isinstance(patch, _Put):
        return patch.value
    if isinstance(patch, _Object):
        members = {key: value for key, value in before.items() if key not in patch.gone}
        for key, change in patch.changed.items():
            members[key] = _patched(members.get(key), change)
        return members
    if isinstance(patch, _Splice):
        tail = before[len(before) - patch.tail :] if patch.tail else []
        return before[: patch.head] + patch.values + tail
    elements = list(before)
    for place, change in patch.changed.items():
        elements[place] = _patched(elements[place], change)
    return elements


_ENCODE = msgspec.json.encode
_DECODER = msgspec.json.Decoder(Union[_Patch, None])  # noqa: UP007 - as above
