"""What must be served at a moment of a simulated day, by what befell it alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from nodecheck.daemon.own_metrics import FAILED, OK, TIMEOUT
from nodecheck.daemon.passes import FULL, LIGHT, Pass

STALE_SECONDS = 3 * 60 + 66
"""Source: docs/daemon.md: three intervals, and what the slowest pass may take."""

STATUSES = ("ok", "warning", "critical", "unknown")


@dataclass
class Answers:
    """What the daemon told at one moment: statuses and bodies by path."""

    statuses: dict[str, int]
    bodies: dict[str, bytes]

    @property
    def series(self) -> dict[str, float]:
        lines = self.bodies["/metrics"].decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if line[:1] != "#")
        return {name: float(value) for name, _, value in pairs}

    @property
    def status(self) -> list[str]:
        series = self.series
        return [each for each in STATUSES if series[f'nodecheck_status{{status="{each}"}}']]


@dataclass
class Model:
    """What is known to have happened."""

    newest: Pass | None = None
    received: float = 0.0
    passes: Counter[tuple[str, str]] = field(default_factory=Counter)
    config_ok: bool = True
    stored: bool = True
    stuck: bool = False
    skipped: bool = False

    def good(self, kind: str, made: Pass, now: float) -> None:
        self.newest, self.received = made, now
        self.passes[kind, OK] += 1
        self.stored = made.not_stored is None
        if kind == FULL:
            self.skipped = made.skipped is not None

    def is_fresh(self, now: float) -> bool:
        return self.newest is not None and now - self.received <= STALE_SECONDS

    def wrong(self, told: Answers, now: float) -> list[str]:
        """In what the answers differ from what must be told."""
        return [*self._of_node(told, now), *self._of_daemon(told, now)]

    def _of_node(self, told: Answers, now: float) -> list[str]:
        newest, fresh = self.newest, self.is_fresh(now)
        findings = told.statuses["/api/v1/findings"], told.bodies["/api/v1/findings"]
        found = []
        if told.statuses["/readyz"] != (200 if fresh else 503):
            found.append(f"readyz is {told.statuses['/readyz']}, fresh is {fresh}")
        if told.status != ([newest.status.value] if newest and fresh else ["unknown"]):
            found.append(f"nodecheck_status is {told.status}, fresh is {fresh}")
        if newest and fresh and not told.bodies["/metrics"].startswith(newest.metrics):
            found.append("metrics are not those of the newest report")
        if newest is None and findings[0] != 503:
            found.append("there are findings of no report")
        if newest and fresh and findings != (200, newest.findings):
            found.append("findings are not those of the newest report")
        if newest and told.bodies["/api/v1/report"] != newest.report:
            found.append("it is not the newest report")
        if newest and not fresh:
            stale = json.loads(findings[1])
            if (stale.get("stale"), stale["status"]) != (True, "unknown"):
                found.append("stale findings are told as if they were of now")
        return found

    def _of_daemon(self, told: Answers, now: float) -> list[str]:
        series = told.series
        want: dict[str, int] = {
            "nodecheck_daemon_config_ok": self.config_ok,
            "nodecheck_daemon_snapshot_stored": self.stored,
            "nodecheck_daemon_collector_stuck": self.stuck,
            "nodecheck_daemon_measure_skipped": self.skipped,
        }
        for kind in (LIGHT, FULL):
            for how in (OK, FAILED, TIMEOUT):
                name = f'nodecheck_daemon_passes_total{{kind="{kind}",outcome="{how}"}}'
                want[name] = self.passes[kind, how]
        found = [
            f"{name} is {series.get(name)}, not {value:d}"
            for name, value in want.items()
            if series.get(name) != value
        ]
        age = series.get("nodecheck_report_age_seconds")
        if self.newest and (age is None or abs(age - (now - self.received)) > 0.01):
            found.append(f"the age is {age}, not {now - self.received:.2f}")
        if self.newest is None and age is not None:
            found.append("no report has an age")
        return found
