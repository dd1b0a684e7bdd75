"""Snapshots as CSV: what a spreadsheet or a script reads back is what was stored."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodecheck.records.figures import Figure, Kind, Metric
from nodecheck.records.series import Window, pack
from nodecheck.render.history.table import FIRST, lines
from tests.render.histories import DISK, LAST, LATENCY, READ


def window(*snapshots: tuple[Figure, ...]) -> Window:
    """A minute apart, numbered from 1."""
    layouts: dict[tuple[Metric, ...], int] = {}
    packed = []
    for found in snapshots:
        layout, values = pack(found)
        packed.append((layouts.setdefault(layout, 10 + len(layouts)), values))
    return Window(
        ids=tuple(range(1, 1 + len(snapshots))),
        times=tuple(LAST + 60 * n for n in range(len(snapshots))),
        statuses=("ok",) * len(snapshots),
        states=(1,) * len(snapshots),
        layouts=tuple(layout for layout, _ in packed),
        packed=tuple(values for _, values in packed),
        layout_by_id={number: layout for layout, number in layouts.items()},
    )


def read(*pieces: Window) -> list[dict[str, str]]:
    text = b"".join(lines(pieces)).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_row_a_snapshot_and_a_column_a_figure() -> None:
    rows = read(
        window(
            (Figure(metric=READ, value=24.1e9), Figure(metric=DISK, value=61203283968)),
            (Figure(metric=LATENCY, value=9.82e-8, flags=("contended",)),),
        )
    )
    assert rows == [
        {"time": "2026-11-29T13:28:00Z", "id": "1", "status": "ok", "flagged": "",
         "dram_read@8 (B/s)": "24100000000", "disk_available@/srv/models (B)": "61203283968",
         "dram_latency@0 (s)": ""},
        {"time": "2026-11-29T13:29:00Z", "id": "2", "status": "ok", "flagged": "dram_latency@0",
         "dram_read@8 (B/s)": "", "disk_available@/srv/models (B)": "",
         "dram_latency@0 (s)": "9.82e-08"},
    ]  # fmt: skip


def test_it_is_csv_as_rfc_4180_has_it() -> None:
    made = b"".join(lines([window((Figure(metric=READ, value=1.0),))]))
    assert made.startswith(b"time,id,status,flagged,dram_read@8 (B/s)\r\n")
    assert made.endswith(b",1\r\n")


def test_pieces_share_one_heading() -> None:
    piece = window((Figure(metric=READ, value=1.0),))
    made = b"".join(lines([piece, piece]))
    assert made.count(b"time,id") == 1
    assert len(made.splitlines()) == 3


def test_no_figures_at_all_are_rows_all_the_same() -> None:
    assert [row["status"] for row in read(window((), ()), window(()))] == ["ok"] * 3


@given(
    st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5, unique=True),
    st.floats(allow_nan=False, allow_infinity=False),
)
@example(names=["/a\x01", "/a\x02", f"/{'x' * 300}1", f"/{'x' * 300}2"], value=1.0)
def test_a_mount_of_any_name_is_a_column_of_its_own_and_no_formula(
    names: list[str], value: float
) -> None:
    found = tuple(
        Figure(metric=Metric(f"disk_available@{name}", "B", Kind.ROOM), value=value)
        for name in names
    )
    made = b"".join(lines([window(found)]))
    heading, row = csv.reader(io.StringIO(made.decode(), newline=""))
    assert len(heading) == len(row) == len(FIRST) + len(names)
    assert all(name.startswith("disk_available@") for name in heading[len(FIRST) :])
    assert [float(cell) for cell in row[len(FIRST) :]] == [value] * len(names)
    assert not set(made) & set(b"\x00\x1b\x08")


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_a_measurement_of_any_name_is_no_formula_either(start: str) -> None:
    """Reports of others may call theirs as they like."""
    metric = Metric(f"{start}cmd\n\x1b", "B/s", Kind.RATE)
    made = b"".join(lines([window((Figure(metric=metric, value=1.0, flags=("contended",)),))]))
    heading, row = csv.reader(io.StringIO(made.decode(), newline=""))
    assert heading[-1] == f"'{start}cmd?? (B/s)"
    assert row[FIRST.index("flagged")] == f"'{start}cmd??"
