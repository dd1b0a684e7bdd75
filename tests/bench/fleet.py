"""Hold `nodecheck compare` on a fleet to its budgets: `make bench-fleet`.

10,000 reports are made from one of this machine, some of them of odd nodes; the real command must
find these and no others, in time and memory. Then: how often a healthy fleet has odd nodes.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace
from tests.nodes import l40

from nodecheck.model import Measurement, Status, pretty_json
from nodecheck.records.figures import Figure, Kind, Metric
from nodecheck.records.fleet.fleet import make_fleet
from nodecheck.records.fleet.nodes import Node
from nodecheck.report import Report, from_json

NODES = 10_000
SECONDS_MOST, BYTES_MOST = 20.0, 500e6
NOISE = 0.03
FIGURES = 20
PLANTED = {
    137: "half the speed",
    1042: "half the speed",
    2718: "7 of 8 GPUs",
    3141: "half the RAM",
    4711: "an older driver",
    5005: "a card at x8",
    6174: "no AVX",
    7777: "another kernel",
    8128: "half the speed",
}


def main() -> int:
    """Print every figure; 1 where a budget is not held."""
    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        size = write(Path(place), this_machine())
        print(
            f"{NODES:,} reports of {size / NODES / 1e3:.1f} KB made in "
            f"{time.perf_counter() - start:.0f} s"
        )
        held = compare(place)
    false_alarms()
    return 0 if held else 1


def this_machine() -> Report:
    """A report of it, measured, with eight cards added; what disturbed it is forgotten."""
    command = [sys.executable, "-m", "nodecheck", "--json", "--kernels", "always"]
    done = subprocess.run(command, capture_output=True, check=True)
    report = from_json(done.stdout, "this machine")
    cards = tuple(replace(l40(0), index=n, pci_address=f"0000:{n + 1:02x}:00.0") for n in range(8))
    gpu = replace(report.facts.gpu, state="ok", driver_version="550.54.14")
    return replace(
        report,
        facts=replace(report.facts, gpus=cards, gpu=gpu),
        measurements=tuple(replace(each, flags=()) for each in report.measurements),
    )


def write(place: Path, report: Report) -> int:
    """The reports of the fleet, a file each; the bytes of all."""
    chance = random.Random(0)
    size = 0
    for number in range(NODES):
        text = pretty_json(member(report, number, chance))
        (place / f"{number:05}.json").write_bytes(text)
        size += len(text)
    return size


def member(report: Report, number: int, chance: random.Random) -> Report:
    """A node like the others, but for what is planted."""
    planted = PLANTED.get(number, "")
    facts = report.facts
    if planted == "7 of 8 GPUs":
        facts = replace(facts, gpus=facts.gpus[:7])
    elif planted == "half the RAM":
        ram = (facts.memory.total_bytes or 0) // 2
        facts = replace(facts, memory=replace(facts.memory, total_bytes=ram))
    elif planted == "an older driver":
        facts = replace(facts, gpu=replace(facts.gpu, driver_version="535.183.01"))
    elif planted == "a card at x8":
        facts = replace(facts, gpus=(*facts.gpus[:7], replace(facts.gpus[7], link_width=8)))
    elif planted == "no AVX":
        usable = tuple(f for f in facts.cpu.usable_flags or () if not f.startswith("avx"))
        facts = replace(facts, cpu=replace(facts.cpu, usable_flags=usable))
    kernel = "5.15.0-91-generic" if planted == "another kernel" else report.host.kernel
    factor = 0.5 if planted == "half the speed" else 1.0
    return replace(
        report,
        host=replace(report.host, name=f"node{number:05}", kernel=kernel),
        facts=facts,
        measurements=tuple(
            scaled(each, factor * chance.gauss(1, NOISE)) for each in report.measurements
        ),
    )


def scaled(each: Measurement, factor: float) -> Measurement:
    """A measurement by a factor, its passes within 2 %."""
    middle = each.median_bytes_per_second * factor
    return replace(
        each,
        median_bytes_per_second=middle,
        p10_bytes_per_second=0.98 * middle,
        p90_bytes_per_second=1.02 * middle,
        max_bytes_per_second=1.03 * middle,
    )


def compare(place: str) -> bool:
    """Run the command; whether it kept to its budgets, and found what was planted alone."""
    with tempfile.TemporaryFile() as out:
        before = os.times()
        start = time.perf_counter()
        command = [sys.executable, "-m", "nodecheck", "compare", place, "--json"]
        process = subprocess.Popen(command, stdout=out)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.1)
        seconds = time.perf_counter() - start
        after = os.times()
        out.seek(0)
        made = json.load(out)
    busy = sum(after[2:4]) - sum(before[2:4])
    print(f"{busy:.1f} s of CPU time; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    odd = {each["node"] for each in made["odd"]}
    planted = {f"node{number:05}" for number in PLANTED}
    print(
        f"planted {len(planted)}, of these found {len(odd & planted)}, others {len(odd - planted)}"
    )
    for each in made["odd"]:
        told = ", ".join(f"{o['name']} {o['value']}" for o in each["oddities"])
        print(f"  {each['node']}  {PLANTED.get(int(each['node'][4:]), 'NOT PLANTED')}: {told[:90]}")
    held = [
        odd == planted,
        made["nodes"] == NODES,
        shown("compare, s", seconds, SECONDS_MOST),
        shown("compare, peak MB of all processes", peak / 1e6, BYTES_MOST / 1e6),
    ]
    return all(held)


def shown(what: str, value: float, budget: float) -> bool:
    """Print a figure beside its budget; whether it is held."""
    held = value <= budget
    print(f"{what:36} {value:6.1f}  budget {budget:g}: {'held' if held else 'NOT HELD'}")
    return held


def resident(pid: int) -> int:
    """Bytes of a process and its children, what they share counted once."""
    found = 0
    for task in (pid, *children(pid)):
        try:
            text = Path(f"/proc/{task}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        found += sum(int(li.split()[1]) for li in text.splitlines() if li.startswith("Pss:")) << 10
    return found


def children(pid: int) -> list[int]:
    """Those of its main thread."""
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def false_alarms() -> None:
    """Odd nodes in fleets that have none."""
    chance = random.Random(1)
    print(f"odd nodes a fleet by chance, {FIGURES} figures each, some twice as noisy as others:")
    for nodes, fleets in ((5, 400), (8, 300), (20, 100), (100, 20), (1000, 3)):
        told = []
        for noise, heavy in ((0.01, False), (0.03, False), (0.10, False), (0.03, True)):
            found = sum(healthy(nodes, noise, chance, heavy=heavy) for _ in range(fleets))
            tails = ", heavy tails" if heavy else ""
            told.append(f"{100 * noise:.0f} % noise{tails} {found / fleets:.3f}")
        print(f"  {nodes:5} nodes: {'; '.join(told)}")


def healthy(number: int, noise: float, chance: random.Random, *, heavy: bool = False) -> int:
    """How many of nodes that are alike but for their noise are told to be odd."""
    nodes = [bare(f"node{n}", noise, chance, heavy=heavy) for n in range(number)]
    return len(make_fleet(nodes).odd)


def bare(name: str, noise: float, chance: random.Random, *, heavy: bool = False) -> Node:
    """A node of which nothing is known but its CPUs and its figures."""
    return Node(
        file=name,
        name=name,
        time=0,
        status=Status.OK,
        guest=False,
        cpu="CPU",
        sockets=1,
        logical_cpus=64,
        ram_bytes=1 << 39,
        cards=(),
        figures=tuple(
            Figure(
                metric=Metric(f"figure{n}", "B/s", Kind.RATE, more_is_better=True),
                value=1e11
                * max(0.01, 1 + noise * (0.67 + 0.67 * n / FIGURES) * off(chance, heavy)),
            )
            for n in range(FIGURES)
        ),
    )


def off(chance: random.Random, heavy: bool) -> float:
    """Noise of standard deviation 1: normal, or double-exponential."""
    if not heavy:
        return chance.gauss(0, 1)
    return chance.choice((-1, 1)) * chance.expovariate(2**0.5)


if __name__ == "__main__":
    sys.exit(main())
