"""What the daemon says of itself, by Prometheus' own parser."""

from __future__ import annotations

import time

from prometheus_client.parser import text_string_to_metric_families

from nodecheck import __version__
from nodecheck.daemon.board import Board
from nodecheck.daemon.own_metrics import FAILED, OK, TIMEOUT, Tally, own_metrics
from nodecheck.daemon.passes import FULL, LIGHT
from tests.daemon.served import tree_pass

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(text: bytes) -> Series:
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_before_the_first_report_there_is_no_age() -> None:
    seen = series(own_metrics(Board(60, 60), Tally())())
    assert seen["nodecheck_build_info", (("version", __version__),)] == 1
    assert not any(name == "nodecheck_report_age_seconds" for name, _ in seen)
    for kind in (LIGHT, FULL):
        for outcome in (OK, FAILED, TIMEOUT):
            labels = (("kind", kind), ("outcome", outcome))
            assert seen["nodecheck_daemon_passes_total", labels] == 0
    assert seen["nodecheck_daemon_snapshot_stored", ()] == 1
    assert seen["nodecheck_daemon_config_ok", ()] == 1
    assert seen["nodecheck_daemon_collector_stuck", ()] == 0
    assert seen["nodecheck_daemon_measure_skipped", ()] == 0
    assert seen["process_resident_memory_bytes", ()] > 1e6
    assert seen["process_open_fds", ()] > 2


def test_what_has_happened_is_counted() -> None:
    now = [100.0]
    board, tally = Board(60, 60, lambda: now[0]), Tally()
    board.take(tree_pass())
    now[0] += 42
    tally.passes[LIGHT, OK] += 3
    tally.passes[FULL, TIMEOUT] += 1
    tally.seconds[LIGHT] = 0.5
    tally.stored, tally.config_ok, tally.stuck, tally.skipped = False, False, True, True
    seen = series(own_metrics(board, tally)())
    assert seen["nodecheck_report_age_seconds", ()] == 42
    light_ok = (("kind", LIGHT), ("outcome", OK))
    assert seen["nodecheck_daemon_passes_total", light_ok] == 3
    full_late = (("kind", FULL), ("outcome", TIMEOUT))
    assert seen["nodecheck_daemon_passes_total", full_late] == 1
    assert seen["nodecheck_daemon_pass_duration_seconds", (("kind", LIGHT),)] == 0.5
    for name, value in (("snapshot_stored", 0), ("config_ok", 0), ("collector_stuck", 1),
                        ("measure_skipped", 1)):  # fmt: skip
        assert seen[f"nodecheck_daemon_{name}", ()] == value


def test_they_cost_little() -> None:
    read = own_metrics(Board(60, 60), Tally())
    times = []
    for _ in range(200):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    assert sorted(times)[100] < 0.005
