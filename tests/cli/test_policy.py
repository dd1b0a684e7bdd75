"""`nodecheck policy`, and policies by name: the real command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nodecheck
from tests.cli.test_commands import failed, run
from tests.hosts import HEALTHY, THREE_L40
from tests.trees import plant

SHIPPED = sorted(p.stem for p in (Path(nodecheck.__file__).parent / "policies").glob("*.toml"))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("healthy")
    plant(HEALTHY, place)
    return str(place)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("masked")
    plant(THREE_L40, place)
    return str(place)


@pytest.fixture(scope="module")
def drawn(healthy: str) -> subprocess.CompletedProcess[str]:
    """The policy of a node that is in order."""
    return run("policy", "init", "--root", healthy)


def file(place: Path, text: str) -> str:
    path = place / "policy.toml"
    path.write_text(text)
    return str(path)


def test_those_that_are_shipped_are_those_that_were_meant() -> None:
    assert SHIPPED == ["cpu-offload", "gpu-serving", "minimal", "training"]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_sound_node_passes_what_is_shipped(name: str, healthy: str) -> None:
    done = run("gate", "--root", healthy, "--policy", name)
    assert done.returncode == 0, done.stdout + done.stderr
    told = run("policy", "check", name)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[0] == f"POLICY       {name}   can be used"


@pytest.mark.parametrize(
    ("name", "said"), [("cpu-offload", "no avx2"), ("gpu-serving", "cpu.hypervisor_masked")]
)
def test_a_masked_node_does_not(name: str, said: str, masked: str) -> None:
    done = run("gate", "--root", masked, "--policy", name)
    assert done.returncode == 2
    assert said in done.stdout


def test_a_node_without_a_gpu_does_not_serve_from_one(tmp_path: Path) -> None:
    gpu = ("cmd/nvidia-smi", "sys/")
    plant({k: v for k, v in HEALTHY.items() if not k.startswith(gpu)}, tmp_path / "node")
    node = str(tmp_path / "node")
    assert run("gate", "--root", node, "--policy", "cpu-offload").returncode == 0
    assert run("gate", "--root", node, "--policy", "gpu-serving").returncode == 3


def test_a_policy_can_be_named_wherever_one_is_read(healthy: str) -> None:
    assert run("--root", healthy, "--policy", "training").returncode == 0
    assert run("--root", healthy, NODECHECK_POLICY="training").returncode == 0
    assert "gpus 1" in run("policy", "check", NODECHECK_POLICY="training").stdout


def test_an_unknown_name_lists_those_that_are_known(healthy: str) -> None:
    failed(run("--root", healthy, "--policy", "gpu-servin"), "gpu-servin", *SHIPPED)
    failed(run("policy", "check", "./gpu-serving"), "gpu-serving: No such file")
    failed(run("policy", "check", "gpu-serving.toml"), "No such file")


def test_a_file_of_that_name_comes_first(tmp_path: Path) -> None:
    (tmp_path / "training").write_text('name = "mine"\n')
    done = subprocess.run(
        [sys.executable, "-m", "nodecheck", "policy", "check", "training"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("POLICY       mine ")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("required = [\n", "not TOML"),
        ("requierd = []\n", "there is no member 'requierd'; there are name, required, "),
        ("[thresholds]\ndisk_low_shar = 0.9\n", "did you mean disk_low_share"),
        ('required = ["gpus"]\n', "there is no subject 'gpus'; did you mean gpu?"),
        ('[requirements]\ninstruction_sets = ["sse4.2"]\n',
         "no instruction set 'sse4.2'; did you mean sse4_2"),
        ('[requirements]\ninstruction_sets = ["AVX2"]\n', "did you mean avx2"),
        ('[[waivers]]\nid = "disk.lo"\nreason = "r"\n',
         "there is no finding 'disk.lo'; did you mean disk.low"),
        ('[[waivers]]\nid = "disk.low"\nreason = "r"\nexpires = "2027-06-30"\n', "without quotes"),
        ('[requirements]\npcie = "gen4"\n', "write it as gen4x16"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_used_is_one_line(text: str, named: str, tmp_path: Path) -> None:
    path = file(tmp_path, text)
    failed(run("policy", "check", path), path, named)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    told = run("policy", "check", file(tmp_path, "\ufeffname = 'of another editor'\r\n"))
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("POLICY       of another editor")


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    failed(run("policy", "check", str(tmp_path)), "Is a directory")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    failed(run("policy", "check", str(tmp_path / "binary")), "not UTF-8 text")
    (tmp_path / "broken").symlink_to("nowhere")
    failed(run("policy", "check", str(tmp_path / "broken")), "No such file")


def test_an_expired_waiver_is_no_error_of_the_policy_and_counts_no_more(
    tmp_path: Path, masked: str
) -> None:
    ids = ("cpu.hypervisor_masked", "mem.bandwidth_low", "disk.low")
    lived_with = "".join(f'[[waivers]]\nid = "{i}"\nreason = "known"\n' for i in ids)
    path = file(tmp_path, lived_with)
    assert run("gate", "--root", masked, "--policy", path).returncode == 0
    path = file(tmp_path, f"{lived_with}expires = 2020-01-31\n")
    told = run("policy", "check", path)
    assert told.returncode == 0
    assert "1 waiver expired" in told.stdout
    assert "disk.low: expired on 2020-01-31: known" in told.stdout
    done = run("gate", "--root", masked, "--policy", path)
    assert done.returncode == 1
    assert "expired on 2020-01-31" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["--surprise"], ["surprise"], ["check", ""], ["check", "a", "b"],
     ["init", "--policy", "minimal"], ["init", "--from", "x", "--root", "y"],
     ["init", "--quick", "--kernels", "always"], ["init", "-o", ""]],
)  # fmt: skip
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    done = run("policy", *arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.stderr


def test_a_sound_node_passes_the_policy_that_is_drawn_from_it(
    healthy: str, drawn: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    assert drawn.returncode == 0
    assert drawn.stderr == ""
    for said in (
        '"avx2"',
        "gpus = 1",
        "dram_read_bytes_per_second = ",
        'pcie = "gen',
        "with --quick, or on a busy node, cannot tell it",
    ):
        assert said in drawn.stdout.replace("\n# ", " ")
    done = run("gate", "--root", healthy, "--policy", file(tmp_path, drawn.stdout))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fault_is_left_out_and_told(masked: str) -> None:
    drawn = run("policy", "init", "--root", masked)
    assert drawn.returncode == 0
    for name, id_ in (
        ("instruction_sets", "cpu.hypervisor_masked (critical)"),
        ("dram_read_bytes_per_second", "mem.bandwidth_low (warning)"),
        ("disk_free_bytes", "disk.low (warning)"),
    ):
        assert f"\n{name} = " not in drawn.stdout
        assert f"# - {name}: {id_}: " in drawn.stdout
        assert f"Left out: {name}: {id_}: " in drawn.stderr
    said = "This node is CRITICAL (cpu.hypervisor_masked, disk.low and mem.bandwidth_low): "
    assert drawn.stderr.startswith(f"{said}not a known-good one\n")
    assert f"\n# {said}" in drawn.stdout
    assert "gpus = 3\n" in drawn.stdout
    assert "waivers" not in drawn.stdout


def test_the_policy_of_a_node_does_not_hide_its_faults(masked: str, tmp_path: Path) -> None:
    lenient = file(tmp_path, '[[waivers]]\nid = "cpu.hypervisor_masked"\nreason = "known"\n')
    drawn = run("policy", "init", "--root", masked, NODECHECK_POLICY=lenient)
    assert "Left out: instruction_sets: cpu.hypervisor_masked (critical)" in drawn.stderr


def test_it_is_drawn_from_a_saved_report_too(
    healthy: str, drawn: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    saved = tmp_path / "report.json"
    saved.write_text(run("--root", healthy, "--json").stdout)
    again = run("policy", "init", "--from", str(saved))
    assert drawn.stdout.splitlines()[3:] == again.stdout.splitlines()[3:]


def test_a_file_that_is_there_is_never_overwritten(healthy: str, tmp_path: Path) -> None:
    made = tmp_path / "made.toml"
    done = run("policy", "init", "--root", healthy, "-o", str(made))
    assert (done.returncode, done.stdout) == (0, "")
    assert run("policy", "check", str(made)).returncode == 0
    made.write_bytes(b"")
    failed(run("policy", "init", "--root", healthy, "--output", str(made)), str(made), "already")
    assert made.read_bytes() == b""
    failed(run("policy", "init", "--root", healthy, "-o", str(tmp_path / "no" / "x")), "No such")


def test_this_machine_gives_a_policy_that_it_can_use(tmp_path: Path) -> None:
    path = file(tmp_path, run("policy", "init", "--quick").stdout)
    assert run("policy", "check", path).returncode == 0
