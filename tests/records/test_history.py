"""What snapshots tell together, and what they cannot tell."""

from __future__ import annotations

import json
from random import Random

import jsonschema
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.model import Severity, pretty_json
from nodecheck.records.figures import Figure
from nodecheck.records.history.history import History, make_history
from nodecheck.records.series import DAY, HOUR, Listed, Window
from nodecheck.records.state import State, Told, Trait
from tests.nodes import root
from tests.records.windows import (
    FIRST,
    asked_at_once,
    assembled,
    counter,
    rate,
    room,
    three,
    window,
)

NODE = State(traits=(Trait("host", "name", "host name", None, "node7"),))
DRIVER = Trait("gpu", "driver_version", "GPU driver", None, "550")


def month(*flags: str) -> Window:
    """Of a node that loses bandwidth, fills up, counts errors and gets a driver on the way."""
    chance = Random(7)
    snapshots = []
    for hour in range(0, 720, 3):
        found: tuple[Figure, ...] = (
            rate("dram_read@8", chance.gauss(60e9 if hour < 360 else 45e9, 1e9), *flags),
            room("disk_available@/", 500e9 - hour / 24 * 8e9),
            counter("ecc_corrected@0000:01:00.0", hour // 200),
        )
        driver = replace(DRIVER, value="550" if hour < 500 else "560")
        snapshots.append((replace(NODE, traits=(*NODE.traits, driver)), found))
    return assembled(*snapshots, every=3 * HOUR)


def test_a_month_tells_its_changes_drifts_forecasts_and_counters() -> None:
    made = asked_at_once(month())
    assert (made.node, made.count) == ("node7", 240)
    assert (made.first, made.last) == (FIRST, FIRST + 239 * 3 * HOUR)
    assert [each.difference.name for each in made.changes] == ["GPU driver"]
    assert [(d.metric.name, d.worse) for d in made.drifts] == [("dram_read@8", True)]
    assert [each.metric.name for each in made.forecasts] == ["disk_available@/"]
    assert [(each.metric.name, each.by) for each in made.growths] == [
        ("ecc_corrected@0000:01:00.0", 3)
    ]
    assert made.untold == ()


def test_a_clock_that_is_behind_the_snapshots_puts_nothing_off() -> None:
    """Else a disk would seem to last as much longer."""
    whole = month()
    for behind in (40 * DAY, 400 * DAY):
        assert make_history(whole, whole.times[-1] - behind) == asked_at_once(whole)


def test_real_reports_make_a_history() -> None:
    full = three()
    disk = replace(full.facts.disk, filesystems=(root(2 * 2**30, 950 * 2**30),))
    made = asked_at_once(window(full, full, three(disk=disk)))
    assert made.node == "node7"
    assert [(c.snapshot, c.difference.name, c.difference.after) for c in made.changes] == [
        (3, "disk.low", "critical")
    ]
    assert (made.drifts, made.forecasts, made.growths) == ((), (), ())


def test_a_short_history_says_nothing_of_what_takes_time() -> None:
    made = asked_at_once(window(three(), three()))
    assert made.untold == ("drifts", "forecasts")


def test_what_is_told_of_is_not_untold() -> None:
    assert asked_at_once(month()).untold == ()
    assert asked_at_once(month("contended")).untold == ("drifts",)


def test_the_latest_are_listed_as_they_were_read() -> None:
    listed = (Listed(id=7, time=FIRST, status="ok", headline="Nothing was found."),)
    assert asked_at_once(month(), listed).latest == listed


def test_an_empty_history_is_one() -> None:
    made = asked_at_once(Window())
    assert (made.node, made.count, made.first, made.last) == (None, 0, None, None)
    assert made.notes == ()


def test_a_node_without_a_name_has_none() -> None:
    assert asked_at_once(assembled((State(), ()))).node is None


def test_its_json_is_valid_against_its_schema() -> None:
    for each in (month(), Window(), window(three(), three())):
        text = pretty_json(asked_at_once(each))
        assert text.endswith(b"}\n")
        jsonschema.Draft202012Validator(msgspec.json.schema(History)).validate(json.loads(text))


FIGURES = st.one_of(
    st.builds(rate, st.sampled_from("abc"), st.sampled_from([0.0, 1.0, 0.5, 1e12])),
    st.builds(rate, st.sampled_from("abc"), st.floats(0, 1e12), st.just("bimodal")),
    st.builds(room, st.sampled_from("de"), st.floats(0, 1e15)),
    st.builds(counter, st.sampled_from(["ecc", "xid_79@0"]), st.integers(0, 10)),
)
STATES = st.builds(
    State,
    traits=st.sampled_from([(), (DRIVER,), (replace(DRIVER, value="560"), *NODE.traits)]),
    findings=st.sampled_from([(), (Told("gpu", "gpu.slow", "0", Severity.WARNING),)]),
    unseen=st.sampled_from([(), ("gpu.*",), ("gpu.gpus", "kernel_log.source")]),
)
SNAPSHOTS = st.tuples(STATES, st.lists(FIGURES, unique_by=lambda f: f.metric.name).map(tuple))


@settings(max_examples=200, deadline=None)
@given(st.lists(SNAPSHOTS, max_size=60), st.sampled_from([1, HOUR, 24 * HOUR, 900 * HOUR]))
def test_whatever_was_stored_makes_a_history(
    snapshots: list[tuple[State, tuple[Figure, ...]]], every: int
) -> None:
    made = asked_at_once(assembled(*snapshots, every=every))
    assert made.count == len(snapshots)
    assert [each.time for each in made.changes] == sorted(
        (each.time for each in made.changes), reverse=True
    )
    assert all(each.before > 0 <= each.after for each in made.drifts)
    assert all(each.days[0] <= each.days[1] for each in made.forecasts)
    assert all(0 < each.per_day[0] <= each.per_day[1] for each in made.forecasts)
    assert all(each.by > 0 and each.newest >= FIRST for each in made.growths)
    assert json.loads(pretty_json(made))["count"] == made.count
