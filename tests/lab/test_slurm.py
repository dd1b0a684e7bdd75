"""A real Slurm drains the node that fails the gate, and gives it back when the fault is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodecheck.diagnose import rules
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import L40, at, description
from tests.lab.debian import NotHereError
from tests.lab.slurm import NODE, Cluster, cluster

__all__ = ["fake_nvml"]

INTERVAL_SECONDS = 2
SLACK_SECONDS = 8.0
"""For slurmctld, which looks at its clock now and then, and a machine that is busy."""

DOCUMENT = Path(__file__).parents[2] / "docs" / "slurm.md"
LOST = "gpu.lost"
FANS = "the fans are replaced"

CARDS = [at(L40, 1), at(L40, 2)]
ONE_LOST = [at(L40, 1), at(L40, 2, handle="!15")]


class Lab:
    """A cluster whose node has two cards; one of them can be lost."""

    def __init__(self, made: Cluster) -> None:
        self.slurm = made
        self.cards = made.place / "nvml.txt"
        self.runs = made.place / "runs.txt"

    def lose_a_card(self) -> float:
        return self._describe(description(ONE_LOST))

    def mend(self) -> float:
        return self._describe(description(CARDS))

    def _describe(self, text: str) -> float:
        new = self.cards.with_suffix(".new")
        new.write_text(text)
        new.replace(self.cards)
        return time.monotonic()

    def wait_for(self, holds: Callable[[], bool], seconds: float) -> float:
        """When it held."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, (self.slurm.node(), self.log()[-2000:])
            time.sleep(0.05)
        return time.monotonic()

    def is_drained(self) -> bool:
        return "DRAIN" in self.slurm.node()[0]

    def is_in_service(self) -> bool:
        return self.slurm.node()[0] == {"IDLE"}

    def look_again(self) -> None:
        """Let the health check have run whole."""
        before = self.runs.read_text().count("ended")
        self.wait_for(lambda: self.runs.read_text().count("ended") > before + 1, 30)

    def job(self) -> subprocess.CompletedProcess[str]:
        """One that runs at once or not at all."""
        return self.slurm.run("srun", "--immediate=2", "echo", "done")

    def log(self) -> str:
        return (self.slurm.place / "slurmd.log").read_text()


def files(place: Path, *options: str, exports: dict[str, str]) -> None:
    """What `nodecheck init slurm` writes, with options and variables put in as it says."""
    command = [sys.executable, "-m", "nodecheck", "init", "slurm", "--to", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = "".join(f"export {name}='{value}'\n" for name, value in exports.items())
    for name in ("nodecheck-health", "nodecheck-prolog"):
        script = place / "etc" / "slurm" / name
        text = script.read_text()
        assert "gate --slurm" in text
        text = text.replace("export PATH\n", f"export PATH\n{told}")
        script.write_text(text.replace("gate --slurm", " ".join(("gate --slurm", *options))))
    health = place / "etc" / "slurm" / "nodecheck-health"
    noted = health.read_text().replace("exec timeout", "timeout")
    health.write_text(f"{noted}status=$?\necho ended $status >>{place}/runs.txt\nexit $status\n")


def lab(nvml: FakeNvml, *lines: str, with_conf: bool = True) -> Iterator[Lab]:
    """A running one; `lines` go into slurm.conf, over those that `nodecheck init` gives."""
    with tempfile.TemporaryDirectory(prefix="slurm") as made:
        place = Path(made)
        policy = place / "policy.toml"
        policy.write_text(
            'required = []\n[requirements]\ngpus = 2\ndram_read_bytes_per_second = "900GB/s"\n'
            + "".join(
                f'[[waivers]]\nid = "{rule.id}"\nreason = "any machine"\n'
                for rule in rules()
                if rule.id != LOST
            )
        )
        environment = nvml.environment(CARDS, place)
        names = ("LD_LIBRARY_PATH", "FAKE_NVML", "NODECHECK_HISTORY")
        told = {name: environment[name] for name in names}
        told["SLURM_CONF"] = str(place / "slurm.conf")
        files(place, "--policy", str(policy), exports=told)
        (place / "runs.txt").touch()
        conf = (place / "etc" / "slurm" / "nodecheck.conf").read_text()
        conf = conf.replace("=/etc/slurm/", f"={place}/etc/slurm/")
        conf = conf.replace("=300", f"={INTERVAL_SECONDS}")
        (place / "nodecheck.conf").write_text(conf)
        include = ("Include nodecheck.conf",) if with_conf else ()
        try:
            with cluster(place, "\n".join((*include, *lines)).format(place=place)) as running:
                yield Lab(running)
        except NotHereError as reason:
            pytest.skip(str(reason))


@pytest.fixture(scope="module")
def checked(fake_nvml: FakeNvml) -> Iterator[Lab]:
    """With the health check, as its files have it."""
    yield from lab(fake_nvml, "RebootProgram=/bin/true")


@pytest.fixture(scope="module")
def guarded(fake_nvml: FakeNvml) -> Iterator[Lab]:
    """With the prolog alone."""
    yield from lab(fake_nvml, "Prolog={place}/etc/slurm/nodecheck-prolog", with_conf=False)


def test_a_fault_drains_the_node_and_its_end_resumes_it(checked: Lab) -> None:
    ran = checked.job()
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    broken = checked.lose_a_card()
    drained = checked.wait_for(checked.is_drained, INTERVAL_SECONDS + SLACK_SECONDS)
    states, reason = checked.slurm.node()
    assert states == {"IDLE", "DRAIN"}
    assert reason.startswith("nodecheck: gpus, gpu.lost: 1 GPU < 2 [root@")
    assert f"\n{reason.partition(' [')[0]}\n" in DOCUMENT.read_text()
    refused = checked.job()
    assert refused.returncode != 0
    assert "Unable to allocate resources" in refused.stderr
    checked.look_again()
    assert checked.slurm.node() == (states, reason)  # with the time since when
    mended = checked.mend()
    resumed = checked.wait_for(checked.is_in_service, INTERVAL_SECONDS + SLACK_SECONDS)
    assert checked.slurm.node()[1] == ""
    assert checked.job().stdout == "done\n"
    sys.stdout.write(
        f"drained after {drained - broken:.1f} s, resumed after {resumed - mended:.1f} s, "
        f"interval {INTERVAL_SECONDS} s\n"
    )


def test_a_running_job_is_left_alone(checked: Lab) -> None:
    checked.wait_for(checked.is_in_service, 20)
    place = checked.slurm.place
    checked.slurm.run(
        "sbatch", "--wrap", f"touch {place}/began; exec sleep 30", "--output=/dev/null"
    )
    checked.wait_for((place / "began").exists, 20)
    checked.lose_a_card()
    checked.wait_for(checked.is_drained, INTERVAL_SECONDS + SLACK_SECONDS)
    assert checked.slurm.node()[0] == {"ALLOCATED", "DRAIN"}
    checked.mend()
    in_use = frozenset({"ALLOCATED"})  # once slurmd has registered again
    checked.wait_for(lambda: checked.slurm.node()[0] == in_use, INTERVAL_SECONDS + SLACK_SECONDS)
    checked.slurm.run("scancel", "--user=root")
    checked.wait_for(checked.is_in_service, 20)


def test_what_others_drained_stays_drained(checked: Lab) -> None:
    checked.wait_for(checked.is_in_service, 20)
    checked.slurm.scontrol("update", f"NodeName={NODE}", "State=DRAIN", f"Reason={FANS}")
    left = checked.slurm.node()
    assert left[0] == {"IDLE", "DRAIN"}
    assert left[1].startswith(FANS)
    checked.look_again()
    assert checked.slurm.node() == left
    checked.lose_a_card()
    checked.look_again()
    assert checked.slurm.node() == left
    checked.mend()
    checked.slurm.scontrol("update", f"NodeName={NODE}", "State=RESUME")
    checked.wait_for(checked.is_in_service, 20)
    assert checked.job().stdout == "done\n"


def test_words_that_were_added_to_a_reason_of_ours_keep_the_drain(checked: Lab) -> None:
    checked.wait_for(checked.is_in_service, 20)
    reason = "nodecheck: gpus, gpu.lost: 1 GPU < 2\nRMA 4711"
    checked.slurm.scontrol("update", f"NodeName={NODE}", "State=DRAIN", f"Reason={reason}")
    text = checked.slurm.scontrol("show", "node", NODE)
    checked.look_again()
    checked.lose_a_card()
    checked.look_again()
    checked.mend()
    assert reason_in(checked.slurm.scontrol("show", "node", NODE)) == reason_in(text)
    checked.slurm.scontrol("update", f"NodeName={NODE}", "State=RESUME")
    checked.wait_for(checked.is_in_service, 20)


def reason_in(text: str) -> str:
    """All of it, as scontrol prints it."""
    return text.partition(" Reason=")[2]


def test_a_reboot_that_others_asked_for_keeps_its_reason(checked: Lab) -> None:
    checked.wait_for(checked.is_in_service, 20)
    checked.slurm.run("sbatch", "--wrap", "exec sleep 100", "--output=/dev/null")
    checked.wait_for(lambda: "ALLOCATED" in checked.slurm.node()[0], 20)
    try:
        checked.slurm.scontrol("reboot", "reason=kernel update", NODE)
        asked = checked.slurm.node()
        assert asked[0] == {"ALLOCATED", "REBOOT_REQUESTED"}
        assert asked[1].startswith("kernel update [root@")
        checked.lose_a_card()
        checked.look_again()
        assert checked.slurm.node() == asked
    finally:
        checked.mend()
        checked.slurm.run("scontrol", "cancel_reboot", NODE)
        checked.slurm.run("scancel", "--user=root")
        checked.slurm.scontrol("update", f"NodeName={NODE}", "State=DRAIN", "Reason=over")
        checked.slurm.scontrol("update", f"NodeName={NODE}", "State=RESUME")
        checked.wait_for(checked.is_in_service, 20)


def test_a_controller_that_hangs_is_not_waited_for(checked: Lab) -> None:
    """The health check ends long before Slurm would kill it, and says why."""
    checked.wait_for(checked.is_in_service, 20)
    controller = checked.slurm.servers["slurmctld"]
    health = str(checked.slurm.place / "etc" / "slurm" / "nodecheck-health")
    os.kill(controller.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        done = checked.slurm.run("env", "-i", f"SLURMD_NODENAME={NODE}", health, seconds=50)
        assert time.monotonic() - started < 30
    finally:
        os.kill(controller.pid, signal.SIGCONT)
    assert done.returncode == 1
    assert f"{NODE}: scontrol show" in done.stdout + done.stderr, done
    assert "Socket timed out" in done.stderr


def test_a_prolog_that_fails_keeps_the_job_and_drains_the_node(guarded: Lab) -> None:
    ran = guarded.job()
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    guarded.lose_a_card()
    job = guarded.slurm.run("sbatch", "--parsable", "--wrap", "touch ran").stdout.strip()
    guarded.wait_for(guarded.is_drained, 20)
    assert guarded.slurm.node()[1].startswith("Prolog error")
    guarded.wait_for(lambda: "PENDING" in guarded.slurm.scontrol("show", "job", job), 20)
    assert not (guarded.slurm.place / "ran").exists()


def test_a_prolog_whose_nodecheck_is_broken_lets_jobs_start(guarded: Lab) -> None:
    guarded.lose_a_card()
    (guarded.slurm.place / "policy.toml").write_text("no policy")
    guarded.slurm.scontrol("update", f"NodeName={NODE}", "State=RESUME")
    guarded.wait_for(guarded.is_in_service, 20)
    ran = guarded.job()
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert not guarded.is_drained()
