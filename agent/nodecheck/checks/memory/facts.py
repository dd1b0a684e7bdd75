"""What was seen of the node's RAM."""

from __future__ import annotations

from nodecheck.model import Struct


class MemoryController(Struct, frozen=True, kw_only=True):
    """Errors that a memory controller counted since boot (EDAC). `dimms` are those that had any."""

    name: str
    correctable: int
    uncorrectable: int
    dimms: tuple[str, ...] = ()


class Dimm(Struct, frozen=True, kw_only=True):
    """A memory slot; `size_bytes` is 0 where it holds no module.

    `channel` is the channel that the slot's own names give it, unique within `socket`; None where
    the names say nothing of channels.
    """

    locator: str
    bank: str | None = None
    socket: str | None = None
    channel: str | None = None
    size_bytes: int | None = None
    speed_mts: int | None = None
    configured_mts: int | None = None


class MemoryFacts(Struct, frozen=True, kw_only=True):
    """RAM and how it is pressed; sizes in bytes from /proc/meminfo.

    Members that end in `_now` are differences between two samples `sample_seconds` apart.
    `free_order9_blocks` are free blocks of 2 MiB or more (buddyinfo). `full_stall_avg10` is PSI
    memory full, 0 to 1. `hugepages_idle_bytes` are the free and unreserved huge pages of every
    size; the other huge page members count pages of the default size.
    """

    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    hugepages_total: int | None = None
    hugepages_free: int | None = None
    hugepages_reserved: int | None = None
    hugepage_bytes: int | None = None
    hugepages_idle_bytes: int | None = None
    thp: str | None = None
    free_order9_blocks: int | None = None
    swapped_in_pages: int | None = None
    swapped_in_pages_now: int | None = None
    major_faults_now: int | None = None
    file_refaults_now: int | None = None
    full_stall_avg10: float | None = None
    sample_seconds: float | None = None
    controllers: tuple[MemoryController, ...] = ()
    dimms: tuple[Dimm, ...] = ()
