r"""Patterns of module names, in time that grows with the name alone. Pure.

They come from files that nobody vouches for, and Python's `re` takes exponential time for some.
What is understood: literals, `.`, classes, `\d` `\w` `\s`, groups, `|`, `* + ? {n,m}`, `^`, `$`.
"""

from __future__ import annotations

from nodecheck.workload.config.skips_automaton import Automaton, Budget, Piece
from nodecheck.workload.errors import NotEnoughMetadata, shown

MOST_REPEATS = 100
"""The largest number that a {n,m} may have."""

MOST_NESTING = 20
"""Groups in groups."""

PRINTABLE = frozenset(map(chr, range(0x20, 0x7F)))
"""All that a module's name is written in."""

_ITSELF = {char: frozenset(char) for char in PRINTABLE}
_DIGITS = frozenset("0123456789")
_WORDS = frozenset(c for c in PRINTABLE if c.isalnum() or c == "_")
_SPACES = frozenset(" ")
_CLASSES = {
    "d": _DIGITS, "D": PRINTABLE - _DIGITS,
    "w": _WORDS, "W": PRINTABLE - _WORDS,
    "s": _SPACES, "S": PRINTABLE - _SPACES,
}  # fmt: skip


def _itself(char: str) -> frozenset[str]:
    return _ITSELF.get(char) or frozenset(char)


class Patterns:
    """Wildcards and regular expressions, matched together."""

    def __init__(self, budget: Budget) -> None:
        """Hold none."""
        self._machine = Automaton(budget)
        self._starts: list[int] = []
        self._first: frozenset[int] | None = None
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def add_glob(self, pattern: str) -> None:
        """A pattern with `*` and `?`, for a module or for all that it holds."""
        make = self._machine
        end = make.any_of([make.place("$"), make.one(frozenset("."))])
        self._add(make.chain([*map(self._glob_piece, pattern), end]))

    def add_regex(self, pattern: str) -> None:
        """A regular expression that matches from a name's start on, not to its end."""
        self._add(_Parser(self._machine, pattern).all())

    def match(self, name: str) -> bool:
        """Whether any pattern matches the module's name."""
        self._machine.spend(1)
        if self._first is None:
            self._first = self._machine.closure(self._starts, "^")
        state = self._first
        for char in name:
            if 0 in state or not state:
                return bool(state)
            state = self._moved(state, char)
        return 0 in self._machine.closure(state, "$" if name else "^$")

    def _add(self, piece: Piece) -> None:
        self._starts.append(piece(0))
        self._first = None

    def _moved(self, state: frozenset[int], char: str) -> frozenset[int]:
        key = (state, char)
        if key not in self._moves:
            self._moves[key] = self._machine.moved(state, char)
        return self._moves[key]

    def _glob_piece(self, char: str) -> Piece:
        if char == "*":
            return self._machine.repeated(self._machine.one(PRINTABLE), 0, None)
        return self._machine.one(PRINTABLE if char == "?" else _itself(char))


class _Parser:
    """Reads one regular expression into pieces."""

    def __init__(self, machine: Automaton, text: str) -> None:
        self.make = machine
        self.text = text
        self.at = 0
        self.depth = 0

    def all(self) -> Piece:
        piece = self.alternatives()
        if self.at < len(self.text):
            raise self.unknown("an unmatched )")
        return piece

    def alternatives(self) -> Piece:
        pieces = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            pieces.append(self.sequence())
        return pieces[0] if len(pieces) == 1 else self.make.any_of(pieces)

    def sequence(self) -> Piece:
        pieces: list[Piece] = []
        while self.peek() not in ("", "|", ")"):
            pieces.append(self.quantified(self.atom()))
        return self.make.chain(pieces)

    def atom(self) -> Piece:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return self.make.one(self.char_class())
        if char == "\\":
            return self.escape()
        if char in "^$":
            return self.make.place(char)
        if char in "*+?":
            raise self.unknown(f"a {char} that repeats nothing")
        return self.make.one(PRINTABLE if char == "." else _itself(char))

    def group(self) -> Piece:
        if self.peek() == "?":
            if self.text[self.at : self.at + 2] != "?:":
                raise self.unknown("(?")
            self.at += 2
        self.depth += 1
        if self.depth > MOST_NESTING:
            raise self.unknown("groups nested so deep")
        piece = self.alternatives()
        if self.take() != ")":
            raise self.unknown("an unmatched (")
        self.depth -= 1
        return piece

    def escape(self) -> Piece:
        char = self.take()
        if char == "Z":
            return self.make.place("$")
        return self.make.one(self.escaped(char))

    def escaped(self, char: str) -> frozenset[str]:
        if char in _CLASSES:
            return _CLASSES[char]
        if not char or char.isalnum():
            raise self.unknown(f"\\{char}")
        return _itself(char)

    def char_class(self) -> frozenset[str]:
        negated = self.peek() == "^"
        self.at += negated
        chars: set[str] = set()
        first = True
        while (char := self.take()) != "]" or first:
            first = False
            if not char:
                raise self.unknown("an unmatched [")
            if char == "\\":
                chars |= self.escaped(self.take())
            elif self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                chars |= {c for c in PRINTABLE if char <= c <= self.text[self.at]}
                self.at += 1
            else:
                chars.add(char)
        return PRINTABLE - chars if negated else frozenset(chars)

    def quantified(self, piece: Piece) -> Piece:
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.peek())
        if bounds is not None:
            self.at += 1
        elif self.peek() == "{":
            bounds = self.braces()
        else:
            return piece
        if self.peek() == "?":
            self.at += 1
        if self.peek() and self.peek() in "*+{":
            raise self.unknown("a repetition of a repetition")
        return self.make.repeated(piece, *bounds)

    def braces(self) -> tuple[int, int | None]:
        inside, closed, _ = self.text[self.at + 1 :].partition("}")
        self.at += len(inside) + 2
        low, comma, high = inside.partition(",")
        digits = (low or "0") + (high or "0")
        if not closed or len(inside) > 7 or not (digits.isascii() and digits.isdigit()):
            raise self.unknown("a { without numbers")
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise self.unknown(f"{{{inside}}}")
        return least, most

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        self.at += 1
        return char

    def unknown(self, what: str) -> NotEnoughMetadata:
        return NotEnoughMetadata(
            f"the pattern {shown(self.text)!r} of modules has {what}, which is not understood;"
            " give the safetensors files"
        )
