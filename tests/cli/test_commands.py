"""The real command in a process of its own: what it prints, and its exit status."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from nodecheck.report import Report
from tests.hosts import THREE_L40
from tests.trees import plant

NODECHECK = [sys.executable, "-m", "nodecheck"]
HELP_IMPORTS = {"_locale", "locale", "importlib._abc", "importlib.util"}
"""What the start-up path may import beside click: for gettext, and for an editable install."""

ANSI = re.compile(r"\x1b\[")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NODECHECK, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def failed(done: subprocess.CompletedProcess[str], *named: str) -> None:
    """It ended with 1 and one line that names the trouble."""
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for word in named:
        assert word in done.stderr


@pytest.fixture
def three_l40(tmp_path: Path) -> Path:
    plant(THREE_L40, tmp_path / "node")
    return tmp_path / "node"


def on_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What the command writes to a real terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*NODECHECK, *arguments],
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment},
    ) as process:
        os.close(follower)
        parts = []
        while True:
            try:
                part = os.read(leader, 1 << 16)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(60) == 0
    os.close(leader)
    return b"".join(parts).decode()


def test_help_imports_click_and_nothing_of_weight() -> None:
    script = (
        "import sys, click; before = set(sys.modules); import nodecheck.cli;"
        "print(*sorted(m for m in set(sys.modules) - before if not m.startswith('nodecheck')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= HELP_IMPORTS


def test_the_live_report_is_valid_and_has_the_kernels_flags() -> None:
    done = run("--json", "--quick")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    jsonschema.Draft202012Validator(msgspec.json.schema(Report)).validate(report)
    assert report["verdict"]["status"] in ("ok", "warning", "critical", "unknown")
    cpuinfo = Path("/proc/cpuinfo").read_text()
    flags = next(line for line in cpuinfo.splitlines() if line.startswith(("flags", "Features")))
    assert report["facts"]["cpu"]["flags"] == flags.partition(":")[2].split()
    assert report["measurements"] == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--layers", "4"], "--weights and --layers go together"),
        (["--weights", "4GiB"], "--weights and --layers go together"),
        (["--weights", "big", "--layers", "4"], "is no size"),
        (["--weights", "40", "--layers", "4"], "too little to be meant"),
        (["--kernels", "some"], "some"),
        (["--quick", "--kernels", "always"], "--quick"),
        (["--from", "x", "--root", "y"], "--from"),
        (["--surprise"], "--surprise"),
        (["surprise"], "surprise"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], named: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    failed(run("--root", missing), missing, "No such file")
    failed(run("--from", missing), missing)
    failed(run("--policy", missing, "--quick"), missing)
    failed(run("--from", str(tmp_path)), str(tmp_path))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    failed(run("--from", str(fifo)), "not a regular file")
    binary = tmp_path / "binary"
    binary.write_bytes(os.urandom(4096))
    failed(run("--from", str(binary)), "not a nodecheck report")
    failed(run("--policy", str(binary), "--quick"), str(binary))
    failed(run("--root", str(binary)), str(binary))


def test_a_policy_named_by_the_environment_counts(tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text("[thresholds]\nsurprise = 1\n")
    failed(run("--quick", NODECHECK_POLICY=str(policy)), str(policy), "surprise")


def test_a_full_disk_is_one_line(three_l40: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*NODECHECK, "--root", str(three_l40)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_traceback(three_l40: Path) -> None:
    shell = f"{' '.join(NODECHECK)} --root {three_l40} --json | head -c 1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_saved_facts_are_judged_again_without_the_machine(three_l40: Path, tmp_path: Path) -> None:
    first = run("--root", str(three_l40), "--json")
    saved = tmp_path / "report.json"
    saved.write_text(first.stdout)
    again = json.loads(run("--from", str(saved), "--json").stdout)
    assert again == json.loads(first.stdout)
    piped = subprocess.run(
        [*NODECHECK, "--from", "-", "--json"],
        input=first.stdout,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(piped.stdout) == again


def test_what_is_not_of_now_says_so(three_l40: Path, tmp_path: Path) -> None:
    def title(*arguments: str) -> str:
        lines = run(*arguments).stdout.partition("\n\n")[0].splitlines()
        return "   ".join(line.strip() for line in lines)

    saved = tmp_path / "report.json"
    report = json.loads(run("--root", str(three_l40), "--json").stdout)
    report["time"] = "2026-11-30T16:03:09+02:00"
    saved.write_text(json.dumps(report))
    model = ("--weights", "16.3GiB", "--layers", "64")
    for command in ((), ("plan", *model)):
        captured = title(*command, "--root", str(three_l40))
        assert re.search(r"   captured   \d+\.\d s$", captured)
        again = title(*command, "--from", str(saved))
        assert again.endswith("   captured   saved, 2026-11-30 14:03Z")
        report["host"]["source"] = "live"
        (tmp_path / "live.json").write_text(json.dumps(report))
        assert "captured" not in title(*command, "--from", str(tmp_path / "live.json"))


def test_a_named_model_is_judged(three_l40: Path) -> None:
    report = json.loads(
        run("--root", str(three_l40), "--weights", "200GiB", "--layers", "80", "--json").stdout
    )
    assert report["workload"]["named_by_user"]
    assert {f["id"] for f in report["findings"]} >= {"disk.headroom", "mem.insufficient"}


def test_a_pipe_gets_plain_text(three_l40: Path) -> None:
    done = run("--root", str(three_l40))
    assert done.returncode == 0
    assert not ANSI.search(done.stdout)
    assert done.stdout.startswith("nodecheck 0.1.0")


def test_a_terminal_gets_colour_unless_it_asks_not_to(three_l40: Path) -> None:
    styled = on_terminal(100, "--root", str(three_l40))
    assert ANSI.search(styled)
    assert not [line for line in ANSI.sub("", styled).splitlines() if line.endswith(" ")]
    bare = on_terminal(100, "--root", str(three_l40), NO_COLOR="1").replace("\r\x1b[K", "")
    assert not ANSI.search(bare)


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_lines_fit_the_terminal_save_commands(three_l40: Path, columns: int) -> None:
    commands = {
        command
        for f in json.loads(run("--root", str(three_l40), "--json").stdout)["findings"]
        for command in f["remedy"]["commands"]
    }
    for line in run("--root", str(three_l40), COLUMNS=str(columns)).stdout.splitlines():
        assert len(line) <= columns or line.strip() in commands, line


def test_explain_prints_the_page_of_a_finding() -> None:
    done = run("explain", "cpu.hypervisor_masked")
    assert done.returncode == 0
    assert done.stdout.startswith("# cpu.hypervisor_masked")
    failed(run("explain", "cpu.hypervisor_maskd"), "cpu.hypervisor_masked")
    failed(run("explain", "../policy"), "no such finding")


def test_what_is_noted_can_be_explained(three_l40: Path) -> None:
    noted = run("--root", str(three_l40)).stdout.partition("NOTED")[2].partition("\n\n")[0]
    ids = re.findall(r"\[(\S+)\]", noted)
    assert ids
    for each in ids:
        assert run("explain", each).returncode == 0


def test_explain_lists_each_finding_with_the_whole_of_its_meaning() -> None:
    for line in run("explain").stdout.splitlines():
        assert re.fullmatch(r"[a-z0-9]+\.[a-z0-9_]+ +\S.*\.", line), line


def test_a_capture_is_judged_as_the_node_was(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = run("capture", str(kept))
    assert done.returncode == 0, done.stderr
    live = json.loads(run("--json", "--quick").stdout)
    replayed = json.loads(run("--root", str(kept), "--json").stdout)
    for fact in (
        "flags",
        "x86_64_level",
        "logical_cpus",
        "physical_cores",
        "hypervisor",
        "cpuid_flags",
    ):
        assert replayed["facts"]["cpu"][fact] == live["facts"]["cpu"][fact], fact
    assert ids(replayed) == ids(live)
    failed(run("capture", str(kept)), "not empty")


def ids(report: dict[str, list[dict[str, str]]]) -> set[str]:
    return {finding["id"] for finding in report["findings"]}


def test_a_capture_holds_no_identity(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert run("capture", str(kept)).returncode == 0
    text = "".join(f.read_text(errors="replace") for f in kept.rglob("*") if f.is_file())
    name = os.uname().nodename
    if len(name) > 2:
        assert not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)
    assert not re.search(r"\b(?!00:00:00)(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", text)


def test_a_policy_that_means_nothing_is_refused(tmp_path: Path, three_l40: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text('required = ["nonsense"]\n')
    failed(run("--root", str(three_l40), "--policy", str(policy)), "required", "nonsense")
    policy.write_text('[[waivers]]\nid = "disk.lo"\nreason = "scratch"\n')
    failed(run("--root", str(three_l40), "--policy", str(policy)), "disk.lo")


def test_an_empty_policy_variable_names_no_policy(three_l40: Path) -> None:
    assert run("--root", str(three_l40), NODECHECK_POLICY="").returncode == 0


def test_what_is_waived_is_told(tmp_path: Path, three_l40: Path) -> None:
    policy = tmp_path / "p.toml"
    ids = ("cpu.hypervisor_masked", "mem.bandwidth_low", "disk.low")
    policy.write_text("".join(f'[[waivers]]\nid = "{i}"\nreason = "known"\n' for i in ids))
    done = run("--root", str(three_l40), "--policy", str(policy))
    assert "The policy lives with 3 findings." in " ".join(done.stdout.split())


@pytest.mark.parametrize(("closed", "status"), [("2>&-", 0), (">&-", 1), ("0<&-", 0)])
def test_a_closed_standard_stream_is_survived(three_l40: Path, closed: str, status: int) -> None:
    shell = f"{' '.join(NODECHECK)} --root {three_l40} {closed}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    if status == 0:
        assert "cpu.hypervisor_masked" in done.stdout


def test_names_from_a_node_do_not_steer_the_terminal(three_l40: Path) -> None:
    hostname = three_l40 / "proc" / "sys" / "kernel" / "hostname"
    hostname.parent.mkdir(parents=True)
    hostname.write_bytes(b"web\x1b]52;c;cm0=\x07\x1b[2J\n")
    assert "\x1b" not in run("--root", str(three_l40)).stdout
    assert "\x1b]52" not in on_terminal(100, "--root", str(three_l40))
