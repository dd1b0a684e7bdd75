"""The rules of the processor; affinity and quota are the limits check's."""

from __future__ import annotations

from nodecheck.checks.cpu import clock_rules, core_rules, identity_rules, instruction_rules
from nodecheck.checks.seen import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "cpu.hypervisor_masked",
        "The hypervisor hides vector instructions",
        instruction_rules.judge_masked,
    ),
    Rule("cpu.no_avx", "AVX cannot be used", instruction_rules.judge_no_avx),
    Rule("cpu.no_avx2", "AVX2 or its company cannot be used", instruction_rules.judge_no_avx2),
    Rule(
        "cpu.unsupported_arch",
        "The architecture's instruction sets are not judged",
        identity_rules.judge_unsupported,
    ),
    Rule(
        "cpu.flags_disagree",
        "The kernel lists what CPUID does not show",
        identity_rules.judge_flags_disagree,
    ),
    Rule("cpu.no_i8mm", "Arm without int8 matrix products", identity_rules.judge_no_i8mm),
    Rule("cpu.few_cores", "Fewer cores than an engine wants", core_rules.judge_few_cores),
    Rule("cpu.clocksource_slow", "Reading the time is slow", clock_rules.judge_clocksource),
    Rule("cpu.offline_cpus", "CPUs are offline", core_rules.judge_offline),
    Rule("cpu.isolated", "CPUs are isolated from the scheduler", core_rules.judge_isolated),
    Rule("cpu.steal", "The hypervisor takes CPU time", clock_rules.judge_steal),
    Rule(
        "cpu.freq_low_under_load",
        "Busy CPUs run far below their maximum",
        clock_rules.judge_frequency,
    ),
    Rule("cpu.governor", "The governor saves power", clock_rules.judge_governor),
    Rule("cpu.hybrid", "Cores differ in kind", core_rules.judge_hybrid),
    Rule("cpu.topology_odd", "The topology is made up", core_rules.judge_topology_odd),
)
