"""How often drift is called in simulated months: `python -m tests.bench.drift`.

By how often the memory is measured. Of what is steady each call is a false alarm.
"""

from __future__ import annotations

from random import Random

from tests.records import simulated

from nodecheck.records.drift import drift
from nodecheck.records.figures import Kind, Measure
from nodecheck.records.series import Series

SERIES = 1000
EVERY_HOURS = (1.0, 6.0, 24.0)
READ = Measure("dram_read@8", "B/s", Kind.RATE, more_is_better=True)


def called(name: str, kind: simulated.Kind, hours: float) -> float:
    """The share of simulated months in which drift is called."""
    chance, found = Random(f"{name}, every {hours} hours"), 0
    for _ in range(SERIES):
        points = simulated.points(kind(chance, round(720 / hours), hours), hours)
        times, values = zip(*points, strict=True)
        flagged = (False,) * len(times)
        found += (
            drift(Series(measure=READ, times=times, values=values, flagged=flagged)) is not None
        )
    return found / SERIES


def main() -> None:
    """Print a table."""
    groups = {
        "steady": simulated.STEADY,
        "drifting": simulated.DRIFTING,
        "limits": simulated.LIMITS,
    }
    for group, kinds in groups.items():
        print(f"| {group} | {' | '.join(f'every {hours:g} h' for hours in EVERY_HOURS)} |")
        print("|---" * (1 + len(EVERY_HOURS)) + "|")
        for name, kind in kinds.items():
            shares = (f"{100 * called(name, kind, hours):.1f} %" for hours in EVERY_HOURS)
            print(f"| {name} | {' | '.join(shares)} |", flush=True)
        print()


if __name__ == "__main__":
    main()
