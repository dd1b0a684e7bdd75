"""Prints cards as `nvidia-smi -q`, `--query-gpu` and the plain table do."""

from __future__ import annotations

from collections.abc import Sequence

from tests.checks.gpu.printed import (
    BANKS,
    COUNTERS,
    CUDA,
    DRIVER,
    FAILING,
    REASONS,
    Values,
    bank_counts,
    health,
    held_mask,
    instances,
    lanes,
    programs,
    state,
    total,
)


def _line(depth: int, key: str, value: str | None = None) -> str:
    indent = " " * (4 * depth)
    return f"{indent}{key}\n" if value is None else f"{indent}{key:<{50 - 4 * depth}} : {value}\n"


def _section(depth: int, title: str, **lines: str) -> str:
    """A section whose keys are words with _ for spaces."""
    inner = (_line(depth + 1, key.replace("_", " "), value) for key, value in lines.items())
    return _line(depth, title) + "".join(inner)


def _instances(v: Values) -> str:
    return "".join(
        _section(1, "MIG Device", Index="0", GPU_Instance_ID=gi, Compute_Instance_ID=ci)
        + _section(2, "ECC Errors") + _section(3, "Volatile", SRAM_Uncorrectable="9")
        + _section(2, "Shared FB Memory Usage", Total=size, Reserved="0 MiB", Used=used)
        + _section(2, "Shared BAR1 Memory", Total="1 MiB")
        for gi, ci, size, used in instances(v)
    )  # fmt: skip


def _ecc(v: Values) -> str:
    def scope(title: str, dram: str, sram: str, correctable: str) -> str:
        lines = {
            "SRAM Correctable": v["zero"],
            "SRAM Uncorrectable Parity": v[sram],
            "SRAM Uncorrectable SEC-DED": v["zero"],
            "DRAM Correctable": v[correctable],
            "DRAM Uncorrectable": v[dram],
        }
        return _section(2, title, **lines)

    return (
        _section(1, "ECC Mode", Current=v["ecc"], Pending=v["ecc_pending"])
        + _line(1, "ECC Errors")
        + scope("Volatile", "unc", "sram", "corr")
        + scope("Aggregate", "agg_unc", "agg_sram", "agg_corr")
        + _line(3, "SRAM Threshold Exceeded", v["threshold"])
        + _section(2, "Aggregate Uncorrectable SRAM Sources", SRAM_L2="7")
    )


def _rows(v: Values) -> str:
    if v["pending"] == "N/A":
        return _line(1, "Remapped Rows", "N/A")
    return _section(
        1,
        "Remapped Rows",
        Correctable_Error=v["rows_corr"],
        Inactive_Correctable_Error="5",
        Uncorrectable_Error=v["rows"],
        Pending=v["pending"],
        Remapping_Failure_Occurred=v["failure"],
    ) + _section(
        2,
        "Bank Remap Availability Histogram",
        **{kind.capitalize(): f"{n} bank(s)" for kind, n in bank_counts(v).items()},
    )


def _temperature(v: Values) -> str:
    word = " Temp" if v["shutdown"] else " T.Limit Temp"
    at = "" if v["shutdown"] else "_margin"
    lines = {
        "GPU Current Temp": v["temp"],
        "GPU T.Limit Temp": v["margin"],
        f"GPU Shutdown{word}": v[f"shutdown{at}"],
        f"GPU Slowdown{word}": v[f"slowdown{at}"],
        f"GPU Max Operating{word}": v[f"gpu_max{at}"],
        "GPU Target Temperature": "83 C",
        "Memory Current Temp": v["mem_temp"],
        f"Memory Max Operating{word}": v[f"mem_max{at}"],
    }
    return _section(1, "Temperature", **lines)


def _programs(v: Values) -> str:
    if not v["processes"]:
        return _line(1, "Processes", "None")
    return _line(1, "Processes") + "".join(
        _line(2, "GPU instance ID", "N/A") + _line(2, "Compute instance ID", "N/A")
        + _line(2, "Process ID", pid) + _line(3, "Type", kind) + _line(3, "Name", name)
        + _line(3, "Used GPU Memory", memory)
        for pid, kind, memory, name in programs(v)
    )  # fmt: skip


def _text_card(v: Values) -> str:
    identity = {
        "Product Name": v["name"], "Display Mode": "Enabled", "Display Active": v["display"],
        "Persistence Mode": v["persistence"],
    }  # fmt: skip
    numbers = {
        "Serial Number": v["serial"], "GPU UUID": v["uuid"], "Minor Number": "0",
        "VBIOS Version": v["vbios"],
    }  # fmt: skip
    limits = {
        "Current Power Limit": v["limit"], "Requested Power Limit": v["requested"],
        "Default Power Limit": v["default"], "Min Power Limit": v["min_limit"],
        "Max Power Limit": v["max_limit"],
    }  # fmt: skip
    return "".join([
        f"GPU 00000000:{v['bus']}:00.0\n",
        *(_line(1, key, value) for key, value in identity.items()),
        _section(1, "MIG Mode", Current=v["mig"], Pending=v["mig_pending"]), _instances(v),
        *(_line(1, key, value) for key, value in numbers.items()),
        _section(1, "GPU Virtualization Mode", Virtualization_Mode=v["virtualisation"]),
        _line(1, "GPU Recovery Action", v["recovery"]),
        _section(1, "PCI", Bus="0x01", Device_Id=f"0x{v['device']}",
                 Sub_System_Id=f"0x{v['subsystem']}"),
        _line(2, "GPU Link Info"),
        _section(3, "PCIe Generation", Max=v["gen_max"], Current=v["gen"],
                 Device_Current=v["gen"], Device_Max=v["gen_device"], Host_Max=v["gen_host"]),
        _section(3, "Link Width", Max=lanes(v["width_max"]), Current=lanes(v["width"])),
        _line(2, "Replays Since Reset", v["replays"]),
        _line(2, "Replay Number Rollovers", v["rollovers"]),
        _line(2, "Tx Throughput", v["tx"]), _line(2, "Rx Throughput", v["rx"]),
        _line(1, "Performance State", v["pstate"]),
        _line(1, "Clocks Event Reasons"),
        *(_line(2, label, state(v, name)) for name, label, _ in REASONS),
        _line(1, "Clocks Event Reasons Counters"),
        *(_line(2, label, v[f"held_{name}"]) for name, _, label in COUNTERS),
        _section(1, "FB Memory Usage", Total=v["total"], Reserved="609 MiB", Used=v["used"]),
        _section(1, "BAR1 Memory Usage", Total=v["bar1"], Used="1 MiB"),
        _section(1, "Conf Compute Protected Memory Usage", Total=v["protected"]),
        _line(1, "Compute Mode", v["compute_mode"]),
        _section(1, "Utilization", GPU=v["util"], Memory="9 %"),
        _ecc(v),
        _section(1, "Retired Pages", Single_Bit_ECC=v["sbe"], Double_Bit_ECC=v["dbe"],
                 Pending_Page_Blacklist=v["page_pending"]),
        _rows(v), _temperature(v),
        _section(1, "GPU Power Readings", Instantaneous_Power_Draw=v["instant"],
                 Average_Power_Draw=v["draw"], **limits),
        _section(1, "GPU Memory Power Readings ", Average_Power_Draw="N/A"),
        _section(1, "Module Power Readings", **dict.fromkeys(limits, "N/A")),
        _section(1, "Clocks", Graphics="1 MHz", SM=v["sm"], Memory=v["mem"]),
        _section(1, "Applications Clocks", Memory="Requested functionality has been deprecated"),
        _section(1, "Max Clocks", SM=v["max_sm"], Memory=v["max_mem"]),
        _section(1, "Fabric", State=v["fabric_state"], Status=v["fabric_status"], CliqueId="N/A"),
        _section(2, "Health", **health(v)),
        _programs(v),
        _section(1, "Capabilities", EGM="disabled"),
    ])  # fmt: skip


def text(cards: Sequence[Values]) -> str:
    """`nvidia-smi -q`."""
    head = "\n==============NVSMI LOG==============\n\n"
    head += _line(0, "Timestamp", "Tue Jul 14 08:12:38 2026")
    head += _line(0, "Driver Version", DRIVER) + _line(0, "CUDA Version", CUDA)
    head += "\n" + _line(0, "Attached GPUs", str(len(cards)))
    return head + "\n".join(_text_card(v) for v in cards) + "\n"


COLUMNS = {
    "index": "index",
    "name": "name",
    "uuid": "uuid",
    "serial": "serial",
    "vbios_version": "vbios",
    "pci.bus_id": "bus",
    "driver_version": "driver",
    "compute_cap": "cap",
    "compute_mode": "compute_mode",
    "display_active": "display",
    "memory.total [MiB]": "total",
    "memory.used [MiB]": "used",
    "protected_memory.total [MiB]": "protected",
    "pstate": "pstate",
    "utilization.gpu [%]": "util",
    "temperature.gpu": "temp",
    "temperature.gpu.tlimit": "margin",
    "temperature.memory": "mem_temp",
    "power.draw [W]": "draw",
    "enforced.power.limit [W]": "limit",
    "power.limit [W]": "requested",
    "power.default_limit [W]": "default",
    "power.min_limit [W]": "min_limit",
    "power.max_limit [W]": "max_limit",
    "clocks.current.sm [MHz]": "sm",
    "clocks.current.memory [MHz]": "mem",
    "clocks.max.sm [MHz]": "max_sm",
    "clocks.max.memory [MHz]": "max_mem",
    "pcie.link.gen.current": "gen",
    "pcie.link.gen.max": "gen_max",
    "pcie.link.gen.gpumax": "gen_device",
    "pcie.link.gen.hostmax": "gen_host",
    "pcie.link.width.current": "width",
    "pcie.link.width.max": "width_max",
    "mig.mode.current": "mig",
    "mig.mode.pending": "mig_pending",
    "persistence_mode": "persistence",
    "ecc.mode.current": "ecc",
    "ecc.mode.pending": "ecc_pending",
    "ecc.errors.corrected.volatile.total": "corr",
    "ecc.errors.corrected.aggregate.total": "agg_corr",
    "ecc.errors.uncorrected.volatile.total": "all_unc",
    "ecc.errors.uncorrected.aggregate.total": "all_agg_unc",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "threshold",
    "retired_pages.single_bit_ecc.count": "sbe",
    "retired_pages.double_bit.count": "dbe",
    "retired_pages.pending": "page_pending",
    "remapped_rows.correctable": "rows_corr",
    "remapped_rows.uncorrectable": "rows",
    "remapped_rows.pending": "pending",
    "remapped_rows.failure": "failure",
    **{f"remapped_rows.histogram.{kind}": f"bank_{kind}" for kind in BANKS},
    "gpu_recovery_action": "recovery",
    "pci.device_id": "device",
    "pci.sub_device_id": "subsystem",
    "clocks_event_reasons.active": "active",
    **{
        f"clocks_event_reasons_counters.{name} [us]": f"held_{name}" for name, _, _ in COUNTERS
    },
    "fabric.state": "fabric_state",
    "fabric.status": "fabric_status",
}  # fmt: skip


def _cell(v: Values, key: str, index: int) -> str:
    special = {
        "index": str(index),
        "driver": DRIVER,
        "bus": f"00000000:{v['bus']}:00.0",
        "device": f"0x{v['device']}",
        "subsystem": f"0x{v['subsystem']}",
        "active": held_mask(v),
        "temp": v["temp"].removesuffix(" C"),
        "margin": v["margin"].removesuffix(" C"),
        "mem_temp": v["mem_temp"].removesuffix(" C"),
        "all_unc": total(v, "unc", "sram"),
        "all_agg_unc": total(v, "agg_unc", "agg_sram"),
        **{f"bank_{kind}": n for kind, n in bank_counts(v).items()},
    }
    value = special.get(key) or v[key]
    return f"[{value}]" if value in FAILING else value


def csv(cards: Sequence[Values], *columns: str) -> str:
    """`nvidia-smi --query-gpu` with these columns, or with all."""
    chosen = columns or tuple(COLUMNS)
    lines = [", ".join(_cell(v, COLUMNS[c], n) for c in chosen) for n, v in enumerate(cards)]
    return "\n".join([", ".join(chosen), *lines]) + "\n"


_RULE = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+\n"
_WIDE = "+" + "-" * 89 + "+\n"


def _on(word: str) -> str:
    return {"Enabled": "On", "Disabled": "Off"}.get(word) or _short(word)


def _short(text: str) -> str:
    """`270.00 W` as `270W`, `5 MiB` as `5MiB`; words as they are, or ERR! for a failure."""
    number, _, unit = text.partition(" ")
    if number.replace(".", "").isdigit():
        return f"{float(number):.0f}{unit}"
    return "N/A" if text in ("N/A", "Not Supported") else "ERR!"


def _table_ecc(v: Values) -> str:
    """MIG hides the count behind the mode."""
    if v["ecc"] != "Enabled" or v["mig"] == "Enabled":
        return _on(v["ecc"])
    return total(v, "unc", "sram")


def _cut(name: str) -> str:
    return name if len(name) <= 27 else f"{name[:24]}..."


def _table_card(n: int, v: Values) -> str:
    power = f"{_short(v['draw'])} / {_short(v['limit']):>5}"
    memory = f"{_short(v['used'])} / {_short(v['total']):>9}"
    if v["total"] == "Not Supported":
        memory = v["total"]
    pstate = _short(v["pstate"]) if v["pstate"] in FAILING else v["pstate"]
    mode = {"Exclusive_Process": "E. Process"}.get(v["compute_mode"], v["compute_mode"])
    mode, mig = (_short(word) if word in FAILING else word for word in (mode, v["mig"]))
    address = f"00000000:{v['bus']}:00.0 {_on(v['display']):>3}"
    return (
        f"| {n:3d}  {_cut(v['name']):<27} {_on(v['persistence']):>5}  | {address:>22} |"
        f" {_table_ecc(v):>20} |\n"
        f"| N/A  {_short(v['temp'])}   {pstate}  {power:>21} |"
        f" {memory:>22} | {_short(v['util']):>7}  {mode:>11} |\n"
        f"|{'':41}|{'':24}| {mig:>20} |\n" + _RULE
    )


def table(cards: Sequence[Values]) -> str:
    """`nvidia-smi` without arguments."""
    made = "".join(
        f"|  {n}  {gi:>3}  {ci:>2}   0  | {used.replace(' ', ''):>16} / "
        f"{size.replace(' ', '')}    | 14      9 |  1   0    1    0    0 |\n"
        f"|                  |            0MiB /     1MiB    |           |                 |\n"
        for n, v in enumerate(cards)
        for gi, ci, size, used in instances(v)
    )
    running = "".join(
        f"| {n:4}   N/A  N/A {pid:>15} {kind:>6}   {name:<38} {memory.replace(' ', ''):>9} |\n"
        for n, v in enumerate(cards)
        for pid, kind, memory, name in programs(v)
    )
    return (
        "Tue Jul 14 08:12:38 2026\n" + _RULE
        + f"| NVIDIA-SMI {DRIVER}     Driver Version: {DRIVER}     CUDA Version: {CUDA}     |\n"
        + _RULE
        + "| GPU  Name             Persistence-M | Bus-Id         Disp.A | Volatile Uncorr. ECC |\n"
        + "".join(_table_card(n, v) for n, v in enumerate(cards))
        + (f"\n{_WIDE}| MIG devices:\n| GPU  GI  CI  MIG |  Memory-Usage |\n{made}" if made else "")
        + "\n" + _WIDE + f"| {'Processes:':<87} |\n"
        + f"| {' GPU   GI   CI              PID   Type   Process name':<87} |\n"
        + (running or f"| {' No running processes found':<87} |\n") + _WIDE
    )  # fmt: skip
