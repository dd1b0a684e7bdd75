"""Boots a guest under full emulation and brings back what nodecheck said in it."""

from __future__ import annotations

import base64
import subprocess
import time
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from nodecheck.report import Report, from_json
from tests.lab.guest_image import QEMU, Image

BOOT_SECONDS = 90.0
"""For a report without kernels."""

ATTEMPTS = 2
"""An emulated guest stops for good once in a while: a hang, and nothing else, has one retry."""

END = b"end."
"""The last line that a guest writes to its second serial port; no beginning of one in base64."""

COUNTED = ("-icount", "shift=1,sleep=off")
"""Two nanoseconds of a guest's time are one instruction that it ran: a busy machine costs it none,
so that a probe's deadline ends no probe here that would answer elsewhere. One CPU only: two hang.
"""


class Ending(Enum):
    """How a boot ended."""

    REPORTED = "reported"
    POWERED_OFF = "powered off without reporting"
    HUNG = "hung"


@dataclass(frozen=True)
class Guest:
    """A virtual machine; `cpu`, `machine`, `topology`, `memory` and `devices` in QEMU's words.

    `asked` are nodecheck's arguments, `told` is what guest_init.sh hears beside them.
    """

    cpu: str
    machine: str = "q35"
    topology: str = "1"
    memory: str = "512"
    devices: tuple[str, ...] = ()
    capture: bool = False
    asked: str = "--quick"
    told: tuple[str, ...] = ()
    seconds: float = BOOT_SECONDS


@dataclass(frozen=True)
class Told:
    """What came out of a guest: `folder` holds report.json and, where it was asked for, tree."""

    folder: Path

    @cached_property
    def report(self) -> Report:
        """What nodecheck printed."""
        return from_json((self.folder / "report.json").read_bytes(), "the guest's report")

    def text(self, name: str) -> str:
        """A file as one stripped text."""
        return (self.folder / name).read_text().strip()


def boot(image: Image, guest: Guest, directory: Path) -> Told:
    """Run nodecheck in a guest. Raises AssertionError where it did not report."""
    for attempt in range(ATTEMPTS):
        place = directory / f"boot{attempt}"
        place.mkdir()
        ending = _run(image, guest, place)
        if ending is not Ending.HUNG:
            break
    said = (place / "qemu").read_text() + (place / "console").read_text(errors="replace")
    assert ending is Ending.REPORTED, f"{guest.cpu} {ending.value}:\n{said[-2000:]}"
    told = Told(_unpacked(place))
    assert (told.text("user"), told.text("status"), told.text("errors")) == ("1000", "0", "")
    return told


def _run(image: Image, guest: Guest, place: Path) -> Ending:
    """Boot until the guest has told everything, has ended, or its time is over."""
    with (place / "qemu").open("wb") as complaints:
        qemu = subprocess.Popen(
            _command(image, guest), cwd=place, stdin=subprocess.DEVNULL, stderr=complaints
        )
        end = time.monotonic() + guest.seconds
        try:
            while not _has_reported(place):
                if qemu.poll() is not None:
                    return Ending.REPORTED if _has_reported(place) else Ending.POWERED_OFF
                if time.monotonic() > end:
                    return Ending.HUNG
                time.sleep(0.1)
            return Ending.REPORTED
        finally:
            qemu.kill()
            qemu.wait()


def _command(image: Image, guest: Guest) -> list[str]:
    return [
        QEMU, "-accel", "tcg", "-m", guest.memory, "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none", "-monitor", "none",
        "-machine", guest.machine, "-cpu", guest.cpu, "-smp", guest.topology,
        *(COUNTED if guest.topology == "1" else ()),
        *guest.devices,
        "-kernel", str(image.kernel), "-initrd", str(image.initramfs),
        "-append", _kernel_options(guest),
        "-serial", "file:console", "-serial", "file:told",
    ]  # fmt: skip


def _kernel_options(guest: Guest) -> str:
    """Without what costs an emulated CPU most; a panic ends QEMU."""
    options = ["console=ttyS0", "quiet", "panic=-1", "mitigations=off", "cryptomgr.notests"]
    if guest.topology == "1":
        options.append("noapictimer")
    if guest.capture:
        options.append("capture=yes")
    return " ".join([*options, f'asked="{guest.asked}"', *guest.told])


def _lines(place: Path) -> list[bytes]:
    """What came over the second serial port so far."""
    told = place / "told"
    return told.read_bytes().split() if told.exists() else []


def _has_reported(place: Path) -> bool:
    return _lines(place)[-1:] == [END]


def _unpacked(place: Path) -> Path:
    folder = place / "out"
    folder.mkdir()
    packed = base64.b64decode(b"".join(_lines(place)[:-1]))
    subprocess.run(["tar", "-x", "-z", "-C", folder], input=packed, check=True)
    return folder
