"""Models in safetensors files, with their configuration where there is one."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodecheck.serving import Workload
from nodecheck.workload.config import parse
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown
from nodecheck.workload.files import HEAD_BYTES, inside, open_regular, refuse_other_kinds
from nodecheck.workload.hf import folder, model
from nodecheck.workload.hf.folder import Choice
from nodecheck.workload.hf.safetensors import read_tensors
from nodecheck.workload.hf.weights import Inventory

INDEX_LIMIT_BYTES = 40_000_000
"""Source: an index of Kimi K2 in NVFP4, with 280,000 tensors, takes some 31 MB."""

CONFIG_LIMIT_BYTES = 8 << 20
"""Source: hf_quant_config.json of DeepSeek-V3 in mixed precision lists 45,000 modules in 5 MB."""

TOTAL_TOLERANCE = 0.01
"""By how much an index's total_size may differ unnoticed: some count shared tensors twice."""


def read_json(path: Path) -> dict[str, Any]:
    """A configuration's object. WorkloadError names the file."""
    with inside(path.name), open_regular(path) as file:
        refuse_other_kinds(file.read_at(0, HEAD_BYTES), path.name)
        if file.size > CONFIG_LIMIT_BYTES:
            limit = f"over {CONFIG_LIMIT_BYTES:,}"
            raise WorkloadError(f"{file.size:,} bytes, {limit}: no configuration is as long")
        text = file.read_at(0, file.size)
    return parse(text, shown(path.name))


class _IndexText(msgspec.Struct):
    """model.safetensors.index.json."""

    weight_map: msgspec.Raw
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class Index(msgspec.Struct, frozen=True):
    """What an index says: the files, how many tensors they hold and of how many bytes."""

    files: frozenset[str]
    tensors: int
    total_size: object


_PIECE_BYTES = 1 << 20
_map = msgspec.json.Decoder(dict[str, str])


def read_index(path: Path) -> Index:
    """What an index names; the names of tensors are not kept."""
    with inside(path.name), open_regular(path) as file:
        refuse_other_kinds(file.read_at(0, HEAD_BYTES), path.name)
        if file.size > INDEX_LIMIT_BYTES:
            what = f"an index of {file.size:,} bytes, over {INDEX_LIMIT_BYTES:,}"
            raise NotEnoughMetadata(f"{what}, is not read: name its config.json")
        return _named(file.read_at(0, file.size).removeprefix(codecs.BOM_UTF8))


def _named(text: bytes) -> Index:
    try:
        index = msgspec.json.decode(text, type=_IndexText)
        total = msgspec.json.decode(index.metadata, type=dict[str, object]).get("total_size")
        files: set[str] = set()
        tensors = 0
        for piece in _pieces(memoryview(index.weight_map)):
            names = _map.decode(piece)
            tensors += len(names)
            files.update(names.values())
            if len(files) > folder.MOST_SHARDS:
                raise WorkloadError(f"it names more than {folder.MOST_SHARDS} files")
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WorkloadError(f"no index of tensors: {shown(error)}") from error
    return Index(frozenset(files), tensors, total)


def _pieces(entries: memoryview) -> Iterator[bytes]:
    """An object of strings, in several: each ends behind a string and its comma."""
    if bytes(entries[:1]) != b"{":
        raise WorkloadError("no index of tensors: weight_map is no object")
    at = 1
    while at + _PIECE_BYTES < len(entries):
        piece = bytes(entries[at : at + _PIECE_BYTES])
        cut = piece.rfind(b'",')
        if cut < 0:
            raise WorkloadError(f"no index of tensors: a name of over {_PIECE_BYTES:,} bytes")
        yield b"{" + piece[: cut + 1] + b"}"
        at += cut + 2
    yield b"{" + bytes(entries[at:])


def files_of(choice: Choice) -> tuple[tuple[Path, ...], Index | None]:
    """A model's files, and what the index says that named them."""
    if choice.index is None:
        return choice.weights, None
    named = read_index(choice.index)
    return folder.shards(choice.index, named.files), named


def workload(choice: Choice, name: str) -> Workload:
    """The workload of a model in safetensors files. WorkloadError names the file and what it is."""
    files, named = files_of(choice)
    inventory = Inventory()
    for file in files:
        if len(files) > 1:
            with inside(file.name):
                _read(file, inventory)
        else:
            _read(file, inventory)
    config = read_json(choice.config) if choice.config else None
    quant = read_json(choice.quant_config) if choice.quant_config else None
    notes = (*choice.notes, *_index_notes(named, inventory))
    return model.workload(inventory, config, quant, name, notes)


def _read(path: Path, inventory: Inventory) -> None:
    with open_regular(path) as file:
        for tensors in read_tensors(file):
            inventory.add(tensors)


def _index_notes(named: Index | None, inventory: Inventory) -> Sequence[str]:
    """Where the index contradicts the headers, which count."""
    if named is None:
        return ()
    notes = []
    total, held = named.total_size, inventory.bytes
    if total is not None and (isinstance(total, bool) or not isinstance(total, int)):
        notes.append(f"the index's total_size is {shown(repr(total))}, no number of bytes")
    elif isinstance(total, int) and abs(total - held) > TOTAL_TOLERANCE * held:
        notes.append(f"the index says {total:,} bytes, the headers {held:,}: the latter count")
    if named.tensors != inventory.tensors:
        count = f"{named.tensors:,} tensors, the files hold {inventory.tensors:,}"
        notes.append(f"the index names {count}: the latter count")
    return notes
