"""On which cards and on whose machine a row of a benchmark was measured: from names alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodecheck.checks.gpu import products
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.rates.ceilings import Range
from nodecheck.model import Struct
from nodecheck.serving import Run
from nodecheck.units import GB

_MEMORY = re.compile(r" \d+ ?gi?b$")
"""Sizes that people write behind a card's name."""

_MAKERS = ("", "geforce ", "tesla ")
"""What people leave out before it."""

ROW_SPLITS = ("row", "tensor")
"""Values of llama.cpp's --split-mode that cut every layer across the cards."""


class Machine(Struct, frozen=True):
    """The cards that a row used.

    `rate` are the VRAM bytes a second of the slowest of them, lowest and highest where its name
    stands for several products; None where it is not known. With `parallel` they share every layer.
    `here` says that cards and CPU are as on this node; `host` is what the row calls its machine.
    """

    cards: tuple[str, ...]
    number: int
    parallel: bool
    rate: Range | None
    cpu: str | None
    here: bool
    named: bool
    host: str | None

    @property
    def total_rate(self) -> Range | None:
        """What all of the cards read at a time: of those that take turns, one does."""
        return self.rate.times(self.number) if self.rate and self.parallel else self.rate

    @property
    def words(self) -> str:
        """The cards: "L40", "2x L40 in tensor parallel"."""
        name = bare(self.cards[0], keep_case=True) if self.cards else "card"
        if self.number == 1 or not self.parallel:
            return name if self.cards else "one card"
        return f"{self.number}x {name} in tensor parallel"

    @property
    def rate_words(self) -> str:
        """Their VRAM: "864", "2 x 864", in GB/s."""
        if self.rate is None:
            return "an unknown rate"
        ends = dict.fromkeys(f"{end / GB:,.0f}" for end in (self.rate.floor, self.rate.high))
        number = f"{self.number} x " if self.parallel and self.number > 1 else ""
        return number + "-".join(ends)

    def is_same(self, other: Machine) -> bool:
        """Whether nothing that two rows say speaks for two machines."""
        cpus = {self.cpu, other.cpu} - {None}
        one_cpu = len({(cpu or "").casefold() for cpu in cpus}) < 2
        return self.here == other.here and self.host == other.host and one_cpu and (
            self.here or set(self.cards) == set(other.cards)
        )  # fmt: skip


def machine(seen: Seen, run: Run) -> Machine:
    """Whose cards a row used. One that names none is taken as this node's."""
    mine = node.cards(seen).gpus
    names = run.gpus or tuple(gpu.name or "" for gpu in mine[:1])
    number, parallel = _used(run)
    known = [rate for name in dict.fromkeys(names) if (rate := _rate(seen, name))]
    slowest = Range(min(r.floor for r in known), min(r.high for r in known)) if known else None
    return Machine(
        cards=tuple(name for name in names if name),
        number=number,
        parallel=parallel,
        rate=slowest if len(known) == len(set(names)) else None,
        cpu=run.cpu,
        here=_is_here(seen, run, number if parallel else 1),
        named=bool(run.gpus),
        host=next((r for r in run.remarks if r.startswith("host: ")), None),
    )


def _used(run: Run) -> tuple[int, bool]:
    """How many cards, and whether they share every layer."""
    together = run.tensor_parallel or 1
    if run.split_mode in ROW_SPLITS:
        together = max(together, len(run.gpus))
    return (together, True) if together > 1 else (max(1, len(run.gpus)), False)


def _is_here(seen: Seen, run: Run, number: int) -> bool:
    """Whether the node has such a CPU and as many such cards; what is not known speaks for it."""
    brand, mine = seen.facts.cpu.brand, node.cards(seen).gpus
    if run.cpu and brand and run.cpu.casefold() != brand.casefold():
        return False
    if not run.gpus:
        return number <= max(1, len(mine))
    alike = [gpu for gpu in mine if gpu.name is None or is_card(run.gpus[0], gpu.name)]
    return len(alike) >= number


def _rate(seen: Seen, name: str) -> Range | None:
    """VRAM bytes a second of a card, from this node's facts or else by its product's name."""
    mine = [gpu for gpu in node.cards(seen).gpus if is_card(name, gpu.name or "")]
    if mine:
        rates = [gpu.vram_bytes_per_second for gpu in mine]
        known = [rate for rate in rates if rate and not any(gpu.mig for gpu in mine)]
        return Range(min(known), min(known)) if known else None
    found = [p.bytes_per_second for p in _products(name)]
    sure = [rate for rate in found if rate]
    return Range(min(sure), max(sure)) if sure else None


def _products(name: str) -> Iterable[products.Product]:
    """The product of this name; else all whose name begins with it."""
    exact = products.find(None, name) or products.find(None, bare(name))
    if exact:
        return (exact,)
    return (p for p in products.PRODUCTS if any(_begins(bare(known), name) for known in p.names))


def is_card(name: str, driver_name: str) -> bool:
    """Whether a name as people write it is that of the driver: all of it, or its beginning."""
    if bare(name) == bare(driver_name):
        return True
    return products.find(None, bare(name)) is None and _begins(bare(driver_name), name)


def _begins(known: str, name: str) -> bool:
    return any(re.match(rf"{re.escape(maker + bare(name))}(?![\w])", known) for maker in _MAKERS)


def bare(name: str, *, keep_case: bool = False) -> str:
    """A card's name without its maker and without a size behind it."""
    plain = " ".join(name.split())
    plain = plain.removeprefix("NVIDIA ").removeprefix("nvidia ")
    size = _MEMORY.search(plain.casefold())
    plain = plain[: size.start()] if size else plain
    return plain if keep_case else plain.casefold()
