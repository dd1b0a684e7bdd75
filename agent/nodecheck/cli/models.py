"""The model that a command is asked about: a file that is read, or numbers; and how it is served.

A model's files may be hostile, or lie on a server that is gone: they are read in a child that can
be killed, before anything is done on the node.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import msgspec

from nodecheck.machine.asking import ask
from nodecheck.model import Struct
from nodecheck.render.layout import printable
from nodecheck.serving import Serving, Storage, Workload
from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.numbers import from_numbers

READ_SECONDS = 20.0
"""A file system that has given no header by then hangs. Source: a checkpoint of 200 files takes
under 5 s over NFS with 20 ms a file."""

STORAGE_SECONDS = 1.0
"""That a model's files are read for, to see how fast they come from the disk."""

STORAGE_GRACE_SECONDS = 2.0
"""Beside it, for a file system that answers slowly."""

WEIGHT_TYPE = "q4_k"
"""Of a model in numbers, unless said."""


class ModelOptions(Struct, frozen=True, kw_only=True):
    """A model's path, and --weights, --layers and --weight-type."""

    path: str | None
    weights_bytes: int | None
    layers: int | None
    weight_type: str | None

    @classmethod
    def of(cls, options: dict[str, Any]) -> ModelOptions:
        """Those that `size_options` adds, and the model's path. Raises UsageError."""
        if options["model"] == "":
            raise click.UsageError("the model's name is empty")
        return cls(
            path=options["model"],
            weights_bytes=options["weights"],
            layers=options["layers"],
            weight_type=options["weight_type"],
        )


class _Read(Struct, frozen=True, kw_only=True):
    """What came of reading a model: the workload, or one line on why there is none."""

    workload: Workload | None = None
    error: str | None = None


class _Looked(Struct, frozen=True, kw_only=True):
    """Where a model's files lie; None where there is only a configuration."""

    storage: Storage | None = None


def read_model(asked: ModelOptions) -> Workload | None:
    """The model that was asked about, None where none was. Raises ClickException."""
    if asked.path is None:
        return _in_numbers(asked)
    if asked.layers is not None:
        raise click.UsageError("--layers is for a model without a file: a file tells its own")
    work = read_file(asked.path)
    as_it_is = asked.weight_type is None and asked.weights_bytes is None
    return work if as_it_is else _restated(work, asked)


def _in_numbers(asked: ModelOptions) -> Workload | None:
    size = asked.weights_bytes
    if size is None and asked.layers is None:
        return None
    if size is None or asked.layers is None:
        raise click.UsageError("--weights and --layers go together where no file is named")
    weight_type = _known_type(asked.weight_type or WEIGHT_TYPE)
    return from_numbers(f"{weight_type} model", size, asked.layers, weight_type)


def _known_type(name: str) -> str:
    from nodecheck.workload.restate import storage_type

    try:
        return storage_type(name)
    except WorkloadError as error:
        raise click.BadParameter(str(error), param_hint="--weight-type") from error


def _restated(work: Workload, asked: ModelOptions) -> Workload:
    from nodecheck.workload.restate import restated

    try:
        return restated(work, asked.weight_type, asked.weights_bytes)
    except WorkloadError as error:
        raise click.UsageError(str(error)) from error


def read_file(path: str) -> Workload:
    """The model in a file, a folder or a checkpoint's index. Raises ClickException, one line."""

    def task() -> _Read:
        from nodecheck.workload.read import read_workload

        try:
            work = read_workload(Path(path))
            return _Read(workload=msgspec.structs.replace(work, name=_readable(work.name)))
        except WorkloadError as error:
            return _Read(error=str(error))
        except OSError as error:
            return _Read(error=error.strerror or type(error).__name__)

    outcome = ask("model", path, task, _Read, READ_SECONDS)
    if outcome.hung:
        raise _failed(path, f"{outcome.error}: its file system hangs, or it is no model")
    if outcome.value is None:
        raise _failed(path, f"cannot be read: {outcome.error}")
    if outcome.value.workload is None:
        raise _failed(path, outcome.value.error or "cannot be read")
    return msgspec.structs.replace(outcome.value.workload, named_by_user=True)


def with_storage(work: Workload, asked: ModelOptions, *, measures: bool) -> Workload:
    """The model with what is known of where its files lie; read from there for a moment, if told.

    A model in another type or size than its file's does not lie there.
    """
    if asked.path is None or asked.weights_bytes is not None or asked.weight_type is not None:
        return work
    path, seconds = asked.path, STORAGE_SECONDS if measures else 0.0

    def task() -> _Looked:
        from nodecheck.machine.storage import look
        from nodecheck.workload.read import model_files

        files = model_files(Path(path))
        if not files:
            return _Looked()
        seen = look(Path(path), files, seconds=seconds)
        taken = files[0] if work.format == "gguf" else files[0].parent
        return _Looked(storage=msgspec.structs.replace(seen, path=_readable(str(taken))))

    outcome = ask("storage", path, task, _Looked, seconds + STORAGE_GRACE_SECONDS)
    missing = Storage(path=_readable(path), detail=f"its file system: {outcome.error}")
    storage = missing if outcome.value is None else outcome.value.storage
    return msgspec.structs.replace(work, storage=storage or work.storage)


def _readable(name: str) -> str:
    """A name as text can hold it: file names are bytes of any kind."""
    return name.encode(errors="replace").decode()


def _failed(path: str, detail: str) -> click.ClickException:
    return click.ClickException(printable(f"{path}: {detail}"))


def read_serving(options: dict[str, Any]) -> Serving:
    """How the model is to be served, of the options that `serving_options` adds."""
    size, ratio = options["hicache_size"], options["hicache_ratio"]
    if size is not None and ratio is not None:
        raise click.UsageError("--hicache-size and --hicache-ratio exclude each other")
    for name in ("hicache_ratio", "acceptance"):
        if options[name] is not None and not math.isfinite(options[name]):
            raise click.BadParameter("not a number", param_hint=f"--{name.replace('_', '-')}")
    return Serving(
        context_tokens=options["context"],
        requests=options["requests"],
        kv_type=options["kv_type"],
        hicache_size_bytes=size,
        hicache_ratio=ratio,
        draft_tokens=options["draft_tokens"],
        acceptance=options["acceptance"],
    )
