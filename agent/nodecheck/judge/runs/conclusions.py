"""What the rows of benchmarks say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodecheck.checks.seen import Seen
from nodecheck.judge.figures import figure
from nodecheck.judge.runs.attribution import attributions
from nodecheck.judge.runs.contradictions import contradictions
from nodecheck.judge.runs.rows import REPEATS, Row, guesses, rows
from nodecheck.judge.runs.words import guessing, named, rate, rates
from nodecheck.model import Struct
from nodecheck.serving import Comparison, Workload
from nodecheck.units import count, listed

NOISE = 0.10
"""By which rows of one setting may differ on a machine that is not idle. Source: nodecheck's own
judgement; on an idle one they repeat to 2 %."""

COMPUTE_BOUND = 1.3
"""Prompts read at up to so many times the rate of decode show a CPU that is held by instructions: a
batch reads weights once for all its tokens. Source: llama.cpp reads prompts 1.1 to 1.25 times as
fast as it decodes with SSE2 alone, 1.3 to 1.7 with AVX2."""

_SURE = 1 - NOISE
"""Prompts slower than decode were disturbed, and show nothing."""

PROMPT_ON_CPU = 32
"""Tokens of a batch from which llama.cpp streams weights on the CPU to a card. Source: llama.cpp,
ggml-cuda.cu, GGML_OP_OFFLOAD_MIN_BATCH."""

PROMPT_LEAST = 8
"""Fewer tokens are no batch."""


def conclusions(seen: Seen, work: Workload, comparisons: Iterable[Comparison]) -> tuple[str, ...]:
    """One sentence each: on settings that are one and on rows that contradict each other.

    Then on what sets machines apart, what guessing ahead gains, and what prompts say of the CPU.
    """
    found = rows(seen, work, [comparison.run for comparison in comparisons])
    return tuple(
        dict.fromkeys(
            (
                *_one_setting(work, found),
                *contradictions(seen, found),
                *attributions(seen, found),
                *_guessing(found),
                *_prompts(found),
            )
        )
    )


def _one_setting(work: Workload, found: Iterable[Row]) -> Iterable[str]:
    """Rows that leave the same on each side are one setting, whatever it is called."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in found:
        if row.rate and row.cut and row.run.gpu_layers is not None:
            groups.setdefault(row.setting, []).append(row)
    for group in groups.values():
        names = list(dict.fromkeys(named(row) for row in group))
        if len(group) > 1:
            yield from _alike(work, group, names)


def _alike(work: Workload, group: Sequence[Row], names: Sequence[str]) -> Iterable[str]:
    slowest, fastest = min(row.rate for row in group), max(row.rate for row in group)
    apart = fastest / slowest - 1
    spread = max((row.run.spread or 0.0) / row.rate for row in group)
    told = listed([f"{named(row)} ({rate(row)})" for row in group])
    if apart > max(NOISE, 3 * spread):
        what = "are one setting" if len(names) > 1 else f"was measured {len(group)} times"
        said = told if len(names) > 1 else f"{names[0]} ({listed([rate(r) for r in group])})"
        yield (
            f"{said} {what}, and yet differ {figure(fastest / slowest)}x: "
            "something else ran beside one of them."
        )
    elif len(names) > 1:
        noise = f"{100 * apart:.2g} % between them is noise"
        yield f"{told} are one setting, so it changed nothing: {_why(work, group[0])}; {noise}."


def _why(work: Workload, row: Row) -> str:
    kept = row.cut.cpu_layers if row.cut else 0
    if kept:
        return f"each leaves {count(kept, 'layer')} on the CPU"
    return (
        "each leaves no layer on the CPU, as every value from "
        f"{work.layers + 1} up does with {work.layers} layers"
    )


class _Cycle(Struct, frozen=True):
    """A row that guessed ahead, beside one that did not."""

    row: Row
    plain: Row

    @property
    def gain(self) -> float:
        return self.row.rate / self.plain.rate


def _guessing(found: Sequence[Row]) -> Iterable[str]:
    """How much faster it was, and how many plain steps a cycle of it took."""
    cycles: dict[int, list[_Cycle]] = {}
    for row in found:
        if guesses(row.run) and row.rate and (plain := _plain_for(row, found)):
            cycles.setdefault(id(plain), []).append(_Cycle(row, plain))
    for group in cycles.values():
        plain, with_it = group[0].plain, [cycle.row for cycle in group]
        gains = [cycle.gain for cycle in group]
        times = dict.fromkeys(f"{gain:.2f}" for gain in (min(gains), max(gains)))
        said = (
            f"With {guessing(with_it)}: {rates(with_it)} tok/s against {rate(plain)}, "
            f"{'-'.join(times)} times as fast"
        )
        yield f"{said}{_cycle_cost(group)}."


def _cycle_cost(group: Sequence[_Cycle]) -> str:
    known = [(c.row.run.accepted_tokens, c.gain) for c in group]
    lengths = [length for length, _ in known if length is not None]
    if not lengths:
        return "; how many tokens were accepted a cycle is not told"
    costs = [length / gain for length, gain in known if length is not None]
    span = "-".join(dict.fromkeys(f"{length:.2f}" for length in (min(lengths), max(lengths))))
    cost = "-".join(dict.fromkeys(f"{each:.2f}" for each in (min(costs), max(costs))))
    return f": with {span} tokens accepted, a cycle took {cost} plain steps"


def _plain_for(row: Row, found: Iterable[Row]) -> Row | None:
    """The row without guessing that is most like it, of the same cards."""
    run, owner = row.run, row.machine
    alike = [
        other
        for other in found
        if other.rate
        and not guesses(other.run)
        and other.on_gpu
        and other.machine.is_same(owner)
        and (other.machine.parallel, other.machine.total_rate) == (owner.parallel, owner.total_rate)
        and abs((other.run.concurrency or 1) / (run.concurrency or 1) - 1) < NOISE
    ]
    return max(
        alike,
        key=lambda r: (r.run.tool == run.tool, r.run.build == run.build, r.rate),
        default=None,
    )


def _prompts(found: Sequence[Row]) -> Iterable[str]:
    """Prompts that gain nothing from being read in batches, where the CPU read them."""
    for row in found:
        read, tokens = row.run.prompt_tokens_per_second, row.run.prompt_tokens or 0
        if not read or row.strategy not in ("cpu-only", "partial-offload") or tokens < PROMPT_LEAST:
            continue
        if row.run.gpus and tokens >= PROMPT_ON_CPU:
            continue
        if (row.run.spread or 0.0) > NOISE * read:
            continue
        decode = next((other for other in found if _is_decode_of(other, row)), None)
        if decode and _SURE <= read / decode.rate <= COMPUTE_BOUND * (1 + REPEATS):
            yield (
                f"{named(row)} reads prompts only {read / decode.rate:.1f} times as fast as it "
                f"decodes ({figure(read)} against {rate(decode)} tok/s): this build is held by the "
                "CPU's instructions, not by memory, and batches gain nothing."
            )


def _is_decode_of(decode: Row, prompt: Row) -> bool:
    mine, its = decode.run, prompt.run
    steady = (mine.spread or 0.0) <= NOISE * decode.rate
    return bool(
        decode.rate
        and steady
        and decode.cut
        and prompt.cut
        and decode.cut.setting == prompt.cut.setting
        and (mine.threads, mine.build, mine.tool) == (its.threads, its.build, its.tool)
        and decode.machine.is_same(prompt.machine)
    )
