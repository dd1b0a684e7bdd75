"""What keeps CUDA from starting, and what to do about each. Pure."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Remedy, Severity, Struct

OUT_OF_MEMORY, NOT_INITIALISED, STUB_LIBRARY, UNAVAILABLE = 2, 3, 34, 46
NO_DEVICE, INVALID_DEVICE, OPERATING_SYSTEM = 100, 101, 304
NOT_READY, MISMATCH, NO_COMPATIBILITY = 802, 803, 804
MPS = range(805, 810)
UNKNOWN = 999
"""CUresult of cuda.h."""

_OF_NO_USE = "{cards} of no use: an engine fails at its start, or computes on the CPU in silence"
_WORK_ENDS = "All work on the GPUs ends"
_CONTAINER_ENDS = "Work in the container ends"
_PROGRAM_ENDS = "A restart of the program or container"
_DRIVERS_LOG = "sudo dmesg | grep -E 'NVRM|Xid'"
_FIND_LIBRARY = "ldconfig -p | grep libcuda"


class Cause(Struct, frozen=True, kw_only=True):
    """What the answer tells: the finding's summary, its remedy, and that in a container.

    `{cards}` in `impact` stands for how many cards.
    """

    summary: str
    remedy: Remedy
    inside: Remedy | None = None
    severity: Severity = Severity.CRITICAL
    impact: str = _OF_NO_USE

    def remedy_of(self, seen: Seen) -> Remedy:
        """That of a container where the node is one and it differs there."""
        contained = seen.facts.virt.container is not None
        return self.inside if contained and self.inside is not None else self.remedy


_REBOOT = Remedy(
    text="Drain the node and read the driver's log. A reset of the cards may help; a process "
    "that hangs in the kernel is ended by a reboot alone",
    action=Action.REBOOT,
    commands=(_DRIVERS_LOG, "ps -eo pid,stat,wchan:32,cmd | awk '$2 ~ /D/'"),
    cost="All work on the node ends",
)

SILENT = Cause(summary="CUDA does not answer", remedy=_REBOOT)

HANGS_IN_COPY = Cause(
    summary="CUDA hangs in a copy",
    remedy=_REBOOT,
    impact="Programs start on {cards} and hang in their copies: weights never arrive, or requests "
    "stand still without an error",
)

FAILS_COPIES = Remedy(
    text="Take the card out of service, read the driver's log, reset the card and measure again. "
    "If it comes back, have the card, its slot and its power inspected",
    action=Action.RESET_GPU,
    commands=(_DRIVERS_LOG,),
    cost="Work on the card ends; seconds",
)

ASLEEP = Cause(
    summary="CUDA did not answer in time: the cards were asleep",
    remedy=Remedy(
        text="Keep the driver loaded (persistence mode) and look again. If CUDA still does not "
        "answer, read the driver's log",
        action=Action.CHANGE_SETTING,
        commands=("sudo systemctl enable --now nvidia-persistenced", _DRIVERS_LOG),
        cost="A few watts an idle card",
    ),
    severity=Severity.WARNING,
    impact="A program waits that long until it has {cards}, or for ever",
)

REFUSED = Cause(
    summary="CUDA does not start: the driver refuses to start it",
    remedy=Remedy(
        text="Read the driver's log for the cause; then stop what uses the GPUs and load the "
        "driver anew, or reboot",
        action=Action.RELOAD_DRIVER,
        commands=(
            _DRIVERS_LOG,
            "sudo fuser -v /dev/nvidia*",
            "sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm",
        ),
        cost=_WORK_ENDS,
    ),
)

_WITH_COMPUTE = Remedy(
    text="Start the container with the compute libraries: NVIDIA_DRIVER_CAPABILITIES has "
    "to name compute beside utility, which brings nvidia-smi alone",
    action=Action.RESTART_CONTAINER,
    commands=(
        "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
        _FIND_LIBRARY,
    ),
    cost=_CONTAINER_ENDS,
)

NOT_THERE = Cause(
    summary="CUDA does not start: its library libcuda.so.1 is not there",
    remedy=Remedy(
        text="Install the driver's compute library of the same version as the loaded module "
        "(Debian: libcuda1, Ubuntu: libnvidia-compute-<branch>)",
        action=Action.CHANGE_SETTING,
        commands=("cat /proc/driver/nvidia/version", _FIND_LIBRARY),
        cost="None: what runs goes on",
    ),
    inside=_WITH_COMPUTE,
)

LEFT_OUT = Cause(
    summary="CUDA is not in this container: it was started without",
    remedy=Remedy(
        text="None where it only watches the cards. To compute in it start it with "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        action=Action.NONE,
    ),
    severity=Severity.INFO,
    impact="Programs in this container cannot compute on {cards}",
)

NOT_LOADED = Cause(
    summary="CUDA does not start: its library libcuda.so.1 cannot be loaded",
    remedy=Remedy(
        text="Put in order what the loader names: a library that libcuda needs and that is not "
        "there, one for another processor, or a damaged file. The driver's libraries belong "
        "together: install them anew, all of the loaded module's version",
        action=Action.CHANGE_SETTING,
        commands=(_FIND_LIBRARY, "ldd <PATH OF libcuda.so.1>", "cat /proc/driver/nvidia/version"),
        cost="None: what runs goes on",
    ),
)

NO_DEVICE_FILE = Cause(
    summary="CUDA does not start: the device file /dev/nvidia-uvm is not there",
    remedy=Remedy(
        text="Load the module nvidia-uvm and make its device file, and have both done at boot "
        "(nvidia-persistenced or nvidia-modprobe do it)",
        action=Action.CHANGE_SETTING,
        commands=("sudo nvidia-modprobe -u -c 0", "ls -l /dev/nvidia-uvm"),
        cost="None: what runs goes on",
    ),
    inside=Remedy(
        text="Load the module nvidia-uvm on the host and start the container with its device "
        "file; CDI and the NVIDIA runtime bring it along",
        action=Action.RESTART_CONTAINER,
        commands=(
            "sudo nvidia-modprobe -u -c 0  # on the host",
            "docker run --device nvidia.com/gpu=all ...",
        ),
        cost=_CONTAINER_ENDS,
    ),
)

_RESTART_MPS = Remedy(
    text="Start the MPS control daemon anew, or stop it where it is not wanted",
    action=Action.RESTART_ENGINE,
    commands=("echo quit | nvidia-cuda-mps-control", "nvidia-cuda-mps-control -d"),
    cost="Programs that run through MPS end",
)

NO_MPS_SERVER = Cause(
    summary="CUDA does not start: the MPS server does not answer",
    remedy=_RESTART_MPS,
    inside=Remedy(
        text=f"{_RESTART_MPS.text}; the container has to share the host's IPC namespace with it",
        action=_RESTART_MPS.action,
        commands=_RESTART_MPS.commands,
        cost=_RESTART_MPS.cost,
    ),
)

NO_INSTANCE = Cause(
    summary="CUDA does not start: MIG is on and no instance is ready for it",
    remedy=Remedy(
        text="Create MIG instances with compute instances in them, give one to this container, or "
        "turn MIG off",
        action=Action.CHANGE_SETTING,
        commands=("nvidia-smi -L", "nvidia-smi mig -lgi"),
        cost="None for creating them; turning MIG off resets the card",
    ),
)

NOT_SET_READY = Cause(
    summary="CUDA does not start: confidential computing is on and the cards are not set ready",
    remedy=Remedy(
        text="Attest the cards and set them ready; it has to be done after each boot",
        action=Action.CHANGE_SETTING,
        commands=("nvidia-smi conf-compute -grs", "sudo nvidia-smi conf-compute -srs 1"),
        cost="None",
    ),
)

BY_ERROR = {
    OUT_OF_MEMORY: Cause(
        summary="CUDA does not start: it does not get the node's memory that it needs",
        remedy=Remedy(
            text="Lift the limit of address space (ulimit -v, LimitAS=): CUDA reserves as much as "
            "all cards and the node have together. Then look at the memory limit of the control "
            "group and at what is free",
            action=Action.CHANGE_SETTING,
            commands=("ulimit -v", "cat /sys/fs/cgroup/memory.max", "free -g"),
            cost="A restart of what was started under the limit",
        ),
        severity=Severity.WARNING,
        impact="A program started as nodecheck was has no use of {cards}",
    ),
    NOT_READY: Cause(
        summary="CUDA does not start: the fabric between the cards is not ready",
        remedy=Remedy(
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
    ),
    MISMATCH: Cause(
        summary="CUDA does not start: libcuda and the driver are of different versions",
        remedy=Remedy(
            text="Find which libcuda is loaded; remove one that a package of another version left "
            "behind, then load the module of its version, or reboot",
            action=Action.RELOAD_DRIVER,
            commands=(_FIND_LIBRARY, "cat /proc/driver/nvidia/version"),
            cost=_WORK_ENDS,
        ),
        inside=Remedy(
            text="Restart the container: its libraries were mounted before the host's driver "
            "was updated",
            action=Action.RESTART_CONTAINER,
            commands=("docker restart <container>",),
            cost=_CONTAINER_ENDS,
        ),
    ),
    NO_COMPATIBILITY: Cause(
        summary="CUDA does not start: a forward-compatibility libcuda is loaded on a card that "
        "has none",
        remedy=Remedy(
            text="Take the compat folder out of the library path, or use an image whose CUDA the "
            "driver has itself: forward compatibility is for data centre cards",
            action=Action.CHANGE_SETTING,
            commands=(_FIND_LIBRARY, "ls -d /usr/local/cuda*/compat"),
            cost=_PROGRAM_ENDS,
        ),
    ),
    STUB_LIBRARY: Cause(
        summary="CUDA does not start: the libcuda that is loaded is the toolkit's stub",
        remedy=Remedy(
            text="Take the toolkit's stubs folder out of LD_LIBRARY_PATH: it is for linking alone",
            action=Action.CHANGE_SETTING,
            commands=("echo $LD_LIBRARY_PATH", _FIND_LIBRARY),
            cost=_PROGRAM_ENDS,
        ),
    ),
}
