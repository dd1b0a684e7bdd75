"""Whether CUDA starts on this node, and what it then has."""

from __future__ import annotations

from nodecheck.model import Struct


class CudaFacts(Struct, frozen=True, kw_only=True):
    """The answer of libcuda.so.1.

    `state` is ok, missing (no such library), failed, unresponsive or None (not tried). `error` is
    CUDA's number, `call` the function that gave it, `message` its words. `devices` are the PCI
    addresses that CUDA has. `skipped` says why nothing was copied where that was asked for.
    """

    state: str | None = None
    error: int | None = None
    call: str | None = None
    message: str | None = None
    version: str | None = None
    devices: tuple[str, ...] = ()
    skipped: str | None = None
    warnings: tuple[str, ...] = ()
