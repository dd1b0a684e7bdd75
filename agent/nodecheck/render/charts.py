"""Charts as SVG to stand in a page: no script, no style and no address of their own."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import pygal

from nodecheck.render.bench_figures import Series, rate
from nodecheck.render.curve import Scale
from nodecheck.render.layout import printable
from nodecheck.units import GB

WIDTH, HEIGHT = 760, 340
TICKS_MOST = 6

# its import hook is for plugins of its own, and of a form that importlib no longer takes
sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, pygal.PluginImportFixer)]
_NEEDLESS = ("script", "style", "desc", "title")


def over_threads(series: Sequence[Series], described: str) -> str:
    """Rates over threads; `described` is read to those who do not see it."""
    threads = sorted({n for each in series for n, _ in each.points})
    chart = pygal.Line(
        **_options(value for each in series for _, value in each.points),
        x_title="threads",
        dots_size=4,
    )
    chart.x_labels = [str(n) for n in threads]
    for each in series:
        points = dict(each.points)
        chart.add(each.name, [points[n] / GB if n in points else None for n in threads])
    return _bare(chart, described)


def beside(names: Sequence[str], series: dict[str, list[float | None]], described: str) -> str:
    """Rates as bars side by side: a group for each of `names`, a bar for each series."""
    known = (value for rates in series.values() for value in rates if value)
    chart = pygal.Bar(**_options(known), print_values=True, print_values_position="top")
    chart.x_labels = [printable(name)[:16] for name in names]
    for name, rates in series.items():
        chart.add(printable(name), [value and value / GB for value in rates])
    return _bare(chart, described)


def over_setting(
    name: str,
    bands: Mapping[str, Sequence[tuple[int, float, float]]],
    marks: Sequence[tuple[int, float]],
    scale: Scale,
    described: str,
) -> str:
    """Ranges of tokens a second over a setting: `bands` hold (number, slowest, fastest).

    `marks` are what was measured: (number, tokens a second).
    """
    numbers = sorted({n for band in bands.values() for n, _, _ in band})
    first, last = numbers[0], numbers[-1]
    chart = pygal.XY(
        width=WIDTH,
        height=HEIGHT,
        legend_at_bottom=True,
        legend_at_bottom_columns=1,
        js=[],
        x_title=printable(name),
        y_title="tok/s",
        range=(0, 1),
        xrange=(first, last),
        show_dots=False,
    )
    # rates are placed here: pygal fills no area on a logarithmic axis of its own
    chart.y_labels = [
        {"value": scale.share(rate), "label": words} for rate, words in scale.ticks().items()
    ]
    quarters = (first + round((last - first) * part / 4) for part in range(5))
    chart.x_labels = [{"value": n, "label": str(n)} for n in dict.fromkeys(quarters)]
    for label, band in bands.items():
        fastest = [(n, scale.share(high)) for n, _, high in band]
        slowest = [(n, scale.share(low)) for n, low, _ in reversed(band)]
        chart.add(printable(label), [*fastest, *slowest, fastest[0]], fill=False)
    if marks:
        dots = [(min(max(n, first), last), scale.share(rate)) for n, rate in marks]
        chart.add("measured", dots, stroke=False, show_dots=True, dots_size=6)
    return _bare(chart, described)


def _options(rates: Iterable[float]) -> dict[str, Any]:
    ticks = _ticks(max(rates, default=GB) / GB)
    return {
        "range": (0, ticks[-1]),
        "y_labels": ticks,
        "width": WIDTH,
        "height": HEIGHT,
        "legend_at_bottom": True,
        "include_x_axis": True,
        "y_title": "GB/s",
        "js": [],
        "formatter": lambda value: rate(value * GB),
    }


def _ticks(most: float) -> list[float]:
    """From zero in steps of 1, 2 or 5 (times a power of ten) to the first at or above `most`."""
    power = 10.0 ** math.floor(math.log10(most))
    steps = (factor * power for factor in (0.1, 0.2, 0.5, 1, 2, 5))
    step = next(each for each in steps if each * (TICKS_MOST - 1) >= most)
    return [round(number * step, 6) for number in range(math.ceil(most / step - 1e-9) + 1)]


def _bare(chart: Any, described: str) -> str:
    """The drawing alone. Styles are the page's, so that it may be dark, printed or narrow."""
    root = chart.render_tree()
    for parent in root.iter():
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.rpartition("}")[2] in _NEEDLESS:
                parent.remove(child)
            else:
                child.attrib.pop("id", None)
    root.attrib.pop("id", None)
    root.attrib.update({"role": "img", "aria-label": printable(described)})
    return ElementTree.tostring(root, encoding="unicode")
