"""A fleet in words: its verdict, what is odd, what a group is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nodecheck.model import Status, Struct
from nodecheck.records.figure_names import named
from nodecheck.records.fleet.fleet import Fleet, Group, OddNode
from nodecheck.records.fleet.odd import FEWEST, About, Oddity, Split
from nodecheck.records.fleet.outliers import Spread
from nodecheck.render.metrics import amount, between, moment
from nodecheck.units import count, listed

NODES_NAMED = 3
FILES_NAMED = 5
SHARES_TOLD = 4
DAY_SECONDS = 86_400


class OddRow(Struct, frozen=True, kw_only=True):
    """One oddity as cells; `nodes` is empty where it is one more of the nodes above.

    Else `rows` says how many rows tell of these nodes.
    """

    nodes: str = ""
    rows: int = 1
    what: str
    value: str = ""
    usual: str = ""
    off: str = ""
    style: str = ""


def title(made: Fleet) -> list[str]:
    """The program, how much was read, in which state, when the reports were made."""
    first, last = moment(made.first), moment(made.last)
    apart = made.last - made.first > DAY_SECONDS
    when = f"{first[:10]} to {last[:10]}" if apart else last
    unread = f"{count(len(made.unread), 'file')} not read" if made.unread else ""
    told = (
        f"nodecheck {made.nodecheck_version}",
        count(made.nodes, "node"),
        _statuses(made.statuses),
        f"{count(len(made.groups), 'group')} by hardware",
        f"reports of {when}",
        unread,
    )
    return [text for text in told if text]


def _statuses(statuses: Mapping[Status, int]) -> str:
    return ", ".join(f"{number:,} {status.value}" for status, number in statuses.items())


def verdict(made: Fleet) -> tuple[str, str, str]:
    """The status that it is shown as, a label and a sentence. It is on what is odd alone."""
    judged = [group for group in made.groups if group.told]
    if made.odd:
        first, *others = made.odd
        worst = _sentence(first.node, first.oddities[0])
        also = f"; also {listed([each.node for each in others], NODES_NAMED)}" if others else ""
        said = f"of {count(made.nodes, 'node')}. {worst}{also}."
        return "warning", f"{len(made.odd):,} odd", said
    if not judged:
        return "unknown", "not told", _too_few(made)
    told = [f"{_like(judged)}."]
    grave = made.statuses.get(Status.CRITICAL, 0)
    if grave:
        told.append(f"{count(grave, 'node')} {'is' if grave == 1 else 'are'} critical.")
    if rest := made.nodes - sum(len(group.nodes) for group in judged):
        told.append(f"{count(rest, 'node')} in groups too small to tell.")
    held = all(group.measured >= FEWEST for group in judged)
    return "warning" if grave else "ok" if held else "unknown", "none odd", " ".join(told)


def _too_few(made: Fleet) -> str:
    most = max((len(group.nodes) for group in made.groups if group.hardware.is_known), default=0)
    if not most:
        return "Too little is known of their hardware to tell which is odd."
    here = f"here at most {most} have the same" if most > 1 else "here no two have the same"
    return f"It takes {FEWEST} nodes of the same hardware to tell which is odd; {here}."


def _like(judged: Sequence[Group]) -> str:
    """In what the nodes of these groups are like each other."""
    nodes = sum(len(group.nodes) for group in judged)
    measured = sum(group.measured for group in judged)
    like = f"{count(nodes, 'node')} are like the others of their group"
    if not measured:
        return f"{like} by hardware and findings; no figure was measured"
    return like if measured == nodes else f"{like}; measured on {measured:,} of {nodes:,}"


def _sentence(node: str, oddity: Oddity) -> str:
    value, usual = oddity_value(oddity), oddity_usual(oddity)
    return f"{node}: {oddity_name(oddity)} {value}" + (f", not {usual}" if usual != "none" else "")


def oddity_name(oddity: Oddity) -> str:
    """What it is about."""
    return named(oddity.metric) if oddity.metric else oddity.name


def oddity_value(oddity: Oddity) -> str:
    """What the node has."""
    return _amount(oddity, oddity.value)


def oddity_usual(oddity: Oddity) -> str:
    """What the others have: of a figure the median."""
    return _amount(oddity, oddity.usual)


def _amount(oddity: Oddity, value: str | float) -> str:
    if isinstance(value, str):
        return value
    return amount(oddity.metric, value) if oddity.metric else f"{value:g}"


def oddity_off(oddity: Oddity) -> str:
    """By what share a figure is off, and by how many spreads: "-50 % (17)"."""
    if isinstance(oddity.value, str) or isinstance(oddity.usual, str) or oddity.spreads is None:
        return ""
    return f"{100 * (oddity.value / oddity.usual - 1):+.0f} % ({oddity.spreads:.0f})"


def oddity_style(oddity: Oddity) -> str:
    """The status that it is shown as."""
    if oddity.about is About.HARDWARE:
        return "critical"
    if oddity.severity:
        return oddity.severity.value
    return "ok" if oddity.worse is False else "warning"


def odd_rows(odd: Sequence[OddNode], nodes_most: int, each_most: int) -> tuple[list[OddRow], int]:
    """The odd nodes as rows, and how many nodes are left out. Nodes odd in the same are one."""
    alike: dict[object, list[OddNode]] = {}
    for node in odd:
        alike.setdefault(_alike(node), []).append(node)
    shown = list(alike.values())[:nodes_most]
    rows = [row for nodes in shown for row in _rows(nodes, each_most)]
    return rows, len(odd) - sum(map(len, shown))


def _alike(node: OddNode) -> object:
    """Figures are never the same on two nodes."""
    if any(each.metric for each in node.oddities):
        return node.file
    return node.group, tuple((each.name, each.value) for each in node.oddities)


def _rows(nodes: Sequence[OddNode], most: int) -> list[OddRow]:
    names = listed([node.node for node in nodes], NODES_NAMED)
    oddities = nodes[0].oddities
    told = min(len(oddities), most + 1)
    rows = [
        OddRow(
            nodes="" if number else names,
            rows=told,
            what=oddity_name(each),
            value=oddity_value(each),
            usual=oddity_usual(each),
            off=oddity_off(each),
            style=oddity_style(each),
        )
        for number, each in enumerate(oddities[:most])
    ]
    if len(oddities) > most:
        more = f"and {len(oddities) - most} more"
        rows.append(OddRow(what=more))
    return rows


def group_facts(group: Group) -> list[str]:
    """The statuses of its nodes, their findings, what it is like, and whether it was judged."""
    told = [_statuses(group.statuses)]
    if group.findings:
        found = [f"{name} on {number:,}" for name, number in group.findings.items()]
        told.append(listed(found, SHARES_TOLD))
    if group.like:
        parts = ", ".join(f"{p.name} {p.value} instead of {p.usual}" for p in group.like.parts)
        told.append(f"like group {group.like.group}, but {parts}")
    if group.measured < len(group.nodes):
        told.append(f"measured on {group.measured:,}" if group.measured else "not measured")
    if not group.told and len(group.nodes) >= FEWEST:
        told.append("too little is known of their hardware to tell odd ones")
    return told


def split_words(split: Split) -> str:
    """How many have what: "6.8.0 on 60, 5.15.0 on 40"."""
    shown = split.shares[:SHARES_TOLD]
    told = [
        f"{_short(_of_split(split, each.value))} on {each.nodes}" for each in shown
    ]  # fmt: skip
    rest = sum(each.nodes for each in split.shares[SHARES_TOLD:])
    name = named(split.metric) if split.metric else split.name
    return f"{name}: {', '.join(told)}" + (f", others on {rest}" if rest else "")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _of_split(split: Split, value: str | float) -> str:
    if isinstance(value, str):
        return value
    return amount(split.metric, value) if split.metric else f"{value:g}"


def of_most(spreads: Iterable[Spread]) -> list[tuple[int, Spread]]:
    """The figures that at least half of the measured nodes have, with their places."""
    placed = list(enumerate(spreads))
    most = max((each.nodes + each.disturbed for _, each in placed), default=0)
    return [(place, each) for place, each in placed if 2 * (each.nodes + each.disturbed) >= most]


def spread_words(spread: Spread) -> str:
    """The median and p10-p90, in one unit: "204 (199-208) GB/s"."""
    if spread.nodes == 1:
        return amount(spread.metric, spread.median)
    number, _, unit = amount(spread.metric, spread.median).partition(" ")
    ends, _, their = between(spread.metric, spread.p10, spread.p90).partition(" ")
    return f"{number} ({ends}) {unit}" if unit == their else f"{number} {unit} ({ends} {their})"


def notes(made: Fleet) -> list[str]:
    """What became of files that are not compared, and of names that tell nothing."""
    told = [
        f"{number} nodes are called {name}: they are told by their files"
        for name, number in made.shared.items()
    ]
    if made.left_out:
        first = made.left_out[0]
        of = count(len(made.left_out), "file")
        told.append(f"{of} left out, of nodes that are there already: {first.file} is {first.why}")
    told += [f"{each.file}: not read: {each.why}" for each in made.unread[:FILES_NAMED]]
    if len(made.unread) > FILES_NAMED:
        more = count(len(made.unread) - FILES_NAMED, "more file")
        told.append(f"{more} not read")
    return told
