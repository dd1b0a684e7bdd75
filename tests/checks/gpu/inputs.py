"""Cards written once and printed in every form of nvidia-smi, and PCI trees to go with them."""

from __future__ import annotations

from tests.checks.gpu.printed import BETWEEN, COUNTERS, Values, xml
from tests.checks.gpu.printed_text import csv, table, text
from tests.trees import Link, Tree

__all__ = ["Values", "csv", "table", "text", "xml"]

L40: Values = {
    "name": "NVIDIA L40",
    "bus": "01",
    "device": "26B510DE",
    "subsystem": "169D10DE",
    "uuid": "GPU-5f0c3a52-8d1e-4b7a-9c26-71e0d4b8a913",
    "serial": "1654123007421",
    "vbios": "95.02.4A.00.07",
    "cap": "8.9",
    "compute_mode": "Default",
    "display": "Disabled",
    "total": "46068 MiB",
    "used": "5 MiB",
    "bar1": "65536 MiB",
    "protected": "0 MiB",
    "pstate": "P0",
    "util": "97 %",
    "temp": "61 C",
    "mem_temp": "N/A",
    "shutdown": "",
    "slowdown": "",
    "gpu_max": "",
    "mem_max": "",
    "margin": "27 C",
    "shutdown_margin": "-5 C",
    "slowdown_margin": "-2 C",
    "gpu_max_margin": "0 C",
    "mem_max_margin": "N/A",
    "draw": "270.00 W",
    "instant": "1.00 W",
    "limit": "300.00 W",
    "requested": "300.00 W",
    "default": "300.00 W",
    "min_limit": "100.00 W",
    "max_limit": "300.00 W",
    "sm": "2490 MHz",
    "mem": "9001 MHz",
    "max_sm": "2490 MHz",
    "max_mem": "9001 MHz",
    "gen": "4",
    "gen_max": "4",
    "gen_device": "4",
    "gen_host": "4",
    "width": "16",
    "width_max": "16",
    "replays": "9",
    "rollovers": "0",
    "tx": "585 KB/s",
    "rx": "14742333 KB/s",
    "mig": "N/A",
    "mig_pending": "N/A",
    "instances": "",
    "persistence": "Enabled",
    "virtualisation": "None",
    "ecc": "Enabled",
    "ecc_pending": "Enabled",
    "zero": "0",
    "unc": "0",
    "sram": "0",
    "corr": "0",
    "agg_unc": "0",
    "agg_sram": "0",
    "agg_corr": "0",
    "threshold": "No",
    "rows": "0",
    "rows_corr": "0",
    "pending": "No",
    "failure": "No",
    "banks": "192 0 0 0 0",
    "sbe": "N/A",
    "dbe": "N/A",
    "page_pending": "N/A",
    "recovery": "None",
    "active": "",
    **{f"held_{name}": f"{n * 25483123456} us" for n, (name, _, _) in enumerate(COUNTERS, 1)},
    "fabric_state": "N/A",
    "fabric_status": "N/A",
    "health": "",
    "processes": "",
}
"""A healthy card at work."""

_NO_ECC: Values = {
    **dict.fromkeys(("ecc", "ecc_pending", "zero", "unc", "sram", "corr", "threshold"), "N/A"),
    **dict.fromkeys(("agg_unc", "agg_sram", "agg_corr"), "N/A"),
    **dict.fromkeys(("rows", "rows_corr", "pending", "failure"), "N/A"),
    "banks": "N/A N/A N/A N/A N/A",
}
IDLE_4090: Values = {
    **L40,
    **_NO_ECC,
    "name": "NVIDIA GeForce RTX 4090",
    "device": "268410DE",
    "serial": "N/A",
    "total": "24564 MiB",
    "pstate": "P8",
    "util": "0 %",
    "temp": "38 C",
    "draw": "26.00 W",
    **dict.fromkeys(("limit", "requested", "default"), "450.00 W"),
    "max_limit": "600.00 W",
    "sm": "210 MHz",
    "mem": "405 MHz",
    "max_sm": "3120 MHz",
    "max_mem": "10501 MHz",
    "gen": "1",
    "rx": "0 KB/s",
    "active": "gpu_idle",
}
GB10: Values = {
    **L40,
    "name": "NVIDIA GB10",
    "device": "2E1210DE",
    "total": "Not Supported",
    "used": "Not Supported",
    "bar1": "N/A",
    "util": "3 %",
    "gen": "1",
    "gen_max": "1",
    "width": "1",
    "width_max": "1",
}
H100: Values = {
    **L40,
    "name": "NVIDIA H100 80GB HBM3",
    "device": "233010DE",
    "uuid": "GPU-0b6f7a51-90cd-4d39-8f4f-2d1f6a7b3e58",
    "total": "81559 MiB",
    "bar1": "131072 MiB",
    "cap": "9.0",
    "temp": "52 C",
    "mem_temp": "61 C",
    "margin": "31 C",
    "shutdown_margin": "-8 C",
    "mem_max_margin": "0 C",
    **dict.fromkeys(("limit", "requested", "default", "max_limit"), "700.00 W"),
    "min_limit": "200.00 W",
    "sm": "1980 MHz",
    "mem": "2619 MHz",
    "max_sm": "1980 MHz",
    "max_mem": "2619 MHz",
    **dict.fromkeys(("gen", "gen_max", "gen_device", "gen_host"), "5"),
    "mig": "Disabled",
    "mig_pending": "Disabled",
    "banks": "2560 0 0 0 0",
    "fabric_state": "Completed",
    "fabric_status": "Success",
    "health": "Summary=Healthy;Bandwidth=Full;Route Unhealthy=False;Incorrect Configuration=None",
}
"""A healthy card with a fabric."""

T4: Values = {
    **L40,
    "name": "Tesla T4",
    "device": "1EB810DE",
    "total": "15360 MiB",
    "cap": "7.5",
    "margin": "N/A",
    "shutdown": "96 C",
    "slowdown": "93 C",
    "gpu_max": "85 C",
    "mem_max": "N/A",
    **dict.fromkeys(("limit", "requested", "default", "max_limit"), "70.00 W"),
    "min_limit": "60.00 W",
    "draw": "66.00 W",
    **dict.fromkeys(("gen", "gen_max", "gen_device", "gen_host"), "3"),
    **dict.fromkeys(("rows", "rows_corr", "pending", "failure"), "N/A"),
    "banks": "N/A N/A N/A N/A N/A",
    "sbe": "2",
    "dbe": "1",
    "page_pending": "No",
}
"""A card that retires pages and has its limits as temperatures."""


def card(base: Values, **changes: str) -> Values:
    """A card with other values. Its limit is the one that was asked for, unless told."""
    if "limit" in changes:
        changes.setdefault("requested", changes["limit"])
    return {**base, **changes}


def running(*programs: tuple[int, str, str, str]) -> str:
    """Programs (pid, type, memory, name) as the value of `processes`."""
    return BETWEEN.join(f"{pid}|{kind}|{memory}|{name}" for pid, kind, memory, name in programs)


def made(*instances: tuple[int, int, str, str]) -> str:
    """MIG's instances (of the GPU, for compute, memory, used) as the value of `instances`."""
    return BETWEEN.join("|".join(map(str, instance)) for instance in instances)


def device(
    address: str,
    above: str = "",
    *,
    ids: str = "10de:26b5",
    pci_class: str = "0x030200",
    now: tuple[str, str] = ("16.0 GT/s PCIe", "16"),
    most: tuple[str, str] = ("16.0 GT/s PCIe", "16"),
    **files: str,
) -> Tree:
    """One PCI device in sysfs below `above` (addresses from the root on, with slashes between)."""
    place = "/".join(part for part in ("devices/pci0000:00", above, address) if part)
    vendor, _, number = ids.partition(":")
    content = {
        "class": pci_class,
        "vendor": f"0x{vendor}",
        "device": f"0x{number}",
        "numa_node": "-1",
        "current_link_speed": now[0],
        "current_link_width": now[1],
        "max_link_speed": most[0],
        "max_link_width": most[1],
        **files,
    }
    tree: Tree = {f"sys/{place}/{name}": f"{value}\n" for name, value in content.items()}
    tree[f"sys/bus/pci/devices/{address}"] = Link(f"../../../{place}")
    return tree


def port(address: str, above: str = "", **changes: object) -> Tree:
    """A bridge; by default Gen4 x16, at that."""
    return device(address, above, **{"ids": "1022:1483", "pci_class": "0x060400", **changes})  # type: ignore[arg-type]
