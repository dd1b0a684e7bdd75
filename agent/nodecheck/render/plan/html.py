"""A plan as a page that needs nothing else: no script, no address, no font of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodecheck.plan import Plan
from nodecheck.render import charts, speeds
from nodecheck.render.page import page_maker, told_time
from nodecheck.render.plan.curve import Mark, Scale, Setting, settings
from nodecheck.render.plan.fits import fit_cells, needs
from nodecheck.render.plan.measured import cells
from nodecheck.render.plan.terminal import marks, steps
from nodecheck.render.plan.words import TOKENS, headline, model
from nodecheck.render.report.terminal import origin
from nodecheck.render.speeds import CLASSES
from nodecheck.render.styles import VERDICTS
from nodecheck.serving import Curve


def page() -> Callable[[Plan], str]:
    """Makes the page of a plan."""
    return page_maker("plan.html.j2", _content)


def _content(plan: Plan) -> dict[str, Any]:
    viability, sentence = headline(plan)
    program, time = f"nodecheck {plan.nodecheck_version}", told_time(plan.time)
    return {
        "name": plan.workload.name,
        "title": [program, *plan.node, *origin(plan), time],
        "label": VERDICTS[viability],
        "class": CLASSES[viability],
        "sentence": sentence,
        "model": [(label or "model", items) for label, items in model(plan)],
        "context": plan.serving.context_tokens,
        "requests": plan.serving.requests,
        "strategies": [speeds.row(each) for each in plan.strategies],
        "curves": [_curve(plan, curve) for curve in plan.curves if len(settings(curve)) > 1],
        "fits": [(fit_cells(fit), needs(fit), fit) for fit in plan.fits],
        "comparisons": [(cells(row), row) for row in plan.comparisons],
        "conclusions": plan.conclusions,
        "engines": plan.engines,
        "notes": [("Note", plan.advice), ("Assumed", plan.workload.notes)],
    }


def _curve(plan: Plan, curve: Curve) -> dict[str, Any]:
    measured = marks(plan, curve)
    known = settings(curve)
    told = steps(plan, curve)
    return {
        "name": f"{curve.strategy}: {curve.setting}",
        "setting": curve.setting,
        "chart": charts.over_setting(
            curve.setting,
            {name: band for name, band in _bands(known).items() if len(band) > 1},
            measured,
            Scale.of(curve, measured),
            _described(curve, told, measured),
        ),
        "steps": told,
    }


def _bands(known: list[Setting]) -> dict[str, list[tuple[int, float, float]]]:
    """The settings that the VRAM holds, and the others; each reaches to its neighbour."""
    bands: dict[str, list[tuple[int, float, float]]] = {
        "fits in VRAM": [],
        "the VRAM does not hold it": [],
    }
    fitting, other = bands.values()
    for number, each in enumerate(known):
        beside = known[max(0, number - 1)].point, known[min(len(known) - 1, number + 1)].point
        point = each.point
        row = (each.number, point.high if point.low is None else point.low, point.high)
        if point.fits is not False:
            fitting.append(row)
        if point.fits is False or any(p.fits is False for p in beside):
            other.append(row)
    return bands


def _described(curve: Curve, told: list[str], measured: list[Mark]) -> str:
    """A chart in words, for those who do not see it."""
    runs = "; ".join(f"{number}: {rate:.2f}" for number, rate in measured)
    also = f". Measured: {runs}" if runs else ""
    return f"{TOKENS} over {curve.setting} (layers on the CPU in brackets): {'; '.join(told)}{also}"
