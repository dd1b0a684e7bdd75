"""The answer on a watched engine: why it is slow, or that nothing was found, or is to be judged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from nodecheck.checks.engine.doing import (
    STOPPED,
    TRACED,
    in_state,
    is_idle,
    is_loading,
    is_stopped,
    waits_in_kernel,
)
from nodecheck.checks.engine.facts import CardUse, EngineFacts, Process
from nodecheck.checks.engine.signs import (
    computing,
    held_cards,
    missing_bytes,
    model_bytes,
    rate_words,
    read_per_second,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Finding, Gap, Reason, Struct, faults
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import count, gib, percent

CHECK = "engine"
SHIPPED = Policy()

FIELDS = {
    "*": "all of it",
    "cached_bytes": "how much of the model is in memory",
    "cards": "GPUs",
    "compiled": "what its libraries were built with",
    "cpu_group": "CPU quota",
    "delay_share": "how long threads waited",
    "gpu_files": "open GPU devices",
    "libraries": "libraries it computes with",
    "locked_limit_bytes": "limit of locked memory",
    "memory_group": "memory limit",
    "numa_bytes": "NUMA nodes of its memory",
    "page_bytes": "size of a page",
    "read_bytes": "bytes read from disk",
    "read_total_bytes": "bytes read since it began",
}
"""Members that their names do not tell in words."""

PIDS_SHOWN = 8
CAUSE_MOST = 80
"""Characters of a cause that is told beside what is not known."""


class Doing(str, Enum):
    """What it does, in the word that stands before the sentence."""

    SLOW = "slow"
    WELL = "ok"
    IDLE = "idle"
    LOADING = "loading"
    STOPPED = "stopped"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Answer(Struct, frozen=True):
    """What it does, and a sentence or more on it."""

    doing: Doing
    sentence: str


def is_watched(facts: EngineFacts) -> bool:
    """Whether anything was seen of it."""
    return facts.state in ("watched", "ended")


def of_engine(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What slows the engine."""
    return tuple(each for each in faults(findings) if each.id.startswith(f"{CHECK}."))


def answer(report: Report, policy: Policy = SHIPPED) -> Answer:
    """The answer of a report that is judged."""
    facts = report.facts.engine
    if not is_watched(facts) or facts.cpus is None:
        if facts.state == "ended":
            return Answer(Doing.ENDED, "It ended before anything was seen of it.")
        return Answer(Doing.UNKNOWN, "What it does could not be watched.")
    found = of_engine(report.findings)
    ended = f"It ended after {facts.seconds or 0:.1f} s." if facts.state == "ended" else ""
    if found:
        return Answer(Doing.SLOW, " ".join(filter(None, (*_why(found), ended))))
    told = _without_findings(report, policy)
    if ended:
        nothing = " Until then nothing was found that slowed it."
        return Answer(Doing.ENDED, ended + nothing * (told.doing is Doing.WELL))
    return told


def _why(found: tuple[Finding, ...]) -> list[str]:
    first = (found[0].headline or found[0].summary).rstrip(".")
    more = [f"Beside it: {count(len(found) - 1, 'finding')}."] if len(found) > 1 else []
    return [f"{first[:1].upper()}{first[1:]}.", *more]


def _without_findings(report: Report, policy: Policy) -> Answer:
    seen = Seen(facts=report.facts, policy=policy)
    if is_stopped(seen):
        return Answer(Doing.STOPPED, f"{_stopped_words(report.facts.engine)}.")
    if is_loading(seen):
        told = f"It is still loading: {_loading_words(seen)}. Watch it when it serves."
        return Answer(Doing.LOADING, told)
    if waiting := waits_in_kernel(seen):
        where = f"process {_pids(waiting, ', ')}, state D"
        told = f"It waits in the kernel ({where}), for a disk or a driver."
        return Answer(Doing.STOPPED, told)
    if is_idle(seen):
        words = _idle_words(report.facts.engine, policy.thresholds)
        return Answer(
            Doing.IDLE, f"It is idle: {words}. There is nothing to judge: watch it while it serves."
        )
    return Answer(Doing.WELL, f"{_nothing(report)}.")


def _stopped_words(facts: EngineFacts) -> str:
    """Who holds it, and what lets it go on."""
    if facts.frozen_by:
        again = "docker unpause, podman unpause or systemctl thaw lets it go on"
        return f"It is frozen ({facts.frozen_by}): {again}"
    if stopped := in_state(facts, STOPPED):
        return f"It is stopped (state T): kill -CONT {_pids(stopped, ' ')} lets it go on"
    held = _pids(in_state(facts, TRACED), ", ")
    return f"It is stopped (state t): a debugger or tracer holds process {held}"


def _pids(processes: list[Process], between: str) -> str:
    return between.join(str(each.pid) for each in processes[:PIDS_SHOWN])


def _nothing(report: Report) -> str:
    where = " in what could be seen" if hidden(report.gaps) else ""
    return f"Nothing was found that slows it{where}"


def _idle_words(facts: EngineFacts, thresholds: Thresholds) -> str:
    """What shows that it is idle: a scheduler may look for work all the time."""
    used, held = facts.cpus or 0.0, held_cards(facts)
    cards = f"{'its card' if len(held) == 1 else 'its cards'} {busy_words(held)} busy"
    if used >= thresholds.engine_idle_cpus:
        return f"{cards}, and {used:.2f} CPUs used to look for work"
    return f"{used:.2f} CPUs used" + (f", {cards}" if held else "")


def _loading_words(seen: Seen) -> str:
    """How fast it reads its model, and how much of it has come."""
    facts, least = seen.facts.engine, seen.policy.thresholds.engine_read_bytes_per_second_min
    read, size, missing = read_per_second(facts), model_bytes(facts), missing_bytes(facts)
    reads = read is not None and read >= least
    speed = f"{rate_words(read or 0)} from disk" if reads else "it waits for the disk"
    if size is None or missing is None:
        return speed
    return f"{speed}, {gib(size - missing)} of {gib(size)} in memory"


def busy_words(cards: Iterable[CardUse]) -> str:
    """How busy cards were: "83 %", "12-97 %", or "not known how"."""
    shares = [c.utilisation_share for c in cards if c.utilisation_share is not None]
    if not shares:
        return "not known how"
    low, high = percent(min(shares)), percent(max(shares))
    return high if low == high else f"{low.removesuffix(' %')}-{high}"


def waited_share(seen: Seen) -> float | None:
    """For how much of the window the threads that compute waited for a CPU, on average."""
    waited = [each.delay_share for each in computing(seen) if each.delay_share is not None]
    return sum(waited) / len(waited) if waited else None


def name(facts: EngineFacts) -> str:
    """What was watched: "llama.cpp, process 4711 (llama-server)"."""
    first = next((each for each in facts.processes if each.pid == facts.pid), None)
    program = f" ({first.name})" if first and first.name else ""
    return f"{f'{facts.engine}, ' if facts.engine else ''}process {facts.pid}{program}"


def hidden(gaps: Iterable[Gap], *, causes: bool = False) -> dict[Reason, list[str]]:
    """What is not known of the engine, in words, by reason; its cause too where that is short."""
    found: dict[Reason, list[str]] = {}
    for gap in gaps:
        if gap.check == CHECK:
            member = gap.field.rpartition(".")[2]
            words = found.setdefault(gap.reason, [])
            told = FIELDS.get(member, _in_words(member)) + (_cause(gap) if causes else "")
            words += [told] if told not in words else []
    return found


def _cause(gap: Gap) -> str:
    """Why, in brackets: not what is denied, of which the reason says all."""
    short = gap.detail and len(gap.detail) <= CAUSE_MOST and gap.reason is not Reason.DENIED
    return f" ({gap.detail})" if short else ""


def _in_words(member: str) -> str:
    for unit in ("_bytes", "_share", "_seconds"):
        member = member.removesuffix(unit)
    return member.replace("_", " ").replace("gpu", "GPU").replace("cpu", "CPU")
