"""Why one row is slower than another: what differs, less what cannot be the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nodecheck.checks.seen import Seen
from nodecheck.judge.rates import ceilings
from nodecheck.judge.runs.compare import explained_by
from nodecheck.judge.runs.rows import Row, guesses
from nodecheck.judge.runs.words import guessing, named, rate, rates
from nodecheck.model import Struct
from nodecheck.units import listed

CLEARLY_FASTER = 1.15
"""Between two rates, from which the difference asks for a reason: the usual shares of the VRAM rate
lie as far apart."""

CROWDED = 1.5
"""Times as many sequences at a time from which two rows are no longer of the same traffic."""

_TRAFFIC = re.compile(r"\b(traffic|load|users?|requests|production|live|busy)\b", re.IGNORECASE)
_BUILD = re.compile(r"\b(build|version|commit|release|older|newer)\b", re.IGNORECASE)


class Difference(Struct, frozen=True):
    """What may make one row slower than another.

    `struck` says that it cannot be all of the reason. `since` is the row that shows it.
    """

    what: str
    struck: bool = False
    since: str | None = None


def attributions(seen: Seen, rows: Sequence[Row]) -> Iterable[str]:
    """A sentence for each row in VRAM that no resource explains and another one outruns."""
    told: set[tuple[object, ...]] = set()
    for slow in rows:
        if not _is_plain(slow) or explained_by(slow) or slow.setting in told:
            continue
        told.add(slow.setting)
        if fast := _outrunning(slow, rows):
            yield _sentence(slow, fast, differences(seen, slow, fast, rows))


def _is_plain(row: Row) -> bool:
    """A row that was all in VRAM and guessed nothing ahead."""
    return row.on_gpu and bool(row.rate) and not guesses(row.run)


def _outrunning(slow: Row, rows: Iterable[Row]) -> Row | None:
    """The fastest row that is clearly faster, on another machine where there is one."""
    faster = [r for r in rows if _is_plain(r) and r.rate >= CLEARLY_FASTER * slow.rate]
    alike = [r for r in faster if _as_crowded(r, slow)]
    others = [r for r in faster if not slow.machine.is_same(r.machine)]
    return max(
        alike or others,
        key=lambda r: (not slow.machine.is_same(r.machine), r.rate),
        default=None,
    )


def _as_crowded(row: Row, other: Row) -> bool:
    """Whether as many sequences were served at a time."""
    numbers = sorted((row.run.concurrency or 1, other.run.concurrency or 1))
    return numbers[1] <= CROWDED * numbers[0]


def differences(seen: Seen, slow: Row, fast: Row, rows: Sequence[Row]) -> tuple[Difference, ...]:
    """What the two rows differ in, by their own members and by what the other rows show."""
    found = (
        _bandwidth(slow, fast),
        _cpu(slow, fast, rows),
        _link(seen, slow, fast),
        _engine(slow, fast, rows),
        _model(slow, fast),
        _traffic(slow, fast),
        _build(slow, fast),
        _others(slow),
    )
    return tuple(difference for difference in found if difference)


def _bandwidth(slow: Row, fast: Row) -> Difference | None:
    """Struck where the rates of the VRAM lie less far apart than those of the rows."""
    words = f"VRAM bandwidth ({slow.machine.rate_words} against {fast.machine.rate_words} GB/s)"
    less, more = slow.machine.total_rate, fast.machine.total_rate
    if less is None or more is None:
        return Difference(words)
    if less == more:
        return None
    return Difference(words, struck=more.high / less.floor * _SLACK < fast.rate / slow.rate)


_SLACK = ceilings.VRAM_EFFICIENCY[1] / ceilings.VRAM_EFFICIENCY[0]
"""Two cards may reach the least and the most of their rates that is usual."""


def _witnesses(slow: Row, rows: Iterable[Row]) -> list[Row]:
    """Rows of the slow one's machine, on one card, that are clearly faster."""
    return [
        row
        for row in rows
        if _is_plain(row)
        and not row.machine.parallel
        and row.machine.is_same(slow.machine)
        and row.rate >= CLEARLY_FASTER * slow.rate
    ]


def _cpu(slow: Row, fast: Row, rows: Sequence[Row]) -> Difference | None:
    """Struck where another row of the same CPU is faster: it would hold that one too."""
    if slow.machine.is_same(fast.machine) or (slow.run.cpu and slow.run.cpu == fast.run.cpu):
        return None
    shown = _witnesses(slow, rows)
    if not shown:
        return Difference("the CPU type and its memory")
    guessed = [
        row
        for row in rows
        if guesses(row.run) and row.machine.is_same(slow.machine) and row.rate > slow.rate
    ]
    more = f", and {rates(guessed)} with {guessing(guessed)}" if guessed else ""
    other = {row.run.build for row in shown}
    build = " with another build" if other and slow.run.build not in (*other, None) else ""
    since = f"one {shown[0].machine.words} of the same machine reaches {rates(shown)}{build}{more}"
    return Difference("the CPU type", struck=True, since=since)


def _link(seen: Seen, slow: Row, fast: Row) -> Difference | None:
    if not slow.machine.parallel or (
        fast.machine.parallel and fast.machine.number >= slow.machine.number
    ):
        return None
    guest = slow.machine.here and seen.facts.virt.guest
    peers = "PCIe, peer copies in a VM" if guest else "PCIe or NVLink"
    return Difference(f"the link between the cards ({peers})")


def _engine(slow: Row, fast: Row, rows: Iterable[Row]) -> Difference | None:
    """Struck, and not worth telling, where the same engine is faster on the same machine."""
    names = (slow.run.tool, fast.run.tool)
    if len(set(names)) < 2 or "unknown" in names:
        return None
    if any(row.run.tool == slow.run.tool for row in _witnesses(slow, rows)):
        return None
    return Difference(f"the engine ({names[0]} against {names[1]})")


def _model(slow: Row, fast: Row) -> Difference | None:
    names = [(row.run.model or "").rpartition("/")[2].casefold() for row in (slow, fast)]
    if not all(names) or names[0] == names[1] or slow.run.tool != fast.run.tool:
        return None
    return Difference(f"the model's file ({slow.run.model} against {fast.run.model})")


def _traffic(slow: Row, fast: Row) -> Difference | None:
    said = [text for text in slow.run.remarks if _TRAFFIC.search(text)]
    if said:
        return Difference(f'the traffic ("{said[0]}")')
    mine, its = slow.run.concurrency or 1, fast.run.concurrency or 1
    if mine > CROWDED * its:
        return Difference(f"the traffic ({mine:.0f} sequences at a time against {its:.0f})")
    return None


def _build(slow: Row, fast: Row) -> Difference | None:
    builds = (slow.run.build, fast.run.build)
    said = [text for row in (slow, fast) for text in row.run.remarks if _BUILD.search(text)]
    if all(builds) and builds[0] != builds[1]:
        return Difference(f"the build ({builds[0]} against {builds[1]})")
    if said:
        return Difference(f'the build ("{said[0]}")')
    known = next(filter(None, builds), None)
    unlike = known and not all(builds)
    return Difference(f"the build ({known}; the other's is not told)") if unlike else None


def _others(slow: Row) -> Difference | None:
    """Remarks that are of none of these kinds."""
    rest = [
        text
        for text in slow.run.remarks
        if not (_TRAFFIC.search(text) or _BUILD.search(text) or text.startswith("host: "))
    ]
    return Difference(f'its circumstances ("{rest[0]}")') if rest else None


def _untold(slow: Row, fast: Row, found: Iterable[Difference]) -> list[str]:
    """What no row tells of, and what therefore is not ruled out."""
    left = " ".join(difference.what for difference in found)
    both = (slow.run.build, fast.run.build)
    untold = []
    if "the traffic" not in left:
        untold.append("the traffic")
    if "the build" not in left and not all(both):
        untold.append("the build")
    return untold


def _sentence(slow: Row, fast: Row, found: Sequence[Difference]) -> str:
    pair = f"{named(slow)} at {rate(slow)} tok/s against {named(fast)} at {rate(fast)}"
    bandwidth = next((d for d in found if d.what.startswith("VRAM") and not d.struck), None)
    if bandwidth and slow.machine.total_rate and fast.machine.total_rate:
        return f"{pair}: {bandwidth.what} explains it."
    struck = [d for d in found if d.struck]
    left = [d.what for d in found if not d.struck]
    untold = _untold(slow, fast, found)
    return " ".join(filter(None, (f"{pair}: {_struck(struck)}", _left(left, untold))))


def _struck(found: Sequence[Difference]) -> str:
    """What is ruled out, each with its figure or with the row that shows it."""
    since = next((f", since {d.since}" for d in found if d.since), "")
    if not found:
        return "nothing that was measured explains it."
    if len(found) == 1:
        return f"{found[0].what} does not explain it{since}."
    return f"neither {listed([d.what for d in found], last='nor')} explains it{since}."


def _left(left: Sequence[str], untold: Sequence[str]) -> str:
    """What may be the reason, and that it was not separated where it is more than one thing."""
    rows_do_not = f"the rows do not tell {listed(untold)}" if untold else ""
    if not left:
        return (
            f"What is left is not told: {rows_do_not}."
            if untold
            else "Nothing that differs is left."
        )
    said = f"What is left is {listed(left)}"
    if untold:
        return f"{said}; {rows_do_not}. These were not separated."
    return f"{said}. These were not separated." if len(left) > 1 else f"{said}."
