"""What NVIDIA's cards were busy with for some seconds; the binding is handed in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nodecheck.machine.nvml_asking import Fields, text_of
from nodecheck.machine.nvml_fields import Process, read_processes
from nodecheck.model import Struct

LOOK_SECONDS = 0.25
"""Between two looks. Source: nvml.h, nvmlUtilization_t: a value is an average over 1/6 to 1 s."""


class CardActivity(Struct, frozen=True, kw_only=True):
    """One card: its load at each look, in percent, and the programs on it after the last.

    `processes` is None where the driver does not tell them.
    """

    bus_id: str | None
    percents: tuple[int, ...] = ()
    processes: tuple[Process, ...] | None = None


def read_activity(
    pynvml: Any,
    count: int,
    seconds: float,
    goes_on: Callable[[], bool],
    asking: Callable[[str], None],
) -> tuple[CardActivity, ...]:
    """Look at `count` cards for so long, or while it `goes_on`. Raises DriverGoneError."""
    cards = [_Card(pynvml, index, asking) for index in range(count)]
    end = time.monotonic() + seconds
    while True:
        for card in cards:
            card.look()
        left = end - time.monotonic()
        if left <= 0 or not goes_on():
            return tuple(card.told() for card in cards)
        time.sleep(min(left, LOOK_SECONDS))


class _Card:
    def __init__(self, pynvml: Any, index: int, asking: Callable[[str], None]) -> None:
        self._pynvml = pynvml
        self._fields = Fields(pynvml, asking, f"card {index}")
        self._handle = self._fields.read("handle", lambda: pynvml.nvmlDeviceGetHandleByIndex(index))
        self._percents: list[int] = []

    def look(self) -> None:
        if self._handle is None:
            return
        rates = self._fields.read(
            "utilisation", lambda: self._pynvml.nvmlDeviceGetUtilizationRates(self._handle)
        )
        if rates is not None:
            self._percents.append(rates.gpu)

    def told(self) -> CardActivity:
        if self._handle is None:
            return CardActivity(bus_id=None)
        pci = self._fields.read(
            "PCI address", lambda: self._pynvml.nvmlDeviceGetPciInfo(self._handle)
        )
        return CardActivity(
            bus_id=text_of(getattr(pci, "busId", None)),
            percents=tuple(self._percents),
            processes=read_processes(self._pynvml, self._handle, self._fields),
        )
