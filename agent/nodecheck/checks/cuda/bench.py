"""`nodecheck bench gpu`: what copies to, from, between and on the cards reach."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from nodecheck.checks.cuda import answer, figures, plan
from nodecheck.checks.cuda.facts import CudaFacts, CudaProbe, Failed, copies_of
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
from nodecheck.thresholds import Thresholds
from nodecheck.units import MIB, gib

HOST_BUFFERS = 4
"""Times its buffer that a copy may take of the host's memory, a card."""

CONTEXT_HOST_BYTES = 300 * MIB
"""What CUDA is given of the host's memory for a card's context. Source: nodecheck's own
judgement."""

NOTHING = CudaFacts()

Progress = Callable[[str, float | None], None]


class Step(Struct, frozen=True):
    """One step, and the leg that it is of."""

    leg: Leg
    copy: Copy


class Wish(Struct, frozen=True, kw_only=True):
    """How it is to be measured: `force` takes busy cards too."""

    thresholds: Thresholds = Thresholds()
    force: bool = False
    max_seconds: float | None = None


def wanted_seconds(facts: Facts, wish: Wish) -> float:
    """How long it is going to take on the cards of these facts that may be measured."""
    cards, _ = fit(facts, wish.thresholds, force=wish.force)
    return plan.whole_seconds(len(cards))


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
            warnings = ("interrupted while CUDA was started",)
            return CudaProbe(facts=CudaFacts(warnings=warnings, interrupted=True))
        subjects, left = located(facts, cards, told.cards, wish.thresholds)
        if found.state != "ok":
            why = f"CUDA does not start: {found.message or found.state}"
            return _skipped(reader, why, found)
        _note(reader, left)
        if not subjects:
            return _skipped(reader, "CUDA lists none of the cards", found)
        wanted = tuple(gpu.pci_address for gpu in cards if gpu.pci_address)
        found = replace(found, wanted=wanted)
        expected = len(granted(facts))
        return _Session(reader, found, subjects, expected).run(wish.max_seconds, progress)


def _hopeless(reader: Reader, facts: Facts, cards: Sequence[Gpu]) -> str | None:
    """Why CUDA need not be started."""
    if not granted(facts):
        return "no NVIDIA card is given to this process"
    if facts.gpu.state != "ok":
        return f"the NVIDIA driver does not answer ({facts.gpu.message or facts.gpu.state})"
    if not cards:
        return "no card is free to be measured"
    room = memory_limit.available_bytes(reader)
    needed = (CONTEXT_HOST_BYTES + HOST_BUFFERS * HOST_BUFFER_BYTES) * len(cards)
    if room is not None and room < needed:
        return f"{gib(room)} of the host's memory are left, and {gib(needed)} are needed"
    return None


def _note(reader: Reader, left: Sequence[LeftAlone]) -> None:
    for each in left:
        reader.gap("transfers", each.reason, f"{each.gpu.label}: {each.why}")


def _skipped(reader: Reader, why: str, found: CudaFacts = NOTHING) -> CudaProbe:
    reader.gap("transfers", Reason.ABSENT, f"GPU copies not measured: {why}")
    return CudaProbe(facts=replace(found, skipped=why))


class _Session:
    """All steps in one child, or in several where one ends early."""

    def __init__(
        self, reader: Reader, facts: CudaFacts, subjects: list[Subject], cards_expected: int
    ) -> None:
        self.reader = reader
        self.facts = facts
        self.subjects = {subject.position: subject for subject in subjects}
        self.cards_expected = cards_expected
        self.transfers: list[Transfer] = []

    def run(self, max_seconds: float | None, progress: Progress) -> CudaProbe:
        """All steps, until time is up."""
        most = max_seconds or math.inf
        legs = plan.shortened(plan.legs(list(self.subjects.values())), most)
        left = [Step(leg, copy) for leg in legs for copy in leg.steps]
        began = time.monotonic()
        try:
            while left:
                seconds = began + most - time.monotonic()
                copies = self._copy(left, seconds, progress)
                left = self._not_copied(left, copies)
                if copies.interrupted:
                    raise KeyboardInterrupt  # noqa: TRY301 - as where it came between two children
        except KeyboardInterrupt:
            warning = f"interrupted after {time.monotonic() - began:.1f} s"
            warnings = (*self.facts.warnings, warning)
            self.facts = replace(self.facts, warnings=warnings, interrupted=True)
        return CudaProbe(facts=self.facts, transfers=tuple(self.transfers))

    def _copy(self, steps: Sequence[Step], seconds: float, progress: Progress) -> Copies:
        """What came of the steps in one child, taken up."""
        until = time.monotonic() + seconds

        def begun(number: int) -> None:
            leg = steps[number].leg
            if number == 0 or steps[number - 1].leg is not leg:
                ahead = sum(plan.step_seconds(step.copy) for step in steps[number:])
                progress(leg.title, min(ahead, until - time.monotonic()))

        copies = cuda.copy(
            [step.copy for step in steps],
            self.cards_expected,
            self._look,
            seconds=seconds,
            begun=begun,
        )
        for copied in copies.copied:
            step = steps[copied.step].copy
            measured = bool(copied.rates) and copied.card in self.subjects
            if measured:
                self.transfers.append(figures.transfer(step, copied, self.subjects))
            if copied.error is not None or not measured:
                self._failed(step, copied, copies)
        return copies

    def _not_copied(self, steps: Sequence[Step], copies: Copies) -> list[Step]:
        """The steps for another child. Of those that are not to be tried a gap tells."""
        left = list(steps[copies.begun :])
        if copies.interrupted:
            return []
        if copies.hung:
            self._hung(steps, copies)
            self._left_out(left, "not tried, since CUDA hangs")
            return []
        if copies.error is not None:
            return self._after_death(steps, copies)
        if copies.message is not None:
            self._left_out(left, "no time was left")
            return []
        return left

    def _after_death(self, steps: Sequence[Step], copies: Copies) -> list[Step]:
        """The legs after the one in which the child died, where it died of CUDA."""
        last = steps[max(copies.begun - 1, 0)].leg
        if not any(copied.error == cuda.UNFINISHED for copied in copies.copied):
            where = f"{copies.call}: " if copies.call else ""
            self.reader.gap("transfers", Reason.FAILED, f"{last.about}: {where}{copies.message}")
        left = list(steps[copies.begun :])
        again = [step for step in left if step.leg is not last]
        if copies.error != cuda.CHILD_DIED or not copies.begun:
            again = []
        self._left_out([step for step in left if step not in again], "not tried after that")
        return again

    def _failed(self, step: Copy, copied: Copied, copies: Copies) -> None:
        subject = self.subjects.get(copied.card)
        where = subject.gpu.label if subject else f"card {copied.card}"
        unfinished = copied.error == cuda.UNFINISHED
        reason = Reason.TIMEOUT if unfinished and copies.hung else Reason.FAILED
        why = copied.message or f"{copied.call}: error {copied.error}"
        if unfinished and len(_unfinished(copies)) > 1 and not copies.hung:
            # each thread of those that copy at once is in some function: it tells nothing
            why = "not finished, for the process died in a copy of one of the cards"
        elif unfinished and copied.call:
            why = f"{copied.call}: {why}"
        self.reader.gap("transfers", reason, f"{where}: {copies_of([step.name])}: {why}")
        died = unfinished and copied.call and copies.error == cuda.CHILD_DIED
        of_cuda = copied.error is not None and copied.error > 0
        if subject and (of_cuda or died or (unfinished and copied.call and copies.hung)):
            self._note_failed(subject, step, copied, hung=copies.hung and unfinished)

    def _note_failed(self, subject: Subject, step: Copy, copied: Copied, *, hung: bool) -> None:
        """Keep what the card or its driver failed, for a rule to judge."""
        peer = step.peers[step.cards.index(copied.card)] if step.peers else None
        error = copied.error if copied.error and copied.error > 0 else None
        failed = Failed(
            card=subject.address,
            name=step.name,
            peer=None if peer is None else self.subjects[peer].address,
            cards=len(step.cards),
            error=error,
            call=copied.call,
            message=copied.message,
            hung=hung,
        )
        self.facts = replace(self.facts, failed=(*self.facts.failed, failed))

    def _hung(self, steps: Sequence[Step], copies: Copies) -> None:
        """A driver that lets copies hang is what programs get."""
        unfinished = _unfinished(copies)
        message = copies.message or "no answer"
        call = next((c.call for c in unfinished if c.call), copies.call)
        self.facts = replace(
            self.facts, state="unresponsive", call=call or "a copy", message=message
        )
        if not unfinished:
            about = steps[max(copies.begun - 1, 0)].leg.about
            self.reader.gap("transfers", Reason.TIMEOUT, f"{about}: {message}")

    def _look(self, address: str) -> tuple[float | None, int | None]:
        """The card's link, in the child that copies."""
        here = f"{pci.SYSFS}/{pci.normal_address(address) or address}"
        speed = self.reader.text(f"{here}/current_link_speed", None)
        width = self.reader.integer(f"{here}/current_link_width", None)
        return pci.speed_gts(speed), pci.lanes(width)

    def _left_out(self, steps: Iterable[Step], why: str) -> None:
        """A gap a leg."""
        for about, group in itertools.groupby(steps, lambda step: step.leg.about):
            names = copies_of(step.copy.name for step in group)
            self.reader.gap("transfers", Reason.ABSENT, f"{about}: {why}: {names}")


def _unfinished(copies: Copies) -> list[Copied]:
    """The cards' parts in which the child hung or died."""
    return [copied for copied in copies.copied if copied.error == cuda.UNFINISHED]
