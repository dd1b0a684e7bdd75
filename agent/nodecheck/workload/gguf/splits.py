"""Models in several GGUF files, NAME-00001-of-00005.gguf and on. Pure.

Source: llama.cpp, src/llama.cpp (llama_split_path) and src/llama-model-loader.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from nodecheck.workload.errors import WorkloadError, listed, shown
from nodecheck.workload.gguf.header import Header

_NAME = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.DOTALL)
_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"


def part_names(name: str) -> list[str]:
    """Names of all parts of the model that the file of this name is a part of, or only its own.

    WorkloadError for a part's number that cannot be.
    """
    if (match := _NAME.fullmatch(name)) is None:
        return [name]
    prefix, number, count = match[1], int(match[2]), int(match[3])
    if not 1 <= number <= count:
        raise WorkloadError(f"part {number} of {count} by its name, which cannot be")
    return [f"{prefix}-{each:05d}-of-{count:05d}.gguf" for each in range(1, count + 1)]


def parts(path: Path, listing: Collection[str]) -> tuple[Path, ...]:
    """All parts of the model that `path` is a part of, the first one first; itself if it is whole.

    `listing` are the names in its folder. WorkloadError names the parts that are missing.
    """
    names = part_names(path.name)
    count = len(names)
    there = set(listing) | {path.name}
    if missing := [name for name in names if name not in there]:
        raise WorkloadError(_absent(missing, count))
    return tuple(path.with_name(name) for name in names)


def _absent(missing: Sequence[str], count: int) -> str:
    return f"{len(missing)} of {count} parts are missing in this folder: {listed(missing)}"


def note(path: Path, found: Sequence[Path]) -> str | None:
    """What is worth saying of the part that was named."""
    if path.name == found[0].name:
        return None
    first = shown(found[0].name)
    return f"{shown(path.name)} is a later part: a model is loaded by its first, {first}"


def check(headers: Sequence[Header]) -> None:
    """WorkloadError where these are not all parts of one model, in order."""
    first = headers[0]
    _check_count(first, len(headers))
    if len(headers) == 1:
        return
    for number, header in enumerate(headers):
        for key, wanted in ((_NUMBER, number), (_COUNT, len(headers))):
            if (said := header.metadata.get(key)) != wanted or isinstance(said, bool):
                raise WorkloadError(
                    f"part {number + 1} says {key} {shown(said)}, where {wanted} was expected"
                )
    _check_architecture(headers)
    _check_tensors(headers)


def _check_count(first: Header, files: int) -> None:
    count = first.metadata.get(_COUNT, 1)
    if type(count) is not int:
        raise WorkloadError(f"{_COUNT} is {shown(count)}, not a whole number")
    if files == 1 and count > 1:
        number = first.metadata.get(_NUMBER)
        which = number + 1 if type(number) is int else "one"
        raise WorkloadError(
            f"part {shown(which)} of {count} by {_COUNT}, but not by its name:"
            f" name it NAME-00001-of-{count:05d}.gguf, as llama-gguf-split does"
        )


def _check_architecture(headers: Sequence[Header]) -> None:
    key = "general.architecture"
    wanted = headers[0].metadata.get(key)
    for number, header in enumerate(headers[1:], 2):
        if (said := header.metadata.get(key, wanted)) != wanted:
            raise WorkloadError(
                f"part {number} is of architecture {shown(said)}, part 1 of {shown(wanted)}"
            )


def _check_tensors(headers: Sequence[Header]) -> None:
    seen: dict[str, int] = {}
    for number, header in enumerate(headers, 1):
        for tensor in header.tensors:
            if (other := seen.setdefault(tensor.name, number)) != number:
                raise WorkloadError(
                    f"tensor {shown(tensor.name)!r} is in part {other} and in part {number}"
                )
    total = headers[0].metadata.get(_TENSORS)
    if total != len(seen):
        raise WorkloadError(f"{_TENSORS} is {shown(total)}, but the parts hold {len(seen)} tensors")
