"""Cards of AMD as amdgpu shows them in sysfs."""

from __future__ import annotations

import json
import struct

from tests.checks.gpu.inputs import device, port
from tests.trees import Link, Tree

A = "0000:03:00.0"
ROOT, UP, DOWN = "0000:00:01.1", "0000:01:00.0", "0000:02:00.0"
WAY = f"{ROOT}/{UP}/{DOWN}"
HERE = f"sys/devices/pci0000:00/{WAY}/{A}"
ALL_ONES_16, ALL_ONES_64 = 0xFFFF, 0xFFFF_FFFF_FFFF_FFFF


def table_v1_3(throttled: int = 0, **values: int) -> bytes:
    """gpu_metrics of the cards from MI100 and Navi 21 on; what is not named reads all ones."""
    content = bytearray(b"\xff" * 120)
    struct.pack_into("<HBB", content, 0, 120, 1, 3)
    struct.pack_into("<Q", content, 112, throttled)
    for name, value in values.items():
        place = {"edge": 4, "hotspot": 6, "memory": 8, "busy": 16, "power": 22}[name]
        struct.pack_into("<H", content, place, value)
    return bytes(content)


def table_v1_6(cycles: int, replays: int = 0, **held: int) -> bytes:
    """gpu_metrics of MI300: how long each limit held the clocks, in cycles."""
    content = bytearray(b"\xff" * 1664)
    struct.pack_into("<HBB", content, 0, 1664, 1, 6)
    struct.pack_into("<I", content, 32, cycles)
    places = {"prochot": 36, "ppt": 40, "socket": 44, "vr": 48, "hbm": 52}
    for name, place in places.items():
        struct.pack_into("<I", content, place, held.get(name, 0))
    struct.pack_into("<Q", content, 104, replays)
    struct.pack_into("<II", content, 120, 4, 5)
    return bytes(content)


def table_v1_8(gb_per_second: int) -> bytes:
    """gpu_metrics of MI350, which tells the rate of its memory."""
    content = bytearray(b"\xff" * 3392)
    struct.pack_into("<HBB", content, 0, 3392, 1, 8)
    struct.pack_into("<Q", content, 16, gb_per_second)
    return bytes(content)


def radeon(**files: str | bytes) -> Tree:
    """A Radeon RX 7900 XTX at work behind its own switch, in a slot of 8 lanes of Gen4."""
    tree: Tree = {
        **port(ROOT, most=("16.0 GT/s PCIe", "8"), now=("16.0 GT/s PCIe", "8")),
        **port(UP, ROOT, ids="1002:1478", now=("16.0 GT/s PCIe", "8")),
        **port(DOWN, f"{ROOT}/{UP}", ids="1002:1479", now=("32.0 GT/s PCIe", "16"),
               most=("32.0 GT/s PCIe", "16")),
        **device(A, WAY, ids="1002:744c", pci_class="0x030000",
                 now=("32.0 GT/s PCIe", "16"), most=("32.0 GT/s PCIe", "16")),
        f"{HERE}/driver": Link("../../../../../../bus/pci/drivers/amdgpu"),
        "sys/bus/pci/drivers/amdgpu/new_id": "",
    }  # fmt: skip
    content: dict[str, str | bytes] = {
        "revision": "0xc8",
        "vbios_version": "113-D7020100-102",
        "unique_id": "8c1a2b3c4d5e6f70",
        "mem_info_vram_total": str(24 << 30),
        "mem_info_vram_used": str(2 << 30),
        "mem_info_vis_vram_total": str(24 << 30),
        "gpu_busy_percent": "99",
        "pp_dpm_sclk": "0: 500Mhz\n1: 2280Mhz *\n2: 2526Mhz",
        "pp_dpm_mclk": "0: 96Mhz\n1: 456Mhz\n2: 1249Mhz *",
        "power_dpm_force_performance_level": "auto",
        "pcie_replay_count": "0",
        "gpu_metrics": table_v1_3(),
        "hwmon/hwmon4/temp1_label": "edge",
        "hwmon/hwmon4/temp1_input": "61000",
        "hwmon/hwmon4/temp1_crit": "100000",
        "hwmon/hwmon4/temp2_label": "junction",
        "hwmon/hwmon4/temp2_input": "79000",
        "hwmon/hwmon4/temp2_crit": "110000",
        "hwmon/hwmon4/temp2_emergency": "115000",
        "hwmon/hwmon4/temp3_label": "mem",
        "hwmon/hwmon4/temp3_input": "84000",
        "hwmon/hwmon4/temp3_crit": "108000",
        "hwmon/hwmon4/power1_average": "301000000",
        "hwmon/hwmon4/power1_cap": "339000000",
        "hwmon/hwmon4/power1_cap_default": "339000000",
        "hwmon/hwmon4/power1_cap_min": "305000000",
        "hwmon/hwmon4/power1_cap_max": "390000000",
        "ras/umc_err_count": "ue: 0\nce: 0",
        "ras/gfx_err_count": "ue: 0\nce: 0",
        "ras/gpu_vram_bad_pages": "",
    }
    content.update({name.replace("__", "/"): value for name, value in files.items()})
    tree.update({f"{HERE}/{name}": value for name, value in content.items() if value != GONE})
    return tree


GONE = "-"
"""Instead of a file's content: it is not there."""


def accelerator(number: int, **files: str | bytes) -> Tree:
    """One MI300X, cut into 8 partitions; `number` is its bus and makes its address."""
    root, address = f"0000:00:{number:02x}.1", f"0000:{number:02x}:00.0"
    here = f"sys/devices/pci0000:00/{root}/{address}"
    gen5 = ("32.0 GT/s PCIe", "16")
    tree: Tree = {
        **port(root, now=gen5, most=gen5),
        **device(address, root, ids="1002:74a1", pci_class="0x120000", now=gen5, most=gen5),
        f"{here}/driver": Link("../../../../bus/pci/drivers/amdgpu"),
        "sys/bus/pci/drivers/amdgpu/new_id": "",
    }
    content: dict[str, str | bytes] = {
        "mem_info_vram_total": str(206141652992),
        "mem_info_vram_used": str(300 << 20),
        "gpu_busy_percent": "0",
        "pp_dpm_sclk": "S: 132Mhz *\n0: 500Mhz\n1: 2100Mhz",
        "pp_dpm_mclk": "0: 900Mhz *\n1: 1300Mhz",
        "current_compute_partition": "CPX",
        "current_memory_partition": "NPS4",
        "product_name": "AMD Instinct MI300X OAM",
        "serial_number": "692251001124",
        "gpu_metrics": table_v1_6(1000, replays=7),
        "ras/umc_err_count": "ue: 0\nce: 3\nde: 2",
        **{name.replace("__", "/"): value for name, value in files.items()},
    }
    tree.update({f"{here}/{name}": value for name, value in content.items()})
    for partition in range(8):
        node = f"sys/class/kfd/kfd/topology/nodes/{2 + 8 * number + partition}"
        location = number << 8 | partition << 28
        tree[f"{node}/properties"] = (
            f"simd_count 152\nvendor_id 4098\ndomain 0\nlocation_id {location}\n"
            "gfx_target_version 90402\n"
        )
        tree[f"{node}/mem_banks/0/properties"] = (
            "heap_type 1\nsize_in_bytes 25767706624\nflags 0\nwidth 8192\nmem_clk_max 1300\n"
        )
    tree["sys/class/kfd/kfd/topology/nodes/0/properties"] = "gfx_target_version 0\nlocation_id 0\n"
    return tree


def smi_static(**changes: object) -> dict[str, object]:
    """A record of `amd-smi static --json`."""
    return {
        "gpu": 0,
        "asic": {"market_name": "AMD Instinct MI210", "target_graphics_version": "gfx90a",
                 "asic_serial": "0x8E3A0D58A4C1A2B0"},
        "bus": {"bdf": A, "max_pcie_width": 16, "max_pcie_speed": {"value": 16, "unit": "GT/s"}},
        "vbios": {"version": "022.040.003.043.000001"},
        "limit": {"max_power": {"value": 300, "unit": "W"}, "min_power": {"value": 0, "unit": "W"},
                  "socket_power": {"value": 300, "unit": "W"},
                  "slowdown_edge_temperature": {"value": 99, "unit": "C"},
                  "slowdown_hotspot_temperature": {"value": 100, "unit": "C"},
                  "slowdown_vram_temperature": {"value": 94, "unit": "C"},
                  "shutdown_hotspot_temperature": {"value": 105, "unit": "C"}},
        "vram": {"type": "HBM", "size": {"value": 65520, "unit": "MB"}, "bit_width": 4096,
                 "max_bandwidth": {"value": "N/A", "unit": "GB/s"}},
        "numa": {"node": 1},
        **changes,
    }  # fmt: skip


def smi_metric(**changes: object) -> dict[str, object]:
    """A record of `amd-smi metric --json`."""
    return {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 97, "unit": "%"}},
        "power": {"socket_power": {"value": 244, "unit": "W"}},
        "clock": {
            "gfx_0": {"clk": {"value": 1500, "unit": "MHz"},
                      "max_clk": {"value": 1700, "unit": "MHz"}},
            "mem_0": {"clk": {"value": 1600, "unit": "MHz"},
                      "max_clk": {"value": 1600, "unit": "MHz"}},
        },
        "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"},
                        "mem": {"value": 66, "unit": "C"}},
        "pcie": {"width": 16, "speed": {"value": 16, "unit": "GT/s"}, "replay_count": 0,
                 "replay_roll_over_count": "N/A"},
        "ecc": {"total_correctable_count": 5, "total_uncorrectable_count": 2},
        "ecc_blocks": {"UMC": {"correctable_count": 5, "uncorrectable_count": 0},
                       "GFX": {"correctable_count": 0, "uncorrectable_count": 2}},
        "throttle": {f"{name}_violation_status": "NOT ACTIVE" for name in
                     ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")},
        "mem_usage": {"total_vram": {"value": 65520, "unit": "MB"},
                      "used_vram": {"value": 11, "unit": "MB"}},
        "perf_level": "AMDSMI_DEV_PERF_LEVEL_AUTO",
        **changes,
    }  # fmt: skip


def smi(static: object, metric: object) -> Tree:
    """What the two commands printed."""
    return {
        "cmd/amd-smi_static_--json.txt": json.dumps(static),
        "cmd/amd-smi_metric_--json.txt": json.dumps(metric),
    }
