"""The part of a token that runs on the CPU: weights of several types, cache and state."""

from __future__ import annotations

from collections.abc import Mapping

from nodecheck.checks.seen import Seen
from nodecheck.judge.rates.ceilings import Range, total
from nodecheck.judge.rates.cpu_rates import Cost, cost, used_up
from nodecheck.judge.rates.reads import NOTHING_READ, Share, reads
from nodecheck.model import Struct
from nodecheck.serving import Workload
from nodecheck.units import percent

SMALL_SHARE = 0.05
"""Of the bytes that a token reads, that may be of types of which nothing is known."""

BATCH_GAIN = 1.7
"""Times as fast as one by one that a CPU uses weights up for several tokens at once, at best; at
worst it gains nothing. Source: llama.cpp prompts of 16 and 32 tokens against decode on a Zen 4
server: 1.1 to 1.25 in SSE2, 1.3 to 1.7 in AVX2."""

TOLD_SHARE = 0.05
"""Of a token's time on the CPU, from which a second weight type is told."""

CACHE_TYPES = {"bf16": "f16", "fp8": "q8_0"}
"""What a cache is read like where llama.cpp has no such type."""

STATE_TYPE = "f32"


class CpuStage(Struct, frozen=True):
    """What a part of a model costs on the CPU.

    `weights` are the costs of its types; `seconds_per_byte` is that of them all, fastest to
    slowest. `attending_seconds` is what using up a byte of cache once more takes at most. With
    `ceiling_only` the slowest is not known, since the memory was not measured.
    """

    weights: Mapping[str, Cost]
    cache: Cost
    attending_seconds: float
    state: Cost
    seconds_per_byte: Range
    limit: str
    basis: str
    ceiling_only: bool
    requests: int = 1

    def seconds(self, part: Share) -> Range:
        """Time of a step for a part whose types are among these, fastest to slowest.

        The slowest reads a full context's cache. Both are there with `ceiling_only` too.
        """
        one = total(_times(self.weights[kind], size) for kind, size in part.weights.items())
        read = Range(one.floor * max(1.0, self.requests / BATCH_GAIN), one.high * self.requests)
        slowest = self.cache.seconds_per_byte.high * part.cache_bytes
        attended = self.attending_seconds * part.attended_bytes
        state = self.state.seconds_per_byte.times(2 * part.state_bytes)
        return read + Range(0.0, slowest + attended) + state


def cpu_stage(seen: Seen, work: Workload) -> CpuStage | str:
    """What a whole model costs on this CPU, or why that is not known."""
    return stage_of(seen, reads(seen, work).whole)


def stage_of(seen: Seen, part: Share) -> CpuStage | str:
    """What some part of a model costs on this CPU, or why that is not known."""
    costs = _costs(seen, part.weights)
    if isinstance(costs, str):
        return costs
    times = {kind: _times(costs[kind], size).high for kind, size in part.weights.items()}
    by_time = sorted(times, key=lambda kind: -times[kind])
    main = costs[by_time[0]]
    whole = total(_times(costs[kind], size) for kind, size in part.weights.items())
    kv_type = CACHE_TYPES.get(seen.serving.kv_type, seen.serving.kv_type)
    cache, attending = cost(seen, kv_type), used_up(seen, kv_type)
    state = cost(seen, STATE_TYPE)
    return CpuStage(
        weights=costs,
        cache=main if isinstance(cache, str) else cache,
        attending_seconds=1 / attending.floor if attending else main.seconds_per_byte.high,
        state=main if isinstance(state, str) else state,
        seconds_per_byte=Range(
            whole.floor / part.weight_bytes.floor, whole.high / part.weight_bytes.high
        ),
        limit=main.limit,
        basis=_basis(costs, [k for k in by_time if times[k] >= TOLD_SHARE * whole.high]),
        ceiling_only=any(each.ceiling_only for each in costs.values()),
        requests=seen.serving.requests,
    )


def _times(each: Cost, size: Range) -> Range:
    return Range(each.seconds_per_byte.floor * size.floor, each.seconds_per_byte.high * size.high)


def _costs(seen: Seen, weights: Mapping[str, Range]) -> dict[str, Cost] | str:
    """Of each type. Those of which nothing is known may be a small part of what is read."""
    found = {kind: cost(seen, kind) for kind in weights}
    known = {kind: each for kind, each in found.items() if isinstance(each, Cost)}
    unknown = {kind: weights[kind].high for kind in found.keys() - known.keys()}
    whole = sum(size.high for size in weights.values())
    if not known or sum(unknown.values()) > SMALL_SHARE * whole:
        return _why(found, unknown, whole)
    fastest = min(each.seconds_per_byte.floor for each in known.values())
    slowest = max(each.seconds_per_byte.high for each in known.values())
    guess = Cost(Range(fastest, 2 * slowest), "not known", "not known")
    return known | dict.fromkeys(unknown, guess)


def _why(found: Mapping[str, Cost | str], unknown: Mapping[str, float], whole: float) -> str:
    if not unknown:
        return NOTHING_READ
    most = max(unknown, key=lambda kind: unknown[kind])
    share = unknown[most] / whole if whole else 1.0
    of = f", {percent(share)} of what a token reads" if share < 1 else ""
    return f"{found[most]}{of}"


def _basis(costs: Mapping[str, Cost], told: list[str]) -> str:
    """Of the type that takes the most time, and the next one's rate."""
    main = costs[told[0]]
    if len(told) < 2:
        return main.basis
    both = (f"{told[0]}: {main.rate}", f"{told[1]}: {costs[told[1]].rate}", main.memory)
    return "; ".join(filter(None, both))
