"""Which files of a folder are the model: repositories often hold the same weights several times."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from nodecheck.model import Struct
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, listed, shown
from nodecheck.workload.files import UNFINISHED
from nodecheck.workload.gguf import splits

MOST_FILES = 20_000
"""Of a folder that is looked into; repositories of models hold some hundred."""

MOST_SHARDS = 1024
"""Of one model. Source: the most seen are 191 (Llama 3.1 405B)."""

CONFIG, QUANT_CONFIG = "config.json", "hf_quant_config.json"
INDEX_ENDING = ".safetensors.index.json"
INDEX = f"model{INDEX_ENDING}"
WHOLE = "model.safetensors"

_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")
_GGUF_PART = re.compile(r"-\d{5}(?=-of-\d{5}\.gguf$)")
_NOT_THE_MODEL = re.compile(r"consolidated|adapter_|mmproj|imatrix|.*\blora\b|optimizer|rng_state")
"""Copies in another layout, and what goes with a model."""

_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


class Choice(Struct, frozen=True, kw_only=True):
    """The files of one model: safetensors or GGUF, or none where there is only a configuration."""

    weights: tuple[Path, ...] = ()
    index: Path | None = None
    is_gguf: bool = False
    config: Path | None = None
    quant_config: Path | None = None
    notes: tuple[str, ...] = ()


def listing(folder: Path) -> frozenset[str]:
    """The names in a folder. WorkloadError where it cannot be read or holds too many."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, MOST_FILES + 1)]
    except OSError as error:
        raise WorkloadError(error.strerror or "cannot be listed") from error
    if len(names) > MOST_FILES:
        raise WorkloadError(f"a folder of more than {MOST_FILES:,} files: name the model's own")
    return frozenset(names)


def known_names(folder: Path, wanted: Iterable[str]) -> frozenset[str]:
    """The names in a folder, or where it cannot be listed, those of the `wanted` that are there.

    For a file that was named, which may be read where its folder may not or holds too many.
    """
    try:
        return listing(folder)
    except WorkloadError:
        return frozenset(name for name in wanted if os.path.lexists(folder / name))


def choose(folder: Path) -> Choice:
    """The model that a folder holds: what its index names, one file, a set of shards, a GGUF.

    WorkloadError says what is missing or names the several that there are.
    """
    names = listing(folder)
    config = _beside(folder, names)
    if index := _index(names):
        return replace(config, index=folder / index)
    tensors = sorted(n for n in names if n.endswith(".safetensors") and not _is_other(n))
    ggufs = sorted(n for n in names if n.endswith(".gguf") and not _is_other(n))
    if tensors:
        files, notes = _one_model(folder, tensors, names)
        if ggufs:
            notes = (*notes, f"the folder also holds GGUF files, as {shown(ggufs[0])}: not used")
        return replace(config, weights=files, notes=notes)
    if ggufs:
        return Choice(weights=_one_gguf(folder, ggufs, names), is_gguf=True)
    if config.config is None:
        raise _nothing(names)
    pickled = any(name.endswith(_PICKLES) for name in names)
    note = "its weights are PyTorch pickles, which are not read: sizes are the configuration's"
    return replace(config, notes=(note,) if pickled else ())


def of_shard(path: Path) -> Choice:
    """The model that a safetensors file belongs to: all shards where its name says it is one."""
    shard = _SHARD.fullmatch(path.name)
    shards = _wanted_shards(shard[1], int(shard[3])) if shard else []
    names = known_names(path.parent, (CONFIG, QUANT_CONFIG, *shards)) | {path.name}
    config = _beside(path.parent, names)
    files, notes = _one_model(path.parent, [path.name], names)
    if len(files) > 1:
        notes = (f"{shown(path.name)} is one of {len(files)} shards: all of them are used",)
    return replace(config, weights=files, notes=notes)


def of_index(path: Path) -> Choice:
    """The model whose shards an index names."""
    names = known_names(path.parent, (CONFIG, QUANT_CONFIG))
    return replace(_beside(path.parent, names), index=path)


def of_config(path: Path) -> Choice:
    """A configuration alone, with a note where weights lie beside it."""
    names = known_names(path.parent, (QUANT_CONFIG, WHOLE))
    found = next((n for n in sorted(names) if n.endswith(".safetensors")), None)
    note = "sizes are the configuration's: name the folder to take those of the files beside it"
    quant = path.parent / QUANT_CONFIG if QUANT_CONFIG in names else None
    return Choice(config=path, quant_config=quant, notes=(note,) if found else ())


def shards(index: Path, named: Iterable[str]) -> tuple[Path, ...]:
    """The files that an index names, which lie in its folder or below.

    WorkloadError for a name that leads elsewhere, and where files are missing.
    """
    wanted = sorted(set(named))
    for name in wanted:
        _check_name(name)
    if not wanted:
        raise WorkloadError(f"{shown(index.name)} names no file")
    if len(wanted) > MOST_SHARDS:
        raise WorkloadError(f"{shown(index.name)} names {len(wanted):,} files, over {MOST_SHARDS}")
    missing = [name for name in wanted if not os.path.lexists(index.parent / name)]
    if missing:
        raise WorkloadError(_missing(missing, len(wanted), known_names(index.parent, ())))
    return tuple(index.parent / name for name in wanted)


def _check_name(name: str) -> None:
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise WorkloadError(f"the index names {shown(name)!r}, which is not in its folder")
    if name.endswith(_PICKLES):
        raise WorkloadError("its weights are PyTorch pickles, which are not read: convert them")
    if not name.endswith(".safetensors"):
        raise WorkloadError(f"the index names {shown(name)!r}, which is no safetensors file")


def _missing(missing: Sequence[str], of: int, names: Iterable[str]) -> str:
    under_way = any(name.endswith(UNFINISHED) for name in names)
    download = "; a download is under way" if under_way else ""
    return f"{len(missing)} of {of} files are missing: {listed(missing)}{download}"


def _beside(folder: Path, names: Iterable[str]) -> Choice:
    return Choice(
        config=folder / CONFIG if CONFIG in names else None,
        quant_config=folder / QUANT_CONFIG if QUANT_CONFIG in names else None,
    )


def _is_other(name: str) -> bool:
    return _NOT_THE_MODEL.match(name.lower()) is not None


def _index(names: Iterable[str]) -> str | None:
    """The index, of whatever name; none where there are several and none is the usual one."""
    found = [n for n in names if n.endswith(INDEX_ENDING) and not _is_other(n)]
    return INDEX if INDEX in found else found[0] if len(found) == 1 else None


def _one_model(
    folder: Path, tensors: Sequence[str], names: frozenset[str]
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files of the one model among these, and what else is there."""
    if WHOLE in tensors:
        return (folder / WHOLE,), ()
    sets = {(found[1], int(found[3])) for n in tensors if (found := _SHARD.fullmatch(n))}
    singles = [n for n in tensors if not _SHARD.fullmatch(n)]
    if len(sets) == 1:
        ((prefix, count),) = sets
        return tuple(folder / name for name in _shard_names(prefix, count, names)), ()
    if sets or len(singles) > 1:
        raise WorkloadError(f"several models: {listed(tensors)}; name one")
    return (folder / singles[0],), ()


def _shard_names(prefix: str, count: int, names: frozenset[str]) -> list[str]:
    wanted = _wanted_shards(prefix, count)
    if missing := [name for name in wanted if name not in names]:
        raise WorkloadError(_missing(missing, count, names))
    return wanted


def _wanted_shards(prefix: str, count: int) -> list[str]:
    if not 1 <= count <= MOST_SHARDS:
        raise WorkloadError(
            f"{shown(prefix)}: {count} shards by its name, of {MOST_SHARDS} at most"
        )
    return [f"{prefix}-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)]


def _one_gguf(folder: Path, ggufs: Sequence[str], names: frozenset[str]) -> tuple[Path, ...]:
    """The one GGUF model, with all its parts."""
    sets = {_GGUF_PART.sub("", name): name for name in reversed(ggufs)}
    if len(sets) > 1:
        raise WorkloadError(f"several GGUF models: {listed(sorted(sets.values()))}; name one")
    return splits.parts(folder / ggufs[0], names)


def _nothing(names: Iterable[str]) -> WorkloadError:
    """Why a folder without weights and configuration is no model."""
    if "adapter_config.json" in names:
        return NotEnoughMetadata("a LoRA adapter is no model of its own: name its base model")
    if "params.json" in names:
        what = "params.json is not read: name a folder with the config.json of Hugging Face"
        return NotEnoughMetadata(what)
    if any(name.endswith(_PICKLES) for name in names):
        return WorkloadError("only PyTorch pickles, which are not read: convert to safetensors")
    if any(name.endswith(UNFINISHED) for name in names):
        return WorkloadError("nothing but unfinished downloads")
    return WorkloadError(
        "no model: neither *.safetensors, *.gguf nor config.json is in this folder"
    )
