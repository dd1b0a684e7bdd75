"""The NVIDIA driver's Xid numbers: what each means and what it asks for.

After NVIDIA's Xid catalogue and the driver's own header, in our own words. Severity is what one
current event asks the operator to do. An unknown number is neither healthy nor a fault.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nodecheck.checks.gpu.nvml_words import RECOVERY_ACTIONS
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.model import Action, Severity

FALLEN_OFF, ROW_REMAPPED, REMAP_FAILED, RECOVERY_ACTION = 79, 63, 64, 154
CLEAN_UP = 45
MEMORY_CODES = (48, 95, 140, 171, 172)
"""Uncorrectable memory errors: the ECC counters count the same events."""

NVLINK_CODES = (74, 136, *range(144, 151), 155)
"""Events of a card's NVLinks."""

_LINK_EVENT = 149
_HARMLESS_REMAP = re.compile(r"already pending remapping")
_CAUSE = re.compile(r"caused by previous Xid (\d{1,3})\b")
_RECOVERY = re.compile(r"changed from .*? to 0x([0-9a-fA-F]{1,4})")
RECOVERY_STEPS = {
    "reset_gpu": ("reset the GPU", Action.RESET_GPU),
    "reboot": ("reboot the node", Action.REBOOT),
    "drain_p2p": ("stop the traffic between cards", Action.RESTART_ENGINE),
    "drain_and_reset": ("drain the card, then reset it", Action.RESET_GPU),
    "recover_imex": ("restart the IMEX service of the domain", Action.RESTART_ENGINE),
    "reset_bus": ("reset the PCIe bus above the card, which a reboot does too", Action.REBOOT),
}
"""What the driver asks for, as in Gpu.recovery_action -> the step."""


class Meaning(NamedTuple):
    """What a number means, how grave one event of it is, and the step that it asks for."""

    text: str
    severity: Severity
    step: str
    action: Action


def _rows(
    severity: Severity, step: str, action: Action, texts: dict[tuple[int, ...], str]
) -> dict[int, Meaning]:
    return {
        code: Meaning(text, severity, step, action)
        for codes, text in texts.items()
        for code in codes
    }


_INFO, _WARNING, _CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL

CATALOGUE: dict[int, Meaning] = {
    **_rows(
        _CRITICAL,
        "drain the card and reset it",
        Action.RESET_GPU,
        {
            (46,): "the GPU stopped processing",
            (48,): "uncorrectable ECC error",
            (62,): "the power management controller halted",
            (64,): "a row remap or page retirement failed",
            (74,): "NVLink error",
            (95,): "uncorrectable memory error that was not contained to one program",
            (110,): "security fault, rare without a hardware failure",
            (119,): "the GPU system processor did not answer",
            (120,): "error in the GPU system processor",
            (136,): "NVLink training failed",
            (140,): "unrecovered ECC error",
            (143,): "the GPU could not be initialised",
            (144, 145, 146, 147, 148, 149, 150): "NVLink error",
            (158,): "fatal timeout of the GPU",
        },
    ),
    **_rows(
        _CRITICAL,
        "check the power cables of the card",
        Action.RESEAT,
        {(54,): "auxiliary power is not connected"},
    ),
    **_rows(
        _CRITICAL,
        "restart the machine",
        Action.REBOOT,
        {(79,): "the GPU fell off the bus"},
    ),
    **_rows(
        _WARNING,
        "reset the card when its work is done; ask the vendor if it comes back",
        Action.RESET_GPU,
        {
            (109,): "timeout while switching programs",
            (155,): "an NVLink was taken down on purpose",
            (171,): "uncorrectable error in the card's DRAM",
            (172,): "uncorrectable error in the card's SRAM",
        },
    ),
    **_rows(
        _WARNING,
        "ask the vendor's support with the driver's log",
        Action.INSPECT_HARDWARE,
        {
            (142,): "video encoder error",
            (157,): "no spare left for a faulty resource; the card may go on working",
            (159,): "error on the link to the CPU",
            (169,): "the security controller halted",
        },
    ),
    **_rows(
        _WARNING,
        "check the card's slot, riser and power",
        Action.RESEAT,
        {
            (32,): "corrupted command stream, most often from a bad PCIe path",
            (167,): "fatal PCIe timeout",
        },
    ),
    **_rows(
        _WARNING,
        "update the driver on host and guest",
        Action.RELOAD_DRIVER,
        {(78,): "a virtual GPU could not start"},
    ),
    **_rows(
        _WARNING,
        "restart the virtual machine",
        Action.COLD_RESTART,
        {(151,): "key rotation failed (confidential computing)"},
    ),
    **_rows(
        _INFO,
        "restart the program; look at the program first",
        Action.RESTART_ENGINE,
        {
            (8, 11, 25): "a program's command stream stopped or was invalid",
            (13,): "a program's kernel failed",
            (31,): "page fault by a program",
            (60,): "video processor error",
            (69,): "invalid graphics command",
            (80,): "corrupted data sent to the GPU",
            (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)): "copy engine error",
            (68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139): "error in a video or image engine",
        },
    ),
    **_rows(
        _INFO,
        "nothing on the card; look at the program first",
        Action.NONE,
        {
            (43,): "a program was stopped after its own fault",
            (137,): "NVLink access without permission, most often by the program",
        },
    ),
    **_rows(
        _INFO,
        "look for the event before it; standing alone on a system with NVSwitches it asks for a "
        "restart of the fabric manager",
        Action.NONE,
        {(CLEAN_UP,): "clean-up after another error or a killed program"},
    ),
    **_rows(
        _INFO,
        "restart the affected program; reset the card when convenient",
        Action.RESET_GPU,
        {(94,): "uncorrectable memory error, contained to one program"},
    ),
    **_rows(
        _INFO,
        "reset the card when convenient",
        Action.RESET_GPU,
        {
            (63,): "faulty memory was set aside",
            (156,): "a faulty resource was set aside",
        },
    ),
    **_rows(
        _INFO,
        "none; watch whether it repeats",
        Action.NONE,
        {
            (37, 38): "driver firmware error",
            (44,): "fault at a program switch",
            (66, 67): "illegal access by the driver",
            (92,): "high rate of corrected memory errors",
            (93,): "the card's configuration memory nears its write limit",
            (106, 107): "test message",
            (121,): "corrected errors on the link to the CPU",
            (141,): "error in a driver fast path",
            (152, 153): "deep learning accelerator error",
            (160, 161): "memory channel retired",
            (162, 163, 164, 165): "state of the power smoothing circuit",
            (166, 170): "confidential computing event on NVLink",
            (168,): "reduced memory capacity, expected with ECC off",
        },
    ),
    **_rows(
        _INFO,
        "read the driver's text: no step is published",
        Action.NONE,
        {
            (173,): "failure of the link to the CPU, by the driver's own name for it",
            (174,): "a program was killed, by the driver's own name for it",
            (175,): "error of the memory subsystem, by the driver's own name for it",
            (176,): "corrected PCIe error, by the driver's own name for it",
        },
    ),
}

UNKNOWN = Meaning("not in the catalogue", _INFO, "read the driver's text", Action.NONE)


def is_harmless_remap(event: Xid) -> bool:
    """Whether a 64 only says that the row is already waiting for a reset."""
    return event.code == REMAP_FAILED and bool(_HARMLESS_REMAP.search(event.text))


def meaning(event: Xid) -> Meaning | None:
    """What one event means; None where it says that nothing is pending any more."""
    known = CATALOGUE.get(event.code, UNKNOWN)
    if event.code == RECOVERY_ACTION:
        return _recovery(event)
    if event.recovered or is_harmless_remap(event):
        return known._replace(severity=Severity.INFO, step="none", action=Action.NONE)
    if event.code == 74 or event.code in range(144, 151):
        return known._replace(severity=_nvlink_severity(event))
    if event.code == CLEAN_UP and (cause := _CAUSE.search(event.text)):
        return known._replace(text=f"clean-up after Xid {cause[1]}", step=f"see Xid {cause[1]}")
    return known


def _recovery(event: Xid) -> Meaning | None:
    """154 tells the step itself, on the side after "to"."""
    match = _RECOVERY.search(event.text)
    if match is None:
        return Meaning("the recovery action changed", Severity.INFO, "read the text", Action.NONE)
    value = int(match[1], 16)
    if value == 0:
        return None
    severity = Severity.INFO if event.recovered else Severity.CRITICAL
    return asked(RECOVERY_ACTIONS.get(value, f"action {value}"))._replace(severity=severity)


def asked(recovery_action: str) -> Meaning:
    """What the driver wants done with a card, by the name of it in Gpu.recovery_action."""
    if recovery_action not in RECOVERY_STEPS:
        text = f"the driver asks for recovery {recovery_action}"
        return Meaning(text, Severity.CRITICAL, "see its manual", Action.NONE)
    step, action = RECOVERY_STEPS[recovery_action]
    return Meaning("the driver asks for recovery", Severity.CRITICAL, step, action)


def _nvlink_severity(event: Xid) -> Severity:
    """NVLink events say in words whether they are fatal; 149 names what it saw."""
    if event.code == _LINK_EVENT and "LINK_DOWN" in event.text:
        return Severity.CRITICAL
    if event.code == _LINK_EVENT and "BER_EVENT" in event.text:
        return Severity.INFO
    if re.search(r"\bnon-?fatal\b", event.text, re.IGNORECASE):
        return Severity.INFO
    if event.code == 74 or re.search(r"\bfatal\b", event.text, re.IGNORECASE):
        return Severity.CRITICAL
    return Severity.WARNING
