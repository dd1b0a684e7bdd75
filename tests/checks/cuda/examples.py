"""An input for each finding on CUDA that raises it, and one that does not."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from tests.trees import Tree

RAISES: dict[str, Tree | Seen] = {}
SILENT: dict[str, Tree | Seen] = {}
