"""Rounds in which our loops and the peers' take turns, each between two looks at the placement."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from tests.bench.peers import ours, process, tools
from tests.bench.peers.contest import MIN_ROUNDS, Contest, Sample
from tests.bench.peers.tools import Figures, Loop, Run

from nodecheck.machine.kernels import Kernel, ping_pong

_KEPT = 2
"""Loops of a tool for one operation that the first, uncounted round leaves in the race."""

Cpus = Sequence[int]
Step = Callable[[], Figures]


class _Entry(NamedTuple):
    contest: Contest
    steps: list[Step]


def contests(cpus: Cpus, isas: frozenset[str], seconds: float) -> list[Contest]:
    """One thread, and one on each of cpus: MIN_ROUNDS, and more where needed while time is left."""
    end = time.monotonic() + seconds
    entries = [_entry(chosen, isas) for chosen in (cpus[-1:], cpus)[: len(cpus)]]
    while unfinished := [each for each in entries if _goes_on(each.contest, end)]:
        for contest, steps in unfinished:
            contest.rounds.append(_round(contest, steps, cpus))
            print(f"threads {contest.threads}: round {len(contest.rounds)}", file=sys.stderr)
    return [entry.contest for entry in entries]


def _goes_on(contest: Contest, end: float) -> bool:
    late = time.monotonic() > end
    return len(contest.rounds) < MIN_ROUNDS or (contest.needs_more() and not late)


def _entry(cpus: Cpus, isas: frozenset[str]) -> _Entry:
    kernels = [ours.fastest(operation, cpus) for operation in tools.OPERATIONS]
    tried = [(run, attempt(run, cpus)) for run in tools.runs(len(cpus), isas)]
    kept = _fastest([figures for _, figures in tried])
    runs = [run for run, figures in tried if kept & figures.keys()]
    contest = Contest(
        threads=len(cpus),
        ours={kernel.operation: ours.loop_of(kernel) for kernel in kernels},
        comparable={x: run.comparable for run, figures in tried for x in kept & figures.keys()},
        huge_share={
            tool: process.huge_share(run, cpus) for tool, run in {r.tool: r for r in runs}.items()
        },
    )
    return _Entry(contest, _steps(kernels, runs, cpus))


def _steps(kernels: Sequence[Kernel], runs: Sequence[Run], cpus: Cpus) -> list[Step]:
    """Ours beside the peers' of the same operation."""
    steps: list[Step] = []
    for kernel in kernels:
        steps.append(partial(_ours, kernel, cpus))
        steps += [partial(attempt, run, cpus) for run in runs if run.operation == kernel.operation]
    return steps


def _round(contest: Contest, steps: list[Step], cpus: Cpus) -> dict[Loop, Sample]:
    first = len(contest.rounds) % len(steps)  # nobody is always the first
    wanted = {*contest.ours.values(), *contest.comparable}
    samples: dict[Loop, Sample] = {}
    for step in steps[first:] + steps[:first]:
        before = _round_trip(cpus)
        figures = step()
        around = (before, _round_trip(cpus))
        samples |= {x: Sample(rate, around) for x, rate in figures.items() if x in wanted}
    return samples


def _round_trip(cpus: Cpus) -> float:
    # The least: what else runs can only make it longer.
    return min(ping_pong(cpus[0], cpus[1])) if len(cpus) > 1 else 0.0


def _ours(kernel: Kernel, cpus: Cpus) -> Figures:
    return {ours.loop_of(kernel): ours.average(kernel, cpus)}


def attempt(run: Run, cpus: Cpus) -> Figures:
    """What it measured; nothing where it failed or took too long."""
    try:
        return process.figures(run, cpus)
    except (subprocess.SubprocessError, ValueError) as error:
        print(f"{run.tool} failed: {error}", file=sys.stderr)
        return {}


def _fastest(tried: Sequence[Figures]) -> set[Loop]:
    rates = {loop: rate for figures in tried for loop, rate in figures.items()}
    ranked: dict[tuple[str, str], list[Loop]] = defaultdict(list)
    for loop in sorted(rates, key=lambda loop: -rates[loop]):
        ranked[loop.tool, loop.operation].append(loop)
    return {loop for loops in ranked.values() for loop in loops[:_KEPT]}
