"""Cards written once and printed in every form of nvidia-smi, and PCI trees to go with them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.trees import Link, Tree

Values = dict[str, str]

L40: Values = {
    "name": "NVIDIA L40",
    "bus": "01",
    "device": "26B510DE",
    "total": "46068 MiB",
    "used": "5 MiB",
    "pstate": "P0",
    "util": "97 %",
    "temp": "61 C",
    "draw": "270.00 W",
    "limit": "300.00 W",
    "default": "300.00 W",
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
    "mig": "N/A",
    "persistence": "Enabled",
    "virtualisation": "None",
    "unc": "0",
    "rows": "0",
    "pending": "No",
    "failure": "No",
    "active": "",
}
IDLE_4090: Values = {
    **L40,
    "name": "NVIDIA GeForce RTX 4090",
    "device": "268410DE",
    "total": "24564 MiB",
    "pstate": "P8",
    "util": "0 %",
    "draw": "26.00 W",
    "limit": "450.00 W",
    "default": "450.00 W",
    "sm": "210 MHz",
    "mem": "405 MHz",
    "max_sm": "3120 MHz",
    "max_mem": "10501 MHz",
    "gen": "1",
    "unc": "N/A",
    "rows": "N/A",
    "pending": "N/A",
    "failure": "N/A",
    "active": "gpu_idle",
}
GB10: Values = {
    **L40,
    "name": "NVIDIA GB10",
    "device": "2E1210DE",
    "total": "Not Supported",
    "used": "Not Supported",
    "util": "3 %",
    "gen": "1",
    "gen_max": "1",
    "width": "1",
    "width_max": "1",
}
REASONS = (
    ("gpu_idle", "Idle", 0x1),
    ("applications_clocks_setting", "Applications Clocks Setting", 0x2),
    ("sw_power_cap", "SW Power Cap", 0x4),
    ("hw_slowdown", "HW Slowdown", 0x8),
    ("hw_thermal_slowdown", "    HW Thermal Slowdown", 0x40),
    ("hw_power_brake_slowdown", "    HW Power Brake Slowdown", 0x80),
    ("sync_boost", "Sync Boost", 0x10),
    ("sw_thermal_slowdown", "SW Thermal Slowdown", 0x20),
    ("display_clocks_setting", "Display Clock Setting", 0x100),
)


def card(base: Values, **changes: str) -> Values:
    """A card with other values."""
    return {**base, **changes}


def _state(values: Values, reason: str) -> str:
    return "Active" if reason in values["active"].split() else "Not Active"


def _xml_card(v: Values, word: str) -> str:
    reasons = "".join(
        f"<clocks_{word}_reason_{name}>{_state(v, name)}</clocks_{word}_reason_{name}>"
        for name, _, _ in REASONS
    )
    ecc = f"<dram_uncorrectable>{v['unc']}</dram_uncorrectable>"
    rows = (
        "<remapped_rows>N/A</remapped_rows>"
        if v["pending"] == "N/A"
        else f"<remapped_rows><remapped_row_unc>{v['rows']}</remapped_row_unc>"
        f"<remapped_row_pending>{v['pending']}</remapped_row_pending>"
        f"<remapped_row_failure>{v['failure']}</remapped_row_failure></remapped_rows>"
    )
    instance = (
        "<mig_devices><mig_device><fb_memory_usage><total>9984 MiB</total><used>9 MiB</used>"
        "</fb_memory_usage></mig_device></mig_devices>"
        if v["mig"] == "Enabled"
        else "<mig_devices>None</mig_devices>"
    )
    return f"""<gpu id="00000000:{v["bus"]}:00.0">
<product_name>{v["name"]}</product_name><persistence_mode>{v["persistence"]}</persistence_mode>
<mig_mode><current_mig>{v["mig"]}</current_mig></mig_mode>{instance}
<gpu_virtualization_mode><virtualization_mode>{v["virtualisation"]}</virtualization_mode>
</gpu_virtualization_mode><pci><pci_device_id>{v["device"]}</pci_device_id><pci_gpu_link_info>
<pcie_gen><max_link_gen>{v["gen_max"]}</max_link_gen><current_link_gen>{v["gen"]}</current_link_gen>
<max_device_link_gen>{v["gen_device"]}</max_device_link_gen>
<max_host_link_gen>{v["gen_host"]}</max_host_link_gen></pcie_gen>
<link_widths><max_link_width>{v["width_max"]}x</max_link_width>
<current_link_width>{v["width"]}x</current_link_width></link_widths></pci_gpu_link_info>
<replay_counter>{v["replays"]}</replay_counter></pci>
<performance_state>{v["pstate"]}</performance_state>
<clocks_{word}_reasons>{reasons}</clocks_{word}_reasons>
<clocks_event_reasons_counters><clocks_event_reasons_counters_sw_power_cap>25483123456 us
</clocks_event_reasons_counters_sw_power_cap></clocks_event_reasons_counters>
<fb_memory_usage><total>{v["total"]}</total><used>{v["used"]}</used></fb_memory_usage>
<utilization><gpu_util>{v["util"]}</gpu_util></utilization>
<ecc_errors><volatile><sram_uncorrectable>N/A</sram_uncorrectable>{ecc}</volatile></ecc_errors>
{rows}<temperature><gpu_temp>{v["temp"]}</gpu_temp></temperature>
<gpu_power_readings><power_draw>{v["draw"]}</power_draw>
<current_power_limit>{v["limit"]}</current_power_limit>
<default_power_limit>{v["default"]}</default_power_limit></gpu_power_readings>
<clocks><sm_clock>{v["sm"]}</sm_clock><mem_clock>{v["mem"]}</mem_clock></clocks>
<applications_clocks><mem_clock>Requested functionality has been deprecated</mem_clock>
</applications_clocks>
<max_clocks><sm_clock>{v["max_sm"]}</sm_clock><mem_clock>{v["max_mem"]}</mem_clock></max_clocks>
</gpu>"""


def xml(cards: Sequence[Values], dtd: int = 12) -> str:
    """`nvidia-smi -q -x`; version 13 of its DTD renamed the clock reasons."""
    word = "event" if dtd >= 13 else "throttle"
    body = "\n".join(_xml_card(v, word) for v in cards)
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{dtd}.dtd">\n'
        f"<nvidia_smi_log><driver_version>580.65.06</driver_version>"
        f"<cuda_version>13.0</cuda_version><attached_gpus>{len(cards)}</attached_gpus>\n{body}\n"
        "</nvidia_smi_log>\n"
    )


def _line(depth: int, key: str, value: str | None = None) -> str:
    indent = " " * (4 * depth)
    return f"{indent}{key}\n" if value is None else f"{indent}{key:<{50 - 4 * depth}} : {value}\n"


def _text_card(v: Values) -> str:
    instance = (
        _line(1, "MIG Device")
        + _line(2, "Index", "0")
        + _line(2, "FB Memory Usage")
        + _line(3, "Total", "9984 MiB")
        + _line(3, "Used", "9 MiB")
        if v["mig"] == "Enabled"
        else ""
    )
    rows = (
        _line(1, "Remapped Rows", "N/A")
        if v["pending"] == "N/A"
        else _line(1, "Remapped Rows")
        + _line(2, "Uncorrectable Error", v["rows"])
        + _line(2, "Pending", v["pending"])
        + _line(2, "Remapping Failure Occurred", v["failure"])
    )
    return "".join([
        f"GPU 00000000:{v['bus']}:00.0\n",
        _line(1, "Product Name", v["name"]),
        _line(1, "Persistence Mode", v["persistence"]),
        _line(1, "MIG Mode"), _line(2, "Current", v["mig"]), instance,
        _line(1, "GPU Virtualization Mode"), _line(2, "Virtualization Mode", v["virtualisation"]),
        _line(1, "PCI"), _line(2, "Device Id", f"0x{v['device']}"),
        _line(2, "GPU Link Info"), _line(3, "PCIe Generation"),
        _line(4, "Max", v["gen_max"]), _line(4, "Current", v["gen"]),
        _line(4, "Device Max", v["gen_device"]), _line(4, "Host Max", v["gen_host"]),
        _line(3, "Link Width"),
        _line(4, "Max", f"{v['width_max']}x"), _line(4, "Current", f"{v['width']}x"),
        _line(2, "Replays Since Reset", v["replays"]),
        _line(1, "Performance State", v["pstate"]),
        _line(1, "Clocks Event Reasons"),
        *(_line(2, label, _state(v, name)) for name, label, _ in REASONS),
        _line(1, "Clocks Event Reasons Counters"), _line(2, "SW Power Capping", "25483123456 us"),
        _line(1, "FB Memory Usage"), _line(2, "Total", v["total"]), _line(2, "Used", v["used"]),
        _line(1, "BAR1 Memory Usage"), _line(2, "Total", "65536 MiB"), _line(2, "Used", "1 MiB"),
        _line(1, "Utilization"), _line(2, "GPU", v["util"]), _line(2, "Memory", "9 %"),
        _line(1, "ECC Errors"), _line(2, "Volatile"), _line(3, "SRAM Uncorrectable", "N/A"),
        _line(3, "DRAM Uncorrectable", v["unc"]),
        _line(2, "Aggregate"), _line(3, "DRAM Uncorrectable", "77"),
        rows,
        _line(1, "Temperature"), _line(2, "GPU Current Temp", v["temp"]),
        _line(1, "GPU Power Readings"), _line(2, "Average Power Draw", v["draw"]),
        _line(2, "Current Power Limit", v["limit"]), _line(2, "Default Power Limit", v["default"]),
        _line(1, "Module Power Readings"), _line(2, "Current Power Limit", "N/A"),
        _line(1, "Clocks"), _line(2, "SM", v["sm"]), _line(2, "Memory", v["mem"]),
        _line(1, "Max Clocks"), _line(2, "SM", v["max_sm"]), _line(2, "Memory", v["max_mem"]),
    ])  # fmt: skip


def text(cards: Sequence[Values]) -> str:
    """`nvidia-smi -q`."""
    head = "==============NVSMI LOG==============\n\n"
    head += _line(0, "Driver Version", "580.65.06") + _line(0, "CUDA Version", "13.0")
    return head + f"Attached GPUs : {len(cards)}\n" + "".join(_text_card(v) for v in cards)


COLUMNS = {
    "index": "index",
    "name": "name",
    "pci.bus_id": "bus",
    "driver_version": "driver",
    "memory.total [MiB]": "total",
    "memory.used [MiB]": "used",
    "pstate": "pstate",
    "utilization.gpu [%]": "util",
    "temperature.gpu": "temp",
    "power.draw [W]": "draw",
    "power.limit [W]": "limit",
    "power.default_limit [W]": "default",
    "clocks.sm [MHz]": "sm",
    "clocks.mem [MHz]": "mem",
    "clocks.max.sm [MHz]": "max_sm",
    "clocks.max.mem [MHz]": "max_mem",
    "pcie.link.gen.current": "gen",
    "pcie.link.gen.max": "gen_max",
    "pcie.link.gen.gpumax": "gen_device",
    "pcie.link.gen.hostmax": "gen_host",
    "pcie.link.width.current": "width",
    "pcie.link.width.max": "width_max",
    "mig.mode.current": "mig",
    "persistence_mode": "persistence",
    "ecc.errors.uncorrected.volatile.total": "unc",
    "remapped_rows.uncorrectable": "rows",
    "remapped_rows.pending": "pending",
    "remapped_rows.failure": "failure",
    "pci.device_id": "device",
    "clocks_event_reasons.active": "active",
}


def _cell(v: Values, key: str, index: int) -> str:
    masks = {name: mask for name, _, mask in REASONS}
    special = {
        "index": str(index),
        "driver": "580.65.06",
        "bus": f"00000000:{v['bus']}:00.0",
        "device": f"0x{v['device']}",
        "active": f"0x{sum(masks[name] for name in v['active'].split()):016x}",
    }
    value = special.get(key) or v[key]
    return f"[{value}]" if value in ("N/A", "Not Supported") else value


def csv(cards: Sequence[Values], *columns: str) -> str:
    """`nvidia-smi --query-gpu` with these columns, or with all."""
    chosen = columns or tuple(COLUMNS)
    lines = [", ".join(_cell(v, COLUMNS[c], n) for c in chosen) for n, v in enumerate(cards)]
    return "\n".join([", ".join(chosen), *lines]) + "\n"


def table(cards: Sequence[Values]) -> str:
    """`nvidia-smi` without arguments."""
    rule = "+-----------------------------------------+------------------------+-----------+\n"
    rows = ""
    for n, v in enumerate(cards):
        power = f"{v['draw'].split('.')[0]}W / {v['limit'].split('.')[0]:>4}W"
        memory = (
            f"{v['used'].replace(' ', '')} / {v['total'].replace(' ', '')}"
            if v["total"] != "Not Supported"
            else "Not Supported"
        )
        state = "On" if v["persistence"] == "Enabled" else "Off"
        rows += (
            f"| {n:3d}  {v['name'][:27]:<27} {state:>5}  | 00000000:{v['bus']}:00.0 Off |"
            f" {v['unc']:>20} |\n"
            f"| N/A  {v['temp'].replace(' ', '')}    {v['pstate']}   {power:>14} |"
            f" {memory:>22} | {v['util'].replace(' ', ''):>7}      Default |\n"
            f"|                                         |                        |"
            f" {v['mig']:>20} |\n" + rule
        )
    return (
        "Tue Jul 14 08:12:38 2026\n" + rule
        + "| NVIDIA-SMI 580.65.06     Driver Version: 580.65.06     CUDA Version: 13.0     |\n"
        + rule + rows
        + "| Processes:                                                                   |\n"
        + "|    0   N/A  N/A            2165    C+G   /usr/bin/kwin_wayland        25MiB |\n"
    )  # fmt: skip


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
