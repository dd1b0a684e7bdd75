"""NVML's numbers in words, for what any source tells in them.

Source of all: the constants of nvml.h (r615).
"""

from __future__ import annotations

NEEDS_RESET, NO_POWER, BAD_INFOROM = (
    "GPU requires reset",
    "Insufficient External Power",
    "Corrupted infoROM",
)
LOST = "GPU is lost"
NO_PERMISSION = "Insufficient Permissions"
ERRORS = {
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: NO_PERMISSION,
    6: "Not Found",
    8: NO_POWER,
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    14: BAD_INFOROM,
    15: LOST,
    16: NEEDS_RESET,
    17: "Operating system blocked the request",
    18: "Driver/library version mismatch",
    19: "In use by another client",
    20: "Insufficient memory",
    26: "Requested functionality has been deprecated",
    27: "Not ready",
    999: "Unknown Error",
}
"""nvmlReturn_t -> what NVIDIA's tools print for it."""

COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
VIRTUALISATION = {0: "None", 1: "Pass-Through", 2: "VGPU", 3: "Host VGPU", 4: "Host VSGA"}
RECOVERY_ACTIONS = {
    0: "none",
    1: "reset_gpu",
    2: "reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex",
    6: "reset_bus",
    7: "reboot",
}
LINK_VERSIONS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
"""NVML's code of an NVLink version -> its generation; 2.2 and 3.1 count as 2 and 3."""

LINK_REMOTES = {0: "gpu", 1: "other", 2: "switch"}
FABRIC_STATES = {1: "not_started", 2: "in_progress", 3: "completed"}

_FABRIC_FLAGS = (
    # shift, the value that is bad, its words; 0 is not supported, the third value good
    (0, 1, "bandwidth degraded"),
    (2, 1, "route recovery in progress"),
    (4, 1, "route unhealthy"),
    (6, 1, "access timeout recovery in progress"),
    (12, 2, "partition not assigned"),
    (14, 2, "fabric manager not connected"),
)
_FABRIC_CONFIGURATION = {
    2: "wrong system GUID",
    3: "wrong chassis serial number",
    4: "no partition",
    5: "too few NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
_FABRIC_SUMMARIES = {2: "unhealthy", 3: "limited capacity"}
_CONFIGURATION_SHIFT = 8


def error(code: int) -> str:
    """NVML's words for its error code."""
    return ERRORS.get(code, f"NVML error {code}")


def fabric_problems(mask: int | None, summary: int | None) -> tuple[str, ...]:
    """What a fabric's health mask and summary say is wrong; the summary only where no bit does."""
    bits = mask or 0
    problems = [words for shift, bad, words in _FABRIC_FLAGS if bits >> shift & 0x3 == bad]
    configuration = bits >> _CONFIGURATION_SHIFT & 0xF
    if configuration > 1:
        unknown = f"incorrect configuration {configuration}"
        problems.append(_FABRIC_CONFIGURATION.get(configuration, unknown))
    if not problems and summary in _FABRIC_SUMMARIES:
        problems.append(_FABRIC_SUMMARIES[summary])
    return tuple(problems)


def release_of(nvml_version: str | None) -> str | None:
    """The driver that a library belongs to: 13.580.65.06 -> 580.65.06."""
    if nvml_version is None:
        return None
    interface, _, release = nvml_version.partition(".")
    led = interface.isdecimal() and len(interface) < 3 and "." in release
    return release if led else nvml_version
