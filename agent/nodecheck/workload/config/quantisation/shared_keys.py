"""Keys that more than one quantisation has. Pure."""

from __future__ import annotations

from typing import Any

from nodecheck.model import Struct
from nodecheck.workload.config.keys import Keys, whole
from nodecheck.workload.config.quantisation.module_names import Named
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown

SKIPS = (
    "modules_to_not_convert",
    "ignored_layers",
    "ignore",
    "exclude_modules",
    "llm_int8_skip_modules",
)
"""Keys under which writers list the modules that stay in float."""

FLOAT_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8}
"""Bytes of a number in each type that a checkpoint's floats have."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """What a scheme's bytes depend on beside its own keys."""

    model_type: str
    expert_type: str
    float_bytes: int


HEADERS_KNOW = "give the safetensors files"
"""What to do where config.json does not say how much is stored."""


def strings(keys: Keys, name: str) -> list[str]:
    """A list of strings; null and absent are empty."""
    values = keys.list_of(name) or []
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise WorkloadError(f"{keys.named(name)}[{index}] is {shown(value)}, not a string")
    return values


def text(keys: Keys, name: str, absent: str = "") -> str:
    """A string in lower case, or what its absence means."""
    value = keys.value(name)
    if value is None:
        return absent
    if not isinstance(value, str):
        raise WorkloadError(f"{keys.named(name)} is {shown(value)}, not a string")
    return value.lower()


def choice(keys: Keys, name: str, known: tuple[str, ...], absent: str) -> str:
    """One of the words that are known, or what its absence means."""
    value = text(keys, name, absent)
    if value not in known:
        raise NotEnoughMetadata(
            f"{keys.named(name)} is {shown(value)!r}, whose bytes are not known from config.json;"
            f" {HEADERS_KNOW}"
        )
    return value


def group_size(keys: Keys, absent: int | None = None, *names: str) -> int | None:
    """Columns that share a scale; None, written -1, where a row has one."""
    names = names or ("group_size",)
    value = keys.integer_or(names, -1 if absent is None else absent, least=-1)
    if value == 0:
        raise WorkloadError(f"{keys.named(keys.find(names)[0])} is 0: a group of no numbers")
    return None if value == -1 else value


def bits(keys: Keys, known: tuple[int, ...], *names: str) -> int:
    """Bits of a number, of those that a method has."""
    names = names or ("bits",)
    value = keys.integer(names)
    if value not in known:
        raise WorkloadError(
            f"{keys.named(keys.find(names)[0])} is {value}, none of {', '.join(map(str, known))}"
        )
    return value


def skipped(keys: Keys, *, inside_words: bool = False) -> Named[bool]:
    """What stays in float, of all lists that are there; AWQ looks for it inside of words."""
    found: Named[bool] = Named()
    for name in SKIPS:
        for module in strings(keys, name):
            if inside_words:
                found.add_substring(module, value=True)
            found.add(module, value=True)
    return found


def sides(keys: Keys, name: str) -> tuple[int, int] | None:
    """Rows and columns of a block, None where no block is said."""
    values = keys.list_of(name)
    if not values:
        return None
    where = keys.named(name)
    if len(values) != 2:
        raise WorkloadError(f"{where} is {shown(values)}, not two sides")
    return whole(f"{where}[0]", values[0], 1), whole(f"{where}[1]", values[1], 1)


def section_or_none(keys: Keys, name: str) -> Keys | None:
    """The object under a key, None where it is null, absent or empty."""
    value: Any = keys.value(name)
    return None if value is None or value == {} else keys.section(name)


def entry(keys: Keys, name: str) -> Keys:
    """The object under a key that a file made up: a module's name, a pattern, a group."""
    value = keys.inner[name]
    where = keys.named(shown(name))
    if not isinstance(value, dict):
        raise WorkloadError(f"{where} is {shown(value)}, not an object")
    return Keys(keys.top, value, where)


def not_known(method: str) -> NotEnoughMetadata:
    """A quantisation that stores what config.json does not tell."""
    return NotEnoughMetadata(
        f"bytes of quantisation {shown(method)!r} are not known from config.json; {HEADERS_KNOW}"
    )
