"""The kernel log has no findings of its own: its lines are evidence for those of other subjects."""

from __future__ import annotations

from nodecheck.checks.seen import Rule

RULES: tuple[Rule, ...] = ()
