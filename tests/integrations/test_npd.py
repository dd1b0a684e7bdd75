"""node-problem-detector would start with what `nodecheck init npd` prints, and tell the truth."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.gating import NODECHECK
from tests.hosts import HEALTHY, THREE_L40
from tests.integrations.npd import ConfigError, read, run, seconds
from tests.trees import Tree, plant

from nodecheck.checks.gpu import DEADLINE_SECONDS

STARTS_AND_ENDS_SECONDS = 10.0
"""What the gate takes beside its longest probe, on a machine that is busy."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file as it is made for this machine."""
    place = tmp_path_factory.mktemp("npd")
    subprocess.run([*NODECHECK, "init", "npd", "--to", str(place)], check=True, capture_output=True)
    return (place / "etc/node-problem-detector/nodecheck.json").read_text()


@pytest.fixture(scope="module")
def config(text: str) -> dict[str, Any]:
    return read(text)


def test_the_names_are_as_kubernetes_has_them(config: dict[str, Any]) -> None:
    (condition,), (rule,) = config["conditions"], config["rules"]
    for word in (condition["type"], condition["reason"], rule["reason"]):
        assert word.isalnum()
        assert word[0].isupper()


def test_nobody_is_told_that_a_node_is_well_before_it_was_looked_at(
    config: dict[str, Any],
) -> None:
    assert config["pluginConfig"]["skip_initial_status"] is True


def test_a_driver_that_hangs_is_told_by_us_and_not_by_a_kill(config: dict[str, Any]) -> None:
    (rule,) = config["rules"]
    assert seconds(rule["timeout"]) >= DEADLINE_SECONDS + STARTS_AND_ENDS_SECONDS
    assert seconds(config["pluginConfig"]["invoke_interval"]) >= 2 * seconds(rule["timeout"])


def low_disk(tree: Tree) -> Tree:
    sizes = {"f_frsize": 4096, "f_blocks": 1 << 28, "f_bfree": 1 << 23, "f_bavail": 1 << 23,
             "f_files": 1 << 24, "f_ffree": 1 << 23}  # fmt: skip
    return {**tree, "statvfs.json": json.dumps({"/": sizes})}


def no_cpu(tree: Tree) -> Tree:
    return {**tree, "proc/cpuinfo": ""}


@pytest.mark.parametrize(
    ("tree", "status", "says"),
    [
        (HEALTHY, "False", "nodecheck found nothing critical"),
        (low_disk(HEALTHY), "False", "nodecheck found nothing critical"),
        (THREE_L40, "True", "CRITICAL node: cpu.hypervisor_masked"),
        (no_cpu(HEALTHY), "Unknown", "UNKNOWN not judged: cpu"),
    ],
    ids=["healthy", "warning", "critical", "unknown"],
)
def test_what_becomes_of_the_condition(
    config: dict[str, Any], tmp_path: Path, tree: Tree, status: str, says: str
) -> None:
    plant(tree, tmp_path / "node")
    shown = run(config, "--root", str(tmp_path / "node"))
    assert shown.status == status, shown
    assert shown.message.startswith(says)
    assert (shown.reason == config["rules"][0]["reason"]) == (status == "True")


def test_the_warning_of_that_disk_is_one(tmp_path: Path) -> None:
    plant(low_disk(HEALTHY), tmp_path / "node")
    command = [*NODECHECK, "gate", "--root", str(tmp_path / "node")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:18]) == (1, "WARNING node: disk")


def test_our_own_failure_is_unknown(config: dict[str, Any], tmp_path: Path) -> None:
    shown = run(config, "--policy", str(tmp_path / "none.toml"))
    assert shown.status == "Unknown"
    assert shown.message.startswith("UNKNOWN ")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c["rules"][0].update(timeout="2m"), "above the general one"),
        (lambda c: c["rules"][0].update(timeout="a while"), "no duration"),
        (lambda c: c["rules"][0].update(condition="Other"), "no default condition"),
        (lambda c: c["rules"][0].update(path="/none/nodecheck"), "does not exist"),
        (lambda c: c["pluginConfig"].update(skip_initial_state=True), "passed over"),
        (lambda c: c["pluginConfig"].update(invoke_interval="0s"), "not above 0"),
    ],
)
def test_what_would_be_wrong_is_seen(
    text: str, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    config = json.loads(text)
    change(config)
    with pytest.raises(ConfigError, match=why):
        read(json.dumps(config))
