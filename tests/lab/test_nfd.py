"""The service that writes labels, under systemd itself: it sees what root sees, and little else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from nodecheck.render.nfd import NAMESPACE
from tests.cli.test_commands import run
from tests.integrations.test_systemd import EXPOSURE_MAX, analyze
from tests.lab import booted

NODECHECK = f"{sys.executable} -m nodecheck"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
UNITS = ("nodecheck-nfd.service", "nodecheck-nfd.timer")

SCRIPT = f"""\
systemctl start nodecheck-nfd.service; echo "without folder $?"
mkdir -p {FEATURES}
systemctl start nodecheck-nfd.service; echo "start $?"
cp {FEATURES}/nodecheck /run/told/by-service
stat --format 'mode %U %a' {FEATURES}/nodecheck
ls -A {FEATURES} | wc -l
{NODECHECK} export nfd --quick > /run/told/by-root
systemctl start nodecheck-nfd.service; echo "again $?"
systemctl start nodecheck-nfd.timer; echo "timer $?"
"""


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    if reason := booted.why_not():
        pytest.skip(f"systemd cannot be started: {reason}")
    users = ("nodecheck.sysusers.conf", "nodecheck.tmpfiles.conf")  # that system makes them
    made = {name: run("init", "systemd", name).stdout for name in users}
    return booted.boot(
        SCRIPT, {**made, **{name: run("init", "nfd", name).stdout for name in UNITS}}
    )


def labels(text: str) -> dict[str, str]:
    """Those that stay: a finding may come and go with what else the machine does."""
    found = dict(re.findall(rf"^{re.escape(NAMESPACE)}/(\S+)=(\S+)$", text, re.MULTILINE))
    assert "status" in found, text
    return {name: value for name, value in found.items() if name.split(".")[0] != "critical"}


def test_it_writes_the_labels_that_root_gets(told: dict[str, str]) -> None:
    assert "start 0" in told["out"], told["log"]
    assert labels(told["by-service"]) == labels(told["by-root"])


def test_its_file_is_readable_for_all_and_alone(told: dict[str, str]) -> None:
    assert "mode root 644\n1\n" in told["out"]


def test_it_runs_again_and_by_its_timer(told: dict[str, str]) -> None:
    assert "again 0" in told["out"]
    assert "timer 0" in told["out"]


def test_without_the_folder_it_fails_and_says_so(told: dict[str, str]) -> None:
    assert "without folder 1" in told["out"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("nfd")
    assert run("init", "nfd", "--to", str(place)).returncode == 0
    return place / "etc/systemd/system"


@pytest.mark.parametrize("name", UNITS)
def test_systemd_has_nothing_to_say_about_them(files: Path, name: str) -> None:
    done = analyze("verify", str(files / name))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_exposure_is_low(files: Path) -> None:
    unit, threshold = str(files / UNITS[0]), f"--threshold={EXPOSURE_MAX}"
    done = analyze("security", "--offline=true", "--no-pager", threshold, unit)
    assert done.returncode == 0, done.stdout
