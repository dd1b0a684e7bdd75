"""What a watched engine does where no finding says so: nothing, or it loads its model. Pure."""

from __future__ import annotations

from nodecheck.checks.engine.memory_rules import rereads, waits_for_disk
from nodecheck.checks.engine.signs import (
    cards_idle,
    computing,
    held_cards,
    missing_bytes,
    most_in_one_process,
    read_per_second,
    throttled_share,
    weights_on_cards,
)
from nodecheck.checks.seen import Seen


def is_idle(seen: Seen) -> bool:
    """Whether it did nothing that could be judged: no CPU, no card, and no wait for any of them.

    A scheduler that spins while its card does nothing is idle too.
    """
    engine, limits = seen.facts.engine, seen.policy.thresholds
    stopped = (throttled_share(engine) or 0.0) >= limits.engine_throttled_share
    waits = any((t.delay_share or 0.0) >= limits.engine_waited_share for t in computing(seen))
    if engine.cpus is None or stopped or waits or waits_for_disk(seen):
        return False
    own = [card for card in engine.cards if card.memory_bytes != 0]
    if engine.cpus < limits.engine_idle_cpus:
        return not own or cards_idle(seen, own)
    held = held_cards(engine)
    spins = most_in_one_process(seen) <= 1 and weights_on_cards(seen) is not False
    return spins and cards_idle(seen, held)


def is_loading(seen: Seen) -> bool:
    """Whether it reads its model for the first time: much from storage, and nothing again."""
    engine = seen.facts.engine
    read = read_per_second(engine)
    much = waits_for_disk(seen) if read is None else _is_much(seen, read)
    whole = missing_bytes(engine) == 0
    return much and not whole and not rereads(seen)


def _is_much(seen: Seen, read: float) -> bool:
    return read >= seen.policy.thresholds.engine_read_bytes_per_second_min
