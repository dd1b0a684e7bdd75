"""From what libcuda said to facts."""

from __future__ import annotations

import errno
import os

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.machine import cuda, pci
from nodecheck.machine.cuda import Answer
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from nodecheck.units import cuda_version

UVM = "nvidia-uvm"
"""The device file through which CUDA manages memory; NVML needs none."""

CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
"""What a container's runtime heeds and passes on: the parts of the driver that go into it."""

KNOWN_CAPABILITIES = (
    "all", "compat32", "compute", "display", "graphics", "ngx", "utility", "video",
)  # fmt: skip
"""Its words; others are not kept. Source: NVIDIA Container Toolkit."""

NOT_ASKED = (cuda.NATIVE_MISSING, cuda.SYSTEM_REFUSED)
"""What kept us from asking, and not a program from CUDA."""

_OUR_LIMITS = ("failed to map segment",
               *map(os.strerror, (errno.ENOMEM, errno.EMFILE, errno.ENFILE)))  # fmt: skip
"""The loader's words where this process may have no more memory, or no more files."""


def ask(reader: Reader, cards_expected: int) -> tuple[CudaFacts, Answer]:
    """Start CUDA, which wakes idle cards."""
    answer = cuda.query(cards_expected)
    return facts_of(reader, answer), answer


def facts_of(reader: Reader, answer: Answer) -> CudaFacts:
    """The answer, and where it is none, what /dev tells of the reason."""
    if answer.error in NOT_ASKED or _ran_out(answer):
        why = answer.message or "it could not be asked"
        reader.gap("state", Reason.FAILED, f"CUDA: {why}")
        return CudaFacts(message=why)
    state = state_of(answer)
    found = (pci.normal_address(card.pci_address or "") for card in answer.cards)
    devices = reader.names("/dev") if state == "failed" else ()
    return CudaFacts(
        state=state,
        error=answer.error if answer.error and answer.error > 0 else None,
        call=answer.call,
        message=answer.message,
        version=cuda_version(answer.version) if answer.version else None,
        devices=tuple(address for address in found if address),
        uvm=UVM in devices if devices else None,
        capabilities=_capabilities(),
    )


def _ran_out(answer: Answer) -> bool:
    """Whether the library is called missing because we could not load it."""
    missing = answer.error == cuda.LIBRARY_MISSING
    return missing and any(words in (answer.message or "") for words in _OUR_LIMITS)


def state_of(answer: Answer) -> str:
    """As CudaFacts.state."""
    if answer.hung:
        return "unresponsive"
    if answer.error == cuda.LIBRARY_MISSING:
        return "missing"
    return "failed" if answer.error else "ok"


def _capabilities() -> tuple[str, ...] | None:
    """As CudaFacts.capabilities. The runtime takes an empty variable for one that is not set."""
    told = os.environ.get(CAPABILITIES)
    words = {word.strip().casefold() for word in (told or "").split(",")}
    return tuple(word for word in KNOWN_CAPABILITIES if word in words) if told else None
