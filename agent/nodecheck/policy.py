"""Policies: thresholds, waivers, requirements.

A policy file (TOML) may set any of them. Reading the file is the caller's; this module is pure.
"""

from __future__ import annotations

import datetime
import re
import sys
import zlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nodecheck.model import Finding, Struct
from nodecheck.quantities import (
    LARGEST_SIZE,
    QuantityError,
    parse_link,
    parse_rate,
    parse_size,
    parse_span,
    write_rate,
    write_size,
    write_span,
)
from nodecheck.thresholds import Amount, Bytes, Count, Thresholds
from nodecheck.units import GIB, MIB
from nodecheck.words import near


class PolicyError(ValueError):
    """A policy that cannot be used; the message is one line."""


Words = Annotated[str, Meta(pattern=r"\S")]


class ReferenceWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that strategies are judged for where the user names none."""

    name: str = "27B dense, 4-bit"
    weights_bytes: Annotated[int, Meta(gt=0)] = round(16.3 * GIB)
    """Bytes of all weights. Source: a 27B model at Q4_K_XL."""
    layers: Annotated[int, Meta(gt=0)] = 64
    """Transformer blocks."""
    weight_type: Literal["q4_0", "q4_k", "q8_0", "f16"] = "q4_k"
    kv_bytes_per_token: Bytes = 65536
    """Attention cache of a token. Source: 16 attention layers x 4 heads x 2 x 256 x 2 bytes."""


class Waiver(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding to live with: on one subject or on any; to the end of a day (UTC) or for good."""

    id: str
    reason: Words
    subject: Words | None = None
    expires: datetime.date | None = None

    def holds(self, day: datetime.date) -> bool:
        """Whether it waives on that day still."""
        return self.expires is None or day <= self.expires

    def covers(self, finding: Finding) -> bool:
        """Whether it is of this finding, on its subject or on any."""
        return self.id == finding.id and self.subject in (None, finding.subject)


class Requirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node must have to pass the gate; what is None or empty is not asked for."""

    instruction_sets: tuple[str, ...] = ()
    """By the names of /proc/cpuinfo: avx2, fma, ..."""
    dram_read_bytes_per_second: Amount | None = None
    """Least that memory must deliver, read on as many threads as do it best."""
    disk_free_bytes: Bytes | None = None
    """Least that must be available on the roomiest file system that keeps files."""
    gpus: Count | None = None
    """Fewest GPUs that this node may use."""
    pcie: str | None = None
    """Least link of every GPU, as gen4x16: the generation that it can train to, its width now."""


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the history is kept: what exceeds either goes, the oldest first."""

    age_seconds: Annotated[int, Meta(gt=0)] = 400 * 86_400
    """Source: a year, and what is needed to compare with the same month of the last."""
    size_bytes: Annotated[int, Meta(ge=MIB)] = 2 * GIB
    """Source: a year of a snapshot a minute, at 4 KB each."""


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node is held against. Without a `required` subject the verdict is unknown."""

    name: Words = "default"
    required: tuple[str, ...] = ("cpu", "memory", "disk")
    requirements: Requirements = Requirements()
    thresholds: Thresholds = Thresholds()
    reference_workload: ReferenceWorkload = ReferenceWorkload()
    waivers: tuple[Waiver, ...] = ()
    retention: Retention = Retention()

    def singled_out(self, id_: str) -> frozenset[str]:
        """The subjects that waivers of a finding name: each gets a finding of its own."""
        return frozenset(w.subject for w in self.waivers if w.id == id_ and w.subject)

    @property
    def label(self) -> str:
        """Its name, and a checksum of all of it that bears on a report."""
        judging = (
            self.required,
            self.thresholds,
            self.reference_workload,
            self.waivers,
            self.requirements.gpus,
        )
        return f"{self.name} ({zlib.crc32(msgspec.json.encode(judging)):08x})"


def parse_policy(toml: str, name: str) -> Policy:
    """The policy of a TOML text; `name`, its file, is for messages. Raises PolicyError."""
    try:
        content = _load_toml(toml)
        content.setdefault("name", name)
        return msgspec.convert(_in_numbers(content), Policy)
    except RecursionError as error:
        raise PolicyError(f"{name}: nested too deeply") from error
    except msgspec.ValidationError as error:
        raise PolicyError(f"{name}: {_plainly(str(error))}") from error
    except PolicyError as error:
        raise PolicyError(f"{name}: {error}") from error


_TABLES: dict[str, type[Struct]] = {
    "": Policy,
    "requirements": Requirements,
    "thresholds": Thresholds,
    "reference_workload": ReferenceWorkload,
    "waivers": Waiver,
    "retention": Retention,
}


def _plainly(error: str) -> str:
    """What msgspec says of a member too many or missing, in the words of who wrote the file."""
    match = re.fullmatch(
        r"Object (contains unknown|missing required) field `(.*?)`"
        r"(?: - at `\$\.(\w+)(?:\[(\d+)\])?`)?",
        error,
    )
    if not match or (match[3] or "") not in _TABLES:
        return error
    kind, member, table, number = match.groups(default="")
    place = f"{table} {int(number) + 1}: " if number else f"{table}: " if table else ""
    if kind == "missing required":
        return f"{place}{member} is missing"
    known = _TABLES[table].__struct_fields__
    return f"{place}there is no member {member[:40]!r}{near(member, known)}"


def _load_toml(text: str) -> dict[str, object]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content: dict[str, object] = tomllib.loads(text)
    except ValueError as error:  # also a number of thousands of digits
        raise PolicyError(f"not TOML: {str(error)[:200]}") from error
    return content


_QUANTITIES: dict[str, tuple[Callable[[str], float], Callable[[Any], str]]] = {
    "_bytes_per_second": (parse_rate, write_rate),
    "_bytes": (parse_size, write_size),
    "_seconds": (parse_span, write_span),
}
"""How the text of a member is read and written, by the end of its name."""


def in_units(name: str, value: object) -> str:
    """A member's value as a policy file has it, without quotes: "10GiB", "400d", "0.9"."""
    for end, (_, write) in _QUANTITIES.items():
        if name.endswith(end) and isinstance(value, (int, float)) and value == round(value):
            return write(value)
    return str(value)


def _in_numbers(content: object) -> object:
    """A copy in which every member that is a quantity in text has become a number."""
    if isinstance(content, list):
        return [_in_numbers(item) for item in content]
    if not isinstance(content, dict):
        return content
    return {key: _member(key, value) for key, value in content.items()}


def _member(key: str, value: object) -> object:
    try:
        return _number(key, value) if isinstance(value, str) else _in_numbers(_sane(key, value))
    except QuantityError as error:
        raise PolicyError(f"{key}: {error}") from error


def _number(key: str, text: str) -> object:
    if key == "pcie":
        parse_link(text)
    if key == "expires":
        raise QuantityError(f"{text[:40]!r} is text; write the date without quotes: 2027-06-30")
    parse = next((parse for end, (parse, _) in _QUANTITIES.items() if key.endswith(end)), str)
    return parse(text)


def _sane(key: str, value: object) -> object:
    """The value, if it is one that arithmetic can take, and a date where one is due."""
    if isinstance(value, (int, float)) and not -LARGEST_SIZE <= value <= LARGEST_SIZE:
        raise QuantityError("is no number that can be meant")
    if key == "expires" and type(value) is not datetime.date:
        raise QuantityError("is no date; write it as 2027-06-30, without a time")
    return value
