"""What a watched engine does where no finding says so: nothing, it loads, or it is held. Pure."""

from __future__ import annotations

from nodecheck.checks.engine.facts import EngineFacts, Process
from nodecheck.checks.engine.memory_rules import rereads, waits_for_disk
from nodecheck.checks.engine.signs import (
    cards_idle,
    computing,
    held_cards,
    known_sum,
    missing_bytes,
    model_bytes,
    most_in_one_process,
    read_per_second,
    throttled_share,
    weights_on_cards,
)
from nodecheck.checks.seen import Seen

STOPPED, TRACED, WAITS = "T", "t", "D"
"""States of a process, by the kernel's letters."""


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


def is_stopped(seen: Seen) -> bool:
    """Whether it does nothing, as it is stopped, traced or frozen."""
    engine = seen.facts.engine
    if engine.cpus is None or engine.cpus >= seen.policy.thresholds.engine_idle_cpus:
        return False
    if waits_for_disk(seen):
        return False
    return bool(engine.frozen_by or in_state(engine, STOPPED) or in_state(engine, TRACED))


def in_state(engine: EngineFacts, letter: str) -> list[Process]:
    """Its processes that live and are in this state."""
    return [each for each in engine.processes if each.state == letter and not each.ended]


def waits_in_kernel(seen: Seen) -> list[Process]:
    """The processes of an idle engine that waited for a disk or a driver at both ends."""
    if not is_idle(seen):
        return []
    return [each for each in in_state(seen.facts.engine, WAITS) if each.first_state == WAITS]


def is_loading(seen: Seen) -> bool:
    """Whether it reads its model for the first time: much from storage, and nothing again.

    Of a program that is no known engine only a model file that it maps tells that it loads one.
    """
    engine = seen.facts.engine
    read = read_per_second(engine)
    much = waits_for_disk(seen) if read is None else _is_much(seen, read)
    whole = missing_bytes(engine) == 0 or _has_read_more(seen)
    has_model = bool(engine.engine or engine.model_files)
    return much and has_model and not whole and not rereads(seen)


def _has_read_more(seen: Seen) -> bool:
    """Whether those that read have read more since they began than a load does.

    A server that starts a process for each model has read what those before read.
    """
    engine, factor = seen.facts.engine, seen.policy.thresholds.engine_reread_factor
    size = model_bytes(engine)
    total = known_sum(each.read_total_bytes for each in engine.processes if each.read_bytes != 0)
    return bool(total and size) and (total or 0) >= factor * (size or 0)


def _is_much(seen: Seen, read: float) -> bool:
    return read >= seen.policy.thresholds.engine_read_bytes_per_second_min
