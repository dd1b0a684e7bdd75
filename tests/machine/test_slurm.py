"""What scontrol is told, and what of its answers is told on."""

from __future__ import annotations

import json
import os
import pwd
import sys
from pathlib import Path

import pytest

from nodecheck.machine import command, slurm
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

_SCONTROL = """\
#!{python}
import json, pathlib, sys
pathlib.Path({told!r}).write_text(json.dumps(sys.argv[1:]))
print({says!r})
sys.exit({status})
"""


def plant(place: Path, says: str = "", status: int = 0) -> None:
    program = place / "scontrol"
    told = str(place / "told")
    program.write_text(_SCONTROL.format(python=sys.executable, told=told, says=says, status=status))
    program.chmod(0o755)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(command, "SYSTEM_PATH", "/nowhere")
    return tmp_path


def told(place: Path) -> list[str]:
    words: list[str] = json.loads((place / "told").read_text())
    return words


def test_the_node_is_asked_for_by_its_name(place: Path) -> None:
    plant(place, "NodeName=n1")
    assert slurm.node_text("n1") == "NodeName=n1\n"
    assert told(place) == ["show", "node", "n1"]


def test_a_reason_is_one_argument_and_no_shell_sees_it(place: Path) -> None:
    plant(place)
    slurm.drain("n1", "nodecheck: $(touch x) `y`; a b")
    assert told(place) == [
        "update", "NodeName=n1", "State=DRAIN", "Reason=nodecheck: $(touch x) `y`; a b",
    ]  # fmt: skip
    assert not (place / "x").exists()


def test_a_drain_is_taken_back_as_such(place: Path) -> None:
    plant(place)
    slurm.undrain("n1")
    assert told(place) == ["update", "NodeName=n1", "State=UNDRAIN"]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("Node n1 not found", "Node n1 not found"),
        ("first\nscontrol: fatal: no configuration\n", "no configuration"),
        ("scontrol: error: slurm_update error: denied", "slurm_update error: denied"),
        ("", "exit status 3"),
    ],
)
def test_a_refusal_is_told_in_its_last_words(place: Path, says: str, told: str) -> None:
    plant(place, says, status=3)
    with pytest.raises(UnreadableError) as caught:
        slurm.node_text("n1")
    assert caught.value.reason is Reason.FAILED
    assert caught.value.detail == f"scontrol show: {told}"


@pytest.mark.usefixtures("place")
def test_a_node_without_slurm_has_no_scontrol() -> None:
    with pytest.raises(UnreadableError) as caught:
        slurm.undrain("n1")
    assert caught.value.reason is Reason.ABSENT
    assert caught.value.detail == "scontrol: command not found"


@pytest.mark.parametrize(
    ("variable", "name"),
    [("gpu-17", "gpu-17"), ("", "vm"), (None, "vm")],
)
def test_slurmd_tells_the_name_or_it_is_the_hosts_short_one(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, name: str
) -> None:
    uname = os.uname_result(("Linux", "vm.example.org", "6.1", "#1", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: uname)
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    if variable is not None:
        monkeypatch.setenv("SLURMD_NODENAME", variable)
    assert slurm.node_name() == name


def test_we_are_called_as_scontrol_calls_us(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, name in ((0, "root"), (pwd.getpwnam("nobody").pw_uid, "nobody"), (54321, "54321")):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert slurm.user() == name
