"""A workload of which no more is known than a few numbers. Pure."""

from __future__ import annotations

from fractions import Fraction

from nodecheck.serving import Workload
from nodecheck.workload.assemble import BF16_BYTES
from nodecheck.workload.cache import cache_bytes


def from_numbers(
    name: str,
    weight_bytes: int,
    layers: int,
    weight_type: str,
    kv_bytes_per_token: int = 0,
    *,
    named_by_user: bool = True,
) -> Workload:
    """A model of so many bytes in as many layers; a bf16 cache of 0 bytes a token is not known."""
    known = bool(kv_bytes_per_token)
    return Workload(
        name=name,
        weight_bytes_shipped=weight_bytes,
        layers=layers,
        weight_type=weight_type,
        kv_bytes_per_token=cache_bytes(Fraction(kv_bytes_per_token, BF16_BYTES)) if known else None,
        named_by_user=named_by_user,
    )
