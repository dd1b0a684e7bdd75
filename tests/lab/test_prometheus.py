"""The real Prometheus, promtool, Alertmanager and node_exporter, with what nodecheck gives them."""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from nodecheck.checks.gpu.facts import NvLink
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.checks.memory.facts import MemoryController
from nodecheck.checks.pcie.facts import Errors
from nodecheck.daemon.board import Board
from nodecheck.daemon.own_metrics import Tally, own_metrics
from nodecheck.model import Gap, Latency, Reason, Severity
from nodecheck.render.prometheus import metrics, unknown
from nodecheck.report import Report
from tests.cli.test_commands import NODECHECK
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import node
from tests.hosts import THREE_L40
from tests.lab.monitoring import (
    DASHBOARDS,
    SHIPPED,
    Prometheus,
    exporter,
    free_port,
    program,
    prometheus,
    ran,
    running,
    scraping,
    shipped,
    until,
    webhook,
)
from tests.records.fleets import mixed
from tests.render.reports import REPORTS, of_tree
from tests.trees import plant

__all__ = ["fake_nvml"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What `nodecheck init prometheus` gives, side by side."""
    for name in SHIPPED:
        (tmp_path / name).write_text(shipped(name))
    return tmp_path


@pytest.mark.parametrize("name", REPORTS)
def test_promtool_finds_nothing_wrong_with_the_metrics(name: str) -> None:
    assert ran("promtool", "check", "metrics", given=metrics(REPORTS[name]())) == ""


def test_promtool_finds_nothing_wrong_with_those_of_a_node_without_a_report() -> None:
    assert ran("promtool", "check", "metrics", given=unknown()) == ""


def test_promtool_takes_the_rules(files: Path) -> None:
    assert "SUCCESS" in ran("promtool", "check", "rules", str(files / "nodecheck.rules.yml"))


def test_every_rule_fires_on_its_fault_and_is_silent_else(files: Path) -> None:
    assert "SUCCESS" in ran("promtool", "test", "rules", str(files / "nodecheck.rules.test.yml"))


def test_promtool_and_amtool_take_the_configurations(files: Path) -> None:
    text = shipped("prometheus.yml").replace("/etc/prometheus", str(files))
    (files / "prometheus.yml").write_text(text)
    (files / "nodecheck.token").write_text("secret")
    said = ran("promtool", "check", "config", str(files / "prometheus.yml"))
    assert "1 rule files found" in said
    assert "4 receivers" in ran("amtool", "check-config", str(files / "alertmanager.yml"))


INSTANCE = "rich"
"""The node that has all that a dashboard can show."""

NOW = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def rich() -> Report:
    """Three L40 behind a masked CPU, with every reading that a card can give, and errors."""
    report = of_tree("three-l40")
    facts = report.facts
    card = replace(
        facts.gpus[0], temperature_celsius=71, memory_temperature_celsius=80, power_watts=212.5,
        power_limit_watts=300.0, memory_used_bytes=1 << 30, utilisation_share=0.4,
        sm_clock_mhz=1410, ecc_volatile_uncorrectable=2, remap_pending=True, pcie_replays=7,
        remapped_rows_uncorrectable=1, clocks_event_reasons=("sw_power_cap",),
        nvlinks=(NvLink(link=0, active=True, crc_errors=1),),
    )  # fmt: skip
    path, *paths = facts.pcie.paths
    hop = replace(path.hops[0], aer=Errors(correctable=5, nonfatal=0, fatal=0))
    controller = MemoryController(name="mc0", correctable=3, uncorrectable=0)
    xid = Xid(code=63, pci_address="0000:01:00.0", text="row remapping event")
    return replace(
        report,
        time=NOW,
        elapsed_seconds=0.4,
        facts=replace(
            facts,
            gpus=(card, *facts.gpus[1:]),
            cpu=replace(facts.cpu, steal_share=0.01, busy_share=0.3),
            pcie=replace(facts.pcie, paths=(replace(path, hops=(hop, *path.hops[1:])), *paths)),
            memory=replace(facts.memory, controllers=(controller,)),
            kernel_log=KernelLogFacts(source="dmesg", xids=(xid,)),
        ),
        measurements=tuple(replace(m, flags=("contended",)) for m in report.measurements),
        latencies=(
            Latency(name="dram_latency", other_threads=0, median_seconds=9e-8, p10_seconds=8e-8,
                    p90_seconds=1e-7, passes=9, spread_bytes=1 << 28),
        ),
        findings=(
            *report.findings[:-1],
            replace(report.findings[-1], severity=Severity.INFO, waived="known"),
        ),
        gaps=(Gap(check="limits", field="*", reason=Reason.TIMEOUT, detail=""),),
    )  # fmt: skip


def filling() -> Callable[[], bytes]:
    """The rich node, whose disk loses a GB each time that it is asked, and its daemon."""
    report, asked = rich(), itertools.count()
    (disk,) = report.facts.disk.filesystems
    tally = Tally()
    tally.seconds["light"] = 0.4
    own = own_metrics(Board(60, 10), tally)

    def now() -> bytes:
        left = replace(disk, available_bytes=(disk.available_bytes or 0) - next(asked) * 10**9)
        facts = replace(report.facts, disk=replace(report.facts.disk, filesystems=(left,)))
        return metrics(replace(report, facts=facts)) + own()

    return now


def in_seconds(rules: str) -> str:
    """The shipped rules for a test that has no hours."""
    for hours, seconds in (("[6h]", "[8s]"), ("[1h] offset 5h", "[6s] offset 2s")):
        assert hours in rules
        rules = rules.replace(hours, seconds)
    return re.sub(r"\b(for|keep_firing_for|interval): \d+[mh]", r"\1: 1s", rules)


@contextmanager
def watching(place: Path, job: dict[str, Any]) -> Iterator[Prometheus]:
    """A Prometheus that scrapes each second, with the shipped rules in seconds."""
    (place / "rules.yml").write_text(in_seconds(shipped("nodecheck.rules.yml")))
    configuration = {
        "global": {"evaluation_interval": "1s"},
        "rule_files": [str(place / "rules.yml")],
        "scrape_configs": [job],
    }
    with prometheus(place, json.dumps(configuration)) as server:  # JSON is YAML
        yield server


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has watched the rich node and a fleet with a slow one for some seconds."""
    program("prometheus")
    nodes = {str(r.host.name): metrics(replace(r, time=NOW)) for r in mixed(8)}
    answers = {name: functools.partial(bytes, text) for name, text in nodes.items()}
    with exporter({**answers, INSTANCE: filling()}) as port:
        job = scraping("nodecheck", f"127.0.0.1:{port}")
        job["static_configs"] = [
            {"targets": [f"127.0.0.1:{port}"],
             "labels": {"instance": name, "__metrics_path__": f"/{name}"}}
            for name in (*nodes, INSTANCE)
        ]  # fmt: skip
        with watching(tmp_path_factory.mktemp("fleet"), job) as server:
            for slowest in (
                "mount:nodecheck_filesystem_full:seconds",
                'ALERTS{alertname="NodecheckMemorySlowInGroup"}',
            ):
                server.until(slowest)
            yield server


def filled_in(query: str) -> str:
    """The query as Grafana sends it with one node chosen and everything else left at All."""
    for name, value in (("$job", ".*"), ("$hardware", ".*"), ("$instance", INSTANCE)):
        query = query.replace(name, value)
    assert "$" not in query
    return query


def queries() -> Iterator[Any]:
    """Those of all panels and annotations."""
    for board in map(json.loads, map(shipped, DASHBOARDS)):
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for each in board["annotations"]["list"]:
            yield pytest.param(each["expr"], id=each["name"])


@pytest.mark.parametrize("query", [*queries()])
def test_every_query_of_the_dashboards_has_an_answer(fleet: Prometheus, query: str) -> None:
    assert fleet.query(filled_in(query))


def choices() -> Iterator[Any]:
    for board in map(json.loads, map(shipped, DASHBOARDS)):
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield pytest.param(
                    variable["query"]["query"], id=f"{board['uid']} {variable['name']}"
                )


@pytest.mark.parametrize("query", [*choices()])
def test_every_variable_of_the_dashboards_has_a_choice(fleet: Prometheus, query: str) -> None:
    found = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
    assert found
    selector, label = found.groups()
    told = fleet.ask("series", **{"match[]": filled_in(selector)})
    assert {series.get(label) for series in told} - {None, ""}


def test_of_a_fleet_the_slow_node_alone_is_odd(fleet: Prometheus) -> None:
    (odd,) = fleet.query('ALERTS{alertname="NodecheckMemorySlowInGroup"}')
    assert odd["metric"]["instance"] == "gpu001"


def test_of_the_others_no_more_is_told_than_their_own_findings(fleet: Prometheus) -> None:
    told = fleet.query('ALERTS{instance!~"rich|gpu001", alertname!="NodecheckWarning"}')
    assert [each["metric"] for each in told] == []


def test_every_node_could_be_scraped(fleet: Prometheus) -> None:
    """One sample that cannot be read fails a scrape; one that is there twice is in the log."""
    (up,) = fleet.query("min(max_over_time(up[1m]))")
    assert up["value"][1] == "1"
    assert "Error on ingesting" not in fleet.log.read_text()


def changed(text: str, **changes: str) -> str:
    """The text with each of these, which are all there, replaced."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@contextmanager
def alertmanager(place: Path, receiver: int) -> Iterator[int]:
    """One with the shipped configuration that delivers at once, to a port here."""
    port, log, config = free_port(), place / "alertmanager.log", place / "alertmanager.yml"
    config.write_text(changed(shipped("alertmanager.yml"), **{
        "localhost:9099": f"127.0.0.1:{receiver}",
        "group_wait: 1m": "group_wait: 100ms",
        "group_interval: 5m": "group_interval: 1s",
    }))  # fmt: skip
    command = (
        program("prometheus-alertmanager"), f"--config.file={config}",
        f"--storage.path={place / 'alerts'}", f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=", "--log.level=warn",
    )  # fmt: skip
    with running(command, log, f"http://127.0.0.1:{port}/-/ready"):
        yield port


@contextmanager
def scraping_the_daemon(place: Path, daemon: int, alertmanager: int) -> Iterator[Prometheus]:
    """The shipped configuration, with these ports for a node and for Alertmanager, in seconds."""
    (place / "nodecheck.rules.yml").write_text(in_seconds(shipped("nodecheck.rules.yml")))
    configuration = changed(shipped("prometheus.yml"), **{
        "/etc/prometheus": str(place),
        "          - gpu02:9742\n": "",
        "gpu01:9742": f"127.0.0.1:{daemon}",
        "localhost:9093": f"127.0.0.1:{alertmanager}",
        "scrape_interval: 1m": "scrape_interval: 1s\n    scrape_timeout: 1s",
    })  # fmt: skip
    with prometheus(place, configuration) as server:
        yield server


@contextmanager
def daemon(place: Path, environment: dict[str, str]) -> Iterator[tuple[int, Callable[[], None]]]:
    """The port of the real one, once it has a report, and what makes it look again at once."""
    port, config, token = free_port(), place / "daemon.toml", place / "nodecheck.token"
    token.write_text("a-token-that-is-long-enough-to-be-one\n")
    token.chmod(0o600)
    config.write_text(
        f'listen = "127.0.0.1:{port}"\ninterval = "10s"\nkernels = "never"\n'
        f'token_file = "{token}"\n'
    )
    command = (*NODECHECK, "daemon", "--config", str(config))
    ready = f"http://127.0.0.1:{port}/readyz"
    with running(command, place / "daemon.log", ready, env=environment) as process:
        yield port, lambda: process.send_signal(signal.SIGHUP)


def test_a_fault_on_a_node_reaches_the_webhook_and_goes_when_the_fault_does(
    fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    """With all shipped configurations, and a token."""
    cards, system = node("three_l40")
    environment = fake_nvml.describing(cards, system, tmp_path)
    delivered: list[dict[str, Any]] = []

    def told(status: str) -> list[dict[str, Any]]:
        return [
            alert
            for alert in delivered
            if alert["labels"]["alertname"] == "NodecheckCritical"
            and alert["labels"]["id"] == FAULT
            and alert["status"] == status
        ]

    with (
        daemon(tmp_path, environment) as (port, look),
        webhook(delivered) as receiver,
        alertmanager(tmp_path, receiver) as alerts,
        scraping_the_daemon(tmp_path, port, alerts) as server,
    ):
        server.until('nodecheck_status{status="unknown"} == 0')
        assert not server.query(f'nodecheck_finding{{id="{FAULT}"}}')
        broken = [{**cards[0], "remap_failure": 1}, *cards[1:]]
        fake_nvml.describing(broken, system, tmp_path)
        look()
        until(lambda: told("firing"), server.log)
        (first, *_) = told("firing")
        assert first["path"] == "/operators"
        assert first["labels"]["severity"] == "critical"
        assert first["labels"]["action"] == "replace"
        assert f"nodecheck explain {FAULT}" in first["annotations"]["description"]
        fake_nvml.describing(cards, system, tmp_path)
        look()
        until(lambda: told("resolved"), server.log)


FAULT = "gpu.remap_failure"


def test_node_exporter_serves_the_textfile_as_it_was_written(tmp_path: Path) -> None:
    """Under a user of its own, who could not read a file of mode 600."""
    plant(THREE_L40, tmp_path / "node")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        prom, port = Path(folder) / "nodecheck.prom", free_port()
        ran_here(
            "snapshot", "--root", str(tmp_path / "node"), "--textfile", str(prom),
            NODECHECK_HISTORY=str(tmp_path / "history.db"),
        )  # fmt: skip
        command = (
            program("prometheus-node-exporter"), "--collector.disable-defaults",
            "--collector.textfile", f"--collector.textfile.directory={folder}",
            f"--web.listen-address=127.0.0.1:{port}",
        )  # fmt: skip
        user = {"user": 65534, "cwd": "/"} if os.geteuid() == 0 else {}
        url = f"http://127.0.0.1:{port}/metrics"
        with (
            running(command, tmp_path / "exporter.log", url, **user),
            urllib.request.urlopen(url, timeout=10) as answer,
        ):
            served = samples(answer.read())
        written = samples(prom.read_bytes())
    assert {key: value for key, value in served.items() if key[0].startswith("nodecheck_")} == (
        written
    )
    assert served["node_textfile_scrape_error", frozenset()] == 0
    file = frozenset({("file", str(prom))})
    assert served["node_textfile_mtime_seconds", file] > 0


def ran_here(*arguments: str, **environment: str) -> None:
    """The real command, where all files that it makes are its user's alone."""
    subprocess.run(
        [*NODECHECK, *arguments], check=True, capture_output=True, timeout=60, umask=0o077,
        env={**os.environ, **environment},
    )  # fmt: skip


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Name and labels, without empty ones, which are none -> value."""
    return {
        (sample.name, frozenset((k, v) for k, v in sample.labels.items() if v)): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
