"""What few nodes of a group are or have, and most do not; and findings that few have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from nodecheck.checks.cpu.isa import by_importance
from nodecheck.model import Struct
from nodecheck.records.differences import could_tell
from nodecheck.records.fleet.nodes import Fault, Feature, Node
from nodecheck.records.fleet.odd import FEWEST, About, Oddity, Share, Split, few
from nodecheck.records.state import covers
from nodecheck.units import gib, listed

SIZE_ALIKE_SHARE = 0.05
"""File systems of the same disk differ by less: a reserve, a swap file. Source: nodecheck's own
judgement."""

SETS_NAMED = 4

NONE = "none"

Value = str | tuple[str, ...] | float


class Differing(Struct, frozen=True, kw_only=True):
    """What splits a group, and by the place of a node what is odd there."""

    splits: tuple[Split, ...] = ()
    odd: tuple[tuple[int, Oddity], ...] = ()


def features(nodes: Sequence[Node]) -> Differing:
    """Hold what the nodes of a group are and have against each other."""
    splits: list[Split] = []
    odd: list[tuple[int, Oddity]] = []
    for name, known in _by_name(nodes).items():
        usual = _usual([_value(feature) for feature in known.values()])
        others = {p: f for p, f in known.items() if not _alike(_value(f), usual)}
        if not others or (usual is None and name.startswith("file system")):
            continue  # one disk more is nothing odd
        if len(known) < FEWEST or len(others) > few(len(known)):
            splits.append(_split(name, known.values(), usual))
        else:
            odd += ((place, _oddity(name, each, usual)) for place, each in others.items())
    return Differing(splits=tuple(splits), odd=tuple(odd))


def _by_name(nodes: Sequence[Node]) -> dict[str, dict[int, Feature | None]]:
    """Name -> place of a node -> its feature: None where it is not there and would be seen."""
    found: dict[str, dict[int, Feature | None]] = defaultdict(dict)
    for place, node in enumerate(nodes):
        for feature in node.features:
            found[feature.name][place] = feature
    for known in found.values():
        one = next(filter(None, known.values()))
        if isinstance(one.value, float):
            continue  # what is not there has no size
        for place, node in enumerate(nodes):
            if place not in known and not covers(node.unseen, one.fact):
                known[place] = None
    return found


def _value(feature: Feature | None) -> Value | None:
    return None if feature is None else feature.value


def _usual(values: Sequence[Value | None]) -> Value | None:
    sizes = [value for value in values if isinstance(value, float)]
    return median(sizes) if sizes else Counter(values).most_common(1)[0][0]


def _alike(one: Value | None, usual: Value | None) -> bool:
    if isinstance(one, float) and isinstance(usual, float):
        return abs(one - usual) <= SIZE_ALIKE_SHARE * usual
    return one == usual


def _oddity(name: str, feature: Feature | None, usual: Value | None) -> Oddity:
    return Oddity(
        about=About.FEATURE, name=name, value=_told(feature, usual), usual=_usual_words(usual)
    )


def _told(feature: Feature | None, usual: Value | None) -> str:
    """What a node has; of several the ones that the others have not, and where they lie."""
    if feature is None:
        return NONE
    if isinstance(feature.value, tuple):
        return _set_words(feature.value, usual if isinstance(usual, tuple) else ())
    if isinstance(feature.value, float):
        return gib(feature.value)
    news = [
        f"{value} at {where}"
        for value, where in feature.places
        if f"x {value}, " not in f"{usual}, "
    ]
    return "; ".join(news) or feature.value


def _set_words(names: tuple[str, ...], usual: tuple[str, ...]) -> str:
    lacks = [name for name in usual if name not in names]
    has = [name for name in names if name not in usual]
    said = (("lacks", lacks), ("has", has))
    return "; ".join(f"{verb} {_by_importance(each)}" for verb, each in said if each) or NONE


def _by_importance(names: Sequence[str]) -> str:
    known, others = by_importance(names)
    return listed([*known, *others], SETS_NAMED)


def _usual_words(usual: Value | None) -> str:
    if usual is None:
        return NONE
    if isinstance(usual, tuple):
        return f"{len(usual)} of them"
    return gib(usual) if isinstance(usual, float) else usual


def _split(name: str, known: Iterable[Feature | None], usual: Value | None) -> Split:
    counts = Counter(
        _usual_words(usual) if _alike(_value(f), usual) else _told(f, usual) for f in known
    )
    return Split(name=name, shares=tuple(Share(value, n) for value, n in counts.most_common()))


def findings(nodes: Sequence[Node]) -> Iterator[tuple[int, Oddity]]:
    """Findings that few nodes of a group have, by the place of the node."""
    counts = Counter(id_ for node in nodes for id_ in {fault.id for fault in node.faults})
    kinds = Counter(node.unseen for node in nodes)
    for place, node in enumerate(nodes):
        for fault in node.faults:
            if counts[fault.id] > few(len(nodes)):
                continue
            looked = sum(
                n for unseen, n in kinds.items() if could_tell(unseen, node.unseen, fault.check)
            )
            if looked >= FEWEST and counts[fault.id] <= few(looked):
                yield place, _finding(fault)


def _finding(fault: Fault) -> Oddity:
    return Oddity(
        about=About.FINDING,
        name=fault.id,
        value=f"{fault.severity.value}: {', '.join(fault.subjects)}",
        usual=NONE,
        severity=fault.severity,
    )
