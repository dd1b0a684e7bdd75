"""Snapshots as CSV (RFC 4180): a row each, a column a figure."""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Iterable, Iterator, Sequence

from nodecheck.records.figures import Metric
from nodecheck.records.series import Window
from nodecheck.render.layout import printable
from nodecheck.render.metrics import timestamp

FIRST = ("time", "id", "status", "flagged")
"""Columns before the figures. `flagged` names the figures of the row that prove nothing."""


FORMULA_STARTS = "=+-@"
"""Of a cell that a spreadsheet takes for a formula."""


def lines(pieces: Iterable[Window]) -> Iterator[bytes]:
    """The heading and a line a snapshot; each of the pieces knows the layouts of all.

    Numbers are in the unit that the heading names.
    """
    column: dict[tuple[str, str], int] | None = None
    for piece in pieces:
        if column is None:
            metrics = (each for layout in piece.layout_by_id.values() for each in layout)
            named = {(each.name, each.unit): _heading(each) for each in metrics}
            column = {name: number for number, name in enumerate(named)}
            yield _line([*FIRST, *named.values()])
        yield from _rows(piece, column)


def _rows(piece: Window, column: dict[tuple[str, str], int]) -> Iterator[bytes]:
    places = {
        number: [column[metric.name, metric.unit] for metric in layout]
        for number, layout in piece.layout_by_id.items()
    }
    for row, number in enumerate(piece.layouts):
        layout, packed = piece.layout_by_id[number], piece.packed[row]
        cells = [""] * len(column)
        values = struct.unpack_from(f"<{len(layout)}d", packed)
        for place, value in zip(places[number], values, strict=True):
            cells[place] = repr(value).removesuffix(".0")
        flags = int.from_bytes(packed[8 * len(layout) :], "little")
        flagged = (_name(metric) for place, metric in enumerate(layout) if flags >> place & 1)
        first = (timestamp(piece.times[row]), str(piece.ids[row]), piece.statuses[row])
        yield _line([*first, " ".join(flagged), *cells])


def _heading(metric: Metric) -> str:
    return f"{_name(metric)} ({metric.unit})" if metric.unit else _name(metric)


def _name(metric: Metric) -> str:
    """The name, which no spreadsheet runs: what a report calls its measurements may be anything."""
    name = printable(metric.name)
    return f"'{name}" if name[0] in FORMULA_STARTS else name


def _line(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode(errors="replace")
