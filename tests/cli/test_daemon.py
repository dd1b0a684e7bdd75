"""`nodecheck daemon` as a process: from its first line to its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodecheck.report import from_json
from tests.cli.test_commands import failed, run
from tests.daemon.driven import BLOCKED_SECONDS, CONFIG
from tests.daemon.running import DRIVEN, NODECHECK, Running, running
from tests.daemon.test_loop import Turning
from tests.processes import children, eventually, is_running

END_SECONDS = 1.0
Daemon = contextlib.AbstractContextManager[Running]


IGNORES = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""
IMPORTS = """
import sys, nodecheck.cli.daemon, nodecheck.daemon.service
from nodecheck.render.prometheus import unknown
unknown()
print(*sys.modules)
"""


def is_ready(daemon: Running) -> bool:
    return daemon.ask("/readyz")[0] == 200


def test_it_looks_serves_and_ends(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert eventually(lambda: is_ready(daemon)), daemon.lines()
        series = daemon.series()
        assert sum(series[f'nodecheck_status{{status="{status}"}}']
                   for status in ("ok", "warning", "critical", "unknown")) == 1  # fmt: skip
        assert series['nodecheck_daemon_passes_total{kind="light",outcome="ok"}'] >= 1
        assert 0 <= series["nodecheck_report_age_seconds"] < 60
        report = from_json(daemon.ask("/api/v1/report")[1].encode(), "report")
        told = json.loads(daemon.ask("/api/v1/findings")[1])
        assert (told["time"], told["status"]) == (report.time, report.verdict.status.value)
        assert daemon.end() < END_SECONDS
    greeting, verdict = daemon.lines()
    assert greeting.endswith("; looks every 1m, measures every 6h")
    assert verdict == f"{report.verdict.status.value.upper()}: {report.verdict.headline}"
    stored = run("history", NODECHECK_HISTORY=str(tmp_path / "state" / "history.db"))
    assert stored.returncode == 0


def test_it_holds_little_and_knows_no_check(tmp_path: Path) -> None:
    """What it imports shows in its maps, and in the modules of the same imports."""
    with running(tmp_path) as daemon:
        assert eventually(lambda: is_ready(daemon))
        daemon.ask("/metrics")
        assert daemon.series()["process_resident_memory_bytes"] < 50e6
        maps = Path(f"/proc/{daemon.pid}/maps").read_text()
        assert "sqlite" not in maps
        assert "_native" not in maps
    command = [sys.executable, "-c", IMPORTS]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    heavy = ("nodecheck.checks", "nodecheck.collect", "nodecheck.records", "jinja2", "pygal",
             "sqlite3", "rich", "psutil", "pynvml", "cffi")  # fmt: skip
    assert [name for name in listed if name.startswith(heavy)] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_with_clients_that_are_connected(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running(tmp_path) as daemon:
        host, port = daemon.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as idle, socket.create_connection(
            (host, int(port))
        ) as asking:  # fmt: skip
            asking.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert daemon.end(number) < END_SECONDS
            assert idle.recv(1) == b""


def test_who_starts_it_may_ignore_what_becomes_of_children(tmp_path: Path) -> None:
    """The kernel then reaps them, and tells nobody how they ended."""
    ignoring = (sys.executable, "-c", IGNORES, *NODECHECK)
    with running(tmp_path, "--listen", "127.0.0.1:0", program=ignoring) as daemon:
        assert eventually(lambda: is_ready(daemon)), daemon.lines()


def test_it_needs_no_standard_output(tmp_path: Path) -> None:
    closing = ("/bin/sh", "-c", 'exec "$0" "$@" >&-', *NODECHECK)
    with running(tmp_path, "--listen", "127.0.0.1:0", program=closing) as daemon:
        assert eventually(lambda: is_ready(daemon)), daemon.lines()


def test_it_ends_while_it_starts(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert daemon.end() < END_SECONDS


@pytest.fixture
def driven(tmp_path: Path) -> Turning:
    """What tells the collector of the next daemon how to behave."""
    (tmp_path / "collector").mkdir()
    return Turning(tmp_path / "collector")


def start(driven: Turning, speed: float = 1.0, beat: dict[str, str] | None = None) -> Daemon:
    place = driven.directory.parent
    return running(place, str(driven.directory), str(speed), "127.0.0.1:0", "10s",
                   program=DRIVEN, **(beat or {}))  # fmt: skip


@pytest.mark.parametrize("how", ["hang", "stubborn"])
def test_before_the_first_report_it_is_unknown_and_ends_while_a_pass_runs(
    driven: Turning, how: str
) -> None:
    driven.behave(how)
    with start(driven) as daemon:
        assert eventually(lambda: len(driven.runs()) == 1)
        assert daemon.ask("/healthz")[0] == 200
        assert daemon.ask("/readyz")[0] == 503
        assert daemon.ask("/api/v1/report")[0] == 503
        series = daemon.series()
        assert series['nodecheck_status{status="unknown"}'] == 1
        assert series['nodecheck_status{status="ok"}'] == 0
        assert "nodecheck_report_age_seconds" not in series
        assert daemon.end() < END_SECONDS
    assert not is_running(driven.runs()[0][1])


def test_a_report_that_grows_old_is_unknown(driven: Turning) -> None:
    (driven.directory / CONFIG).write_text('kernels = "never"\n')  # light passes alone
    with start(driven, 60.0) as daemon:
        assert eventually(lambda: is_ready(daemon))
        driven.behave("hang")
        assert eventually(lambda: not is_ready(daemon))
        series = daemon.series()
        assert series['nodecheck_status{status="unknown"}'] == 1
        assert series["nodecheck_report_age_seconds"] > 90
        assert eventually(
            lambda: (
                daemon.series()['nodecheck_daemon_passes_total{kind="light",outcome="timeout"}']
                >= 1
            )
        )
        driven.behave("ok")
        assert eventually(lambda: is_ready(daemon))
        assert daemon.end() < END_SECONDS
    told = daemon.lines()
    assert told[1:] == ["OK: a light pass",
                        "no report: the light pass failed: no answer within 61 s",
                        "reports are made again"]  # fmt: skip


class Manager:
    """A service manager: it listens for datagrams."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self.told: list[str] = []

    def hear(self) -> list[str]:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.told.append(self._socket.recv(4096).decode())
        return self.told

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.close()


def test_it_tells_the_service_manager_how_it_is(driven: Turning, manager: Manager) -> None:
    beat = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000"}
    with start(driven, beat=beat) as daemon:
        assert eventually(lambda: "STATUS=OK: a light pass" in manager.hear())
        assert manager.told.index("READY=1") < manager.told.index("STATUS=OK: a light pass")
        seen = manager.told.count("WATCHDOG=1")
        assert eventually(lambda: manager.hear().count("WATCHDOG=1") > seen + 5)
        daemon.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: manager.hear().count("READY=1") == 2)
        assert any(each.startswith("RELOADING=1\nMONOTONIC_USEC=") for each in manager.told)
        daemon.end()
        assert manager.hear()[-1] == "STOPPING=1"


def test_signs_of_life_go_on_while_a_pass_hangs_and_stop_where_the_loop_does(
    driven: Turning, manager: Manager
) -> None:
    driven.behave("hang")
    beat = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000"}
    with start(driven, beat=beat) as daemon:
        assert eventually(lambda: len(driven.runs()) == 1)
        seen = manager.hear().count("WATCHDOG=1")
        assert eventually(lambda: manager.hear().count("WATCHDOG=1") > seen + 5)
        daemon.process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        blocked = manager.hear().count("WATCHDOG=1")
        time.sleep(BLOCKED_SECONDS / 2)
        assert manager.hear().count("WATCHDOG=1") == blocked
        assert eventually(lambda: manager.hear().count("WATCHDOG=1") > blocked)
        assert daemon.end() < END_SECONDS


def test_no_signs_of_life_where_they_are_meant_for_another(
    driven: Turning, manager: Manager
) -> None:
    beat = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "400000", "WATCHDOG_PID": "1"}
    with start(driven, beat=beat) as daemon:
        assert eventually(lambda: is_ready(daemon))
        time.sleep(0.5)
        assert "WATCHDOG=1" not in manager.hear()


TOKEN = "0123456789abcdef0123456789abcdef"


def secret(place: Path, text: str = TOKEN, mode: int = 0o600) -> Path:
    file = place / "token"
    file.write_text(f"{text}\n")
    file.chmod(mode)
    return file


def write(file: Path, **settings: str) -> Path:
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return file


def config_ok(daemon: Running, **headers: str) -> float:
    text = daemon.ask("/metrics", **headers)[1]
    return float(text.partition("\nnodecheck_daemon_config_ok ")[2].split()[0])


def test_sighup_takes_a_good_configuration_and_keeps_the_old_for_a_broken_one(
    tmp_path: Path,
) -> None:
    config = write(tmp_path / "daemon.toml", kernels='"never"')
    with running(tmp_path, "--config", str(config)) as daemon:
        assert daemon.lines()[0].endswith("measures never")
        assert eventually(lambda: is_ready(daemon))

        def reloaded(says: str) -> None:
            seen = len(daemon.lines())
            daemon.process.send_signal(signal.SIGHUP)
            assert eventually(lambda: any(says in line for line in daemon.lines()[seen:]))

        write(config, intervall='"60s"')
        reloaded(f"the configuration was not changed: {config}: there is no setting 'intervall'")
        assert config_ok(daemon) == 0
        assert is_ready(daemon)

        policy = tmp_path / "policy.toml"
        policy.write_text("name = 'broken\n")
        write(config, kernels='"never"', policy=f'"{policy}"')
        reloaded(f"the configuration was not changed: {policy}: not TOML")

        policy.write_text("name = 'mended'\nrequired = ['dram']\n")
        write(config, kernels='"never"', policy=f'"{policy}"', token_file=f'"{secret(tmp_path)}"')
        reloaded("the configuration was read again")
        assert daemon.ask("/metrics")[0] == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert config_ok(daemon, **bearer) == 1
        assert eventually(
            lambda: "mended" in json.loads(daemon.ask("/api/v1/report", **bearer)[1])["policy"]
        )
        write(config, kernels='"never"', listen='"127.0.0.1:1"')
        reloaded("the configuration was read again")
        assert daemon.ask("/healthz")[0] == 200
        assert daemon.end() < END_SECONDS


def test_where_it_cannot_listen_one_line_says_why() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        failed(run("daemon", "--listen", f"127.0.0.1:{port}"), f"127.0.0.1:{port}",
               "another program listens there")  # fmt: skip
    failed(run("daemon", "--listen", "0.0.0.0:0"), "listening on 0.0.0.0 needs a token")
    assert children() == set()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "nonsense"), "is no address and port"),
        (("--interval", "1s"), "is not between 10s and"),
        (("--config", ""), "--config is empty"),
        (("extra",), "unexpected extra argument"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], says: str) -> None:
    done = run("daemon", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


Making = Callable[[Path], tuple[str, ...]]


def of_token(text: str, mode: int = 0o600) -> Making:
    return lambda place: (f'token_file = "{secret(place, text, mode)}"',)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (lambda _: ("lissten = 'x'",), "there is no setting 'lissten'; there are listen,"),
        (lambda _: ("listen = ",), "not TOML"),
        (lambda _: ("policy = 'nope.toml'",), "nope.toml: No such file"),
        (lambda place: (f"token_file = '{place}/none'",), "none: No such file or directory"),
        (lambda place: (f"token_file = '{place}'",), "Is a directory"),
        (of_token(TOKEN, 0o644), "everybody can read this token: chmod 600"),
        (of_token(""), "a token has at least 16 characters"),
        (of_token("two words of a token"), "a token is one line of ASCII without spaces"),
        (lambda _: ("listen = '0.0.0.0:0'",), "listening on 0.0.0.0 needs a token"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(
    tmp_path: Path, lines: Making, says: str
) -> None:
    config = tmp_path / "daemon.toml"
    config.write_text("\n".join(lines(tmp_path)))
    failed(run("daemon", "--config", str(config)), says)
    failed(run("daemon", "--config", str(tmp_path / "none.toml")), "none.toml: No such file")


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')\n")
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    failed(run("daemon", PYTHONPATH=path), "needs uvicorn", "nodecheck[daemon]")
