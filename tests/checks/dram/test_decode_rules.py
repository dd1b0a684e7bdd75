"""Where instructions hold decode on the CPU back more than memory does."""

from __future__ import annotations

import pytest

from nodecheck.checks.dram.decode_rules import RULES
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Finding, Measurement, Owner, Severity
from nodecheck.policy import Policy, ReferenceWorkload
from nodecheck.thresholds import Thresholds
from nodecheck.units import GB
from nodecheck.workload.numbers import from_numbers


def rate(
    name: str,
    threads: int,
    gigabytes: float,
    *,
    kernel: str = "sse2",
    flags: tuple[str, ...] = (),
    memory_node: int | None = None,
) -> Measurement:
    return Measurement(
        name=name,
        kernel=kernel,
        threads=threads,
        median_bytes_per_second=gigabytes * GB,
        passes=20,
        flags=flags,
        memory_node=memory_node,
    )


def node(*measured: Measurement, guest: bool = True, policy: Policy | None = None) -> Seen:
    return Seen(
        facts=Facts(virt=VirtFacts(guest=guest)), policy=policy or Policy(), measurements=measured
    )


def judge(seen: Seen) -> list[Finding]:
    return [finding for rule in RULES for finding in rule.judge(seen)]


READ, DECODE = rate("dram_read", 2, 30.0, kernel="avx2"), rate("decode_q4_k", 2, 2.0)


def test_a_cpu_without_ssse3() -> None:
    [found] = judge(node(READ, DECODE))
    assert (found.id, found.severity, found.owner) == (
        "cpu.decode_compute_bound",
        Severity.INFO,
        Owner.HYPERVISOR,
    )
    assert "15.0 times as much" in found.summary
    assert found.evidence[0].value.startswith("2 threads: 2 GB/s of q4_k weights")
    assert found.evidence[0].source == "sse2 kernel, median of 20 clean passes"
    assert found.evidence[0].expected == "at least 1/3 of what memory delivers"
    assert found.evidence[1].value == "2 threads: 30 GB/s read from memory"
    assert "15.0 times slower" in found.impact
    assert "AVX2 that is hidden" in found.remedy.text


def test_on_its_own_hardware_the_user_chooses() -> None:
    [found] = judge(node(READ, DECODE, guest=False))
    assert found.owner is Owner.USER


@pytest.mark.parametrize("kernel", ["avx2", "avx512_vnni", "dotprod"])
def test_wide_instructions_are_not_hidden(kernel: str) -> None:
    [found] = judge(node(READ, rate("decode_q4_k", 2, 5.0, kernel=kernel)))
    assert "more threads" in found.remedy.text


def test_the_most_threads_on_which_both_were_measured_count() -> None:
    [found] = judge(
        node(
            rate("dram_read", 8, 200.0),
            rate("dram_read", 4, 60.0),
            rate("decode_q4_k", 4, 12.0),
            rate("dram_read", 1, 20.0),
            rate("decode_q4_k", 1, 1.0),
        )
    )
    assert "5.0 times" in found.summary


@pytest.mark.parametrize(("decode", "raised"), [(10.0, True), (10.1, False)])
def test_the_factor_is_the_policys(decode: float, raised: bool) -> None:
    assert bool(judge(node(READ, rate("decode_q4_k", 2, decode)))) is raised
    lax = Policy(thresholds=Thresholds(compute_bound_factor_min=4))
    assert not judge(node(READ, rate("decode_q4_k", 2, decode), policy=lax))


@pytest.mark.parametrize(
    "measured",
    [
        (),
        (READ,),
        (DECODE,),
        (READ, rate("decode_q4_k", 1, 1.0)),  # of different numbers of threads
        (READ, rate("decode_q4_0", 2, 1.0)),  # of another weight type
        (READ, rate("decode_dram_q4_k", 2, 1.0)),
        (READ, rate("decode_q4_k", 2, 2.0, flags=("contended",))),
        (rate("dram_read", 2, 30.0, flags=("contended",)), DECODE),
        (rate("dram_read", 2, 30.0, memory_node=1), DECODE),
        (READ, rate("decode_q4_k", 2, 0.0)),
    ],
)
def test_what_was_not_measured_is_not_judged(measured: tuple[Measurement, ...]) -> None:
    assert judge(node(*measured)) == []


def test_it_is_judged_by_the_weights_that_are_served() -> None:
    measured = (READ, rate("decode_q4_0", 2, 2.0), rate("decode_q8_0", 2, 20.0))
    work = from_numbers("mine", 20 * GB, layers=1, weight_type="q4_0", kv_bytes_per_token=1)
    assert judge(Seen(facts=Facts(), policy=Policy(), measurements=measured, workload=work))
    for weights, raised in (("q4_0", True), ("q8_0", False)):
        reference = ReferenceWorkload(weight_type=weights)  # type: ignore[arg-type]
        assert bool(judge(node(*measured, policy=Policy(reference_workload=reference)))) is raised
