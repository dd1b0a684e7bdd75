"""What a model takes of host RAM: weights on the CPU, its cache there, a pool of cached tokens."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.rates.reads import Share, context_tokens, reads
from nodecheck.serving import Kind, Need, Weights, Workload
from nodecheck.units import GIB, MIB, count, gib

REPACKED = {
    "q4_0": "avx2",
    "q4_k": "avx2",
    "iq4_nl": "avx2",
    "mxfp4": "avx2",
    "q2_k": "avx512f",
}
"""Types that llama.cpp lays out anew on x86 and the instructions for which it does: the new layout
is anonymous memory, the file's pages are page cache. Source: ggml-cpu/repack.cpp."""

REPACKED_ON_ARM = {"q4_0": "asimddp", "q4_k": "asimddp", "iq4_nl": "asimddp", "q8_0": "asimddp",
                   "q5_k": "asimddp", "q6_k": "asimddp"}  # fmt: skip
"""The same on AArch64."""

PROMPT_CACHE_BYTES = 8 * GIB
"""llama-server keeps finished prompts in RAM up to as much (--cache-ram 8192). Source:
common/common.h."""

CPU_BUFFERS_BYTES = 512 * MIB
"""Compute buffers and the process itself, without weights and cache. Source: 76 MiB of buffers for
a vocabulary of 32,000 and a batch of 512; they grow with the vocabulary."""


def cpu_needs(seen: Seen, work: Workload, part: Share, *, repacks: bool) -> tuple[Need, ...]:
    """What `part` of a model takes of host RAM in llama.cpp.

    It repacks weights where no GPU is in use: one's pinned host buffers come first
    (src/llama-model.cpp, make_cpu_buft_list).
    """
    requests = seen.serving.requests
    anew = repacked_bytes(seen, work) if repacks else 0
    mapped = max(0, round(part.stored_bytes) - anew)
    times = f" x {count(requests, 'request')}" if requests > 1 else ""
    needs = (
        Need(what="repacked weights (anonymous memory)", bytes=anew),
        Need(what="mapped weights (page cache)", bytes=mapped),
        Need(
            what=f"cache of {context_tokens(seen):,} tokens{times}",
            bytes=round(part.cache_bytes),
        ),
        Need(
            what=count(requests, "recurrent state"),
            bytes=round(part.state_bytes),
        ),
        Need(what="compute buffers", bytes=CPU_BUFFERS_BYTES),
    )
    return tuple(need for need in needs if need.bytes)


def repacked_bytes(seen: Seen, work: Workload) -> int:
    """Bytes of weights that llama.cpp lays out anew on this CPU: matrices of some types."""
    types = _laid_out_anew(seen)
    if not work.layer_groups:
        return work.weight_bytes_shipped if work.weight_type in types else 0
    return sum(number * w.bytes for number, w in _matrices(work) if w.type in types)


def _laid_out_anew(seen: Seen) -> set[str]:
    flags = set(seen.facts.cpu.usable_flags or seen.facts.cpu.flags or ())
    known = REPACKED_ON_ARM if seen.facts.cpu.arch == "aarch64" else REPACKED
    return {kind for kind, flag in known.items() if flag in flags}


def _matrices(work: Workload) -> Iterator[tuple[int, Weights]]:
    """How often each occurs; an embedding is looked up and stays as it is."""
    yield from ((1, w) for w in work.outside if w.kind is not Kind.EMBEDDING)
    yield from ((len(g.numbers), w) for g in work.layer_groups for w in g.weights)


def in_ram(seen: Seen, work: Workload) -> Share:
    """All of a model where no card holds any of it.

    A tied output is the embedding table itself then, unless it is laid out anew: only then, or on
    a card, is it a copy (src/llama-model-loader.cpp, TENSOR_DUPLICATED).
    """
    whole, anew = reads(seen, work).whole, _laid_out_anew(seen)
    tied = (w for w in work.outside if w.kind is Kind.OUTPUT and not w.bytes)
    same = sum(w.read_bytes for w in tied if w.type not in anew)
    return replace(whole, stored_bytes=whole.stored_bytes - same)


def free_ram_basis(seen: Seen) -> str:
    """What bounds the RAM that is free."""
    memory, limits = seen.facts.memory, seen.facts.limits
    if memory.available_bytes is None:
        return "free RAM not known"
    bounded = limits.memory_headroom_bytes
    if bounded is not None and bounded < memory.available_bytes:
        return f"the cgroup leaves {gib(bounded)} of {gib(memory.available_bytes)} available"
    swap = "; swap not counted" if memory.swap_total_bytes else ""
    return f"MemAvailable {gib(memory.available_bytes)}{swap}"


def room_for_prompts(seen: Seen, needed_bytes: int) -> bool:
    """Whether llama-server's cache of prompts fits beside the model."""
    free = node.free_ram_bytes(seen)
    return free is None or free - needed_bytes >= PROMPT_CACHE_BYTES
