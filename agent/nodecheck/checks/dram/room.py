"""What a node has room for: which CPUs, how much memory, beyond which caches."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.dram import buffers, caches, plan
from nodecheck.checks.dram.caches import Caches
from nodecheck.checks.dram.plan import Block
from nodecheck.checks.seen import Facts
from nodecheck.machine.reader import Reader
from nodecheck.units import MIB, count, gib

SCRATCH_BYTES = 4 * MIB
"""Destination of a block that multiplies weights in the caches and writes nothing else."""


class Room:
    """The usable CPUs, one of each core first, the memory that is free, and the caches.

    `warnings` say what could not be measured for want of it.
    """

    def __init__(
        self, cpus: tuple[int, ...], available_bytes: int, llc: Caches, *, guest: bool
    ) -> None:
        self.cpus = cpus
        self.available_bytes = available_bytes
        self.caches = llc
        self.guest = guest
        known = [] if llc.known else ["size of the last level cache not known, 64 MiB assumed"]
        self.warnings: list[str] = known

    @staticmethod
    def of(reader: Reader, facts: Facts) -> Room | str:
        """The room of a live node, or what is not known of it."""
        cpus = plan.by_core(reader, facts.limits.usable_cpus or ())
        sizes = (facts.memory.available_bytes, facts.limits.memory_headroom_bytes)
        if not cpus or sizes[0] is None:
            return f"{'MemAvailable is' if cpus else 'the usable CPUs are'} not known"
        available = min(size for size in sizes if size is not None)
        llc = caches.read(reader, cpus)
        return Room(cpus, available, llc, guest=facts.virt.guest is not False)

    def sized(self, block: Block) -> Block | None:
        """The block with memory beyond the caches; None, with a warning, if too little is free."""
        share = self.caches.share_bytes(block.cpus)
        threads = len(block.cpus)
        scratch = SCRATCH_BYTES if block.decode or block.decode_dram else 0
        found = buffers.plan(
            threads=threads,
            cache_share_bytes=share,
            cache_total_bytes=self.caches.total_bytes,
            available_bytes=self.available_bytes - int(threads * scratch / buffers.MEMORY_SHARE),
            guest=self.guest,
            destination_share=block.destination_share,
        )
        if found is None:
            self.warnings.append(
                f"not measurable on {count(threads, 'thread')}: a quarter of the available "
                f"{gib(self.available_bytes)} is less than twice their caches ({gib(share)} each)"
            )
            return None
        return replace(
            block,
            source_bytes=found.source_bytes,
            destination_bytes=max(found.destination_bytes, scratch),
            least_bytes=found.least_bytes,
            undersized=found.undersized,
        )
