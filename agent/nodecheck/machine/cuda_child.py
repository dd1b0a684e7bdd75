"""Asks CUDA and copies in a child, for machine/cuda.py, and reads what the child leaves.

Child and parent share memory that holds C structs. The child fills each in as it goes, so that its
parent may read how far it came. Import this module only where native may be imported.
"""

from __future__ import annotations

import functools
import mmap
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from nodecheck.machine import child, cuda, stuck
from nodecheck.machine.child import Outcome
from nodecheck.machine.cuda import Answer, Begun, Card, Copied, Copies, Copy, Look
from nodecheck.machine.native import check, ffi, lib
from nodecheck.machine.pci import normal_address
from nodecheck.model import Struct

T = TypeVar("T")
CData = Any  # cffi's: a C struct or array

_OPERATIONS = {
    "host_to_device": (lib.NC_GPU_HOST_TO_DEVICE, False),
    "device_to_host": (lib.NC_GPU_DEVICE_TO_HOST, False),
    "host_to_device_pageable": (lib.NC_GPU_HOST_TO_DEVICE, True),
    "device_to_host_pageable": (lib.NC_GPU_DEVICE_TO_HOST, True),
    "peer_to_peer": (lib.NC_GPU_PEER_TO_PEER, False),
    "device_copy": (lib.NC_GPU_DEVICE_COPY, False),
    "device_read": (lib.NC_GPU_DEVICE_READ, False),
}
"""Transfer's names: the C side's, and whether host memory is pageable."""

_POLL_SECONDS = 0.002

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
"""What a library dies by on its own. Any other signal is sent: by the kernel that runs out of
memory, for one."""

_WHERE_PROCESSES_FAIL = ("cuEvent", "cuMemcpy", "cuCtxSynchronize", "cuLaunchKernel")
"""How the functions begin in which what a card does shows. After many of its errors CUDA gives a
process nothing more on any card. Source: CUDA driver API, CUresult ("the process must be terminated
and relaunched")."""

_ENVIRONMENT = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # one order for every process and driver
    "CUDA_CACHE_DISABLE": "1",  # the compiled kernel stays out of the user's home
    # no MPS: its daemon would queue us behind another user's server, and end that one for us
    "CUDA_MPS_PIPE_DIRECTORY": "/dev/null/none",
}
_HIDING = ("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING")
"""The first hides cards, the second makes every copy wait for itself."""


def query(deadline_seconds: float) -> Answer:
    """Start CUDA and ask for its cards."""
    answers = _shared("nc_gpu_answer")
    told = answers[0]
    outcome = _in_child(functools.partial(_ask, told), bool, deadline_seconds)
    error, call, message = _failure(told.failure, told.failure.inside, outcome, _ended(outcome))
    return Answer(
        error=None if outcome.hung else error,
        call=call,
        message=message,
        hung=outcome.hung,
        version=told.version or None,
        cards=tuple(Card(position=i, pci_address=_address(told, i)) for i in range(told.count)),
    )


class _End(Struct, frozen=True):
    """What the child ended with: how many steps it began, and whether time was up then."""

    begun: int
    time_up: bool = False


class Work:
    """A plan as C structs, one for each card of a step, and those for what comes of it."""

    def __init__(
        self, plan: Sequence[Copy], start_seconds: float, seconds: float, begun: Begun
    ) -> None:
        self.plan = plan
        self.answers = _shared("nc_gpu_answer")
        self.results = _shared("nc_gpu_result", sum(len(step.cards) for step in plan))
        self._start_seconds = start_seconds
        self._seconds = seconds
        self._begun = begun
        self._steps_begun = self._signs = 0
        self._parts = [(n, card) for n, step in enumerate(plan) for card in step.cards]
        self._cpus: list[CData] = []  # which structs point to
        self._wanted = ffi.new("nc_gpu_copy[]", [part for step in plan for part in self._of(step)])
        for part, result in zip(self._wanted, self.results, strict=True):
            part.result = ffi.addressof(result)

    def copies(self, look: Look) -> Copies:
        """As cuda.copy."""
        run = functools.partial(self._run, look, time.monotonic() + self._seconds)
        try:
            outcome = _in_child(run, _End, self._start_seconds, self._watch)
        except KeyboardInterrupt:
            self._watch()
            done = (each for each in self._copied(Outcome()) if each.error != cuda.UNFINISHED)
            return Copies(copied=tuple(done), begun=self._steps_begun, interrupted=True)
        self._watch()
        failure = self.answers[0].failure
        error, call, message = _failure(failure, self._inside(), outcome, _ended(outcome))
        if outcome.value is not None and outcome.value.time_up:
            left = len(self.plan) - outcome.value.begun
            message = f"{self._seconds:g} s left no time for the last {left} steps"
        return Copies(
            copied=tuple(self._copied(outcome)),
            begun=self._steps_begun,
            hung=outcome.hung,
            error=None if outcome.hung else error,
            call=call,
            message=message,
        )

    def _watch(self) -> float | None:
        """Tell of steps that began; how long the child may now take, where it moved."""
        begun = [n for (n, _), slot in zip(self._parts, self.results, strict=True) if slot.phase]
        for number in range(self._steps_begun, max(begun, default=-1) + 1):
            self._begun(number)
            self._steps_begun = number + 1
        signs = sum(slot.phase + slot.samples for slot in self.results)
        if signs == self._signs:
            return None
        self._signs = signs
        return cuda.STALL_SECONDS + self.plan[self._steps_begun - 1].seconds

    def _of(self, step: Copy) -> Iterator[dict[str, object]]:
        operation, pageable = _OPERATIONS[step.name]
        peers = step.peers or (-1,) * len(step.cards)
        cpus = step.cpus or ((),) * len(step.cards)
        for card, peer, near in zip(step.cards, peers, cpus, strict=True):
            self._cpus.append(ffi.new("int[]", near))
            yield {
                "operation": operation,
                "pageable": pageable,
                "card": card,
                "peer": peer,
                "cpus": self._cpus[-1],
                "cpu_count": len(near),
                "buffer_bytes": step.buffer_bytes,
                "warm_up_seconds": cuda.WARM_UP_SECONDS,
                "seconds": step.seconds,
            }

    def _run(self, look: Look, end: float) -> _End:
        """The child's: copy until `end` of the monotonic clock."""
        if not _ask(self.answers[0]):
            return _End(begun=0)
        at = 0
        known: set[int] = set()
        failed: set[int] = set()
        for number, step in enumerate(self.plan):
            cards = {*step.cards, *step.peers}
            if failed and cards != failed:
                return self._close(_End(begun=number))
            cost = cuda.STEP_COST_SECONDS + cuda.CONTEXT_SECONDS * len(cards - known)
            if time.monotonic() + cost + step.seconds > end:
                return self._close(_End(begun=number, time_up=True))
            known |= cards
            started = ffi.new("nc_gpu_step **")
            check(lib.nc_gpu_start(self._wanted + at, len(step.cards), started), "nc_gpu_start")
            self._look(step, at, look)
            lib.nc_gpu_finish(started[0])
            failed |= (
                cards if any(map(_may_spread, self.results[at : at + len(step.cards)])) else set()
            )
            at += len(step.cards)
        return self._close(_End(begun=len(self.plan)))

    def _close(self, end: _End) -> _End:
        lib.nc_gpu_close(ffi.addressof(self.answers[0], "failure"))
        return end

    def _look(self, step: Copy, at: int, look: Look) -> None:
        """Look at each card half-way through; what was seen counts only if it still copied then."""
        slots = [self.results[at + i] for i in range(len(step.cards))]
        while not all(slot.phase in (lib.NC_GPU_COPYING, lib.NC_GPU_DONE) for slot in slots):
            time.sleep(_POLL_SECONDS)
        time.sleep(step.seconds / 2)
        for card, slot in zip(step.cards, slots, strict=True):
            where = _address(self.answers[0], card)
            if where is None or slot.phase != lib.NC_GPU_COPYING:
                continue
            speed, lanes = look(where)
            if slot.phase == lib.NC_GPU_COPYING:
                slot.link_gts, slot.link_width = speed or 0.0, lanes or 0

    def _inside(self) -> int:
        """The function that the child was in."""
        failures = (told.failure for told in (self.answers[0], *self.results))
        return next((failure.inside for failure in failures if failure.inside), 0)

    def _copied(self, outcome: Outcome[_End]) -> Iterator[Copied]:
        """What came of each card's part that was begun."""
        for (number, card), slot in zip(self._parts, self.results, strict=True):
            if slot.phase == lib.NC_GPU_NOT_BEGUN:
                continue
            done = slot.phase == lib.NC_GPU_DONE
            error, call, message = _failure(
                slot.failure,
                slot.failure.inside,
                Outcome(value=_End(begun=0)) if done else outcome,
                cuda.UNFINISHED,
            )
            yield Copied(
                step=number,
                card=card,
                rates=tuple(slot.rates[0 : slot.samples]) if done else (),
                buffer_bytes=slot.buffer_bytes,
                intact=None if slot.intact < 0 else bool(slot.intact),
                direct=None if slot.direct < 0 else bool(slot.direct),
                seen=(slot.link_gts or None, slot.link_width or None),
                error=error,
                call=call,
                message=message,
            )


def _shared(kind: str, count: int = 1) -> CData:
    """An array of zeroed C structs that children share. Its items do not keep it."""
    memory = mmap.mmap(-1, max(1, count * ffi.sizeof(kind)))
    return ffi.from_buffer(f"{kind}[]", memory, require_writable=True)


def _in_child(
    work: Callable[[], T],
    kind: type[T],
    deadline_seconds: float,
    watch: Callable[[], float | None] | None = None,
) -> Outcome[T]:
    """The child's outcome. One that cannot be killed is remembered, also where Ctrl-C ends it."""
    before = child.abandoned()
    try:
        return child.call(functools.partial(_first_to_die, work), kind, deadline_seconds, watch)
    finally:
        for pid in child.abandoned() - before:
            stuck.remember(cuda.STUCK_MARKER, pid)


def _first_to_die(work: Callable[[], T]) -> T:
    child.be_first_to_die()
    return work()


def _ended(outcome: Outcome[Any]) -> int:
    """Whether a child that ended early died of CUDA, or of what is ours."""
    return cuda.CHILD_DIED if outcome.signal in _CRASHES else cuda.SYSTEM_REFUSED


def _may_spread(result: CData) -> bool:
    """Whether what went wrong may be the whole process's from then on."""
    call = _call_name(result.failure.call) or ""
    return bool(result.failure.error > 0 and call.startswith(_WHERE_PROCESSES_FAIL))


def _ask(answer: CData) -> bool:
    """The child's: start CUDA and ask for its cards; False where that failed."""
    for name in _HIDING:
        os.environ.pop(name, None)
    os.environ.update(_ENVIRONMENT)
    lib.nc_gpu_query(ffi.addressof(answer))
    return not answer.failure.error


def _failure(
    failure: CData, inside: int, outcome: Outcome[Any], otherwise: int
) -> tuple[int | None, str | None, str | None]:
    """Error, call and message of a failure; of an unfinished call where the child has no answer."""
    if failure.error:
        return failure.error, _call_name(failure.call), _text(failure.words)
    if outcome.value is not None:
        return None, None, None
    call = _call_name(inside)
    if call is None and otherwise == cuda.SYSTEM_REFUSED and not outcome.hung:
        return otherwise, None, outcome.error
    return otherwise, call, outcome.error if call else f"outside CUDA's functions: {outcome.error}"


def _call_name(number: int) -> str | None:
    name = lib.nc_gpu_call_name(number)
    return None if name == ffi.NULL else _text(name)


def _address(answer: CData, position: int) -> str | None:
    """A card's PCI address as sysfs writes it; None where CUDA told none."""
    told = _text(answer.pci_addresses[position]) if 0 <= position < answer.count else ""
    return (normal_address(told) or told) if told else None


def _text(c_characters: CData) -> str:
    return bytes(ffi.string(c_characters)).decode(errors="replace")
