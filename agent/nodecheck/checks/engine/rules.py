"""The rules on a running engine, each fault told once: the cause, not what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nodecheck.checks.engine import (
    cpu_rules,
    gpu_rules,
    memory_rules,
    placement_rules,
    quota_rules,
    variant_rules,
)
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Finding

Judge = Callable[[Seen], Iterator[Finding]]


def _unless(judge: Judge, *causes: Judge) -> Judge:
    """The judge, silent where a cause of what it sees holds."""

    def judged(seen: Seen) -> Iterator[Finding]:
        if not any(finding for cause in causes for finding in cause(seen)):
            yield from judge(seen)

    return judged


_paging = memory_rules.paging
_throttled = _unless(quota_rules.throttled_quota, _paging)
_fallback = gpu_rules.cpu_fallback
_feeder = _unless(gpu_rules.feeder_waits, _fallback, _paging, _throttled)
_layers = _unless(gpu_rules.layers_on_cpu, _fallback, _paging)


def _starved(seen: Seen) -> Iterator[Finding]:
    """One finding where layers on the CPU and a wait for it hold the card back together."""
    yield from list(_layers(seen)) or list(_feeder(seen))


RULES: tuple[Rule, ...] = (
    Rule("engine.cpu_fallback", "An engine computes on the CPU beside idle cards", _fallback),
    Rule("engine.paging", "An engine reads its weights from disk again and again", _paging),
    Rule("engine.throttled_quota", "A CPU quota stops an engine again and again", _throttled),
    Rule(
        "engine.oversubscribed",
        "An engine's threads wait for CPUs",
        _unless(cpu_rules.oversubscribed, _paging, _throttled, _feeder),
    ),
    Rule("engine.gpu_starved", "An engine's card waits for the CPU", _starved),
    Rule(
        "engine.slow_variant",
        "An engine's CPU code leaves instructions unused",
        variant_rules.slow_variant,
    ),
    Rule(
        "engine.remote_memory",
        "An engine computes away from its memory or card",
        placement_rules.remote_memory,
    ),
)
