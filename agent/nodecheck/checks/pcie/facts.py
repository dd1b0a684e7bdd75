"""The PCIe links from each accelerator to its root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from nodecheck.links import (
    encoded_bytes_per_second,
    holds_a_switch,
    normal_errors_per_minute,
)
from nodecheck.model import Struct, Transfer
from nodecheck.thresholds import Thresholds

REFUSALS = ("UnsupReq", "ACSViol", "AtomicOpBlocked", "BlockedTLP", "TLPBlockedErr")
"""Uncorrected errors of a request that nobody there answers or that a port may not pass on: what
software asked for, not how it was carried."""


class Errors(Struct, frozen=True, kw_only=True):
    """What a device counted by Advanced Error Reporting, or by how much that rose.

    The totals are the kernel's own and count events. One event may set several bits, so they need
    not be the sum of the names of their kind: the kernel's short ones (RxErr, BadTLP, CmpltTO, ...)
    of what is not 0.
    """

    correctable: int
    nonfatal: int
    fatal: int
    correctable_names: dict[str, int] = msgspec.field(default_factory=dict)
    nonfatal_names: dict[str, int] = msgspec.field(default_factory=dict)
    fatal_names: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def of_link(self) -> int:
        """Corrected errors that a link makes, not those of other names alone: so many at least."""
        names = self.correctable_names
        others = sum(count for name, count in names.items() if _is_other(name))
        most = max((count for name, count in names.items() if not _is_other(name)), default=0)
        return max(self.correctable - others, most)

    @property
    def nonfatal_lost(self) -> int:
        """Non-fatal errors without requests that were refused."""
        return _lost(self.nonfatal, self.nonfatal_names)

    @property
    def uncorrected(self) -> int:
        """Fatal and non-fatal errors without requests that were refused."""
        return self.nonfatal_lost + _lost(self.fatal, self.fatal_names)

    @property
    def refused(self) -> int:
        """Uncorrected errors that software causes."""
        both = (self.nonfatal_names, self.fatal_names)
        return sum(names.get(name, 0) for names in both for name in REFUSALS)

    @property
    def named(self) -> str:
        """`CmpltTO 1, RxErr 3`: all names with their counts."""
        kinds = (self.correctable_names, self.nonfatal_names, self.fatal_names)
        return ", ".join(f"{name} {n}" for names in kinds for name, n in sorted(names.items()))


def _lost(total: int, names: dict[str, int]) -> int:
    """By name: an event with a refusal among its bits is not lost for that alone, nor spared."""
    return sum(n for name, n in names.items() if name not in REFUSALS) if names else total


_OTHER_CORRECTED = ("NonFatalErr", "CorrIntErr", "HeaderOF")
"""Advisory: a refused request for the most part; internal: of the device; the log was full."""


def _is_other(name: str) -> bool:
    """Whether a corrected error is none of the physical and the data link layer.

    Source: Linux, drivers/pci/pcie/aer.c, and the PCI Express Base Specification, 6.2.7.
    """
    return name in _OTHER_CORRECTED or name.startswith("dev_cor_errs")


class Hop(Struct, frozen=True, kw_only=True):
    """One device on the way, the accelerator first.

    Speeds in GT/s, widths in lanes; None where they read Unknown, 0 or are missing. `emulated`
    marks a virtual port, whose values are fiction. `gone` says that the configuration space reads
    all ones (width 63), `asleep` that the device has no power (D3cold) and so tells of no link,
    `link_files` that the node has the device's link registers at all. `aer`
    are its errors since boot, `aer_rise` those between two samples. `target_gts` is the fastest
    that this end lets its link train to (LnkCtl2; an upstream end alone has a say in it),
    `equalised` whether the link was tuned for 8 GT/s, `acs_redirect` whether a port sends traffic
    between the devices below it up to the root.
    """

    address: str
    vendor: str | None = None
    device: str | None = None
    pci_class: str | None = None
    current_gts: float | None = None
    current_width: int | None = None
    maximum_gts: float | None = None
    maximum_width: int | None = None
    emulated: bool = False
    gone: bool = False
    asleep: bool = False
    link_files: bool = False
    aer: Errors | None = None
    aer_rise: Errors | None = None
    target_gts: float | None = None
    equalised: bool | None = None
    acs_redirect: bool | None = None


def ends_of(hops: Sequence[Hop], place: int) -> Sequence[Hop]:
    """The lower and the upper end, where that is known, of the link that hop `place` is an end of.

    Hops pair up from the accelerator on: between the two ports of a switch there is no link.
    """
    low = place - place % 2
    return hops[low : low + 2]


class SharedLink(Struct, frozen=True, kw_only=True):
    """A link above a card's own, which others may use too.

    `place` is the address of its lower end. `gts` is what both ends can train to, for an idle link
    may run slower, and `width` the lanes in use.
    """

    place: str
    gts: float | None = None
    width: int | None = None

    @property
    def bytes_per_second(self) -> float | None:
        """What it carries one way after encoding."""
        return encoded_bytes_per_second(self.gts, self.width)


class Path(Struct, frozen=True, kw_only=True):
    """The hops of one accelerator up to the root port, and where it is attached.

    `numa_node` is the node that it lies on, `local_cpus` are the CPUs of it. `ats` says whether the
    card asks the IOMMU for addresses itself, `iommu_group` is None where it is in none. `bar_bytes`
    is its largest memory window (BAR), `bar_maximum_bytes` what that can be resized to.
    """

    accelerator: str
    hops: tuple[Hop, ...]
    numa_node: int | None = None
    local_cpus: tuple[int, ...] | None = None
    ats: bool | None = None
    iommu_group: int | None = None
    bar_bytes: int | None = None
    bar_maximum_bytes: int | None = None

    @property
    def outside(self) -> tuple[Hop, ...]:
        """The hops without the link within a card that holds a switch.

        Behind that of Intel the card shows one lane of Gen1.
        """
        return self.hops[2:] if holds_a_switch([hop.vendor for hop in self.hops]) else self.hops

    def shared_link(self, other: Path) -> SharedLink | None:
        """The link on which the traffic of both meets; None where no real one is known."""
        theirs = {hop.address for hop in other.hops}
        for place, hop in enumerate(self.hops):
            if hop.address in theirs and not hop.emulated and not hop.gone:
                return _at_best(ends_of(self.hops, place))
        return None

    def narrowest_above(self) -> SharedLink | None:
        """Of the links above the card's own the one that carries least, as far as that is known."""
        above = (_at_best(ends_of(self.hops, place)) for place in range(2, len(self.hops), 2))
        known = [link for link in above if link.bytes_per_second is not None]
        return min(known, key=lambda link: link.bytes_per_second or 0.0, default=None)


def _at_best(ends: Sequence[Hop]) -> SharedLink:
    real = [hop for hop in ends if not hop.emulated]
    upper = [hop for hop in ends[1:] if not hop.emulated]
    speeds = [*(hop.maximum_gts for hop in real), *(hop.target_gts for hop in upper)]
    return SharedLink(
        place=ends[0].address,
        gts=min((gts for gts in speeds if gts), default=None),
        width=min((hop.current_width for hop in real if hop.current_width), default=None),
    )


def while_copying(transfers: Iterable[Transfer], card: str) -> tuple[tuple[float, int], ...]:
    """Speed in GT/s and lanes that a card's link was seen at in its copies, each pair once."""
    seen = (
        (each.link_gts, each.link_width)
        for each in transfers
        if each.card == card and each.link_gts and each.link_width
    )
    return tuple(dict.fromkeys((gts, width) for gts, width in seen if gts and width))


def expected_replays(each: Transfer, limits: Thresholds) -> float | None:
    """How many packets a healthy link sends again while they were counted for this copy.

    None where the link or the count is not known.
    """
    gts, lanes = each.link_gts, each.link_width
    if each.replays is None or each.replay_seconds is None or gts is None or lanes is None:
        return None
    minute = normal_errors_per_minute(gts, lanes, limits.replays_per_minute_per_gts)
    return minute * each.replay_seconds / 60


class PcieFacts(Struct, frozen=True, kw_only=True):
    """`source` is sysfs or lspci.

    `window_seconds` is the time between the two samples of errors. `iommu` says whether devices are
    behind an IOMMU, in a guest the guest's own; `iommu_source` is what told.
    """

    paths: tuple[Path, ...] = ()
    source: str | None = None
    window_seconds: float | None = None
    iommu: bool | None = None
    iommu_source: str | None = None

    def path_of(self, address: str | None) -> Path | None:
        """The way of the accelerator at a PCI address."""
        return next((path for path in self.paths if path.accelerator == address), None)
