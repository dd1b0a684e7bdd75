"""The daemon's own series, in Prometheus' text format. They say nothing of the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from nodecheck import __version__
from nodecheck.daemon.board import Board
from nodecheck.daemon.passes import FULL, LIGHT

OK, FAILED, TIMEOUT = "ok", "failed", "timeout"


class Tally:
    """What the loop has done, for who watches the watcher. Nothing of it ends."""

    def __init__(self) -> None:
        self.passes: Counter[tuple[str, str]] = Counter()
        self.seconds: dict[str, float] = {}
        self.stored = True
        self.config_ok = True
        self.stuck = False
        self.skipped = False


class _Own(Collector):
    def __init__(self, board: Board, tally: Tally) -> None:
        self._board, self._tally = board, tally

    def collect(self) -> Iterable[Metric]:
        """Those of now."""
        tally, age = self._tally, self._board.age_seconds
        build = GaugeMetricFamily(
            "nodecheck_build_info", "The version of nodecheck.", labels=["version"]
        )
        build.add_metric([__version__], 1)
        yield build
        if age is not None:
            about = "Seconds since the last report was made."
            yield GaugeMetricFamily("nodecheck_report_age_seconds", about, age)
        yield from self._passes()
        about = "Whether the last snapshot went into the history, and what is too old out of it."
        yield _flag("snapshot_stored", about, tally.stored)
        about = "Whether the configuration that was read last could be used."
        yield _flag("config_ok", about, tally.config_ok)
        about = "Whether a collector hangs in the kernel, and no other is started."
        yield _flag("collector_stuck", about, tally.stuck)
        about = "Whether the last full pass could not measure."
        yield _flag("measure_skipped", about, tally.skipped)

    def _passes(self) -> Iterable[Metric]:
        passes = CounterMetricFamily(
            "nodecheck_daemon_passes", "Passes of the collector.", labels=["kind", "outcome"]
        )
        for kind in (LIGHT, FULL):
            for outcome in (OK, FAILED, TIMEOUT):
                passes.add_metric([kind, outcome], self._tally.passes[kind, outcome])
        yield passes
        took = GaugeMetricFamily(
            "nodecheck_daemon_pass_duration_seconds", "How long the last took.", labels=["kind"]
        )
        for kind, seconds in self._tally.seconds.items():
            took.add_metric([kind], seconds)
        yield took


def _flag(name: str, about: str, value: bool) -> Metric:
    return GaugeMetricFamily(f"nodecheck_daemon_{name}", about, float(value))


def own_metrics(board: Board, tally: Tally) -> Callable[[], bytes]:
    """What gives the series, and those of the process, as they are when it is called."""
    registry = CollectorRegistry()
    registry.register(_Own(board, tally))
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry)
