"""Judges whether CUDA starts, and what copies reach."""

from __future__ import annotations

from nodecheck.checks.cuda import link_rules, memory_rules, start_rules
from nodecheck.checks.seen import Rule

RULES: tuple[Rule, ...] = (
    Rule("gpu.cuda_unavailable", "CUDA does not start", start_rules.judge_unavailable),
    Rule("gpu.data_corrupt", "Copies change data", memory_rules.judge_corrupt),
    Rule("pcie.link_slow", "A link carries less than it should", link_rules.judge_slow),
    Rule("gpu.vram_slow", "GPU memory is slower than its rate", memory_rules.judge_vram),
    Rule("pcie.shared_uplink", "Cards share one way to the host", link_rules.judge_shared),
)
