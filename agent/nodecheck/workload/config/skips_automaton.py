"""An automaton that matches many patterns at once, in time that grows with the name alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodecheck.workload.errors import WorkloadError

MOST_STATES = 60_000
"""Of all patterns of one list: half a second. Source: lists seen have 20,000 (700 wildcards)."""

MOST_STEPS = 1_000_000
"""Visits of a state while all names are matched: half a second and 50 MB. Real lists: 100,000."""

Piece = Callable[[int], int]
"""Given the state to go on from, makes the states of a part of a pattern and names their first."""


class Budget:
    """The work that the patterns of one model may cost, together."""

    def __init__(self) -> None:
        """Nothing is spent."""
        self.steps = 0

    def spend(self, steps: int) -> None:
        """Count work; WorkloadError where it gets too much."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise WorkloadError("the patterns of modules take too long to match")


class Automaton:
    """States of an automaton, each with what it takes, where it goes on and when it may be passed.

    State 0 is the end: what reaches it has matched.
    """

    def __init__(self, budget: Budget) -> None:
        """Hold the end alone."""
        self.chars: list[frozenset[str] | None] = [None]
        self.next: list[tuple[int, ...]] = [()]
        self.assertion: list[str] = [""]
        self.spend = budget.spend

    def state(
        self, following: tuple[int, ...], chars: frozenset[str] | None = None, assertion: str = ""
    ) -> int:
        """A new state: it takes one of `chars`, or goes on by itself."""
        if len(self.next) >= MOST_STATES:
            raise WorkloadError("the patterns of modules are too long")
        self.chars.append(chars)
        self.next.append(following)
        self.assertion.append(assertion)
        return len(self.next) - 1

    def one(self, chars: frozenset[str]) -> Piece:
        """One character of these."""
        return lambda after: self.state((after,), chars)

    def place(self, where: str) -> Piece:
        """The start (^) or the end ($) of the name."""
        return lambda after: self.state((after,), assertion=where)

    def any_of(self, pieces: list[Piece]) -> Piece:
        """One of these pieces."""
        return lambda after: self.state(tuple(piece(after) for piece in pieces))

    def chain(self, pieces: list[Piece]) -> Piece:
        """These pieces in turn."""

        def chained(after: int) -> int:
            for piece in reversed(pieces):
                self.spend(1)
                after = piece(after)
            return after

        return chained

    def repeated(self, piece: Piece, least: int, most: int | None) -> Piece:
        """The same piece so often; `most` is None for as often as it matches."""

        def any_number(after: int) -> int:
            loop = self.state(())
            self.next[loop] = (piece(loop), after)
            return loop

        def up_to(count: int, after: int) -> int:
            last = after
            for _ in range(count):
                after = self.state((piece(after), last))
            return after

        def repeated(after: int) -> int:
            after = any_number(after) if most is None else up_to(most - least, after)
            return self.chain([piece] * least)(after)

        return repeated

    def closure(self, states: Iterable[int], holds: str) -> frozenset[int]:
        """These states and all that follow without a character, where assertions in `holds` do."""
        seen = set(states)
        left = list(seen)
        while left:
            state = left.pop()
            self.spend(1)
            if self.chars[state] is None and (
                not self.assertion[state] or self.assertion[state] in holds
            ):
                fresh = [s for s in self.next[state] if s not in seen]
                seen.update(fresh)
                left.extend(fresh)
        return frozenset(seen)

    def moved(self, state: frozenset[int], char: str) -> frozenset[int]:
        """Where a character leads to."""
        self.spend(len(state))
        after = [
            self.next[s][0] for s in state if (taken := self.chars[s]) is not None and char in taken
        ]
        return self.closure(after, "")
