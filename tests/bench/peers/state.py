"""How busy the machine was with other work."""

from __future__ import annotations

import os

import psutil


class Load:
    """What ran beside the benchmark, from its creation on."""

    def __init__(self) -> None:
        self._load_average = os.getloadavg()[0]
        self._start = _seconds()

    def sentence(self) -> str:
        """Load average, CPU time of others and steal until now."""
        now = _seconds()
        passed = {name: now[name] - self._start[name] for name in now}
        whole = passed["used"] + passed["unused"] + passed["steal"]
        others = max(0.0, passed["used"] - passed["own"]) / whole
        return (
            f"load average {self._load_average:.1f} before and {os.getloadavg()[0]:.1f} after, "
            f"others took {others:.1%} of the CPU time, steal was {passed['steal'] / whole:.1%}"
        )


def _seconds() -> dict[str, float]:
    cpu = psutil.cpu_times()._asdict()
    unused, steal = cpu["idle"] + cpu["iowait"], cpu["steal"]
    # Guests' time is in user time already.
    used = sum(cpu.values()) - unused - steal - cpu["guest"] - cpu["guest_nice"]
    return {"used": used, "unused": unused, "steal": steal, "own": sum(os.times()[:4])}
