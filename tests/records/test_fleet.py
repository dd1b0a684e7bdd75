"""Which node is the odd one: groups by hardware, outliers, what few have, names."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.disk.facts import Filesystem
from nodecheck.model import (
    Action,
    Evidence,
    Finding,
    Gap,
    Owner,
    Reason,
    Remedy,
    Severity,
    Status,
    pretty_json,
)
from nodecheck.records.figures import Figure, Kind, Metric
from nodecheck.records.fleet.fleet import Fleet, make_fleet
from nodecheck.records.fleet.nodes import (
    IN_HARDWARE,
    TOLD_OTHERWISE,
    Card,
    Feature,
    Node,
    node,
)
from nodecheck.records.state import state
from nodecheck.report import Report
from nodecheck.units import GIB
from tests.bench.fleet import bare
from tests.records.fleets import (
    changed,
    fleet,
    healthy,
    member,
    model,
    odd,
    told,
    with_cards,
    with_facts,
    with_finding,
)
from tests.records.sides import judged

SCHEMA = Path(__file__).parents[2] / "docs" / "fleet.schema.json"

XID = Finding(
    id="gpu.xid",
    severity=Severity.CRITICAL,
    subject="0000:01:00.0",
    summary="Xid 79",
    evidence=(Evidence(value="79", source="dmesg"),),
    impact="the card is gone",
    remedy=Remedy(text="reset it", action=Action.RESET_GPU),
    owner=Owner.OPERATOR,
)


class TestHardware:
    def test_like_nodes_are_one_group(self) -> None:
        reports = [
            with_facts(report, memory={"total_bytes": round((503.5 + n / 20) * GIB)})
            for n, report in enumerate(healthy(6))
        ]
        made = fleet(reports)
        assert [len(group.nodes) for group in made.groups] == [6]
        assert made.groups[0].words == (
            "guest", "AMD EPYC 7313 16-Core Processor, 64 CPUs", "504 GiB RAM", "8x NVIDIA L40",
        )  # fmt: skip
        assert made.odd == ()

    def test_a_card_fewer_is_what_is_odd(self) -> None:
        made = changed(20, 7, lambda report: with_cards(report, 7))
        assert told(made) == {"gpu007": [("GPUs", "7x NVIDIA L40", "8x NVIDIA L40")]}
        like = made.groups[1].like
        assert like is not None
        assert like.group == 1
        assert not made.groups[1].told

    def test_a_dead_socket_takes_its_cpus_and_ram_along(self) -> None:
        reports = [with_facts(report, cpu={"sockets": 2}) for report in healthy(20)]
        half = {"cpu": {"sockets": 1, "logical_cpus": 32}, "memory": {"total_bytes": 252 << 30}}
        reports[3] = with_facts(reports[3], **half)
        assert told(fleet(reports)) == {
            "gpu003": [("sockets", "1", "2"), ("CPUs", "32", "64"), ("RAM", "252 GiB", "504 GiB")]
        }

    def test_other_hardware_is_another_group_and_not_odd(self) -> None:
        other: dict[str, dict[str, Any]] = {
            "cpu": {"brand": "Xeon", "logical_cpus": 32},
            "memory": {"total_bytes": 64 << 30},
        }
        made = changed(20, 3, lambda report: with_facts(report, **other))
        assert made.odd == ()
        assert made.groups[1].nodes == ("gpu003",)

    def test_many_with_half_the_ram_are_another_kind_of_node(self) -> None:
        reports = healthy(30)
        for n in range(10):
            reports[n] = with_facts(reports[n], memory={"total_bytes": 252 << 30})
        made = fleet(reports)
        assert [(len(g.nodes), g.told) for g in made.groups] == [(20, True), (10, True)]
        assert made.odd == ()

    def test_a_card_without_driver_has_another_name_and_is_the_same(self) -> None:
        reports = [with_cards(r, 8, pci_device_id="10de:26b5") for r in healthy(6)]
        first = reports[2]
        bare = replace(first.facts.gpus[0], name="NVIDIA Corporation AD102GL [L40]")
        reports[2] = replace(first, facts=replace(first.facts, gpus=(bare, *first.facts.gpus[1:])))
        assert len(fleet(reports).groups) == 1

    def test_cards_that_nobody_could_look_at_are_not_missing(self) -> None:
        gap = Gap(check="gpu", field="*", reason=Reason.DENIED, detail="no")

        def unseen(report: Report) -> Report:
            return replace(report, facts=replace(report.facts, gpus=()), gaps=(gap,))

        assert told(changed(20, 7, unseen)) == {"gpu007": [("GPUs", "not known", "8x NVIDIA L40")]}

    def test_nodes_of_unknown_hardware_are_no_group_to_be_odd_in(self) -> None:
        unknown = {"brand": None, "logical_cpus": None, "implementer": None}
        reports = [with_facts(report, cpu=unknown) for report in healthy(8)]
        reports[0] = replace(reports[0], measurements=member(0, dram_read_64=0.2).measurements)
        made = fleet(reports)
        assert made.odd == ()
        assert not made.groups[0].told


class TestFigures:
    @pytest.mark.parametrize("nodes", [5, 8, 20, 100])
    def test_a_slow_node_is_found(self, nodes: int) -> None:
        made = fleet([member(0, dram_read_64=0.6), *healthy(nodes)[1:]])
        (found,) = made.odd
        assert found.node == "gpu000"
        (oddity,) = found.oddities
        assert oddity.name == "dram_read@64"
        assert oddity.worse is True
        assert isinstance(oddity.value, float)
        assert isinstance(oddity.usual, float)
        assert oddity.value / oddity.usual == pytest.approx(0.6, abs=0.05)
        assert oddity.spreads is not None
        assert oddity.spreads > 7

    def test_a_fast_node_is_told_last_and_not_as_worse(self) -> None:
        reports = healthy(20)
        reports[1], reports[2] = member(1, dram_read_64=1.6), member(2, decode_q4_k_64=0.7)
        made = fleet(reports)
        assert [(n.node, n.oddities[0].worse) for n in made.odd] == [
            ("gpu002", True), ("gpu001", False),
        ]  # fmt: skip

    def test_among_four_none_is_odd(self) -> None:
        made = fleet([member(0, dram_read_64=0.5), *healthy(4)[1:]])
        assert made.odd == ()
        assert not made.groups[0].told

    def test_a_disturbed_figure_is_left_out(self) -> None:
        def disturbed(report: Report) -> Report:
            slow = member(0, dram_read_64=0.5).measurements
            return replace(
                report, measurements=tuple(replace(m, flags=("contended",)) for m in slow)
            )

        made = changed(20, 0, disturbed)
        assert made.odd == ()
        assert {each.disturbed for each in made.groups[0].spreads} == {1}

    def test_a_node_whose_own_passes_reach_to_the_group_is_not_odd(self) -> None:
        def wide(report: Report) -> Report:
            one, *rest = member(0, dram_read_64=0.6).measurements
            return replace(report, measurements=(replace(one, p90_bytes_per_second=200e9), *rest))

        assert changed(20, 0, wide).odd == ()

    def test_where_nearly_all_are_equal_a_little_off_is_not_odd(self) -> None:
        def equal(factor: float) -> list[Report]:
            return [
                replace(r, measurements=replace_all(model(), factor if n == 4 else 1.0))
                for n, r in enumerate(healthy(20))
            ]

        assert fleet(equal(0.92)).odd == ()
        assert list(odd(fleet(equal(0.85)))) == ["gpu004"]

    @pytest.mark.parametrize("slow", [15, 9])
    def test_two_kinds_of_nodes_split_the_group_and_none_is_odd(self, slow: int) -> None:
        reports = [member(n, dram_read_64=0.6 if n < slow else 1.0) for n in range(30)]
        made = fleet(reports)
        assert made.odd == ()
        (split,) = made.groups[0].splits
        assert split.name == "dram_read@64"
        assert sorted(share.nodes for share in split.shares) == sorted([slow, 30 - slow])

    def test_a_node_apart_from_both_kinds_is_odd(self) -> None:
        reports = [member(n, dram_read_64=0.6 if n < 15 else 1.0) for n in range(30)]
        reports[20] = member(20, dram_read_64=0.2)
        made = fleet(reports)
        assert list(odd(made)) == ["gpu020"]

    def test_strategies_of_a_disturbed_measurement_prove_nothing(self) -> None:
        report = model()
        assert report.strategies
        flagged = replace(report.measurements[0], flags=("unsteady",))
        reduced = node(replace(report, measurements=(flagged,)), "x.json")
        ways = [f for f in reduced.figures if f.metric.unit != "B/s"]
        assert ways
        assert all(figure.flags == ("unsteady",) for figure in ways)

    @pytest.mark.parametrize(("nodes", "fleets"), [(5, 60), (20, 20), (300, 2)])
    def test_healthy_fleets_have_hardly_an_odd_node(self, nodes: int, fleets: int) -> None:
        chance = random.Random(3)
        alarms = sum(
            len(make_fleet([bare(f"node{n}", 0.03, chance) for n in range(nodes)]).odd)
            for _ in range(fleets)
        )
        assert alarms <= 1


def replace_all(report: Report, factor: float) -> tuple[object, ...]:
    """Its measurements by a factor, each as exact as can be."""
    return tuple(
        replace(
            each,
            median_bytes_per_second=each.median_bytes_per_second * factor,
            p10_bytes_per_second=each.median_bytes_per_second * factor,
            p90_bytes_per_second=each.median_bytes_per_second * factor,
        )
        for each in report.measurements
    )


def with_cards_of(report: Report, **members: Any) -> Report:
    """All its cards with other members."""
    cards = tuple(replace(each, pci_device_id="10de:26b5", **members) for each in report.facts.gpus)
    return replace(report, facts=replace(report.facts, gpus=cards))


class TestFeatures:
    def test_what_is_left_out_is_there_to_be_left_out(self) -> None:
        full = with_facts(member(0), cpu={"sockets": 2})
        traits = {
            (each.check, each.field) for each in state(with_cards_of(full, seen_by=("pci",))).traits
        }
        assert traits >= IN_HARDWARE | TOLD_OTHERWISE

    def test_vram_is_told_once(self) -> None:
        told = [each.name for each in node(member(0), "x.json").features]
        assert told.count("VRAM") == 1
        assert "GPU" not in told

    def test_another_driver_is_odd_where_few_have_it(self) -> None:
        made = changed(20, 4, lambda r: with_facts(r, gpu={"driver_version": "535.183.01"}))
        assert told(made) == {"gpu004": [("GPU driver", "535.183.01", "550.54.14")]}

    def test_where_many_have_it_the_group_is_split(self) -> None:
        reports = healthy(20)
        for n in range(8):
            reports[n] = with_facts(reports[n], gpu={"driver_version": "535.183.01"})
        made = fleet(reports)
        assert made.odd == ()
        (split,) = made.groups[0].splits
        assert [(s.value, s.nodes) for s in split.shares] == [("550.54.14", 12), ("535.183.01", 8)]

    def test_a_driver_that_is_gone_is_odd_one_that_nobody_saw_is_not(self) -> None:
        def without(report: Report, *gaps: Gap) -> Report:
            return replace(with_facts(report, gpu={"driver_version": None}), gaps=gaps)

        assert told(changed(9, 4, without)) == {"gpu004": [("GPU driver", "none", "550.54.14")]}
        gap = Gap(check="gpu", field="driver_version", reason=Reason.TIMEOUT, detail="hung")
        assert changed(9, 4, lambda report: without(report, gap)).odd == ()

    def test_a_driver_that_hangs_is_no_missing_hardware(self) -> None:
        """Cards are known by their PCI facts alone, and no more was seen of the driver."""
        seen_by = ("nvml", "pci")
        reports = [with_cards_of(r, seen_by=seen_by, mig=False) for r in healthy(20)]
        bare = {"seen_by": ("pci",), "name": None, "memory_bytes": None, "mig": None}
        hung = with_cards_of(reports[4], **bare, link_width=None, link_generation_max=None)
        gap = Gap(check="gpu", field="gpus", reason=Reason.TIMEOUT, detail="hung")
        reports[4] = replace(with_facts(hung, gpu={"state": "hung", "driver_version": None}),
                             gaps=(gap,))  # fmt: skip
        assert told(fleet(reports)) == {}

    def test_a_narrow_link_is_told_with_its_place(self) -> None:
        made = changed(9, 4, lambda report: with_cards(report, 8, link_width=8))
        assert told(made) == {"gpu004": [("PCIe link", "Gen4 x8 at 0000:01:00.0", "8x Gen4 x16")]}

    def test_missing_instruction_sets_are_named_the_important_first(self) -> None:
        usable = tuple(f for f in model().facts.cpu.usable_flags or () if f not in ("avx2", "fma"))
        made = changed(9, 4, lambda report: with_facts(report, cpu={"usable_flags": usable}))
        (oddity,) = odd(made)["gpu004"].oddities
        assert (oddity.name, oddity.value) == ("instruction sets", "lacks avx2 and fma")

    def test_a_missing_disk_is_odd_one_more_is_not(self) -> None:
        data = Filesystem(
            mount="/data", fstype="xfs", device="/dev/sdb", device_number="8:16",
            persistent=True, total_bytes=1 << 40,
        )  # fmt: skip

        def grown(report: Report, total: int = 1 << 40) -> Report:
            disks = report.facts.disk.filesystems
            return with_facts(
                report, disk={"filesystems": (*disks, replace(data, total_bytes=total))}
            )

        reports = [grown(report) for report in healthy(9)]
        reports[4] = member(4)
        assert told(fleet(reports)) == {"gpu004": [("file system /data", "none", "xfs")]}
        reports[4] = grown(member(4), 1 << 39)
        assert told(fleet(reports)) == {"gpu004": [("size of /data", "512 GiB", "1024 GiB")]}
        assert changed(9, 4, grown).odd == ()

    def test_four_nodes_are_set_side_by_side(self) -> None:
        made = changed(4, 1, lambda r: with_facts(r, gpu={"driver_version": "535.183.01"}))
        assert made.odd == ()
        assert [split.name for split in made.groups[0].splits] == ["GPU driver"]

    def test_of_three_nodes_figures_beyond_the_spread_are_told_and_none_is_odd(self) -> None:
        made = changed(3, 1, lambda _: member(1, dram_read_64=0.5, dram_read_1=0.95))
        assert made.odd == ()
        (split,) = made.groups[0].splits
        assert split.name == "dram_read@64"
        assert [share.nodes for share in split.shares] == [2, 1]

    def test_of_three_nodes_figures_that_their_passes_span_are_alike(self) -> None:
        def wide(report: Report) -> Report:
            found = tuple(
                replace(each, p90_bytes_per_second=3 * each.median_bytes_per_second)
                for each in report.measurements
            )
            return replace(report, measurements=found)

        made = changed(3, 1, lambda _: wide(member(1, dram_read_64=0.5)))
        assert made.groups[0].splits == ()

    def test_a_finding_that_few_have_is_odd(self) -> None:
        made = changed(20, 4, lambda report: with_finding(report, XID))
        assert told(made) == {"gpu004": [("gpu.xid", "critical: 0000:01:00.0", "none")]}
        assert odd(made)["gpu004"].status is Status.CRITICAL

    def test_a_finding_that_the_others_could_not_look_for_is_not_odd(self) -> None:
        reports = [replace(report, measurements=()) for report in healthy(9)]
        slow = replace(XID, id="mem.bandwidth_low", severity=Severity.WARNING, subject="RAM")
        reports[4] = with_finding(member(4), slow)
        assert told(fleet(reports)) == {}
        measured = with_finding(member(4), slow)
        assert told(changed(9, 4, lambda _: measured)) == {
            "gpu004": [("mem.bandwidth_low", "warning: RAM", "none")]
        }

    def test_an_estimate_of_memory_that_was_not_measured_is_not_held_against_others(self) -> None:
        slower = {"dram_read_64": 0.05, "dram_read_1": 0.5}  # than the cards' links
        reports = [judged(member(n, **slower)) for n in range(9)]
        reports[4] = judged(replace(reports[4], measurements=()))
        pools = [next(s.high for s in r.strategies if s.strategy == "host-kv-pool")
                 for r in reports[3:5]]  # fmt: skip
        assert pools[0] != pools[1]
        assert told(fleet(reports)) == {}

    def test_one_that_many_have_is_counted(self) -> None:
        made = fleet([with_finding(report, XID) if n % 2 else report
                      for n, report in enumerate(healthy(20))])  # fmt: skip
        assert made.odd == ()
        assert made.groups[0].findings["gpu.xid"] == 10


def test_the_worst_come_first() -> None:
    reports = healthy(60)
    reports[1] = member(1, dram_read_64=1.7)
    reports[2] = with_facts(reports[2], gpu={"driver_version": "535.183.01"})
    reports[3] = member(3, dram_read_64=0.7)
    reports[4] = member(4, dram_read_64=0.4)
    reports[5] = with_finding(reports[5], XID)
    reports[6] = with_cards(reports[6], 7)
    made = fleet(reports)
    assert [each.node for each in made.odd] == [
        "gpu006", "gpu005", "gpu004", "gpu003", "gpu002", "gpu001",
    ]  # fmt: skip


class TestNames:
    def named(self, *reports: tuple[str | None, int]) -> tuple[list[str], list[str]]:
        """Names of nodes, and the files left out, of reports by host name and second."""
        made = fleet(
            replace(
                member(n),
                host=replace(model().host, name=name),
                time=f"2026-11-29T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}",
            )
            for n, (name, second) in enumerate(reports)
        )
        names = [name for group in made.groups for name in group.nodes]
        return names, [each.file for each in made.left_out]

    def test_of_reports_of_one_node_the_newest_counts(self) -> None:
        names, left_out = self.named(("a", 0), ("b", 0), ("a", 7200), ("a", 3600))
        assert names == ["b", "a"]
        assert left_out == ["reports/a-0.json", "reports/a-3.json"]

    def test_clones_that_were_asked_at_once_are_told_by_their_files(self) -> None:
        names, left_out = self.named(("ubuntu", 0), ("b", 0), ("ubuntu", 3), ("ubuntu", 9000))
        assert names == ["ubuntu-0", "b", "ubuntu-2", "ubuntu-3"]
        assert left_out == []

    def test_one_name_for_all_names_none(self) -> None:
        assert self.named(("a", 0), ("a", 4000), ("a", 9000))[0] == ["a-0", "a-1", "a-2"]

    @pytest.mark.parametrize("name", ["localhost", None, "(none)"])
    def test_localhost_is_no_name(self, name: str | None) -> None:
        names, _ = self.named((name, 0), (name, 4000), ("b", 0))
        assert names == [f"{name}-0", f"{name}-1", "b"]

    def test_a_copy_of_a_report_counts_once(self) -> None:
        made = fleet([member(0), member(1), member(0)])
        assert made.nodes == 2
        assert [each.why for each in made.left_out] == ["a copy of reports/gpu000-0.json"]

    def test_the_copy_is_the_one_with_the_longer_name(self) -> None:
        made = make_fleet([node(member(0), f"r/{name}.json") for name in ("a copy", "a", "a (2)")])
        assert [(each.file, each.why) for each in made.left_out] == [
            ("r/a copy.json", "a copy of r/a.json"), ("r/a (2).json", "a copy of r/a.json"),
        ]  # fmt: skip


class TestJson:
    def test_it_is_valid_against_the_published_schema(self) -> None:
        made = changed(9, 4, lambda report: with_cards(report, 7, link_width=8))
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(
            json.loads(pretty_json(made))
        )

    def test_the_published_schema_is_the_one_in_force(self) -> None:
        in_force = json.loads(json.dumps(msgspec.json.schema(Fleet)))
        assert json.loads(SCHEMA.read_text()) == in_force, "run: make schema"

    def test_the_matrix_holds_the_odd_and_a_sample(self) -> None:
        chance = random.Random(0)
        nodes = [bare(f"node{n}", 0.01, chance) for n in range(1000)]
        slow = tuple(replace(f, value=f.value / 2) for f in nodes[500].figures)
        nodes[500] = replace(nodes[500], figures=slow)
        made = make_fleet(nodes)
        assert len(made.matrix) == 200
        assert [row.node for row in made.matrix if row.is_odd] == ["node500"]
        assert made.matrix[0].node == "node500"
        assert all(len(row.cells) == len(made.groups[0].spreads) for row in made.matrix)


TEXT = st.sampled_from(["", "a", "b", "\x1b[31m", "8x c, 1x d"])
FIGURES = st.builds(
    Figure,
    metric=st.builds(
        Metric,
        name=st.sampled_from(["dram_read@8", "dram_read@x", "cpu-only", "@"]),
        unit=st.sampled_from(["B/s", "s", "tok/s"]),
        kind=st.just(Kind.RATE),
        more_is_better=st.sampled_from([True, False, None]),
    ),
    value=st.sampled_from([0.0, 1e-300, 1.0, 1.01, 5.0, 1e18]),
    low=st.sampled_from([None, 0.0, 1.0, 1e18]),
    high=st.sampled_from([None, 0.0, 1.0, 1e18]),
    flags=st.sampled_from([(), ("contended",)]),
)
NODES = st.builds(
    Node,
    file=st.sampled_from(["a", "b/c.json", ""]),
    name=st.sampled_from([None, "", "n", "m"]),
    time=st.integers(0, 1 << 40),
    status=st.sampled_from(list(Status)),
    guest=st.sampled_from([None, True, False]),
    cpu=st.sampled_from([None, "CPU"]),
    sockets=st.sampled_from([None, 0, 1]),
    logical_cpus=st.sampled_from([None, 0, 8]),
    ram_bytes=st.sampled_from([None, 0, 1 << 30, 1 << 62]),
    cards=st.none() | st.lists(st.builds(Card, st.none() | TEXT, st.none() | TEXT)).map(tuple),
    figures=st.lists(FIGURES, max_size=4).map(tuple),
    features=st.lists(
        st.builds(
            Feature,
            name=TEXT,
            fact=st.sampled_from(["gpu.x", "y"]),
            value=TEXT | st.just(("a", "b")) | st.sampled_from([0.0, 1e12]),
        ),
        max_size=3,
    ).map(tuple),
    unseen=st.sampled_from([(), ("gpu.*",)]),
)


@settings(max_examples=60)
@given(st.lists(NODES, min_size=1, max_size=12))
def test_any_nodes_make_a_fleet(nodes: list[Node]) -> None:
    made = make_fleet([replace(each, file=f"{n}{each.file}") for n, each in enumerate(nodes)])
    assert made.nodes + len(made.left_out) == len(nodes)
    assert sum(len(group.nodes) for group in made.groups) == made.nodes
