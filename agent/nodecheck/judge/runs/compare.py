"""What was measured beside what the node allows: each row of a benchmark and its ceiling."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between, figure
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.rates.cpu_rates import used_up
from nodecheck.judge.runs import suspects
from nodecheck.judge.runs.busy import busy, is_near
from nodecheck.judge.runs.rows import ALONE_MOST, Row, cpu_rate, cpu_seconds, rows
from nodecheck.serving import Comparison, Run, Workload
from nodecheck.units import GB, count, gb_per_second, percent

ABOVE = 1.02
"""A rate above its ceiling by less than this is that ceiling: clocks are told in whole MHz."""

BELOW = 0.95
"""A rate below the least that is predicted by less than this is no other. Source: rates repeat to 2
to 5 %."""

LEAST_SHARE = 0.6
"""Of a ceiling, from which it still is what holds a row where no least speed is known: cards that
share every layer, memory that was not measured. Below it, something else takes as long. Source:
nodecheck's own judgement."""


def compare(
    seen: Seen, work: Workload, runs: Iterable[Run], *, time: str | None = None
) -> tuple[Comparison, ...]:
    """Each run beside its ceiling. `time` is when the node was looked at, ISO 8601.

    Speeds are those of one sequence. What lies on the CPU is judged by this node's, what lies in
    VRAM by the cards that the row names, whosever they are.
    """
    return tuple(_comparison(seen, work, row, time) for row in rows(seen, work, runs))


def _comparison(seen: Seen, work: Workload, row: Row, time: str | None) -> Comparison:
    speed, share = row.speed, row.rate / row.ceiling if row.ceiling and row.rate else None
    explained = explained_by(row)
    look_at = _look_at(seen, work, row, time) if speed and explained is None else ()
    return Comparison(
        run=row.run,
        strategy=row.strategy,
        low=speed.low if speed else None,
        high=speed.high if speed else None,
        ceiling=row.ceiling,
        share=share,
        explained_by=explained,
        says=" ".join(_says(seen, work, row, time)),
        look_at=look_at,
    )


def is_above(row: Row) -> bool:
    """Whether a row is faster than the rates allow."""
    return row.ceiling is not None and row.rate > ABOVE * row.ceiling


def is_below(row: Row) -> bool:
    """Whether a row is slower than what was to be expected; a ceiling alone expects nothing."""
    low = row.speed.low if row.speed else None
    return low is not None and row.rate < BELOW * low


def explained_by(row: Row) -> str | None:
    """The resource that explains a row; None where none does, or where that is not known."""
    if not row.rate or row.speed is None or is_above(row) or is_below(row):
        return None
    if row.speed.low is None and row.rate < LEAST_SHARE * (row.ceiling or 0):
        return None
    return row.limit


def _look_at(seen: Seen, work: Workload, row: Row, time: str | None) -> tuple[str, ...]:
    if is_above(row):
        return suspects.faster(work, row)
    if row.on_gpu:
        return suspects.slower_on_cards(seen, row, time)
    return suspects.slower_on_cpu(seen, work, row, time)


def _says(seen: Seen, work: Workload, row: Row, time: str | None) -> Iterable[str]:
    if row.run.tokens_per_second is None:
        yield _without_rate(row.run)
        return
    if not row.machine.here:
        yield f"Another machine ({row.machine.words})."
    if row.speed is None:
        yield f"Not compared: {row.why}."
        return
    yield from _on_cards(work, row) if row.on_gpu else _on_both(seen, work, row)
    if (row.run.concurrency or 1) > 1:
        together = row.run.all_tokens_per_second
        sum_ = f", {figure(together)} tok/s together" if together else ""
        yield f"One of {row.run.concurrency:.0f} sequences at a time{sum_}."
    if row.machine.here and is_near(row.run.when, time) and (others := busy(seen)):
        yield f"The node was busy near that time: {', '.join(others)}."


def _without_rate(run: Run) -> str:
    if run.prompt_tokens_per_second:
        return "Reading a prompt is held by compute, which is not predicted."
    together = run.all_tokens_per_second
    known = f": all together reach {figure(together)} tok/s" if together else ""
    return f"Not compared: what one sequence reached is not told{known}."


def _on_cards(work: Workload, row: Row) -> Iterable[str]:
    moved = f"{_gigabytes(row.part.bytes)} GB a token"
    if row.strategy == "speculative":
        moved = f"{_gigabytes(row.part.bytes)} GB a cycle of {row.run.accepted_tokens:.4g} tokens"
    allowed = f"{_shares(row)} of what {row.machine.rate_words} GB/s allow for {moved}"
    yield f"{allowed}{_whole_file(work, row)}."
    if is_above(row):
        yield "Faster than so many bytes can be read."
    elif is_below(row):
        yield "VRAM bandwidth does not explain it."
    elif explained_by(row) is None:
        yield _something_else(row)


def _something_else(row: Row) -> str:
    """Where no least speed is known: several cards, or many sequences."""
    if (row.run.concurrency or 1) > ALONE_MOST:
        return "So many sequences at a time are held by compute too, which is not predicted."
    if row.rate < (row.ceiling or 0.0) / row.machine.number:
        return "That is less than one of the cards allows: something else holds it."
    return "That is too little for VRAM alone to hold it."


def _shares(row: Row) -> str:
    """Of the ceiling, over the least and the most that a token may read."""
    ceiling, moved = row.ceiling or 1.0, row.part.bytes
    least, most = row.rate / ceiling, row.rate / ceiling * moved.high / moved.floor
    ends = dict.fromkeys(f"{100 * share:.0f}" for share in (least, most))
    return f"{'-'.join(ends)} %"


def _gigabytes(size: Range) -> str:
    ends = dict.fromkeys(f"{end / GB:.1f}" for end in (size.floor, size.high))
    return "-".join(ends)


def _whole_file(work: Workload, row: Row) -> str:
    """The share that comes out where every byte of the file is counted, as is often done."""
    total = work.weight_bytes_shipped
    if row.strategy == "speculative" or not row.ceiling or total <= 1.01 * row.part.bytes.high:
        return ""
    share = row.rate / row.ceiling * total / row.part.bytes.floor
    return f" ({percent(share)} with all {total / GB:.1f} GB of the file)"


def _on_both(seen: Seen, work: Workload, row: Row) -> Iterable[str]:
    """The layers on the CPU, what they took, and what that is a second."""
    cut = row.cut
    if cut is None:
        return
    where = f"{cut.cpu_layers} of {work.layers + 1} layers"
    if row.strategy == "cpu-only":
        where = "all of it"
    elif row.strategy == "expert-offload":
        where = f"the experts of {count(cut.cpu_layers, 'layer')}"
    yield f"On the CPU: {where}, {_gigabytes(cut.on_cpu.weight_bytes)} GB a token{_took(row)}."
    if is_above(row):
        yield _above(seen, work, row)
    elif is_below(row) and row.speed and row.speed.low:
        low, high = row.speed.low / row.rate, row.speed.high / row.rate
        yield f"That is {between(low, high)} times slower than predicted."
    elif explained_by(row) is None:
        yield "How far below its ceiling is usual is not known: the memory was not measured."


def _took(row: Row) -> str:
    seconds, rate = cpu_seconds(row), cpu_rate(row)
    if seconds is None or rate is None:
        alone = row.cut is None or not row.cut.gpu_blocks
        return "" if alone else ", too little to tell its time from the GPU's"
    if seconds.high < 1:
        time = f"{between(1000 * seconds.floor, 1000 * seconds.high)} ms"
    else:
        time = f"{between(seconds.floor, seconds.high)} s"
    return f" in {time}, {between(rate.floor / GB, rate.high / GB)} GB/s"


def _above(seen: Seen, work: Workload, row: Row) -> str:
    """The figures that the row exceeds."""
    read, compute = node.best_read(seen.measurements), used_up(seen, work.weight_type)
    told, rate = [], cpu_rate(row)
    if read and rate and rate.high > read.median_bytes_per_second:
        told.append(f"the {gb_per_second(read.median_bytes_per_second)} that its DRAM delivers")
    if compute and rate and rate.high > compute.floor:
        known = node.decode_rate(seen.measurements, work.weight_type)
        source = "measured" if known else "reference"
        told.append(f"the {_gigabytes(compute)} GB/s that its cores use up ({source})")
    said = "Faster than this node's figures allow"
    return f"{said}: above {' and '.join(told)}." if told else f"{said}."
