"""NVIDIA's driver, whichever of its libraries asks: whether it is there, how long it may take."""

from __future__ import annotations

import os
from pathlib import Path

from nodecheck.machine.host import Host

CONTROL_DEVICE = "/dev/nvidiactl"
LOADERS_CACHE = "/etc/ld.so.cache"

_LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)

BASE_SECONDS = 4.0
"""For a library to load and start on a busy node. Source: nodecheck's own judgement."""

PER_CARD_SECONDS = 3.0
"""Without persistence mode the driver starts each card anew when it is opened, one after the other.
Source: nodecheck's own judgement, from seconds that operators tell of."""

LIMIT_SECONDS = BASE_SECONDS + 8 * PER_CARD_SECONDS
"""Eight such cards answer within it, and no report waits longer for a driver that hangs."""


def may_take_seconds(cards: int) -> float:
    """How long the driver may take with so many cards."""
    return min(BASE_SECONDS + PER_CARD_SECONDS * cards, LIMIT_SECONDS)


def has_library(name: str) -> bool:
    """Whether a library of the driver's lies where the loader looks for it."""
    directories = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_LIBRARY_DIRECTORIES]
    return any(os.path.exists(f"{directory}/{name}") for directory in directories if directory)


def is_installed(name: str) -> bool:
    """Whether it lies anywhere that the loader looks: then what it did not load is not missing."""
    return has_library(name) or any(map(os.path.exists, _in_loaders_cache(name)))


def _in_loaders_cache(name: str) -> list[str]:
    """Where the last ldconfig saw it: its cache holds names and paths, each ended by a zero."""
    try:
        cache = Path(LOADERS_CACHE).read_bytes()
    except OSError:
        return []
    return [
        os.fsdecode(path)
        for path in cache.split(b"\0")
        if path.startswith(b"/") and path.endswith(b"/" + os.fsencode(name))
    ]


def is_loaded(host: Host) -> bool:
    """Whether NVIDIA's kernel module shows itself."""
    return os.path.exists(CONTROL_DEVICE) or host.exists("/proc/driver/nvidia/version")
