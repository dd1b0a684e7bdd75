"""`nodecheck gate --slurm` with a scontrol that is not Slurm's: what it is told, and when."""

from __future__ import annotations

import fcntl
import os
import pwd
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodecheck.diagnose import rules
from tests.cli.gating import NODECHECK, Done, gate
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import L40, at
from tests.processes import eventually, is_running

__all__ = ["fake_nvml"]

NODE = "gpu-17"
FAILS = ("--min-disk-free", "9000000GB")
REASON = "nodecheck: disk_free: "
OURS = "nodecheck: gpu.lost: GPU 1: 1 GPU fell off the bus"
OTHERS = "fan is replaced"
US = pwd.getpwuid(os.geteuid()).pw_name

_SCONTROL = """\
#!/bin/sh
for word; do printf '%s\\037' "$word"; done >>{place}/calls
printf '\\n' >>{place}/calls
[ -f {place}/hangs ] && echo $$ >{place}/hangs && exec sleep 100
[ -f {place}/refuses ] && echo 'slurm_update error: Access/permission denied' >&2 && exit 1
[ "$1" = show ] && cat {place}/node
exit 0
"""


class Slurm:
    """What scontrol tells, and was told."""

    def __init__(self, place: Path) -> None:
        self.place = place
        program = place / "scontrol"
        program.write_text(_SCONTROL.format(place=shlex.quote(str(place))))
        program.chmod(0o755)
        self.is_now("IDLE")

    def is_now(self, state: str, reason: str = "", name: str = NODE, by: str = US) -> None:
        first, *more = reason.split("\n")
        told = "".join([f"   Reason={first} [{by}@2026-11-30T22:00:00]\n",
                        *(f"          {line}\n" for line in more)]) if reason else ""  # fmt: skip
        text = f"NodeName={name} Arch=x86_64 \n   State={state} Weight=1 \n   AllocTRES=\n{told}"
        (self.place / "node").write_text(text)

    def calls(self) -> list[list[str]]:
        file = self.place / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split("\x1f")[:-1] for line in lines]

    def told(self) -> list[list[str]]:
        """Its updates."""
        return [words[1:] for words in self.calls() if words[0] == "update"]

    def check(self, *arguments: str, **environment: str) -> Done:
        path = f"{self.place}:{os.environ['PATH']}"
        told = {"PATH": path, "SLURMD_NODENAME": NODE, **environment}
        return gate("--slurm", "--policy", str(self.place / "policy.toml"), *arguments, **told)


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    """With a policy for which any machine is in order."""
    allow(tmp_path)
    return Slurm(tmp_path)


def allow(place: Path, *but: str, start: str = "required = []\n") -> None:
    waived = [rule.id for rule in rules() if rule.id not in but]
    lines = (f'[[waivers]]\nid = "{each}"\nreason = "any machine"\n' for each in waived)
    (place / "policy.toml").write_text(start + "".join(lines))


def cards(
    fake: FakeNvml, place: Path, init: str | None = None, **answers: str | int
) -> dict[str, str]:
    """The variables with which there is one L40 that answers so; `init` is of all NVML."""
    system = {"init": init} if init else {}
    made = fake.describing([at(L40, 1, **answers)], system, place)
    return {name: made[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML")}


def test_a_node_that_fails_is_drained_with_the_reason(slurm: Slurm) -> None:
    done = slurm.check(*FAILS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert slurm.calls()[0] == ["show", "node", NODE]
    ((name, state, reason),) = slurm.told()
    assert (name, state) == (f"NodeName={NODE}", "State=DRAIN")
    assert reason.startswith(f"Reason={REASON}")
    assert reason.endswith(" < 9000000 GB")
    assert done.stdout.startswith("CRITICAL ")
    assert done.stdout.endswith(f"; {NODE}: drained\n")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_drained_node_is_not_drained_again_for_the_same(slurm: Slurm) -> None:
    slurm.is_now("IDLE+DRAIN", f"{REASON}1 GB free on /")
    done = slurm.check(*FAILS)
    assert (done.returncode, slurm.told()) == (0, [])
    assert done.stdout.endswith(f"; {NODE}: stays drained\n")
    slurm.is_now("IDLE+DRAIN", OURS)
    done = slurm.check(*FAILS)
    assert done.returncode == 0
    ((_, state, reason),) = slurm.told()
    assert state == "State=DRAIN"
    assert reason.startswith(f"Reason={REASON}")


def test_a_node_that_passes_is_resumed_and_only_once(slurm: Slurm) -> None:
    slurm.is_now("MIXED+DRAIN", OURS)
    done = slurm.check("-v")
    assert done.returncode == 0, done.stderr
    assert slurm.told() == [[f"NodeName={NODE}", "State=UNDRAIN"]]
    first, *grounds = done.stdout.splitlines()
    assert first.endswith(f"; {NODE}: resumed")
    assert any(line.startswith("node: ") for line in grounds)
    slurm.is_now("MIXED")
    done = slurm.check()
    assert done.stdout.endswith(f"; {NODE}: left MIXED\n")
    assert len(slurm.told()) == 1


@pytest.mark.parametrize("asked", [(), FAILS])
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("IDLE+DRAIN", OTHERS),
        ("IDLE+DRAIN", f"{OURS} : Kill task failed"),
        ("IDLE+DRAIN", f"{OURS}\nRMA 4711"),
        ("IDLE+DRAIN", "nodecheck: ask Bob before use"),
        ("DOWN", "Not responding"),
        ("IDLE+FAIL", OTHERS),
    ],
)
def test_what_others_did_is_left(
    slurm: Slurm, state: str, reason: str, asked: tuple[str, ...]
) -> None:
    slurm.is_now(state, reason)
    done = slurm.check(*asked)
    assert (done.returncode, slurm.told()) == (0, [])
    assert f"; {NODE}: left " in done.stdout


@pytest.mark.parametrize("asked", [(), FAILS])
def test_what_others_wrote_in_our_words_is_left(slurm: Slurm, asked: tuple[str, ...]) -> None:
    """Who adds to a reason gives it anew, under his own name."""
    slurm.is_now("IDLE+DRAIN", f"{OURS}; RMA 4711", by="bob")
    done = slurm.check(*asked)
    assert (done.returncode, slurm.told()) == (0, [])
    assert done.stdout.endswith(f"; {NODE}: left drained, which others did: {OURS}; RMA 4711\n")


def test_the_reason_of_a_reboot_is_not_replaced(slurm: Slurm) -> None:
    slurm.is_now("ALLOCATED+REBOOT_REQUESTED", "kernel update")
    done = slurm.check(*FAILS)
    assert (done.returncode, slurm.told()) == (0, [])
    assert done.stdout.endswith(
        f"; {NODE}: left ALLOCATED+REBOOT_REQUESTED, where others gave a reason: kernel update\n"
    )


def test_what_is_being_rebooted_is_not_resumed(slurm: Slurm) -> None:
    slurm.is_now("IDLE+DRAIN+REBOOT_REQUESTED", OURS)
    done = slurm.check()
    assert (done.returncode, slurm.told()) == (0, [])
    assert done.stdout.endswith(f"; {NODE}: left IDLE+DRAIN+REBOOT_REQUESTED\n")


def test_a_warning_drains_no_node_unless_asked_for(
    fake_nvml: FakeNvml, slurm: Slurm, tmp_path: Path
) -> None:
    allow(tmp_path, "gpu.ecc_uncorrectable")
    told = cards(fake_nvml, tmp_path, ecc_uncorrected=2)
    done = slurm.check(**told)
    assert done.stdout.startswith("WARNING node: gpu.ecc_uncorrectable; ")
    assert (done.returncode, slurm.told()) == (0, [])
    slurm.is_now("IDLE+DRAIN", OURS)
    assert slurm.check(**told).stdout.endswith(": resumed\n")
    slurm.is_now("IDLE")
    done = slurm.check("--warning", "fail", **told)
    assert done.stdout.endswith(": drained\n")
    reason = slurm.told()[-1][-1]
    assert reason.startswith("Reason=nodecheck: gpu.ecc_uncorrectable: GPU 0 (NVIDIA L40, 0000:01:")


def test_what_is_not_known_neither_drains_nor_resumes(
    fake_nvml: FakeNvml, slurm: Slurm, tmp_path: Path
) -> None:
    told = cards(fake_nvml, tmp_path, init="!999")
    slurm.is_now("IDLE+DRAIN", OURS)
    done = slurm.check("--gpus", "1", **told)
    assert done.stdout.startswith("UNKNOWN 0 GPUs of 1 sure: ")
    assert done.stdout.endswith(f"; {NODE}: left as it is\n")
    assert (done.returncode, slurm.calls()) == (1, [])
    in_prolog = slurm.check("--gpus", "1", SLURM_SCRIPT_CONTEXT="prolog_slurmd", **told)
    assert (in_prolog.returncode, in_prolog.stdout[:8]) == (0, "UNKNOWN ")
    slurm.is_now("IDLE")
    done = slurm.check("--gpus", "1", "--unknown", "fail", **told)
    assert done.stdout.endswith(": drained\n")
    assert slurm.told()[0][-1].startswith("Reason=nodecheck: gpus: 0 GPUs of 1 sure")


def test_what_a_measurement_would_tell_is_not_asked(slurm: Slurm, tmp_path: Path) -> None:
    """A policy that `nodecheck policy init` drew asks for a rate of memory."""
    rate = 'required = []\n[requirements]\ndram_read_bytes_per_second = "900GB/s"\n'
    allow(tmp_path, start=rate)
    slurm.is_now("IDLE+DRAIN", OURS)
    done = slurm.check()
    assert done.returncode == 0
    assert done.stdout.endswith(": resumed\n")


def test_a_hung_driver_and_a_hung_controller_end_in_time(
    fake_nvml: FakeNvml, slurm: Slurm, tmp_path: Path
) -> None:
    told = cards(fake_nvml, tmp_path, init="hang")
    (tmp_path / "hangs").touch()
    started = time.monotonic()
    done = slurm.check(*FAILS, **told)
    assert 13 < time.monotonic() - started < 30
    assert done.returncode == 1
    assert done.stdout.startswith(f"UNKNOWN {NODE}: scontrol show node {NODE}: no answer within")
    assert "Traceback" not in done.stderr
    assert eventually(lambda: not is_running(int((tmp_path / "hangs").read_text())))


@pytest.mark.parametrize("context", [None, "prolog_slurmd"])
def test_there_is_an_end_whatever_hangs(slurm: Slurm, tmp_path: Path, context: str | None) -> None:
    script = (
        "import sys, time, nodecheck.cli.slurm as slurm, nodecheck.diagnose as slow;"
        "slurm.LIMIT_SECONDS = 1.0; slow.diagnose = lambda *_: time.sleep(60);"
        "from nodecheck.cli import main; main()"
    )
    command = [sys.executable, "-c", script, "gate", "--slurm", "--policy", "minimal"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    if context:
        environment["SLURM_SCRIPT_CONTEXT"] = context
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, env=environment, check=False
    )
    assert done.stdout == "UNKNOWN not done within 1 s\n"
    assert done.returncode == (0 if context else 1)
    assert slurm.calls() == []


def test_a_controller_that_refuses_is_told(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "refuses").touch()
    done = slurm.check()
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {NODE}: scontrol show: slurm_update error: Access/permission denied\n"
    )
    (tmp_path / "refuses").unlink()
    slurm.is_now("IDLE", name="gpu-18")
    assert f"{NODE}: scontrol does not tell of {NODE} alone" in slurm.check().stderr


def test_the_node_is_called_as_slurmd_calls_it(slurm: Slurm) -> None:
    host = socket.gethostname().partition(".")[0]
    slurm.is_now("IDLE+DRAIN", OURS, name=host)
    assert slurm.check(SLURMD_NODENAME="").stdout.endswith(f"; {host}: resumed\n")
    assert slurm.told() == [[f"NodeName={host}", "State=UNDRAIN"]]


@pytest.mark.parametrize("context", ["prolog_slurmd", "epilog_slurmd"])
def test_in_a_prolog_it_only_tells_by_its_status(slurm: Slurm, context: str) -> None:
    slurm.is_now("IDLE+DRAIN", OURS)
    failing = slurm.check(*FAILS, SLURM_SCRIPT_CONTEXT=context)
    assert failing.returncode == 1
    assert failing.stdout.startswith("CRITICAL ")
    assert NODE not in failing.stdout
    assert slurm.check(SLURM_SCRIPT_CONTEXT=context).returncode == 0
    assert slurm.calls() == []


UNREAD = {
    "closed": "{} >&-; echo $? >&2",
    "full": "{} >/dev/full; echo $? >&2",
    "no reader": "{} | true; echo ${{PIPESTATUS[0]}} >&2",
    "not writable": "{} 1</dev/null; echo $? >&2",
    "no stream at all": "{} >&- 2>&- <&-; echo $? >/dev/stderr",
}


@pytest.mark.parametrize("style", [("--slurm",), ("--exit-style", "posix", "--quick")])
@pytest.mark.parametrize("script", UNREAD.values(), ids=UNREAD)
def test_in_a_prolog_the_verdict_counts_whether_or_not_it_can_be_read(
    slurm: Slurm, script: str, style: tuple[str, ...]
) -> None:
    """A job must not start on a node that is known to be unfit, and no fit node be drained."""
    lenient = ("--warning", "ok", "--unknown", "ok", "--policy", str(slurm.place / "policy.toml"))
    for asked, status in ((FAILS, 1), ((), 0)):
        command = shlex.join([*NODECHECK, "gate", *style, *lenient, *asked])
        done = subprocess.run(
            ["bash", "-c", script.format(command)], capture_output=True, text=True, check=False,
            env={**os.environ, "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}, timeout=60,
        )  # fmt: skip
        assert done.stderr.splitlines()[-1] == str(status), done.stderr
        assert len(done.stderr.splitlines()) <= 2
        assert "Traceback" not in done.stderr
    assert slurm.calls() == []


def test_in_a_prolog_nobody_who_reads_slowly_is_waited_for(slurm: Slurm) -> None:
    """The verdict is known, and a pipe that is full keeps it back until the time is over."""
    script = (
        "import nodecheck.cli.slurm as slurm; slurm.LIMIT_SECONDS = 5.0;"
        "from nodecheck.cli import main; main()"
    )
    arguments = ("gate", "--slurm", "--policy", str(slurm.place / "policy.toml"), *FAILS)
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writes, bytes(4096))
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], stdout=writes, stderr=subprocess.PIPE,
            env={**os.environ, "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(reads)
        os.close(writes)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(b"CRITICAL ")
    assert b"(standard output: not done within 5 s)" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kernels", "always"], "--slurm runs no kernels, --kernels always does"),
        (["--min-dram-read", "40GB/s"], "--slurm runs no kernels, which --min-dram-read needs"),
        (["--from", "x"], "--slurm is about this node: it takes neither --from nor --root"),
        (["--root", "/"], "--slurm is about this node: it takes neither --from nor --root"),
        (["--exit-style", "nagios"], "--slurm has its own exit status: it takes no --exit-style"),
        (["--surprise"], "No such option"),
        (["--policy", "/nowhere.toml"], "/nowhere.toml: "),
    ],
)
def test_failures_of_ours_touch_no_node(slurm: Slurm, arguments: list[str], said: str) -> None:
    """And drain none from a prolog, which would drain a fleet."""
    for environment, status in (({}, 1), ({"SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}, 0)):
        done = slurm.check(*arguments, *FAILS, **environment)
        assert done.returncode == status, done.stdout
        assert done.stdout.startswith("UNKNOWN ")
        assert said in done.stderr
    assert slurm.calls() == []


@pytest.mark.parametrize(("context", "status"), [(None, 1), ("prolog_slurmd", 0)])
def test_a_broken_installation_touches_no_node(
    slurm: Slurm, context: str | None, status: int
) -> None:
    (slurm.place / "msgspec.py").write_text("raise ImportError('built for another CPU')\n")
    told = {"SLURM_SCRIPT_CONTEXT": context} if context else {}
    done = slurm.check(*FAILS, PYTHONPATH=str(slurm.place), **told)
    assert done.returncode == status
    assert "its own fault: ImportError: built for another CPU" in done.stderr
    assert slurm.calls() == []


@pytest.mark.parametrize("asked", [(), ("--kernels", "auto")])
def test_no_kernel_runs_and_cuda_is_not_asked(asked: tuple[str, ...]) -> None:
    script = (
        "import sys, nodecheck.cli.inputs as inputs\n"
        "def look(asked, policy, work): sys.exit(f'it measures: {asked.measures}')\n"
        "inputs.read_node = look\n"
        "from nodecheck.cli import group; group()"
    )
    command = [sys.executable, "-c", script, "gate", "--slurm", *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == "it measures: never\n"
