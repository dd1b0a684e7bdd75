"""The only importer of pynvml: what NVIDIA's management library says, field by field.

The library and the driver under it can hang in a call for ever, so all of it runs in a child with
a deadline. Values are in NVML's own units. A field that a card or a driver does not have is None.
"""

from __future__ import annotations

import contextlib
import functools
import resource
import signal
import time
from collections.abc import Callable
from typing import Any

import msgspec

from nodecheck.machine import child, nvidia_driver, stuck
from nodecheck.machine.host import Host
from nodecheck.machine.nvml_activity import CardActivity, read_activity
from nodecheck.machine.nvml_asking import DriverGoneError, Fields, Notes, code_of, text_of
from nodecheck.machine.nvml_codes import ALL_ONES, GPU_IS_LOST
from nodecheck.machine.nvml_fields import Device, read_device, read_load, read_reasons
from nodecheck.model import Struct

LIBRARY = "libnvidia-ml.so.1"
STUCK_MARKER = "nvml"
SECOND_SAMPLE_SECONDS = 1.0

BINDING_MISSING, CHILD_DIED, NOT_ASKED = -1, -2, -3
"""What ends it before NVML has a say; its own codes are above 0.

CHILD_DIED: NVML crashed in a call. NOT_ASKED: the system did not let us ask, or not to the end,
which is no fault of the driver's.
"""

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)

BAD_REASONS = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Clock event reasons that are looked at twice: power cap, slowdowns and the power brake."""

SLOW_STATE, SEEMS_BUSY_PERCENT = 5, 20
"""From this P-state and this load on a card is looked at twice, far below what rules call busy.

The load is an average over up to a second before, the state is of this moment. Source: nvml.h,
nvmlUtilization_t.
"""


class Answer(Struct, frozen=True, kw_only=True):
    """What NVML said. `error` is the code of the call that ended it, `message` its words.

    `hung` says that there was no answer within the deadline; then the cards are those that were
    read before. `asked` is what it was asked last, in words that follow "it was asked", where it
    ended in the middle. `process_names` are by process id.
    """

    error: int | None = None
    message: str | None = None
    hung: bool = False
    asked: str | None = None
    driver_version: str | None = None
    library_version: str | None = None
    cuda_version: int | None = None
    confidential_compute: int | None = None
    devices: tuple[Device, ...] = ()
    process_names: dict[int, str] = msgspec.field(default_factory=dict)


class Activity(Struct, frozen=True, kw_only=True):
    """What the cards were busy with, or in `message` why that is not known."""

    cards: tuple[CardActivity, ...] = ()
    message: str | None = None
    hung: bool = False


def worth_trying(host: Host, *, nvidia_on_pci: bool) -> bool:
    """Whether there is any sign of an NVIDIA driver: importing pynvml costs 60 ms."""
    if nvidia_on_pci:
        return True
    return nvidia_driver.has_library(LIBRARY) or nvidia_driver.is_loaded(host)


def query(devices_expected: int) -> Answer:
    """Ask NVML in a child, unless an earlier one still hangs in it."""
    if pid := stuck.stuck_pid(STUCK_MARKER):
        return Answer(hung=True, message=f"not tried: process {pid} still hangs in NVML")
    notes = Notes()
    work = functools.partial(_collect, notes)
    outcome = child.call(work, Answer, nvidia_driver.may_take_seconds(devices_expected))
    if outcome.stuck_pid is not None:
        stuck.remember(STUCK_MARKER, outcome.stuck_pid)
    if outcome.value is not None:
        return outcome.value
    message = f"the child that asked it {outcome.error}"
    return msgspec.structs.replace(
        _so_far(notes),
        error=None if outcome.hung else _ended(outcome, notes),
        hung=outcome.hung,
        message=f"NVML: {outcome.error}" if outcome.hung else message,
        asked=notes.asked(),
    )


def watch(devices_expected: int, seconds: float, goes_on: Callable[[], bool]) -> Activity:
    """Look for so many seconds at what the cards are busy with, in a child as query.

    It ends early where what is watched on them no longer `goes_on`.
    """
    if pid := stuck.stuck_pid(STUCK_MARKER):
        return Activity(hung=True, message=f"not tried: process {pid} still hangs in NVML")
    notes = Notes()
    work = functools.partial(_watched, notes, seconds, goes_on)
    most = nvidia_driver.may_take_seconds(devices_expected) + seconds
    outcome = child.call(work, Activity, most)
    if outcome.stuck_pid is not None:
        stuck.remember(STUCK_MARKER, outcome.stuck_pid)
    if outcome.value is not None:
        return outcome.value
    return Activity(hung=outcome.hung, message=f"NVML: {outcome.error}, asked {notes.asked()}")


def _watched(notes: Notes, seconds: float, goes_on: Callable[[], bool]) -> Activity:
    """The child's work."""
    try:
        import pynvml
    except ImportError as error:
        return Activity(message=f"pynvml: {error}")
    notes.asking("to start")
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        cards = read_activity(pynvml, count, seconds, goes_on, notes.asking)
        return Activity(cards=cards)
    except pynvml.NVMLError as error:
        return Activity(message=f"NVML: {error}")
    except DriverGoneError as gone:
        return Activity(message=f"NVML: {pynvml.NVMLError(gone.code)}")


def _ended(outcome: child.Outcome[Answer], notes: Notes) -> int:
    """Whether the child died of NVML, or of what is ours: a limit, a signal, no process."""
    aborted = outcome.signal == signal.SIGABRT and not _memory_is_limited()
    crashed = aborted or outcome.signal in _CRASHES
    return CHILD_DIED if crashed and notes.asked() is not None else NOT_ASKED


def _memory_is_limited() -> bool:
    """Whether addresses are rationed (ulimit -v): who is refused memory often aborts."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _so_far(notes: Notes) -> Answer:
    """What was told before the end came; what has to be seen twice is not known."""
    answer, *devices = notes.kept() or [b"{}"]
    return msgspec.structs.replace(
        msgspec.json.decode(answer, type=Answer),
        devices=tuple(_unconfirmed(msgspec.json.decode(line, type=Device)) for line in devices),
    )


def _unconfirmed(device: Device) -> Device:
    if _is_held(device):
        device = msgspec.structs.replace(device, clock_event_reasons=None)
    if _seems_stuck(device):
        device = msgspec.structs.replace(device, utilisation_percent=None)
    return device


def _is_held(device: Device) -> bool:
    mask = device.clock_event_reasons
    return mask is not None and mask not in ALL_ONES and bool(mask & BAD_REASONS)


def _seems_stuck(device: Device) -> bool:
    busy = (device.utilisation_percent or 0) >= SEEMS_BUSY_PERCENT
    return busy and (device.performance_state or 0) >= SLOW_STATE


def _collect(notes: Notes) -> Answer:
    """The child's work."""
    try:
        import pynvml
    except ImportError as error:
        return Answer(error=BINDING_MISSING, message=f"pynvml: {error}")
    try:
        return _told(pynvml, notes)
    except DriverGoneError as gone:
        told = msgspec.structs.replace(_so_far(notes), asked=notes.asked())
        return _refused(pynvml.NVMLError(gone.code), told)


def _told(pynvml: Any, notes: Notes) -> Answer:
    notes.asking("to start")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        version = None
        with contextlib.suppress(DriverGoneError):  # there may be no library to ask
            version = _library_version(pynvml, notes)
        return _refused(error, Answer(library_version=version))
    answer = _of_system(pynvml, notes)
    notes.keep(msgspec.json.encode(answer))
    notes.asking("for the number of cards")
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return _refused(error, answer)
    devices: list[Device] = []
    for index in range(count):
        device = read_device(pynvml, index, notes.asking, answer.driver_version)
        devices.append(device)
        notes.keep(msgspec.json.encode(device))
    return msgspec.structs.replace(
        answer,
        devices=_confirmed(pynvml, tuple(devices), notes),
        process_names=_process_names(pynvml, devices, notes),
    )


def _refused(error: Exception, told: Answer) -> Answer:
    """`told`, ended by an error of the driver as a whole."""
    return msgspec.structs.replace(told, error=code_of(error), message=str(error))


def _library_version(pynvml: Any, notes: Notes) -> str | None:
    """The library's own version, which it tells without a driver too."""
    version = Fields(pynvml, notes.asking).read("library version", pynvml.nvmlSystemGetNVMLVersion)
    return text_of(version)


def _of_system(pynvml: Any, notes: Notes) -> Answer:
    """What is not of one card."""
    fields = Fields(pynvml, notes.asking)
    return Answer(
        driver_version=text_of(fields.read("driver version", pynvml.nvmlSystemGetDriverVersion)),
        library_version=_library_version(pynvml, notes),
        cuda_version=fields.read("CUDA version", pynvml.nvmlSystemGetCudaDriverVersion),
        confidential_compute=fields.read(
            "confidential computing state",
            lambda: pynvml.nvmlSystemGetConfComputeState().ccFeature,
        ),
    )


def _process_names(pynvml: Any, devices: list[Device], notes: Notes) -> dict[int, str]:
    """Names of the programs on the cards, each asked once; other containers' have none."""
    fields = Fields(pynvml, notes.asking)
    pids = {process.pid for device in devices for process in device.processes or ()}
    names = {}
    for pid in sorted(pids):
        ask = functools.partial(pynvml.nvmlSystemGetProcessName, pid)
        names[pid] = text_of(fields.attempt(f"name of process {pid}", ask)[0])
    return {pid: name for pid, name in names.items() if name}


def _confirmed(pynvml: Any, devices: tuple[Device, ...], notes: Notes) -> tuple[Device, ...]:
    """The devices with only those bad reasons that a second sample shows too.

    A slowdown may flash while P-states change, and a card that works in a slow state may have just
    ended: of that the second sample counts. Without either in the first sample there is no second.
    """
    if not any(_is_held(device) or _seems_stuck(device) for device in devices):
        return devices
    time.sleep(SECOND_SAMPLE_SECONDS)
    return tuple(_again(pynvml, device, notes) for device in devices)


def _again(pynvml: Any, device: Device, notes: Notes) -> Device:
    held, stuck_now = _is_held(device), _seems_stuck(device)
    if not (held or stuck_now) or GPU_IS_LOST in device.errors.values():
        return device
    fields = Fields(pynvml, notes.asking, f"card {device.index}")
    handle = fields.read("handle", lambda: pynvml.nvmlDeviceGetHandleByIndex(device.index))
    found: dict[str, Any] = read_load(pynvml, handle, fields) if stuck_now else {}
    if held:
        first, second = device.clock_event_reasons or 0, read_reasons(pynvml, handle, fields)
        told = second is not None and second not in ALL_ONES
        lasting = first & ((second or 0) | ~BAD_REASONS) if told else second
        found["clock_event_reasons"] = lasting
    return msgspec.structs.replace(device, **found, errors={**device.errors, **fields.errors})
