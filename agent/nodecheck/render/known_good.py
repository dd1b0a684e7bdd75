"""A policy drawn from a node, as a file: each line with what was seen, then what is left out."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.judge.known_good import KnownGood
from nodecheck.judge.node_words import node_words
from nodecheck.model import faults
from nodecheck.policy import in_units
from nodecheck.render.layout import printable, wrap
from nodecheck.report import Report
from nodecheck.units import listed

WIDTH = 98
IDS_TOLD = 3


def toml(known: KnownGood, report: Report) -> str:
    """The policy as parse_policy reads it."""
    return "\n".join((*_head(report), *_required(known), *_asked(known), *_left_out(known), ""))


def told(known: KnownGood, report: Report) -> Iterator[str]:
    """A line on a node that is not in order, and on each thing that is left out."""
    yield from _not_in_order(report)
    for each in known.left_out:
        yield printable(f"Left out: {each.name}: {'; '.join(each.why)}")


def _head(report: Report) -> Iterator[str]:
    node = ", ".join(node_words(report)) or "a node"
    drawn = f"Drawn by nodecheck {report.nodecheck_version} on {report.time} from {node}."
    yield from _comment(drawn)
    yield from _comment("nodecheck gate --policy FILE holds a node to it.")
    for line in _not_in_order(report):
        yield from _comment(line)


def _not_in_order(report: Report) -> Iterator[str]:
    if found := faults(report.findings):
        ids = listed([finding.id for finding in found], IDS_TOLD)
        status = report.verdict.status.value.upper()
        yield f"This node is {status} ({ids}): not a known-good one"


def _required(known: KnownGood) -> Iterator[str]:
    yield ""
    if known.required:
        yield from _comment("Each was judged here; where one cannot be, the verdict is unknown.")
    yield f"required = {_array(known.required)}"


def _asked(known: KnownGood) -> Iterator[str]:
    if known.seen:
        yield "\n[requirements]"
    for name, seen in known.seen.items():
        yield from _comment(seen)
        yield f"{name} = {_value(name, getattr(known.requirements, name))}"


def _left_out(known: KnownGood) -> Iterator[str]:
    if known.left_out:
        yield ""
        yield from _comment("Left out, as this node does not show what to ask for:")
    for each in known.left_out:
        yield from _comment(f"- {each.name}: {'; '.join(each.why)}")


def _value(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return _array(value)
    return (
        str(value) if isinstance(value, int) and "_" not in name else _quoted(in_units(name, value))
    )


def _array(names: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(printable(text), WIDTH)]
