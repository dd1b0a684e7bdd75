"""What the figures of a watched engine add up to. Pure; None is what cannot be told."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.checks.engine.facts import CardUse, EngineFacts, Thread
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.units import GB, gb_per_second

WATCHED, ENDED = "watched", "ended"
GGML = ("llama.cpp", "llama-cpp-python", "ollama")
"""Engines that compute with ggml, and can leave layers to the CPU."""

_HIDDEN = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}
"""By the maker, what hides its cards where it is empty or -1; HIP reads CUDA's name too."""


def watched(seen: Seen) -> EngineFacts | None:
    """The engine, where there was something to watch for some time."""
    engine = seen.facts.engine
    return engine if engine.state in (WATCHED, ENDED) and engine.seconds else None


def demand(thread: Thread) -> float:
    """Part of the window for which it ran or wanted to."""
    return thread.cpu_share + (thread.delay_share or 0.0)


def computing(seen: Seen) -> list[Thread]:
    """The threads that compute: they ran or waited for a CPU for much of the window."""
    least = seen.policy.thresholds.engine_computing_share
    return [thread for thread in seen.facts.engine.threads if demand(thread) >= least]


def most_in_one_process(seen: Seen) -> int:
    """Computing threads of the process that has most of them."""
    pids = [thread.pid for thread in computing(seen)]
    return max((pids.count(pid) for pid in set(pids)), default=0)


def known_sum(values: Iterable[int | None]) -> int | None:
    """The sum of what is known, None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def faults_per_second(engine: EngineFacts) -> float | None:
    """Page faults that waited for a disk."""
    faults = known_sum(process.major_faults for process in engine.processes)
    return None if faults is None or not engine.seconds else faults / engine.seconds


def read_per_second(engine: EngineFacts) -> float | None:
    """Bytes that its processes had from storage."""
    read = known_sum(process.read_bytes for process in engine.processes)
    return None if read is None or not engine.seconds else read / engine.seconds


def rate_words(rate: float) -> str:
    """A rate from storage: "4 MB/s", "1.2 GB/s"."""
    return gb_per_second(rate) if rate >= GB else f"{rate / 1e6:.0f} MB/s"


def model_bytes(engine: EngineFacts) -> int | None:
    """The size of all model files that it maps; None where one is not known, or there are none."""
    sizes = [file.size_bytes for file in engine.model_files]
    return known_sum(sizes) if sizes and None not in sizes else None


def missing_bytes(engine: EngineFacts) -> int | None:
    """What of its model files is not in memory."""
    missing = [
        None
        if file.size_bytes is None or file.cached_bytes is None
        else max(0, file.size_bytes - file.cached_bytes)
        for file in engine.model_files
    ]
    return known_sum(missing) if missing and None not in missing else None


def held_bytes(engine: EngineFacts) -> int | None:
    """What it holds on all cards; None where the driver does not tell that of each."""
    held = [card.memory_bytes for card in engine.cards]
    return known_sum(held) if held and None not in held else None


def held_cards(engine: EngineFacts) -> list[CardUse]:
    """The cards on which it is known to hold memory."""
    return [card for card in engine.cards if card.memory_bytes]


def cards_idle(seen: Seen, cards: Iterable[CardUse]) -> bool:
    """Whether each card's load is known and next to nothing."""
    least = seen.policy.thresholds.engine_idle_card_share
    loads = [card.utilisation_share for card in cards]
    return bool(loads) and all(load is not None and load < least for load in loads)


def opens_no_card(engine: EngineFacts) -> bool:
    """Whether none of its processes has a card's device file open; what it holds is open."""
    files = [process.gpu_files for process in engine.processes]
    return bool(files) and all(each == () for each in files) and not held_cards(engine)


def usable_gpus(seen: Seen) -> list[Gpu]:
    """Cards that the engine could compute on: granted, in order, with room for a model."""
    facts, least = seen.facts, seen.policy.thresholds.engine_card_bytes_min
    return [
        gpu
        for gpu in facts.gpus
        if gpu.granted
        and facts.grants(gpu)
        and not gpu.lost
        and gpu.error is None
        and (gpu.memory_bytes or 0) >= least
        and (gpu.vendor != "nvidia" or facts.gpu.state == "ok")
    ]


def asks_for_cpu(seen: Seen) -> str | None:
    """The setting by which it computes on the CPU on purpose, as `name value`.

    Ollama gives its runners what it chose itself, so that only its own variable is a wish.
    """
    engine = seen.facts.engine
    wishes: dict[str, tuple[str, ...]] = {"device": ("cpu",)}
    if engine.engine != "ollama":
        wishes = {"device": ("cpu", "none"), "gpu_layers": ("0",)}
    for name, values in wishes.items():
        value = engine.settings.get(name)
        if value is not None and value.strip().lower() in values:
            return f"{name} {value}"
    for vendor in {gpu.vendor or "nvidia" for gpu in seen.facts.gpus}:
        for name in _HIDDEN.get(vendor, ()):
            if engine.environment.get(name, "0").strip() in ("", "-1", "NoDevFiles"):
                return f"{name}={engine.environment[name]}"
    return None


def weights_on_cards(seen: Seen) -> bool | None:
    """Whether its weights lie on cards; False where a part of them is known not to."""
    engine, share = seen.facts.engine, seen.policy.thresholds.engine_resident_share
    opened = any(process.gpu_files for process in engine.processes)
    if asks_for_cpu(seen) or opens_no_card(engine) or not (engine.cards or opened):
        return False
    held, size = held_bytes(engine), model_bytes(engine)
    if held == 0:
        return False
    if held is None or size is None:
        return None
    return held >= share * size


def computes_on_cpu(seen: Seen) -> bool:
    """Whether it is known to use CPUs for its weights, and not to feed a card or to wait for it."""
    engine = watched(seen)
    if engine is None or (engine.cpus or 0) < seen.policy.thresholds.engine_burning_cpus:
        return False
    if weights_on_cards(seen) is not False:
        return False
    return not held_cards(engine) or most_in_one_process(seen) > 1


def subject(engine: EngineFacts) -> str:
    """What a finding is of: the engine's name, which stays the same from one start to the next."""
    root = next((p.name for p in engine.processes if p.pid == engine.pid), None)
    return engine.engine or root or "engine"


def throttled_share(engine: EngineFacts) -> float | None:
    """Part of the window's periods in which a quota stopped it; None where that was not counted."""
    group = engine.cpu_group
    if group is None or not group.periods or group.throttled_periods is None:
        return None
    return min(1.0, group.throttled_periods / group.periods)
