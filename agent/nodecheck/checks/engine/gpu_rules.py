"""Judges whether the cards compute what they could."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.cpu_rules import (
    best_threads,
    gain_of,
    moved_away,
    other_cpus,
    other_evidence,
)
from nodecheck.checks.engine.doing import is_loading
from nodecheck.checks.engine.facts import EngineFacts, Thread
from nodecheck.checks.engine.memory_rules import memory_rate
from nodecheck.checks.engine.signs import (
    GGML,
    asks_for_cpu,
    cards_idle,
    computing,
    demand,
    held_bytes,
    held_cards,
    model_bytes,
    most_in_one_process,
    opens_no_card,
    subject,
    throttled_share,
    usable_gpus,
    watched,
    weights_on_cards,
)
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gb_per_second, gib, listed, percent


def cpu_fallback(seen: Seen) -> Iterator[Finding]:
    """engine.cpu_fallback: it computes on the CPU while cards that it may use do nothing for it."""
    engine, gpus = watched(seen), usable_gpus(seen)
    if engine is None or not gpus or asks_for_cpu(seen) or is_loading(seen):
        return
    proof = _no_weights_on(seen, engine, gpus)
    if proof is None or not _computes(seen, engine):
        return
    which = "the card" if len(gpus) == 1 else f"any of {len(gpus)} cards"
    yield Finding(
        id="engine.cpu_fallback",
        severity=Severity.WARNING,
        subject=subject(engine),
        summary=f"It has no weights on {which} that it may use: {engine.cpus or 0:.1f} CPUs "
        "compute instead",
        headline=f"It computes on {engine.cpus or 0:.1f} CPUs and not on {which}",
        evidence=(proof, *_card_evidence(engine, gpus)),
        impact=_fallback_impact(seen, gpus),
        remedy=_fallback_remedy(engine, gpus),
        owner=Owner.USER,
    )


def _computes(seen: Seen, engine: EngineFacts) -> bool:
    """Whether it is an engine and computes; a server of Python keeps one thread busy without."""
    if (engine.cpus or 0) < seen.policy.thresholds.engine_burning_cpus:
        return False
    ggml = engine.engine in GGML or any(lib.family == "ggml" for lib in engine.libraries)
    known = engine.engine or engine.model_files or engine.libraries
    return ggml or bool(known and most_in_one_process(seen) > 1)


def _no_weights_on(seen: Seen, engine: EngineFacts, gpus: list[Gpu]) -> Evidence | None:
    """What shows that no weights are on the cards; None where nothing does."""
    if opens_no_card(engine):
        return Evidence(
            value="device files of cards that it has open: none",
            source=f"/proc/{engine.pid}/fd, and of what it started",
            expected="one for each card that it uses",
        )
    held, size = held_bytes(engine), model_bytes(engine)
    if held == 0 and not any(gpu.mig for gpu in gpus):
        return Evidence(
            value="none of its processes is on a card", source="the driver's list of processes"
        )
    share, idle = seen.policy.thresholds.engine_context_share, cards_idle(seen, engine.cards)
    if held is None or size is None or not idle or most_in_one_process(seen) < 2:
        return None
    if held >= share * size:
        return None
    return Evidence(
        value=f"{gib(held)} on the cards for {gib(size)} of model files, cards idle",
        source="the driver's list of processes, and utilisation",
        expected=f"at least {percent(share)}",
        basis="policy engine_context_share",
    )


def _card_evidence(engine: EngineFacts, gpus: list[Gpu]) -> Iterator[Evidence]:
    loads = {use.card.lower(): use.utilisation_share for use in engine.cards}
    for gpu in gpus:
        load = loads.get((gpu.pci_address or "").lower())
        used = ", " + gib(gpu.memory_used_bytes) + " used" if gpu.memory_used_bytes else ""
        yield Evidence(
            value=f"{gpu.label}: {gib(gpu.memory_bytes or 0)}{used}"
            + ("" if load is None else f", {percent(load)} busy"),
            source="driver",
        )
    if asked := {k: v for k, v in engine.settings.items() if k in ("gpu_layers", "device")}:
        told = listed([f"{name} {value}" for name, value in asked.items()])
        yield Evidence(value=told, source=f"/proc/{engine.pid}/cmdline and environ")


def _fallback_impact(seen: Seen, gpus: list[Gpu]) -> str:
    rates = [gpu.vram_bytes_per_second for gpu in gpus if gpu.vram_bytes_per_second]
    memory = memory_rate(seen)
    if not rates:
        return "Decode runs at the rate of RAM and CPU; the card's memory delivers many times that"
    if memory is None:
        return f"The card's memory delivers {gb_per_second(max(rates))}, and none of it is used"
    return (
        f"The card's memory delivers {gb_per_second(max(rates))}, RAM {gb_per_second(memory)}: up "
        f"to {max(rates) / memory:.0f}x"
    )


def _fallback_remedy(engine: EngineFacts, gpus: list[Gpu]) -> Remedy:
    layers = remedies.layer_commands(engine)
    full = [
        gpu
        for gpu in gpus
        if gpu.memory_bytes and (gpu.memory_used_bytes or 0) > 0.9 * gpu.memory_bytes
    ]
    text = (
        "Put its layers onto the card; if it has them on the CPU all the same, its build or its "
        "container does not know the card, and its log's first lines say why"
        if layers
        else "Take a build for the card, and let its container see the card; its log's first lines "
        "say why it did not"
    )
    if len(full) == len(gpus):
        text = f"Free the card's memory first, which others fill. {text}"
    return Remedy(
        text=text,
        action=Action.RESTART_ENGINE,
        commands=(*remedies.gpu_build_commands(engine), *layers),
        cost="One restart of the engine",
    )


def layers_on_cpu(seen: Seen) -> Iterator[Finding]:
    """The card waits while several threads compute the layers that were left to the CPU.

    CUDA's own waiting keeps one thread busy. With layers spread over cards, each waits for the
    others, so that their loads count together.
    """
    engine = watched(seen)
    if engine is None or engine.engine not in GGML or asks_for_cpu(seen):
        return
    loads = None if weights_on_cards(seen) is not False else _loads(engine)
    if loads is None or not _is_starved(seen, sum(loads)) or most_in_one_process(seen) < 2:
        return
    held, size = held_bytes(engine) or 0, model_bytes(engine) or 0
    yield Finding(
        id="engine.gpu_starved",
        severity=Severity.WARNING,
        subject=subject(engine),
        summary=_starved_summary(engine, most_in_one_process(seen), sum(loads)),
        headline=f"{_wait_words(engine)} for layers on the CPU, {percent(sum(loads))} busy",
        evidence=(
            Evidence(
                value=f"{gib(held)} on {_the_cards(engine)}, {gib(size)} of model files",
                source="the driver's list of processes, and the files that it maps",
                expected=f"at least {percent(seen.policy.thresholds.engine_resident_share)}",
                basis="policy engine_resident_share",
            ),
            *_load_evidence(seen, engine),
        ),
        impact=f"Each token waits for the layers on the CPU: all on {_the_cards(engine)}, it takes "
        f"at best {percent(sum(loads))} of the time, up to {1 / sum(loads):.1f}x",
        remedy=_more_layers(seen, engine, size - held),
        owner=Owner.USER,
    )


def _loads(engine: EngineFacts) -> list[float] | None:
    """The load of each card that it holds; None where one is not known, or there are none."""
    loads = [use.utilisation_share for use in held_cards(engine)]
    known = [load for load in loads if load is not None]
    return known if loads and len(known) == len(loads) else None


def _is_starved(seen: Seen, load: float) -> bool:
    limits = seen.policy.thresholds
    return limits.engine_idle_card_share <= load < limits.busy_gpu_share


def _starved_summary(engine: EngineFacts, threads: int, load: float) -> str:
    held, size = gib(held_bytes(engine) or 0), gib(model_bytes(engine) or 0)
    number = len(held_cards(engine))
    if number == 1:
        told = f"its card holds {held} for {size} of weights and is {percent(load)} busy"
    else:
        told = (
            f"its {number} cards hold {held} for {size} of weights and are {percent(load)} busy "
            "together"
        )
    return f"{count(threads, 'thread')} compute layers on the CPU: {told}"


def _wait_words(engine: EngineFacts) -> str:
    number = len(held_cards(engine))
    return "Its card waits" if number == 1 else f"Its {number} cards wait"


def _the_cards(engine: EngineFacts) -> str:
    return "the card" if len(held_cards(engine)) == 1 else "the cards"


def _load_evidence(seen: Seen, engine: EngineFacts) -> Iterator[Evidence]:
    for use in held_cards(engine):
        yield Evidence(
            value=f"{use.card}: {percent(use.utilisation_share or 0)} busy, mean of "
            f"{count(use.samples, 'sample')}",
            source="driver",
            expected=f"at least {percent(seen.policy.thresholds.busy_gpu_share)}",
            basis="policy busy_gpu_share",
        )


def _more_layers(seen: Seen, engine: EngineFacts, left: int) -> Remedy:
    cards = {use.card.lower() for use in held_cards(engine)}
    free = [
        gpu.memory_bytes - gpu.memory_used_bytes
        for gpu in seen.facts.gpus
        if (gpu.pci_address or "").lower() in cards
        and gpu.memory_bytes is not None
        and gpu.memory_used_bytes is not None
    ]
    asked = engine.settings.get("cpu_offload")
    why = f" (it was started with {asked})" if asked else ""
    if free and sum(free) < left:
        return Remedy(
            text=f"Take a smaller quantisation or context: {gib(left)} are left to the CPU{why}, "
            f"and {gib(sum(free))} of {_the_cards(engine)} are free",
            action=Action.RESTART_ENGINE,
            cost="The quality of smaller weights",
        )
    return Remedy(
        text=f"Put all layers onto {_the_cards(engine)}{why}",
        action=Action.RESTART_ENGINE,
        commands=remedies.layer_commands(engine),
        cost="One restart of the engine",
    )


def feeder_waits(seen: Seen) -> Iterator[Finding]:
    """The thread that feeds the card waits for a CPU."""
    engine, limits = watched(seen), seen.policy.thresholds
    loads, thread = (_loads(engine), _feeder(seen, engine)) if engine else (None, None)
    if engine is None or loads is None or thread is None or not _is_starved(seen, max(loads)):
        return
    waited = (thread.delay_share or 0.0) - (throttled_share(engine) or 0.0)
    if waited < limits.engine_starved_wait_share:
        return
    yield Finding(
        id="engine.gpu_starved",
        severity=Severity.WARNING,
        subject=subject(engine),
        summary=f"{_busiest(engine)} {percent(max(loads))} busy: the thread that feeds it waited "
        f"for a CPU for {percent(waited)} of the window",
        headline=f"{_wait_words(engine)} for a thread that has no CPU {percent(waited)} of the "
        "time",
        evidence=(
            Evidence(
                value=f"{thread.name} ({thread.tid}): ran {percent(thread.cpu_share)}, waited "
                f"{percent(thread.delay_share or 0)}",
                source=f"/proc/{thread.pid}/task/{thread.tid}/schedstat",
                expected=f"waits below {percent(limits.engine_starved_wait_share)}",
                basis="policy engine_starved_wait_share",
            ),
            *_load_evidence(seen, engine),
            *other_evidence(engine),
        ),
        impact=f"Without the wait the card gets its work up to {gain_of(waited)} as fast",
        remedy=_leave_room(seen, engine),
        owner=Owner.USER,
    )


def _busiest(engine: EngineFacts) -> str:
    number = len(held_cards(engine))
    return "Its card is" if number == 1 else f"The busiest of its {number} cards is"


def _feeder(seen: Seen, engine: EngineFacts) -> Thread | None:
    """The busiest thread of the processes that have a card open."""
    holders = {process.pid for process in engine.processes if process.gpu_files}
    if len(engine.processes) == 1:
        holders = {engine.processes[0].pid}
    threads = [thread for thread in computing(seen) if thread.pid in holders]
    return max(threads, key=demand, default=None)


def _leave_room(seen: Seen, engine: EngineFacts) -> Remedy:
    usable = len(engine.usable_cpus or ())
    wanting = sum(map(demand, computing(seen)))
    if usable and wanting > usable:
        number = max(1, best_threads(seen, usable) - len(held_cards(engine)))
        return Remedy(
            text=f"Start it with {count(number, 'thread')}, which leaves a CPU for the thread that "
            f"feeds {'the card' if len(held_cards(engine)) == 1 else 'each card'}",
            action=Action.RESTART_ENGINE,
            commands=remedies.thread_commands(seen, number),
            cost="One restart of the engine",
        )
    return Remedy(
        text="Stop or move the other programs, or give the engine CPUs of its own",
        action=Action.CHANGE_SETTING,
        commands=moved_away(seen, engine, other_cpus(engine)),
        cost="What the other programs do takes longer",
    )
