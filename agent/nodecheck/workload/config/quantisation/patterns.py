r"""Wildcards and regular expressions of module names, matched in bounded time. Pure.

They come from files that nobody vouches for, and Python's `re` takes exponential time for some. So
`re` is left wildcards and runs of characters; groups, alternatives and repetitions work here on all
places of a name at once. Understood are literals, `.`, classes, `\d` `\w` `\s`, groups, `|`,
`* + ? {n,m}`, `^`, `$`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable

from nodecheck.workload.errors import NotEnoughMetadata, shown

MOST_REPEATS = 100
"""The largest number that a {n,m} may have."""

MOST_NESTING = 20
"""Groups in groups."""


class Name:
    """A module's name. A set of places in it is a whole number: bit n is the place before text[n].

    `spend` counts steps of matching, and raises where they get too many.
    """

    def __init__(self, text: str, spend: Callable[[int], None]) -> None:
        """Nothing is looked for yet."""
        self.text = text
        self.spend = spend
        self._begins: dict[re.Pattern[str], int] = {}

    def begins(self, run: re.Pattern[str]) -> int:
        """The places where a run of characters begins; `run` looks ahead, for they may overlap."""
        if run not in self._begins:
            self._begins[run] = sum(1 << found.start() for found in run.finditer(self.text))
        return self._begins[run]


Part = Callable[[Name, int], int]
"""A part of an expression: given the places where it may begin, those where it may end."""


def wildcards(patterns: Iterable[str]) -> re.Pattern[str]:
    """What matches a name, or one that goes on with a dot, by any of these; fnmatch is linear."""
    wholes = (whole for pattern in patterns for whole in (pattern, f"{pattern}.*"))
    return re.compile("|".join(map(fnmatch.translate, wholes)))


def expression(text: str) -> Part:
    """A regular expression, which matches a name where `part(name, 1)` is not 0: from its start on.

    NotEnoughMetadata where it is not understood.
    """
    parser = _Parser(text)
    part = parser.alternatives(MOST_NESTING)
    if parser.tokens:
        raise parser.unknown("an unmatched )")
    return part


def _characters(run: re.Pattern[str], length: int) -> Part:
    return lambda name, at: (at & name.begins(run)) << length


def _many(character: re.Pattern[str]) -> Part:
    """Any number of one character: the sum carries each place to the end of its run.

    Source: Cameron et al., Bitwise data parallelism in regular expression matching, MatchStar.
    """

    def ends(name: Name, at: int) -> int:
        taken = name.begins(character)
        return ((at & taken) + taken) ^ taken | at

    return ends


def _sequence(parts: list[Part]) -> Part:
    def ends(name: Name, at: int) -> int:
        name.spend(1 + len(parts))
        for part in parts:
            at = part(name, at) if at else 0
        return at

    return ends


def _any_of(parts: list[Part]) -> Part:
    def ends(name: Name, at: int) -> int:
        found = 0
        for part in parts:
            found |= part(name, at)
        return found

    return ends


def _repeated(part: Part, least: int, most: int | None) -> Part:
    """The same part so often; `most` is None for as often as it matches."""

    def ends(name: Name, at: int) -> int:
        name.spend(1 + least)
        for _ in range(least):
            at = part(name, at)
        found = fresh = at
        for _ in range(len(name.text) if most is None else most - least):
            fresh = part(name, fresh) & ~found
            if not fresh:
                break
            found |= fresh
        return found

    return ends


_TOKEN = re.compile(
    r"\[\^?(?:\w-\w|[^\\\[\]\-&|~]|\\[dDwWsS_\W])+-?\]"  # no class that `re` warns of
    r"|\\[dDwWsSZ_\W]|\(\?:|\{(?:\d{1,3}(?:,\d{0,3})?|,\d{1,3})\}|[^\\\[{]",
    re.DOTALL,
)
_REPEATS = {"*": "{0,}", "+": "{1,}", "?": "{0,1}"}

Bounds = tuple[int, int | None]
"""How often a part is repeated; None has no limit."""


class _Parser:
    """Reads an expression token by token; the next one is the last in `tokens`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [found[0] for found in _TOKEN.finditer(text)]
        if sum(map(len, self.tokens)) != len(text):
            raise self.unknown("an escape, a [ or a {")
        self.tokens.reverse()

    def alternatives(self, depth: int) -> Part:
        """Up to the end or a `)`; so many groups may be in each other."""
        parts = [self.sequence(depth)]
        while self.takes("|"):
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        run: list[str] = []
        while self.tokens and self.tokens[-1] not in ("|", ")"):
            word = self.tokens.pop()
            part = self.group_or_end(word, depth)
            bounds = self.bounds()
            if part is None and bounds is None:
                run.append(word)
                continue
            parts += self.characters(run)
            run = []
            if part is None:
                parts += self.characters([word], bounds)
            else:
                parts.append(_repeated(part, *bounds) if bounds else part)
        return _sequence(parts + self.characters(run))

    def group_or_end(self, word: str, depth: int) -> Part | None:
        """A group, the name's start or its end; None for a character."""
        if word == "^":
            return lambda _name, at: at & 1
        if word in ("$", r"\Z"):
            return lambda name, at: at & 1 << len(name.text)
        if word in _REPEATS or word.startswith("{"):
            raise self.unknown(f"a {word} that repeats nothing")
        if word not in ("(", "(?:"):
            return None
        if not depth:
            raise self.unknown("groups nested so deep")
        group = self.alternatives(depth - 1)
        if not self.takes(")"):
            raise self.unknown("an unmatched (")
        return group

    def bounds(self) -> Bounds | None:
        """How often what was read last is repeated."""
        word = _REPEATS.get(self.tokens[-1], self.tokens[-1]) if self.tokens else ""
        if not word.startswith("{"):
            return None
        self.tokens.pop()
        low, comma, high = word[1:-1].partition(",")
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise self.unknown(word)
        self.takes("?")
        if self.tokens and (self.tokens[-1] in ("*", "+") or self.tokens[-1].startswith("{")):
            raise self.unknown("a repetition of a repetition")
        return least, most

    def characters(self, tokens: list[str], bounds: Bounds | None = None) -> list[Part]:
        """Some in turn, or one that is repeated."""
        if not tokens:
            return []
        try:
            run = re.compile(f"(?={''.join(tokens)})", re.DOTALL)
        except re.error as error:
            raise self.unknown(str(error)) from None
        part = _characters(run, len(tokens))
        if bounds is None:
            return [part]
        least, most = bounds
        return [*[part] * least, _many(run)] if most is None else [_repeated(part, least, most)]

    def takes(self, word: str) -> bool:
        """Whether it comes next; it is taken then."""
        return bool(self.tokens) and self.tokens[-1] == word and bool(self.tokens.pop())

    def unknown(self, what: str) -> NotEnoughMetadata:
        return NotEnoughMetadata(
            f"the pattern {shown(self.text)!r} of modules has {what}, which is not understood;"
            " give the safetensors files"
        )
