"""The part of a token that runs on GPUs: bytes over the VRAM rate, and starting kernels."""

from __future__ import annotations

from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.rates.reads import Share
from nodecheck.units import count, gb_per_second

LAYER_SECONDS = (30e-6, 100e-6)
"""What a block takes beside its bytes: some ten kernels that start and drain one after the other.
Source: what public llama.cpp decode rates leave over the bytes at BEST_SHARE: 40 us a block of
gpt-oss-20b on an RTX PRO 6000 (llama.cpp#16991), 45 of Qwen3-8B on an RTX 5090, 70 of an 8B on an
RTX 3080, 80 to 100 of a 7B on an RTX 4090 and 3090 with the first CUDA graphs (llama.cpp#6766)."""

BEST_SHARE = 0.90
"""Share of the VRAM rate while a kernel streams. Source: clpeak, 0.91 on an RTX 4090, 0.89 on an
A800."""


def gpu_seconds(part: Share, vram_rate: float, blocks: int) -> Range:
    """Time of a token for a part that lies in VRAM in so many blocks, fastest to slowest.

    The share of the VRAM rate that large models reach has the starting of kernels in it; small ones
    on fast cards are held by that alone.
    """
    least, most = part.bytes.floor, part.bytes.high
    low_share, high_share = ceilings.VRAM_EFFICIENCY
    low_start, high_start = (blocks * seconds for seconds in LAYER_SECONDS)
    return Range(
        max(least / (vram_rate * high_share), least / (vram_rate * BEST_SHARE) + low_start),
        max(most / (vram_rate * low_share), most / (vram_rate * BEST_SHARE) + high_start),
    )


def starts(part: Share, vram_rate: float, blocks: int) -> str:
    """What starting kernels adds, in words, where it counts; empty where the share covers it."""
    low_share, high_share = ceilings.VRAM_EFFICIENCY
    low, high = (blocks * seconds for seconds in LAYER_SECONDS)
    least, most = part.bytes.floor / vram_rate, part.bytes.high / vram_rate
    fast = least / BEST_SHARE + low > least / high_share
    if not fast and most / BEST_SHARE + high <= most / low_share:
        return ""
    ends = "-".join(f"{1e6 * seconds:.0f}" for seconds in LAYER_SECONDS)
    return f" (or {BEST_SHARE:g} x, and {ends} us for each of {count(blocks, 'block')})"


def gpu_limit(part: Share, vram_rate: float, blocks: int) -> str:
    """What holds it: the VRAM, or the kernels where they take longer than the bytes at best."""
    vram = f"VRAM bandwidth, {gb_per_second(vram_rate)}"
    starting, reading = blocks * LAYER_SECONDS[0], part.bytes.floor / (vram_rate * BEST_SHARE)
    return f"starting kernels, then {vram}" if starting > reading else vram
