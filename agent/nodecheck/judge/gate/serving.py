"""Whether a model can be served as asked, and as fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodecheck.judge.figures import between, figure
from nodecheck.judge.gate.answers import Answer, sign
from nodecheck.judge.gate.gpus import looked_in_vain
from nodecheck.judge.strategies import ADDED, best
from nodecheck.judge.ways.answers import TOKENS
from nodecheck.model import Gap, Status, Strategy, Viability
from nodecheck.serving import STRATEGIES, Fit

ON_GPU = tuple(way for way in STRATEGIES if way not in ("cpu-only", "model-load"))
"""Ways that a node without a GPU has not."""

NO_WAY_TO_DECODE = ("host-kv-pool", "model-load", *ADDED)

RATE = "tokens_per_second"

_BY_VERDICT = {
    Viability.VIABLE: (Status.OK, "viable"),
    Viability.MARGINAL: (Status.WARNING, "marginal"),
    Viability.NOT_VIABLE: (Status.CRITICAL, "not viable"),
    Viability.UNKNOWN: (Status.UNKNOWN, "not known"),
}


def choose(strategies: Sequence[Strategy], name: str | None) -> Strategy | None:
    """The way that was named, else the best; None where it was not judged."""
    if name is not None:
        return next((s for s in strategies if s.strategy == name), None)
    ways = [s for s in strategies if s.unit == TOKENS]
    return best(ways) or next(iter(ways), None)


def serving(
    strategies: Sequence[Strategy],
    fits: Iterable[Fit],
    gaps: Iterable[Gap],
    name: str | None,
    minimum: float | None,
) -> Answer:
    """Whether a way is viable, or its whole range reaches `minimum` tokens a second."""
    chosen = choose(strategies, name)
    if chosen is None:
        status, text = _not_judged(name, gaps)
        return Answer(name=RATE, status=status, text=text, warning_below=minimum)
    refused = _refused(chosen, fits)
    if chosen.unit != TOKENS or minimum is None:
        status, text = refused or _by_verdict(chosen)
    else:
        status, text = refused or _reach(chosen, minimum)
    better = _unseen(strategies, gaps) if name is None and status is Status.CRITICAL else None
    if better is not None:
        status, text = Status.UNKNOWN, f"{better} could not be judged; {text}"
    if chosen.unit != TOKENS:
        return Answer(name="model", status=status, text=text)
    value = None if refused or better else chosen.low
    return Answer(name=RATE, status=status, text=text, value=value, warning_below=minimum)


def _unseen(strategies: Iterable[Strategy], gaps: Iterable[Gap]) -> str | None:
    """What may serve the model better than all that is known."""
    if looked_in_vain(gaps):
        return "GPUs"
    ways = (s for s in strategies if s.strategy not in NO_WAY_TO_DECODE and s.high is None)
    return next((s.strategy for s in ways if s.viability is Viability.UNKNOWN), None)


def _not_judged(name: str | None, gaps: Iterable[Gap]) -> tuple[Status, str]:
    """There is no such way here, or it could not be looked at."""
    unseen = any(gap.check == "gpu" and gap.field in ("*", "gpus") for gap in gaps)
    if name is None:
        return Status.UNKNOWN, "no way to serve the model could be judged"
    if name in ON_GPU and not unseen:
        return Status.CRITICAL, f"{name} is no way to serve it here"
    return Status.UNKNOWN, f"{name} could not be judged"


def _refused(chosen: Strategy, fits: Iterable[Fit]) -> tuple[Status, str] | None:
    """Why it cannot be served so at all."""
    short = shortage(chosen.strategy, fits)
    if short is not None:
        return Status.CRITICAL, f"{chosen.strategy} does not fit: {short.room}"
    if chosen.viability is Viability.NOT_VIABLE and chosen.high is None:
        return Status.CRITICAL, f"{chosen.strategy} not viable: {chosen.limit}"
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


def _reach(chosen: Strategy, minimum: float) -> tuple[Status, str]:
    name, least = chosen.strategy, f"{minimum:g}"
    if chosen.high is None:
        return Status.UNKNOWN, f"{name} not known: {chosen.basis}"
    if chosen.low is None:
        return _by_ceiling(name, chosen.high, minimum)
    reach = f"{name} {between(chosen.low, chosen.high)} {TOKENS}"
    if chosen.high < minimum:
        return Status.CRITICAL, f"{reach} {sign(chosen.high, minimum, figure)} {least}"
    if chosen.low < minimum:
        return Status.WARNING, f"{reach}, >= {least} not sure"
    met = f"{reach} {sign(chosen.low, minimum, figure)} {least}"
    if chosen.viability is Viability.UNKNOWN:
        return Status.UNKNOWN, f"{met}, but not known if it can be"
    return Status.OK, met


def _by_ceiling(name: str, high: float, minimum: float) -> tuple[Status, str]:
    reach = f"{name} {figure(high)} {TOKENS} or less"
    if high < minimum:
        return Status.CRITICAL, f"{reach}, {sign(high, minimum, figure)} {minimum:g}"
    return Status.UNKNOWN, f"{reach}, whether it reaches {minimum:g} is not known"


def _by_verdict(chosen: Strategy) -> tuple[Status, str]:
    status, words = _BY_VERDICT[chosen.viability]
    if chosen.high is None or chosen.low is None:
        why = chosen.limit if chosen.high is not None else chosen.basis
        return status, f"{chosen.strategy} {words}: {why}"
    reach = f"{between(chosen.low, chosen.high)} {chosen.unit}"
    return status, f"{chosen.strategy} {words}, {reach}"
