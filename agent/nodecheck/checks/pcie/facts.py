"""The PCIe links from each accelerator to its root."""

from __future__ import annotations

import msgspec

from nodecheck.links import encoded_bytes_per_second
from nodecheck.model import Struct

LINK_ERRORS = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout")
"""Corrected errors of the physical and the data link layer. Source: Linux, drivers/pci/pcie/aer.c,
and the PCI Express Base Specification, 6.2.7."""

REFUSALS = ("UnsupReq", "ACSViol", "AtomicOpBlocked", "BlockedTLP", "TLPBlockedErr")
"""Uncorrected errors of a request that nobody there answers or that a port may not pass on: what
software asked for, not how it was carried."""


class Errors(Struct, frozen=True, kw_only=True):
    """What a device counted by Advanced Error Reporting, or by how much that rose.

    The totals are the kernel's own: one event may set several bits, so they need not be the sum of
    `by_name`, which holds the kernel's short names (RxErr, BadTLP, CmpltTO, ...) of what is not 0.
    """

    correctable: int
    nonfatal: int
    fatal: int
    by_name: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def of_link(self) -> int:
        """Corrected errors that a link makes: those that are not of another name."""
        others = sum(
            count
            for name, count in self.by_name.items()
            if name in _OTHER_CORRECTED or name.startswith("dev_cor_errs")
        )
        return max(0, self.correctable - others)

    @property
    def uncorrected(self) -> int:
        """Fatal and non-fatal errors without requests that were refused."""
        return max(0, self.nonfatal + self.fatal - self.refused)

    @property
    def refused(self) -> int:
        """Uncorrected errors that software causes."""
        return sum(self.by_name.get(name, 0) for name in REFUSALS)


_OTHER_CORRECTED = ("NonFatalErr", "CorrIntErr", "HeaderOF")
"""Advisory: a refused request for the most part; internal: of the device; the log was full."""


class Hop(Struct, frozen=True, kw_only=True):
    """One device on the way, the accelerator first.

    Speeds in GT/s, widths in lanes; None where they read Unknown, 0 or are missing. `emulated`
    marks a virtual port, whose values are fiction. `gone` says that the configuration space reads
    all ones (width 63), `link_files` that the node has the device's link registers at all. `aer`
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
    link_files: bool = False
    aer: Errors | None = None
    aer_rise: Errors | None = None
    target_gts: float | None = None
    equalised: bool | None = None
    acs_redirect: bool | None = None


class SharedLink(Struct, frozen=True, kw_only=True):
    """The lowest link that the ways of two accelerators have in common.

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
        """The hops without the link within the card, which says nothing of the slot.

        Graphics cards of AMD and Intel hold a switch, two ports of the card's own vendor; behind
        that of Intel the card shows one lane of Gen1.
        """
        inner = len(self.hops) > 3 and len({hop.vendor for hop in self.hops[:3]}) == 1
        return self.hops[2:] if inner and self.hops[0].vendor is not None else self.hops

    def shared_link(self, other: Path) -> SharedLink | None:
        """The link on which the traffic of both meets; None where no real one is known."""
        theirs = {hop.address for hop in other.hops}
        for place, hop in enumerate(self.hops):
            if hop.address in theirs and not hop.emulated and not hop.gone:
                # hops pair up from the accelerator on: a port shares the link below it
                low = self.hops[place - place % 2]
                ends = [h for h in self.hops[place - place % 2 :][:2] if not h.emulated]
                speeds = [*(h.maximum_gts for h in ends), *(h.target_gts for h in ends[1:])]
                return SharedLink(
                    place=low.address,
                    gts=min((gts for gts in speeds if gts), default=None),
                    width=min((h.current_width for h in ends if h.current_width), default=None),
                )
        return None


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
