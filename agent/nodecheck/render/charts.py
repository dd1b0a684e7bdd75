"""Charts as SVG to stand in a page: no script, no style and no address of their own."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import pygal

from nodecheck.model import Struct
from nodecheck.render.bench.figures import Series, rate
from nodecheck.render.layout import printable
from nodecheck.render.plan.curve import Scale
from nodecheck.units import GB

WIDTH, HEIGHT = 760, 340
ROOM, ROW = 80, 56
"""Height of the axis below bars, and of a bar with its name above it."""

BAR_AT, NAME_AT = (0.05, 0.35), 0.87
"""Where they lie in that height, from the bottom; a name is written 21 below its place."""

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
    return bare(chart, described)


def beside(names: Sequence[str], series: dict[str, list[float | None]], described: str) -> str:
    """Rates as bars side by side: a group for each of `names`, a bar for each series."""
    known = (value for rates in series.values() for value in rates if value)
    chart = pygal.Bar(**_options(known), print_values=True, print_values_position="top")
    chart.x_labels = [printable(name)[:16] for name in names]
    for name, rates in series.items():
        chart.add(printable(name), [value and value / GB for value in rates])
    return bare(chart, described)


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
    return bare(chart, described)


class Bar(Struct, frozen=True, kw_only=True):
    """A range of tokens a second, its name and its figures in words, and the class of its colour.

    A range whose ends are alike is a ceiling, and drawn as a line.
    """

    name: str
    low: float
    high: float
    words: str
    colour: str


def ranges(bars: Sequence[Bar], scale: Scale, described: str) -> str:
    """Ranges as bars, one below the other, each below its name."""
    chart = pygal.XY(
        width=WIDTH,
        height=ROOM + ROW * len(bars),
        show_legend=False,
        show_dots=False,
        show_y_labels=False,
        print_labels=True,
        js=[],
        x_title="tok/s",
        range=(0, len(bars)),
        xrange=(0, 1),
    )
    chart.x_labels = [
        {"value": scale.share(rate), "label": words} for rate, words in scale.ticks().items()
    ]
    names = []
    for bar, below in zip(bars, reversed(range(len(bars))), strict=True):
        chart.add(bar.colour, _outline(scale.share(bar.low), scale.share(bar.high), below))
        words = f"{printable(bar.name)}: {bar.words}"
        names.append({"value": (0, below + NAME_AT), "label": words})
    chart.add("", names, stroke=False, show_dots=True, dots_size=0)
    return bare(chart, described, [bar.colour for bar in bars])


def _outline(left: float, right: float, below: int) -> list[tuple[float, float]]:
    """A bar with so many below it."""
    bottom, top = (below + edge for edge in BAR_AT)
    return [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]


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


def bare(chart: Any, described: str, classes: Iterable[str] = ()) -> str:
    """The drawing alone. Styles are the page's, so that it may be dark, printed or narrow.

    `classes` are those of the series, in turn, in the place of numbered ones.
    """
    root = chart.render_tree()
    for parent in root.iter():
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.rpartition("}")[2] in _NEEDLESS:
                parent.remove(child)
            else:
                child.attrib.pop("id", None)
    root.attrib.pop("id", None)
    root.attrib.update({"role": "img", "aria-label": printable(described)})
    drawing = ElementTree.tostring(root, encoding="unicode")
    for number, name in enumerate(classes):
        drawing = drawing.replace(f'serie-{number} color-{number}"', f'{name}"')
    return drawing
