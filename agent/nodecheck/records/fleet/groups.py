"""Nodes of the same hardware, and groups that are like another but for what is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from nodecheck.model import Struct
from nodecheck.records.fleet.nodes import Card, Node
from nodecheck.units import count, gib

RAM_ALIKE_SHARE = 0.02
"""What firmware, crash kernel and drivers take of the same RAM differs by less. Source: the
smallest module that can be missing, one of 32, is 3 %."""

UNNAMED = "unnamed GPU"


class Hardware(Struct, frozen=True, kw_only=True):
    """What nodes of a group have in common; None is not known, `gpus` maps names to how many.

    `ram_bytes` is the median.
    """

    guest: bool | None
    cpu: str | None
    sockets: int | None
    logical_cpus: int | None
    ram_bytes: int | None
    gpus: dict[str, int] | None

    @property
    def is_known(self) -> bool:
        """Whether enough is known to hold nodes against each other."""
        return self.logical_cpus is not None or self.cpu is not None


class Part(Struct, frozen=True):
    """A part of the hardware that is another than in a like group; `less` where some is missing."""

    name: str
    value: str
    usual: str
    less: bool


def groups(nodes: Iterable[Node]) -> list[tuple[Hardware, list[Node]]]:
    """Nodes by their hardware, the largest group first; last those of which little is known."""
    nodes = list(nodes)
    order = {id(node): place for place, node in enumerate(nodes)}
    names = _card_names(nodes)
    alike: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        cards = None if node.cards is None else tuple(sorted(_named(node.cards, names).items()))
        alike[node.guest, node.cpu, node.sockets, node.logical_cpus, cards].append(node)
    found = [
        (_hardware(members, names), sorted(members, key=lambda node: order[id(node)]))
        for same in alike.values()
        for members in _by_ram(same)
    ]
    return sorted(found, key=lambda each: (not each[0].is_known, -len(each[1]), words(each[0])))


def _card_names(nodes: Iterable[Node]) -> dict[str, str]:
    """PCI device -> the name that most have for it: without a driver a card has another."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for card in node.cards or ():
            if card.device and card.name:
                counts[card.device][card.name] += 1
    return {device: names.most_common(1)[0][0] for device, names in counts.items()}


def _named(cards: Iterable[Card], names: dict[str, str]) -> Counter[str]:
    return Counter(
        names.get(card.device or "") or card.name or card.device or UNNAMED for card in cards
    )


def _by_ram(nodes: list[Node]) -> Iterator[list[Node]]:
    """Those whose RAM is not known, then the others by sizes that are alike."""
    unknown = [node for node in nodes if node.ram_bytes is None]
    if unknown:
        yield unknown
    alike: list[Node] = []
    for node in sorted((n for n in nodes if n.ram_bytes is not None), key=_ram):
        if alike and _ram(node) > _ram(alike[0]) * (1 + RAM_ALIKE_SHARE):
            yield alike
            alike = []
        alike.append(node)
    if alike:
        yield alike


def _ram(node: Node) -> int:
    return node.ram_bytes or 0


def _hardware(nodes: Sequence[Node], names: dict[str, str]) -> Hardware:
    first = nodes[0]
    ram = sorted(node.ram_bytes for node in nodes if node.ram_bytes is not None)
    return Hardware(
        guest=first.guest,
        cpu=first.cpu,
        sockets=first.sockets,
        logical_cpus=first.logical_cpus,
        ram_bytes=ram[len(ram) // 2] if ram else None,
        gpus=None if first.cards is None else dict(sorted(_named(first.cards, names).items())),
    )


def words(hardware: Hardware) -> tuple[str, ...]:
    """What the hardware is, in a few words: what is not known is left out."""
    kind = {True: "guest", False: "bare metal", None: ""}[hardware.guest]
    told = (
        kind,
        _processors(hardware) if hardware.is_known else "",
        f"{gib(hardware.ram_bytes)} RAM" if hardware.ram_bytes else "",
        _gpus(hardware) if hardware.gpus else "",
    )
    return tuple(filter(None, told)) or ("hardware not known",)


def _processors(hardware: Hardware) -> str:
    sockets = f"{hardware.sockets}x " if (hardware.sockets or 1) > 1 else ""
    cpus = count(hardware.logical_cpus, "CPU") if hardware.logical_cpus else ""
    return ", ".join(filter(None, (sockets + (hardware.cpu or "unnamed CPU"), cpus)))


def _gpus(hardware: Hardware) -> str:
    if hardware.gpus is None:
        return "not known"
    return ", ".join(f"{number}x {name}" for name, number in hardware.gpus.items()) or "none"


def differing(one: Hardware, usual: Hardware) -> tuple[Part, ...]:
    """The parts in which one hardware is not the usual."""
    kinds = {True: "guest", False: "bare metal", None: "not known"}
    told = (
        ("kind", kinds[one.guest], kinds[usual.guest], False),
        ("CPU", one.cpu or "not known", usual.cpu or "not known", False),
        ("sockets", *_numbers(one.sockets, usual.sockets)),
        ("CPUs", *_numbers(one.logical_cpus, usual.logical_cpus)),
        ("RAM", *_rams(one.ram_bytes, usual.ram_bytes)),
        ("GPUs", _gpus(one), _gpus(usual), _fewer(one.gpus, usual.gpus)),
    )
    return tuple(Part(*each) for each in told if each[1] != each[2])


def _numbers(one: int | None, usual: int | None) -> tuple[str, str, bool]:
    said = ["not known" if each is None else str(each) for each in (one, usual)]
    return said[0], said[1], one is not None and usual is not None and one < usual


def _rams(one: int | None, usual: int | None) -> tuple[str, str, bool]:
    if one is None or usual is None:
        return gib(one) if one else "not known", gib(usual) if usual else "not known", False
    if max(one, usual) <= min(one, usual) * (1 + RAM_ALIKE_SHARE):
        return "", "", False
    return gib(one), gib(usual), one < usual


def _fewer(one: dict[str, int] | None, usual: dict[str, int] | None) -> bool:
    """Whether all of these are among the usual ones, and not all of the usual are there."""
    if one is None or usual is None:
        return False
    return all(number <= usual.get(name, 0) for name, number in one.items())


def is_like(parts: Sequence[Part]) -> bool:
    """Whether it is the usual hardware with one part changed, or with some of it missing.

    A socket that is gone takes its CPUs, its RAM and its cards along.
    """
    return len(parts) == 1 or (bool(parts) and all(part.less for part in parts))
