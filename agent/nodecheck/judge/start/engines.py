"""How to start llama.cpp, SGLang and vLLM with a model on this node, or why not."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.fits import fit, room
from nodecheck.judge.fits.room import LLAMA_CPP, SGLANG, VLLM, Demand
from nodecheck.judge.rates.reads import context_tokens
from nodecheck.judge.start import llama_cpp as start_llama_cpp
from nodecheck.judge.start import servers as start_servers
from nodecheck.judge.verdict import rate
from nodecheck.judge.ways import hicache, load, pool
from nodecheck.judge.ways.answers import ORDER
from nodecheck.model import Strategy, Viability
from nodecheck.serving import EngineStart, Flag, Workload
from nodecheck.units import count, gib

WAYS = ("gpu-resident", "expert-offload", "partial-offload", "cpu-only")
"""Ways that llama.cpp's flags choose between."""

WORTH_IT = (Viability.VIABLE, Viability.MARGINAL)

CONTEXT_LEAST = 1024
"""A shorter context than this is not worth a start."""

OLD_CPU = (
    "numpy 2.4 and later die with an illegal instruction on x86-64-v1, and the server with them: "
    "keep numpy below 2.4 (seen with 2.4.0 and 2.4.6; 2.3.5 runs)"
)
OLD_CPU_LLAMA = (
    "a build for AVX2 dies with an illegal instruction here: take one that picks its CPU code at "
    "start (GGML_CPU_ALL_VARIANTS)"
)
SGLANG_GGUF = (
    "GGUF files (--load-format gguf) are an aside there, for some architectures: serve the "
    "original checkpoint with it, or this file with llama.cpp"
)
VLLM_GGUF = (
    "vLLM 0.33.0 has no GGUF among its quantisations: serve the original checkpoint with it, or "
    "this file with llama.cpp"
)
CUT_UP = "MIG: a job gets an instance: whether that holds the model is not known"
NO_GPU = "no GPU was seen here"
SGLANG_CPU = "its CPU backend is made for CPUs with AMX"


def engines(seen: Seen, work: Workload, strategies: Sequence[Strategy]) -> tuple[EngineStart, ...]:
    """llama.cpp, SGLang and vLLM, those that read the model in its form before the others."""
    seen = room.within_model(seen, work)
    first = room.engines_for(work)
    rest = [each for each in (LLAMA_CPP, SGLANG, VLLM) if each not in first]
    return tuple(_start(seen, work, strategies, engine) for engine in (*first, *rest))


def _start(seen: Seen, work: Workload, strategies: Sequence[Strategy], engine: str) -> EngineStart:
    if engine not in room.engines_for(work):
        return EngineStart(engine=engine, command=None, not_for=_wrong_form(work, engine))
    if engine == LLAMA_CPP:
        return _llama_cpp(seen, work, strategies)
    if not node.cards(seen).gpus:
        why = SGLANG_CPU if engine == SGLANG else _vllm_cpu(seen)
        none = node.unusable(seen) or NO_GPU
        return EngineStart(engine=engine, command=None, not_for=f"{none}; {why}")
    return _server(seen, work, strategies, engine)


def _wrong_form(work: Workload, engine: str) -> str:
    if engine == SGLANG:
        return SGLANG_GGUF
    if engine == VLLM:
        return VLLM_GGUF
    size = load.conversion_bytes(work) or work.weight_bytes_shipped
    return (
        f"it reads GGUF files: convert_hf_to_gguf.py makes one of {gib(size)}, to be quantised then"
    )


def _vllm_cpu(seen: Seen) -> str:
    """Source: vLLM 0.33.0, platforms/cpu.py loads code for AVX-512 or AVX2; on Arm for NEON."""
    cpu, build = seen.facts.cpu, "its CPU build is another package"
    if cpu.arch != "x86_64":
        return build
    have = set(cpu.usable_flags or cpu.flags or ())
    return f"{build} and needs AVX2: this CPU {'has' if 'avx2' in have else 'has not'}"


def _llama_cpp(seen: Seen, work: Workload, strategies: Sequence[Strategy]) -> EngineStart:
    chosen = _best(strategies)
    if chosen is None:
        return EngineStart(engine=LLAMA_CPP, command=None, not_for="nothing is known of this node")
    if chosen.high is None and chosen.viability is Viability.NOT_VIABLE:
        return EngineStart(engine=LLAMA_CPP, command=None, not_for=_none_fits(strategies))
    way = chosen.strategy
    guess = way == "gpu-resident" and _worth_it(strategies, "speculative")
    start = seen if guess else fit.without_guessing(seen)
    flags = tuple(start_llama_cpp.flags(start, work, way, guess=guess))
    path = _path(work, start_llama_cpp.MODEL)
    return EngineStart(
        engine=LLAMA_CPP,
        command=_command(f"{start_llama_cpp.PROGRAM} -m {path}", flags),
        flags=flags,
        risks=(
            *_too_long(seen, work),
            *_cut_up(seen),
            *start_llama_cpp.risks(seen, work, guess=guess),
            *_llama_cpp_risks(seen, chosen),
        ),
    )


def _best(strategies: Iterable[Strategy]) -> Strategy | None:
    """The most viable way, then the fastest."""
    ways = [each for each in strategies if each.strategy in WAYS]
    return min(
        ways,
        key=lambda s: (ORDER.index(s.viability), s.high is None, -(s.low or 0), -(s.high or 0)),
        default=None,
    )


def _worth_it(strategies: Iterable[Strategy], name: str) -> bool:
    return any(s.strategy == name and s.viability in WORTH_IT for s in strategies)


def _none_fits(strategies: Iterable[Strategy]) -> str:
    whys = (f"{s.strategy}: {s.limit}, {s.basis}" for s in strategies if s.strategy in WAYS)
    return "; ".join(whys)


def _llama_cpp_risks(seen: Seen, chosen: Strategy) -> list[str]:
    risks = []
    if chosen.viability is Viability.NOT_VIABLE:
        risks.append(f"not viable here: {chosen.strategy} gives {rate(chosen)} ({chosen.limit})")
    if _is_old(seen):
        risks.append(OLD_CPU_LLAMA)
    return risks


def _server(seen: Seen, work: Workload, strategies: Sequence[Strategy], engine: str) -> EngineStart:
    guess = _worth_it(strategies, "speculative")
    asked = seen if guess else fit.without_guessing(seen)
    start = _fitting(asked, work, engine)
    found = room.demand(start or asked, work, engine, node.cards(seen))
    if start is None or found is None:
        why = fit.vram_advice(asked, work, found) if found else "no card"
        return EngineStart(engine=engine, command=None, not_for=f"it does not fit: {why}")
    pooled = _pooled(seen, work, strategies)
    guess = guess and found.stages == 1  # neither guesses across stages
    flags = _server_flags(start, work, found, guess=guess, pooled=pooled)
    risks = _server_risks(seen, work, engine, strategies)
    risks = [*_too_long(start, work), *_cut_up(seen), *risks]
    if start is not asked:
        risks = [_shortened(asked, start), *risks]
    path = _path(work, start_servers.MODEL)
    command = _command(f"{start_servers.PROGRAMS[engine]} {path}", flags)
    if only := start_servers.visible(node.cards(seen), found.cards):
        flags, command = (only, *flags), f"{only.flag} {command}"
    return EngineStart(engine=engine, command=command, flags=flags, risks=tuple(risks))


def _server_flags(
    seen: Seen, work: Workload, found: Demand, *, guess: bool, pooled: bool
) -> tuple[Flag, ...]:
    if found.engine == SGLANG:
        return tuple(start_servers.sglang_flags(seen, work, found, guess=guess, pooled=pooled))
    return tuple(start_servers.vllm_flags(seen, work, found, guess=guess))


def _fitting(seen: Seen, work: Workload, engine: str) -> Seen | None:
    """As asked where there is room, or it is not known; else with the longest context that fits."""
    found = room.demand(seen, work, engine, node.cards(seen))
    if found is None or found.fits is not False:
        return seen
    shorter = fit.largest_context(seen, work, engine)
    if not shorter or shorter < CONTEXT_LEAST:
        return None
    return replace(seen, serving=replace(seen.serving, context_tokens=shorter))


def _too_long(seen: Seen, work: Workload) -> list[str]:
    own, context = work.context_length, context_tokens(seen)
    if own is None or context <= own:
        return []
    return [f"{context:,} tokens are more than the model's own context of {own:,}"]


def _cut_up(seen: Seen) -> list[str]:
    return [CUT_UP] if any(gpu.mig for gpu in node.cards(seen).gpus) else []


def _shortened(asked: Seen, start: Seen) -> str:
    requests = count(asked.serving.requests, "request")
    return (
        f"a context of {context_tokens(asked):,} tokens does not fit with {requests}: "
        f"{context_tokens(start):,} do"
    )


def _pooled(seen: Seen, work: Workload, strategies: Iterable[Strategy]) -> bool:
    """Whether to put cached prefixes into RAM: unasked for no hybrid, and for no small pool."""
    if seen.serving.hicache_size_bytes or seen.serving.hicache_ratio is not None:
        return True
    if work.is_hybrid or not _worth_it(strategies, "host-kv-pool"):
        return False
    found = pool.sglang_pool(seen, work, node.cards(seen))
    return found is not None and found.pool.warning is None


def _server_risks(
    seen: Seen, work: Workload, engine: str, strategies: Iterable[Strategy]
) -> list[str]:
    risks: list[str] = []
    if engine == SGLANG and _pooled(seen, work, strategies):
        risks += hicache.risks(work, seen.serving)
    elif engine == SGLANG and work.is_hybrid:
        risks.append(hicache.LEFT_OUT)
    if _is_old(seen):
        risks.append(OLD_CPU)
    for library in seen.facts.python.libraries:
        if library.outcome == "illegal_instruction":
            name = f"{library.name} {library.version or ''}".strip()
            risks.append(f"{name} died with an illegal instruction when it was imported here")
    return risks


def _is_old(seen: Seen) -> bool:
    level = seen.facts.cpu.x86_64_level
    return level is not None and level < 2


def _path(work: Workload, unknown: str) -> str:
    return shlex.quote(work.storage.path) if work.storage else unknown


def _command(program: str, flags: Iterable[Flag]) -> str:
    return " ".join((program, *(flag.flag for flag in flags)))
