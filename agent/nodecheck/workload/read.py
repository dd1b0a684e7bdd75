"""The model that a path names, whatever kind of file or folder it is."""

from __future__ import annotations

import codecs
import re
import stat
from pathlib import Path

from msgspec.structs import replace

from nodecheck.serving import Workload
from nodecheck.workload.config import from_config
from nodecheck.workload.errors import WorkloadError, shown
from nodecheck.workload.files import (
    GGUF_MAGIC,
    HEAD_BYTES,
    inside,
    open_regular,
    refuse_other_kinds,
)
from nodecheck.workload.gguf import model as gguf_model
from nodecheck.workload.gguf import splits
from nodecheck.workload.gguf.header import Header, read_header
from nodecheck.workload.hf import checkpoint, folder
from nodecheck.workload.hf.folder import Choice

MOST_BYTES = 1 << 50
"""Of a model's weights, a thousand times those of the largest known (1 to 2 TB)."""

_INDEX_HEAD_BYTES = 64 << 10
"""An index names its weight_map near its begin, before or after a few numbers of metadata."""

_SNAPSHOT = "models--"
"""Begins the folder of a model in the cache of huggingface_hub: models--Qwen--Qwen3-8B."""

_PART = re.compile(r"-\d{5}-of-\d{5}$")
_NAMELESS = ("model", "config", "model.safetensors.index", "consolidated", "pytorch_model")
"""Names that every model's files have."""


def read_workload(path: Path) -> Workload:
    """The workload of a GGUF, a safetensors file or index, a folder or a config.json.

    Every failure is a WorkloadError of one line without the path. May hang where a file server
    does: call it in a child that can be killed.
    """
    try:
        work = _workload(path, _choice(path))
    except MemoryError as error:
        raise WorkloadError("there is too little memory to read it") from error
    except RecursionError as error:
        raise WorkloadError("nested too deeply") from error
    except OSError as error:
        raise WorkloadError(error.strerror or "cannot be read") from error
    _refuse_unlikely(work)
    return work


def _refuse_unlikely(work: Workload) -> None:
    """Dimensions may each be sound and still make no model."""
    cache, state = work.kv_bytes_per_token, work.state_bytes_per_sequence
    sizes = {
        "weights": max(work.weight_bytes_shipped, work.weight_bytes_bf16 or 0),
        "cache a token": cache.bf16 if cache else 0,
        "state a sequence": state.llama_cpp if state else 0,
    }
    for what, size in sizes.items():
        if size > MOST_BYTES:
            raise WorkloadError(f"its dimensions come to {size:,} bytes of {what}, as in no model")


def model_files(path: Path) -> tuple[Path, ...]:
    """The files that an engine loads of the model; none where there is only a configuration.

    WorkloadError as read_workload.
    """
    try:
        return checkpoint.files_of(_choice(path))[0]
    except OSError as error:
        raise WorkloadError(error.strerror or "cannot be read") from error


def _choice(path: Path) -> Choice:
    """The files of the model, by what the path holds and not by what it is called."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            return folder.choose(path)
    except ValueError as error:
        raise WorkloadError(str(error)) from error
    except OSError:
        pass  # said better when it is opened
    with open_regular(path) as file:
        head = file.read_at(0, HEAD_BYTES)
    if not head:
        raise WorkloadError("an empty file")
    refuse_other_kinds(head, path.name)
    if head.startswith(GGUF_MAGIC):
        return _of_gguf(path)
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    looks_like_json = text.startswith((b"{", b"[")) and not path.name.endswith(".safetensors")
    if looks_like_json or path.name.endswith(".json"):
        return _of_json(path)
    if path.name.endswith(".gguf"):
        raise WorkloadError("no GGUF file: it does not begin with GGUF")
    return folder.of_shard(path)


def _of_gguf(path: Path) -> Choice:
    found = splits.parts(path, folder.known_names(path.parent, splits.part_names(path.name)))
    note = splits.note(path, found)
    return Choice(weights=found, is_gguf=True, notes=(note,) if note else ())


def _of_json(path: Path) -> Choice:
    """A configuration, or an index by its name or where the object holds a weight_map."""
    with open_regular(path) as file:
        is_index = b'"weight_map"' in file.read_at(0, _INDEX_HEAD_BYTES)
    if is_index or path.name.endswith(folder.INDEX_ENDING):
        return folder.of_index(path)
    return folder.of_config(path)


def _workload(path: Path, choice: Choice) -> Workload:
    name = _name(path)
    if choice.is_gguf:
        return _gguf(choice, name)
    if choice.weights or choice.index:
        return checkpoint.workload(choice, name)
    if choice.config is None:
        raise WorkloadError("no model")
    config = checkpoint.read_json(choice.config)
    quant = checkpoint.read_json(choice.quant_config) if choice.quant_config else None
    work = from_config(config, quant, name)
    return replace(work, notes=(*choice.notes, *work.notes))


def _gguf(choice: Choice, name: str) -> Workload:
    headers = [_header(part, len(choice.weights) > 1) for part in choice.weights]
    splits.check(headers)
    return gguf_model.workload(headers, name, choice.notes)


def _header(path: Path, is_part: bool) -> Header:
    if is_part:
        with inside(path.name):
            return _header(path, is_part=False)
    with open_regular(path) as file:
        return read_header(file)


def _name(path: Path) -> str:
    """What a model is called: its folder in a cache, the folder, the file without its ending."""
    for part in path.absolute().parts:
        if part.startswith(_SNAPSHOT):
            return shown(part.removeprefix(_SNAPSHOT).replace("--", "/"))
    stem = _PART.sub("", path.stem)
    if path.is_dir():
        return shown(path.resolve().name)
    return shown(path.resolve().parent.name if stem in _NAMELESS else stem)
