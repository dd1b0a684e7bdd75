"""Hold the history to its budgets: `make bench-history`, a year of a snapshot every minute.

The reports are this machine's own: two full ones and two quick ones are made, the numbers in which
they differ wander from snapshot to snapshot, and one in ten was measured in full.
"""

from __future__ import annotations

import copy
import datetime
import itertools
import multiprocessing
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nodecheck.policy import Retention
from nodecheck.records import database
from nodecheck.records.retention import prune
from nodecheck.records.sqlite import Connection, pragma, transaction, writing
from nodecheck.report import Report, from_json

SNAPSHOTS = 500_000
FOLDER = Path("build/bench-history")
NODECHECK = [sys.executable, "-m", "nodecheck"]
STEP_SECONDS = 60
BATCH = 500
EVENT = 20_000
"""Snapshots from one change of the node to the next."""

BYTES_MOST = 4000
HISTORY_SECONDS = 1.0
WAIT_SECONDS = 2.0
WRITERS = 4
KEPT = Retention(age_seconds=100 * 366 * 86_400, size_bytes=1 << 50)


def main() -> int:
    """Print every figure; 1 when a budget is not held."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SNAPSHOTS
    shutil.rmtree(FOLDER, ignore_errors=True)
    made = Made(random.Random(1))
    mixed, full = FOLDER / "mixed" / "history.db", FOLDER / "full" / "history.db"
    held = [
        filled(full, made, count // 10, every=1),
        filled(mixed, made, count, every=10),
        shown("nodecheck history --since 30d, s", told_seconds(mixed), HISTORY_SECONDS),
    ]
    adding(mixed, made)
    held += letting_go(mixed, made, count)
    return 0 if all(held) else 1


def shown(what: str, value: float, budget: float | None = None) -> bool:
    held = budget is None or value <= budget
    judged = "" if budget is None else f"  budget {budget:g}: {'held' if held else 'NOT HELD'}"
    print(f"{what:58} {value:10.3f}{judged}", flush=True)
    return held


class Made:
    """Reports like those of this machine."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.full, self.quick = (
            Kind(*(read(options) for _ in range(2)))
            for options in (("--kernels", "always"), ("--quick",))
        )

    def report(self, number: int, moment: int, *, full: bool) -> Report:
        kind = self.full if full else self.quick
        content = kind.next(self.chance)
        when = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
        content["time"] = when.isoformat(timespec="seconds")
        content["host"]["kernel"] = f"6.1.{number // EVENT}"
        return msgspec.convert(content, Report)


def read(options: tuple[str, ...]) -> Any:
    """A report of this machine; when others measure on it, a full one has to wait."""
    command = [*NODECHECK, "--json", *options]
    for _ in range(60):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        content = msgspec.json.decode(msgspec.json.encode(from_json(done.stdout, "nodecheck")))
        if content["measurements"] or "--quick" in options:
            return content
        time.sleep(2)
    raise SystemExit("this machine cannot be measured: " + str(content["gaps"]))


class Kind:
    """One report, of which those numbers wander in which another of its kind differs."""

    def __init__(self, one: Any, other: Any) -> None:
        self.content = copy.deepcopy(one)
        self.wandering = list(differing(one, other))
        self.texts = list(told(one))

    def next(self, chance: random.Random) -> Any:
        for holder, key, value in self.of(self.wandering):
            moved = value * chance.uniform(0.98, 1.02)
            holder[key] = round(moved) if isinstance(value, int) else moved
        if chance.random() < 0.1:
            for holder, key, value in self.of(self.texts):
                holder[key] = re.sub(
                    r"\d+\.\d",
                    lambda found: f"{float(found[0]) + chance.choice((-0.1, 0, 0.1)):.1f}",
                    value,
                )
        return self.content

    def of(self, places: list[tuple[Any, ...]]) -> Iterator[tuple[Any, Any, Any]]:
        for place in places:
            holder = self.content
            for key in place[:-1]:
                holder = holder[key]
            yield holder, place[-1], holder[place[-1]]


def differing(one: Any, other: Any, *place: Any) -> Iterator[tuple[Any, ...]]:
    """Where two reports have different numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() & other.keys():
            yield from differing(one[key], other[key], *place, key)
    elif isinstance(one, list) and isinstance(other, list):
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            yield from differing(a, b, *place, number)
    elif isinstance(one, (int, float)) and not isinstance(one, bool) and one != other:
        yield place


def told(content: Any) -> Iterator[tuple[Any, ...]]:
    """Sentences with figures in them."""
    yield ("verdict", "headline")
    for number, finding in enumerate(content["findings"]):
        yield ("findings", number, "summary")
        for at in range(len(finding["evidence"])):
            yield ("findings", number, "evidence", at, "value")


def filled(path: Path, made: Made, count: int, *, every: int) -> bool:
    """Fill a history up to now, one in `every` in full, as `add` does but many at once."""
    start, begun = int(time.time()) - count * STEP_SECONDS, time.perf_counter()
    with writing(path) as db:
        for first in range(0, count, BATCH):
            with transaction(db):
                for number in range(first, min(first + BATCH, count)):
                    moment = start + number * STEP_SECONDS
                    report = made.report(number, moment, full=number % every == 0)
                    database._insert(db, report)
        size = pragma(db, "page_count") * pragma(db, "page_size")
    shown(f"{count:,} snapshots, 1 in {every} in full: MB", size / 1e6)
    shown("  ms to make and store one", 1000 * (time.perf_counter() - begun) / count)
    return shown("  bytes a snapshot", size / count, BYTES_MOST)


def told_seconds(path: Path) -> float:
    command = [*NODECHECK, "history", "--since", "30d"]
    environment = {**os.environ, "NODECHECK_HISTORY": str(path)}

    def once() -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - start

    return statistics.median(once() for _ in range(5))


def adding(path: Path, made: Made) -> None:
    """How long `add` takes alone: most of it is the disk's, and has no budget."""
    taken = []
    for number in range(100):
        report = made.report(number, int(time.time()), full=number % 10 == 0)
        start = time.perf_counter()
        database.add(path, report, KEPT)
        taken.append(time.perf_counter() - start)
    shown("add, s: median", statistics.median(taken))
    shown("add, s: 99 of 100", sorted(taken)[-2])


def letting_go(path: Path, made: Made, count: int) -> list[bool]:
    """A fifth is too old at once, while writers write: how long one waits until it has stored."""
    now = int(time.time())
    tight = Retention(age_seconds=count * 4 // 5 * STEP_SECONDS, size_bytes=1 << 50)
    before, begun = path.stat().st_size, time.perf_counter()
    with multiprocessing.Pool(WRITERS) as pool:
        reports = [made.report(count, now, full=False) for _ in range(WRITERS)]
        waits = pool.starmap(write_until_done, [(path, each, tight, now) for each in reports])
    shown(f"to let go of {count // 5:,} beside {WRITERS} writers, s", time.perf_counter() - begun)
    shown("  snapshots that they stored meanwhile", sum(map(len, waits)))
    median = statistics.median(itertools.chain.from_iterable(waits))
    shown("  a wait until it was stored, s: median", median)
    shown("  MB given back", (before - path.stat().st_size) / 1e6)
    left = count_older(path, now - tight.age_seconds)
    return [
        shown("  the longest wait, s", max(map(max, waits)), WAIT_SECONDS),
        shown("  too old and still there", left, 0),
    ]


def write_until_done(path: Path, report: Report, tight: Retention, now: int) -> list[float]:
    """Seconds from each call of `add` to its pruning, when the snapshot is stored."""
    waits: list[float] = []
    start = 0.0

    def noted(db: Connection, retention: Retention, moment: int) -> int:
        waits.append(time.perf_counter() - start)
        return prune(db, retention, moment)

    vars(database)["prune"] = noted
    while count_older(path, now - tight.age_seconds):
        start = time.perf_counter()
        database.add(path, report, tight)
    return waits


def count_older(path: Path, moment: int) -> int:
    with writing(path) as db:
        row = db.execute("SELECT count(*) FROM snapshots WHERE time < ?", (moment,)).fetchone()
        return int(row[0])


if __name__ == "__main__":
    sys.exit(main())
