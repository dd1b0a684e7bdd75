"""`nodecheck bench gpu`: what copies to, from, between and on the cards reach."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from nodecheck.checks.cuda import answer, figures, plan
from nodecheck.checks.cuda.facts import WORDS, CudaFacts, CudaProbe
from nodecheck.checks.cuda.plan import Leg
from nodecheck.checks.cuda.subjects import (
    HOST_BUFFER_BYTES,
    LeftAlone,
    Subject,
    fit,
    granted,
    located,
)
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Facts
from nodecheck.machine import cuda, lock, memory_limit, pci
from nodecheck.machine.cuda import Copied, Copies, Copy
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Struct, Transfer
from nodecheck.policy import Thresholds
from nodecheck.units import gib, listed

HOST_BUFFERS = 4
"""Times its buffer that a copy may take of the host's memory, a card."""

GRACE_SECONDS = 12.0
GRACE_FACTOR = 3.0
"""After so much more than was planned the child is killed: a link at x1 takes 60 times as long for
its warm-up."""

NOTHING = CudaFacts()

Progress = Callable[[str, float | None], None]


class Wish(Struct, frozen=True, kw_only=True):
    """How it is to be measured: `force` takes busy cards too."""

    thresholds: Thresholds = Thresholds()
    force: bool = False
    max_seconds: float | None = None


def wanted_seconds(facts: Facts) -> float:
    """How long all of it is going to take on the cards of these facts; 0 where there is none."""
    number = len(granted(facts))
    like = [Subject(gpu=g, address="", position=0, device_bytes=1) for g in granted(facts)]
    return sum(leg.seconds for leg in plan.legs(like)) if number else 0.0


def run(
    reader: Reader,
    facts: Facts,
    wish: Wish,
    progress: Progress = lambda _doing, _left: None,
) -> CudaProbe:
    """Measure the cards. On KeyboardInterrupt what was measured until then is given."""
    cards, left = fit(facts, wish.thresholds, force=wish.force)
    _note(reader, left)
    if why := _hopeless(reader, facts, cards):
        return _skipped(reader, why)
    with lock.measuring() as alone:
        if not alone:
            return _skipped(reader, "another nodecheck is measuring on this node")
        progress("starting CUDA", None)
        try:
            found, told = answer.ask(reader, len(granted(facts)))
        except KeyboardInterrupt:
            return CudaProbe(facts=CudaFacts(warnings=("interrupted while CUDA was started",)))
        subjects, left = located(facts, cards, told.cards, wish.thresholds)
        if found.state != "ok":
            why = f"CUDA does not start: {found.message or found.state}"
            return _skipped(reader, why, found)
        _note(reader, left)
        if not subjects:
            return _skipped(reader, "CUDA lists none of the cards", found)
        return _Session(reader, found, subjects, wish).run(progress)


def _hopeless(reader: Reader, facts: Facts, cards: Sequence[Gpu]) -> str | None:
    """Why CUDA need not be started."""
    if not granted(facts):
        return "no NVIDIA card is given to this process"
    if facts.gpu.state != "ok":
        return f"the NVIDIA driver does not answer ({facts.gpu.message or facts.gpu.state})"
    if not cards:
        return "no card is free to be measured"
    room = memory_limit.available_bytes(reader)
    if room is not None and room < HOST_BUFFERS * HOST_BUFFER_BYTES * len(cards):
        return f"{gib(room)} of the host's memory are left"
    return None


def _note(reader: Reader, left: Sequence[LeftAlone]) -> None:
    for each in left:
        reader.gap("transfers", each.reason, f"{each.gpu.label}: {each.why}")


def _skipped(reader: Reader, why: str, found: CudaFacts = NOTHING) -> CudaProbe:
    reader.gap("transfers", Reason.ABSENT, f"GPU copies not measured: {why}")
    return CudaProbe(facts=replace(found, skipped=why))


class _Session:
    """Leg by leg, as far as time goes."""

    def __init__(
        self, reader: Reader, facts: CudaFacts, subjects: list[Subject], wish: Wish
    ) -> None:
        self.reader = reader
        self.facts = facts
        self.subjects = {subject.position: subject for subject in subjects}
        self.wish = wish
        self.transfers: list[Transfer] = []

    def run(self, progress: Progress) -> CudaProbe:
        """All legs, until time is up."""
        legs = plan.legs(list(self.subjects.values()))
        whole = sum(leg.seconds for leg in legs)
        most = self.wish.max_seconds or math.inf
        share = 1.0 if whole <= most else max(plan.LEAST_SHARE, most / whole)
        began = time.monotonic()
        try:
            for number, leg in enumerate(legs):
                left = began + most - time.monotonic()
                short = plan.shortened(leg, share, left)
                self._no_time(leg, short)
                if not short.steps:
                    continue
                ahead = sum(each.seconds for each in legs[number:])
                progress(leg.title, min(ahead, left))
                if not self._measure(short):
                    break
        except KeyboardInterrupt:
            warning = f"interrupted after {time.monotonic() - began:.1f} s"
            self.facts = replace(self.facts, warnings=(*self.facts.warnings, warning))
        return CudaProbe(facts=self.facts, transfers=tuple(self.transfers))

    def _measure(self, leg: Leg) -> bool:
        """Copy; False where nothing more may be tried."""
        copies = cuda.copy(leg.steps, GRACE_SECONDS + GRACE_FACTOR * leg.seconds, self._look)
        for copied in copies.copied:
            step = leg.steps[copied.step]
            measured = bool(copied.rates) and copied.card in self.subjects
            if measured:
                self.transfers.append(figures.transfer(step, copied, self.subjects))
            if copied.error is not None or not measured:
                self._failed(step, copied)
        if copies.hung:
            self._hung(leg, copies)
        elif copies.message and (copies.error is None or not copies.copied):
            self.reader.gap("transfers", Reason.FAILED, f"{leg.about}: {copies.message}")
        return not copies.hung

    def _failed(self, step: Copy, copied: Copied) -> None:
        subject = self.subjects.get(copied.card)
        where = subject.gpu.label if subject else f"card {copied.card}"
        reason = Reason.TIMEOUT if copied.error == cuda.UNFINISHED else Reason.FAILED
        why = copied.message or f"{copied.call}: error {copied.error}"
        words = f"{where}: copies {WORDS.get(step.name, step.name)}: {why}"
        self.reader.gap("transfers", reason, words)

    def _hung(self, leg: Leg, copies: Copies) -> None:
        """A driver that lets copies hang is what programs get."""
        last = next((c for c in reversed(copies.copied) if not c.rates), None)
        message = (last.message if last else None) or copies.message or "no answer"
        call = last.call if last else None
        self.facts = replace(
            self.facts, state="unresponsive", call=call or "a copy", message=message
        )
        if last is None:
            self.reader.gap("transfers", Reason.TIMEOUT, f"{leg.about}: {message}")

    def _look(self, address: str) -> tuple[float | None, int | None]:
        """The card's link, in the child that copies."""
        here = f"{pci.SYSFS}/{pci.normal_address(address) or address}"
        speed = self.reader.text(f"{here}/current_link_speed", None)
        width = self.reader.integer(f"{here}/current_link_width", None)
        lanes = width if width is not None and 0 < width <= pci.WIDTH_LIMIT else None
        return pci.speed_gts(speed), lanes

    def _no_time(self, leg: Leg, short: Leg) -> None:
        names = dict.fromkeys(step.name for step in leg.steps[len(short.steps) :])
        if names:
            missing = listed([WORDS[name] for name in names], last="or")
            text = f"{leg.about}: no time was left for copies {missing}"
            self.reader.gap("transfers", Reason.ABSENT, text)
