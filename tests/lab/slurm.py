"""A Slurm of one node on the loopback interface: munged, slurmctld and slurmd, all of Debian's."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.lab.debian import NotHereError

PACKAGES = "munge slurmctld slurmd slurm-client"
PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "srun", "sbatch")
NODE = "n1"
START_SECONDS = 20.0

_CONFIG = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthInfo=socket={place}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
PlugStackConfig={place}/plugstack.conf
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 RealMemory=1
PartitionName=p Nodes={node} Default=YES
{more}
"""


class Cluster:
    """The running servers. `place` holds their files; clients are told of them by `environment`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf")}
        self.servers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        with (self.place / f"{name}.out").open("wb") as out:
            self.servers[name] = subprocess.Popen(
                command, env=self.environment, stdout=out, stderr=out, start_new_session=True
            )

    def run(self, *command: str, seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
        """A client's answer."""
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def scontrol(self, *arguments: str) -> str:
        done = self.run("scontrol", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def node(self) -> tuple[frozenset[str], str]:
        """Its states, and its reason with who gave it."""
        text = self.scontrol("show", "node", NODE)
        if not (found := re.findall(r"^ +State=(\S+)", text, re.MULTILINE)):
            return self.node()  # seen once on a busy machine: an answer without words
        state = found[0]
        reason = re.findall(r"^ +Reason=(.*)", text, re.MULTILINE)
        return frozenset(state.split("+")), reason[0] if reason else ""

    def stop(self) -> None:
        """End all, jobs first: what runs one is in no process group of the servers'."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run("scancel", "--user=root", seconds=5)
            end = time.monotonic() + 5
            while self.run("squeue", "--noheader", seconds=5).stdout and time.monotonic() < end:
                time.sleep(0.1)
        for server in reversed(self.servers.values()):
            _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        if number != signal.SIGCONT:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(5)
                return


@contextlib.contextmanager
def cluster(place: Path, more: str) -> Iterator[Cluster]:
    """One whose node is in service; `more` ends its slurm.conf. Raises NotHereError."""
    if os.geteuid() != 0:
        raise NotHereError("slurmd needs root")
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        raise NotHereError(f"{missing[0]} is not here: apt-get install {PACKAGES}")
    _prepare(place, more)
    made = Cluster(place)
    try:
        made.start(
            "munged", "munged", "--foreground", "--force", f"--key-file={place}/munge.key",
            f"--socket={place}/munge.socket", f"--pid-file={place}/munge.pid",
            f"--log-file={place}/munge.log", f"--seed-file={place}/munge.seed",
        )  # fmt: skip
        _wait((place / "munge.socket").exists, made)
        made.start("slurmctld", "slurmctld", "-D", "-f", str(place / "slurm.conf"))
        made.start("slurmd", "slurmd", "-D", "-f", str(place / "slurm.conf"), "-N", NODE)
        _wait(lambda: "IDLE" in _states(made), made)
        yield made
    finally:
        made.stop()


def _prepare(place: Path, more: str) -> None:
    for folder in ("state", "spool"):
        (place / folder).mkdir()
    key = place / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    config = _CONFIG.format(
        host=socket.gethostname(), place=place, ports=_free_ports(2), node=NODE, more=more
    )
    (place / "slurm.conf").write_text(config)


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


def _states(made: Cluster) -> frozenset[str]:
    done = made.run("scontrol", "show", "node", NODE)
    found = re.findall(r"^ +State=(\S+)", done.stdout, re.MULTILINE)
    return frozenset(found[0].split("+")) if found else frozenset()


def _wait(condition: Callable[[], bool], made: Cluster) -> None:
    end = time.monotonic() + START_SECONDS
    while not condition():
        for name, server in made.servers.items():
            assert server.poll() is None, (name, (made.place / f"{name}.out").read_text())
        assert time.monotonic() < end, list(made.place.glob("*.log"))
        time.sleep(0.05)
