"""What an engine's processes hold: which engine, its settings, libraries, model files, devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from nodecheck.checks.engine import arguments, engines, libraries, mappings, model_files, tasks
from nodecheck.checks.engine.engines import LLAMA_CPP, LLAMA_CPP_PYTHON, engine_of
from nodecheck.checks.engine.facts import CpuLibrary, ModelFile
from nodecheck.checks.engine.mappings import Mapped
from nodecheck.checks.engine.tasks import Moment
from nodecheck.machine import cgroups, child
from nodecheck.machine.child import Outcome
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Struct

__all__ = ["Held", "HeldProcess", "Later", "engine_of", "frozen_by", "hold", "hold_later"]

T = TypeVar("T")

LOOK_SECONDS = 3.0
"""For files, in a child: a dead server of one file holds nothing else."""

MOST_PROCESSES = 512
"""That are looked into. An engine has a few dozen."""

_OWN_GGML = (LLAMA_CPP, LLAMA_CPP_PYTHON)
"""Engines that compute in the very process that is known by their name."""

_FREEZERS = {"cgroup.events": "frozen 1", "freezer.state": "FROZEN"}
"""Files of a control group, and a line by which they tell that it, or one above it, is frozen."""

_NODES = "/sys/devices/system/node/has_memory"


class HeldProcess(Struct, frozen=True, kw_only=True):
    """What one process holds, as facts.Process says it.

    `locked_limit_bytes` is None also where it may lock all.
    """

    numa_bytes: dict[int, int] | None = None
    gpu_files: tuple[str, ...] | None = None
    locked_limit_bytes: int | None = None


class Held(Struct, frozen=True, kw_only=True):
    """What all of them hold, as facts.EngineFacts says it; `processes` are by their id."""

    engine: str | None = None
    command: tuple[str, ...] = ()
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    libraries: tuple[CpuLibrary, ...] = ()
    model_files: tuple[ModelFile, ...] = ()
    processes: dict[int, HeldProcess] = msgspec.field(default_factory=dict)


class Later(Struct, frozen=True, kw_only=True):
    """What is to be seen when the window ends, as facts.EngineFacts says it."""

    model_files: tuple[ModelFile, ...] = ()
    frozen_by: str | None = None


class _Look(Struct, frozen=True, kw_only=True):
    """One process: `engine` is what it is by itself."""

    pid: int
    name: str
    argv: tuple[str, ...]
    engine: str | None
    environment: bytes
    files: tuple[Mapped, ...]
    held: HeldProcess


class _Files(Struct, frozen=True, kw_only=True):
    """What files tell, each told by a child of its own; `placed` is where processes' memory lies.

    `reason` and `detail` are the first why something of it is not known.
    """

    model_files: tuple[ModelFile, ...] | None = None
    libraries: tuple[CpuLibrary, ...] | None = None
    placed: dict[int, dict[int, int]] = msgspec.field(default_factory=dict)
    reason: Reason | None = None
    detail: str = ""


class _Asking:
    """Asks /proc of process after process; what is denied becomes a gap once for all of them."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._missed: set[str] = set()

    def ask(
        self, fields: Sequence[str], pid: int, question: Callable[[Reader, int], T]
    ) -> T | None:
        """The answer; None, and a gap of each field, where there is none. Not of one that ended."""
        try:
            return question(self.reader, pid)
        except UnreadableError as error:
            if error.reason is Reason.ABSENT or self._has_ended(error, pid):
                return None
            for field in fields:
                self.missed(field, error.reason, error.detail)
            return None

    def _has_ended(self, error: UnreadableError, pid: int) -> bool:
        if isinstance(error.__cause__, ProcessLookupError):
            return True
        stat = tasks.stat(Moment(self.reader), pid)
        return stat is None or stat.is_over

    def missed(self, field: str, reason: Reason, detail: str) -> None:
        """Note once why `field` is not known."""
        if field not in self._missed:
            self._missed.add(field)
            self.reader.gap(field, reason, detail)


def hold(reader: Reader, pids: Sequence[int]) -> Held:
    """What these processes hold, the engine's first one first.

    Gaps: environment, libraries, model_files, model_files.cached_bytes, libraries.compiled,
    processes.gpu_files, processes.numa_bytes, processes.
    """
    asking = _Asking(reader)
    if len(pids) > MOST_PROCESSES:
        detail = f"only {MOST_PROCESSES} of {len(pids)} processes were looked into"
        asking.missed("processes", Reason.UNSUPPORTED, detail)
    looks = [look for pid in pids[:MOST_PROCESSES] if (look := _look(asking, pid)) is not None]
    engine = next((look.engine for look in looks if look.engine), None)
    ours = [look for look in looks if look.engine == engine] or looks[:1]
    files = mappings.once(look.files for look in looks)
    told = _files(asking, files, [look.pid for look in looks])
    if reader.host.live and engine in _OWN_GGML and not any(map(_is_ggml, told.libraries or ())):
        detail = "no file that it maps tells what ggml was built with: linked in, and stripped?"
        asking.missed("libraries", Reason.UNSUPPORTED, detail)
    environments = {look.pid: arguments.environment(look.environment, engine) for look in looks}
    return Held(
        engine=engine,
        command=arguments.command(ours[0].name, ours[0].argv, engine) if ours else (),
        settings=_agreed(
            arguments.settings(look.argv, environments[look.pid], engine) for look in ours
        ),
        environment=_first(environments[look.pid] for look in ours),
        libraries=told.libraries or (),
        model_files=told.model_files or (),
        processes={
            look.pid: msgspec.structs.replace(look.held, numa_bytes=told.placed.get(look.pid))
            for look in looks
        },
    )


def hold_later(reader: Reader, pids: Sequence[int]) -> Later:
    """What these processes hold when they have been watched. No gaps: those of `hold` stand."""
    asking = _Asking(Reader(reader.host, reader.check))
    some = pids[:MOST_PROCESSES]
    files = mappings.once(asking.ask((), pid, mappings.mapped) or () for pid in some)
    weights = [file for file in files if model_files.is_model(file)]
    works = {"model_files": lambda: _of_models(weights)} if weights and reader.host.live else {}
    outcomes = child.gather(works, _Files, LOOK_SECONDS).values()
    told = next((each.value for each in outcomes if each.value is not None), _Files())
    frozen = (frozen_by(reader, pid) for pid in some)
    return Later(model_files=told.model_files or (), frozen_by=next(filter(None, frozen), None))


def frozen_by(reader: Reader, pid: int) -> str | None:
    """The file that says that a process's control group is frozen; None where none does."""
    membership = cgroups.parse_membership(reader.text(f"/proc/{pid}/cgroup", None) or "")
    mounts = cgroups.read_mounts(reader) if membership.paths else []
    for controller in ("freezer", cgroups.V2):
        found = cgroups.groups(reader, membership, mounts, controller)
        for name, line in _FREEZERS.items() if found else ():
            path = f"{found.directories[0]}/{name}" if found else ""
            if line in (reader.text(path, None) or "").splitlines():
                return path
    return None


def _is_ggml(library: CpuLibrary) -> bool:
    return library.family == "ggml"


def _look(asking: _Asking, pid: int) -> _Look | None:
    """None where it has ended, or is the kernel's."""
    reader = asking.reader
    stat = tasks.stat(Moment(reader), pid)
    if stat is None or stat.is_over or stat.is_kernels:
        return None
    argv = engines.arguments(reader, pid)
    files = asking.ask(("libraries", "model_files"), pid, mappings.mapped)
    return _Look(
        pid=pid,
        name=stat.name,
        argv=argv,
        engine=engine_of(stat.name, argv) or engines.engine_by_files(files or ()),
        environment=asking.ask(("environment",), pid, _environ) or b"",
        files=files or (),
        held=HeldProcess(
            gpu_files=asking.ask(("processes.gpu_files",), pid, mappings.gpu_files),
            locked_limit_bytes=asking.ask((), pid, mappings.locked_limit_bytes),
        ),
    )


def _environ(reader: Reader, pid: int) -> bytes:
    return reader.host.read_bytes(f"/proc/{pid}/environ")


def _files(asking: _Asking, files: Sequence[Mapped], pids: Sequence[int]) -> _Files:
    """What the files themselves tell; of a capture, and of what hangs, what /proc tells of them."""
    reader = asking.reader
    weights = [file for file in files if model_files.is_model(file)]
    code = [file for file in files if libraries.is_candidate(file)]
    works: dict[str, Callable[[], _Files]] = {}
    if weights and reader.host.live:
        works["model_files.cached_bytes"] = lambda: _of_models(weights)
    if code and reader.host.live:
        works["libraries.compiled"] = lambda: _of_libraries(code)
    if len(reader.numbers(_NODES, None) or ()) > 1:
        works["processes.numa_bytes"] = lambda: _placed(reader, pids)
    outcomes = child.gather(works, _Files, LOOK_SECONDS)
    told = [_answer(asking, field, outcome) for field, outcome in outcomes.items()]
    plain = _Files(
        model_files=model_files.without_looking(weights),
        libraries=libraries.without_looking(code),
    )
    return functools.reduce(_joined, told, plain)


def _joined(one: _Files, other: _Files) -> _Files:
    return _Files(
        model_files=one.model_files if other.model_files is None else other.model_files,
        libraries=one.libraries if other.libraries is None else other.libraries,
        placed=other.placed or one.placed,
    )


def _answer(asking: _Asking, field: str, outcome: Outcome[_Files]) -> _Files:
    """What a child told; a gap where it did not, or says why it could not."""
    told = outcome.value
    if told is None:
        reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
        asking.missed(field, reason, outcome.error or "")
    elif told.reason is not None:
        asking.missed(field, told.reason, told.detail)
    return told or _Files()


def _of_models(files: Sequence[Mapped]) -> _Files:
    seen = model_files.look(files)
    return _Files(model_files=seen.files, reason=seen.reason, detail=seen.detail)


def _of_libraries(files: Sequence[Mapped]) -> _Files:
    seen = libraries.look(files)
    return _Files(libraries=seen.libraries, reason=seen.reason, detail=seen.detail)


def _placed(reader: Reader, pids: Sequence[int]) -> _Files:
    asking = _Asking(Reader(reader.host, reader.check))
    found = {pid: asking.ask(("numa_bytes",), pid, mappings.numa_bytes) for pid in pids}
    gap = next(iter(asking.reader.gaps), None)
    return _Files(
        placed={pid: placed for pid, placed in found.items() if placed is not None},
        reason=gap.reason if gap else None,
        detail=gap.detail if gap else "",
    )


def _agreed(told: Iterable[dict[str, str]]) -> dict[str, str]:
    """The settings in which the processes do not contradict each other."""
    values: dict[str, set[str]] = {}
    for settings in told:
        for name, value in settings.items():
            values.setdefault(name, set()).add(value)
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


def _first(told: Iterable[dict[str, str]]) -> dict[str, str]:
    """Each name as the first process has it."""
    found: dict[str, str] = {}
    for environment in told:
        found = {**environment, **found}
    return found
