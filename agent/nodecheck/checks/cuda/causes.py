"""Why CUDA does not start, by what it answers. Pure."""

from __future__ import annotations

from nodecheck.checks.cuda import remedies
from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.cuda.remedies import (
    INVALID_DEVICE,
    MPS,
    NO_DEVICE,
    NOT_INITIALISED,
    NOT_READY,
    OPERATING_SYSTEM,
    UNKNOWN,
    Cause,
)
from nodecheck.checks.seen import Seen

WITHOUT_UVM = (NOT_INITIALISED, NO_DEVICE, INVALID_DEVICE, OPERATING_SYSTEM, UNKNOWN)
"""What cuInit gives where /dev/nvidia-uvm is missing differs by driver."""

STARTING = (
    "dlopen", "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet",
    "cuDeviceGetPCIBusId",
)  # fmt: skip
"""The calls before a card is taken: all others belong to copies."""

WORKING = ("compute", "all")
"""Words of NVIDIA_DRIVER_CAPABILITIES that bring CUDA into a container. Source: NVIDIA Container
Toolkit, Specialized Configurations with Docker."""


def cause_of(seen: Seen) -> Cause:
    """The cause of the answer that is in the facts."""
    cuda = seen.facts.cuda
    if cuda.state == "unresponsive":
        return _hang(seen)
    if is_left_out(seen):
        return remedies.LEFT_OUT
    if cuda.state == "missing":
        return remedies.NOT_THERE if _is_absent(cuda) else remedies.NOT_LOADED
    return _by_error(seen)


def _by_error(seen: Seen) -> Cause:
    cuda = seen.facts.cuda
    if cuda.uvm is False and cuda.error in WITHOUT_UVM:
        return remedies.NO_DEVICE_FILE
    if cuda.error in MPS:
        return remedies.NO_MPS_SERVER
    if cuda.error == NO_DEVICE and any(gpu.mig for gpu in seen.facts.gpus):
        return remedies.NO_INSTANCE
    if cuda.error == NOT_READY and seen.facts.gpu.confidential_compute:
        return remedies.NOT_SET_READY
    return remedies.BY_ERROR.get(cuda.error or 0, remedies.REFUSED)


def _hang(seen: Seen) -> Cause:
    call = seen.facts.cuda.call
    if call is not None and call not in STARTING:
        return remedies.HANGS_IN_COPY
    # without persistence mode the driver lets cards go between programs, and starts them one by one
    slept = any(gpu.persistence is False for gpu in seen.facts.gpus)
    return remedies.ASLEEP if slept else remedies.SILENT


def is_left_out(seen: Seen) -> bool:
    """Whether this container was started without CUDA: to watch the cards, for one."""
    cuda = seen.facts.cuda
    words = cuda.capabilities
    if seen.facts.virt.container is None or words is None or set(words) & set(WORKING):
        return False
    return cuda.state == "missing" or (cuda.uvm is False and cuda.error in WITHOUT_UVM)


def _is_absent(cuda: CudaFacts) -> bool:
    """Whether the loader found no such file, rather than one that it cannot take."""
    return cuda.message is None or ("libcuda.so.1" in cuda.message and "No such" in cuda.message)
