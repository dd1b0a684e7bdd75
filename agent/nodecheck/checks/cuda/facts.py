"""Whether CUDA starts on this node, what it then has, and what copies reach."""

from __future__ import annotations

from nodecheck.model import Struct, Transfer

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
    READ: "reading it",
}
"""What the same is in a sentence."""


class CudaFacts(Struct, frozen=True, kw_only=True):
    """The answer of libcuda.so.1, and what became of copies where they were asked for.

    `state` is ok, missing (no libcuda.so.1, or one that cannot be loaded: `message` is the
    loader's), failed, unresponsive or None (not tried). `error` is CUDA's number (None where the
    failure is not its own), `call` the function that gave it or hangs, `message` its words.
    `devices` are the PCI addresses that CUDA has. `uvm` says whether /dev/nvidia-uvm is there, None
    where nobody looked. `capabilities` are the words of NVIDIA_DRIVER_CAPABILITIES, which says what
    of the driver a container gets; None where it is not set.
    `skipped` says why nothing was copied, `interrupted` that the user ended the copies.
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


class CudaProbe(Struct, frozen=True, kw_only=True):
    """What the cuda probe hands on: the report keeps them apart."""

    facts: CudaFacts = CudaFacts()
    transfers: tuple[Transfer, ...] = ()
