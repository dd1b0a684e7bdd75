"""The files of weights that an engine maps: how large, how much in memory, stored as what."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from nodecheck.checks.engine import mappings
from nodecheck.checks.engine.facts import ModelFile
from nodecheck.checks.engine.mappings import Mapped
from nodecheck.machine import page_cache
from nodecheck.model import Reason, Struct
from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.files import GGUF_MAGIC, RegularFile
from nodecheck.workload.gguf.header import read_header

LARGE_BYTES = 64 << 20
"""Smaller ones of names that say little are no weights."""

PART_BYTES = 4 << 30
"""Of a file whose pages are counted at a time: a million pages take some 50 ms."""

CACHE_SECONDS = 1.0
HEADER_SECONDS = 1.0
"""After this no further file is asked about: a model comes in up to a hundred."""

_WEIGHTS = re.compile(r".+\.(?:gguf|safetensors)")
_LARGE_WEIGHTS = re.compile(r".+\.(?:bin|pth?|ggml)|(?:sha256-)?[0-9a-f]{40,64}")
"""The last are files of the caches of ollama and Hugging Face, by their hash."""


class Seen(Struct, frozen=True, kw_only=True):
    """The files, and why the first of those whose pages could not be counted was not."""

    files: tuple[ModelFile, ...] = ()
    reason: Reason | None = None
    detail: str = ""


def is_model(file: Mapped) -> bool:
    """Whether a mapped file holds weights, by its name and what is mapped of it."""
    if file.is_code:
        return False
    is_large = file.mapped_bytes >= LARGE_BYTES and _LARGE_WEIGHTS.fullmatch(file.name)
    return bool(_WEIGHTS.fullmatch(file.name) or is_large)


def without_looking(files: Iterable[Mapped]) -> tuple[ModelFile, ...]:
    """What /proc/PID/maps tells of them."""
    return tuple(ModelFile(path=file.path, mapped_bytes=file.mapped_bytes) for file in files)


def look(files: Iterable[Mapped]) -> Seen:
    """The same files, the largest first, and what they tell themselves."""
    begun = time.monotonic()
    found: list[ModelFile] = []
    failed: tuple[Reason, str] | None = None
    for file in sorted(files, key=lambda each: -each.mapped_bytes):
        model, error = _look_at(file, begun)
        found.append(model)
        failed = failed or error
    reason, detail = failed or (None, "")
    return Seen(files=tuple(found), reason=reason, detail=detail)


def _look_at(file: Mapped, begun: float) -> tuple[ModelFile, tuple[Reason, str] | None]:
    plain = ModelFile(path=file.path, mapped_bytes=file.mapped_bytes)
    try:
        with mappings.opened(file) as fd:
            return _told(file, fd, begun)
    except OSError as error:
        reason = Reason.DENIED if isinstance(error, PermissionError) else Reason.FAILED
        return plain, (reason, f"{file.path}: {error.strerror}")


def _told(file: Mapped, fd: int, begun: float) -> tuple[ModelFile, tuple[Reason, str] | None]:
    size = os.fstat(fd).st_size
    is_in_time = time.monotonic() < begun + CACHE_SECONDS
    cached = _cached(fd, size, begun + CACHE_SECONDS)  # before its head is read
    told = ModelFile(
        path=file.path,
        size_bytes=size,
        mapped_bytes=file.mapped_bytes,
        cached_bytes=cached,
        weight_type=_weight_type(file, fd, begun + CACHE_SECONDS + HEADER_SECONDS),
    )
    if cached is not None:
        return told, None
    if is_in_time and time.monotonic() < begun + CACHE_SECONDS:
        detail = f"{file.path}: the kernel tells its pages to who owns the file or may write it"
        return told, (Reason.DENIED, detail)
    return told, (Reason.TIMEOUT, f"{file.path}: its pages could not be counted in time")


def _cached(fd: int, size: int, end: float) -> int | None:
    found = 0
    for offset in range(0, size, PART_BYTES):
        if time.monotonic() >= end:
            return None
        part = page_cache.cached_bytes(fd, offset, min(PART_BYTES, size - offset))
        if part is None:
            return None
        found += part
    return found


def _weight_type(file: Mapped, fd: int, end: float) -> str | None:
    """What most bytes of a GGUF file are stored as."""
    if time.monotonic() >= end or os.pread(fd, len(GGUF_MAGIC), 0) != GGUF_MAGIC:
        return None
    try:
        with RegularFile(Path(file.path), os.dup(fd)) as opened:
            header = read_header(opened)
    except WorkloadError:
        return None
    sizes: Counter[str] = Counter()
    for tensor in header.tensors:
        sizes[tensor.type] += tensor.bytes
    return sizes.most_common(1)[0][0] if sizes else None
