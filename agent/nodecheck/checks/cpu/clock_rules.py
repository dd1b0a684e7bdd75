"""Rules on time: the clock source, frequencies, and time that others took."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import percent

_SLOW_CLOCKSOURCES = frozenset(("hpet", "acpi_pm", "jiffies", "refined-jiffies"))
_CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"

_DYNAMIC_POWERSAVE = frozenset(("intel_pstate", "amd-pstate", "amd-pstate-epp", "amd_pstate"))
"""Drivers whose powersave governor follows the load."""


def judge_clocksource(seen: Seen) -> Iterator[Finding]:
    """cpu.clocksource_slow."""
    source, reads = tuple(_slow_source(seen)), tuple(_slow_reads(seen))
    if not source and not reads:
        return
    cpu = seen.facts.cpu
    seconds = cpu.clock_gettime_seconds
    told = [f"the clock source is {cpu.clocksource}"] if source else []
    told += [f"{(seconds or 0) * 1e9:.0f} ns a read"] if reads else []
    cost = f"{seconds * 1e9:.0f} ns" if seconds is not None else "a microsecond or more"
    yield Finding(
        id="cpu.clocksource_slow",
        severity=Severity.WARNING,
        subject="cpu",
        summary=f"Reading the time is slow: {' and '.join(told)}",
        evidence=(*source, *reads),
        impact=f"Each clock read costs {cost} instead of tens of ns; engines read it at every step",
        remedy=Remedy(
            text=(
                "Find in the kernel log why tsc was marked unstable, and remove clocksource= and "
                "notsc from the command line. In a guest, have the host offer kvm-clock or a "
                "stable TSC"
            ),
            action=Action.CHANGE_SETTING,
            commands=(
                f"cat {_CLOCKSOURCE}/available_clocksource",
                "sudo dmesg | grep -iE 'tsc|clocksource'",
                f"echo tsc | sudo tee {_CLOCKSOURCE}/current_clocksource",
            ),
            cost="A TSC that is truly unstable gives a wrong time: read the log first",
        ),
        owner=Owner.OPERATOR,
    )


def _slow_source(seen: Seen) -> Iterator[Evidence]:
    cpu, virt = seen.facts.cpu, seen.facts.virt
    # an emulator has no better clock; a QEMU guest on hpet may be one unless KVM shows
    on_hpet = cpu.clocksource == "hpet" and cpu.hypervisor == "qemu"
    may_be_emulated = virt.emulated or (virt.emulated is None and on_hpet)
    if cpu.clocksource in _SLOW_CLOCKSOURCES and not may_be_emulated:
        yield Evidence(
            value=f"current_clocksource {cpu.clocksource}",
            source=f"{_CLOCKSOURCE}/current_clocksource",
            expected="tsc, kvm-clock or the like",
        )


def _slow_reads(seen: Seen) -> Iterator[Evidence]:
    seconds = seen.facts.cpu.clock_gettime_seconds
    limit = seen.policy.thresholds.clock_gettime_max_seconds
    if seconds is not None and seconds > limit and not seen.facts.virt.emulated:
        yield Evidence(
            value=f"clock_gettime took {seconds * 1e9:.0f} ns",
            source="timed clock_gettime(CLOCK_MONOTONIC)",
            expected=f"at most {limit * 1e9:.0f} ns",
            basis="policy clock_gettime_max_seconds",
        )


def judge_steal(seen: Seen) -> Iterator[Finding]:
    """cpu.steal: between two samples only; totals since boot are no evidence."""
    cpu, limit = seen.facts.cpu, seen.policy.thresholds.steal_warning_share
    if cpu.steal_share is None or cpu.steal_share < limit:
        return
    span = f" over {cpu.sample_seconds:.1f} s" if cpu.sample_seconds is not None else ""
    yield Finding(
        id="cpu.steal",
        severity=Severity.WARNING,
        subject="cpu",
        summary=f"The hypervisor takes {percent(cpu.steal_share)} of this guest's CPU time",
        evidence=(
            Evidence(
                value=f"steal {percent(cpu.steal_share)}{span}",
                source="/proc/stat, two samples",
                expected=f"below {percent(limit)}",
                basis="policy steal_warning_share",
            ),
        ),
        impact=(
            f"{percent(cpu.steal_share)} less CPU time, and more than that in latency: a thread "
            "that waits for its vCPU holds up all others of a step"
        ),
        remedy=Remedy(
            text=(
                "Ask for dedicated vCPUs or another host; an instance type with CPU credits may "
                "have used them up"
            ),
            action=Action.RECONFIGURE_VM,
            commands=("vmstat 1 10",),
            cost="A migration or a dearer instance",
        ),
        owner=Owner.HYPERVISOR,
    )


def judge_frequency(seen: Seen) -> Iterator[Finding]:
    """cpu.freq_low_under_load."""
    cpu, thresholds = seen.facts.cpu, seen.policy.thresholds
    cpus = cpu.logical_cpus or cpu.clocked_cpus
    if cpu.current_mhz is None or not cpu.maximum_mhz or cpu.load_1min is None or not cpus:
        return
    share, load = cpu.current_mhz / cpu.maximum_mhz, cpu.load_1min / cpus
    if load < thresholds.busy_cpu_load or share >= thresholds.low_frequency_share:
        return
    clocks = f"{cpu.current_mhz:.0f} of {cpu.maximum_mhz:.0f} MHz"
    yield Finding(
        id="cpu.freq_low_under_load",
        severity=Severity.WARNING,
        subject="cpu",
        summary=f"The CPUs run at {clocks} ({percent(share)}) although they are busy",
        evidence=(
            Evidence(
                value=f"median {clocks}",
                source="cpufreq scaling_cur_freq and cpuinfo_max_freq",
                expected=f"at least {percent(thresholds.low_frequency_share)} of the maximum",
                basis="policy low_frequency_share",
            ),
            Evidence(
                value=f"load {cpu.load_1min:g} on {cpus} CPUs",
                source="/proc/loadavg",
                expected=f"judged from {thresholds.busy_cpu_load:g} a CPU",
                basis="policy busy_cpu_load",
            ),
        ),
        impact=f"CPU work that fits the caches runs up to {1 / share:.1f}x slower",
        remedy=_frequency_remedy(cpu),
        owner=Owner.OPERATOR,
    )


def _frequency_remedy(cpu: CpuFacts) -> Remedy:
    text = (
        "Look for a power, thermal or firmware limit: RAPL limits, PROCHOT, the power profile in "
        "the firmware, a failed fan or power supply"
    )
    commands = [
        "sudo turbostat --interval 5 --num_iterations 1",
        "sudo dmesg | grep -iE 'thermal|throttl'",
    ]
    if cpu.governors and set(cpu.governors) != {"performance"}:
        text += f". The governor is {', '.join(cpu.governors)}: try performance first"
        commands.insert(0, "sudo cpupower frequency-set -g performance")
    return Remedy(
        text=text, action=Action.CHANGE_SETTING, commands=tuple(commands), cost="Power and heat"
    )


def judge_governor(seen: Seen) -> Iterator[Finding]:
    """cpu.governor."""
    cpu = seen.facts.cpu
    if "powersave" not in cpu.governors:
        return
    dynamic = cpu.scaling_driver in _DYNAMIC_POWERSAVE
    driver = cpu.scaling_driver or "unknown driver"
    yield Finding(
        id="cpu.governor",
        severity=Severity.INFO if dynamic else Severity.WARNING,
        subject="cpu",
        summary=f"Frequency governor powersave ({driver})",
        evidence=(
            Evidence(
                value=f"scaling_governor {', '.join(cpu.governors)}, scaling_driver {driver}",
                source="cpufreq scaling_governor and scaling_driver",
                expected="performance",
            ),
        ),
        impact=(
            "With this driver powersave still follows the load: only the rise from idle is slower"
            if dynamic
            else f"With this driver powersave holds the lowest frequency{_of_maximum(cpu)}"
        ),
        remedy=Remedy(
            text="Set the governor to performance on a node that serves",
            action=Action.CHANGE_SETTING,
            commands=("sudo cpupower frequency-set -g performance",),
            cost="Power and heat at idle",
        ),
        owner=Owner.OPERATOR,
    )


def _of_maximum(cpu: CpuFacts) -> str:
    if cpu.current_mhz is None or cpu.maximum_mhz is None:
        return ""
    return f" (now {cpu.current_mhz:.0f} of {cpu.maximum_mhz:.0f} MHz)"
