"""The units as systemd reads them: no complaint, the exposure, what remains of it and why."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_commands import run

DOCUMENT = Path(__file__).parents[2] / "docs" / "systemd.md"
EXPOSURE_MAX = 26
"""2.6 in tenths. Source: what the product promises of its service."""
DOCUMENTED = "252"
SERVICES = ("nodecheck.service", "nodecheck-snapshot@.service", "nodecheck-gate.service")
TIMERS = ("nodecheck-snapshot.timer", "nodecheck-measure.timer")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with our files alone."""
    place = tmp_path_factory.mktemp("root")
    done = run("init", "systemd", "--to", str(place))
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def units(root: Path) -> Path:
    return root / "etc" / "systemd" / "system"


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


@functools.cache
def is_documented() -> bool:
    """Whether this systemd is the one whose figures the document has: others weigh otherwise."""
    return analyze("--version").stdout.split()[1] == DOCUMENTED


def security(unit: Path) -> list[dict[str, Any]]:
    """What remains: every point with its exposure."""
    told = analyze("security", "--offline=true", "--no-pager", "--json=short", str(unit))
    points: list[dict[str, Any]] = json.loads(told.stdout)
    return points


@pytest.mark.parametrize("name", [*SERVICES, *TIMERS])
def test_systemd_has_nothing_to_say_about_them(name: str, units: Path) -> None:
    done = analyze("verify", str(units / name))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_all_units_are_looked_at(units: Path) -> None:
    assert {file.name for file in units.iterdir()} == {*SERVICES, *TIMERS}


@pytest.mark.parametrize("name", SERVICES)
def test_the_exposure_is_low(name: str, units: Path) -> None:
    done = analyze(
        "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}", str(units / name)
    )
    assert done.returncode == 0, done.stdout
    told = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    said = re.search(r"an exposure\nof ([\d.]+)", DOCUMENT.read_text())
    assert told
    assert said
    assert told[1] == said[1] or not is_documented()


def test_a_unit_without_its_sandbox_would_not_pass(units: Path, tmp_path: Path) -> None:
    bare = re.sub(r"(?m)^(Restrict|Protect|SystemCall|Capability).*\n", "",
                  (units / "nodecheck.service").read_text())  # fmt: skip
    (tmp_path / "nodecheck.service").write_text(bare)
    threshold = f"--threshold={EXPOSURE_MAX}"
    unit = str(tmp_path / "nodecheck.service")
    assert analyze("security", "--offline=true", "--no-pager", threshold, unit).returncode == 1


def rows() -> dict[str, str]:
    """Setting -> exposure, as the table in the document has them."""
    table = re.findall(r"^\| `(\S+)` \| ([\d.]+) \| \S.*\|$", DOCUMENT.read_text(), re.MULTILINE)
    return {name.replace("\\|", "|"): exposure for name, exposure in table}


@pytest.mark.parametrize("name", SERVICES)
def test_each_point_that_remains_is_explained_and_no_other(name: str, units: Path) -> None:
    points = security(units / name)
    remaining = {p["name"]: p["exposure"] for p in points if p["exposure"] is not None}
    assert remaining.keys() <= rows().keys()
    assert rows() == remaining or not is_documented()


def sandbox(unit: Path) -> str:
    text = unit.read_text()
    return text[text.index("# The user that") : text.index("SystemCallErrorNumber=EPERM\n")]


def test_the_sandbox_of_all_is_the_same(units: Path) -> None:
    assert len({sandbox(units / name) for name in SERVICES}) == 1


@pytest.mark.parametrize("name", SERVICES)
def test_none_sets_a_limit_that_nodecheck_would_report_or_hides_a_card(
    name: str, units: Path
) -> None:
    settings = {
        line.partition("=")[0]
        for line in (units / name).read_text().splitlines()
        if "=" in line and not line.startswith("#")
    }
    limits = {"MemoryMax", "MemoryHigh", "CPUQuota", "AllowedCPUs", "CPUAffinity", "LimitNOFILE"}
    hiding = {"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "DynamicUser"}
    assert not settings & (limits | hiding)


@pytest.mark.parametrize(("name", "instance"), [(TIMERS[0], "never"), (TIMERS[1], "auto")])
def test_the_timers_start_what_the_command_takes(name: str, instance: str, units: Path) -> None:
    text = (units / name).read_text()
    assert f"Unit=nodecheck-snapshot@{instance}.service\n" in text
    when = re.search(r"^OnCalendar=(.*)$", text, re.MULTILINE)
    assert when
    assert analyze("calendar", when[1]).returncode == 0
    assert "RandomizedDelaySec=" in text
    assert instance in run("snapshot", "--help").stdout


def test_the_gate_in_the_documents_is_that_of_the_unit(units: Path) -> None:
    unit = (units / "nodecheck-gate.service").read_text()
    (options,) = re.findall(r"^ExecStart=\S+ (gate .*)$", unit, re.MULTILINE)
    assert f"\nnodecheck {options}\n" in DOCUMENT.read_text()


def test_the_user_and_the_lock_can_be_made(root: Path) -> None:
    analyze("--version")
    for program, arguments, file in (
        ("systemd-sysusers", ["--dry-run"], "etc/sysusers.d/nodecheck.conf"),
        ("systemd-tmpfiles", ["--create"], "etc/tmpfiles.d/nodecheck.conf"),
    ):
        (root / "run" / "lock").mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [program, *arguments, f"--root={root}", str(root / file)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    lock = root / "run" / "lock" / "nodecheck.lock"
    assert lock.stat().st_mode & 0o777 == 0o644
