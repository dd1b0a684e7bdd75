"""Reads what a running engine holds, then watches what it does for some seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from nodecheck.checks.engine import cards, tree, window
from nodecheck.checks.engine.facts import CardUse, EngineFacts, ModelFile, Process
from nodecheck.checks.engine.held import Held, HeldProcess, Later, hold, hold_later
from nodecheck.checks.engine.window import Running
from nodecheck.machine import child
from nodecheck.machine.reader import Reader
from nodecheck.model import Gap, Reason, Struct

HELD_SECONDS = 5.0
"""What a process maps is not told while the kernel works on it, be it for ever."""

BESIDE_SECONDS = 20.0
"""What a watch may take beside its window: a busy node may have thousands of threads."""

_HELD, _RUNNING, _CARDS, _LATER = "held", "running", "cards", "later"
_TELLS = {
    _HELD: ("command", "environment", "libraries", "model_files", "processes.gpu_files"),
    _RUNNING: ("processes", "threads"),
    _CARDS: ("cards",),
    _LATER: (),
}
"""What is not known of an engine where a child does not answer."""


class _Answer(Struct, frozen=True):
    """What a child tells: its value as JSON, and what it could not read."""

    value: msgspec.Raw
    gaps: tuple[Gap, ...]


def probe(reader: Reader, pid: int | None = None, seconds: float = 5.0) -> EngineFacts:
    """The engine whose process, or thread, is `pid`; nothing where None is named.

    Gaps beside those of its parts: what a child that hangs or fails was to tell.
    """
    if pid is None:
        return EngineFacts()
    pids = tree.pids(reader, pid)
    if not pids:
        return EngineFacts(state="absent", pid=pid)
    first = {_HELD: lambda each: hold(each, pids)}
    then = {
        _RUNNING: lambda each: window.watch(each, pids, seconds),
        _CARDS: lambda each: cards.watch(each, pids, seconds),
    }
    told = _asked(reader, first, HELD_SECONDS) | _asked(reader, then, seconds + BESIDE_SECONDS)
    held = _decoded(told, _HELD, Held) or Held()
    running = _decoded(told, _RUNNING, Running)
    later = _later(reader, running) if _HELD in told else Later()
    return EngineFacts(
        state="ended" if running is not None and running.ended else "watched",
        pid=pids[0],
        cards=_decoded(told, _CARDS, tuple[CardUse, ...]) or (),
        **_members(held, "processes", "model_files"),
        model_files=_newest(held.model_files, later.model_files),
        frozen_by=later.frozen_by,
        **_members(running, "ended", "processes"),
        processes=tuple(
            _with_held(process, held.processes.get(process.pid))
            for process in (running.processes if running else ())
        ),
    )


def _later(reader: Reader, running: Running | None) -> Later:
    """What those hold that live when the window ends."""
    living = [each.pid for each in running.processes if not each.ended] if running else []
    if not living:
        return Later()
    told = _asked(reader, {_LATER: lambda each: hold_later(each, living)}, HELD_SECONDS)
    return _decoded(told, _LATER, Later) or Later()


def _newest(then: tuple[ModelFile, ...], now: tuple[ModelFile, ...]) -> tuple[ModelFile, ...]:
    """The files as they are now, those whose pages could not be counted again as they were."""
    before = {file.path: file for file in then}
    newest = (
        file if file.cached_bytes is not None else before.get(file.path, file) for file in now
    )
    return tuple(newest) or then


def _asked(
    reader: Reader, works: Mapping[str, Callable[[Reader], object]], deadline_seconds: float
) -> dict[str, msgspec.Raw]:
    """What each work tells, in a child of its own; what one fails to tell is a gap."""
    tasks = {name: _task(reader, work) for name, work in works.items()}
    told = {}
    for name, outcome in child.gather(tasks, _Answer, deadline_seconds).items():
        if outcome.value is not None:
            reader.gaps.extend(outcome.value.gaps)
            told[name] = outcome.value.value
            continue
        reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
        for field in _TELLS[name]:
            reader.gap(field, reason, outcome.error or "")
    return told


def _task(reader: Reader, work: Callable[[Reader], object]) -> Callable[[], _Answer]:
    def task() -> _Answer:
        own = Reader(reader.host, reader.check)
        value = msgspec.json.encode(work(own))
        return _Answer(msgspec.Raw(value), tuple(own.gaps))

    return task


def _decoded(told: Mapping[str, msgspec.Raw], name: str, kind: Any) -> Any:
    return msgspec.json.decode(told[name], type=kind) if name in told else None


def _members(told: Struct | None, *without: str) -> dict[str, Any]:
    """Those that EngineFacts has by the same names."""
    members = msgspec.structs.asdict(told) if told is not None else {}
    return {name: value for name, value in members.items() if name not in without}


def _with_held(process: Process, held: HeldProcess | None) -> Process:
    return process if held is None else msgspec.structs.replace(process, **_members(held))
