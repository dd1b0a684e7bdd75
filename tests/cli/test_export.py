"""The real command prints labels or puts them where Node Feature Discovery reads them."""

from __future__ import annotations

import datetime
import json
import re
import stat
import subprocess
from pathlib import Path

import pytest

from nodecheck.model import pretty_json
from nodecheck.render.nfd import NAMESPACE
from tests.cli.test_commands import NODECHECK, failed, run
from tests.hosts import THREE_L40
from tests.records.histories import NOON, report
from tests.trees import plant

EXPIRY = re.compile(r"^# \+expiry-time=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$", re.MULTILINE)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def end_of(text: str) -> datetime.datetime:
    found = EXPIRY.findall(text)
    assert len(found) == 1
    return datetime.datetime.fromisoformat(found[0].replace("Z", "+00:00"))


@pytest.fixture
def node(tmp_path: Path) -> str:
    plant(THREE_L40, tmp_path / "node")
    return str(tmp_path / "node")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "features.d").mkdir()
    return tmp_path / "features.d"


def read(text: str, at: datetime.datetime) -> dict[str, str]:
    """The labels as Node Feature Discovery reads a feature file. Source: its source/local."""
    end, found = at, {}
    for line in map(str.strip, text.splitlines()):
        if directive := re.fullmatch(r"# \+expiry-time=(.*)", line):
            end = datetime.datetime.fromisoformat(directive[1].replace("Z", "+00:00"))
        elif line and not line.startswith("#") and end >= at:
            name, _, value = line.partition("=")
            found[name] = value or "true"
    return found


def test_labels_count_until_they_expire(node: str) -> None:
    text = run("export", "nfd", "--root", node, "--expires", "30m").stdout
    now_told, later = (read(text, now() + datetime.timedelta(minutes=m)) for m in (29, 31))
    assert now_told[f"{NAMESPACE}/status"] == "critical"
    assert later == {}
    assert len(text.encode()) < 64_000  # a larger file is passed over


def test_this_machine_is_told_in_labels() -> None:
    done = run("export", "nfd", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(
        rf"^{NAMESPACE}/status=(ok|warning|critical|unknown)$", done.stdout, re.MULTILINE
    )
    left = end_of(done.stdout) - now()
    assert datetime.timedelta(minutes=119) < left <= datetime.timedelta(hours=2)


def test_a_captured_node_is_told_in_labels(node: str) -> None:
    done = run("export", "nfd", "--root", node, "--expires", "30m")
    assert f"{NAMESPACE}/critical.cpu.hypervisor_masked=true\n" in done.stdout
    assert end_of(done.stdout) - now() <= datetime.timedelta(minutes=30)


def test_twice_gives_the_same_but_for_the_time(node: str) -> None:
    texts = {EXPIRY.sub("", run("export", "nfd", "--root", node).stdout) for _ in range(2)}
    assert len(texts) == 1


def test_the_policy_has_its_say(node: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[waivers]]\nid = "cpu.hypervisor_masked"\nreason = "known"\n')
    done = run("export", "nfd", "--root", node, "--policy", str(policy))
    assert f"{NAMESPACE}/status=warning\n" in done.stdout
    assert "critical." not in done.stdout


def test_the_file_is_whole_and_readable_for_all_whatever_the_umask(node: str, folder: Path) -> None:
    command = [*NODECHECK, "export", "nfd", "--root", node, "--to", str(folder / "nodecheck")]
    for _ in range(2):  # made, and written over
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60, umask=0o077
        )
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        (file,) = folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        assert file.read_text().startswith("# nodecheck ")
        assert file.read_text().endswith("\n")


def test_no_half_file_is_ever_seen_there(node: str, folder: Path) -> None:
    """What is not whole lies in a file that begins with a dot; the other one is moved there."""
    trace = folder.parent / "trace"
    target = folder / "nodecheck"
    command = ["strace", "-f", "-e", "trace=openat,rename,renameat,renameat2", "-o", str(trace)]
    try:
        subprocess.run(
            [*command, *NODECHECK, "export", "nfd", "--root", node, "--to", str(target)],
            capture_output=True, check=True, timeout=60,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("strace is not here: apt-get install strace")
    calls = [line for line in trace.read_text().splitlines() if str(folder) in line]
    writes = [line for line in calls if "O_WRONLY" in line or "O_RDWR" in line]
    assert writes
    assert all(f"{folder}/.nodecheck" in line for line in writes), writes
    assert [line for line in calls if "rename" in line and line.rstrip().endswith("= 0")]


def test_a_file_of_somebody_else_stays(node: str, folder: Path) -> None:
    other = folder / "theirs"
    other.write_text("vendor.io/feature=1\n")
    failed(run("export", "nfd", "--root", node, "--to", str(other)), "holds no labels of nodecheck")
    assert other.read_text() == "vendor.io/feature=1\n"


@pytest.mark.parametrize(
    ("to", "why"),
    [("none/nodecheck", "No such file or directory"), ("features.d", "it is no regular file")],
)
def test_what_cannot_be_written_is_one_line(node: str, folder: Path, to: str, why: str) -> None:
    file = folder.parent / to
    failed(run("export", "nfd", "--root", node, "--to", str(file)), str(file), why)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--to", "x/.nodecheck"), "begin with a dot"),
        (("--to", ""), "empty"),
        (("--expires", "10s"), "shorter than a minute"),
        (("--expires", "soon"), "no span of time"),
        (("--from", "a.json", "--root", "b"), "--from"),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], why: str) -> None:
    done = run("export", "nfd", *arguments)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def saved(place: Path, age: datetime.timedelta) -> str:
    told = json.loads(pretty_json(report(NOON)))
    told["time"] = (now() - age).isoformat(timespec="seconds")
    (place / "report.json").write_text(json.dumps(told))
    return str(place / "report.json")


def test_a_saved_report_ends_by_its_own_age(tmp_path: Path) -> None:
    file = saved(tmp_path, datetime.timedelta(hours=1))
    done = run("export", "nfd", "--from", file)
    left = end_of(done.stdout) - now()
    assert datetime.timedelta(minutes=58) < left <= datetime.timedelta(hours=1)


def test_an_old_report_is_no_news(tmp_path: Path, folder: Path) -> None:
    file = saved(tmp_path, datetime.timedelta(hours=3))
    target = folder / "nodecheck"
    failed(run("export", "nfd", "--from", file, "--to", str(target)), "labels have expired")
    assert not target.exists()
    assert run("export", "nfd", "--from", file, "--expires", "4h").returncode == 0


def test_a_time_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    file = Path(saved(tmp_path, datetime.timedelta()))
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "time": "9999-12-31T23:59:59+00:00"}))
    failed(run("export", "nfd", "--from", str(file)), "cannot be")


def test_a_full_disk_leaves_the_old_labels(node: str, folder: Path) -> None:
    target = folder / "nodecheck"
    target.write_text("# nodecheck 0.1.0: old\n")
    done = subprocess.run(
        [*NODECHECK, "export", "nfd", "--root", node, "--to", str(target)],
        capture_output=True, text=True, check=False, timeout=60,
        preexec_fn=_no_file_may_grow,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert target.read_text() == "# nodecheck 0.1.0: old\n"
    assert [file.name for file in folder.iterdir()] == ["nodecheck"]


def _no_file_may_grow() -> None:
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
