"""Whether a node may serve a model, in a line for monitoring and some on its grounds."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.judge.figures import between, figure
from nodecheck.model import Gap, Severity, Status, Strategy, Struct, Viability
from nodecheck.plan import Plan
from nodecheck.render.layout import printable
from nodecheck.render.plan_words import TOKENS, best
from nodecheck.report import Report
from nodecheck.serving import STRATEGIES, Fit
from nodecheck.units import gib

FIRST_LINE_BYTES = 80
"""Of the first line, which is all that a pager or a status page shows. Source: the guidelines of
the Monitoring Plugins, which ask for fewer characters than this."""

WORST_LAST = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)

ON_GPU = tuple(way for way in STRATEGIES if way not in ("cpu-only", "model-load"))
"""Ways that a node without a GPU has not."""


class Gate(Struct, frozen=True, kw_only=True):
    """The worst of the node's and the model's status, in one line and in several."""

    status: Status
    line: str
    details: tuple[str, ...]


class _Said(Struct, frozen=True):
    """One part of the answer."""

    status: Status
    text: str


def gate(plan: Plan, report: Report, name: str | None, minimum: float | None) -> Gate:
    """Judge a strategy, the best one where none is named, and the node itself.

    `report` is judged; `minimum` is in tokens a second. Without it the verdict on the strategy
    counts.
    """
    chosen = _chosen(plan, name)
    if chosen is None:
        told = _absent(name, report.gaps)
    else:
        told = _refused(chosen, plan.fits) or _speed(chosen, minimum)
    parts = sorted([told, *_node(report)], key=lambda p: -WORST_LAST.index(p.status))
    status = parts[0].status
    line = f"{status.value.upper()} {'; '.join(part.text for part in parts)}"
    return Gate(status=status, line=_cut(line), details=_details(plan, report, chosen))


def _chosen(plan: Plan, name: str | None) -> Strategy | None:
    if name is not None:
        return next((s for s in plan.strategies if s.strategy == name), None)
    ways = [s for s in plan.strategies if s.unit == TOKENS]
    return best(ways) or next(iter(ways), None)


def _absent(name: str | None, gaps: Iterable[Gap]) -> _Said:
    """No such way was judged: there is no GPU, or it could not be looked at."""
    if name is None:
        return _Said(Status.UNKNOWN, "no way to serve the model could be judged")
    unseen = any(gap.check == "gpu" and gap.field in ("*", "gpus") for gap in gaps)
    if name in ON_GPU and not unseen:
        return _Said(Status.CRITICAL, f"{name} is no way to serve it here")
    return _Said(Status.UNKNOWN, f"{name} could not be judged")


def _refused(chosen: Strategy, fits: tuple[Fit, ...]) -> _Said | None:
    """Why it cannot be served so at all."""
    short = shortage(chosen.strategy, fits)
    if short is not None:
        return _Said(Status.CRITICAL, f"{chosen.strategy} does not fit: {short.room}")
    if chosen.viability is Viability.NOT_VIABLE and chosen.high is None:
        return _Said(Status.CRITICAL, f"{chosen.strategy} not viable: {chosen.limit}")
    return None


def shortage(strategy: str, fits: Iterable[Fit]) -> Fit | None:
    """What keeps every engine from serving so; None where one of them has the room."""
    by_engine: dict[str | None, list[Fit]] = {}
    for fit in fits:
        if fit.strategy == strategy:
            by_engine.setdefault(fit.engine, []).append(fit)
    short = {
        engine: next((f for f in needed if f.fits is False), None)
        for engine, needed in by_engine.items()
    }
    for_all = short.pop(None, None)
    if for_all is not None:
        return for_all
    return next(iter(short.values())) if short and all(short.values()) else None


def _speed(chosen: Strategy, minimum: float | None) -> _Said:
    if minimum is None or chosen.unit != TOKENS:
        return _by_verdict(chosen)
    name, least = chosen.strategy, f"{minimum:g}"
    if chosen.high is None:
        return _Said(Status.UNKNOWN, f"{name} not known: {chosen.basis}")
    if chosen.low is None:
        return _by_ceiling(chosen, chosen.high, minimum)
    reach = f"{name} {between(chosen.low, chosen.high)} {TOKENS}"
    if chosen.high < minimum:
        return _Said(Status.CRITICAL, f"{reach} < {least}")
    if chosen.low < minimum:
        return _Said(Status.WARNING, f"{reach}, >= {least} not sure")
    known = chosen.viability is not Viability.UNKNOWN
    status, doubt = (Status.OK, "") if known else (Status.UNKNOWN, ", but not known if it can be")
    return _Said(status, f"{reach} >= {least}{doubt}")


def _by_ceiling(chosen: Strategy, high: float, minimum: float) -> _Said:
    reach = f"{chosen.strategy} {figure(high)} {TOKENS} or less"
    if high < minimum:
        return _Said(Status.CRITICAL, f"{reach}, < {minimum:g}")
    return _Said(Status.UNKNOWN, f"{reach}, >= {minimum:g} not known")


_BY_VERDICT = {
    Viability.VIABLE: (Status.OK, "viable"),
    Viability.MARGINAL: (Status.WARNING, "marginal"),
    Viability.NOT_VIABLE: (Status.CRITICAL, "not viable"),
    Viability.UNKNOWN: (Status.UNKNOWN, "not known"),
}


def _by_verdict(chosen: Strategy) -> _Said:
    status, words = _BY_VERDICT[chosen.viability]
    if chosen.high is None or chosen.low is None:
        return _Said(status, f"{chosen.strategy} {words}: {chosen.limit}")
    reach = f"{between(chosen.low, chosen.high)} {chosen.unit}"
    return _Said(status, f"{chosen.strategy} {words}, {reach}")


def _node(report: Report) -> list[_Said]:
    """The node's own status where it is not ok, by the worst finding."""
    status = report.verdict.status
    if status is Status.OK:
        return []
    found = [f for f in report.findings if f.severity is not Severity.INFO]
    if not found:
        return [_Said(status, "the node could not be judged whole")]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [_Said(status, f"node: {found[0].id}{more}")]


def _details(plan: Plan, report: Report, chosen: Strategy | None) -> tuple[str, ...]:
    work = plan.workload
    told = [f"model: {work.name}, {gib(work.weight_bytes_shipped)}"]
    if chosen is not None:
        told.append(f"{chosen.strategy}: limited by {chosen.limit}; {chosen.basis}")
        told += [
            f"{f.engine or f.strategy}: {f.room} {gib(f.needed_bytes)} needed, "
            f"{gib(f.available_bytes)} there{f'; {f.advice}' if f.advice else ''}"
            for f in plan.fits
            if f.strategy == chosen.strategy and f.fits is False and f.available_bytes is not None
        ]
    found = [f.id for f in report.findings if f.severity is not Severity.INFO]
    if len(found) > 1:
        told.append(f"findings: {', '.join(found)}")
    return tuple(map(printable, (*told, f"node: {report.verdict.headline}")))


def _cut(line: str) -> str:
    line = printable(line)
    if len(line.encode(errors="replace")) <= FIRST_LINE_BYTES:
        return line
    return line.encode(errors="replace")[: FIRST_LINE_BYTES - 3].decode(errors="ignore") + "..."
