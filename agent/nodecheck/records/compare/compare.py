"""Two reports side by side: what differs beyond noise, and what that moved.

Both are judged by the same rules and policy. What changes by itself (free memory, load,
temperatures) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck import __version__
from nodecheck.judge.node_words import node_words
from nodecheck.records.compare.comparison import Comparison, Side
from nodecheck.records.compare.figures import pairs
from nodecheck.records.compare.findings import findings
from nodecheck.records.compare.headline import headline
from nodecheck.records.compare.strategies import is_alike, strategies
from nodecheck.records.differences import differences
from nodecheck.records.state import HOST_NAME, POLICY, UNNAMED, VERSION, State, state
from nodecheck.report import Report, in_utc

IN_HEADING = (HOST_NAME, VERSION, POLICY)
"""Traits that are told with the two sides."""


def compare(before: tuple[str, Report], after: tuple[str, Report]) -> Comparison:
    """Compare two judged reports, each with the name that it was asked for by."""
    one, other = before[1], after[1]
    states = state(one), state(other)
    found = differences(*states)
    traits = tuple(d for d in found if d.kind == "trait" and d.name not in IN_HEADING)
    told = tuple(findings(one, other, found))
    measured = tuple(pairs(one, other))
    alike = is_alike(one.workload, other.workload)
    ways = tuple(strategies(one, other, states)) if alike else ()
    said, differs = headline(traits, told, measured, ways, guest=other.facts.virt.guest is True)
    return Comparison(
        nodecheck_version=__version__,
        before=_side(*before),
        after=_side(*after),
        headline=said,
        differs=differs,
        notes=tuple(_notes(one, other)),
        traits=traits,
        unchanged=_unchanged(*states),
        findings=told,
        figures=measured,
        strategies=ways,
    )


def _side(label: str, report: Report) -> Side:
    cpu = report.facts.cpu
    level = f"x86-64-v{cpu.x86_64_level}" if cpu.x86_64_level else None
    named = f"{cpu.brand} ({level})" if level else cpu.brand
    return Side(
        label=label,
        time=report.time,
        host=report.host.name,
        nodecheck_version=report.nodecheck_version,
        node=node_words(report),
        cpu=named if cpu.brand else level,
        status=report.verdict.status,
        headline=report.verdict.headline,
        workload=report.workload.name if report.workload else None,
        not_checked=report.verdict.not_checked,
    )


def _notes(one: Report, other: Report) -> Iterator[str]:
    """What keeps a difference from being a change of one node."""
    names = one.host.name, other.host.name
    if names[0] != names[1] and not set(names) & set(UNNAMED):
        yield f"two nodes, {names[0]} and {names[1]}: a difference is no change of either"
    versions = one.nodecheck_version, other.nodecheck_version
    if versions[0] != versions[1]:
        yield (
            f"made by nodecheck {versions[0]} and {versions[1]}: what only one of them reads "
            "looks as if it had come or gone"
        )
    if in_utc(other.time) < in_utc(one.time):
        yield "B was made before A"
    if not is_alike(one.workload, other.workload):
        yield (
            f"judged for two models, {_model(one)} in A and {_model(other)} in B, so their "
            "strategies are not compared: nodecheck --from FILE --model MODEL --json judges a "
            "report for the model of the other"
        )


def _model(report: Report) -> str:
    return report.workload.name if report.workload else "none"


def _unchanged(before: State, after: State) -> tuple[str, ...]:
    """Names of traits of which all that both have is the same."""
    ours, theirs = set(before.traits), set(after.traits)
    moved = {each.name for each in ours ^ theirs}
    names = dict.fromkeys(each.name for each in before.traits if each in theirs)
    return tuple(name for name in names if name not in moved and name not in IN_HEADING)
