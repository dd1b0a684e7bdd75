"""Instruction sets by the kernel's names."""

from __future__ import annotations

from nodecheck.checks.cpu.isa import by_importance


def test_instruction_sets_that_matter_come_first() -> None:
    flags = ["zen", "ssse3", "amx_tile", "avx512_vnni", "avx512f", "fma", "avx2", "aes", "sse4_2"]
    known, others = by_importance(flags)
    assert known == ["avx2", "fma", "avx512_vnni", "avx512f", "amx_tile", "ssse3", "sse4_2"]
    assert others == ["aes", "zen"]
