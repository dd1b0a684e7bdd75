"""A workload of which no more is known than a few numbers. Pure."""

from __future__ import annotations

from nodecheck.serving import CacheBytes, Workload


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
    return Workload(
        name=name,
        weight_bytes_shipped=weight_bytes,
        layers=layers,
        weight_type=weight_type,
        kv_bytes_per_token=_cache(kv_bytes_per_token) if kv_bytes_per_token else None,
        named_by_user=named_by_user,
    )


def _cache(bf16: int) -> CacheBytes:
    return CacheBytes(bf16=bf16, fp8=bf16 // 2, q8_0=bf16 * 17 // 32, q4_0=bf16 * 9 // 32)
