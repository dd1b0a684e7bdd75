"""The log: a line an event, and nothing twice."""

from __future__ import annotations

import contextlib
import logging
import os
import socket

import pytest

from nodecheck.daemon.journal import Journal, Logged


def test_what_stays_as_it_is_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    journal = Journal()
    for state, line in (("bad", "it is 1 s late"), ("bad", "it is 2 s late"), (None, None),
                        ("bad", "it is 3 s late")):  # fmt: skip
        journal.state("topic", state, line)
    journal.state("another", "bad", "another")
    journal.tell("an event")
    journal.tell("an event")
    told = capfd.readouterr().err.splitlines()
    assert told == ["it is 1 s late", "it is 3 s late", "another", "an event", "an event"]


def test_an_event_is_one_line_whatever_is_in_it(capfd: pytest.CaptureFixture[str]) -> None:
    Journal().tell("a\nb\x1b[2J")
    assert capfd.readouterr().err == "a?b?[2J\n"


def test_nobody_may_read_it() -> None:
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
        Journal(full.fileno()).tell("lost")
    reading, writing = os.pipe()
    os.close(reading)
    Journal(writing).tell("lost")
    os.close(writing)
    Journal(writing).tell("lost")


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_nobody_reads_it_for_a_while(kind: str) -> None:
    """What is written is whole lines, and what is lost is told."""
    if kind == "pipe":
        reading, writing = os.pipe()
    else:
        reading, writing = (each.detach() for each in socket.socketpair())
    journal = Journal(writing)
    for number in range(20_000):
        journal.tell(f"line {number} {'x' * 100}")
    os.set_blocking(reading, False)
    told = drained(reading)
    journal.tell("last")
    lost, last = drained(reading).decode().splitlines()
    lines = told.decode().splitlines()
    assert lines == [f"line {number} {'x' * 100}" for number in range(len(lines))]
    assert 0 < len(lines) < 20_000
    assert (lost, last) == (f"{20_000 - len(lines)} lines were lost: nobody read them", "last")
    os.close(reading)
    os.close(writing)


def drained(descriptor: int) -> bytes:
    told = b""
    with contextlib.suppress(BlockingIOError):
        while block := os.read(descriptor, 1 << 16):
            told += block
    return told


def test_what_libraries_log_is_a_line_without_a_trace(capfd: pytest.CaptureFixture[str]) -> None:
    log = logging.Logger("library")  # noqa: LOG001 - one of its own, which no other handler hears
    log.addHandler(Logged(Journal()))
    try:
        int("x")
    except ValueError:
        for _ in range(3):
            log.exception("it\nfailed")
    log.info("nothing")
    assert capfd.readouterr().err == "it?failed\n"
