"""What other programs say of the speed and size of a model on this machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.environment import program

SECONDS = 60


@dataclass(frozen=True)
class Estimate:
    """Tokens a second of decode on the CPU, or a range of them, and bytes of weights."""

    low: float | None = None
    high: float | None = None
    weight_bytes: float | None = None

    @property
    def middle(self) -> float | None:
        """Of the range, by ratio."""
        return (self.low * self.high) ** 0.5 if self.low and self.high else None


Ask = Callable[[str, str, Path], Estimate]
"""A model's name, its format, its file."""


def nodecheck(_: str, __: str, file: Path) -> Estimate:
    """Our own, as a user gets it. llama-bench decodes into an empty cache."""
    command = [sys.executable, "-m", "nodecheck", "plan", str(file), "--json", "--context", "256"]
    plan = json.loads(_output([*command, "--kernels", "always"]))
    (alone,) = (s for s in plan["strategies"] if s["strategy"] == "cpu-only")
    return Estimate(alone.get("low"), alone.get("high"), plan["workload"]["weight_bytes_shipped"])


def llmfit(name: str, weights: str, _: Path) -> Estimate:
    """By name from its database; it reads no file."""
    command = [str(program("llmfit")), "--json", "plan", _HUB_NAMES[name], "--context", "2048"]
    told = json.loads(_output([*command, "--quant", weights]))
    (rate,) = (p["estimated_tps"] for p in told["run_paths"] if p["path"] == "cpu_only")
    return Estimate(rate, rate, told["disk_size_gb"] * 1e9)


def canirunllm(name: str, weights: str, _: Path) -> Estimate:
    """By name; prints a class of speed."""
    told = _output([str(program("canirunllm")), "check", _REGISTRY_NAMES[name]])
    line = next(
        (x for x in told.splitlines() if x.startswith(_REGISTRY_NAMES[name] + "-" + weights)), ""
    )
    rate = re.search(r"~([\d.]+)-([\d.]+) tok/s", line)
    return Estimate(float(rate[1]), float(rate[2])) if rate else Estimate()


def modelinfo(_: str, __: str, file: Path) -> Estimate:
    """From the file; sizes alone, printed in GiB."""
    size = re.search(r"Disk size:\s+([\d.]+) GB", _output([str(program("modelinfo")), str(file)]))
    return Estimate(weight_bytes=float(size[1]) * 2**30 if size else None)


TOOLS: dict[str, Ask] = {
    "nodecheck": nodecheck,
    "llmfit": llmfit,
    "canirunllm": canirunllm,
    "modelinfo": modelinfo,
}

_HUB_NAMES = {"Llama-3.2-1B": "meta-llama/Llama-3.2-1B", "Qwen3-8B": "Qwen/Qwen3-8B"}
_REGISTRY_NAMES = {"Llama-3.2-1B": "Llama-3.2-1B-Instruct", "Qwen3-8B": "Qwen3-8B"}


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    return done.stdout
