"""A report as Prometheus reads it: every figure once, bounded and safe, nothing unknown as well."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from nodecheck.checks import CHECKS
from nodecheck.checks.disk.facts import DiskFacts
from nodecheck.checks.gpu.facts import NvLink
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.model import Gap, Latency, Reason, Severity, Status, Transfer
from nodecheck.records.figures import LOGGED, Kind
from nodecheck.records.figures import figures as figures_of
from nodecheck.render.prometheus import figures, gpus, measured, metrics, state, text, unknown
from nodecheck.render.prometheus.group import hardware, rounded
from nodecheck.report import Report
from nodecheck.units import GIB
from tests.nodes import root
from tests.records.fleets import member, with_cards, with_facts
from tests.render.reports import hostile, large, of_tree

SERIES = {
    each.name: each
    for each in (
        *state.SERIES, *figures.SERIES, *gpus.SERIES, *measured.SERIES, text.LEFT_OUT,
    )
}  # fmt: skip

Labels = frozenset[tuple[str, str]]


def samples(report: Report) -> dict[str, dict[Labels, float]]:
    """Name -> labels -> value; no sample is there twice, none has a time."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(metrics(report).decode()):
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            labels = frozenset((name, value) for name, value in sample.labels.items() if value)
            assert labels not in values
            assert sample.timestamp is None
            values[labels] = sample.value
    return found


def value(report: Report, name: str, **labels: str) -> float | None:
    return samples(report).get(name, {}).get(frozenset(labels.items()))


def held(report: Report, name: str, label: str, **labels: str) -> list[str]:
    """The values of a label for which a stateset is 1."""
    wanted = set(labels.items())
    return [
        dict(found)[label]
        for found, number in samples(report)[name].items()
        if wanted <= found and number == 1
    ]


@pytest.mark.parametrize("name", ["three-l40", "healthy"])
def test_every_series_is_declared_and_has_its_labels(name: str) -> None:
    for series, values in samples(of_tree(name)).items():
        for labels in values:
            assert {label for label, _ in labels} <= set(SERIES[series].labels)


def test_the_figures_of_a_node_are_in_base_units() -> None:
    report = of_tree("three-l40")
    assert value(report, "nodecheck_memory_size_bytes") == 149_000_000 * 1024
    assert value(report, "nodecheck_filesystem_available_bytes", mount="/") == 57 << 30
    assert value(report, "nodecheck_filesystem_size_bytes", mount="/") == 950 << 30
    assert value(report, "nodecheck_filesystem_inodes_free", mount="/") == 9_000_000
    assert value(report, "nodecheck_cpu_x86_64_level") == 1
    assert value(
        report, "nodecheck_memory_bandwidth_bytes_per_second", operation="read", threads="8"
    ) == pytest.approx(11.7e9)
    assert value(report, "nodecheck_gpu_memory_size_bytes", gpu="0000:02:00.0") == 46068 << 20
    assert value(report, "nodecheck_gpu_pcie_link_lanes", gpu="0000:02:00.0") == 16


def test_readings_of_a_card_are_by_its_pci_address() -> None:
    address = "0000:01:00.0"
    report = with_cards(
        member(0), 1, temperature_celsius=71, power_watts=212.5, utilisation_share=0.4,
        sm_clock_mhz=1410, ecc_volatile_uncorrectable=2, remap_pending=True, pcie_replays=7,
        clocks_event_reasons=("sw_power_cap",), clock_event_seconds={"sw_power_cap": 9.5},
        ecc_aggregate_correctable=11, uuid="GPU-52c1",
    )  # fmt: skip
    for name, expected in {
        "temperature_celsius": 71, "power_watts": 212.5, "utilisation_ratio": 0.4,
        "sm_clock_hertz": 1.41e9, "row_remap_pending": 1, "pcie_replays_total": 7,
    }.items():  # fmt: skip
        assert value(report, f"nodecheck_gpu_{name}", gpu=address) == expected
    for name, label, kind, expected in (
        ("ecc_errors_total", "kind", "uncorrected", 2),
        ("ecc_lifetime_errors_total", "kind", "corrected", 11),
        ("clock_event", "reason", "sw_power_cap", 1),
        ("clock_event_seconds_total", "reason", "sw_power_cap", 9.5),
    ):
        labels = {"gpu": address, label: kind}
        assert value(report, f"nodecheck_gpu_{name}", **labels) == expected
    assert b"GPU-52c1" not in metrics(report)


def test_nvlinks_are_counted_over_a_card() -> None:
    links = (
        NvLink(link=0, active=True, crc_errors=2, replay_errors=0),
        NvLink(link=1, active=False, crc_errors=3),
    )
    report = with_cards(member(0), 1, nvlinks=links)
    where = {"gpu": "0000:01:00.0"}
    assert value(report, "nodecheck_gpu_nvlinks_active", **where) == 1
    assert value(report, "nodecheck_gpu_nvlink_errors_total", **where, kind="crc") == 5
    assert value(report, "nodecheck_gpu_nvlink_errors_total", **where, kind="replay") == 0
    assert value(report, "nodecheck_gpu_nvlink_errors_total", **where, kind="fatal") is None
    assert value(with_cards(member(0), 1, nvlinks=()), "nodecheck_gpu_nvlinks_active") is None


def test_a_card_is_told_with_its_driver() -> None:
    (driver,) = held(with_cards(member(0), 1), "nodecheck_gpu_info", "driver")
    assert driver == "550.54.14"
    amd = with_cards(member(0), 1, vendor="amd", driver="amdgpu")
    assert held(amd, "nodecheck_gpu_info", "driver") == ["amdgpu"]


def test_what_is_not_known_has_no_sample() -> None:
    report = with_cards(member(0), 1, memory_bytes=None)
    assert "nodecheck_gpu_memory_size_bytes" not in samples(report)
    assert "nodecheck_gpu_temperature_celsius" not in samples(report)
    assert "nodecheck_kernel_log_xids" not in samples(report)


def test_every_figure_that_the_history_follows_has_a_series() -> None:
    for report in (of_tree("three-l40"), member(0), large(), hostile()):
        for figure in figures_of(report):
            name = figure.metric.name.partition("@")[0]
            if figure.metric.kind is not Kind.RATE and not name.startswith(LOGGED):
                assert name in figures.SERIES_OF


def test_xids_are_told_by_card_and_number() -> None:
    log = KernelLogFacts(
        source="dmesg",
        xids=(
            Xid(code=79, pci_address="0000:01:00.0", text="fell off", count=2),
            Xid(code=79, pci_address="0000:01:00.0", text="other words"),
        ),
    )
    report = replace(member(0), facts=replace(member(0).facts, kernel_log=log))
    assert value(report, "nodecheck_kernel_log_xids", gpu="0000:01:00.0", xid="79") == 3


def test_the_status_is_one_of_four() -> None:
    assert held(of_tree("three-l40"), "nodecheck_status", "status") == ["critical"]
    assert held(of_tree("healthy"), "nodecheck_status", "status") == ["ok"]
    assert len(samples(of_tree("healthy"))["nodecheck_status"]) == len(Status)


@pytest.mark.parametrize("name", ["three-l40", "healthy"])
@pytest.mark.parametrize("check", CHECKS)
def test_every_check_has_one_status(name: str, check: str) -> None:
    assert len(held(of_tree(name), "nodecheck_check_status", "status", check=check)) == 1


@pytest.mark.parametrize(
    ("check", "field", "reason", "worst", "expected"),
    [
        ("disk", "filesystems", Reason.DENIED, Severity.INFO, "unknown"),
        ("disk", "btrfs", Reason.ABSENT, Severity.INFO, "ok"),
        ("disk", "btrfs", Reason.TIMEOUT, Severity.INFO, "unknown"),
        ("disk", "filesystems", Reason.DENIED, Severity.WARNING, "warning"),
        ("kernel_log", "source", Reason.DENIED, Severity.INFO, "unknown"),
        ("numa", "*", Reason.ABSENT, Severity.INFO, "unknown"),
        ("dram", "measurements", Reason.ABSENT, Severity.INFO, "skipped"),
        ("dram", "measurements", Reason.FAILED, Severity.INFO, "unknown"),
        ("cuda", "state", Reason.ABSENT, Severity.INFO, "skipped"),
        ("python", "interpreter", Reason.ABSENT, Severity.INFO, "skipped"),
    ],
)
def test_a_check_that_could_not_look_is_not_well(
    check: str, field: str, reason: Reason, worst: Severity, expected: str
) -> None:
    gap = Gap(check=check, field=field, reason=reason, detail="")
    report = replace(member(0), measurements=(), gaps=(gap,))
    assert state.check_status(report, check, worst) == expected


def test_findings_are_counted_and_named() -> None:
    report = of_tree("three-l40")
    critical = [f for f in report.findings if f.severity is Severity.CRITICAL]
    assert value(report, "nodecheck_findings", severity="critical") == len(critical) > 0
    assert value(of_tree("healthy"), "nodecheck_findings", severity="critical") == 0
    named = held(report, "nodecheck_finding", "id", severity="critical", waived="false")
    assert sorted(named) == sorted(f.id for f in critical)


def test_a_finding_that_the_policy_lives_with_is_waived_and_info() -> None:
    report = of_tree("three-l40")
    first = replace(report.findings[0], severity=Severity.INFO, waived="known")
    report = replace(report, findings=(first,))
    assert held(report, "nodecheck_finding", "id", severity="info", waived="true") == [first.id]
    assert value(report, "nodecheck_findings", severity="critical") == 0


def test_times_are_those_of_the_report_and_of_what_was_measured() -> None:
    report = replace(member(0), time="2026-11-29T10:00:00+01:00")
    seconds = 1_795_942_800
    assert value(report, "nodecheck_report_timestamp_seconds") == seconds
    assert value(report, "nodecheck_measured_timestamp_seconds") == seconds
    carried = replace(report, measured_time="2026-11-29T08:00:00+00:00")
    assert value(carried, "nodecheck_measured_timestamp_seconds") == seconds - 3600
    unmeasured = replace(report, measurements=())
    assert value(unmeasured, "nodecheck_measured_timestamp_seconds") is None


def test_a_disturbed_measurement_says_so() -> None:
    one, *_ = member(0).measurements
    report = replace(member(0), measurements=(replace(one, flags=("contended",)),))
    where = {"operation": "read", "threads": "64"}
    assert value(report, "nodecheck_memory_bandwidth_undisturbed", **where) == 0
    assert value(member(0), "nodecheck_memory_bandwidth_undisturbed", **where) == 1


def test_measurements_of_numa_nodes_latencies_and_copies_have_places() -> None:
    one, *_ = member(0).measurements
    report = replace(
        member(0),
        measurements=(one, replace(one, cpu_node=0, memory_node=1)),
        latencies=(
            Latency(name="dram_latency", other_threads=0, median_seconds=9e-8, p10_seconds=8e-8,
                    p90_seconds=1e-7, passes=9, spread_bytes=1 << 28),
        ),
        transfers=(
            Transfer(name="peer_to_peer", card="0000:01:00.0", peer="0000:02:00.0",
                     median_bytes_per_second=2e10),
        ),
    )  # fmt: skip
    far = {"operation": "read", "threads": "64", "cpu_node": "0", "memory_node": "1"}
    assert value(report, "nodecheck_memory_bandwidth_bytes_per_second", **far)
    assert value(report, "nodecheck_memory_latency_seconds", other_threads="0") == 9e-8
    assert value(
        report, "nodecheck_gpu_transfer_bytes_per_second",
        gpu="0000:01:00.0", peer="0000:02:00.0", operation="peer_to_peer", cards="1",
    ) == 2e10  # fmt: skip


def test_strategies_tell_what_they_reach_and_whether_that_is_worth_it() -> None:
    report = of_tree("three-l40")
    for each in report.strategies:
        now = held(report, "nodecheck_strategy_viability", "viability", strategy=each.strategy)
        assert now == [each.viability.value]
        name = "tokens_per_second" if each.unit == "tok/s" else "seconds"
        for bound, expected in (("low", each.low), ("high", each.high)):
            where = {"strategy": each.strategy, "bound": bound}
            assert value(report, f"nodecheck_strategy_{name}", **where) == expected


def test_like_nodes_have_the_same_hardware() -> None:
    one = member(0)
    other = with_facts(member(1), memory={"total_bytes": round(502.1 * GIB)})
    assert hardware(one) == hardware(other)
    assert "64 CPUs" in hardware(one)
    assert "512 GiB RAM" in hardware(one)
    assert "8x NVIDIA L40" in hardware(one)
    assert hardware(with_cards(one, 7)) != hardware(one)


@pytest.mark.parametrize(
    ("seen", "built"),
    [(1007.3, 1024), (736, 768), (125.6, 128), (62.7, 64), (15.6, 16), (256, 256)],
)
def test_ram_is_told_as_its_modules_make_it(seen: float, built: int) -> None:
    assert rounded(round(seen * GIB)) == built * GIB


NASTY = 'a"b\\c\nd\r\x1b[2J\udce4\u202e}{1 2'


def test_hostile_names_break_nothing() -> None:
    disk = DiskFacts(filesystems=(replace(root(1, 2), mount="/" + NASTY),))
    report = replace(of_tree("healthy"), facts=replace(of_tree("healthy").facts, disk=disk))
    (labels,) = samples(report)["nodecheck_filesystem_size_bytes"]
    (mount,) = dict(labels).values()
    assert mount == '/a"b\\c?d??[2J??}{1 2'


def test_a_hostile_report_can_be_read_back() -> None:
    assert len(samples(hostile())) > 20


def test_a_long_name_is_cut() -> None:
    disk = DiskFacts(filesystems=(replace(root(1, 2), mount="/" + "x" * 10_000),))
    report = replace(of_tree("healthy"), facts=replace(of_tree("healthy").facts, disk=disk))
    (labels,) = samples(report)["nodecheck_filesystem_size_bytes"]
    (mount,) = dict(labels).values()
    assert len(mount) == text.LABEL_CHARACTERS
    assert mount.endswith("…")


def test_there_are_not_more_than_so_many_of_a_name_and_it_says_how_many_were_left_out() -> None:
    mounts = tuple(replace(root(1, 2), mount=f"/{n}") for n in range(text.SAMPLES_MAX + 7))
    twice = replace(root(1, 2), mount="/" + "x" * 300)
    for many, left_out in ((mounts, 7), ((twice, replace(twice, mount=twice.mount + "y")), 1)):
        facts = replace(of_tree("healthy").facts, disk=DiskFacts(filesystems=many))
        made = samples(replace(of_tree("healthy"), facts=facts))
        assert len(made["nodecheck_filesystem_size_bytes"]) == len(many) - left_out
        assert made["nodecheck_samples_left_out"][frozenset()] >= left_out
    assert value(of_tree("three-l40"), "nodecheck_samples_left_out") == 0


def test_a_large_server_fits_in_a_scrape() -> None:
    assert len(metrics(large())) < 200_000


def test_without_a_report_the_status_is_unknown_and_nothing_else_is_told() -> None:
    report = replace(
        of_tree("healthy"), verdict=replace(of_tree("healthy").verdict, status=Status.UNKNOWN)
    )
    of_status = [
        line for line in metrics(report).decode().splitlines() if "nodecheck_status" in line
    ]
    assert unknown().decode().splitlines() == of_status


SAY_SO = """
import sys
from nodecheck.render import prometheus
prometheus.unknown()
print(*(set(sys.modules) & {"prometheus_client", "msgspec", "nodecheck.report"}))
"""


def test_saying_so_imports_nothing() -> None:
    command = (sys.executable, "-c", SAY_SO)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
