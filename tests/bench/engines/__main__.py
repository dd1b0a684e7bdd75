"""Decode speed predicted and measured, by llama.cpp in five builds: `make bench-engines`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import msgspec
from tests.bench.engines import build, models, table
from tests.bench.engines.predict import Kernels
from tests.bench.engines.run import decode

ROUNDS = 3
SECONDS = 1.0
"""Of a repetition, about."""

RESULTS = build.FOLDER / "results.jsonl"


def main() -> None:
    """Take up where the last call was cut; print and publish the table."""
    build.build()
    paths = models.make(build.FOLDER / "models", build.program("llama-quantize"))
    done = list(_saved())
    known = {(r.round, r.flavour, r.weights, r.threads) for r in done}
    for number, (weights, path) in product(range(ROUNDS), paths.items()):
        models.warm(path)
        for flavour, threads in product(build.FLAVOURS, (1, 2)):
            if (number, flavour, weights, threads) not in known:
                run = _measure(number, flavour, weights, path, threads)
                done.append(run)
                with RESULTS.open("ab") as file:
                    file.write(msgspec.json.encode(run) + b"\n")
                print(table.row(table.cells(run)), flush=True)
    points = table.best(done)
    table.publish("\n".join([table.summary(points), "", *table.lines(points)]))
    print(table.summary(points))


def _measure(number: int, flavour: str, weights: str, path: Path, threads: int) -> table.Run:
    cpus = tuple(sorted(os.sched_getaffinity(0))[-threads:])
    with closing(Kernels(flavour, models.bytes_per_token(path), cpus)) as ours:
        before = ours.predict()
        tokens = max(2, round(SECONDS * before.expected))
        measured = decode(flavour, path, cpus, tokens)
        after = ours.predict()
    return table.Run(number, flavour, weights, threads, before, measured, after)


def _saved() -> Iterator[table.Run]:
    if RESULTS.exists():
        for line in RESULTS.read_bytes().splitlines():
            yield msgspec.json.decode(line, type=table.Run)


if __name__ == "__main__":
    main()
