"""CPUs that lie apart without the guest's being told."""

from __future__ import annotations

from itertools import combinations

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.dram.facts import DramFacts
from nodecheck.checks.dram.placement_rules import RULES
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Finding, Owner, RoundTrip, Severity
from nodecheck.policy import Policy

TWO_COMPLEXES = ((0, 1, 2), (3, 4, 5))


def trips(*groups: tuple[int, ...], near: float = 55, far: float = 350) -> tuple[RoundTrip, ...]:
    owner = {cpu: number for number, group in enumerate(groups) for cpu in group}
    return tuple(
        RoundTrip(cpus=(a, b), seconds=(near if owner[a] == owner[b] else far) * 1e-9)
        for a, b in combinations(sorted(owner), 2)
    )


def node(
    round_trips: tuple[RoundTrip, ...],
    *,
    pairs: int | None = None,
    guest: bool | None = True,
    sockets: int | None = 1,
    nodes: int = 1,
    caches: int | None = 1,
) -> Seen:
    facts = Facts(
        cpu=CpuFacts(sockets=sockets),
        virt=VirtFacts(guest=guest),
        numa=NumaFacts(nodes=tuple(NumaNode(id=n, cpus=(n,)) for n in range(nodes))),
        dram=DramFacts(
            round_trips=round_trips,
            pairs=len(round_trips) if pairs is None else pairs,
            llc_count=caches,
        ),
    )
    return Seen(facts=facts, policy=Policy())


def judge(seen: Seen) -> list[Finding]:
    return [finding for rule in RULES for finding in rule.judge(seen)]


def test_groups_that_a_guest_is_not_told_of() -> None:
    [found] = judge(node(trips(*TWO_COMPLEXES)))
    assert (found.id, found.severity, found.owner) == (
        "cpu.placement_split",
        Severity.INFO,
        Owner.HYPERVISOR,
    )
    assert "in 2 groups" in found.summary
    assert [each.value for each in found.evidence] == [
        "CPUs 0-2: 55 ns among themselves, 350 ns to others",
        "CPUs 3-5: 55 ns among themselves, 350 ns to others",
    ]
    assert "15 pairs" in found.evidence[0].source
    assert "6.4 times as long" in found.impact


def test_of_many_groups_some_are_shown() -> None:
    threes = tuple((n, n + 1, n + 2) for n in range(0, 60, 3))
    [found] = judge(node(trips(*threes)))
    assert "in 20 groups" in found.summary
    assert len(found.evidence) == 8


@pytest.mark.parametrize(
    "unknown", [{"sockets": None}, {"nodes": 0}, {"caches": None}, {"caches": 0}]
)
def test_what_is_not_told_is_not_told_apart(unknown: dict[str, int | None]) -> None:
    assert judge(node(trips(*TWO_COMPLEXES), **unknown))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "seen",
    [
        node(()),
        node(trips((0, 1, 2, 3))),
        node(trips(*TWO_COMPLEXES, far=95)),  # one mesh
        node(trips(*TWO_COMPLEXES), guest=False),
        node(trips(*TWO_COMPLEXES), guest=None),
        node(trips(*TWO_COMPLEXES), sockets=2),  # the guest is told
        node(trips(*TWO_COMPLEXES), nodes=2),
        node(trips(*TWO_COMPLEXES), caches=2),
        node(trips(*TWO_COMPLEXES), pairs=16),  # not all were taken
    ],
)
def test_no_split(seen: Seen) -> None:
    assert judge(seen) == []


FOUR_CORES = ((0, 1), (2, 3), (4, 5), (6, 7))


def told(cores: int, *groups: tuple[int, ...], near: float = 20) -> Seen:
    """A guest of eight vCPUs that is told of so many cores."""
    seen = node(trips(*groups, near=near, far=70))
    cpu = CpuFacts(sockets=1, logical_cpus=8, physical_cores=cores)
    return replace(seen, facts=replace(seen.facts, cpu=cpu))


def test_threads_that_look_like_cores() -> None:
    [found] = judge(told(8, *FOUR_CORES))
    assert found.id == "cpu.siblings_hidden"
    assert found.summary.startswith("The 8 vCPUs are the threads of 4 cores")
    assert found.remedy.commands == ("llama-server --threads 4",)


@pytest.mark.parametrize(
    "seen",
    [
        told(4, *FOUR_CORES),  # the guest is told
        told(8, (0, 1, 2, 3, 4, 5, 6, 7)),
        told(8, (0, 1), (2, 3), (4, 5), (6,), (7,)),
    ],
)
def test_no_hidden_threads(seen: Seen) -> None:
    assert "cpu.siblings_hidden" not in {finding.id for finding in judge(seen)}


def test_cores_and_complexes_are_told_of_one_by_one() -> None:
    pairs = {trip.cpus: trip.seconds for trip in trips(*FOUR_CORES, near=20, far=60)}
    far = {cpus: 350e-9 for cpus in pairs if (cpus[0] < 4) != (cpus[1] < 4)}
    all_pairs = tuple(RoundTrip(cpus=c, seconds=s) for c, s in (pairs | far).items())
    seen = node(all_pairs)
    cpu = CpuFacts(sockets=1, logical_cpus=8, physical_cores=8)
    split, siblings = judge(replace(seen, facts=replace(seen.facts, cpu=cpu)))
    assert [each.value.partition(":")[0] for each in split.evidence] == ["CPUs 0-3", "CPUs 4-7"]
    assert len(siblings.evidence) == 4
