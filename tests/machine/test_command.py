from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from nodecheck.machine import command
from nodecheck.machine.command import HungError, Output, run
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason
from tests.processes import children, descriptors, eventually, is_running

DEADLINE = 20.0
"""For what must end by itself, however busy the machine is."""


def shell(script: str, deadline_seconds: float = DEADLINE) -> Output:
    return run(("sh", "-c", script), deadline_seconds)


def test_both_outputs_and_the_status() -> None:
    assert shell("echo out; echo err >&2; exit 3") == Output(3, "out\nerr\n")


def test_a_death_by_signal_is_negative() -> None:
    assert shell("kill -9 $$").status == -9


def test_messages_are_untranslated_and_input_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert shell("echo $LC_ALL; cat").text == "C\n"


def test_output_that_is_no_text() -> None:
    assert shell(r"printf '\377\000a'").text == "\ufffd\0a"


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(UnreadableError, match="no-such-command: command not found") as error:
        run(("no-such-command",), DEADLINE)
    assert error.value.reason is Reason.ABSENT


def test_a_file_that_may_not_be_executed(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(UnreadableError) as error:
        run((str(tmp_path / "tool"),), DEADLINE)
    assert error.value.reason is Reason.ABSENT


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELF and nothing more")
    tool.chmod(0o755)
    with pytest.raises(UnreadableError) as error:
        run((str(tool),), DEADLINE)
    assert error.value.reason is Reason.FAILED


def test_an_argument_with_a_nul() -> None:
    with pytest.raises(UnreadableError):
        run(("echo", "a\0b"), DEADLINE)


@pytest.mark.parametrize("path", ["", ":", ".", "relative"])
def test_the_current_directory_is_not_searched(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (tmp_path, tmp_path / "relative"):
        place.mkdir(exist_ok=True)
        (place / "planted").write_text("#!/bin/sh\necho planted\n")
        (place / "planted").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    with pytest.raises(UnreadableError, match="command not found"):
        run(("planted",), DEADLINE)
    assert run(("sh", "-c", "echo system"), DEADLINE).text == "system\n"


def test_a_program_that_hangs_is_killed_in_time() -> None:
    start, before = time.monotonic(), descriptors()
    with pytest.raises(HungError, match=r"no answer within 0\.3 s") as error:
        shell("trap '' TERM INT HUP; echo started; sleep 600", 0.3)
    assert error.value.reason is Reason.TIMEOUT
    assert error.value.pid is None
    assert time.monotonic() - start < 1.3
    assert descriptors() == before


def test_a_program_that_closes_its_output_and_lives_on_is_killed() -> None:
    with pytest.raises(HungError):
        shell("exec >&- 2>&-; sleep 600", 0.3)


def test_the_whole_session_dies(tmp_path: Path) -> None:
    with pytest.raises(HungError):
        shell(f"sleep 600 & echo $! > {tmp_path}/pid; sleep 600", 0.5)
    pid = int((tmp_path / "pid").read_text())
    assert eventually(lambda: not is_running(pid))


@pytest.mark.parametrize("end", ["sleep 600", "exec yes"])
def test_what_it_started_in_another_session_dies_too(tmp_path: Path, end: str) -> None:
    with pytest.raises(UnreadableError):
        shell(f"setsid sleep 600 & echo $! > {tmp_path}/pid; {end}", 0.5)
    pid = int((tmp_path / "pid").read_text())
    assert eventually(lambda: not is_running(pid))


@pytest.mark.parametrize("start", ["sleep 600 &", "setsid sleep 600 &"])
def test_a_grandchild_that_keeps_the_pipe_is_not_waited_for(start: str) -> None:
    begin = time.monotonic()
    output = shell(f"{start} echo $!; exit 4")
    os.kill(int(output.text), signal.SIGKILL)
    assert output.status == 4
    assert time.monotonic() - begin < DEADLINE


def test_a_grandchild_that_floods_the_pipe_is_cut_off() -> None:
    with pytest.raises(UnreadableError):
        shell("yes & exit 0", 1.0)


def test_a_flood_is_cut_off_and_its_source_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "OUTPUT_LIMIT_BYTES", 1 << 16)
    before = descriptors()
    with pytest.raises(UnreadableError, match=r"printed 5\d{5} bytes") as error:
        run(("yes",), DEADLINE)
    assert error.value.reason is Reason.FAILED
    assert descriptors() == before


def test_as_much_as_is_allowed_is_read() -> None:
    size = command.OUTPUT_LIMIT_BYTES
    assert len(run(("head", "-c", str(size), "/dev/zero"), DEADLINE).text) == size


def test_a_high_descriptor_is_no_limit() -> None:
    """select(2) would fail from 1,024 on."""
    code = (
        "import fcntl, os, resource\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))\n"
        "kept = [os.open('/dev/null', os.O_RDONLY) for _ in range(1100)]\n"
        "from nodecheck.machine.command import run\n"
        "print(run(('echo', 'high'), 20.0).text)\n"
    )
    assert run((sys.executable, "-c", code), DEADLINE).text.strip() == "high"


def test_nothing_is_left_after_many_runs() -> None:
    before = descriptors(), children()
    for _ in range(50):
        assert run(("true",), DEADLINE).status == 0
    assert (descriptors(), children()) == before
