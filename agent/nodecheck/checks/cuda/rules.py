"""Judges whether CUDA starts, and what copies reach."""

from __future__ import annotations

from nodecheck.checks.seen import Rule

RULES: tuple[Rule, ...] = ()
