"""What products of Intel have: the size and the rate of their memory, by PCI device id.

Neither i915 nor xe tells an ordinary user of them. Arc A770 has 8 or 16 GB under one id: its memory
window (BAR) tells which, where it spans the whole memory. Sources: Intel's product pages; names and
ids from Intel's table of discrete GPUs and its compute runtime.
"""

from __future__ import annotations

from typing import NamedTuple

from nodecheck.checks.gpu.products import Product
from nodecheck.units import GIB


class Memory(NamedTuple):
    """One size that a product comes with, and the rate that it then has."""

    gib: int
    rate_gb_per_second: float


SIZES: dict[str, tuple[str, tuple[Memory, ...]]] = {
    "56a0": ("Arc A770", (Memory(8, 512), Memory(16, 560))),
    "56a1": ("Arc A750", (Memory(8, 512),)),
    "56a2": ("Arc A580", (Memory(8, 512),)),
    "56a5": ("Arc A380", (Memory(6, 186),)),
    "56a6": ("Arc A310", (Memory(4, 124),)),
    "56b1": ("Arc Pro A40/A50", ()),
    "56b3": ("Arc Pro A60", (Memory(12, 384),)),
    "56c0": ("Data Center GPU Flex 170", (Memory(16, 576),)),
    "56c1": ("Data Center GPU Flex 140", ()),
    "e20b": ("Arc B580", (Memory(12, 456),)),
    "e20c": ("Arc B570", (Memory(10, 380),)),
    "e211": ("Arc Pro B60", (Memory(24, 456),)),
    "e212": ("Arc Pro B50", (Memory(16, 224),)),
    "0bd5": ("Data Center GPU Max 1550", (Memory(128, 3276.8),)),
    "0bd6": ("Data Center GPU Max 1550", (Memory(128, 3276.8),)),
    "0bd9": ("Data Center GPU Max 1100", (Memory(48, 1228.8),)),
    "0bda": ("Data Center GPU Max 1100", (Memory(48, 1228.8),)),
    "0bdb": ("Data Center GPU Max 1100", (Memory(48, 1228.8),)),
}
"""Device id -> the product's name and its sizes; none where they are not sure."""

PRODUCTS = tuple(
    Product((f"8086:{id_}",), (name,), 0, 0, sizes[0].rate_gb_per_second if sizes else None)
    for id_, (name, sizes) in SIZES.items()
    if len(sizes) < 2
)
"""Products of one size, as the cards' table has them."""


def memory(device: str | None, window_bytes: int | None, told_bytes: int | None) -> Memory | None:
    """The memory of a device: the only one that it comes with, or that of the size that is known.

    `told_bytes` is what the driver says, which holds some of it back; a window of another size says
    nothing, as it may be a part of the memory.
    """
    sizes = SIZES.get(device or "", ("", ()))[1]
    if len(sizes) == 1:
        return sizes[0]
    known = [size for size in sizes if window_bytes == size.gib * GIB]
    if told_bytes is not None:
        known = [size for size in sizes if 0.8 * size.gib * GIB < told_bytes <= size.gib * GIB]
    return known[0] if len(known) == 1 else None
