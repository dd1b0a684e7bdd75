"""What the kernel said."""

from __future__ import annotations

from nodecheck.model import Struct


class Xid(Struct, frozen=True, kw_only=True):
    """An NVIDIA driver event.

    `pci_address` is as in sysfs (0000:41:00.0). `text` is the driver's, without the process id and
    name before it: a name is its user's to choose. `recovered` where a reset, driver load or boot
    came after it. `count` is how often it was logged with this text, numbers aside.
    """

    code: int
    pci_address: str | None
    text: str
    recovered: bool = False
    count: int = 1


class DimmErrors(Struct, frozen=True, kw_only=True):
    """Memory errors that the log names a DIMM for (or the controller, where it names none)."""

    dimm: str
    correctable: int = 0
    uncorrectable: int = 0


class KernelLogFacts(Struct, frozen=True, kw_only=True):
    """Lines since the last boot that are evidence for other subjects' findings, without their time.

    `source` is dmesg, journal or None (not read). `gpus_lost` are the PCI addresses of GPUs that
    fell off the bus and did not come back, with or without an Xid; "unknown" where no line names
    it. `driver_errors` are the NVIDIA driver's messages about devices that it could not start.
    """

    source: str | None = None
    xids: tuple[Xid, ...] = ()
    gpus_lost: tuple[str, ...] = ()
    driver_errors: tuple[str, ...] = ()
    filesystem_errors: tuple[str, ...] = ()
    memory_errors: tuple[str, ...] = ()
    dimm_errors: tuple[DimmErrors, ...] = ()
