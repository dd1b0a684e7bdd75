"""Our loops over memory against other benchmarks', interleaved: `make bench-peers`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from tests.bench.peers import environment, ours, table, tools
from tests.bench.peers.contest import Contest
from tests.bench.peers.rounds import attempt, contests
from tests.bench.peers.state import Load
from tests.bench.peers.tools import Loop

from nodecheck.machine.kernels import stream_kernels

SECONDS = 360
"""For the rounds; the rest takes a minute or two."""

SPREAD_RUNS = 20
SPREAD = {"sysbench": "read", "numpy": "read", "llmfit": "copy"}


def main() -> int:
    """Print and publish the tables; 1 where a goal was missed."""
    environment.prepare()
    if absent := tools.missing():
        print(f"left out: {', '.join(absent)}. To have them: {tools.INSTALL}", file=sys.stderr)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    isas = frozenset(kernel.isa for kernel in stream_kernels() if kernel.usable)
    load = Load()
    made = contests(cpus, isas, SECONDS)
    spread = dict(_spread_runs(cpus[-1:], isas, made[0]))
    text = "\n".join([_state(made, load), *_tables(made, spread)])
    print(text)
    table.publish(text)
    for goal in (missed := table.missed(made)):
        print(f"missed: {goal}", file=sys.stderr)
    return bool(missed)


def _state(made: Sequence[Contest], load: Load) -> str:
    samples = [each for contest in made for one in contest.rounds for each in one.values()]
    trips = [trip * 1e9 for sample in samples for trip in sample.round_trips]
    return (
        f"{os.cpu_count()} CPUs, {load.sentence()}, ping-pong {min(trips):.0f} to "
        f"{max(trips):.0f} ns with a median of {median(trips):.0f}. GB/s are the median of the "
        f"rounds (p10-p90).\n"
    )


def _tables(made: Sequence[Contest], spread: dict[Loop, list[float]]) -> Iterator[str]:
    yield from table.summary(made)
    yield "\nEach loop of a peer that was among its two fastest; in brackets what does not count:\n"
    yield from table.peers(made)
    yield ""
    yield from table.factors()
    yield f"\nThe spread of {SPREAD_RUNS} runs in a row:\n"
    yield from table.spreads(spread)


def _spread_runs(
    cpus: Sequence[int], isas: frozenset[str], contest: Contest
) -> Iterator[tuple[Loop, list[float]]]:
    reader = next(k for k in ours.usable("read") if ours.loop_of(k) == contest.ours["read"])
    yield ours.loop_of(reader), [ours.clean_median(reader, cpus) for _ in range(SPREAD_RUNS)]
    for run in tools.runs(len(cpus), isas):
        if SPREAD.get(run.tool) == run.operation:
            made = [figures for _ in range(SPREAD_RUNS) if (figures := attempt(run, cpus))]
            loops = [loop for loop in made[0] if loop.operation == run.operation] if made else []
            for loop in sorted(loops, key=lambda loop: -made[0][loop])[:1]:
                yield loop, [each[loop] for each in made]


if __name__ == "__main__":
    sys.exit(main())
