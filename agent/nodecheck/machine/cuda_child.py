"""Asks CUDA and copies in a child, for machine/cuda.py, and reads what the child leaves.

Child and parent share memory that holds C structs. The child fills each in as it goes, so that its
parent may read how far it came. Import this module only where native may be imported.
"""

from __future__ import annotations

import functools
import mmap
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from nodecheck.machine import child, cuda, stuck
from nodecheck.machine.child import Outcome
from nodecheck.machine.cuda import Answer, Card, Copied, Copies, Copy, Look
from nodecheck.machine.native import check, ffi, lib
from nodecheck.machine.pci import normal_address

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
_MARGIN_SECONDS = 1.0
"""For what a step takes beside its copies: contexts are made and memory is pinned and filled."""

_ENVIRONMENT = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # one order for every process and driver
    "CUDA_CACHE_DISABLE": "1",  # the compiled kernel stays out of the user's home
}
_HIDING = ("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING")
"""The first hides cards, the second makes every copy wait for itself."""


def query(deadline_seconds: float) -> Answer:
    """Start CUDA and ask for its cards."""
    answers = _shared("nc_gpu_answer")
    told = answers[0]
    outcome = _in_child(functools.partial(_ask, told), bool, deadline_seconds)
    error, call, message = _failure(told.failure, told.failure.inside, outcome, cuda.CHILD_DIED)
    return Answer(
        error=None if outcome.hung else error,
        call=call,
        message=message,
        hung=outcome.hung,
        version=told.version or None,
        cards=tuple(Card(position=i, pci_address=_address(told, i)) for i in range(told.count)),
    )


def copy(plan: Sequence[Copy], deadline_seconds: float, look: Look) -> Copies:
    """As cuda.copy."""
    work = _Work(plan)
    end = time.monotonic() + deadline_seconds
    outcome = _in_child(functools.partial(work.run, look, end), int, deadline_seconds)
    failure = work.answers[0].failure
    error, _, message = _failure(failure, work.inside(), outcome, cuda.CHILD_DIED)
    if outcome.value:
        message = f"{deadline_seconds:g} s left no time for the last {outcome.value} steps"
    return Copies(
        copied=tuple(work.copied(outcome)),
        hung=outcome.hung,
        error=None if outcome.hung else error,
        message=message,
    )


class _Work:
    """A plan as C structs, one for each card of a step, and those for what comes of it."""

    def __init__(self, plan: Sequence[Copy]) -> None:
        self.plan = plan
        self.answers = _shared("nc_gpu_answer")
        self.results = _shared("nc_gpu_result", sum(len(step.cards) for step in plan))
        self._cpus: list[CData] = []  # which structs point to
        self._wanted = ffi.new("nc_gpu_copy[]", [part for step in plan for part in self._of(step)])
        for part, result in zip(self._wanted, self.results, strict=True):
            part.result = ffi.addressof(result)

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

    def run(self, look: Look, end: float) -> int:
        """The child's: copy until `end` of the monotonic clock; how many steps are left then."""
        if not _ask(self.answers[0]):
            return 0
        done = at = 0
        for step in self.plan:
            if time.monotonic() + cuda.WARM_UP_SECONDS + step.seconds + _MARGIN_SECONDS > end:
                break
            started = ffi.new("nc_gpu_step **")
            check(lib.nc_gpu_start(self._wanted + at, len(step.cards), started), "nc_gpu_start")
            self._look(step, at, look)
            lib.nc_gpu_finish(started[0])
            at += len(step.cards)
            done += 1
        lib.nc_gpu_close(ffi.addressof(self.answers[0], "failure"))
        return len(self.plan) - done

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

    def inside(self) -> int:
        """The function that the child was in."""
        failures = (told.failure for told in (self.answers[0], *self.results))
        return next((failure.inside for failure in failures if failure.inside), 0)

    def copied(self, outcome: Outcome[int]) -> Iterator[Copied]:
        """What came of each card's part that was begun."""
        parts = [(number, card) for number, step in enumerate(self.plan) for card in step.cards]
        for (number, card), slot in zip(parts, self.results, strict=True):
            if slot.phase == lib.NC_GPU_NOT_BEGUN:
                continue
            done = slot.phase == lib.NC_GPU_DONE
            error, call, message = _failure(
                slot.failure,
                slot.failure.inside,
                Outcome(value=0) if done else outcome,
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


def _in_child(work: Callable[[], T], kind: type[T], deadline_seconds: float) -> Outcome[T]:
    outcome = child.call(work, kind, deadline_seconds)
    if outcome.stuck_pid is not None:
        stuck.remember(cuda.STUCK_MARKER, outcome.stuck_pid)
    return outcome


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
    where = f"in {call}" if call else "outside CUDA's functions"
    return otherwise, call, f"the child that was {where}: {outcome.error}"


def _call_name(number: int) -> str | None:
    name = lib.nc_gpu_call_name(number)
    return None if name == ffi.NULL else _text(name)


def _address(answer: CData, position: int) -> str | None:
    """A card's PCI address as sysfs writes it; None where CUDA told none."""
    told = _text(answer.pci_addresses[position]) if 0 <= position < answer.count else ""
    return (normal_address(told) or told) if told else None


def _text(c_characters: CData) -> str:
    return bytes(ffi.string(c_characters)).decode(errors="replace")
