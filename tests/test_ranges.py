"""Numbers that cannot be true are found, wherever they stand."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.engine.facts import EngineFacts, Process
from nodecheck.checks.gpu.facts import Gpu, Thermal
from nodecheck.checks.seen import Facts
from nodecheck.model import pretty_json
from nodecheck.ranges import absurd
from nodecheck.report import ReportError, from_json
from tests.judge.test_verdict import report
from tests.nodes import dram, root, three_l40


def of_engine(**members: Any) -> Facts:
    return Facts(engine=EngineFacts(processes=(Process(pid=1, name="x", **members),)))


def test_a_real_node_passes() -> None:
    assert absurd(report(three_l40())) is None
    assert absurd(of_engine(thread_count=10_001, numa_bytes={0: 1 << 30, 1: 0})) is None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Facts(cpu=CpuFacts(logical_cpus=2**62)), "cpu.logical_cpus"),
        (Facts(cpu=CpuFacts(steal_share=1e308)), "cpu.steal_share"),
        (Facts(cpu=CpuFacts(steal_share=-0.5)), "cpu.steal_share"),
        (Facts(cpu=CpuFacts(load_1min=math.inf)), "cpu.load_1min"),
        (dram(5e-324, 1), "median_bytes_per_second"),
        (dram(1e300, 1), "median_bytes_per_second"),
        (dram(-3, 1), "median_bytes_per_second"),
        (dram(10, 0), "threads"),
        (root(-1, 10), "available_bytes"),
        (of_engine(numa_bytes={0: 1 << 30, 1: -1}), "engine.processes[0].numa_bytes.1"),
    ],
)
def test_what_cannot_be_is_named(value: object, path: str) -> None:
    wrong = absurd(value)
    assert wrong is not None
    assert wrong.startswith(path)


def test_a_saved_report_with_such_a_number_is_refused_in_one_line() -> None:
    made = report(three_l40())
    cpu = msgspec.structs.replace(made.facts.cpu, logical_cpus=2**62)
    lying = msgspec.structs.replace(made, facts=msgspec.structs.replace(made.facts, cpu=cpu))
    with pytest.raises(ReportError, match=r"^x: not a nodecheck report: facts.cpu.logical_cpus"):
        from_json(pretty_json(lying), "x")


def test_a_margin_of_temperature_is_below_zero() -> None:
    margins = Thermal(slowdown_margin_celsius=-2, shutdown_margin_celsius=-8)
    assert absurd(Facts(gpus=(Gpu(memory_temperature_celsius=-5, thermal=margins),))) is None


@pytest.mark.parametrize("time", ["", "yesterday", "9999999999"])
def test_a_saved_report_without_a_time_is_refused(time: str) -> None:
    with pytest.raises(ReportError):
        from_json(pretty_json(msgspec.structs.replace(report(three_l40()), time=time)), "x")
