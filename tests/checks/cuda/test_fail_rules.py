"""Copies that failed: which tell of the card, and which cards are named."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.checks.cuda.facts import CudaFacts, Failed
from nodecheck.checks.cuda.start_rules import judge_unavailable
from nodecheck.model import Finding, Severity
from tests.checks.cuda.nodes import address, card, node

ECC = "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered"


def failed(number: int, error: int | None = 214, message: str = ECC, **more: Any) -> Failed:
    known: dict[str, Any] = {"name": "host_to_device", "call": "cuEventSynchronize", **more}
    return Failed(card=address(number), error=error, message=message, **known)


def judged(*found: Failed, state: str = "ok", **second: Any) -> list[Finding]:
    call = "cuEventSynchronize" if state == "unresponsive" else None
    cuda = CudaFacts(state=state, call=call, devices=(address(0), address(1)), failed=found)
    return list(judge_unavailable(node((card(0), card(1, **second)), cuda=cuda)))


def test_the_card_the_call_and_the_words_are_told() -> None:
    (finding,) = judged(failed(1), failed(1, name="device_copy"))
    assert finding.severity is Severity.CRITICAL
    assert finding.subject == card(1).label
    assert finding.evidence[0].value == (
        f"{card(1).label}: copies to the card: cuEventSynchronize: {ECC} (error 214); 1 more failed"
    )
    assert "inspected" in finding.remedy.text


@pytest.mark.parametrize("error", [220, 226, 700, 702, 714, 715, 716, 717, 718, 719, 999, None])
def test_an_error_of_the_card_or_driver_is_a_finding(error: int | None) -> None:
    assert len(judged(failed(1, error))) == 1


@pytest.mark.parametrize("error", [1, 2, 46, 201, 217, 219, 221, 304, 704, 712, 801])
def test_an_error_of_the_program_or_of_memory_is_none(error: int) -> None:
    assert judged(failed(1, error)) == []


def test_one_that_is_known_to_be_lost_is_not_told_twice() -> None:
    assert judged(failed(1, 999), lost=True) == []


def test_who_copied_beside_a_sick_card_is_not_blamed() -> None:
    (finding,) = judged(failed(0, None, "died by SIGSEGV", cards=2), failed(1))
    assert finding.subject == card(1).label
    (finding,) = judged(failed(0, 220, peer=address(1), name="peer_to_peer"))
    assert (card(0).label in finding.subject, card(1).label in finding.subject) == (True, True)
    assert "each alone was well" in finding.impact


def test_a_card_that_hangs_and_one_that_fails_are_two() -> None:
    hung = failed(0, None, "no answer within 15 s", hung=True)
    dead, sick = judged(hung, failed(1), state="unresponsive")
    assert (dead.subject, sick.subject) == (card(0).label, card(1).label)
