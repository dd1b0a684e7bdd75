"""A child that is given bytes and answers bytes, or one line on why it does not."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from nodecheck.daemon.process import ANSWER_LIMIT_BYTES, Child, Clock, Ended
from tests.processes import children, descriptors, eventually, is_running


def run(*command: str, given: bytes = b"", seconds: float = 20.0) -> Ended:
    async def once() -> Ended:
        return await Child(command, Clock()).run([], given, seconds)

    return asyncio.run(once())


def test_what_it_is_given_and_what_it_answers() -> None:
    large = bytes(range(256)) * 8192
    assert run("cat", given=large) == Ended(answer=large)
    assert run("true") == Ended(answer=b"")


def test_it_need_not_take_what_it_is_given() -> None:
    assert run("true", given=b"x" * (4 << 20)) == Ended(answer=b"")


def test_of_its_complaints_the_last_line_is_told() -> None:
    script = "yes complaint | head -n 100000 >&2; echo at last >&2; exit 3"
    assert run("sh", "-c", script) == Ended(error="at last")
    assert run("sh", "-c", "exit 3") == Ended(error="exit status 3")
    assert run("sh", "-c", "kill -9 $$") == Ended(error="died by signal 9")


def test_an_answer_may_be_as_long_as_the_limit() -> None:
    most = run("head", "-c", str(ANSWER_LIMIT_BYTES), "/dev/zero")
    assert most.answer is not None
    assert len(most.answer) == ANSWER_LIMIT_BYTES
    more = run("head", "-c", str(ANSWER_LIMIT_BYTES + 1), "/dev/zero")
    assert more == Ended(error=f"it answered more than {ANSWER_LIMIT_BYTES} bytes")


def test_it_is_late() -> None:
    assert run("sleep", "60", seconds=0.1) == Ended(error="no answer within 0.1 s", timed_out=True)


def test_cancelled_it_is_ended_and_nothing_is_left() -> None:
    before, open_before = children(), descriptors()

    async def cancelled() -> None:
        task = asyncio.create_task(Child(["sleep", "60"], Clock()).run([], b"", 60.0))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert children() <= before
    assert descriptors() <= open_before


STUBBORN = "trap '' TERM; setsid sleep 600 & echo $$ $! > {}; while :; do sleep 0.1; done"


@pytest.mark.parametrize("cancels", [0, 1, 3])
def test_a_late_one_goes_with_all_it_started_also_where_its_end_is_cut_short(
    tmp_path: Path, cancels: int
) -> None:
    """SIGTERM to the daemon comes while a late child is being ended."""
    note = tmp_path / "pids"
    open_before = descriptors()

    async def ended() -> None:
        child = Child(["sh", "-c", STUBBORN.format(note)], Clock())
        task = asyncio.create_task(child.run([], b"", 0.5))
        await asyncio.sleep(0.6)
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.2)
        assert child.stuck_pid is None

    asyncio.run(ended())
    pids = [int(pid) for pid in note.read_text().split()]
    assert len(pids) == 2
    assert eventually(lambda: not any(map(is_running, pids)))
    assert descriptors() <= open_before


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot leave it out")
def test_no_module_comes_from_the_folder_that_we_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('not mine')\n")
    monkeypatch.chdir(tmp_path)
    said = run(sys.executable, "-m", "nodecheck.daemon.collector")
    assert said == Ended(error="say light or full")


def test_a_fast_clock_waits_less() -> None:
    async def waited() -> float:
        clock = Clock(100.0)
        start = clock.now()
        await clock.wait([asyncio.get_running_loop().create_future()], 20.0)
        return clock.now() - start

    assert 19.0 <= asyncio.run(waited()) < 200.0
