"""The units under systemd itself: confined as they say, and nodecheck at work in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nodecheck.model import Reason
from nodecheck.report import Report, from_json
from tests.cli.test_commands import run
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import L40, description
from tests.lab import booted

__all__ = ["fake_nvml"]

PYTHON = sys.executable
NODECHECK = f"{PYTHON} -m nodecheck"
CAP_SYSLOG = 34

ROOT_ALONE = {
    ("memory", "dimms"),
    ("disk", "thin_pools"),
    ("disk", "btrfs"),
    ("pcie", "paths.hops.target_gts"),
    ("virt", "container"),
}
"""What the kernel shows to root alone, as docs/systemd.md tells."""

REFUSED = {
    "another user's file": "cat /etc/shadow",
    "a write to /etc": "touch /etc/nodecheck-was-here",
    "a write to /usr": "touch /usr/nodecheck-was-here",
    "a kernel setting": "echo 1 > /proc/sys/vm/drop_caches",
    "a mount": "mount -t tmpfs none /mnt",
    "a namespace": "unshare --user true",
    "a priority of real time": "chrt --fifo 1 true",
    "another kind of socket": f"{PYTHON} -c 'import socket; socket.socket(16, 3)'",
    "another user": "setpriv --reuid 1 --clear-groups true",
    "a closed device": ": < /dev/closed",
    "another machine": f"""{PYTHON} -c '
import socket; socket.create_connection(("192.0.2.1", 9), 2)'""",
}
WHY = (
    "ermission denied",
    "not permitted",
    "Read-only file system",
    "must be superuser",
    "Address family not supported",
    "timed out",  # refused at once where no filter drops packets
)

CARDS = ("nvidia-uvm", "nvidia0", "nvidiactl")

PROBE = "\n".join([
    *(f'({command}) > /run/told/refused-{n} 2>&1; echo "$?" >> /run/told/refused-{n}'
      for n, command in enumerate(REFUSED.values())),
    *(f"(: <>/dev/{card}) && echo {card} >> /run/told/cards" for card in CARDS),
    "cat /proc/self/status > /run/told/status",
    "ls -d /tmp/of-root > /run/told/tmp 2>&1",
    f"{NODECHECK} --json --kernels always > /run/told/by-service.json",
    "true",
])  # fmt: skip
"""Runs in the service before its daemon."""

PROBING = """\
[Service]
ExecStartPre=/bin/sh /run/units/probe
TimeoutStartSec=60s
WatchdogSec=2s
RestartSec=1s
"""

SCRIPT = f"""\
touch /tmp/of-root
ip address add 192.0.2.1/24 dev lo
{NODECHECK} --json --kernels always > /run/told/by-root.json
systemctl start nodecheck.service; echo "start $?"
main() {{ systemctl show --property MainPID --value nodecheck.service; }}
status() {{ systemctl show --property StatusText --value nodecheck.service; }}
restarts() {{ systemctl show --property NRestarts --value nodecheck.service; }}
until_is() {{ for _ in $(seq 150); do [ "$($1)" = "$2" ] && break; sleep 0.1; done; }}
ask() {{ {PYTHON} -c 'import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:9742" + sys.argv[1], timeout=10).status)' $1; }}
for _ in $(seq 150); do case "$(status)" in *:*) break;; esac; sleep 0.1; done
echo "verdict $(status)"
echo "ready $(ask /readyz)"
first=$(main)
systemctl reload nodecheck.service; echo "reload $?"
until_is 'systemctl is-active nodecheck.service' active
[ "$(main)" = "$first" ] && echo "same process"
: > /run/units/probe
systemctl kill --kill-whom=main --signal=KILL nodecheck.service; until_is restarts 1
until_is 'systemctl is-active nodecheck.service' active
echo "killed: $(systemctl is-active nodecheck.service) again, $(restarts)"
systemctl kill --kill-whom=main --signal=STOP nodecheck.service; until_is restarts 2
until_is 'systemctl is-active nodecheck.service' active
echo "stopped: $(systemctl is-active nodecheck.service) again, $(restarts)"
begun=$(date +%s%N)
systemctl stop nodecheck.service; echo "stop $? $(systemctl is-failed nodecheck.service)"
echo "took $(( ($(date +%s%N) - begun) / 1000000 ))"
systemctl start nodecheck-snapshot@never.service; echo "snapshot $?"
systemctl start nodecheck-snapshot.timer nodecheck-measure.timer; echo "timers $?"
{NODECHECK} history > /run/told/history
stat --format '%U %a' /var/lib/nodecheck /var/lib/nodecheck/history.db
"""


def units() -> dict[str, str | bytes]:
    """As `nodecheck init systemd` prints them."""
    if reason := booted.why_not():
        pytest.skip(f"systemd cannot be started: {reason}")
    names = ("nodecheck.service", "nodecheck-snapshot@.service", "nodecheck-gate.service",
             "nodecheck-snapshot.timer", "nodecheck-measure.timer",
             "nodecheck.sysusers.conf", "nodecheck.tmpfiles.conf")  # fmt: skip
    return {name: run("init", "systemd", name).stdout for name in names}


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    own = {"probe": PROBE, "nodecheck.service.d/probing.conf": PROBING}
    return booted.boot(SCRIPT, {**units(), **own})


@pytest.fixture(scope="module")
def out(told: dict[str, str]) -> list[str]:
    return told["out"].splitlines()


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_confined(what: str, told: dict[str, str]) -> None:
    *said, status = told[f"refused-{list(REFUSED).index(what)}"].splitlines()
    assert status != "0"
    assert any(why in said[-1] or why in said[0] for why in WHY), said


def test_it_has_one_right_and_no_way_to_more(told: dict[str, str]) -> None:
    fields = dict(line.split(":\t", 1) for line in told["status"].splitlines())
    sets = {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert sets == {f"{1 << CAP_SYSLOG:016x}"}
    assert fields["Uid"].split()[0] != "0"
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert "No such file" in told["tmp"]


def test_it_may_open_the_files_of_cards(told: dict[str, str]) -> None:
    assert told["cards"].split() == list(CARDS)


@pytest.fixture(scope="module")
def reports(told: dict[str, str]) -> tuple[Report, Report]:
    """Of a full pass in the service, and of root's beside it."""
    service, root = (told[f"by-{who}.json"].encode() for who in ("service", "root"))
    return from_json(service, "service"), from_json(root, "root")


def lasting(report: Report) -> set[tuple[str, str]]:
    """Findings that do not come and go with what else the machine does."""
    rooms = ("limits.", "disk.", "pcie.", "gpu.", "numa.", "cuda.", "mem.cgroup", "cpu.quota")
    return {(f.id, f.subject) for f in report.findings if f.id.startswith(rooms)}


def test_a_full_pass_finds_what_root_finds(reports: tuple[Report, Report]) -> None:
    service, root = reports
    assert lasting(service) == lasting(root)
    assert service.facts.kernel_log.source == root.facts.kernel_log.source
    limits, of_root = service.facts.limits, root.facts.limits
    assert limits.memory_limit_bytes == of_root.memory_limit_bytes
    assert limits.usable_cpus == of_root.usable_cpus
    # of a mount that is read-only for the service it could not tell a file system that failed
    options = {system.mount: system.options for system in service.facts.disk.filesystems}
    assert "/" in options
    assert all("rw" in each for each in options.values())
    read = [{m.name for m in each.measurements if "read" in m.name} for each in reports]
    assert read[0] == read[1] != set()


def test_what_only_root_sees_is_told(reports: tuple[Report, Report]) -> None:
    service, root = reports
    known = {(gap.check, gap.field) for gap in root.gaps}
    new = [gap for gap in service.gaps if (gap.check, gap.field) not in known]
    assert {(gap.check, gap.field) for gap in new} <= ROOT_ALONE
    assert all(gap.reason is Reason.DENIED for gap in new)


def test_the_daemon_tells_systemd_its_verdict_and_answers(out: list[str]) -> None:
    assert "start 0" in out
    verdict = next(line for line in out if line.startswith("verdict "))
    assert verdict.split()[1] in ("OK:", "WARNING:", "CRITICAL:", "UNKNOWN:")
    assert "ready 200" in out


def test_it_reads_its_settings_again_without_a_new_start(out: list[str]) -> None:
    assert "reload 0" in out
    assert "same process" in out


def test_killed_or_standing_still_it_is_started_again(out: list[str]) -> None:
    assert "killed: active again, 1" in out
    assert "stopped: active again, 2" in out


def test_it_ends_when_told(out: list[str]) -> None:
    assert "stop 0 inactive" in out
    took = next(line for line in out if line.startswith("took "))
    assert int(took.split()[1]) < 3000  # one second is promised; the machine may be busy


def test_the_timers_and_what_they_start(out: list[str], told: dict[str, str]) -> None:
    assert "snapshot 0" in out
    assert "timers 0" in out
    assert out[-2:] == ["nodecheck 700", "nodecheck 600"]
    assert "@1 " in told["history"]


GATE = """\
systemctl start engine.service; echo "without a card $? $(systemctl is-active engine.service)"
mkdir /run/units/nodecheck-gate.service.d
cp /run/units/card.conf /run/units/nodecheck-gate.service.d
systemctl daemon-reload
systemctl start engine.service; echo "with one $? $(systemctl is-active engine.service)"
"""
ENGINE = """\
[Unit]
Requires=nodecheck-gate.service
After=nodecheck-gate.service
[Service]
ExecStart=/bin/sleep 100
"""
CARD = """\
[Service]
Environment=LD_LIBRARY_PATH=/run/units FAKE_NVML=/run/units/nvml.txt
"""
POLICY = 'required = ["gpu"]\n[requirements]\ngpus = 1\n'


def test_the_gate_holds_an_engine_back_until_nvml_shows_a_card(fake_nvml: FakeNvml) -> None:
    new = Path(fake_nvml.environment([L40], Path("/tmp"))["LD_LIBRARY_PATH"])
    told = booted.boot(
        GATE,
        {
            **units(),
            "engine.service": ENGINE,
            "card.conf": CARD,
            "libnvidia-ml.so.1": (new / "libnvidia-ml.so.1").read_bytes(),
            "nvml.txt": description([L40]),
            "policy.toml": POLICY,
            "nodecheck-gate.service.d/policy.conf":
                "[Service]\nEnvironment=NODECHECK_POLICY=/run/units/policy.toml\n",
        },
    )  # fmt: skip
    assert told["out"].splitlines() == ["without a card 1 inactive", "with one 0 active"], told
