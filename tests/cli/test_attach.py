"""`nodecheck attach` as a command: whom it watches, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import jsonschema
import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from nodecheck.checks.engine import tree
from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.seen import Facts
from nodecheck.cli import attach, group
from nodecheck.cli.processes import process_of
from nodecheck.machine.host import Host
from nodecheck.model import Gap, Reason
from nodecheck.report import HostInfo, Report, from_json
from tests.checks.engine import captures
from tests.checks.engine.engines import HEALTHY
from tests.cli.test_commands import NODECHECK, failed, run
from tests.processes import eventually, is_running, state
from tests.trees import Tree, plant

BUSY = "while True: pass"
REDRAW = "\x1b[H\x1b[J"
LINE = re.compile(r"\d\d:\d\d:\d\dZ  (OK|SLOW|ENDED) +.*\d of \d+ CPUs")


def python(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    with python(BUSY) as process:
        yield process
        process.kill()


def attached(*arguments: str | int) -> subprocess.CompletedProcess[str]:
    return run("attach", *map(str, arguments))


def of_json(done: subprocess.CompletedProcess[str]) -> Report:
    assert done.returncode == 0, done.stderr
    jsonschema.Draft202012Validator(msgspec.json.schema(Report)).validate(json.loads(done.stdout))
    return from_json(done.stdout.encode(), "attach")


def test_a_busy_process_is_told_first_and_the_node_last(busy: subprocess.Popen[bytes]) -> None:
    done = attached(busy.pid, "--seconds", 1)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.match(r"(OK|SLOW) +\S", lines[0])
    assert any(f"process {busy.pid} (python" in line for line in lines[:4])
    assert re.search(r"CPUs +[01]\.\d\d used of \d+", done.stdout)
    assert lines[-1].startswith("The node itself: ")


@pytest.mark.parametrize("columns", ["80", "120"])
def test_lines_fit_the_terminal(busy: subprocess.Popen[bytes], columns: str) -> None:
    told = run("attach", str(busy.pid), "--seconds", "1", COLUMNS=columns).stdout
    assert told
    commands = ("taskset", "OMP_NUM_THREADS")
    for line in told.splitlines():
        assert len(line) <= int(columns) or line.strip().startswith(commands), line


def test_the_report_is_one_that_can_be_judged_again(
    busy: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    done = attached(busy.pid, "--seconds", 1, "--json")
    report = of_json(done)
    engine = report.facts.engine
    assert (engine.state, engine.pid) == ("watched", busy.pid)
    assert engine.cpus is not None
    assert engine.cpus > 0.2
    assert report.facts.memory.total_bytes
    assert report.facts.disk.filesystems
    assert (report.measurements, report.facts.cuda.state) == ((), None)
    saved = tmp_path / "report.json"
    saved.write_text(done.stdout)
    again = from_json(run("--from", str(saved), "--json").stdout.encode(), "again")
    assert again == report


def test_a_process_that_ends_meanwhile_is_told_until_then() -> None:
    with python("import time; end = time.time() + 6\nwhile time.time() < end: pass") as process:
        done = attached(process.pid, "--seconds", 20)
    assert (done.returncode, done.stderr) == (0, "")
    assert "It ended after " in " ".join(done.stdout.split())
    assert re.search(r"CPUs +[01]\.\d\d used", done.stdout)


def kernel_thread() -> int:
    for place in Path("/proc").glob("[0-9]*"):
        if state(int(place.name)) and not os.path.lexists(place / "exe"):
            return int(place.name)
        if not (place / "cmdline").read_bytes() and state(int(place.name)) not in (None, "Z"):
            return int(place.name)
    pytest.skip("no thread of the kernel is to be seen here")


def test_a_thread_of_the_kernel_is_none() -> None:
    pid = kernel_thread()
    failed(attached(pid), f"process {pid} (", "kernel")
    failed(run("--attach", str(pid)), "kernel")


@pytest.mark.parametrize("pid", ["99999999", "1" + "0" * 30])
def test_there_is_no_such_process(pid: str) -> None:
    failed(attached(pid), f"no process {pid} ", "ps -e")
    failed(attached(pid, "--watch"), f"no process {pid} ")
    failed(run("--attach", pid), f"no process {pid} ")


def test_one_that_has_ended_and_was_not_reaped() -> None:
    with python("") as process:
        assert eventually(lambda: state(process.pid) == "Z")
        failed(attached(process.pid), f"process {process.pid} (", "has ended")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["attach"], "say which"),
        (["attach", "1", "--engine", "vllm"], "say which"),
        (["attach", "0"], "x>=1"),
        (["attach", "-1"], "-1"),
        (["attach", "--", "-1"], "x>=1"),
        (["attach", "llama-server"], "llama-server"),
        (["attach", "--engine", "triton"], "llama-cpp-python"),
        (["attach", "1", "--seconds", "0"], "--seconds"),
        (["attach", "1", "--seconds", "61"], "--seconds"),
        (["--attach", "0"], "--attach"),
        (["--attach", "1", "--from", "x"], "--attach"),
        (["--attach", "1", "plan", "x"], "--attach is not for plan"),
        (["--json", "attach", "1"], "--json belongs behind attach"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], named: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert named in done.stderr


@pytest.mark.parametrize(
    ("shell", "said"),
    [(">&-", "standard output is closed"), ("> /dev/full", "No space left"), ("| head -c 1", "")],
)
def test_an_output_that_takes_nothing(busy: subprocess.Popen[bytes], shell: str, said: str) -> None:
    command = f"{' '.join(NODECHECK)} attach {busy.pid} --seconds 1 {shell}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == bool(said), done.stderr


def of_engines(place: Path, *pids: int) -> Host:
    files: Tree = {"proc/uptime": "1 1\n", "proc/meminfo": "MemTotal: 1 kB\n"}
    for pid in pids:
        files |= {
            f"proc/{pid}/stat": captures.stat(pid),
            f"proc/{pid}/comm": "llama-server\n",
            f"proc/{pid}/cmdline": "llama-server\0-m\0m.gguf\0",
        }
    return plant(files, place / "node")


def test_an_engine_is_found_by_its_name(tmp_path: Path) -> None:
    assert process_of(of_engines(tmp_path, 812), "llama.cpp") == 812


@pytest.mark.parametrize(
    ("pids", "said"),
    [
        ((), "vllm: none was found to run here; where it goes by another name: nodecheck attach"),
        ((812, 4711), "llama.cpp: 2 run here: nodecheck attach one of 812, 4711"),
        (tuple(range(11, 25)), "llama.cpp: 14 run here: nodecheck attach one of 11, 12"),
    ],
)
def test_an_engine_that_does_not_run_once(tmp_path: Path, pids: tuple[int, ...], said: str) -> None:
    with pytest.raises(click.ClickException) as raised:
        process_of(
            of_engines(tmp_path, *pids), said.partition(":")[0] if ":" in said else "llama.cpp"
        )
    assert said in raised.value.message
    assert "\n" not in raised.value.message


def test_an_engine_that_may_be_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "hides_others", lambda _: True)
    with pytest.raises(click.ClickException) as raised:
        process_of(of_engines(tmp_path), "vllm")
    assert raised.value.message == (
        "vllm: none runs here, or it is another user's: /proc hides those (hidepid); "
        "run as that user, or as root"
    )
    assert process_of(of_engines(tmp_path / "other", 812), "llama.cpp") == 812


def test_a_capture_can_hold_a_process(tmp_path: Path) -> None:
    of_engines(tmp_path, 812)
    root = str(tmp_path / "node")
    report = of_json(run("--root", root, "--attach", "812", "--json"))
    assert (report.facts.engine.pid, report.facts.engine.engine) == (812, "llama.cpp")
    failed(run("--root", root, "--attach", "813"), "process 813 is not in this capture")


def test_the_whole_report_tells_of_the_engine_too(busy: subprocess.Popen[bytes]) -> None:
    done = run("--quick", "--attach", str(busy.pid))
    assert done.returncode == 0, done.stderr
    assert f"process {busy.pid} (python" in " ".join(done.stdout.split())


def test_a_report_without_it_has_no_trace_of_one() -> None:
    report = of_json(run("--quick", "--json"))
    assert report.facts.engine == EngineFacts()
    assert not [gap for gap in report.gaps if gap.check == "engine"]


def watched_again(pid: int, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*NODECHECK, "attach", str(pid), "--watch", "--seconds", "1", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_watching_gives_a_line_a_window_until_ctrl_c(busy: subprocess.Popen[bytes]) -> None:
    with watched_again(busy.pid) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    for line in (*lines, *rest.splitlines()):
        assert LINE.match(line), line
    assert is_running(busy.pid)


def test_watching_ends_with_the_process(busy: subprocess.Popen[bytes]) -> None:
    with watched_again(busy.pid, "--json") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        busy.kill()
        busy.wait()
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, f"Process {busy.pid} has ended.\n")
    for line in (first, *rest.splitlines()):
        assert from_json(line.encode(), "line").facts.engine.pid == busy.pid


@pytest.mark.parametrize("dumb", [False, True])
def test_a_terminal_is_drawn_over(busy: subprocess.Popen[bytes], *, dumb: bool) -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*NODECHECK, "attach", str(busy.pid), "--watch", "--seconds", "1"],
        stdout=follower,
        stderr=follower,
        env={**os.environ, "COLUMNS": "80", "LINES": "12", "TERM": "dumb" if dumb else "xterm"},
    ) as process:
        os.close(follower)
        told = ""
        end = time.monotonic() + 60
        while told.count("The node itself" if dumb else REDRAW) < 3 and time.monotonic() < end:
            told += os.read(leader, 1 << 16).decode()
            if dumb and len(LINE.findall(told)) >= 2:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    os.close(leader)
    if dumb:
        assert REDRAW not in told
        return
    screens = told.split(REDRAW)[1:-1]
    assert screens
    for screen in screens:
        lines = screen.replace("\r\x1b[K", "").splitlines()
        assert re.search(r"(OK|SLOW)", lines[0])
        assert len(lines) <= 12
        assert "lines more: without --watch" in screen


Run = Callable[..., Result]


class Windows:
    """Stands for the watching: gives one state of the engine after the other."""

    def __init__(self, *states: str | None) -> None:
        self.states = list(states)
        self.nodes = 0

    def node(self, *_: object) -> Report:
        self.nodes += 1
        return Report(
            nodecheck_version="0",
            time="2026-12-01T02:14:09+00:00",
            host=HostInfo(source="live", holds=()),
            facts=Facts(),
        )

    def watch(self, _host: object, report: Report, pid: int, _seconds: float) -> Report:
        facts = replace(HEALTHY, state=self.states.pop(0), pid=pid)
        detail = "the engine probe: no answer within 100 s"
        gap = Gap(check="engine", field="*", reason=Reason.TIMEOUT, detail=detail)
        gaps = () if facts.state else (gap,)
        return replace(report, facts=replace(report.facts, engine=facts), gaps=gaps)


def watch(monkeypatch: pytest.MonkeyPatch, windows: Windows, *arguments: str) -> Result:
    monkeypatch.setattr(attach, "watch", windows.watch)
    monkeypatch.setattr(attach, "read_node", windows.node)
    return CliRunner().invoke(group, ["attach", str(os.getpid()), *arguments])


def test_the_node_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows("watched", "watched", "ended", "watched")
    done = watch(monkeypatch, windows, "--watch")
    assert (done.exit_code, windows.nodes, windows.states) == (0, 1, ["watched"])
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == f"Process {os.getpid()} has ended.\n"


def test_it_ends_between_two_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    done = watch(monkeypatch, Windows("watched", "absent"), "--watch")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == f"Process {os.getpid()} has ended.\n"


@pytest.mark.parametrize(
    ("state", "said"),
    [("absent", "ended before it could be watched"), (None, "could not be watched: the engine")],
)
def test_what_could_not_be_watched_fails(
    monkeypatch: pytest.MonkeyPatch, state: str | None, said: str
) -> None:
    done = watch(monkeypatch, Windows(state))
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
