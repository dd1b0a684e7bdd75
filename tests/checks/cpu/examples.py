"""For each finding of the processor a node that raises it and one that does not."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from tests.checks.cpu import cpus
from tests.checks.cpu.cpus import KVM64, QEMU, SYSFS, XEON, arm, cpufreq, cpuinfo, topology
from tests.trees import Tree

OFFLINE: Tree = {f"{SYSFS}/present": "0-7\n", f"{SYSFS}/online": "0-4,6-7\n"}
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
ALDER_LAKE = {"sys/devices/cpu_core/cpus": "0-3\n", "sys/devices/cpu_atom/cpus": "4-7\n"}

RAISES: dict[str, Tree | Seen] = {
    "cpu.hypervisor_masked": KVM64,
    "cpu.no_avx": {
        "proc/cpuinfo": cpuinfo(
            cpus.V2_AES, "Intel(R) Xeon(R) CPU           X5670  @ 2.93GHz", ids=(6, 44, 2)
        )
    },
    "cpu.no_avx2": {
        "proc/cpuinfo": cpuinfo(
            f"{cpus.AVX} f16c fma abm bmi1",
            "AMD Opteron(tm) Processor 6328",
            vendor="AuthenticAMD",
            ids=(21, 2, 0),
        )
    },
    "cpu.unsupported_arch": {
        "proc/cpuinfo": "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"
    },
    "cpu.flags_disagree": {
        "proc/cpuinfo": cpuinfo(cpus.V3),
        "cpuid.json": '{"0.0": [1, 0, 0, 0], "1.0": [3921, 0, 8193, 126353409]}',
    },
    "cpu.no_i8mm": {"proc/cpuinfo": arm("fp asimd aes asimddp")},
    "cpu.few_cores": {"proc/cpuinfo": cpuinfo(cpus.V3, count=2, siblings=2, cores=1)},
    "cpu.clocksource_slow": {**XEON, CLOCK: "hpet\n"},
    "cpu.offline_cpus": {**XEON, **OFFLINE},
    "cpu.isolated": {**XEON, f"{SYSFS}/online": "0-7\n", f"{SYSFS}/isolated": "2-7\n"},
    "cpu.steal": {
        **XEON,
        "proc/stat": cpus.stat(user=1000, idle=1000, steal=0),
        "proc/stat.2": cpus.stat(user=1500, idle=1300, steal=200),
    },
    "cpu.freq_low_under_load": {
        **XEON,
        **cpufreq(4, current=1_400_000, maximum=3_600_000),
        "proc/loadavg": "3.90 2.10 1.00 5/900 1234\n",
    },
    "cpu.governor": {
        **XEON,
        **cpufreq(4, current=800_000, maximum=3_600_000, governor="powersave"),
    },
    "cpu.hybrid": {"proc/cpuinfo": cpuinfo(cpus.V3, count=8), **ALDER_LAKE},
    "cpu.topology_odd": {
        "proc/cpuinfo": cpuinfo(cpus.V3, count=8, cores=1, packages=True),
        **topology([(n, 0) for n in range(8)]),
    },
}

SILENT: dict[str, Tree | Seen] = {
    "cpu.hypervisor_masked": {
        "proc/cpuinfo": cpuinfo(
            f"{cpus.V4} hypervisor", "Intel(R) Xeon(R) Gold 5120 CPU @ 2.20GHz", ids=(15, 6, 1)
        ),
        **QEMU,
    },
    "cpu.no_avx": KVM64,
    "cpu.no_avx2": XEON,
    "cpu.unsupported_arch": XEON,
    "cpu.flags_disagree": XEON,
    "cpu.no_i8mm": {"proc/cpuinfo": arm("fp asimd aes asimddp sve i8mm bf16")},
    "cpu.few_cores": {"proc/cpuinfo": cpuinfo(cpus.V3, count=1, siblings=112, cores=56)},
    "cpu.clocksource_slow": {**XEON, CLOCK: "tsc\n"},
    "cpu.offline_cpus": {**XEON, **OFFLINE, f"{SYSFS}/smt/control": "off\n"},
    "cpu.isolated": {**XEON, f"{SYSFS}/isolated": "\n"},
    "cpu.steal": {
        **XEON,
        "proc/stat": cpus.stat(user=1000, idle=1000, steal=900_000),
        "proc/stat.2": cpus.stat(user=1500, idle=1500, steal=900_010),
    },
    "cpu.freq_low_under_load": {
        **XEON,
        **cpufreq(4, current=1_400_000, maximum=3_600_000),
        "proc/loadavg": "0.20 2.10 1.00 5/900 1234\n",
    },
    "cpu.governor": {**XEON, **cpufreq(4, current=3_000_000, maximum=3_600_000)},
    "cpu.hybrid": {"proc/cpuinfo": cpuinfo(cpus.V3, count=8)},
    "cpu.topology_odd": {
        "proc/cpuinfo": cpuinfo(cpus.V3, count=8),
        **topology([(n // 4, n % 4) for n in range(8)]),
    },
}
