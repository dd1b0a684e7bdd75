"""What is copied, in which order, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nodecheck.checks.cuda.facts import COPY, FROM_CARD, PAGEABLE, PEER, READ, TO_CARD
from nodecheck.checks.cuda.subjects import HOST_BUFFER_BYTES, Subject
from nodecheck.machine.cuda import CONTEXT_SECONDS, STEP_COST_SECONDS, Copy
from nodecheck.model import Struct
from nodecheck.units import count

STEP_SECONDS = 0.4
STEP_SECONDS_LEAST = 0.2
STEPS_SECONDS_MOST = 2.0
"""Samples of one step: of all cards together no longer than the last, but each as long as the
second. Copies of 64 MiB take 1 to 10 ms on a healthy link."""

AT_ONCE_SECONDS = 0.8
PEER_SECONDS = 0.2
PEERS_MOST = 16
"""Pairs of cards; up to four cards have twelve."""

LEAST_SHARE = 0.5
"""Of a step's samples where time is short; where that is too long, the last steps are left out."""


_ALONE = (TO_CARD, FROM_CARD, COPY, TO_CARD + PAGEABLE, FROM_CARD + PAGEABLE, READ)
_TOGETHER = (TO_CARD, FROM_CARD)


class Leg(Struct, frozen=True):
    """Steps that belong together: those of a card alone, or of all of them.

    `title` says what is being done, `about` what the figures are of. `contexts` are made for it.
    """

    title: str
    about: str
    steps: tuple[Copy, ...]
    contexts: int

    @property
    def seconds(self) -> float:
        """How long it is going to take."""
        return self.contexts * CONTEXT_SECONDS + sum(map(step_seconds, self.steps))


def step_seconds(step: Copy) -> float:
    """How long a step is going to take, contexts aside."""
    return step.seconds + STEP_COST_SECONDS


def whole_seconds(number: int) -> float:
    """How long all legs of so many cards take, where each has room for copies on it."""
    alone = CONTEXT_SECONDS + len(_ALONE) * (_seconds_each(number) + STEP_COST_SECONDS)
    together = len(_TOGETHER) * (AT_ONCE_SECONDS + STEP_COST_SECONDS)
    between = len(pairs(number)) * (PEER_SECONDS + STEP_COST_SECONDS)
    return number * alone + (together + between if number > 1 else 0.0)


def _seconds_each(number: int) -> float:
    return max(STEP_SECONDS_LEAST, min(STEP_SECONDS, STEPS_SECONDS_MOST / max(1, number)))


def legs(subjects: Sequence[Subject]) -> list[Leg]:
    """All that is worth measuring, what tells most first."""
    number = len(subjects)
    each = _seconds_each(number)
    found = [
        Leg(f"measuring GPU {n} of {number}", subject.gpu.label, tuple(_alone(subject, each)), 1)
        for n, subject in enumerate(subjects, 1)
    ]
    if number > 1:
        steps = (*_at_once(subjects), *_peers(subjects))
        together = f"{count(number, 'GPU')} at once"
        found.append(Leg(f"measuring {together}", together, steps, 0))
    return found


def _alone(subject: Subject, seconds: float) -> Iterator[Copy]:
    for name in _ALONE:
        size = subject.device_bytes if name in (COPY, READ) else HOST_BUFFER_BYTES
        if size is not None:
            yield Copy(
                name=name,
                cards=(subject.position,),
                buffer_bytes=size,
                seconds=seconds,
                cpus=(subject.cpus,),
            )


def _at_once(subjects: Sequence[Subject]) -> Iterator[Copy]:
    for name in _TOGETHER:
        yield Copy(
            name=name,
            cards=tuple(subject.position for subject in subjects),
            buffer_bytes=HOST_BUFFER_BYTES,
            seconds=AT_ONCE_SECONDS,
            cpus=tuple(subject.cpus for subject in subjects),
        )


def _peers(subjects: Sequence[Subject]) -> Iterator[Copy]:
    for source, target in pairs(len(subjects)):
        yield Copy(
            name=PEER,
            cards=(subjects[source].position,),
            peers=(subjects[target].position,),
            buffer_bytes=HOST_BUFFER_BYTES,
            seconds=PEER_SECONDS,
        )


def pairs(number: int) -> list[tuple[int, int]]:
    """Ordered pairs of cards: all of few, else each with the next, and with the one opposite."""
    if number * (number - 1) <= PEERS_MOST:
        return [(a, b) for a in range(number) for b in range(number) if a != b]
    found = [(a, (a + 1) % number) for a in range(number)]
    found += [(a, (a + number // 2) % number) for a in range(number // 2)]
    return list(dict.fromkeys(found))[:PEERS_MOST]


def shortened(found: Sequence[Leg], most_seconds: float) -> list[Leg]:
    """The legs where they would take longer than that: shorter samples, every card's link first."""
    whole = sum(leg.seconds for leg in found)
    if whole <= most_seconds:
        return list(found)
    share = max(LEAST_SHARE, most_seconds / whole)
    short = [
        replace(leg, steps=tuple(replace(s, seconds=share * s.seconds) for s in leg.steps))
        for leg in found
    ]
    single = [leg for leg in short if leg.contexts]
    links = [replace(leg, steps=tuple(s for s in leg.steps if _is_link(s))) for leg in single]
    others = [
        replace(leg, steps=tuple(s for s in leg.steps if not _is_link(s)), contexts=0)
        for leg in single
    ]
    return [*links, *others, *(leg for leg in short if not leg.contexts)]


def _is_link(step: Copy) -> bool:
    return step.name in _TOGETHER
