"""Whether a build has code for a card: binaries, PTX, and ROCm's names."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.arch_rules import runs
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.python.facts import Library, PythonFacts
from nodecheck.model import Severity
from tests.checks.gpu.judging import CARD, judge, numbered, seen, with_facts


@pytest.mark.parametrize(
    ("arch", "capability", "answer"),
    [
        ("sm_80", "8.0", True),
        ("sm_80", "8.6", True),
        ("sm_86", "8.0", False),
        ("sm_86", "8.9", True),
        ("sm_80", "9.0", False),
        ("sm_120", "12.0", True),
        ("sm_120", "12.1", True),
        ("sm_100", "12.0", False),
        ("sm_90a", "9.0", True),
        ("sm_100a", "10.3", False),
        ("sm_100f", "10.3", True),
        ("sm_100f", "12.0", False),
        ("compute_80", "12.0", True),
        ("compute_90", "8.9", False),
        ("compute_90a", "10.0", False),
        ("compute_90a", "9.0", True),
        ("compute_100f", "10.3", True),
        ("compute_100f", "12.0", False),
        ("gfx942", "9.0", None),
        ("sm_90", "gfx942", None),
    ],
)
def test_what_runs_where(arch: str, capability: str, answer: bool | None) -> None:
    assert runs(arch, capability) is answer


def found(archs: tuple[str, ...] | None, *cards: Gpu) -> list[str]:
    """The cards that have no code."""
    library = Library(name="torch", version="2.4.0", outcome="ok")
    python = PythonFacts(interpreter="/venv/bin/python", libraries=(library,), torch_archs=archs)
    finding = judge(with_facts(seen(*cards), python=python)).get("gpu.arch_unsupported")
    if finding is None:
        return []
    assert finding.severity is Severity.CRITICAL
    return [piece.value for piece in finding.evidence]


def nvidia(capability: str | None) -> Gpu:
    return replace(CARD, compute_capability=capability)


def amd(target: str) -> Gpu:
    return replace(CARD, vendor="amd", name="AMD card", compute_capability=target)


OLD = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
NEW = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")
ROCM = ("gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")


@pytest.mark.parametrize(
    ("archs", "card", "missing"),
    [
        (OLD, nvidia("8.9"), False),
        (OLD, nvidia("12.0"), True),  # a new card, an old build
        ((*OLD, "compute_90"), nvidia("12.0"), False),
        (NEW, nvidia("7.0"), True),  # an old card, a new build
        (NEW, nvidia("6.1"), True),
        (NEW, nvidia("12.1"), False),
        (NEW, nvidia(None), False),
        (None, nvidia("12.0"), False),
        ((), nvidia("12.0"), False),
        (ROCM, nvidia("9.0"), False),  # ROCm's build says nothing of NVIDIA's card
        (ROCM, amd("gfx942"), False),
        (ROCM, amd("gfx906"), True),
        (ROCM, amd("gfx950"), True),
        (ROCM, amd("gfx1031"), False),  # made to run as gfx1030
        (("gfx9-4-generic", "gfx1100"), amd("gfx950"), False),
        (OLD, amd("gfx942"), False),
        (ROCM, replace(amd("gfx942"), compute_capability=None), False),
    ],
)
def test_cards_without_code(archs: tuple[str, ...] | None, card: Gpu, missing: bool) -> None:
    assert bool(found(archs, card)) is missing


def test_each_card_is_judged_by_itself() -> None:
    values = found(OLD, nvidia("8.9"), numbered(nvidia("12.0"), 1))
    assert len(values) == 1
    assert values[0].startswith("GPU 1 (NVIDIA L40, 0000:02:00.0): compute capability 12.0")
    assert "sm_90" in values[0]


def test_nobody_named_an_interpreter() -> None:
    assert judge(seen(nvidia("12.0"))) == {}
