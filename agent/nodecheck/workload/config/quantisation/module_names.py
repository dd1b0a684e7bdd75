"""Which modules a quantisation names: to skip them, or to store them in some way. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, TypeVar

from nodecheck.workload.config.quantisation.patterns import Name, Part, expression, wildcards
from nodecheck.workload.errors import WorkloadError

WRAPPERS = frozenset(
    ("model", "language_model", "text_model", "transformer", "backbone", "decoder", "llm")
)
"""What stands before a text model's own names, or does not, by the writer of a checkpoint."""

PREFIXES = {
    "": ("model.",),
    "language_model": ("model.language_model.", "language_model.model."),
    "backbone": ("backbone.",),
}
"""What a regular expression that has this word may expect before a module's own name."""

ALL = ".experts.*."
"""What stands in a matrix' module for each expert of a layer; the first one's name is looked up."""

MOST_PATTERN_CHARACTERS = 40_000
"""Of all patterns of one list: half a second. Source: lists seen have 20,000 (700 wildcards)."""

STAR_CHARACTERS = 4
"""That a star counts more than another character, as it takes longer to compile."""

MOST_STEPS = 1_000_000
"""Of matching all names with one list, a second at most."""

MOST_SUBSTRINGS = 2_000
"""Entries of one list that are looked for inside names."""

Value = TypeVar("Value")


class Named(Generic[Value]):
    """Values by the names of modules, as quantisations write them.

    A plain name stands for the module and all that it holds, wherever it stands in a dotted name
    (transformers, vLLM); one with `*` or `?` for a whole name or its beginning (modelopt, gpt-oss);
    one after "re:" is a regular expression (compressed-tensors).
    """

    def __init__(self) -> None:
        """Name nothing yet."""
        self._plain: dict[str, Value] = {}
        self._patterns: dict[Value, _Patterns] = defaultdict(_Patterns)
        self._substrings: dict[str, Value] = {}
        self._prefixes = [""]
        self._characters = 0
        self._steps = 0

    def add(self, name: str, value: Value) -> None:
        """A name in any of these forms."""
        name = name.removesuffix(".weight")
        if name.startswith("re:"):
            self._add_expression(name.removeprefix("re:"), value)
        elif "*" in name or "?" in name:
            self._patterns[value].add_wildcard(self._counted(_own_name(name)))
        else:
            self._plain.setdefault(_own_name(name).strip("."), value)

    def add_substring(self, text: str, value: Value) -> None:
        """Text that stands anywhere in a name, also inside a word (AWQ)."""
        if text:
            self._substrings.setdefault(_own_name(text), value)
        if len(self._substrings) > MOST_SUBSTRINGS:
            raise WorkloadError(f"more than {MOST_SUBSTRINGS} modules are named by parts of names")

    def find(self, module: str) -> Value | None:
        """The value for a module: of its longest plain name, else of the first pattern."""
        own = _own_name(module).replace(ALL, ".experts.0.")
        for spelling in (own, _in_mlx(own)):
            for name in _parts(spelling):
                if name in self._plain:
                    return self._plain[name]
        names = [Name(prefix + own, self._spend) for prefix in self._prefixes]
        for value, patterns in self._patterns.items():
            if any(patterns.match(name) for name in names):
                return value
        return next((v for text, v in self._substrings.items() if text in f"{own}."), None)

    def _add_expression(self, pattern: str, value: Value) -> None:
        self._patterns[value].expressions.append(expression(self._counted(pattern)))
        for word, prefixes in PREFIXES.items():
            if word in pattern:
                self._prefixes += [p for p in prefixes if p not in self._prefixes]

    def _counted(self, pattern: str) -> str:
        self._characters += len(pattern) + STAR_CHARACTERS * pattern.count("*")
        if self._characters > MOST_PATTERN_CHARACTERS:
            raise WorkloadError("the patterns of modules are too long")
        return pattern

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise WorkloadError("the patterns of modules take too long to match")


class _Patterns:
    """Those of one value."""

    def __init__(self) -> None:
        self.expressions: list[Part] = []
        self._wildcards: list[str] = []
        self._any_wildcard: re.Pattern[str] | None = None

    def add_wildcard(self, pattern: str) -> None:
        self._wildcards.append(pattern)
        self._any_wildcard = None

    def match(self, name: Name) -> bool:
        name.spend(len(self._wildcards))
        if self._wildcards and self._any_wildcard is None:
            self._any_wildcard = wildcards(self._wildcards)
        if self._any_wildcard is not None and self._any_wildcard.match(name.text):
            return True
        return any(part(name, 1) for part in self.expressions)


def _own_name(name: str) -> str:
    """A name without what wraps a text model; as it is where nothing else is left."""
    parts = name.split(".")
    start = next((i for i, part in enumerate(parts) if part not in WRAPPERS), 0)
    return ".".join(parts[start:])


def _parts(name: str) -> Iterator[str]:
    """All runs of a dotted name's words, the longest first."""
    words = name.split(".")
    for length in range(len(words), 0, -1):
        for start in range(len(words) - length + 1):
            yield ".".join(words[start : start + length])


def _in_mlx(module: str) -> str:
    """The name that MLX gives all experts of a layer together."""
    return module.replace(".experts.0.", ".switch_mlp.")
