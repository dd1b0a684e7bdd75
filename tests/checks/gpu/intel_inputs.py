"""Cards of Intel as xe and i915 show them in sysfs."""

from __future__ import annotations

from tests.checks.gpu.inputs import device, port
from tests.trees import Link, Tree

A = "0000:03:00.0"
ROOT, UP, DOWN = "0000:00:01.0", "0000:01:00.0", "0000:02:01.0"
WAY = f"{ROOT}/{UP}/{DOWN}"
HERE = f"sys/devices/pci0000:00/{WAY}/{A}"
GEN1 = ("2.5 GT/s PCIe", "1")

XE_REASONS = ("pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc")


def window(size: int) -> str:
    """The file `resource` of a card whose memory is seen through a window of this size."""
    zero = "0x" + "0" * 16
    first = 0x6800000000
    lines = [
        f"0x0000000078000000 0x0000000078ffffff {zero}",
        f"{zero} {zero} {zero}",
        f"0x{first:016x} 0x{first + size - 1:016x} 0x000000000014220c",
    ]
    return "\n".join(lines)


def _on_bus(ids: str, driver: str) -> Tree:
    """Behind the card's own bridge, of which only the upper port tells the slot's link."""
    return {
        **port(ROOT, ids="8086:460d"),
        **port(UP, ROOT, ids="8086:4fa1"),
        **port(DOWN, f"{ROOT}/{UP}", ids="8086:4fa4", now=GEN1, most=GEN1),
        **device(A, WAY, ids=ids, pci_class="0x030000", now=GEN1, most=GEN1),
        f"{HERE}/driver": Link(f"../../../../../../bus/pci/drivers/{driver}"),
        f"sys/bus/pci/drivers/{driver}/new_id": "",
    }


def xe(
    ids: str = "8086:e20b", active: str = "", memory_window: int = 16 << 30, **files: str
) -> Tree:
    """An Arc B580 that works; `active` are reasons that hold its clocks."""
    content = {
        "resource": window(memory_window),
        "tile0/gt0/freq0/act_freq": "2650",
        "tile0/gt0/freq0/cur_freq": "2850",
        "tile0/gt0/freq0/rp0_freq": "2850",
        "tile0/gt0/freq0/max_freq": "2850",
        "tile0/gt1/freq0/act_freq": "0",
        "tile0/gt1/freq0/rp0_freq": "1500",
        "tile0/gt0/freq0/throttle/status": "1" if active else "0",
        **{
            f"tile0/gt0/freq0/throttle/reason_{name}": str(int(name in active.split()))
            for name in XE_REASONS
        },
        "hwmon/hwmon3/name": "xe",
        "hwmon/hwmon3/power1_max": "190000000",
        "hwmon/hwmon3/power1_rated_max": "190000000",
        "hwmon/hwmon3/energy1_input": "1000000000",
        "hwmon/hwmon3/temp2_label": "pkg",
        "hwmon/hwmon3/temp2_input": "64000",
        "hwmon/hwmon3/temp2_crit": "100000",
        "hwmon/hwmon3/temp2_emergency": "115000",
        "hwmon/hwmon3/temp3_label": "vram",
        "hwmon/hwmon3/temp3_input": "70000",
        **{name.replace("__", "/"): value for name, value in files.items()},
    }
    return {
        **_on_bus(ids, "xe"),
        **{f"{HERE}/{name}": f"{value}\n" for name, value in content.items()},
    }


def i915(ids: str = "8086:56a0", active: str = "", memory_window: int = 16 << 30) -> Tree:
    """An Arc A770 on the older driver."""
    gt = "drm/card1/gt/gt0"
    content = {
        "resource": window(memory_window),
        f"{gt}/rps_act_freq_mhz": "2050",
        f"{gt}/rps_RP0_freq_mhz": "2400",
        f"{gt}/throttle_reason_status": "1" if active else "0",
        **{f"{gt}/throttle_reason_{n}": str(int(n in active.split())) for n in XE_REASONS},
        "hwmon/hwmon2/name": "i915",
        "hwmon/hwmon2/power1_max": "190000000",
        "hwmon/hwmon2/power1_rated_max": "225000000",
    }
    return {
        **_on_bus(ids, "i915"),
        **{f"{HERE}/{name}": f"{value}\n" for name, value in content.items()},
    }
