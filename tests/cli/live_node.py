"""Runs nodecheck live on cards that are not there: NVML is the fake one, and so is all of /sys.

In a mount namespace of its own a planted tree lies over /sys, so that PCI shows NVML's cards.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nodecheck.report import Report, from_json
from tests.checks.gpu.inputs import device, port
from tests.fake_nvml.profiles import Card
from tests.trees import Tree

NODECHECK = (sys.executable, "-m", "nodecheck")
DEADLINE_SECONDS = 60.0

SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0"}
"""PCIe generation -> GT/s."""

_OVER_SYS = 'mount --bind "$0" /sys && exec "$@"'


def on_pci(cards: Sequence[Card]) -> Tree:
    """The tree in which PCI shows these cards, each below a root port of its own."""
    tree: Tree = {}
    for position, card in enumerate(cards):
        now, most = _link(card, "link_generation", "link_width"), _link(
            card, "link_generation_max", "link_width_max"
        )  # fmt: skip
        above = f"0000:00:{16 + position:02x}.0"
        address = str(card["bus_id"])[4:].lower()
        number = int(str(card["device_id"]), 0) >> 16
        tree |= port(above, now=now, most=most)
        tree |= device(address, above, ids=f"10de:{number:04x}", now=now, most=most)
    return tree


def _link(card: Card, generation: str, width: str) -> tuple[str, str]:
    return f"{SPEEDS[int(card[generation])]} GT/s PCIe", str(card[width])


@functools.cache
def why_no_namespace() -> str | None:
    """Why nothing can be laid over /sys here, None where it can."""
    if shutil.which("unshare") is None:
        return "no unshare"
    done = subprocess.run(
        [*_namespace(), "mount", "--bind", "/tmp", "/sys"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() if done.returncode else None


def _namespace() -> list[str]:
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def nodecheck(environment: dict[str, str], *arguments: str, node: Path | None = None) -> Report:
    """The report that nodecheck prints as JSON, live, with `node`'s sys over /sys."""
    return from_json(told(environment, *arguments, "--json", node=node), "nodecheck")


def told(environment: dict[str, str], *arguments: str, node: Path | None = None) -> bytes:
    """What nodecheck prints on standard output. It must not fail."""
    done = subprocess.run(
        [*over_sys(node), *NODECHECK, *arguments],
        env=environment,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def over_sys(node: Path | None) -> list[str]:
    """What to put before a command so that it sees `node`'s sys; skips where that cannot be."""
    if node is None:
        return []
    if reason := why_no_namespace():
        pytest.skip(f"nothing can be laid over /sys: {reason}")
    return [*_namespace(), "sh", "-c", _OVER_SYS, str(node / "sys")]
