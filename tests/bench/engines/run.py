"""One run of llama-bench's decode on given CPUs, and how undisturbed it was."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.bench.engines import build

Cpus = tuple[int, ...]

REPETITIONS = 2
TICK = 1 / os.sysconf("SC_CLK_TCK")
MIN_CPU_SHARE, MAX_OTHERS_BUSY = 0.985, 0.05


@dataclass(frozen=True)
class Decode:
    """One repetition. The shares are of its wall time."""

    tokens_per_second: float
    cpu_share: float
    """Of the engine's thread that ran least, or what the host left of its CPUs if that is less."""
    others_busy: float
    """Of the CPUs that the engine was kept off; 0 where there are none."""

    @property
    def is_undisturbed(self) -> bool:
        """Nothing else had the engine's CPUs, and little ran beside them."""
        return self.cpu_share > MIN_CPU_SHARE and self.others_busy < MAX_OTHERS_BUSY


def decode(flavour: str, model: Path, cpus: Cpus, tokens: int) -> Decode:
    """The fastest of REPETITIONS times so many tokens, with a thread for each of cpus."""
    command = [
        *("taskset", "--cpu-list", ",".join(map(str, cpus))),
        *(str(build.program("llama-bench")), "--model", str(model), "--n-gpu-layers", "0"),
        *("--n-prompt", "0", "--n-gen", str(tokens), "--threads", str(len(cpus))),
        *("--repetitions", str(REPETITIONS), "--progress", "--output", "jsonl"),
    ]
    environment = os.environ | {"LD_LIBRARY_PATH": build.library_path(flavour)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe) as engine:
        assert engine.stdout is not None
        assert engine.stderr is not None
        states = [_State(engine.pid) for _ in _starts(engine.stderr)]
        _check_library(engine.pid, flavour)
        rates = json.loads(engine.stdout.readline())["samples_ts"]
        states.append(_State(engine.pid))
        engine.stderr.read()
    best = rates.index(max(rates))
    return _between(states[best], states[best + 1], cpus, rates[best])


def _starts(progress: IO[bytes]) -> Iterator[None]:
    """At the start of each repetition, not of the warm-up."""
    left = REPETITIONS
    while left:
        line = progress.readline()
        if not line:
            raise RuntimeError("llama-bench ended before it decoded")
        if b"generation run" in line and b"warmup" not in line:
            left -= 1
            yield


def _check_library(pid: int, flavour: str) -> None:
    folder = str(build.FOLDER / "lib" / flavour)
    assert folder in Path(f"/proc/{pid}/maps").read_text(), f"not linked with {folder}"


class _State:
    """CPU time of an engine's threads and of the CPUs, seconds, at one moment."""

    def __init__(self, pid: int) -> None:
        self.time = time.monotonic()
        self.threads = {
            thread.name: int((thread / "schedstat").read_text().split()[0]) / 1e9
            for thread in Path(f"/proc/{pid}/task").iterdir()
        }
        self.busy = dict[int, float]()
        self.stolen = dict[int, float]()
        for line in Path("/proc/stat").read_text().splitlines():
            name, *fields = line.split()
            if name.startswith("cpu") and name != "cpu":
                user, nice, system, _, _, irq, soft_irq, steal, *_ = (TICK * int(f) for f in fields)
                cpu = int(name.removeprefix("cpu"))
                self.busy[cpu] = user + nice + system + irq + soft_irq + steal
                self.stolen[cpu] = steal


def _between(start: _State, end: _State, cpus: Cpus, rate: float) -> Decode:
    wall = end.time - start.time
    ran = sorted(seconds - start.threads.get(t, 0) for t, seconds in end.threads.items())
    stolen = max(end.stolen[cpu] - start.stolen[cpu] for cpu in cpus)
    others = [end.busy[cpu] - start.busy[cpu] for cpu in end.busy if cpu not in cpus]
    return Decode(
        tokens_per_second=rate,
        cpu_share=min(ran[-len(cpus)], wall - stolen) / wall,
        others_busy=max(others, default=0) / wall,
    )
