"""What nodes are called, and which reports are older ones of a node that is there already."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from nodecheck.model import Struct
from nodecheck.records.fleet.nodes import Node
from nodecheck.records.state import UNNAMED

SAME_RUN_SECONDS = 60
"""Reports of one name that were made within it are of several nodes: clones, asked at once. Source:
nodecheck's own judgement; a report takes seconds, and no schedule runs oftener."""


class LeftOut(Struct, frozen=True):
    """A file that was read and is not compared: an older report of a node, or a copy."""

    file: str
    why: str


class Named(Struct, frozen=True, kw_only=True):
    """Nodes, each with the name that it is told by, in the order of the files.

    `shared` are host names that several nodes have, and how many: these are told by their files.
    """

    nodes: tuple[tuple[str, Node], ...]
    left_out: tuple[LeftOut, ...]
    shared: dict[str, int]


def name(nodes: Sequence[Node]) -> Named:
    """Give each node a name of its own, and leave out all but the newest report of each."""
    left_out: list[LeftOut] = []
    by_host: dict[str | None, list[Node]] = defaultdict(list)
    for node in _without_copies(nodes, left_out):
        by_host[None if node.name in UNNAMED else node.name].append(node)
    shared: dict[str, int] = {}
    told: dict[int, str | None] = {}
    for host, group in by_host.items():
        if host is None or (len(group) > 1 and (len(by_host) == 1 or _are_clones(group))):
            told |= {id(node): None for node in group}
            shared |= {} if host is None else {host: len(group)}
        else:
            newest = max(group, key=lambda node: node.time)
            told[id(newest)] = host
            left_out += (_older(node, newest) for node in group if node is not newest)
    named = _unique([(told[id(node)], node) for node in nodes if id(node) in told])
    return Named(nodes=named, left_out=tuple(left_out), shared=shared)


def _without_copies(nodes: Iterable[Node], left_out: list[LeftOut]) -> Iterator[Node]:
    """The one with the shortest name of those that are the same: "a.json", not "a copy.json"."""
    alike: dict[Node, list[Node]] = defaultdict(list)
    for node in nodes:
        alike[replace(node, file="")].append(node)
    for same in alike.values():
        first = min(same, key=lambda node: (len(node.file), node.file))
        yield first
        left_out += (
            LeftOut(node.file, f"a copy of {first.file}") for node in same if node is not first
        )


def _are_clones(group: Sequence[Node]) -> bool:
    times = sorted(node.time for node in group)
    return any(after - before < SAME_RUN_SECONDS for before, after in pairwise(times))


def _older(node: Node, newest: Node) -> LeftOut:
    return LeftOut(node.file, f"older than {newest.file}, of the same node {newest.name}")


def _unique(nodes: Sequence[tuple[str | None, Node]]) -> tuple[tuple[str, Node], ...]:
    """The host name, else the file's name, else its path."""
    names = [host or _stem(node.file) for host, node in nodes]
    counts = Counter(names)
    return tuple(
        (said if counts[said] == 1 else node.file, node)
        for said, (_, node) in zip(names, nodes, strict=True)
    )


def _stem(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".json")
