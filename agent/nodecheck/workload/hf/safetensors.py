"""The header of a safetensors file, read in pieces: its size bounds no memory.

Source of the format and of what is refused: the safetensors library 0.8.0 (Rust), docs and code.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator

import msgspec

from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown
from nodecheck.workload.files import HEAD_BYTES, RegularFile, refuse_other_kinds

LENGTH_BYTES = 8

HEADER_LIMIT_BYTES = 100_000_000
"""Longer headers are refused by the library too."""

MOST_TENSORS = 400_000
"""Of one model, over all its shards: what can be read in about a second.

The most of a known model are some 280,000 (Kimi K2 in NVFP4: 60 layers, 384 experts, three matrices
of four tensors each).
"""

LONGEST_ENTRY_BYTES = 2 << 20
"""Of one tensor's entry, or of all `__metadata__`; real ones are a hundred bytes, or a few KiB."""

LONGEST_NAME = 512
"""Characters of a tensor's name; real ones are below 200. Longer ones take seconds to place."""

MOST_DIMENSIONS = 64
"""PyTorch holds no tensor of more."""

PIECE_BYTES = 256 << 10
"""The header is decoded in pieces of about this length."""

METADATA = "__metadata__"

BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of an element, by dtype. Source: safetensors 0.8.0, Dtype."""

WORD = 1 << 64
_BLANK = b" \t\r\n"


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """One entry of a header; `data_offsets` count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def bytes(self) -> int:
        """As stored."""
        return self.data_offsets[1] - self.data_offsets[0]

    @property
    def elements(self) -> int:
        """Numbers of its dtype; packed ones hold several parameters each."""
        return math.prod(self.shape)


_MEMBERS = (b'"dtype"', b'"shape"', b'"data_offsets"')
_tensors = msgspec.json.Decoder(dict[str, Tensor])
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_one_tensor = msgspec.json.Decoder(Tensor)
_metadata = msgspec.json.Decoder(dict[str, str] | None)


def read_tensors(file: RegularFile) -> Iterator[dict[str, Tensor]]:
    """The header's tensors by name, some thousands at a time.

    WorkloadError where the file is none, its header breaks a rule, or its data is not covered
    exactly, which shows at the end. That names of different pieces differ is not looked at here.
    """
    begin, end = _header(file)
    covered = _Coverage(file.size - end)
    count = 0
    for tensors in _decoded(file, begin, end):
        count += len(tensors)
        if count > MOST_TENSORS:
            raise too_many_tensors()
        for name, tensor in tensors.items():
            _check(name, tensor)
        covered.add(tensors.values())
        yield tensors
    covered.check()


def too_many_tensors() -> NotEnoughMetadata:
    """The answer to more than MOST_TENSORS."""
    return NotEnoughMetadata(
        f"there are more than {MOST_TENSORS:,} tensors, which are not read: name its config.json"
    )


def _header(file: RegularFile) -> tuple[int, int]:
    """Where the header's object begins, and the data. Nothing is read that its length claims."""
    head = file.read_at(0, HEAD_BYTES)
    refuse_other_kinds(head, file.name)
    if len(head) < LENGTH_BYTES:
        raise WorkloadError(f"{len(head)} bytes, too short for a safetensors file")
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    if length > HEADER_LIMIT_BYTES:
        raise WorkloadError(
            f"no safetensors file: a header of {length:,} bytes, over {HEADER_LIMIT_BYTES:,}"
        )
    end = LENGTH_BYTES + length
    if end > file.size:
        raise WorkloadError(
            f"truncated: its header ends at byte {end:,}, the file at {file.size:,}"
        )
    if head[LENGTH_BYTES : LENGTH_BYTES + min(length, 1)] != b"{":
        raise WorkloadError("no safetensors file: its header does not begin with {")
    return LENGTH_BYTES, end


def _decoded(file: RegularFile, begin: int, end: int) -> Iterator[dict[str, Tensor]]:
    for at, piece in _pieces(file, begin + 1, _without_padding(file, end)):
        try:
            tensors = _tensors.decode(piece)
        except (msgspec.MsgspecError, RecursionError):
            tensors = _decoded_singly(piece, at)
        if any(piece.count(member) != len(tensors) for member in _MEMBERS):
            _refuse_duplicates(piece)
        yield tensors


def _without_padding(file: RegularFile, end: int) -> int:
    """Where the blanks begin that may fill up a header; its first byte is none."""
    kept = 0
    while not kept and end > LENGTH_BYTES:
        begin = max(LENGTH_BYTES, end - PIECE_BYTES)
        kept = len(file.read_at(begin, end - begin).rstrip(_BLANK))
        end = begin + kept
    return end


def _pieces(file: RegularFile, at: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The entries from `at` to the header's brace, as objects; with the file's offset of each.

    A piece ends after an entry's brace. One that is cut elsewhere, in a name with a brace and a
    comma in it, is no JSON, and is refused when it is decoded.
    """
    size, behind_comma = PIECE_BYTES, False
    while at + size < end:
        text = file.read_at(at, size)
        blanks = len(text) - len(text.lstrip(_BLANK))
        cut = text.rfind(b"},")
        if cut >= 0:
            yield at - 1, b"{" + text[: cut + 1] + b"}"
            at, size, behind_comma = at + cut + 2, PIECE_BYTES, True
        elif blanks:
            at += blanks
        elif size < LONGEST_ENTRY_BYTES:
            size *= 2
        else:
            raise NotEnoughMetadata(
                f"what the header holds at byte {at:,} is longer than {LONGEST_ENTRY_BYTES:,} bytes"
            )
    text = file.read_at(at, end - at)
    if behind_comma and text.lstrip(_BLANK).startswith(b"}"):
        raise WorkloadError(f"the header is not JSON: a comma before byte {at:,} ends nothing")
    yield at - 1, b"{" + text


def _decoded_singly(piece: bytes, at: int) -> dict[str, Tensor]:
    """The same where `__metadata__` is among them; else what is wrong, and with which tensor."""
    name = ""
    try:
        parts = _parts.decode(piece)
        for name, part in parts.items():
            (_metadata if name == METADATA else _one_tensor).decode(part)
    except (msgspec.MsgspecError, RecursionError) as error:
        of = f"the header's entry {shown(name)}:" if name else "the header is not JSON:"
        raise WorkloadError(f"{of} {_where(error, at)}") from error
    return {name: _one_tensor.decode(p) for name, p in parts.items() if name != METADATA}


_BYTE = re.compile(r"(.*) \(byte ([0-9]+)\)")
_MEMBER = re.compile(r"(.*) - at `\$\.?(.*)`")


def _where(error: Exception, at: int = 0) -> str:
    """What msgspec says, with the file's own offset."""
    text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    if found := _BYTE.fullmatch(text):
        return f"{shown(found[1])}, byte {at + int(found[2]):,}"
    found = _MEMBER.fullmatch(text)
    return shown(f"{found[2]}: {found[1]}" if found else text)


def _refuse_duplicates(piece: bytes) -> None:
    """WorkloadError where an object holds a key twice; `__metadata__` may.

    What stands under a key's first use was never decoded, and may be anything.
    """
    try:
        json.loads(piece, object_pairs_hook=_distinct, parse_int=str)  # no limit on digits
    except WorkloadError:
        raise
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"the header is not JSON: {shown(error)}") from error


def _distinct(pairs: list[tuple[str, object]]) -> None:
    if not pairs or all(isinstance(value, str) for _, value in pairs):
        return
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise WorkloadError(f"the header holds {shown(key)} twice")
        seen.add(key)


def _check(name: str, tensor: Tensor) -> None:
    """WorkloadError where dtype, shape and offsets do not fit each other, or its name is long."""
    if len(name) > LONGEST_NAME:
        raise NotEnoughMetadata(
            f"the name of tensor {shown(name)} has {len(name):,} characters, over {LONGEST_NAME}:"
            " name its config.json"
        )
    bits = BITS.get(tensor.dtype)
    begin, end = tensor.data_offsets
    if bits is None:
        raise _wrong(name, f"its dtype {shown(tensor.dtype)} is not known")
    if not 0 <= begin <= end < WORD:
        raise _wrong(name, f"its data lies from byte {begin} to {end}")
    shape = tensor.shape
    if len(shape) > MOST_DIMENSIONS or (shape and min(shape) < 0):
        raise _wrong(name, f"no tensor has the shape {list(shape)}")
    elements = math.prod(shape)
    if not elements and math.prod(shape[: shape.index(0)]) >= WORD:
        raise _wrong(name, f"the shape {list(shape)} is more than 64 bits can count")
    if elements * bits != (end - begin) * 8:
        stored = f"{tensor.dtype} of the shape {list(shape)}"
        raise _wrong(name, f"{end - begin:,} bytes cannot hold {stored}")


def _wrong(name: str, what: str) -> WorkloadError:
    return WorkloadError(f"tensor {shown(name)}: {shown(what)}")


class _Coverage:
    """Whether tensors cover the data exactly: no hole, no overlap, nothing behind them.

    Empty tensors cover nothing, wherever they are said to lie.
    """

    def __init__(self, data_bytes: int) -> None:
        self._data_bytes = data_bytes
        self._end = 0
        self._begins, self._ends = array("Q"), array("Q")

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Most files hold their tensors in the header's order, of which one number is kept."""
        for tensor in tensors:
            begin, end = tensor.data_offsets
            if begin == self._end:
                self._end = end
            elif begin < end:
                self._begins.append(begin)
                self._ends.append(end)

    def check(self) -> None:
        """WorkloadError where they do not, once all tensors are added.

        Each begins where another ends, but for the first, only where they cover without overlap.
        """
        begins = array("Q", sorted(self._begins))
        for begin, end in zip(begins, sorted(self._ends), strict=True):
            if begin != self._end:
                what = "overlap" if begin < self._end else "leave a hole"
                raise WorkloadError(f"its tensors {what} at byte {begin:,} of the data")
            self._end = end
        missing = self._end - self._data_bytes
        if missing > 0:
            held = f"{missing:,} of {self._end:,} bytes of the data are missing"
            raise WorkloadError(f"truncated: {held}")
        if missing < 0:
            raise WorkloadError(f"{-missing:,} bytes behind its last tensor belong to none")
