"""Captured nodes written down as data: a path and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodecheck.machine.host import CapturedHost


@dataclass(frozen=True)
class Link:
    """A symbolic link, relative as in sysfs."""

    target: str


Tree = dict[str, "str | bytes | Link"]
"""Path under the root of a capture (`proc/cpuinfo`, `cmd/dmesg.txt`) -> content."""


def plant(tree: Tree, directory: Path) -> CapturedHost:
    """Write a tree into `directory` and open it as a node."""
    for path, content in tree.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            file.symlink_to(content.target)
        elif isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(content)
    return CapturedHost(directory)
