"""The only importer of pynvml: what NVIDIA's management library says, field by field.

The library and the driver under it can hang in a call for ever, so all of it runs in a child with
a deadline. Values are in NVML's own units. A field that a card or a driver does not have is None.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from nodecheck.machine import child, stuck
from nodecheck.machine.host import Host
from nodecheck.machine.nvml_fields import (
    Device,
    Fields,
    code_of,
    read_device,
    reason_calls,
    text_of,
)
from nodecheck.model import Struct

LIBRARY = "libnvidia-ml.so.1"
CONTROL_DEVICE = "/dev/nvidiactl"
STUCK_MARKER = "nvml"
SECOND_SAMPLE_SECONDS = 1.0

DEADLINE_BASE_SECONDS = 4.0
DEADLINE_PER_DEVICE_SECONDS = 1.0
DEADLINE_LIMIT_SECONDS = 12.0
"""Without persistence mode the driver starts each card anew, one after the other."""

SUCCESS, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 0, 4, 9, 12
GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH = 15, 16, 18

BINDING_MISSING, CHILD_DIED = -1, -2
BAD_REASONS = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Clock event reasons that are looked at twice: power cap, slowdowns and the power brake."""

_LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)


class Answer(Struct, frozen=True, kw_only=True):
    """What NVML said. `error` is the code of the call that ended it, `message` its words.

    `hung` says that there was no answer within the deadline; then nothing else is known.
    """

    error: int | None = None
    message: str | None = None
    hung: bool = False
    driver_version: str | None = None
    cuda_version: int | None = None
    devices: tuple[Device, ...] = ()


def worth_trying(host: Host, *, nvidia_on_pci: bool) -> bool:
    """Whether there is any sign of an NVIDIA driver: importing pynvml costs 60 ms."""
    if nvidia_on_pci:
        return True
    directories = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LIBRARY_DIRECTORIES]
    if any(os.path.exists(f"{directory}/{LIBRARY}") for directory in directories if directory):
        return True
    return os.path.exists(CONTROL_DEVICE) or host.exists("/proc/driver/nvidia/version")


def query(devices_expected: int) -> Answer:
    """Ask NVML in a child, unless an earlier one still hangs in it."""
    if pid := stuck.stuck_pid(STUCK_MARKER):
        return Answer(hung=True, message=f"not tried: process {pid} still hangs in NVML")
    deadline = deadline_seconds(devices_expected)
    outcome = child.call(_collect, Answer, deadline)
    if outcome.stuck_pid is not None:
        stuck.remember(STUCK_MARKER, outcome.stuck_pid)
    if outcome.value is not None:
        return outcome.value
    if outcome.hung:
        return Answer(hung=True, message=f"NVML: {outcome.error}")
    return Answer(error=CHILD_DIED, message=f"the child that asked it {outcome.error}")


def deadline_seconds(devices_expected: int) -> float:
    """How long NVML may take with so many cards."""
    wanted = DEADLINE_BASE_SECONDS + DEADLINE_PER_DEVICE_SECONDS * devices_expected
    return min(wanted, DEADLINE_LIMIT_SECONDS)


def _collect() -> Answer:
    """The child's work."""
    try:
        import pynvml
    except ImportError as error:
        return Answer(error=BINDING_MISSING, message=f"pynvml: {error}")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Answer(error=code_of(error), message=str(error))
    driver = Fields(pynvml)
    version = text_of(driver.read("driver_version", pynvml.nvmlSystemGetDriverVersion))
    cuda = driver.read("cuda_version", pynvml.nvmlSystemGetCudaDriverVersion)
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return Answer(error=code_of(error), message=str(error), driver_version=version)
    devices = tuple(read_device(pynvml, index) for index in range(count))
    return Answer(driver_version=version, cuda_version=cuda, devices=_confirmed(pynvml, devices))


def _confirmed(pynvml: Any, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """The devices with only those bad reasons that a second sample shows too.

    A slowdown may flash while P-states change; without one in the first sample there is no second.
    """
    if not any((device.clock_event_reasons or 0) & BAD_REASONS for device in devices):
        return devices
    time.sleep(SECOND_SAMPLE_SECONDS)
    return tuple(
        msgspec.structs.replace(device, clock_event_reasons=_again(pynvml, device))
        for device in devices
    )


def _again(pynvml: Any, device: Device) -> int | None:
    first = device.clock_event_reasons
    if first is None or not first & BAD_REASONS:
        return first
    fields = Fields(pynvml)
    handle = fields.read("handle", lambda: pynvml.nvmlDeviceGetHandleByIndex(device.index))
    second = fields.read("clock_event_reasons", *reason_calls(pynvml, handle))
    return None if second is None else first & (second | ~BAD_REASONS)
