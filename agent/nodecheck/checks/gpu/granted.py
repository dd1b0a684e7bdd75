"""Whether this process was given a card: its file in /dev, and whether it may be opened."""

from __future__ import annotations

import errno
import os
import re

import msgspec

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import NVIDIA
from nodecheck.machine import child, pci
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

OPEN_DEADLINE_SECONDS = 1.0
NVIDIA_CARDS = "/proc/driver/nvidia/gpus"
_REFUSED_BY_CGROUP = os.strerror(errno.EPERM)
"""A device cgroup refuses with EPERM, file permissions with EACCES."""


def with_files(
    reader: Reader, gpus: tuple[Gpu, ...], driver_hangs: bool
) -> tuple[tuple[Gpu, ...], str | None]:
    """The cards with what /dev tells of them, and the first file that is denied.

    A card that the driver has opened needs no look at its file.
    """
    listed = reader.names("/dev")
    done: list[Gpu] = []
    denied: str | None = None
    for gpu in gpus:
        if _is_excluded(reader, gpu):
            done.append(msgspec.structs.replace(gpu, granted=False))
            continue
        path = _device_file(reader, gpu, listed) if listed and not _opened(gpu) else None
        if path is None:
            done.append(gpu)
            continue
        there = path.rpartition("/")[2] in reader.names(path.rpartition("/")[0])
        refusal = None
        silent = gpu.error is not None or (driver_hangs and gpu.vendor == NVIDIA)
        if there and not silent:
            refusal = _refusal(reader, path)
        if refusal == "denied":
            denied = denied or path
        done.append(_judged(gpu, there, refusal))
    return tuple(done), denied


def _is_excluded(reader: Reader, gpu: Gpu) -> bool:
    """Whether NVIDIA's driver was told to leave the card alone (NVreg_ExcludedGpus)."""
    if gpu.vendor != NVIDIA or _opened(gpu) or gpu.pci_address is None:
        return False
    text = reader.text(f"{NVIDIA_CARDS}/{gpu.pci_address}/information", None) or ""
    return re.search(r"^GPU Excluded:\s*Yes\s*$", text, re.MULTILINE) is not None


def _opened(gpu: Gpu) -> bool:
    return bool(gpu.granted) or gpu.granted is False or gpu.lost


def _judged(gpu: Gpu, there: bool, refusal: str | None) -> Gpu:
    """A file that is not there tells of another's card in a container alone; see Facts.grants."""
    granted = gpu.granted
    if refusal == "cgroup":
        granted = False
    elif there and refusal is None:
        granted = True
    return msgspec.structs.replace(gpu, device_file=there, granted=granted)


def _device_file(reader: Reader, gpu: Gpu, listed: tuple[str, ...]) -> str | None:
    """The card's file: /dev/nvidia<minor> or its render node; None where that cannot be said."""
    if gpu.pci_address is None:
        return None
    if gpu.vendor == NVIDIA:
        minor = _nvidia_minor(reader, gpu.pci_address)
        if minor is not None:
            return f"/dev/nvidia{minor}"
        # Without the driver's own list only the absence of all files tells of a card.
        return None if any(re.fullmatch(r"nvidia\d+", name) for name in listed) else "/dev/nvidia0"
    nodes = reader.names(f"{pci.SYSFS}/{gpu.pci_address}/drm")
    render = next((name for name in nodes if re.fullmatch(r"renderD\d+", name)), None)
    return f"/dev/dri/{render}" if render else None


def _nvidia_minor(reader: Reader, address: str) -> int | None:
    text = reader.text(f"{NVIDIA_CARDS}/{address}/information", None) or ""
    match = re.search(r"^Device Minor:\s*(\d{1,4})\s*$", text, re.MULTILINE)
    return int(match[1]) if match else None


def _refusal(reader: Reader, path: str) -> str | None:
    """`denied` (file permissions), `cgroup` (EPERM) or None; opening can hang in a sick driver."""
    outcome = child.call(lambda: _try(reader, path), str, OPEN_DEADLINE_SECONDS)
    return outcome.value or None


def _try(reader: Reader, path: str) -> str:
    try:
        reader.host.read(path)
    except UnreadableError as error:
        if error.reason is not Reason.DENIED:
            return ""
        return "cgroup" if _REFUSED_BY_CGROUP in error.detail else "denied"
    return ""
