"""A planted tree that passes for the live machine, for what probes do only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodecheck.machine.host import CapturedHost
from tests.trees import Tree, plant


class LiveTree(CapturedHost):
    """Reads a directory as CapturedHost does; commands and statvfs are the capture's."""

    live = True


def live_tree(tree: Tree, directory: Path) -> LiveTree:
    """Plant a tree as the live machine."""
    plant(tree, directory)
    return LiveTree(directory)


def while_sleeping(
    monkeypatch: pytest.MonkeyPatch, module: str, directory: Path, later: Tree
) -> list[float]:
    """Change files whenever `module` sleeps; the list fills with how long it slept."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        for path, content in later.items():
            assert isinstance(content, str)
            (directory / path).write_text(content)

    monkeypatch.setattr(f"{module}.time.sleep", sleep)
    return slept
