"""The PCIe links from each accelerator to its root."""

from __future__ import annotations

from nodecheck.model import Struct


class Hop(Struct, frozen=True, kw_only=True):
    """One device on the way, the accelerator first.

    Speeds in GT/s, widths in lanes; None where they read Unknown, 0 or are missing. `emulated`
    marks a virtual port, whose values are fiction. `gone` says that the configuration space reads
    all ones (width 63), `link_files` that the node has the device's link registers at all. `aer`
    counts its correctable, non-fatal and fatal errors since boot (Advanced Error Reporting).
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
    aer: tuple[int, int, int] | None = None


class Path(Struct, frozen=True, kw_only=True):
    """The hops of one accelerator up to the root port, and the NUMA node that it lies on."""

    accelerator: str
    hops: tuple[Hop, ...]
    numa_node: int | None = None


class PcieFacts(Struct, frozen=True, kw_only=True):
    """`source` is sysfs or lspci."""

    paths: tuple[Path, ...] = ()
    source: str | None = None
