"""What a limit on the process means."""

from __future__ import annotations

import pytest

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.limits.rules import RULES
from nodecheck.checks.limits.setter import setter
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Finding, Severity
from nodecheck.policy import Policy
from tests.checks.limits.examples import mempolicy

GIB = 1 << 30


def judge(seen: Seen) -> dict[str, Finding]:
    found = [finding for rule in RULES for finding in rule.judge(seen)]
    assert len({finding.id for finding in found}) == len(found)
    return {finding.id: finding for finding in found}


def quota(
    cpus: float | None,
    share: float | None = None,
    *,
    periods: int = 1000,
    logical: int | None = 8,
    live: bool = False,
) -> Seen:
    limits = LimitsFacts(
        cpu_quota=cpus,
        thread_budget=None if cpus is None else max(1, int(cpus)),
        cpu_quota_source="/sys/fs/cgroup/cpu.max",
        throttled_share=share,
        throttled_periods=periods if share is not None else None,
    )
    facts = Facts(limits=limits, cpu=CpuFacts(logical_cpus=logical))
    return Seen(facts=facts, policy=Policy(), live=live)


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        (quota(4.0), Severity.WARNING),
        (quota(4.0, 0.0), Severity.WARNING),
        (quota(4.0, 0.0999), Severity.WARNING),
        (quota(4.0, 0.10), Severity.CRITICAL),
        (quota(4.0, 0.68, live=True), Severity.CRITICAL),
        # the start of nodecheck itself is throttled in a small, new group
        (quota(0.5, 1.0, periods=4, live=True), Severity.WARNING),
        (quota(0.5, 1.0, periods=4), Severity.CRITICAL),
    ],
)
def test_a_quota_is_critical_only_where_it_bites(seen: Seen, severity: Severity) -> None:
    assert judge(seen)["cpu.quota"].severity is severity


@pytest.mark.parametrize(
    "seen", [quota(None), quota(8.0), quota(16.0), quota(4.0, 0.9, logical=None)]
)
def test_no_quota_or_nothing_to_hold_it_against(seen: Seen) -> None:
    assert judge(seen) == {}


def test_threads_are_the_quota_rounded_down() -> None:
    finding = judge(quota(7.65, logical=96))["cpu.quota"]
    assert "7.65 CPUs of 96" in finding.summary
    assert "llama-server --threads 7 --threads-batch 7" in finding.remedy.commands


def test_a_quota_below_one_cpu_still_needs_a_thread() -> None:
    assert "--threads 1 " in judge(quota(0.25))["cpu.quota"].remedy.commands[0]


def affinity(
    usable: tuple[int, ...] | None,
    online: tuple[int, ...] | None,
    isolated: tuple[int, ...] = (),
    logical: int | None = None,
) -> Seen:
    cpu = CpuFacts(online=online, isolated=isolated, logical_cpus=logical)
    limits = LimitsFacts(affinity=usable, usable_cpus=usable)
    return Seen(facts=Facts(cpu=cpu, limits=limits), policy=Policy())


def test_fewer_usable_than_online() -> None:
    finding = judge(affinity((0, 1, 2, 3), tuple(range(8))))["cpu.affinity"]
    assert finding.severity is Severity.INFO
    assert "4 of 8" in finding.summary
    assert finding.evidence[0].value == "CPUs 0-3"


def test_cpuinfo_counts_where_sysfs_is_missing() -> None:
    assert "cpu.affinity" in judge(affinity((0, 1), None, logical=4))
    assert judge(affinity((8, 9), None, logical=4)) == {}


@pytest.mark.parametrize(
    "seen",
    [
        affinity(None, tuple(range(8))),
        affinity((0, 1), None),
        affinity(tuple(range(8)), tuple(range(8))),
        affinity((0, 1), (0, 1, 2, 3, 4, 6, 7), isolated=(2, 3, 4, 5, 6, 7)),
    ],
)
def test_isolation_and_the_unknown_are_no_affinity(seen: Seen) -> None:
    assert judge(seen) == {}


def limited(limit: int | None, total: int | None = 64 * GIB, **more: int) -> Seen:
    limits = LimitsFacts(memory_limit_bytes=limit, **more)  # type: ignore[arg-type]
    facts = Facts(memory=MemoryFacts(total_bytes=total), limits=limits)
    return Seen(facts=facts, policy=Policy())


@pytest.mark.parametrize(("limit", "raised"), [(16, True), (60, True), (61, False), (64, False)])
def test_a_limit_near_the_total_is_none(limit: int, *, raised: bool) -> None:
    assert ("mem.cgroup_limit" in judge(limited(limit * GIB))) is raised


def test_a_limit_without_a_total_is_not_judged() -> None:
    assert judge(limited(GIB, None)) == {}
    assert judge(limited(None)) == {}


def test_the_limit_says_what_is_left_and_where_it_slows_down() -> None:
    seen = limited(16 * GIB, memory_high_bytes=12 * GIB, memory_headroom_bytes=3 * GIB)
    values = [each.value for each in judge(seen)["mem.cgroup_limit"].evidence]
    assert values[0] == "17179869184 bytes"
    assert values[1].startswith("memory.high 12 GiB")
    assert values[2] == "3 GiB left"


def test_mempolicy_on_one_node_matters_to_nobody() -> None:
    assert "limits.mempolicy_denied" in judge(mempolicy(1))
    single = Seen(facts=Facts(limits=LimitsFacts(mempolicy_errno=1)), policy=Policy(), live=True)
    assert judge(single) == {}


@pytest.mark.parametrize(
    ("path", "container", "platform", "command"),
    [
        ("/kubepods.slice/pod1", None, None, "kubectl"),
        ("/system.slice/docker-0123.scope", None, None, "docker update"),
        ("/machine.slice/libpod-0123.scope", None, None, "podman update"),
        ("/user.slice/user-0.slice", None, None, "sudo systemctl set-property"),
        ("/slurm/uid_0/job_7", None, None, "sbatch"),
        ("/", "docker", None, "docker update"),
        ("/lxc/101", "lxc", "proxmox", "pct set"),
        ("/lxc.payload.x", "lxc", None, "lxc config"),
        ("/", None, None, None),
    ],
)
def test_the_remedy_speaks_the_language_of_who_set_the_limit(
    path: str, container: str | None, platform: str | None, command: str | None
) -> None:
    facts = Facts(
        limits=LimitsFacts(cgroup_path=path),
        virt=VirtFacts(container=container, platform=platform),
    )
    found = setter(Seen(facts=facts, policy=Policy()), None).cpu_command
    assert found is None if command is None else (found or "").startswith(command)
