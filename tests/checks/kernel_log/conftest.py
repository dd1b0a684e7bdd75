from __future__ import annotations

from collections.abc import Callable

import pytest

from nodecheck.checks.kernel_log.probe import probe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from tests.checks.kernel_log.logs import Read
from tests.trees import Tree


@pytest.fixture
def read(node: Callable[[Tree], CapturedHost]) -> Read:
    """The facts of a node whose dmesg prints the given text."""
    return lambda text: probe(Reader(node({"cmd/dmesg.txt": text}), "kernel_log"))
