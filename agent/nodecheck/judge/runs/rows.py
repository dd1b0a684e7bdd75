"""A row of a benchmark in the model's terms: what lay where, and how fast that should have been."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.rates.cpu_stage import CpuStage, stage_of
from nodecheck.judge.rates.gpu_stage import gpu_limit, gpu_seconds
from nodecheck.judge.rates.reads import Reads, Share, reads, together
from nodecheck.judge.runs.machine import Machine, machine
from nodecheck.judge.ways import speculative
from nodecheck.judge.ways.offload import CROSSINGS_OF_EXPERTS, Cut, Split, cpu_layers, ngl_cuts
from nodecheck.model import Struct
from nodecheck.serving import Run, Workload
from nodecheck.units import gib
from nodecheck.workload.cache import CACHE_TYPES

SAME_MODEL_SHARE = 0.02
"""By which a row's model may weigh more or less than this one: a size in GiB with one decimal."""

ALONE_MOST = 4
"""Sequences at a time up to which reading weights holds a step on a card; more add compute, which
is not predicted. Source: on an L40, 4 tokens together took 1.32 to 1.42 passes (reference)."""

REPEATS = 0.02
"""How well a rate repeats on an idle machine at best. Source: llama-bench's own spreads there."""

LEAST_USUAL = 1.5
"""Times as long as usual that the GPU's part may take before the CPU is asked for the rest."""

PRECISE = 1.5
"""Between the least and the most that may be the CPU's time; above it, it tells nothing of the
CPU: one layer of many is lost in the noise of the others."""

_GUESSING = re.compile(r"\b(mtp|eagle|medusa|draft|speculat\w*)\b", re.IGNORECASE)
_NOT_GUESSING = re.compile(r"\b(no|without|off|disabled)\b", re.IGNORECASE)


class Row(Struct, frozen=True):
    """A run, its machine, and what is expected of it.

    `strategy` is None where the row does not say what lay where, and `why` says so. `cut` is what
    it left on each side, `part` all that one of its steps moved. `speed` is what was to be expected
    in tokens a second of one sequence, `ceiling` what memory rates alone allow. `stage` is what
    this node's CPU costs, None where nothing lay there or where the row is another machine's.
    """

    run: Run
    machine: Machine
    strategy: str | None
    why: str | None
    cut: Cut | None = None
    part: Share = Share()
    stage: CpuStage | None = None
    speed: Range | None = None
    ceiling: float | None = None
    limit: str | None = None

    @property
    def rate(self) -> float:
        """Tokens a second of one sequence, 0 where the row has none."""
        return self.run.tokens_per_second or 0.0

    @property
    def on_gpu(self) -> bool:
        """Whether no weights lay on the CPU."""
        return self.strategy in ("gpu-resident", "tensor-parallel", "speculative")

    @property
    def setting(self) -> tuple[object, ...]:
        """What two rows share that differ by chance alone: everything but the settings' names."""
        run, cut = self.run, self.cut
        place = (cut.cpu_layers, round(cut.moved.stored_bytes)) if cut else (run.placement, None)
        lengths = (run.prompt_tokens, run.generated_tokens, run.context_tokens)
        engine = (run.tool, run.build, run.threads, run.kv_type, run.kv_on_host, run.concurrency)
        more = (run.accepted_tokens, run.remarks, self.machine)
        return (self.strategy, *place, *lengths, *engine, *more)


def guesses(run: Run) -> bool:
    """Whether tokens were guessed ahead: by what was accepted, else by a remark that says so."""
    if run.accepted_tokens is not None:
        return run.accepted_tokens > 1
    told = (text for text in run.remarks if not _NOT_GUESSING.search(text))
    return any(_GUESSING.search(text) for text in told)


def rows(seen: Seen, work: Workload, runs: Iterable[Run]) -> tuple[Row, ...]:
    """Every run in the model's terms."""
    parts: dict[tuple[int | None, str], tuple[Reads, list[Cut]]] = {}
    found = []
    for run in runs:
        asked = _as_served(seen, run)
        key = (asked.serving.context_tokens, asked.serving.kv_type)
        if key not in parts:
            read = reads(asked, work)
            parts[key] = (read, ngl_cuts(read))
        found.append(_row(asked, work, run, *parts[key]))
    return tuple(found)


def _as_served(seen: Seen, run: Run) -> Seen:
    """The node asked for the row's context and cache, so far as the row tells them."""
    context = seen.serving.context_tokens
    if run.context_tokens is not None:
        context = max(1, run.context_tokens + (run.generated_tokens or 0) // 2)
    kv_type = run.kv_type if run.kv_type in CACHE_TYPES else seen.serving.kv_type
    asked = replace(seen.serving, context_tokens=context, kv_type=kv_type, requests=1)
    return replace(seen, serving=asked)


def _row(seen: Seen, work: Workload, run: Run, parts: Reads, cuts: Sequence[Cut]) -> Row:
    owner = machine(seen, run)
    if why := _not_comparable(seen, work, run, parts):
        return Row(run, owner, None, why)
    kept = cpu_layers(work, run.gpu_layers if run.gpu_layers is not None else _default(seen, run))
    cut = _with_experts(cuts[min(kept, len(cuts) - 1)], parts, kept, run.cpu_expert_layers or 0)
    strategy = _strategy(run, cut, owner, len(cuts) - 1)
    row = Row(run, owner, strategy, None, cut, _step(cut.on_gpu + cut.on_cpu, run))
    if run.tokens_per_second is None:
        return row
    return _on_cards(seen, work, row) if row.on_gpu else _on_both(seen, row)


def _default(seen: Seen, run: Run) -> int:
    """Layers on the GPU where a row names no number: all, or none where there is no card."""
    return -1 if run.gpus or node.cards(seen).gpus else 0


def _not_comparable(seen: Seen, work: Workload, run: Run, parts: Reads) -> str | None:
    if run.placement:
        return f"where its weights lay is not known: {run.placement}"
    size = run.model_bytes
    if size and abs(size / work.weight_bytes_shipped - 1) > SAME_MODEL_SHARE:
        return f"another file: {gib(size)} of weights, and here {gib(work.weight_bytes_shipped)}"
    if run.gpu_layers is None and run.tool == "llama-bench":
        return "the row does not say -ngl"
    layers = run.gpu_layers if run.gpu_layers is not None else _default(seen, run)
    if not parts.blocks and 0 < cpu_layers(work, layers) <= work.layers:
        return f"the model's {work.layers} layers are not told apart"
    return None


def _with_experts(cut: Cut, parts: Reads, kept: int, number: int) -> Cut:
    """A cut with the experts of the first `number` blocks on the CPU too."""
    extra = parts.experts[kept:number]
    if not any(each.stored_bytes for each in extra):
        return cut
    blocks = sum(1 for each in extra if each.stored_bytes)
    return replace(
        cut,
        moved=cut.moved + together(extra),
        on_gpu=together((*parts.blocks[kept:number], *parts.both[max(kept, number) :]))
        + parts.output,
        cpu_layers=cut.cpu_layers + blocks,
        crossings=cut.crossings + CROSSINGS_OF_EXPERTS * blocks,
    )


def _strategy(run: Run, cut: Cut, owner: Machine, every: int) -> str:
    if cut.cpu_layers >= every and not cut.gpu_blocks:
        return "cpu-only"
    if cut.cpu_layers:
        experts_alone = cut.crossings != 1
        return "expert-offload" if experts_alone else "partial-offload"
    if guesses(run):
        return "speculative"
    return "tensor-parallel" if owner.parallel else "gpu-resident"


def _step(part: Share, run: Run) -> Share:
    """What a step of all its sequences moves: weights once, cache and state of each."""
    number = max(1.0, run.concurrency or 1.0)
    return replace(
        part, cache_bytes=number * part.cache_bytes, state_bytes=number * part.state_bytes
    )


def _on_cards(seen: Seen, work: Workload, row: Row) -> Row:
    """All of it in VRAM: by the cards' rate, whosever they are."""
    vram, number = row.machine.rate, row.machine.number if row.machine.parallel else 1
    if vram is None or row.cut is None:
        return replace(row, why="the VRAM rate of its card is not known")
    blocks = row.cut.gpu_blocks
    slow = gpu_seconds(row.part, vram.floor, blocks).high
    fast = gpu_seconds(row.part, vram.high, blocks).floor / number
    unknown = number > 1 or (row.run.concurrency or 1) > ALONE_MOST
    speed = Range(None if unknown else 1 / slow, 1 / fast)
    ceiling = number * vram.high / row.part.bytes.floor
    limit = gpu_limit(row.part, vram.high, blocks)
    found = replace(row, speed=speed, ceiling=ceiling, limit=limit)
    return _guessing(seen, work, found) if guesses(row.run) else found


def _guessing(seen: Seen, work: Workload, row: Row) -> Row:
    """A cycle reads all weights once and yields the accepted tokens."""
    length = row.run.accepted_tokens
    if length is None or row.speed is None or row.ceiling is None:
        return replace(row, speed=None, ceiling=None, why="its accepted length is not told")
    drafts = max(speculative.drafts_of(seen), math.ceil(length) - 1)
    check = speculative.check_cost(work, drafts)
    cost = speculative.draft_cost(seen, work) or Range(0.0, 0.0)
    dearest, cheapest = check.high + drafts * cost.high, check.floor + drafts * cost.floor
    low = None if row.speed.low is None else row.speed.low * length / dearest
    return replace(
        row,
        speed=Range(low, row.speed.high * length / cheapest),
        ceiling=row.ceiling * length,
        limit=f"acceptance of guesses, then {row.limit}",
    )


def _on_both(seen: Seen, row: Row) -> Row:
    """Some of it on the CPU: by this node's CPU, or not at all where it was another machine's."""
    cut, vram = row.cut, row.machine.rate
    if cut is None or not row.machine.here:
        return replace(row, why="another machine: what its CPU and memory reach is not known")
    if vram is None and cut.gpu_blocks:
        return replace(row, why="the VRAM rate of its card is not known")
    every, few = _stages(seen, row.run.threads, cut.on_cpu)
    if isinstance(every, str):
        return replace(row, why=every)
    slowest, fastest = (vram.floor, vram.high) if vram else (1.0, 1.0)
    high = Split(every, fastest, 0).speed(cut).high
    low = None if isinstance(few, str) else Split(few, slowest, 0).speed(cut).low
    at_best = every.seconds(cut.on_cpu).floor + cut.on_gpu.bytes.floor / fastest
    return replace(
        row,
        stage=every,
        speed=Range(low, high),
        ceiling=1 / at_best,
        limit=Split(every, fastest, 0).limit(cut),
    )


def _stages(seen: Seen, threads: int | None, part: Share) -> tuple[CpuStage | str, CpuStage | str]:
    """What the part costs on all cores, and on as many threads as the row used if those are fewer.

    Figures of more threads bound what fewer reach from above, those of fewer from below.
    """
    every = stage_of(seen, part)
    cores = node.cores(seen)
    if threads is None or cores is None or threads >= cores.high:
        return every, every
    budget = min(threads, seen.facts.limits.thread_budget or threads)
    limits = replace(seen.facts.limits, thread_budget=budget)
    few = replace(
        seen,
        facts=replace(seen.facts, limits=limits),
        measurements=tuple(m for m in seen.measurements if m.threads <= threads),
    )
    found = stage_of(few, part)
    referred = isinstance(found, CpuStage) and "reference" in found.basis
    return (found if referred and not isinstance(found, str) else every), found


def cpu_seconds(row: Row) -> Range | None:
    """Seconds of a token that were left for the CPU; None where they cannot be told from the rest.

    A row's own spread, and the GPU's part at the best and well below its usual rate, are taken out.
    """
    cut, vram = row.cut, row.machine.rate
    if cut is None or not cut.cpu_layers or not row.rate or (cut.gpu_blocks and vram is None):
        return None
    noise = max(REPEATS, (row.run.spread or 0.0) / row.rate)
    whole = 1 / row.rate
    fastest, slowest = (vram.floor, vram.high) if vram else (1.0, 1.0)
    least = cut.on_gpu.bytes.floor / slowest
    most = LEAST_USUAL * gpu_seconds(cut.on_gpu, fastest, cut.gpu_blocks).high
    left = Range(whole * (1 - noise) - most, whole * (1 + noise) - least)
    return left if left.floor > 0 and left.high <= PRECISE * left.floor else None


def cpu_rate(row: Row) -> Range | None:
    """Bytes of weights a second that the CPU used up; None where it cannot be told."""
    seconds = cpu_seconds(row)
    if seconds is None or row.cut is None:
        return None
    size = row.cut.on_cpu.weight_bytes
    middle = (size.floor + size.high) / 2
    return Range(middle / seconds.high, middle / seconds.floor) if middle else None
