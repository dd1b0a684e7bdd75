"""What to type to look at cards or to set them, in the words of each vendor's own tool. Pure.

Intel's cards have no tool that every node has: their sysfs files are read and written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import AMD, INTEL, nvidias, selector

_SYSFS = "/sys/bus/pci/devices"


def _of(gpus: Iterable[Gpu], vendor: str) -> list[Gpu]:
    return [gpu for gpu in gpus if gpu.vendor == vendor]


def unlock_clocks(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Show the clocks and take off what locks them."""
    commands: list[str] = []
    if nvidia := selector(nvidias(gpus)) if nvidias(gpus) else "":
        commands += [
            f"nvidia-smi -i {nvidia} -q -d CLOCK",
            f"sudo nvidia-smi -i {nvidia} -rgc",
            f"sudo nvidia-smi -i {nvidia} -rmc",
        ]
    for gpu in _of(gpus, AMD):
        commands.append(f"sudo amd-smi set --gpu {selector([gpu])} --perf-level AUTO")
    for gpu in _of(gpus, INTEL):
        commands.append(f"grep . {_SYSFS}/{selector([gpu])}/tile*/gt*/freq0/*_freq")
    return tuple(commands)


def keep_loaded(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Turn persistence mode on, which NVIDIA's driver alone has."""
    cards = nvidias(gpus)
    return (f"sudo nvidia-smi -i {selector(cards)} -pm 1",) if cards else ()


def default_power(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Set each card's default power limit again."""
    commands: list[str] = []
    for gpu in gpus:
        watts = gpu.default_power_limit_watts or 0
        if gpu.vendor == AMD:
            commands.append(f"sudo amd-smi set --gpu {selector([gpu])} --power-cap {watts:.0f}")
        elif gpu.vendor == INTEL:
            file = f"{_SYSFS}/{selector([gpu])}/hwmon/hwmon*/power1_max"
            commands.append(f"echo {watts * 1e6:.0f} | sudo tee {file}")
        else:
            commands.append(f"sudo nvidia-smi -i {selector([gpu])} -pl {watts:.0f}")
    return tuple(commands)


def show_heat(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Show temperatures and what holds the clocks."""
    return _show(gpus, "-q -d TEMPERATURE,PERFORMANCE", "amd-smi metric --temperature --throttle")


def show_power(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Show draw, limit and what holds the clocks."""
    return _show(gpus, "-q -d POWER,PERFORMANCE", "amd-smi metric --power --throttle")


def show_memory(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Show errors of the memory and what was done about them."""
    return _show(
        gpus, "-q -d ROW_REMAPPER,PAGE_RETIREMENT,ECC", "amd-smi bad-pages", "amd-smi metric --ecc"
    )


def show_processes(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Show the programs on the cards."""
    return _show(gpus, "-q -d PIDS", "amd-smi process")


def collect_log(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Collect what a vendor asks for with a claim."""
    return ("sudo nvidia-bug-report.sh",) if nvidias(gpus) else ()


def _show(gpus: Sequence[Gpu], nvidia: str, *amd: str) -> tuple[str, ...]:
    commands: list[str] = []
    if cards := nvidias(gpus):
        commands.append(f"nvidia-smi -i {selector(cards)} {nvidia}")
    if _of(gpus, AMD):
        commands += amd
    return tuple(commands)
