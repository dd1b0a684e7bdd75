"""Judges whether the code that computes on the CPU uses the instructions that the CPU has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.facts import CpuLibrary, EngineFacts
from nodecheck.checks.engine.signs import computes_on_cpu, subject, watched
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import listed

_LEVELS = (
    ("AVX2", frozenset({"avx", "avx2", "fma", "f16c"})),
    ("AVX", frozenset({"avx"})),
    ("SSE4", frozenset({"ssse3"})),
    ("SSE2", frozenset[str]()),
)
"""The code paths of ggml, best first, and the instruction sets that each needs. AVX-512 gains
nothing in decode."""

_RATES = {
    "q4_0": {"SSE2": 1.05, "SSE4": 5.29, "AVX": 6.10, "AVX2": 17.9},
    "q4_k": {"SSE2": 0.946, "SSE4": 3.80, "AVX": 11.8, "AVX2": 18.4},
    "q8_0": {"SSE2": 3.46, "SSE4": 3.47, "AVX": 6.95, "AVX2": 8.43},
    "f16": {"SSE2": 0.672, "SSE4": 0.751, "AVX": 0.774, "AVX2": 7.41},
}
"""Tokens a second by weight type and code path. Reference: llama.cpp 0c1e57098 on one core of a
Zen 4 server part; what is compared are ratios."""

_LIKE = {"q2_k": "q4_k", "q3_k": "q4_k", "q5_k": "q4_k", "q6_k": "q4_k"}
"""Types whose products have the same code paths as one that was measured."""

_CAPS = {
    "ONEDNN_MAX_CPU_ISA": {"sse41": "SSE4", "avx": "AVX"},
    "DNNL_MAX_CPU_ISA": {"sse41": "SSE4", "avx": "AVX"},
    "ATEN_CPU_CAPABILITY": {"default": "SSE2"},
    "MKL_ENABLE_INSTRUCTIONS": {"sse4_2": "SSE4", "avx": "AVX"},
    "OPENBLAS_CORETYPE": {
        **dict.fromkeys(("prescott", "core2", "penryn", "dunnington", "nehalem"), "SSE4"),
        **dict.fromkeys(("opteron", "opteron_sse3", "barcelona", "bobcat", "atom", "nano"), "SSE4"),
        **dict.fromkeys(("sandybridge", "bulldozer", "piledriver", "steamroller"), "AVX"),
    },
}
"""Variables that cap the instructions of a library, and the values that cap them below AVX2."""

_CAPPED = {
    "ONEDNN_MAX_CPU_ISA": ("onednn", "torch"),
    "DNNL_MAX_CPU_ISA": ("onednn", "torch"),
    "ATEN_CPU_CAPABILITY": ("torch",),
    "MKL_ENABLE_INSTRUCTIONS": ("mkl", "torch"),
    "OPENBLAS_CORETYPE": ("openblas",),
}
"""The libraries that each caps; PyTorch has oneDNN and MKL within it."""

_PER_CYCLE = {"SSE2": "4x", "SSE4": "4x", "AVX": "2x"}
"""Multiply-adds that AVX2 and FMA do in a cycle for each of theirs: wider vectors, one instruction
for two."""


def slow_variant(seen: Seen) -> Iterator[Finding]:
    """engine.slow_variant: what computes leaves instructions of this CPU unused."""
    engine, flags = watched(seen), seen.facts.cpu.usable_flags
    if engine is None or not flags or not computes_on_cpu(seen):
        return
    library = _best_ggml(engine)
    if library is not None and (lost := _left_unused(library, flags)):
        yield _of_library(seen, engine, library, lost)
    for name, level in _caps(seen, engine):
        if _rank(level) > _rank(_level(flags)):
            yield _of_variable(engine, name, level, _level(flags))


def _best_ggml(engine: EngineFacts) -> CpuLibrary | None:
    """The best of ggml's CPU libraries: where several are loaded, the others were only tried."""
    told = [lib for lib in engine.libraries if lib.family == "ggml" and lib.left_out is not None]
    return min(told, key=lambda lib: _rank(_built_for(lib)), default=None)


def _built_for(library: CpuLibrary) -> str:
    left_out = set(library.left_out or ())
    return next(name for name, needed in _LEVELS if not needed & left_out)


def _level(flags: Collection[str]) -> str:
    """The best code path that a CPU with these flags runs."""
    return next(name for name, needed in _LEVELS if needed <= set(flags))


def _rank(level: str) -> int:
    return [name for name, _ in _LEVELS].index(level)


def _left_unused(library: CpuLibrary, flags: Collection[str]) -> list[str]:
    """What the next better code path needs, where the CPU has it; none where it uses the best."""
    if _rank(_built_for(library)) <= _rank(_level(flags)):
        return []
    needed = dict(_LEVELS)[_level(flags)]
    return sorted(needed & set(library.left_out or ()))


def _of_library(seen: Seen, engine: EngineFacts, library: CpuLibrary, lost: list[str]) -> Finding:
    built, best = _built_for(library), _level(seen.facts.cpu.usable_flags or ())
    names = listed([name.upper() for name in lost])
    variant = f", variant {library.variant}" if library.variant else ""
    forced = engine.environment.get("OLLAMA_LLM_LIBRARY")
    return Finding(
        id="engine.slow_variant",
        severity=Severity.WARNING,
        subject=subject(engine),
        summary=f"It computes with code for {built} on a CPU that has {names}",
        headline=f"Its CPU code leaves {best} unused and is up to "
        f"{_factors(engine, built, best)[-1]} slower",
        evidence=(
            Evidence(
                value=f"built without {' '.join(lost)}{variant}",
                source=library.path,
                expected=" ".join(sorted(dict(_LEVELS)[best])),
                basis="CPUID and /proc/cpuinfo of this node",
            ),
            *(
                (Evidence(value=f"OLLAMA_LLM_LIBRARY={forced}", source="environment"),)
                if forced
                else ()
            ),
            *_weight_evidence(engine),
        ),
        impact=_library_impact(engine, built, best),
        remedy=Remedy(
            text="Take a build for this CPU, or one that has all variants and chooses at start"
            + (", and unset OLLAMA_LLM_LIBRARY" if forced else ""),
            action=Action.RESTART_ENGINE,
            commands=remedies.build_commands(engine),
            cost="One build or installation, and one restart of the engine",
        ),
        owner=Owner.USER,
    )


def _weight_type(engine: EngineFacts) -> str | None:
    """The type of the largest model file, by the names of the table; None where it has no row."""
    typed = [file for file in engine.model_files if file.weight_type]
    largest = max(typed, key=lambda file: file.size_bytes or 0, default=None)
    if largest is None or largest.weight_type is None:
        return None
    name = largest.weight_type.lower()
    return next((row for row in (_LIKE.get(name, name), name) if row in _RATES), None)


def _weight_evidence(engine: EngineFacts) -> Iterator[Evidence]:
    if (kind := _weight_type(engine)) is not None:
        yield Evidence(value=f"most weights are like {kind}", source="the model file's header")


def _library_impact(engine: EngineFacts, built: str, best: str) -> str:
    low, high = _factors(engine, built, best)
    range_ = low if low == high else f"{low} to {high}, by the weights' type,"
    return (
        f"Decode on the CPU is up to {range_} slower than with {best} (llama.cpp on one core of a "
        "Zen 4 part); memory caps what can be gained"
    )


def _factors(engine: EngineFacts, built: str, best: str) -> tuple[str, str]:
    """How much faster the best code is, for the weights that gain least and most: "19.5x"."""
    kind = _weight_type(engine)
    rows = [_RATES[kind]] if kind else list(_RATES.values())
    factors = sorted(row[best] / row[built] for row in rows)
    low, high = (f"{factor:.1f}".removesuffix(".0") for factor in (factors[0], factors[-1]))
    return f"{low}x", f"{high}x"


def _caps(seen: Seen, engine: EngineFacts) -> Iterator[tuple[str, str]]:
    """The variables that cap a library which computes for it, and the level that is left."""
    for name, levels in _CAPS.items():
        level = levels.get(engine.environment.get(name, "").strip().lower())
        if level is None or not any(_is_capped(name, lib, engine) for lib in engine.libraries):
            continue
        if name == "MKL_ENABLE_INSTRUCTIONS" and seen.facts.cpu.vendor != "GenuineIntel":
            continue  # MKL heeds it on Intel's processors alone
        yield name, level


def _is_capped(name: str, library: CpuLibrary, engine: EngineFacts) -> bool:
    if library.family not in _CAPPED[name]:
        return False
    if name != "OPENBLAS_CORETYPE":
        return True
    return any(lib.family == "torch" or "ggml-blas" in lib.path for lib in engine.libraries)


def _of_variable(engine: EngineFacts, name: str, level: str, best: str) -> Finding:
    prompts = name == "OPENBLAS_CORETYPE"
    return Finding(
        id="engine.slow_variant",
        severity=Severity.WARNING,
        subject=f"{subject(engine)} {name}",
        summary=f"{name} keeps its CPU code at {level} on a CPU that has {best}",
        headline=f"{name} keeps it from {best}, up to {_PER_CYCLE[level]} slower",
        evidence=(
            Evidence(
                value=f"{name}={engine.environment[name]}",
                source=f"/proc/{engine.pid}/environ",
                expected="not set, or a value for this CPU",
                basis="CPUID and /proc/cpuinfo of this node",
            ),
        ),
        impact=f"{'Prompts' if prompts else 'Products of matrices'} run at up to "
        f"{_PER_CYCLE[level]} fewer multiply-adds a cycle than with {best}",
        remedy=Remedy(
            text=f"Unset {name} where the engine is started",
            action=Action.RESTART_ENGINE,
            commands=(f"unset {name}",),
            cost="One restart of the engine",
        ),
        owner=Owner.USER,
    )
