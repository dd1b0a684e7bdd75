"""Inputs that raise each finding of this subject, and inputs that do not."""

from __future__ import annotations

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.policy import Policy
from nodecheck.workload.numbers import from_numbers
from tests.trees import Tree

GIB = 1 << 30


def meminfo(**kib: int) -> str:
    """A meminfo of 64 GiB; members of HugePages_* count pages."""
    values = {
        "MemTotal": 64 << 20,
        "MemFree": 40 << 20,
        "MemAvailable": 48 << 20,
        "SwapTotal": 8 << 20,
        "SwapFree": 8 << 20,
        "HugePages_Total": 0,
        "HugePages_Free": 0,
        "HugePages_Rsvd": 0,
        "HugePages_Surp": 0,
        "Hugepagesize": 2048,
    } | kib
    return "".join(
        f"{name + ':':<16}{value:>12}{'' if name.startswith('HugePages') else ' kB'}\n"
        for name, value in values.items()
    )


def vmstat(**counters: int) -> str:
    values = {"pgmajfault": 500, "workingset_refault_file": 0, "pswpin": 0} | counters
    return "nr_free_pages 7\n" + "".join(f"{name} {value}\n" for name, value in values.items())


def memory_device(locator: str, bank: str, size: str = "32 GB", speed: str = "4800 MT/s") -> str:
    return (
        "Handle 0x0042, DMI type 17, 92 bytes\nMemory Device\n\tArray Handle: 0x0041\n"
        f"\tSize: {size}\n\tForm Factor: DIMM\n\tLocator: {locator}\n\tBank Locator: {bank}\n"
        f"\tType: DDR5\n\tSpeed: {speed}\n\tConfigured Memory Speed: {speed}\n\n"
    )


EMPTY = "No Module Installed"
HEADER = "# dmidecode 3.4\nGetting SMBIOS data from sysfs.\nSMBIOS 3.5.0 present.\n\n"

HEALTHY: Tree = {
    "proc/meminfo": meminfo(),
    "proc/vmstat": vmstat(),
    "proc/vmstat.2": vmstat(pgmajfault=501),
    "proc/pressure/memory": (
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    ),
    "proc/buddyinfo": (
        "Node 0, zone      DMA      0      0      0      0      0      1      1      1      0"
        "      1      3 \n"
        "Node 0, zone   Normal      1      1      1      0      1      2      2      4      0"
        "      2    205 \n"
    ),
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/edac/mc/mc0/ce_count": "0\n",
    "sys/devices/system/edac/mc/mc0/ue_count": "0\n",
    "cmd/dmidecode_-t_17.txt": HEADER
    + memory_device("DIMM 0", "P0 CHANNEL A")
    + memory_device("DIMM 0", "P0 CHANNEL B"),
    "sys/devices/system/node/node0/cpulist": "0-7\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       67108864 kB\n",
}


def fitting(
    weights_bytes: int, *, total: int, available: int | None = None, gpus: tuple[Gpu, ...] = ()
) -> Seen:
    """A named model on a node with so much memory."""
    workload = from_numbers(
        "a model", weights_bytes, layers=64, weight_type="q4_k", kv_bytes_per_token=65536
    )
    memory = MemoryFacts(total_bytes=total, available_bytes=available)
    return Seen(facts=Facts(memory=memory, gpus=gpus), policy=Policy(), workload=workload)


RAISES: dict[str, Tree | Seen] = {
    "mem.insufficient": fitting(70 * GIB, total=64 * GIB),
    "mem.hugepages_reserved": HEALTHY
    | {"proc/meminfo": meminfo(HugePages_Total=9000, HugePages_Free=9000)},
    "mem.cache_thrash": HEALTHY
    | {"proc/vmstat.2": vmstat(pgmajfault=9500, workingset_refault_file=250_000)},
    "mem.swap_active": HEALTHY
    | {
        "proc/meminfo": meminfo(SwapFree=2 << 20),
        "proc/vmstat": vmstat(pswpin=100),
        "proc/vmstat.2": vmstat(pswpin=900),
    },
    "mem.thp": HEALTHY
    | {"proc/buddyinfo": "Node 0, zone   Normal 900 800 700 600 500 400 300 200 100 0 0\n"},
    "mem.ecc_correctable": HEALTHY | {"sys/devices/system/edac/mc/mc0/ce_count": "41\n"},
    "mem.ecc_uncorrectable": HEALTHY | {"sys/devices/system/edac/mc/mc0/ue_count": "1\n"},
    "mem.channels": HEALTHY
    | {
        "cmd/dmidecode_-t_17.txt": HEADER
        + memory_device("DIMM 0", "P0 CHANNEL A")
        + memory_device("DIMM 0", "P0 CHANNEL B", EMPTY)
    },
    "mem.side_cache": HEALTHY
    | {"sys/devices/system/node/node0/memory_side_cache/index1/size": "17179869184\n"},
}
SILENT: dict[str, Tree | Seen] = dict.fromkeys(RAISES, HEALTHY) | {
    "mem.insufficient": fitting(40 * GIB, total=64 * GIB, available=48 * GIB)
}
