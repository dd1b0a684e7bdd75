"""Why CUDA does not start, by its error, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Remedy, Struct

OUT_OF_MEMORY, NOT_INITIALISED, STUB_LIBRARY, UNAVAILABLE = 2, 3, 34, 46
NO_DEVICE, INVALID_DEVICE, OPERATING_SYSTEM = 100, 101, 304
NOT_READY, MISMATCH, NO_COMPATIBILITY = 802, 803, 804
MPS = range(805, 810)
UNKNOWN = 999
"""CUresult of cuda.h."""

WITHOUT_UVM = (NOT_INITIALISED, NO_DEVICE, INVALID_DEVICE, OPERATING_SYSTEM, UNKNOWN)
"""What cuInit gives where /dev/nvidia-uvm is missing differs by driver."""

_WORK_ENDS = "All work on the GPUs ends"
_CONTAINER_ENDS = "Work in the container ends"


class Cause(Struct, frozen=True):
    """What the error tells, as a summary, and the remedy; `sure` says that it is a fault."""

    summary: str
    remedy: Remedy
    sure: bool = True


def _start(why: str, remedy: Remedy) -> Cause:
    return Cause(f"CUDA does not start: {why}", remedy)


def cause_of(seen: Seen) -> Cause:
    """The cause of the answer that is in the facts."""
    cuda = seen.facts.cuda
    if cuda.state == "unresponsive":
        return _hang(seen)
    if cuda.state == "missing":
        return _start("its library libcuda.so.1 is not there", _without_library(seen))
    if cuda.uvm is False and cuda.error in WITHOUT_UVM:
        return _start("the device file /dev/nvidia-uvm is not there", _without_uvm(seen))
    if cuda.error in MPS:
        return _start("the MPS server does not answer", _mps(seen))
    if cuda.error == NO_DEVICE and any(gpu.mig for gpu in seen.facts.gpus):
        return _start("MIG is on and no instance is ready for it", _instances())
    named = _BY_ERROR.get(cuda.error or 0)
    return named(seen) if named else _start("the driver refuses to start it", _reload())


def _hang(seen: Seen) -> Cause:
    if seen.facts.cuda.devices:
        return Cause("CUDA hangs in a copy", _reboot())
    if _slept(seen):
        summary = "CUDA did not answer in time: the cards were asleep"
        return Cause(summary, _keep_awake(), sure=False)
    return Cause("CUDA does not answer", _reboot())


def _slept(seen: Seen) -> bool:
    """Whether the driver lets cards go between programs: it then starts them, one by one."""
    return any(gpu.persistence is False for gpu in seen.facts.gpus)


def _keep_awake() -> Remedy:
    return Remedy(
        text="Keep the driver loaded (persistence mode) and look again. If CUDA still does not "
        "answer, read the driver's log",
        action=Action.CHANGE_SETTING,
        commands=(
            "sudo systemctl enable --now nvidia-persistenced",
            "sudo dmesg | grep -E 'NVRM|Xid'",
        ),
        cost="A few watts an idle card",
    )


def _reboot() -> Remedy:
    return Remedy(
        text="Drain the node and read the driver's log. A reset of the cards may help; a process "
        "that hangs in the kernel is ended by a reboot alone",
        action=Action.REBOOT,
        commands=(
            "sudo dmesg | grep -E 'NVRM|Xid'",
            "ps -eo pid,stat,wchan:32,cmd | awk '$2 ~ /D/'",
        ),
        cost="All work on the node ends",
    )


def _reload() -> Remedy:
    return Remedy(
        text="Read the driver's log for the cause; then stop what uses the GPUs and load the "
        "driver anew, or reboot",
        action=Action.RELOAD_DRIVER,
        commands=(
            "sudo dmesg | grep -E 'NVRM|Xid'",
            "sudo fuser -v /dev/nvidia*",
            "sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm",
        ),
        cost=_WORK_ENDS,
    )


def _without_library(seen: Seen) -> Remedy:
    if seen.facts.virt.container is not None:
        return Remedy(
            text="Start the container with the compute libraries: NVIDIA_DRIVER_CAPABILITIES has "
            "to name compute beside utility, which brings nvidia-smi alone",
            action=Action.RESTART_CONTAINER,
            commands=(
                "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
                "ldconfig -p | grep libcuda",
            ),
            cost=_CONTAINER_ENDS,
        )
    return Remedy(
        text="Install the driver's compute library of the same version as the loaded module "
        "(Debian: libcuda1, Ubuntu: libnvidia-compute-<branch>)",
        action=Action.CHANGE_SETTING,
        commands=("cat /proc/driver/nvidia/version", "ldconfig -p | grep libcuda"),
        cost="None: what runs goes on",
    )


def _without_uvm(seen: Seen) -> Remedy:
    if seen.facts.virt.container is not None:
        return Remedy(
            text="Load the module nvidia-uvm on the host and start the container with its device "
            "file; CDI and the NVIDIA runtime bring it along",
            action=Action.RESTART_CONTAINER,
            commands=(
                "sudo nvidia-modprobe -u -c 0  # on the host",
                "docker run --device nvidia.com/gpu=all ...",
            ),
            cost=_CONTAINER_ENDS,
        )
    return Remedy(
        text="Load the module nvidia-uvm and make its device file, and have both done at boot "
        "(nvidia-persistenced or nvidia-modprobe do it)",
        action=Action.CHANGE_SETTING,
        commands=("sudo nvidia-modprobe -u -c 0", "ls -l /dev/nvidia-uvm"),
        cost="None: what runs goes on",
    )


def _mps(seen: Seen) -> Remedy:
    shared = seen.facts.virt.container is not None
    return Remedy(
        text="Start the MPS control daemon anew, or stop it where it is not wanted"
        + ("; the container has to share the host's IPC namespace with it" if shared else ""),
        action=Action.RESTART_ENGINE,
        commands=("echo quit | nvidia-cuda-mps-control", "nvidia-cuda-mps-control -d"),
        cost="Programs that run through MPS end",
    )


def _instances() -> Remedy:
    return Remedy(
        text="Create MIG instances with compute instances in them, give one to this container, or "
        "turn MIG off",
        action=Action.CHANGE_SETTING,
        commands=("nvidia-smi -L", "nvidia-smi mig -lgi"),
        cost="None for creating them; turning MIG off resets the card",
    )


def _not_ready(seen: Seen) -> Cause:
    if seen.facts.gpu.confidential_compute:
        return _start(
            "confidential computing is on and the cards are not set ready",
            Remedy(
                text="Attest the cards and set them ready; it has to be done after each boot",
                action=Action.CHANGE_SETTING,
                commands=("nvidia-smi conf-compute -grs", "sudo nvidia-smi conf-compute -srs 1"),
                cost="None",
            ),
        )
    return _start(
        "the fabric between the cards is not ready",
        Remedy(
            text="Start the fabric manager of the driver's own version and wait until the fabric "
            "is completed; in a guest it runs on the host",
            action=Action.CHANGE_SETTING,
            commands=(
                "systemctl status nvidia-fabricmanager",
                "sudo systemctl restart nvidia-fabricmanager",
                "nvidia-smi -q | grep -A4 Fabric",
            ),
            cost=_WORK_ENDS,
        ),
    )


def _mismatch(seen: Seen) -> Cause:
    words = "libcuda and the driver are of different versions"
    if seen.facts.virt.container is not None:
        return _start(
            words,
            Remedy(
                text="Restart the container: its libraries were mounted before the host's driver "
                "was updated",
                action=Action.RESTART_CONTAINER,
                commands=("docker restart <container>",),
                cost=_CONTAINER_ENDS,
            ),
        )
    return _start(
        words,
        Remedy(
            text="Find which libcuda is loaded; remove one that a package of another version left "
            "behind, then load the module of its version, or reboot",
            action=Action.RELOAD_DRIVER,
            commands=("ldconfig -p | grep libcuda", "cat /proc/driver/nvidia/version"),
            cost=_WORK_ENDS,
        ),
    )


def _compatibility(seen: Seen) -> Cause:
    del seen
    return _start(
        "a forward-compatibility libcuda is loaded on a card that has none",
        Remedy(
            text="Take the compat folder out of the library path, or use an image whose CUDA the "
            "driver has itself: forward compatibility is for data centre cards",
            action=Action.CHANGE_SETTING,
            commands=("ldconfig -p | grep libcuda", "ls -d /usr/local/cuda*/compat"),
            cost="A restart of the program or container",
        ),
    )


def _stub(seen: Seen) -> Cause:
    del seen
    return _start(
        "the libcuda that is loaded is the toolkit's stub",
        Remedy(
            text="Take the toolkit's stubs folder out of LD_LIBRARY_PATH: it is for linking alone",
            action=Action.CHANGE_SETTING,
            commands=("echo $LD_LIBRARY_PATH", "ldconfig -p | grep libcuda"),
            cost="A restart of the program",
        ),
    )


_BY_ERROR: dict[int, Callable[[Seen], Cause]] = {
    NOT_READY: _not_ready,
    MISMATCH: _mismatch,
    NO_COMPATIBILITY: _compatibility,
    STUB_LIBRARY: _stub,
}
