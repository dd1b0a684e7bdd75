"""The answer on a watched engine: why it is slow, or that nothing was found, or is to be judged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from nodecheck.checks.engine.facts import CardUse, EngineFacts, ModelFile
from nodecheck.checks.engine.signs import (
    computing,
    faults_per_second,
    held_cards,
    missing_bytes,
    model_bytes,
    read_per_second,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Finding, Gap, Reason, Struct, faults
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import GB, count, gb_per_second, gib, percent

CHECK = "engine"
SHIPPED = Policy()

FIELDS = {
    "*": "all of it",
    "cpu_group": "CPU quota",
    "delay_share": "how long threads waited",
    "gpu_files": "open GPU devices",
    "locked_limit_bytes": "limit of locked memory",
    "memory_group": "memory limit",
    "numa_bytes": "NUMA nodes of its memory",
    "read_bytes": "bytes read from disk",
    "read_total_bytes": "bytes read since it began",
}
"""Members that their names do not tell in words."""


class Doing(str, Enum):
    """What it does, in the word that stands before the sentence."""

    SLOW = "slow"
    WELL = "ok"
    IDLE = "idle"
    LOADING = "loading"
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
    told = _without_findings(report, policy.thresholds)
    if ended:
        nothing = " Until then nothing was found that slowed it."
        return Answer(Doing.ENDED, ended + nothing * (told.doing is Doing.WELL))
    return told


def _why(found: tuple[Finding, ...]) -> list[str]:
    first = (found[0].headline or found[0].summary).rstrip(".")
    more = [f"Beside it: {count(len(found) - 1, 'finding')}."] if len(found) > 1 else []
    return [f"{first[:1].upper()}{first[1:]}.", *more]


def _without_findings(report: Report, thresholds: Thresholds) -> Answer:
    facts = report.facts.engine
    if words := _loading(facts, thresholds):
        return Answer(Doing.LOADING, f"It is still loading: {words}. Watch it when it serves.")
    if _is_idle(facts, thresholds):
        used = f"{facts.cpus or 0:.2f} CPUs used"
        held = held_cards(facts)
        noun = "its card" if len(held) == 1 else "its cards"
        cards = f", {noun} {busy_words(held)} busy" if held else ""
        return Answer(
            Doing.IDLE,
            f"It is idle: {used}{cards}. There is nothing to judge: watch it while it serves.",
        )
    return Answer(Doing.WELL, f"{_nothing(report)}.")


def _nothing(report: Report) -> str:
    where = " in what could be seen" if hidden(report.gaps) else ""
    return f"Nothing was found that slows it{where}"


def _is_idle(facts: EngineFacts, thresholds: Thresholds) -> bool:
    busy = [card for card in facts.cards if card.memory_bytes != 0]
    shares = [card.utilisation_share for card in busy if card.utilisation_share is not None]
    used = facts.cpus
    return (
        used is not None
        and used < thresholds.engine_idle_cpus
        and not any(share >= thresholds.engine_idle_card_share for share in shares)
    )


def _loading(facts: EngineFacts, thresholds: Thresholds) -> str | None:
    """How fast it reads its model, and how much of it has come; None where it does not."""
    waited = (faults_per_second(facts) or 0) >= thresholds.engine_major_faults_per_second_min
    read = read_per_second(facts) or 0
    reads = read >= thresholds.engine_read_bytes_per_second_min
    if not (waited or reads) or all(map(is_in_memory, facts.model_files)):
        return None
    speed = f"{rate_words(read)} from disk" if reads else "it waits for the disk"
    size, missing = model_bytes(facts), missing_bytes(facts)
    if size is None or missing is None:
        return speed
    return f"{speed}, {gib(size - missing)} of {gib(size)} are in memory"


def is_in_memory(file: ModelFile) -> bool:
    """Whether it is known to lie in memory as a whole."""
    return file.cached_bytes is not None and file.cached_bytes >= (file.size_bytes or 0)


def rate_words(rate: float) -> str:
    """A rate from storage: "4 MB/s", "1.2 GB/s"."""
    return gb_per_second(rate) if rate >= GB else f"{rate / 1e6:.0f} MB/s"


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


def hidden(gaps: Iterable[Gap]) -> dict[Reason, list[str]]:
    """What is not known of the engine, in words, by reason."""
    found: dict[Reason, list[str]] = {}
    for gap in gaps:
        if gap.check == CHECK:
            member = gap.field.rpartition(".")[2]
            words = found.setdefault(gap.reason, [])
            words += [told] if (told := FIELDS.get(member, _in_words(member))) not in words else []
    return found


def _in_words(member: str) -> str:
    for unit in ("_bytes", "_share", "_seconds"):
        member = member.removesuffix(unit)
    return member.replace("_", " ").replace("gpu", "GPU").replace("cpu", "CPU")
