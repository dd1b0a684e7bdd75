"""A card's links as NVML tells them: PCIe, NVLink and the fabric of NVSwitches."""

from __future__ import annotations

from typing import Any

import msgspec

from nodecheck.machine.nvml_asking import Fields, Values, calling, code_of, text_of
from nodecheck.machine.nvml_codes import ARGUMENT_VERSION_MISMATCH, NO_SUCH_LINK
from nodecheck.model import Struct

LINKS_LIMIT = 36
"""The most NVLinks of a card. Source: NVML_NVLINK_MAX_LINKS of nvml.h (r615)."""

_SENT, _RECEIVED = 0, 1
_REPLAY, _RECOVERY, _CRC_FLIT, _CRC_DATA = 0, 1, 2, 3

_LINK_IDS = {
    "replay": 161,
    "recovery": 162,
    "crc": 163,
    "speed": 164,
    "failed": 214,
    "recoveries": 215,
}
"""Field values of one link -> NVML's id; from Blackwell on, 215 stands for the first three."""


_COUNTS = ("replay", "recovery", "crc", "failed")


class Link(Struct, frozen=True, kw_only=True):
    """One NVLink in NVML's units: speed in MB/s, version and type of the far end as its codes."""

    number: int
    active: int | None = None
    version: int | None = None
    speed: int | float | None = None
    remote_type: int | None = None
    remote_bus_id: str | None = None
    crc: int | float | None = None
    replay: int | float | None = None
    recovery: int | float | None = None
    failed: int | float | None = None


class FabricState(Struct, frozen=True, kw_only=True):
    """How far a card came in joining its fabric; `health_summary` and mask as NVML packs them."""

    state: int
    status: int
    health_mask: int | None = None
    health_summary: int | None = None


def read_pcie(
    pynvml: Any, handle: Any, fields: Fields, utilisation_percent: int | None
) -> dict[str, Any]:
    """The PCIe link. Traffic is measured only on a card that works: a call takes 20 ms."""

    def number(name: str, function: str, *arguments: int) -> int | None:
        value: int | None = fields.read(name, calling(pynvml, function, handle, *arguments))
        return value

    link = {
        "link_generation": number("PCIe generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
        "link_generation_max": number(
            "maximum PCIe generation", "nvmlDeviceGetMaxPcieLinkGeneration"
        ),
        "link_generation_device_max": number(
            "card's PCIe generation", "nvmlDeviceGetGpuMaxPcieLinkGeneration"
        ),
        "link_width": number("PCIe width", "nvmlDeviceGetCurrPcieLinkWidth"),
        "link_width_max": number("maximum PCIe width", "nvmlDeviceGetMaxPcieLinkWidth"),
        "pcie_replays": number("PCIe replays", "nvmlDeviceGetPcieReplayCounter"),
    }
    if utilisation_percent:
        throughput = "nvmlDeviceGetPcieThroughput"
        link["pcie_sent"] = number("PCIe traffic sent", throughput, _SENT)
        link["pcie_received"] = number("PCIe traffic received", throughput, _RECEIVED)
    return link


def read_links(pynvml: Any, handle: Any, fields: Fields, values: Values) -> tuple[Link, ...] | None:
    """The NVLinks; () for a card without any, None where that is not known."""
    states = _states(pynvml, handle, fields, values.get("NVLink count"))
    if not states:
        return states if states is None else ()
    wanted = {
        (number, name): (field, number) for number in states for name, field in _LINK_IDS.items()
    }
    answers = fields.attempt_values("NVLink fields", handle, wanted)
    links = []
    for number, active in states.items():
        told = {n: value for n in _LINK_IDS if (value := answers[number, n][0]) is not None}
        ask = _AskedLink(pynvml, handle, fields, number)
        links.append(_link(ask, active, told, values.get("common NVLink speed")))
    return tuple(links)


def _states(
    pynvml: Any, handle: Any, fields: Fields, count: float | None
) -> dict[int, int | None] | None:
    """Which links there are, and whether each is active; None where that is not known.

    Without a count the links are asked one after the other until there is no such link.
    """
    states: dict[int, int | None] = {}
    for number in range(LINKS_LIMIT if count is None else min(int(count), LINKS_LIMIT)):
        active, refused = fields.attempt(
            f"state of NVLink {number}",
            calling(pynvml, "nvmlDeviceGetNvLinkState", handle, number),
        )
        if count is None and refused in NO_SUCH_LINK:
            break
        if count is None and refused is not None:
            fields.note("NVLinks", refused)
            return None
        states[number] = active
    return states


class _AskedLink:
    """Asks functions about one link; what is refused is None, and not noted link by link."""

    def __init__(self, pynvml: Any, handle: Any, fields: Fields, number: int) -> None:
        self._pynvml, self._handle, self._fields = pynvml, handle, fields
        self.number = number

    def __call__(self, name: str, function: str, *arguments: int) -> Any:
        value, _ = self._fields.attempt(
            f"{name} of NVLink {self.number}",
            calling(self._pynvml, function, self._handle, self.number, *arguments),
        )
        return value


def _link(ask: _AskedLink, active: int | None, told: Values, common_speed: float | None) -> Link:
    """One link; only an active one has a version, a speed and a far end."""
    counts: Values = {name: told[name] for name in _COUNTS if name in told}
    if "recoveries" in told:
        counts.setdefault("recovery", told["recoveries"])
    if active and not counts:
        counts = _old_counts(ask)
    link = Link(
        number=ask.number,
        active=active,
        crc=counts.get("crc"),
        replay=counts.get("replay"),
        recovery=counts.get("recovery"),
        failed=counts.get("failed"),
    )
    if not active:
        return link
    pci = ask("far end", "nvmlDeviceGetNvLinkRemotePciInfo")
    return msgspec.structs.replace(
        link,
        version=ask("version", "nvmlDeviceGetNvLinkVersion"),
        speed=told.get("speed", common_speed),
        remote_type=ask("type of the far end", "nvmlDeviceGetNvLinkRemoteDeviceType"),
        remote_bus_id=text_of(getattr(pci, "busId", None)),
    )


def _old_counts(ask: _AskedLink) -> Values:
    """The error counts of drivers that have no field values for them."""
    function = "nvmlDeviceGetNvLinkErrorCounter"
    replay, recovery = ask("replays", function, _REPLAY), ask("recoveries", function, _RECOVERY)
    crc = [ask("CRC errors", function, kind) for kind in (_CRC_FLIT, _CRC_DATA)]
    counts = {
        "replay": replay,
        "recovery": recovery,
        "crc": sum(count or 0 for count in crc) if crc != [None, None] else None,
    }
    return {name: count for name, count in counts.items() if count is not None}


def read_fabric(pynvml: Any, handle: Any, fields: Fields) -> FabricState | None:
    """The card's part in a fabric; None where there is no such thing or it is not known."""
    state: FabricState | None = fields.read(
        "fabric state",
        lambda: _newest_fabric(pynvml, handle),
        lambda: _fabric(pynvml, handle, "c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
    )
    return state


def _newest_fabric(pynvml: Any, handle: Any) -> FabricState:
    """In the layout that driver and binding know: the third, else the second."""
    function = "nvmlDeviceGetGpuFabricInfoV"
    if hasattr(pynvml, "c_nvmlGpuFabricInfo_v3_t"):
        try:
            return _fabric(pynvml, handle, "c_nvmlGpuFabricInfo_v3_t", function)
        except pynvml.NVMLError as error:
            if code_of(error) != ARGUMENT_VERSION_MISMATCH:
                raise
    return _fabric(pynvml, handle, "c_nvmlGpuFabricInfo_v2_t", function)


def _fabric(pynvml: Any, handle: Any, layout: str, function: str) -> FabricState:
    from ctypes import byref  # pynvml has loaded it

    info = getattr(pynvml, layout)()
    getattr(pynvml, function)(handle, byref(info))
    return FabricState(
        state=int(info.state) & 0xFF,  # one byte in nvml.h; the binding reads its padding too
        status=int(info.status),
        health_mask=getattr(info, "healthMask", None),
        health_summary=getattr(info, "healthSummary", None),
    )
