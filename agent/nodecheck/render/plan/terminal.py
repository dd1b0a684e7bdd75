"""A plan at a terminal: the answer, the model, each way to serve it, its room, how to start."""

from __future__ import annotations

import re

from nodecheck.judge.strategies import best
from nodecheck.model import Point, Strategy, Viability
from nodecheck.plan import Plan
from nodecheck.render.layout import Line, Span, hanging, joined
from nodecheck.render.plan import curve as drawing
from nodecheck.render.plan.curve import Mark, settings
from nodecheck.render.plan.fits import INDENT, engine_lines, fit_lines
from nodecheck.render.plan.measured import measured_lines
from nodecheck.render.plan.words import headline, model
from nodecheck.render.report.terminal import abilities, origin, reached, under
from nodecheck.render.styles import VERDICT_STYLES, VERDICTS, fitting
from nodecheck.serving import Curve
from nodecheck.units import count

LEVERS_SHOWN = 2
STEPS_SHOWN = 8


def render(plan: Plan, width: int, *, unicode: bool, saved: bool = False) -> list[Line]:
    """The lines, none longer than `width` save commands.

    `unicode` says whether the terminal takes more than ASCII, `saved` that the node's report was
    made earlier.
    """
    width = fitting(width)
    viability, sentence = headline(plan)
    label = VERDICTS[viability]
    head = Span(label.upper(), f"bold {VERDICT_STYLES[label]}")
    chosen, easy = best(plan.strategies), is_easy(plan)
    lines = [
        *_title(plan, width, saved=saved),
        (),
        *hanging(head, Span(sentence, "bold"), INDENT, width),
    ]
    lines += _model(plan, width)
    lines += _strategies(plan, width, easy=easy)
    lines += [] if easy else _curves(plan, width, unicode=unicode)
    lines += measured_lines(plan, width, unicode=unicode)
    lines += fit_lines(plan.fits, chosen.strategy if chosen else None, width, easy=easy)
    lines += engine_lines(plan.engines, width, easy=easy)
    return lines + _rest(plan, width)


def is_easy(plan: Plan) -> bool:
    """Whether the model is well served from the GPU and nothing here needs a warning."""
    first = best(plan.strategies)
    if first is None or first.strategy != "gpu-resident" or plan.comparisons:
        return False
    hopeless = any(
        s.viability is Viability.NOT_VIABLE and s.strategy == "partial-offload"
        for s in plan.strategies
    )
    return first.viability is Viability.VIABLE and not hopeless


def _title(plan: Plan, width: int, *, saved: bool) -> list[Line]:
    first = f"nodecheck {plan.nodecheck_version}"
    parts = (*plan.node, *origin(plan, saved=saved))
    return joined(first, parts, len(first) + 3, width)


def _model(plan: Plan, width: int) -> list[Line]:
    lines: list[Line] = [()]
    for number, (label, items) in enumerate(model(plan)):
        lines += joined(f" {label}" if number else "MODEL", items, INDENT, width)
    return lines


def _strategies(plan: Plan, width: int, *, easy: bool) -> list[Line]:
    if not plan.strategies:
        return []
    serving = plan.serving
    context = f"{serving.context_tokens:,} tokens of context" if serving.context_tokens else ""
    requests = f"{count(serving.requests, 'request')}, speeds of each"
    asked = (context, requests if serving.requests > 1 else "")
    title = joined("WHAT THIS NODE CAN DO", tuple(filter(None, asked)), 24, width)
    if not easy:
        rows = abilities(plan.strategies, width, lambda strategy: _levers(strategy, width))
        return [(), *title, *rows]
    first = best(plan.strategies)
    rows = abilities(plan.strategies, width, in_full=lambda strategy: strategy is first)
    return [(), *title, *rows, *under("how the others were got: --json, --html", width)]


def _levers(strategy: Strategy, width: int) -> list[Line]:
    """What would move a strategy, the largest first."""
    shown = strategy.levers[:LEVERS_SHOWN]
    return under(f"would move it: {lever_words(strategy)}", width) if shown else []


def lever_words(strategy: Strategy) -> str:
    """Each change, and what it would make of the strategy."""
    return "; ".join(
        f"{lever.change}{f': {reached(lever)}' if lever.high is not None else ''}"
        for lever in strategy.levers[:LEVERS_SHOWN]
    )


def drawn(plan: Plan) -> Curve | None:
    """The curve that a terminal shows: that of the better way."""
    curves = {curve.strategy: curve for curve in plan.curves if len(settings(curve)) > 1}
    first = best(way for way in plan.strategies if way.strategy in curves)
    return curves[first.strategy] if first else next(iter(curves.values()), None)


def marks(plan: Plan, curve: Curve) -> list[Mark]:
    """What was measured on a curve, of one sequence: setting and tokens a second."""
    found = []
    for row in plan.comparisons:
        run = row.run
        number = run.gpu_layers if curve.setting == "-ngl" else run.cpu_expert_layers
        alone = row.strategy in (curve.strategy, "gpu-resident", "cpu-only")
        if number is not None and number >= 0 and run.tokens_per_second and alone:
            found.append((number, run.tokens_per_second))
    return found


def _curves(plan: Plan, width: int, *, unicode: bool) -> list[Line]:
    shown = drawn(plan)
    if shown is None:
        return []
    measured = marks(plan, shown)
    plot = drawing.draw(shown, width, unicode=unicode, marks=measured)
    words = [f"tok/s over {shown.setting}"]
    if any(each.point.fits is False for each in settings(shown)):
        words.append("thin: the VRAM does not hold it")
    if measured:
        words.append("x: measured")
    title = joined("OFFLOAD", tuple(words), INDENT, width)
    label = f" {shown.setting} (layers on the CPU)  "
    return [(), *title, *plot, *joined(label, tuple(steps(plan, shown)), len(label), width)]


def steps(plan: Plan, curve: Curve) -> list[str]:
    """The settings that tell most, with the CPU layers and the speed of each.

    These are the ends, those that the strategy tells, the first that the VRAM holds, and those that
    were measured.
    """
    known = {each.number: each.point for each in settings(curve)}
    numbers = sorted(known, reverse=curve.setting == "-ngl")
    held = [n for n in numbers if known[n].fits is not False]
    told = [p for s in plan.strategies if s.strategy == curve.strategy for p in s.points]
    wanted = [numbers[0], numbers[-1], *held[:1], *_numbers(told)]
    wanted += [number for number, _ in marks(plan, curve)]
    kept = [n for n in dict.fromkeys(wanted) if n in known][:STEPS_SHOWN]
    return [_step(number, known[number]) for number in sorted(kept, key=numbers.index)]


def _numbers(points: list[Point]) -> list[int]:
    return [int(number) for point in points for number in re.findall(r"\d+", point.setting)[-1:]]


def _step(number: int, point: Point) -> str:
    layers = "" if point.cpu_layers is None else f" ({point.cpu_layers})"
    room = ", no room" if point.fits is False else ""
    return f"{number}{layers}: {reached(point)}{room}"


def _rest(plan: Plan, width: int) -> list[Line]:
    lines: list[Line] = []
    for label, texts in (("NOTE", plan.advice), ("ASSUMED", plan.workload.notes)):
        for number, text in enumerate(texts):
            lines += hanging(Span("" if number else label, "bold"), Span(text), INDENT, width)
    return [(), *lines] if lines else []
