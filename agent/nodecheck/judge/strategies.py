"""Each way to serve a workload: what it can reach here, what limits it, how that was got."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.fits.room import within_model
from nodecheck.judge.ways import offload, resident
from nodecheck.judge.ways.answers import ORDER, TOKENS, unknown
from nodecheck.judge.ways.kv_host import kv_on_host
from nodecheck.judge.ways.levers import with_levers
from nodecheck.judge.ways.load import model_load
from nodecheck.judge.ways.pool import host_kv_pool
from nodecheck.judge.ways.speculative import speculative
from nodecheck.model import Strategy
from nodecheck.policy import Policy
from nodecheck.serving import Workload
from nodecheck.workload.numbers import from_numbers

ADDED = ("speculative",)
"""Ways that come on top of another."""


def reference_workload(policy: Policy) -> Workload:
    """The policy's workload, for a node that nobody named a model for."""
    reference = policy.reference_workload
    return from_numbers(
        reference.name,
        reference.weights_bytes,
        reference.layers,
        reference.weight_type,
        reference.kv_bytes_per_token,
        named_by_user=False,
    )


def strategies(seen: Seen, *, measured_prefill: float | None = None) -> tuple[Strategy, ...]:
    """Every strategy that applies to what was seen of this node.

    `measured_prefill` is what prompts were read with on it, tokens a second.
    """
    work = seen.workload or reference_workload(seen.policy)
    seen, cards = within_model(seen, work), node.cards(seen)
    found = _every(seen, work, cards, measured_prefill)
    return tuple(with_levers(seen, work, cards, strategy) for strategy in found)


def _every(
    seen: Seen, work: Workload, cards: node.Cards, measured_prefill: float | None
) -> Iterator[Strategy]:
    if cards.gpus:
        yield from _on_cards(seen, work, cards)
    elif why := node.unusable(seen):
        yield unknown("gpu-resident", why)
    if seen.facts.cpu.arch is not None:
        yield offload.cpu_only(seen, work)
    if cards.gpus:
        yield from _beside_decode(seen, work, cards, measured_prefill)
    if seen.facts.disk.filesystems:
        yield model_load(seen, work)


def _beside_decode(
    seen: Seen, work: Workload, cards: node.Cards, measured_prefill: float | None
) -> Iterator[Strategy]:
    """Ways to keep or to guess tokens; a cache on the host only of a model that somebody names."""
    if work.named_by_user and (on_host := kv_on_host(seen, work, cards)):
        yield on_host
    yield host_kv_pool(seen, work, cards, measured_prefill)
    if guessing := speculative(seen, work, cards):
        yield guessing


def _on_cards(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Strategy]:
    yield resident.gpu_resident(seen, work, cards)
    if together := resident.tensor_parallel(seen, work, cards):
        yield together
    if seen.facts.cpu.arch is None:
        return
    yield offload.partial_offload(seen, work, cards)
    if experts := offload.expert_offload(seen, work, cards):
        yield experts


def best(strategies: Iterable[Strategy]) -> Strategy | None:
    """The way to decode that is worth most here; None where no rate of any is known."""
    known = [s for s in strategies if s.unit == TOKENS and s.high is not None]
    ways = [s for s in known if s.strategy not in ADDED]
    return min(ways, key=_rank, default=None)


def _rank(strategy: Strategy) -> tuple[int, float, float]:
    low, high = strategy.low or 0.0, strategy.high or 0.0
    return ORDER.index(strategy.viability), -low, -high
