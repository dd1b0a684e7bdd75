"""`nvidia-smi -q -x`: XML of several DTD versions, which differ in names and depth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast
from xml.etree import ElementTree

from nodecheck.checks.gpu.nvidia_smi_fields import REASON, Record, renamed

DEPTH_LIMIT = 16
ELEMENTS_LIMIT = 50_000

_LINK = "pci/pci_gpu_link_info"
_PATHS = {
    "product_name": "name",
    "pci/pci_device_id": "pci.device_id",
    "pci/pci_sub_system_id": "pci.sub_device_id",
    "fb_memory_usage": "memory.total",
    "fb_memory_usage/total": "memory.total",
    "fb_memory_usage/used": "memory.used",
    "clocks/mem_clock": "clocks.mem",
    "clocks/sm_clock": "clocks.sm",
    "max_clocks/mem_clock": "clocks.max.mem",
    "max_clocks/sm_clock": "clocks.max.sm",
    "performance_state": "pstate",
    "utilization/gpu_util": "utilization.gpu",
    "temperature/gpu_temp": "temperature.gpu",
    "power_readings/power_limit": "power.limit",
    "power_readings/power_draw": "power.draw",
    "power_readings/enforced_power_limit": "power.limit",
    "power_readings/default_power_limit": "power.default_limit",
    "gpu_power_readings/instant_power_draw": "power.draw",
    "gpu_power_readings/average_power_draw": "power.draw",
    "gpu_power_readings/power_draw": "power.draw",
    "gpu_power_readings/current_power_limit": "power.limit",
    "gpu_power_readings/default_power_limit": "power.default_limit",
    "remapped_rows": "remapped_rows.pending",
    "remapped_rows/remapped_row_unc": "remapped_rows.uncorrectable",
    "remapped_rows/remapped_row_pending": "remapped_rows.pending",
    "remapped_rows/remapped_row_failure": "remapped_rows.failure",
    f"{_LINK}/pcie_gen/current_link_gen": "pcie.link.gen.current",
    f"{_LINK}/pcie_gen/max_link_gen": "pcie.link.gen.max",
    f"{_LINK}/pcie_gen/max_device_link_gen": "pcie.link.gen.gpumax",
    f"{_LINK}/pcie_gen/max_host_link_gen": "pcie.link.gen.hostmax",
    f"{_LINK}/link_widths/current_link_width": "pcie.link.width.current",
    f"{_LINK}/link_widths/max_link_width": "pcie.link.width.max",
    "pci/replay_counter": "pcie.replays",
    "mig_mode/current_mig": "mig.mode.current",
    "persistence_mode": "persistence_mode",
    "gpu_virtualization_mode/virtualization_mode": "gpu_virtualization_mode",
}
"""Where an element stands in a card -> query name; see renamed for two with one name."""

_REASON = re.compile(r"clocks_(?:event|throttle)_reasons/clocks_(?:event|throttle)_reason_(\w+)")
_ECC = re.compile(
    r"ecc_errors/volatile/(?:(?:sram|dram)_(un)?correctable\w*|(single|double)_bit/total)"
)


class XmlError(ValueError):
    """What stands in the way of reading it to the end, in one line."""


def parse(text: str) -> Iterator[Record]:
    """The cards up to the end or to the first fault, at which XmlError is raised."""
    if re.search(r"<!\s*ENTITY", text, re.IGNORECASE):
        raise XmlError("it declares entities, which nvidia-smi never does")
    head: Record = {}
    count = 0
    for element in _elements(text):
        if element.tag in ("driver_version", "cuda_version"):
            head[element.tag] = (element.text or "").strip()
        if element.tag == "gpu":
            yield {**head, **_record(element), "index": str(count)}
            count += 1
            element.clear()


def _elements(text: str) -> Iterator[ElementTree.Element]:
    """Each element that ends, up to where the text is no XML any more."""
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("end",))
    try:
        parser.feed(text)
        parser.close()
    except ElementTree.ParseError as error:
        fault: str | None = f"not whole: {error}"
    else:
        fault = None
    try:
        for _, element in cast("Iterator[tuple[str, ElementTree.Element]]", parser.read_events()):
            yield element
    except ElementTree.ParseError as error:
        fault = f"not whole: {error}"
    if fault is not None:
        raise XmlError(fault)


def _record(gpu: ElementTree.Element) -> Record:
    flat = dict(_flat(gpu))
    record = renamed(flat, _PATHS)
    record["pci.bus_id"] = gpu.get("id") or flat.get("pci/pci_bus_id", "")
    for path, text in flat.items():
        if match := _REASON.fullmatch(path):
            record[REASON + match[1]] = text
    return record | _ecc_counts(flat)


def _flat(gpu: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """Path under the card -> text, MIG instances left out: their memory is not the card's."""
    stack = [(child, child.tag, 1) for child in gpu if child.tag != "mig_devices"]
    seen = 0
    while stack:
        element, path, depth = stack.pop()
        seen += 1
        if seen > ELEMENTS_LIMIT:
            return
        yield path, (element.text or "").strip()
        if depth < DEPTH_LIMIT:
            stack.extend((child, f"{path}/{child.tag}", depth + 1) for child in element)


def _ecc_counts(flat: Record) -> Record:
    """The volatile counts, summed over the memories that the version at hand tells apart."""
    sums: dict[str, int] = {}
    for path, text in flat.items():
        match = _ECC.fullmatch(path)
        if match is None or not text.isdigit() or len(text) > 18:
            continue
        name = "ecc.uncorrected" if match[1] or match[2] == "double" else "ecc.corrected"
        sums[name] = sums.get(name, 0) + int(text)
    return {name: str(total) for name, total in sums.items()}
