"""A fleet: what `nodecheck compare` answers for many reports, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from msgspec.structs import replace

from nodecheck import __version__
from nodecheck.model import Status, Struct
from nodecheck.records.figures import Figure
from nodecheck.records.fleet.features import features, findings
from nodecheck.records.fleet.groups import Hardware, Part, differing, groups, is_like, words
from nodecheck.records.fleet.names import LeftOut, name
from nodecheck.records.fleet.nodes import Node
from nodecheck.records.fleet.odd import FEWEST, About, Oddity, Split, few
from nodecheck.records.fleet.outliers import Spread, outliers

SCHEMA_VERSION = 1

ROWS_MOST = 200
"""Nodes of the matrix: the odd ones, at most so many less TYPICAL_LEAST, and a sample. Source:
nodecheck's own judgement: more rows are not looked through."""

TYPICAL_LEAST = 20
"""Nodes of that sample, beside which the odd ones show. Source: nodecheck's own judgement."""


class Unread(Struct, frozen=True):
    """A file that is no report, or could not be read."""

    file: str
    why: str


class Likeness(Struct, frozen=True, kw_only=True):
    """A group whose hardware is that of another, by its number, but for these parts."""

    group: int
    parts: tuple[Part, ...]


class Group(Struct, frozen=True, kw_only=True):
    """Nodes of the same hardware. Where `told` is false, no odd ones can be told among them.

    On `measured` of them something was measured undisturbed. `statuses` and `findings` (warnings
    and worse) count nodes. `spreads` are the figures, `splits` what they differ in without any
    being odd.
    """

    number: int
    words: tuple[str, ...]
    hardware: Hardware
    nodes: tuple[str, ...]
    told: bool
    measured: int
    statuses: dict[Status, int]
    findings: dict[str, int]
    spreads: tuple[Spread, ...] = ()
    splits: tuple[Split, ...] = ()
    like: Likeness | None = None


class OddNode(Struct, frozen=True, kw_only=True):
    """A node that is not like the others, and in what, the worst first."""

    node: str
    file: str
    group: int
    status: Status
    oddities: tuple[Oddity, ...]


class Cell(Struct, frozen=True):
    """A figure of a node: `disturbed` where it is flagged, `odd` where it is told among these."""

    value: float
    disturbed: bool
    odd: bool


class Row(Struct, frozen=True, kw_only=True):
    """A node in the matrix: its figures, in the order of its group's `spreads`."""

    node: str
    group: int
    is_odd: bool
    cells: tuple[Cell | None, ...]


class Fleet(Struct, frozen=True, kw_only=True):
    """What was read, the groups (largest first), the odd nodes (worst first).

    `first` and `last` are the times of the oldest and the newest report, in seconds since 1970.
    `shared` are host names that several nodes have. `matrix` holds the odd nodes and a sample.
    """

    schema_version: int = SCHEMA_VERSION
    nodecheck_version: str
    nodes: int
    first: int
    last: int
    statuses: dict[Status, int]
    unread: tuple[Unread, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    shared: dict[str, int]
    odd: tuple[OddNode, ...] = ()
    groups: tuple[Group, ...] = ()
    matrix: tuple[Row, ...] = ()


class _Judged(Struct, frozen=True, kw_only=True):
    """A group while the fleet is put together: its nodes by name, and what is odd of each."""

    group: Group
    nodes: tuple[tuple[str, Node], ...]
    odd: dict[int, list[Oddity]]


def make_fleet(nodes: Sequence[Node], unread: Iterable[Unread] = ()) -> Fleet:
    """Hold nodes against each other; there is at least one."""
    named = name(nodes)
    told = {id(node): said for said, node in named.nodes}
    found = groups([node for _, node in named.nodes])
    judged = [
        _judge(number, hardware, tuple((told[id(n)], n) for n in members))
        for number, (hardware, members) in enumerate(found, 1)
    ]
    judged = [_likened(each, judged) for each in judged]
    odd = sorted((node for each in judged for node in _odd(each)), key=_by_rank)
    times = [node.time for _, node in named.nodes]
    return Fleet(
        nodecheck_version=__version__,
        nodes=len(named.nodes),
        first=min(times),
        last=max(times),
        statuses=_statuses(node for _, node in named.nodes),
        unread=tuple(unread),
        left_out=named.left_out,
        shared=named.shared,
        odd=tuple(odd),
        groups=tuple(each.group for each in judged),
        matrix=tuple(_matrix(judged, odd)),
    )


def _judge(number: int, hardware: Hardware, named: tuple[tuple[str, Node], ...]) -> _Judged:
    nodes = [node for _, node in named]
    told = hardware.is_known and len(nodes) >= FEWEST
    figures = outliers(nodes)
    odd: dict[int, list[Oddity]] = {}
    splits: tuple[Split, ...] = ()
    if hardware.is_known:
        differ = features(nodes)
        splits = (*figures.splits, *differ.splits)
        for place, oddity in (*figures.odd, *differ.odd, *findings(nodes)):
            odd.setdefault(place, []).append(oddity)
    group = Group(
        number=number,
        words=words(hardware),
        hardware=hardware,
        nodes=tuple(said for said, _ in named),
        told=told,
        measured=sum(node.is_measured for node in nodes),
        statuses=_statuses(nodes),
        findings=_findings(nodes),
        spreads=figures.spreads,
        splits=splits,
    )
    return _Judged(group=group, nodes=named, odd=odd)


def _statuses(nodes: Iterable[Node]) -> dict[Status, int]:
    counts = Counter(node.status for node in nodes)
    return {status: counts[status] for status in Status if counts[status]}


def _findings(nodes: Iterable[Node]) -> dict[str, int]:
    """Finding -> how many nodes have it, those of most nodes first."""
    counts = Counter(id_ for node in nodes for id_ in sorted({f.id for f in node.faults}))
    return dict(counts.most_common())


def _likened(judged: _Judged, others: Sequence[_Judged]) -> _Judged:
    """The group with another that it is like, and its nodes odd where they are few beside it."""
    group = judged.group
    like = _likeness(group, [each.group for each in others])
    if like is None:
        return judged
    odd = judged.odd
    if len(group.nodes) <= few(len(others[like.group - 1].nodes)):
        lacking = [
            Oddity(about=About.HARDWARE, name=part.name, value=part.value, usual=part.usual)
            for part in like.parts
        ]
        odd = {place: [*lacking, *odd.get(place, [])] for place in range(len(group.nodes))}
    return replace(judged, group=replace(group, like=like), odd=odd)


def _likeness(group: Group, others: Iterable[Group]) -> Likeness | None:
    """The group that differs in the fewest parts, the largest of these."""
    found = [
        Likeness(group=other.number, parts=parts)
        for other in others
        if other.told and len(other.nodes) > len(group.nodes)
        if is_like(parts := differing(group.hardware, other.hardware))
    ]
    return min(found, key=lambda like: (len(like.parts), like.group), default=None)


def _odd(judged: _Judged) -> Iterator[OddNode]:
    for place, oddities in judged.odd.items():
        said, node = judged.nodes[place]
        yield OddNode(
            node=said,
            file=node.file,
            group=judged.group.number,
            status=node.status,
            oddities=tuple(sorted(oddities, key=lambda each: each.rank)),
        )


def _by_rank(odd: OddNode) -> tuple[int, float, int]:
    furthest = max(each.spreads or 0.0 for each in odd.oddities)
    return odd.oddities[0].rank, -furthest, -len(odd.oddities)


def _matrix(judged: Iterable[_Judged], odd: Sequence[OddNode]) -> Iterator[Row]:
    """Rows by group, the odd nodes of each first."""
    shown = [each for each in judged if len(each.nodes) > 1 and each.group.spreads]
    rank = {node.file: place for place, node in enumerate(odd[: ROWS_MOST - TYPICAL_LEAST])}
    apart = {node.file for node in odd}
    others = [n for each in shown for _, n in each.nodes if n.file not in apart]
    sample = {node.file for node in _sample(others, ROWS_MOST - len(rank))}
    for each in shown:
        places = [
            place
            for place, (_, node) in enumerate(each.nodes)
            if node.file in rank or node.file in sample
        ]
        places.sort(key=lambda place: rank.get(each.nodes[place][1].file, len(rank)))
        yield from (_row(each, place) for place in places)


def _sample(nodes: Sequence[Node], most: int) -> list[Node]:
    """As many, from first to last, as far apart as can be."""
    step = max(1.0, len(nodes) / most)
    return [nodes[int(place * step)] for place in range(min(most, len(nodes)))]


def _row(judged: _Judged, place: int) -> Row:
    said, node = judged.nodes[place]
    oddities = judged.odd.get(place, [])
    odd = {each.name for each in oddities if each.about is About.FIGURE}
    figures = {figure.metric.name: figure for figure in node.figures}
    found = (figures.get(spread.metric.name) for spread in judged.group.spreads)
    return Row(
        node=said,
        group=judged.group.number,
        is_odd=bool(oddities),
        cells=tuple(_cell(f, odd) if f else None for f in found),
    )


def _cell(figure: Figure, odd: Container[str]) -> Cell:
    return Cell(figure.value, bool(figure.flags), figure.metric.name in odd)
