"""The log: a line an event, and nothing twice."""

from __future__ import annotations

import sys

import pytest

from nodecheck.daemon.journal import Journal


def test_what_stays_as_it_is_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal()
    for state, line in (("bad", "it is 1 s late"), ("bad", "it is 2 s late"), (None, None),
                        ("bad", "it is 3 s late")):  # fmt: skip
        journal.state("topic", state, line)
    journal.state("another", "bad", "another")
    journal.tell("an event")
    journal.tell("an event")
    told = capsys.readouterr().err.splitlines()
    assert told == ["it is 1 s late", "it is 3 s late", "another", "an event", "an event"]


def test_an_event_is_one_line_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    Journal().tell("a\nb\x1b[2J")
    assert capsys.readouterr().err == "a?b?[2J\n"


def test_nobody_may_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "w")  # noqa: PTH123, SIM115 - closing it raises
    monkeypatch.setattr(sys, "stderr", full)
    Journal().tell("lost")
    monkeypatch.undo()
    with pytest.raises(OSError, match="No space left"):
        full.close()
