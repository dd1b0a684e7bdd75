"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from nodecheck.machine.host import CapturedHost
from tests.trees import Tree, plant

# an example may fork a child, and the machine may be busy
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")


@pytest.fixture
def node(tmp_path: Path) -> Callable[[Tree], CapturedHost]:
    """Plant a tree and open it: `host = node({"proc/cpuinfo": ...})`."""
    return lambda tree: plant(tree, tmp_path / "node")
