"""`nvidia-smi -q`: a tree by indentation, and the table of `nvidia-smi` without arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.checks.gpu.nvidia_smi_fields import LINE_LIMIT, REASON, Record, renamed

_CARD = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_LINE = re.compile(r"( *)(\S.*?)(?: *: (.*)| +:|)\s*$")
_MIG = "MIG Device/"

_PATHS = {
    "Product Name": "name",
    "PCI/Device Id": "pci.device_id",
    "PCI/Sub System Id": "pci.sub_device_id",
    "FB Memory Usage": "memory.total",
    "FB Memory Usage/Total": "memory.total",
    "FB Memory Usage/Used": "memory.used",
    "Clocks/Memory": "clocks.mem",
    "Clocks/SM": "clocks.sm",
    "Max Clocks/Memory": "clocks.max.mem",
    "Max Clocks/SM": "clocks.max.sm",
    "Performance State": "pstate",
    "Utilization/Gpu": "utilization.gpu",
    "Utilization/GPU": "utilization.gpu",
    "Temperature/GPU Current Temp": "temperature.gpu",
    "Power Readings/Power Limit": "power.limit",
    "Power Readings/Power Draw": "power.draw",
    "Power Readings/Enforced Power Limit": "power.limit",
    "Power Readings/Default Power Limit": "power.default_limit",
    "GPU Power Readings/Instantaneous Power Draw": "power.draw",
    "GPU Power Readings/Average Power Draw": "power.draw",
    "GPU Power Readings/Power Draw": "power.draw",
    "GPU Power Readings/Current Power Limit": "power.limit",
    "GPU Power Readings/Default Power Limit": "power.default_limit",
    "Remapped Rows": "remapped_rows.pending",
    "Remapped Rows/Uncorrectable Error": "remapped_rows.uncorrectable",
    "Remapped Rows/Pending": "remapped_rows.pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows.failure",
    "PCI/GPU Link Info/PCIe Generation/Current": "pcie.link.gen.current",
    "PCI/GPU Link Info/PCIe Generation/Max": "pcie.link.gen.max",
    "PCI/GPU Link Info/PCIe Generation/Device Max": "pcie.link.gen.gpumax",
    "PCI/GPU Link Info/PCIe Generation/Host Max": "pcie.link.gen.hostmax",
    "PCI/GPU Link Info/Link Width/Current": "pcie.link.width.current",
    "PCI/GPU Link Info/Link Width/Max": "pcie.link.width.max",
    "PCI/Replays Since Reset": "pcie.replays",
    "MIG Mode/Current": "mig.mode.current",
    "Persistence Mode": "persistence_mode",
    "GPU Virtualization Mode/Virtualization Mode": "gpu_virtualization_mode",
    "GPU Virtualization Mode/Virtualization mode": "gpu_virtualization_mode",
}
"""Where a line stands in a card -> query name; see renamed for two with one name."""

_REASON = re.compile(r"Clocks (?:Event|Throttle) Reasons/(?:HW Slowdown/)?([^/]+)")
_REASON_NAMES = {"idle": "gpu_idle", "display_clock_setting": "display_clocks_setting"}
_ECC = re.compile(
    r"ECC Errors/Volatile/(?:(?:SRAM|DRAM) (Unc|C)orrectable.*|(Single|Double) Bit/Total)"
)

_ADDRESS = r"(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
_ROW_1 = re.compile(
    rf"\|\s*(?P<index>\d{{1,3}})\s+(?P<name>\S.*?)\s+(?P<persistence>On|Off|N/A)\s*\|\s*{_ADDRESS}"
    r"\s+\S+\s*\|\s*(?P<ecc>\S+)\s*\|"
)
_ROW_2 = re.compile(
    r"\|\s*\S+\s+(?P<temperature>\S+)\s+(?P<pstate>\S+)\s+(?P<draw>\S+)\s*/\s*(?P<limit>\S+)\s*\|"
    r"\s*(?:(?P<used>\S+)\s*/\s*(?P<total>\S+)|(?P<memory>[^|]+?))\s*\|\s*(?P<busy>\S+)"
)
_ROW_3 = re.compile(r"\|[\s|]*(?P<mig>Enabled|Disabled|N/A)\s*\|")
_VERSIONS = re.compile(r"Driver Version: (\S+)(?:\s+CUDA Version: (\S+))?")


def short_lines(text: str) -> list[str]:
    """The lines that nvidia-smi may have printed."""
    return [line for line in text.splitlines() if len(line) <= LINE_LIMIT]


def parse(text: str) -> Iterator[Record]:
    """The cards of `nvidia-smi -q`, in the order in which they were printed."""
    head: Record = {}
    card: Record | None = None
    stack: list[tuple[int, str]] = []
    count = 0
    for line in short_lines(text):
        if match := _CARD.match(line):
            if card is not None:
                yield _record(card, head)
            card, stack = {"pci.bus_id": match[1], "index": str(count)}, []
            count += 1
        elif (match := _LINE.match(line)) and line.strip():
            indent, key, value = len(match[1]), match[2], match[3]
            if card is None:
                head[key] = value or ""
                continue
            stack = [level for level in stack if level[0] < indent]
            path = "/".join([*(name for _, name in stack), key])
            stack.append((indent, key))
            if value is not None and not path.startswith(_MIG):
                card.setdefault(path, value.strip())
    if card is not None:
        yield _record(card, head)


def _record(card: Record, head: Record) -> Record:
    record = renamed(card, _PATHS)
    record |= {name: card[name] for name in ("pci.bus_id", "index")}
    record["driver_version"] = head.get("Driver Version", "")
    record["cuda_version"] = head.get("CUDA Version", "")
    sums: dict[str, int] = {}
    for path, text in card.items():
        if match := _REASON.fullmatch(path):
            name = match[1].strip().casefold().replace(" ", "_")
            record[REASON + _REASON_NAMES.get(name, name)] = text
        elif (match := _ECC.fullmatch(path)) and text.isdigit() and len(text) <= 18:
            name = "uncorrected" if match[1] == "Unc" or match[2] == "Double" else "corrected"
            sums[name] = sums.get(name, 0) + int(text)
    return record | {f"ecc.{name}": str(total) for name, total in sums.items()}


def parse_table(text: str) -> Iterator[Record]:
    """The cards of the table; its MIG and process tables have other columns and are passed over."""
    versions = _VERSIONS.search(text)
    head = {"driver_version": versions[1], "cuda_version": versions[2] or ""} if versions else {}
    lines = short_lines(text)
    for number, line in enumerate(lines):
        first = _ROW_1.match(line)
        if first is None:
            continue
        yield {
            **head,
            "index": first["index"],
            "name": first["name"],
            "persistence_mode": first["persistence"],
            "pci.bus_id": first["address"],
            **({"ecc.uncorrected": first["ecc"]} if first["ecc"].isdigit() else {}),
            **_second_row(lines[number + 1 : number + 2]),
            **_third_row(lines[number + 2 : number + 3]),
        }


def _second_row(lines: list[str]) -> Record:
    match = _ROW_2.match(lines[0]) if lines else None
    if match is None:
        return {}
    return {
        "temperature.gpu": match["temperature"],
        "pstate": match["pstate"],
        "power.draw": match["draw"],
        "power.limit": match["limit"],
        "memory.total": match["total"] or match["memory"],
        "memory.used": match["used"] or match["memory"],
        "utilization.gpu": match["busy"],
    }


def _third_row(lines: list[str]) -> Record:
    match = _ROW_3.match(lines[0]) if lines else None
    return {"mig.mode.current": match["mig"]} if match else {}
