"""Prints cards as nvidia-smi does, in each of its forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

Values = dict[str, str]

BETWEEN = "\0"
"""Between programs, and between instances: no program's name holds it."""

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
FAILING = (
    "N/A",
    "Not Supported",
    "Unknown Error",
    "ERR!",
    "Insufficient Permissions",
    "Requested functionality has been deprecated",
    "GPU requires reset",
)
"""What stands in the place of a value."""

COUNTERS = (
    ("sw_power_cap", "sw_power_cap", "SW Power Capping"),
    ("sync_boost", "sync_boost", "Sync Boost"),
    ("sw_thermal_slowdown", "sw_therm_slowdown", "SW Thermal Slowdown"),
    ("hw_thermal_slowdown", "hw_therm_slowdown", "HW Thermal Slowdown"),
    ("hw_power_brake_slowdown", "hw_power_brake", "HW Power Braking"),
)
HEALTH = (
    "Summary", "Bandwidth", "Route Recovery in progress", "Route Unhealthy",
    "Access Timeout Recovery", "Incorrect Configuration", "Partition Assigned",
)  # fmt: skip
BANKS = ("max", "high", "partial", "low", "none")
DRIVER, CUDA = "580.95.05", "13.0"


def programs(v: Values) -> Iterator[tuple[str, str, str, str]]:
    """Pid, type, memory and name of each, as they are printed."""
    for line in filter(None, v["processes"].split(BETWEEN)):
        pid, kind, memory, name = line.split("|", 3)
        yield pid, kind, memory, name


def instances(v: Values) -> Iterator[list[str]]:
    """GPU instance, compute instance, total and used of each, as they are printed."""
    yield from (line.split("|") for line in filter(None, v["instances"].split(BETWEEN)))


def state(v: Values, reason: str) -> str:
    """Whether a reason holds the clocks, as it is printed."""
    if v["active"] in FAILING:
        return v["active"]
    return "Active" if reason in v["active"].split() else "Not Active"


def held_mask(v: Values) -> str:
    """What holds the clocks, as `--query-gpu` prints it."""
    if v["active"] in FAILING:
        return v["active"]
    masks = {name: mask for name, _, mask in REASONS}
    return f"0x{sum(masks[name] for name in v['active'].split()):016x}"


def lanes(width: str) -> str:
    """`16x`, or a word as it is."""
    return f"{width}x" if width.isdigit() else width


def bank_counts(v: Values) -> dict[str, str]:
    """The banks of each kind."""
    return dict(zip(BANKS, [*v["banks"].split(), *["N/A"] * len(BANKS)], strict=False))


def total(v: Values, *names: str) -> str:
    """The counts added up, or the word in their place."""
    counts = [int(v[name]) for name in names if v[name].isdigit()]
    return str(sum(counts)) if counts else v[names[0]]


def health(v: Values) -> dict[str, str]:
    """The parts of the fabric's health by their names in `-q`."""
    words = dict(part.split("=") for part in v["health"].split(";") if part)
    return {name: words.get(name, "N/A") for name in HEALTH}


def _elements(*named: tuple[str, str]) -> str:
    return "".join(f"<{name}>{text}</{name}>" for name, text in named)


def _xml_power(v: Values, old: bool) -> str:
    shared = (
        ("default_power_limit", v["default"]),
        ("min_power_limit", v["min_limit"]),
        ("max_power_limit", v["max_limit"]),
    )
    if old:
        inner = _elements(
            ("power_state", v["pstate"]), ("power_management", "Supported"),
            ("power_draw", v["draw"]), ("power_limit", v["requested"]),
            ("enforced_power_limit", v["limit"]), *shared,
        )  # fmt: skip
        return f"<power_readings>{inner}</power_readings>"
    none = [(name, "N/A") for name in ("average_power_draw", "current_power_limit")]
    inner = _elements(
        ("power_state", "Requested functionality has been deprecated"),
        ("instant_power_draw", v["instant"]), ("average_power_draw", v["draw"]),
        ("current_power_limit", v["limit"]), ("requested_power_limit", v["requested"]), *shared,
    )  # fmt: skip
    return (
        f"<gpu_power_readings>{inner}</gpu_power_readings>"
        f"<gpu_memory_power_readings>{_elements(*none[:1])}</gpu_memory_power_readings>"
        f"<module_power_readings>{_elements(*none)}</module_power_readings>"
    )


def _xml_ecc(v: Values, old: bool) -> str:
    def scope(dram: str, sram: str, correctable: str) -> str:
        parts = (
            (("sram_uncorrectable", v[sram]),)
            if old
            else (("sram_uncorrectable_parity", v[sram]), ("sram_uncorrectable_secded", v["zero"]))
        )
        return _elements(
            ("sram_correctable", v["zero"]), *parts,
            ("dram_correctable", v[correctable]), ("dram_uncorrectable", v[dram]),
        )  # fmt: skip

    threshold = "" if old else _elements(("sram_threshold_exceeded", v["threshold"]))
    return (
        f"<ecc_mode>{_elements(('current_ecc', v['ecc']), ('pending_ecc', v['ecc_pending']))}"
        f"</ecc_mode><ecc_errors><volatile>{scope('unc', 'sram', 'corr')}</volatile>"
        f"<aggregate>{scope('agg_unc', 'agg_sram', 'agg_corr')}{threshold}</aggregate>"
        "<aggregate_uncorrectable_sram_sources><sram_l2>7</sram_l2>"
        "</aggregate_uncorrectable_sram_sources></ecc_errors>"
    )


def _xml_rows(v: Values) -> str:
    if v["pending"] == "N/A":
        return "<remapped_rows>N/A</remapped_rows>"
    banks = _elements(
        *((f"row_remapper_histogram_{kind}", f"{n} bank(s)") for kind, n in bank_counts(v).items())
    )
    rows = _elements(
        ("remapped_row_corr", v["rows_corr"]), ("remapped_row_unc", v["rows"]),
        ("remapped_row_pending", v["pending"]), ("remapped_row_failure", v["failure"]),
    )  # fmt: skip
    return (
        f"<remapped_rows>{rows}<row_remapper_histogram>{banks}</row_remapper_histogram>"
        "</remapped_rows>"
    )


def _xml_temperature(v: Values) -> str:
    word = "_threshold" if v["shutdown"] else "_tlimit_threshold"
    at = "" if v["shutdown"] else "_margin"
    return "<temperature>{}</temperature>".format(
        _elements(
            ("gpu_temp", v["temp"]), ("gpu_temp_tlimit", v["margin"]),
            (f"gpu_temp_max{word}", v[f"shutdown{at}"]),
            (f"gpu_temp_slow{word}", v[f"slowdown{at}"]),
            (f"gpu_temp_max_gpu{word}", v[f"gpu_max{at}"]),
            ("gpu_target_temperature", "83 C"), ("memory_temp", v["mem_temp"]),
            (f"gpu_temp_max_mem{word}", v[f"mem_max{at}"]),
        )
    )  # fmt: skip


def _xml_lists(v: Values) -> tuple[str, str]:
    made = "".join(
        "<mig_device><index>0</index><gpu_instance_id>{}</gpu_instance_id>"
        "<compute_instance_id>{}</compute_instance_id><ecc_error_count><volatile_count>"
        "<sram_uncorrectable>9</sram_uncorrectable></volatile_count></ecc_error_count>"
        "<fb_memory_usage><total>{}</total><used>{}</used></fb_memory_usage>"
        "<bar1_memory_usage><total>1 MiB</total></bar1_memory_usage></mig_device>".format(*one)
        for one in instances(v)
    )
    running = "".join(
        f"<process_info>\n<gpu_instance_id>N/A</gpu_instance_id>\n<pid>{pid}</pid>\n"
        f"<type>{kind}</type>\n<process_name>{escape(name)}</process_name>\n"
        f"<used_memory>{memory}</used_memory>\n</process_info>\n"
        for pid, kind, memory, name in programs(v)
    )
    return made or "None", running


def _xml_card(v: Values, old: bool) -> str:
    word = "throttle" if old else "event"
    made, running = _xml_lists(v)
    reasons = _elements(
        *((f"clocks_{word}_reason_{name}", state(v, name)) for name, _, _ in REASONS)
    )
    held = "clocks_event_reasons_counters"
    counters = _elements(*((f"{held}_{xml}", v[f"held_{name}"]) for name, xml, _ in COUNTERS))
    ill = [(name.casefold().replace(" ", "_"), word) for name, word in health(v).items()]
    fabric = _elements(("state", v["fabric_state"]), ("status", v["fabric_status"]))
    newer = (
        ""
        if old
        else f"<{held}>{counters}</{held}>"
        f"<gpu_recovery_action>{v['recovery']}</gpu_recovery_action>"
        f"<cc_protected_memory_usage><total>{v['protected']}</total></cc_protected_memory_usage>"
    )
    return f"""<gpu id="00000000:{v["bus"]}:00.0">
<product_name>{v["name"]}</product_name><product_brand>NVIDIA</product_brand>
<display_mode>Enabled</display_mode><display_active>{v["display"]}</display_active>
<persistence_mode>{v["persistence"]}</persistence_mode><mig_mode><current_mig>{v["mig"]}</current_mig>
<pending_mig>{v["mig_pending"]}</pending_mig></mig_mode><mig_devices>{made}</mig_devices>
<serial>{v["serial"]}</serial><uuid>{v["uuid"]}</uuid><vbios_version>{v["vbios"]}</vbios_version>
<gpu_virtualization_mode><virtualization_mode>{v["virtualisation"]}</virtualization_mode>
<host_vgpu_mode>N/A</host_vgpu_mode></gpu_virtualization_mode><pci><pci_bus>{v["bus"]}</pci_bus>
<pci_device_id>{v["device"]}</pci_device_id><pci_bus_id>00000000:{v["bus"]}:00.0</pci_bus_id>
<pci_sub_system_id>{v["subsystem"]}</pci_sub_system_id><pci_gpu_link_info><pcie_gen>
<max_link_gen>{v["gen_max"]}</max_link_gen><current_link_gen>{v["gen"]}</current_link_gen>
<max_device_link_gen>{v["gen_device"]}</max_device_link_gen>
<max_host_link_gen>{v["gen_host"]}</max_host_link_gen></pcie_gen>
<link_widths><max_link_width>{lanes(v["width_max"])}</max_link_width>
<current_link_width>{lanes(v["width"])}</current_link_width></link_widths></pci_gpu_link_info>
<replay_counter>{v["replays"]}</replay_counter>
<replay_rollover_counter>{v["rollovers"]}</replay_rollover_counter>
<tx_util>{v["tx"]}</tx_util><rx_util>{v["rx"]}</rx_util></pci>
<performance_state>{v["pstate"]}</performance_state>
<clocks_{word}_reasons>{reasons}</clocks_{word}_reasons>{newer}
<fb_memory_usage><total>{v["total"]}</total><reserved>609 MiB</reserved><used>{v["used"]}</used>
</fb_memory_usage><bar1_memory_usage><total>{v["bar1"]}</total><used>1 MiB</used>
</bar1_memory_usage><compute_mode>{v["compute_mode"]}</compute_mode>
<utilization><gpu_util>{v["util"]}</gpu_util><memory_util>9 %</memory_util></utilization>
{_xml_ecc(v, old)}<retired_pages><multiple_single_bit_retirement>
<retired_count>{v["sbe"]}</retired_count></multiple_single_bit_retirement><double_bit_retirement>
<retired_count>{v["dbe"]}</retired_count></double_bit_retirement>
<pending_blacklist>{v["page_pending"]}</pending_blacklist>
<pending_retirement>{v["page_pending"]}</pending_retirement></retired_pages>
{_xml_rows(v)}{_xml_temperature(v)}{_xml_power(v, old)}
<clocks><graphics_clock>1 MHz</graphics_clock><sm_clock>{v["sm"]}</sm_clock>
<mem_clock>{v["mem"]}</mem_clock></clocks>
<applications_clocks><mem_clock>Requested functionality has been deprecated</mem_clock>
</applications_clocks>
<max_clocks><sm_clock>{v["max_sm"]}</sm_clock><mem_clock>{v["max_mem"]}</mem_clock></max_clocks>
<fabric>{fabric}{"" if old else f"<health>{_elements(*ill)}</health>"}</fabric>
<processes>
{running}</processes>
<accounted_processes></accounted_processes></gpu>"""


def xml(cards: Sequence[Values], dtd: int = 13) -> str:
    """`nvidia-smi -q -x`; the names of drivers before 530 (DTD 12), or those of today (13)."""
    body = "\n".join(_xml_card(v, dtd < 13) for v in cards)
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{dtd}.dtd">\n'
        f"<nvidia_smi_log><driver_version>{DRIVER}</driver_version>"
        f"<cuda_version>{CUDA}</cuda_version><attached_gpus>{len(cards)}</attached_gpus>\n{body}\n"
        "</nvidia_smi_log>\n"
    )
