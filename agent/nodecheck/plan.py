"""A plan: what each way to serve one model can reach on this node, and whether it has the room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from nodecheck.checks.seen import Seen
from nodecheck.judge.fits.fit import fits
from nodecheck.judge.fits.room import within_model
from nodecheck.judge.node_words import node_words
from nodecheck.judge.rates.reads import context_tokens
from nodecheck.judge.runs.compare import compare
from nodecheck.judge.runs.conclusions import conclusions
from nodecheck.judge.runs.machine import machine
from nodecheck.judge.start.engines import engines
from nodecheck.judge.strategies import strategies
from nodecheck.judge.ways.offload import curves
from nodecheck.judge.ways.ranking import ranking
from nodecheck.model import Strategy, Struct
from nodecheck.policy import Policy
from nodecheck.report import SCHEMA_VERSION, HostInfo, Report
from nodecheck.serving import Comparison, Curve, EngineStart, Fit, Run, Serving, Workload


class Plan(Struct, frozen=True, kw_only=True):
    """What `nodecheck plan` answers. `node` are words for the node, `time` is that of its report.

    `curves` are settings of llama.cpp against speed; `comparisons` the rows of --measured, and
    `conclusions` what they say together. `advice` is what else the operator should know: which
    quantisation is fastest here, what was assumed, what is not known.
    """

    schema_version: int = SCHEMA_VERSION
    nodecheck_version: str
    time: str
    host: HostInfo
    node: tuple[str, ...]
    workload: Workload
    serving: Serving
    strategies: tuple[Strategy, ...] = ()
    curves: tuple[Curve, ...] = ()
    fits: tuple[Fit, ...] = ()
    engines: tuple[EngineStart, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    conclusions: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    elapsed_seconds: float | None = None


def make_plan(
    report: Report, policy: Policy, work: Workload, serving: Serving, runs: Sequence[Run] = ()
) -> Plan:
    """The plan for a model on the node of a report; `runs` are what a benchmark measured."""
    seen = Seen(
        facts=report.facts,
        policy=policy,
        measurements=report.measurements,
        workload=work,
        serving=serving,
        live=report.host.source == "live",
    )
    seen = within_model(seen, work)
    ways = strategies(seen, measured_prefill=_prefill(seen, runs))
    compared = compare(seen, work, runs, time=report.time)
    return Plan(
        nodecheck_version=report.nodecheck_version,
        time=report.time,
        host=report.host,
        node=node_words(report),
        workload=work,
        serving=_served(seen),
        strategies=ways,
        curves=curves(seen, work),
        fits=fits(seen, work),
        engines=engines(seen, work, ways),
        comparisons=compared,
        conclusions=conclusions(seen, work, compared),
        advice=(*_unmeasured(report), *ranking(seen, work)),
        elapsed_seconds=report.elapsed_seconds,
    )


def _unmeasured(report: Report) -> Iterator[str]:
    """Why this node's memory was not measured, where it could have been."""
    why = report.facts.dram.skipped
    if why and report.host.source == "live" and not report.measurements:
        yield f"Memory was not measured ({why}): with --kernels always it is"


def _served(seen: Seen) -> Serving:
    """As asked for, with the context that is judged for."""
    return msgspec.structs.replace(seen.serving, context_tokens=context_tokens(seen))


def _prefill(seen: Seen, runs: Sequence[Run]) -> float | None:
    """The fastest that this node's cards read prompts with, tokens a second."""
    here = (r for r in runs if r.gpus and machine(seen, r).here)
    return max((r.prompt_tokens_per_second or 0 for r in here), default=0) or None
