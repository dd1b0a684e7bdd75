"""Nodes whose figures lie apart from those of their group: by the median and its deviations.

The spread of a figure is the largest of four: 1.4826 times the median absolute deviation; that of
the tails, which are heavier than noise has them where neighbours disturb; that of the group's
figures in general, for a few nodes agree by chance in one figure and not in all; and a least one,
for repeated runs on one node differ too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from nodecheck.model import Struct
from nodecheck.records.compare.figures import differ
from nodecheck.records.figures import REPEATS_SHARE, Figure, Metric
from nodecheck.records.fleet.nodes import Node
from nodecheck.records.fleet.odd import FEWEST, About, Oddity, Share, Split, few
from nodecheck.spread import quantile

SPREADS = 7.0
"""As many spreads from the median are odd. Source: `make bench-fleet`: by chance none of 1,000
nodes with 20 figures each, and one node in 70 fleets of 5."""

SPREAD_LEAST = REPEATS_SHARE / SPREADS
"""Of the median. Source: what lies as close as two runs on one node is never odd."""

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation. Source: the normal distribution."""

P95_SIGMAS = 1.645
"""Standard deviations that 5 % lie beyond on one side. Source: the normal distribution."""

MANY = 20
"""Nodes from which two kinds, and tails, can be told. Source: nodecheck's own judgement."""

GAP_SHARE = REPEATS_SHARE
"""Of the median, that at least lies between two kinds. Source: two runs on one node lie closer."""


class Spread(Struct, frozen=True, kw_only=True):
    """A figure over a group. `disturbed` are the nodes whose own is flagged and left out.

    `share` is the spread as a share of the median, None where too few were measured.
    """

    metric: Metric
    nodes: int
    disturbed: int
    median: float
    p10: float
    p90: float
    share: float | None = None


class Outliers(Struct, frozen=True, kw_only=True):
    """The figures of a group, those that split it, and by the place of a node what is odd there."""

    spreads: tuple[Spread, ...]
    splits: tuple[Split, ...] = ()
    odd: tuple[tuple[int, Oddity], ...] = ()


class _Column(Struct, frozen=True, kw_only=True):
    """One figure of a group: what is undisturbed of it, and its median, or that of each kind."""

    metric: Metric
    found: tuple[tuple[int, Figure], ...]
    disturbed: int
    values: tuple[float, ...]
    centres: tuple[float, ...]
    share: float


def outliers(nodes: Sequence[Node]) -> Outliers:
    """Judge the figures of a group."""
    columns = [column for each in _by_figure(nodes) if (column := _column(each))]
    enough = [column for column in columns if len(column.values) >= FEWEST]
    typical = median(column.share for column in enough) if enough else 0.0
    shares = {c.metric.name: max(c.share, typical, SPREAD_LEAST) for c in enough}
    odd: list[tuple[int, Oddity]] = []
    splits = [split for c in columns if len(c.values) < FEWEST and (split := _apart(c))]
    for column in enough:
        beyond = list(_beyond(column, shares[column.metric.name]))
        if len(beyond) > few(len(column.values)):
            splits.append(_split(column, {place for place, _ in beyond}))
        else:
            odd += beyond
            splits += [_split(column, set())] if len(column.centres) > 1 else []
    return Outliers(
        spreads=tuple(_spread(column, shares.get(column.metric.name)) for column in columns),
        splits=tuple(splits),
        odd=tuple(odd),
    )


def _by_figure(nodes: Sequence[Node]) -> Iterable[list[tuple[int, Figure]]]:
    found: dict[str, list[tuple[int, Figure]]] = {}
    for place, node in enumerate(nodes):
        for figure in node.figures:
            found.setdefault(figure.metric.name, []).append((place, figure))
    return [found[name] for name in sorted(found, key=_by_importance)]


def _by_importance(name: str) -> tuple[int, int, str]:
    """Memory, decode, then what follows from these; most threads first."""
    families = ("dram_read", "dram_", "decode_dram_", "decode_")
    family = next((n for n, each in enumerate(families) if name.startswith(each)), len(families))
    threads = name.partition("@")[2].partition(",")[0]
    return family, -int(threads) if threads.isdecimal() else 0, name


def _column(found: list[tuple[int, Figure]]) -> _Column | None:
    """None where no undisturbed value is above zero."""
    clean = tuple((place, each) for place, each in found if not each.flags and each.value > 0)
    if not clean:
        return None
    values = tuple(sorted(each.value for _, each in clean))
    centres = _centres(values)
    return _Column(
        metric=clean[0][1].metric,
        found=clean,
        disturbed=len(found) - len(clean),
        values=values,
        centres=centres,
        share=_share([_off(value, centres) for value in values]),
    )


def _share(offs: Iterable[float]) -> float:
    """The spread; where there are many nodes that of the tails too, by the side with fewer."""
    found = list(offs)
    share = MAD_TO_SIGMA * median(map(abs, found))
    if len(found) < MANY:
        return share
    tails = min(-quantile(found, 0.05), quantile(found, 0.95))
    return max(share, tails / P95_SIGMAS)


def _centres(values: Sequence[float]) -> tuple[float, ...]:
    """The median; one of each kind where a gap divides the values, neither side being few."""
    if len(values) < MANY:
        return (median(values),)
    least = few(len(values)) + 1
    gap, after = max(
        (values[place] - values[place - 1], place)
        for place in range(least, len(values) - least + 1)
    )
    apart = max((quantile(values, 0.9) - quantile(values, 0.1)) / 2, GAP_SHARE * median(values))
    if gap <= apart:
        return (median(values),)
    return median(values[:after]), median(values[after:])


def _nearest(value: float, centres: Sequence[float]) -> float:
    return min(centres, key=lambda centre: abs(value - centre))


def _off(value: float, centres: Sequence[float]) -> float:
    """The share of the nearest centre by which a value lies above it."""
    centre = _nearest(value, centres)
    return (value - centre) / centre


def _beyond(column: _Column, share: float) -> Iterator[tuple[int, Oddity]]:
    for place, figure in column.found:
        off = _off(figure.value, column.centres)
        if abs(off) > SPREADS * share and _is_clear(figure, column.centres, SPREADS * share / 2):
            up = column.metric.more_is_better
            yield (
                place,
                Oddity(
                    about=About.FIGURE,
                    name=column.metric.name,
                    value=figure.value,
                    usual=_nearest(figure.value, column.centres),
                    metric=column.metric,
                    spreads=abs(off) / share,
                    worse=None if up is None else (off < 0) is up,
                ),
            )


def _is_clear(figure: Figure, centres: Sequence[float], bound: float) -> bool:
    """Whether the node's own passes do not reach to the group."""
    centre = _nearest(figure.value, centres)
    if figure.value < centre:
        return figure.high is None or figure.high < centre * (1 - bound)
    return figure.low is None or figure.low > centre * (1 + bound)


def _split(column: _Column, beyond: set[int]) -> Split:
    """By the kinds, or those that lie apart and the rest."""
    parts: dict[object, list[float]] = {}
    for place, figure in column.found:
        kind = place in beyond if beyond else _nearest(figure.value, column.centres)
        parts.setdefault(kind, []).append(figure.value)
    shares = [Share(median(values), len(values)) for values in parts.values()]
    shares.sort(key=lambda each: -each.nodes)
    return Split(name=column.metric.name, shares=tuple(shares), metric=column.metric)


def _apart(column: _Column) -> Split | None:
    """Of too few nodes to tell the odd one those that lie apart as two reports do."""
    parts: list[list[Figure]] = []
    for figure in sorted((each for _, each in column.found), key=lambda each: each.value):
        if not parts or _is_beyond(parts[-1][-1], figure):
            parts.append([])
        parts[-1].append(figure)
    shares = [Share(median(each.value for each in part), len(part)) for part in reversed(parts)]
    shares.sort(key=lambda each: -each.nodes)
    split = Split(name=column.metric.name, shares=tuple(shares), metric=column.metric)
    return split if len(parts) > 1 else None


def _is_beyond(lower: Figure, upper: Figure) -> bool:
    """Whether one is higher than runs repeat, and its passes lie above those of the other."""
    if not differ(lower.value, upper.value, REPEATS_SHARE):
        return False
    return lower.high is None or upper.low is None or lower.high < upper.low


def _spread(column: _Column, share: float | None) -> Spread:
    return Spread(
        metric=column.metric,
        nodes=len(column.values),
        disturbed=column.disturbed,
        median=median(column.values),
        p10=quantile(column.values, 0.1),
        p90=quantile(column.values, 0.9),
        share=share,
    )
