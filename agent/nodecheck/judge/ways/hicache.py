"""SGLang's pool of cached tokens in host RAM (hicache), as it sizes it and refuses to. Pure.

Source: SGLang 0.5.23, mem_cache/pool_host/{base,mamba}.py, mem_cache/hicache_auto_size.py,
mem_cache/hybrid_cache/hybrid_pool_assembler.py and arg_groups/hicache_hook.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.judge.ways.sglang import DevicePools
from nodecheck.model import Struct
from nodecheck.serving import Serving, Workload
from nodecheck.units import GB, gib

DEFAULT_RATIO = 2.0
"""--hicache-ratio: host tokens for each token on the card, unless said."""

AUTO_SIZE_FRACTION = 0.8
"""--hicache-host-memory-fraction: share of the allowance that pools may take where no flag sizes
them; the ratio is then lowered until they do."""

AUTO_SIZE_SLACK = 0.05
"""Part of that which is left for rounding and staging."""

REFUSED = "Not enough host memory available"
"""How SGLang's own message begins."""


class HostPool(Struct, frozen=True):
    """The pool of one rank. `states` are of a hybrid's second pool, each of its own size.

    `allowed_bytes` is what the node leaves a rank, None where its free RAM is not known. `refusal`
    is why SGLang does not start, `warning` what it says and starts all the same. `by` says what
    sized it: --hicache-size, --hicache-ratio, the default ratio.
    """

    tokens: int
    token_bytes: int
    states: int
    state_bytes: int
    ratio: float | None
    by: str
    allowed_bytes: int | None
    refusal: str | None = None
    warning: str | None = None

    @property
    def bytes(self) -> int:
        """All that a rank takes of host RAM."""
        return self.token_bytes + self.state_bytes


def paged(entries: int, page: int = 1) -> int:
    """What it makes of a wish for so many entries: whole pages and one to spare."""
    return (entries // page + 1) * page


def tokens_by_ratio(device_tokens: int, ratio: float = DEFAULT_RATIO, page: int = 1) -> int:
    """Tokens of the host pool beside so many on the card."""
    return paged(int(device_tokens * ratio), page)


def tokens_by_size(size_bytes: float, bytes_per_token: int, page: int = 1) -> int:
    """Tokens of the host pool for --hicache-size, which is in GB and for one rank."""
    return paged(int(size_bytes // bytes_per_token), page)


def allowance_bytes(free_ram_bytes: int, ranks: int, reserve_bytes: int) -> int:
    """RAM that one rank's pools may take: what is free less the reserve, over the node's ranks."""
    return max(0, free_ram_bytes - reserve_bytes) // ranks


def host_pool(
    device: DevicePools,
    bytes_per_token: int,
    bytes_per_state: int,
    serving: Serving,
    allowed_bytes: int | None,
    page: int = 1,
) -> HostPool:
    """The pools that SGLang would make for one rank, and whether it would start.

    Sizes are those of the rank. A size is divided between the two pools of a hybrid as the card's
    memory is; a ratio goes for each of them.
    """
    size = asked_gb(serving) * GB
    ratio = None if size else _ratio(device, serving, allowed_bytes)
    if size:
        share = device.cache_bytes / ((device.cache_bytes + device.state_bytes) or 1)
        share = share if bytes_per_state else 1.0
        tokens = tokens_by_size(size * share, bytes_per_token, page)
        states = paged(int(size * (1 - share) // bytes_per_state)) if bytes_per_state else 0
    else:
        tokens = tokens_by_ratio(device.tokens, ratio or 0.0, page)
        states = tokens_by_ratio(device.state_slots, ratio or 0.0) if bytes_per_state else 0
    pool = HostPool(
        tokens=tokens,
        token_bytes=tokens * bytes_per_token,
        states=states,
        state_bytes=states * bytes_per_state,
        ratio=ratio,
        by=_sized_by(serving, ratio),
        allowed_bytes=allowed_bytes,
    )
    return _judged(pool, device)


def _ratio(device: DevicePools, serving: Serving, allowed_bytes: int | None) -> float:
    """What was asked for; else the default, lowered until both pools have the room."""
    if serving.hicache_ratio is not None:
        return serving.hicache_ratio
    on_card = device.cache_bytes + device.state_bytes
    if allowed_bytes is None or not on_card:
        return DEFAULT_RATIO
    budget = allowed_bytes * AUTO_SIZE_FRACTION * (1 - AUTO_SIZE_SLACK)
    return min(DEFAULT_RATIO, budget / on_card)


def asked_gb(serving: Serving) -> int:
    """--hicache-size, which takes whole GB; 0 where it was not asked for."""
    size = serving.hicache_size_bytes
    return max(1, size // GB) if size else 0


def _sized_by(serving: Serving, ratio: float | None) -> str:
    if size := asked_gb(serving):
        return f"--hicache-size {size}"
    if serving.hicache_ratio is not None:
        return f"--hicache-ratio {serving.hicache_ratio:g}"
    if ratio is not None and ratio < DEFAULT_RATIO:
        return f"the default ratio {DEFAULT_RATIO:g}, which SGLang lowers to {ratio:.2f} to fit"
    return f"the default ratio {DEFAULT_RATIO:g}"


def _judged(pool: HostPool, device: DevicePools) -> HostPool:
    """The pool with what SGLang says of it."""
    return replace(pool, refusal=_refusal(pool), warning=_warning(pool, device))


def _refusal(pool: HostPool) -> str | None:
    if pool.allowed_bytes is None:
        return None
    if pool.ratio is not None and pool.ratio <= 0:
        return "No host memory is left for HiCache after the 10 GiB reserve"
    if pool.bytes <= pool.allowed_bytes:
        return None
    return (
        f"{REFUSED}: {pool.bytes / GB:.2f} GB asked for, {pool.allowed_bytes / GB:.2f} GB allowed "
        "a rank (free RAM less 10 GiB, over the ranks)"
    )


def _warning(pool: HostPool, device: DevicePools) -> str | None:
    if pool.tokens > device.tokens or not device.tokens:
        return None
    return (
        f"the host pool ({pool.tokens:,} tokens) is no larger than the card's "
        f"({device.tokens:,}): it holds little that the card does not"
    )


RISKS_OF_HYBRIDS = (
    "hicache and hybrids: the pool fills and gives no prefix back, sglang#33713 (open, 2026-09)",
    "hicache and hybrids: wrong output on a hit in the host pool, sglang#39830 (open, 2026-09)",
    "hicache and hybrids: Qwen3.6-27B crashed, sglang#24121 (as of 2026-09)",
)
"""What is reported of hybrids with a host pool. Read in September 2026."""

LEFT_OUT = "with --enable-hierarchical-cache, which is left out for it: " + "; ".join(
    risk.removeprefix("hicache and hybrids: ") for risk in RISKS_OF_HYBRIDS
)
"""Why a hybrid is not started with one unasked."""

RISK_OF_MTP = "hicache and MTP together: a crash, sglang#25766 (as of 2026-09)"

RISK_OF_WINDOWS = "hicache and sliding windows: older versions refuse them, sglang#23659 (2026-04)"

RULES = (
    "hicache is refused with --disable-radix-cache, with LMCache, and with --dcp-size above 1 "
    "unless the model keeps a latent (MLA)"
)
"""Source: SGLang 0.5.23, arg_groups/hicache_hook.py."""

RULE_OF_HYBRIDS = (
    "hicache and hybrids: the pool of states needs --hicache-mem-layout page_first (the default) "
    "or page_first_direct"
)
"""Source: SGLang 0.5.23, mem_cache/pool_host/mamba.py."""


def risks(work: Workload, serving: Serving) -> tuple[str, ...]:
    """What is known to go wrong with a host pool and this model, each dated."""
    windows = any(g.cache.window is not None for g in work.layer_groups)
    drafts = bool(serving.draft_tokens) and work.is_hybrid
    return (
        *(RISKS_OF_HYBRIDS if work.is_hybrid else ()),
        *((RISK_OF_MTP,) if drafts else ()),
        *((RISK_OF_WINDOWS,) if windows else ()),
        *((RULE_OF_HYBRIDS,) if work.is_hybrid else ()),
        RULES,
    )


def said(pool: HostPool) -> str:
    """The pool in words: tokens, bytes, and of what."""
    states = f" and {pool.states:,} states ({gib(pool.state_bytes)})" if pool.states else ""
    return f"{pool.tokens:,} tokens ({gib(pool.token_bytes)}){states} by {pool.by}"
