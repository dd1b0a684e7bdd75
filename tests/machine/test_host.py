from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.machine.command import Output
from nodecheck.machine.host import CapturedHost, LiveHost, Statvfs, open_host
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason
from tests.processes import children, descriptors
from tests.trees import Tree, plant

Node = Callable[[Tree], CapturedHost]

GOOD = {"f_frsize": 4096, "f_blocks": 10, "f_bfree": 5, "f_bavail": 4, "f_files": 3, "f_ffree": 2}


def reason(work: Callable[[], object]) -> Reason:
    with pytest.raises(UnreadableError) as error:
        work()
    return error.value.reason


def of(answer: Statvfs | UnreadableError) -> Reason | None:
    return answer.reason if isinstance(answer, UnreadableError) else None


# --- captured


def test_statvfs_of_a_capture(node: Node) -> None:
    written = {"/": {**GOOD, "f_bsize": 4096, "f_favail": 1}, "/hung": {"hang": True}}
    host = node({"statvfs.json": json.dumps(written)})
    answers = host.statvfs(("/", "/hung", "/none"), 2.0)
    assert answers["/"] == Statvfs(**GOOD)
    assert of(answers["/hung"]) is Reason.TIMEOUT
    assert of(answers["/none"]) is Reason.ABSENT


@pytest.mark.parametrize(
    "lie",
    [
        {**GOOD, "f_bavail": -1},
        {**GOOD, "f_blocks": "10"},
        {**GOOD, "f_blocks": 1.5},
        {**GOOD, "f_blocks": None},
        {**GOOD, "f_blocks": True},
        {**GOOD, "f_blocks": 1 << 70},
        {**GOOD, "f_blocks": [1]},
        {"f_blocks": 10},
        {**GOOD, "hang": "no"},
        {},
        [],
        None,
        "text",
        7,
    ],
)
def test_a_lie_about_one_mount_costs_no_other(lie: object, node: Node) -> None:
    host = node({"statvfs.json": json.dumps({"/lie": lie, "/": GOOD})})
    answers = host.statvfs(("/", "/lie"), 2.0)
    assert answers["/"] == Statvfs(**GOOD)
    assert of(answers["/lie"]) is Reason.FAILED


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"/": ' * 3, b"\xff\xfe", "[" * 100_000])
def test_a_file_that_is_no_table_of_mounts(text: str | bytes, node: Node) -> None:
    answers = node({"statvfs.json": text}).statvfs(("/",), 2.0)
    assert of(answers["/"]) is Reason.FAILED


def test_a_capture_without_it(node: Node) -> None:
    assert of(node({"proc/a": ""}).statvfs(("/",), 2.0)["/"]) is Reason.ABSENT


def test_cpuid_of_a_capture(node: Node) -> None:
    host = node({"cpuid.json": '{"1.0": [1, 2, 3, 4294967295], "80000000.0": [0, 0, 0, 0]}'})
    assert host.cpuid() == {"1.0": (1, 2, 3, 4294967295), "80000000.0": (0, 0, 0, 0)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"1.0": [1, 2, 3]}',
        '{"1.0": [1, 2, 3, -1]}',
        '{"1.0": [1, 2, 3, 4294967296]}',
        '{"1.0": ["1", "2", "3", "4"]}',
        '{"leaf": [1, 2, 3, 4]}',
        '{"1": [1, 2, 3, 4]}',
        '{"": [1, 2, 3, 4]}',
        b"\xff",
    ],
)
def test_garbage_in_the_place_of_cpuid(text: str | bytes, node: Node) -> None:
    host = node({"cpuid.json": text})
    assert reason(host.cpuid) is Reason.FAILED


def test_what_a_capture_cannot_hold(node: Node) -> None:
    host = node({"witness.json": '{"avx": "executed", "bmi2": "perhaps"}'})
    assert host.witness() == {"avx": "executed"}
    assert reason(host.xcr0) is Reason.ABSENT
    assert reason(host.cpuid) is Reason.ABSENT


@pytest.mark.parametrize("text", ["[]", '{"avx": 1}', "{"])
def test_garbage_in_the_place_of_the_witness(text: str, node: Node) -> None:
    assert reason(node({"witness.json": text}).witness) is Reason.FAILED


@pytest.mark.parametrize(
    ("rc", "status"),
    [("0", 0), ("9\n", 9), ("-4", -4), ("", 0), ("x", 0), ("--5", 0), ("²", 0), ("1" * 5000, 0)],
)
def test_the_status_of_a_captured_command(rc: str, status: int, node: Node) -> None:
    host = node({"cmd/tool.txt": "out", "cmd/tool.rc": rc})
    assert host.run(("tool",)) == Output(status, "out")


def test_the_output_of_captured_commands(node: Node) -> None:
    host = node(
        {
            "cmd/nvidia-smi_--query-gpu=name.csv": "a, b",
            "cmd/btrfs_filesystem_usage__data_x.txt": "usage",
        }
    )
    assert host.run(("nvidia-smi", "--query-gpu=name")).text == "a, b"
    assert host.run(("btrfs", "filesystem", "usage", "/data/x")).text == "usage"
    assert reason(lambda: host.run(("lspci",))) is Reason.ABSENT
    assert reason(lambda: host.run(("../../proc", "x"))) is Reason.ABSENT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(content=st.binary(max_size=300))
def test_random_files_never_crash(content: bytes, tmp_path: Path) -> None:
    host = plant({}, tmp_path)
    names = ("statvfs.json", "cpuid.json", "witness.json", "file")
    for name in names:
        (tmp_path / name).write_bytes(content)
    assert isinstance(host.read("/file"), str)
    host.statvfs(("/",), 1.0)
    for work in (host.cpuid, host.witness):
        with contextlib.suppress(UnreadableError):
            work()


# --- live


def test_a_live_node_answers() -> None:
    host = open_host(None)
    assert isinstance(host, LiveHost)
    assert host.read("/proc/self/stat").startswith(str(os.getpid()))
    assert host.exists("/proc/self")
    assert not host.exists("/no/such/path")
    assert "self" in host.names("/proc")
    assert host.run(("echo", "a")).text == "a\n"
    assert reason(lambda: host.read("/no/such/path")) is Reason.ABSENT
    assert reason(lambda: host.read("/proc")) is Reason.FAILED


def test_statvfs_agrees_with_df(tmp_path: Path) -> None:
    host, mounts = LiveHost(), ("/", str(tmp_path))
    for mount, answer in host.statvfs(mounts, 20.0).items():
        assert isinstance(answer, Statvfs)
        df = subprocess.run(
            ["df", "-k", "--output=size,avail", mount], capture_output=True, text=True, check=True
        ).stdout.split()[2:]
        assert answer.f_blocks * answer.f_frsize // 1024 == int(df[0])
        assert abs(answer.f_bavail * answer.f_frsize / 1024 - int(df[1])) < 1 << 20


def test_statvfs_of_what_is_not_there(tmp_path: Path) -> None:
    answers = LiveHost().statvfs(("/no/such/mount", str(tmp_path / "a\udcff")), 20.0)
    assert of(answers["/no/such/mount"]) is Reason.ABSENT
    assert of(answers[str(tmp_path / "a\udcff")]) is Reason.ABSENT


def test_no_mounts_are_no_question() -> None:
    assert LiveHost().statvfs((), 1.0) == {}


def test_nothing_is_left_after_100_runs() -> None:
    before = children(), descriptors()
    host = LiveHost()
    for _ in range(100):
        assert isinstance(host.statvfs(("/",), 20.0)["/"], Statvfs)
    assert (children(), descriptors()) == before
