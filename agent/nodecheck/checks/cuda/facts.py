"""Whether CUDA starts on this node, what it then has, and what copies reach."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.model import Struct, Transfer
from nodecheck.units import listed

TO_CARD, FROM_CARD = "host_to_device", "device_to_host"
PAGEABLE = "_pageable"
PEER, COPY, READ = "peer_to_peer", "device_copy", "device_read"
"""What a transfer is called; PAGEABLE follows one of the first two."""

WORDS = {
    TO_CARD: "to the card",
    FROM_CARD: "from the card",
    TO_CARD + PAGEABLE: "to the card from pageable memory",
    FROM_CARD + PAGEABLE: "from the card to pageable memory",
    PEER: "to another card",
    COPY: "on the card",
}
"""What a copy is in a sentence; READ is none."""


def copies_of(names: Iterable[str]) -> str:
    """Write "copies to the card and from the card, reads of its memory"."""
    each = tuple(dict.fromkeys(names))
    copies = listed([WORDS.get(name, name) for name in each if name != READ], last="and")
    said = (f"copies {copies}" if copies else "", "reads of its memory" if READ in each else "")
    return ", ".join(filter(None, said))


class Failed(Struct, frozen=True, kw_only=True):
    """A copy that a card failed: `name` is as Transfer's, `cards` how many copied at once.

    `error`, `call` and `message` are as CudaFacts'; `error` is None where the process died in the
    call, or hung there (`hung`). `peer` is the card that it copied to.
    """

    card: str
    name: str
    peer: str | None = None
    cards: int = 1
    error: int | None = None
    call: str | None = None
    message: str | None = None
    hung: bool = False


class CudaFacts(Struct, frozen=True, kw_only=True):
    """The answer of libcuda.so.1, and what became of copies where they were asked for.

    `state` is ok, missing (no libcuda.so.1, or one that cannot be loaded: `message` is the
    loader's), failed, unresponsive or None (not tried). `error` is CUDA's number (None where the
    failure is not its own), `call` the function that gave it or hangs, `message` its words.
    `devices` are the PCI addresses that CUDA has. `uvm` says whether /dev/nvidia-uvm is there, None
    where nobody looked. `capabilities` are the words of NVIDIA_DRIVER_CAPABILITIES, which says what
    of the driver a container gets; None where it is not set.
    `skipped` says why nothing was copied, `interrupted` that the user ended the copies.
    `wanted` are the PCI addresses of the cards that were to be measured, `failed` the copies that
    failed there.
    """

    state: str | None = None
    error: int | None = None
    call: str | None = None
    message: str | None = None
    version: str | None = None
    devices: tuple[str, ...] = ()
    uvm: bool | None = None
    capabilities: tuple[str, ...] | None = None
    skipped: str | None = None
    warnings: tuple[str, ...] = ()
    interrupted: bool | None = None
    wanted: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()


class CudaProbe(Struct, frozen=True, kw_only=True):
    """What the cuda probe hands on: the report keeps them apart."""

    facts: CudaFacts = CudaFacts()
    transfers: tuple[Transfer, ...] = ()
