"""Hold the history to its budgets: `make bench-history`, a year of a snapshot every minute.

The reports are this machine's own: two full ones and two quick ones are made, the numbers in which
they differ move from snapshot to snapshot, and one in ten is a full one.
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
from nodecheck.records.snapshots import database
from nodecheck.records.snapshots.retention import FREE_PAGES, prune
from nodecheck.records.snapshots.sqlite import Connection, pragma, transaction, writing
from nodecheck.report import Report, from_json

SNAPSHOTS = 500_000
FOLDER = Path("build/bench-history")
NODECHECK = [sys.executable, "-m", "nodecheck"]
STEP_SECONDS = 60
BATCH = 500
EVENT = 20_000
"""Snapshots from one change of the node to the next."""

TOLD_ANEW = 0.1
"""Share of the reports whose sentences have other figures than those before."""
FLAGGED = 0.1
"""Share of the measurements that other work disturbed."""

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
    shutil.rmtree(FOLDER)
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
    """One report, of which those numbers move in which another of its kind differs."""

    def __init__(self, one: Any, other: Any) -> None:
        self.content = copy.deepcopy(one)
        self.moving = [
            (*within(self.content, place), value) for place, value in differing(one, other)
        ]
        self.told = [(*within(self.content, place), text) for place, text in sentences(one)]

    def next(self, chance: random.Random) -> Any:
        for holder, key, value in self.moving:
            moved = value * chance.uniform(0.98, 1.02)
            holder[key] = round(moved) if isinstance(value, int) else moved
        if chance.random() < TOLD_ANEW:
            for holder, key, text in self.told:
                holder[key] = nudged(text, chance.choice((-0.1, 0, 0.1)))
        for each in self.content["measurements"]:
            each["flags"] = ["contended"] if chance.random() < FLAGGED else []
        return self.content


def nudged(text: str, by: float) -> str:
    return re.sub(r"\d+\.\d", lambda number: f"{float(number[0]) + by:.1f}", text)


def within(content: Any, place: tuple[Any, ...]) -> tuple[Any, Any]:
    """What holds the value at a place, and under which key."""
    for key in place[:-1]:
        content = content[key]
    return content, place[-1]


def differing(one: Any, other: Any, *place: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Where two reports have different numbers, and those of the first."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() & other.keys():
            yield from differing(one[key], other[key], *place, key)
    elif isinstance(one, list) and isinstance(other, list):
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            yield from differing(a, b, *place, number)
    elif isinstance(one, (int, float)) and not isinstance(one, bool) and one != other:
        yield place, one


def sentences(content: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Where figures stand in words."""
    yield ("verdict", "headline"), content["verdict"]["headline"]
    for number, finding in enumerate(content["findings"]):
        yield ("findings", number, "summary"), finding["summary"]
        for at, evidence in enumerate(finding["evidence"]):
            yield ("findings", number, "evidence", at, "value"), evidence["value"]


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
    return [shown("  the longest wait, s", max(map(max, waits)), WAIT_SECONDS)]


def write_until_done(path: Path, report: Report, tight: Retention, now: int) -> list[float]:
    """Seconds from each call of `add` to its pruning, when the snapshot is stored."""
    waits: list[float] = []
    start = 0.0

    def noted(db: Connection, retention: Retention, moment: int) -> int:
        waits.append(time.perf_counter() - start)
        return prune(db, retention, moment)

    vars(database)["prune"] = noted
    while not is_done(path, now - tight.age_seconds):
        start = time.perf_counter()
        database.add(path, report, tight)
    return waits


def is_done(path: Path, moment: int) -> bool:
    """Whether nothing older is there, and the file has no more room in it than it keeps."""
    with writing(path) as db:
        older = db.execute("SELECT 1 FROM snapshots WHERE time < ? LIMIT 1", (moment,)).fetchone()
        return older is None and pragma(db, "freelist_count") <= FREE_PAGES


if __name__ == "__main__":
    sys.exit(main())
