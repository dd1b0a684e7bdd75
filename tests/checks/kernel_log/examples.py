"""The kernel log has no findings of its own."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from tests.trees import Tree

RAISES: dict[str, Tree | Seen] = {}
SILENT: dict[str, Tree | Seen] = {}
