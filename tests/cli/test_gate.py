"""`nodecheck gate` as a monitoring system runs it: one line, and an exit status that never lies."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from tests.cli.gating import NODECHECK, Done, answered, failed, first_word, gate, planted
from tests.cli.test_plan import QWEN3_8B
from tests.hosts import HEALTHY, THREE_L40, statvfs
from tests.processes import eventually, state
from tests.trees import Tree

SIZE = ("--weights", "16.3GiB", "--layers", "64")
EVERYTHING = (
    "--require", "avx2,fma", "--min-dram-read", "40GB/s", "--min-disk-free", "200GB",
    "--gpus", "1", "--pcie", "gen4x16",
)  # fmt: skip
NEARLY_FULL: Tree = {**HEALTHY, "statvfs.json": json.dumps({"/": statvfs(1800 << 30, 100 << 30)})}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return planted(HEALTHY, tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> str:
    return planted(THREE_L40, tmp_path_factory.mktemp("masked"))


@pytest.fixture(scope="module")
def nearly_full(tmp_path_factory: pytest.TempPathFactory) -> str:
    return planted(NEARLY_FULL, tmp_path_factory.mktemp("nearly_full"))


def policy(place: Path, text: str) -> tuple[str, str]:
    file = place / "policy.toml"
    file.write_text(text)
    return "--policy", str(file)


def test_without_a_model_the_nodes_own_findings_count(healthy: str, masked: str) -> None:
    well = gate("--root", healthy)
    assert well.returncode == 0
    assert well.stdout.startswith("OK nothing was found that holds this node back | ")
    assert {name: figure.value for name, figure in answered(well).items()} == {
        "criticals": 0, "warnings": 0,
    }  # fmt: skip
    ill = gate("--root", masked)
    assert ill.returncode == 2
    assert ill.stdout.startswith("CRITICAL node: cpu.hypervisor_masked and 2 more | ")
    assert {name: figure.value for name, figure in answered(ill).items()} == {
        "criticals": 1, "warnings": 2,
    }  # fmt: skip


def test_what_is_required_is_told_with_its_figures(healthy: str, masked: str) -> None:
    well = gate("--root", healthy, *EVERYTHING)
    assert well.returncode == 0
    assert well.stdout.startswith("OK DRAM read 140 GB/s >= 40 GB/s; ")
    figures = answered(well)
    assert not any(figure.warns or figure.is_critical for figure in figures.values())
    ill = gate("--root", masked, *EVERYTHING)
    assert ill.returncode == 2
    assert ill.stdout.startswith("CRITICAL no avx2, fma; DRAM read 11.7 GB/s < 40 GB/s; ... | ")
    figures = answered(ill)
    assert [name for name, figure in figures.items() if figure.is_critical] == [
        "disk_free", "dram_read", "criticals",
    ]  # fmt: skip
    assert figures["dram_read"].value == 11.7e9
    assert figures["disk_free"].value == 57 << 30
    assert figures["gpus"].value == 3


def test_a_policy_requires_as_options_do_and_options_override_it(
    masked: str, tmp_path: Path
) -> None:
    asked = policy(
        tmp_path,
        '[requirements]\ndisk_free_bytes = "200GB"\ngpus = 4\n'
        '[[waivers]]\nid = "cpu.hypervisor_masked"\nreason = "x"\n'
        '[[waivers]]\nid = "disk.low"\nreason = "x"\n'
        '[[waivers]]\nid = "mem.bandwidth_low"\nreason = "x"\n',
    )
    by_policy = gate("--root", masked, *asked)
    assert by_policy.returncode == 2
    assert by_policy.stdout.startswith("CRITICAL 61.2 GB free on / < 200 GB; 3 GPUs < 4 | ")
    one_less = gate("--root", masked, *asked, "--gpus", "3")
    assert one_less.stdout.startswith("CRITICAL 61.2 GB free on / < 200 GB; 1 requirement met | ")
    both = gate("--root", masked, *asked, "--gpus", "3", "--min-disk-free", "50GB")
    assert both.returncode == 0
    assert both.stdout.startswith("OK 61.2 GB free on / >= 50 GB; 3 GPUs >= 3 | ")


def test_a_waiver_counts_until_its_day_is_over(nearly_full: str, tmp_path: Path) -> None:
    waiver = '[[waivers]]\nid = "disk.low"\nreason = "a disk is ordered"\n'
    alone = gate("--root", nearly_full)
    assert (alone.returncode, first_word(alone)) == (1, "WARNING")
    lived_with = gate("--root", nearly_full, *policy(tmp_path, waiver))
    assert (lived_with.returncode, first_word(lived_with)) == (0, "OK")
    told = gate("--root", nearly_full, *policy(tmp_path, waiver), "-v").stdout.splitlines()
    assert "waived: disk.low, /: for good: a disk is ordered" in told
    over = gate("--root", nearly_full, *policy(tmp_path, waiver + "expires = 2020-02-29\n"), "-v")
    assert over.returncode == 1
    assert over.stdout.startswith("WARNING node: waiver of disk.low expired on 2020-02-29 | ")
    assert "waiver of disk.low expired on 2020-02-29: a disk is ordered" in over.stdout.splitlines()


def test_the_grounds_follow_where_they_are_asked_for(masked: str) -> None:
    done = gate("--root", masked, "--gpus", "4", *SIZE, "-v")
    lines = done.stdout.splitlines()
    assert " | " in lines[0]
    assert "gpus: critical: 3 GPUs < 4" in lines
    assert any(line.startswith("critical: cpu.hypervisor_masked, cpu: qm set ") for line in lines)
    assert "warning: disk.low, /: nodecheck explain disk.low" in lines  # its command has a bar
    assert "model: q4_k model, 16.3 GiB" in lines
    assert lines[-1].startswith("node: 3 accelerators where 4 are required.")
    assert "|" not in "".join(lines[1:])
    piped = gate("--root", masked, "--verbose", "--exit-style", "npd")
    assert any(
        line.startswith("warning: disk.low, /: du -xh ") for line in piped.stdout.split("\n")
    )


def test_the_answer_in_the_documents_is_what_is_printed(masked: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
    (asked,) = re.findall(r"`nodecheck (gate [^`]* -v)`:\n", text)
    done = gate("--root", masked, command=asked)
    assert f"```\n{done.stdout}```\n" in text


def test_memory_that_is_not_measured_is_unknown(tmp_path: Path) -> None:
    """Live: what this machine's own findings are does not matter."""
    lenient = policy(tmp_path, "required = []\n")
    done = gate("--quick", "--min-dram-read", "1GB/s", "-v", *lenient)
    assert done.returncode != 0
    assert "dram_read: unknown: DRAM read not measured: not asked for (--quick)" in done.stdout
    assert "'dram_read'=U;;1000000000:;0" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--strategy", "gpu-resident", "--min-tokens-per-second", "20"], 0, "OK gpu-resident "),
        (["--min-tokens-per-second", "20"], 0, "OK gpu-resident "),
        ([], 0, "OK gpu-resident viable, "),
        (["--strategy", "gpu-resident", "--min-tokens-per-second", "38"], 1,
         "WARNING gpu-resident "),
        (["--strategy", "gpu-resident", "--min-tokens-per-second", "200"], 2,
         "CRITICAL gpu-resident "),
        (["--strategy", "tensor-parallel"], 2, "CRITICAL tensor-parallel is no way"),
        (["--gpus", "2"], 2, "CRITICAL 1 GPU < 2; 1 requirement met | "),
    ],
)  # fmt: skip
def test_a_model_must_be_served_as_asked(
    healthy: str, arguments: list[str], status: int, line: str
) -> None:
    done = gate(*SIZE, "--root", healthy, *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout.startswith(line)
    figures = answered(done)
    if "--min-tokens-per-second" in arguments:
        assert figures["tokens_per_second"].warns == (status > 0)


def test_a_model_is_read_from_its_files(healthy: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_8B))
    done = gate(
        "--model", str(tmp_path), "--strategy", "gpu-resident", "--min-tokens-per-second", "20",
        "--root", healthy,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("OK gpu-resident ")
    assert ">= 20" in done.stdout.splitlines()[0]


def test_the_nodes_own_findings_fail_the_gate_of_a_model(masked: str) -> None:
    done = gate(*SIZE, "--root", masked, "--strategy", "gpu-resident",
                "--min-tokens-per-second", "20")  # fmt: skip
    assert done.returncode == 2
    assert done.stdout.startswith("CRITICAL node: cpu.hypervisor_masked and ")
    assert "; 1 requirement met | 'tokens_per_second'=" in done.stdout


def test_what_is_not_known_fails_unless_told_otherwise(healthy: str) -> None:
    asked = (*SIZE, "--root", healthy, "--strategy", "host-kv-pool")
    assert gate(*asked).returncode == 3
    lenient = gate(*asked, "--unknown", "ok")
    assert lenient.returncode == 0
    assert lenient.stdout.startswith("UNKNOWN ")


def test_a_saved_report_can_be_gated(masked: str, tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    made = gate("--json", "--root", masked, command="")
    saved.write_text(made.stdout)
    by_root, by_file = (
        gate("--root", masked, "--gpus", "4"),
        gate("--from", str(saved), "--gpus", "4"),
    )
    assert by_file.stdout == by_root.stdout
    assert by_file.returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        "--surprise gate", "--root /tmp gate", "--weights gate gate", "--quick gate",
        "--exit-style nagios gate", "--require avx2 gate", "surprise gate",
    ],
)  # fmt: skip
def test_an_error_before_the_command_is_unknown_too(command: str) -> None:
    failed(gate(command=command))


@pytest.mark.parametrize("command", ["--surprise", "--root gate --surprise", "bench gate"])
def test_other_commands_keep_their_own_status(command: str) -> None:
    assert gate(command=command).returncode == 2


@pytest.mark.parametrize(
    ("number", "style", "status"),
    [(signal.SIGINT, "nagios", 3), (signal.SIGTERM, "npd", 2), (signal.SIGTERM, "posix", 1)],
)
def test_who_is_ended_has_not_judged(number: signal.Signals, style: str, status: int) -> None:
    done = ended(number, "--exit-style", style, "--unknown", "ok")
    assert done.returncode == status
    assert done.stdout == f"UNKNOWN ended by {number.name}\n"
    assert done.stderr == f"Error: ended by {number.name}\n"


@pytest.mark.parametrize(
    ("inherited", "said"),
    [(signal.SIG_DFL, "ended by SIGHUP"), (signal.SIG_IGN, "standard input: not a nodecheck")],
)
def test_a_session_that_ends_ends_it_unless_nohup_is_before_it(
    inherited: signal.Handlers, said: str
) -> None:
    before = signal.signal(signal.SIGHUP, inherited)
    try:
        done = ended(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert done.returncode == 3
    assert done.stdout.startswith(f"UNKNOWN {said}")


def ended(number: signal.Signals, *arguments: str) -> Done:
    """What it answers where a signal comes while it waits for a report."""
    command = [*NODECHECK, "gate", "--from", "-", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b" ")
        process.stdin.flush()
        assert eventually(lambda: waits_for_more(process))
        process.send_signal(number)
        said, error = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, said.decode(), error.decode())


def waits_for_more(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has read what there was on its standard input, and sleeps."""
    assert process.stdin is not None
    left = fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))
    return not any(left) and state(process.pid) == "S"


@pytest.mark.parametrize(
    ("script", "style", "status"),
    [
        ("{} >&-; echo $? >&2", "nagios", 3),
        ("{} >/dev/full; echo $? >&2", "npd", 2),
        ("{} | true; echo ${{PIPESTATUS[0]}} >&2", "posix", 1),
        ("{} >&- 2>&-; echo $? >/dev/stderr", "npd", 2),
    ],
    ids=["closed", "full", "no reader", "all closed"],
)
def test_an_answer_that_nobody_can_read_is_unknown(
    healthy: str, script: str, style: str, status: int
) -> None:
    command = " ".join([*NODECHECK, "gate", "--root", healthy, "--exit-style", style])
    done = subprocess.run(
        ["bash", "-c", script.format(command)], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == str(status), done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr


def test_help_is_no_failure() -> None:
    done = gate("--help")
    assert done.returncode == 0
    assert "--min-tokens-per-second" in done.stdout
