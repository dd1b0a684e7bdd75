"""A plan: what each way to serve one model can reach on this node, and whether it has the room."""

from __future__ import annotations

from nodecheck.model import Strategy, Struct
from nodecheck.report import SCHEMA_VERSION, HostInfo
from nodecheck.serving import Comparison, Curve, EngineStart, Fit, Serving, Workload


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
