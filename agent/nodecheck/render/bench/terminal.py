"""A benchmark at a terminal: the answer, the figures, what they rest on, what was not measured."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from nodecheck.model import Finding, Measurement, Severity, faults
from nodecheck.render.bench import gpu_terminal, picture, placement
from nodecheck.render.bench.blocks import FLAGGED, foot, heading, matrix
from nodecheck.render.bench.decode import columns, decode, decode_sentence, limit
from nodecheck.render.bench.figures import (
    CONVENTION,
    between,
    buffer_words,
    curves,
    kernel_words,
    latency_words,
    mark,
    mark_of,
    moved,
    named_flags,
    nanoseconds,
    numa,
    numa_sentence,
    operations,
    rate,
    sweep,
)
from nodecheck.render.bench.verdict import SHIPPED, findings, flag_words, missing, verdict, warnings
from nodecheck.render.layout import Line, Span, hanging, joined, printable
from nodecheck.render.report.terminal import INDENT, fault, note, title
from nodecheck.render.styles import STATUS_STYLES, WIDTH_WIDE, fitting
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import count, gib

FLAG_COLUMN = 16
"""The least room that flags in words need beside the figures."""

WIDTH_ROOMY = 80
"""From here on weight types have a column for one thread too."""

CURVE_POINTS = 3
"""Fewer numbers of threads are shown as bars."""


def render(
    report: Report,
    what: tuple[str, ...],
    width: int,
    *,
    unicode: bool,
    thresholds: Thresholds = SHIPPED,
) -> list[Line]:
    """The lines, none longer than `width` save commands; `what` are the parts asked for.

    `unicode` says whether the terminal takes more than ASCII. `thresholds` are those that the
    report was judged by.
    """
    width = fitting(width)
    status, sentence = verdict(report, what, thresholds)
    label = Span(status.value.upper(), STATUS_STYLES[status])
    lines = [*title(report, width), (), *hanging(label, Span(sentence, "bold"), INDENT, width)]
    lines += _memory(report, width)
    lines += _picture(report, width, unicode=unicode)
    lines += _numa(report, width)
    lines += _latency(report, width)
    lines += _placement(report, what, width)
    lines += _decode(report, width)
    lines += gpu_terminal.section(report, width)
    lines += _flags(report, width)
    return lines + _findings(report, width) + _rest(report, what, width)


def _memory(report: Report, width: int) -> list[Line]:
    rows = sweep(report)
    if not rows:
        return []
    shown = operations(rows)
    table = _Table([8] + [18 if width >= WIDTH_WIDE else 11] * len(shown), width)
    lines = [*heading("MEMORY", CONVENTION, width), table.head("threads", *shown)]
    for threads, row in rows.items():
        lines += table.rows(str(threads), [row.get(op) for op in shown], named_flags(row))
    lines += foot("fastest", kernel_words(report), width)
    lines += foot("buffers", buffer_words(report), width)
    return lines + foot("placement", [moved(report)], width)


class _Table:
    """Figures in columns, aligned right, their spread beside or below them, and words at last."""

    def __init__(self, widths: Sequence[int], width: int) -> None:
        self.widths = widths
        self.room = width - sum(widths) - 3
        self.wide = width >= WIDTH_WIDE

    def head(self, *names: str) -> Line:
        """The columns' names."""
        cells = (f"{name:>{room}}" for name, room in zip(names, self.widths, strict=True))
        return tuple(Span(cell if not n else cell[1:] + " ", "dim") for n, cell in enumerate(cells))

    def rows(self, label: str, figures: Sequence[Measurement | None], words: str) -> list[Line]:
        """A line of medians, and one of their spreads where there is no room beside them."""
        told = textwrap.wrap(words, self.room) if self.room >= FLAG_COLUMN else []
        lines: list[Line] = [self._medians(label, figures, told[0] if told else "")]
        if not self.wide and any(f and f.p10_bytes_per_second is not None for f in figures):
            lines.append(self._spreads(figures, told[1] if len(told) > 1 else ""))
        pad = Span(" " * (sum(self.widths) + 2))
        return [*lines, *((pad, Span(text, FLAGGED)) for text in told[len(lines) :])]

    def _medians(self, label: str, figures: Sequence[Measurement | None], words: str) -> Line:
        cells = [Span(f"{label:>{self.widths[0]}}")]
        for figure, room in zip(figures, self.widths[1:], strict=True):
            style = FLAGGED if figure and figure.flags else ""
            spread = self._spread(figure) if self.wide else ""
            median = rate(figure.median_bytes_per_second) if figure else "-"
            cells.append(Span(f"{median:>{room - 1 - len(spread)}}", style))
            cells.append(Span(spread, "dim"))
            cells.append(Span(mark(figure), style))
        return (*cells, Span(f"  {words}", FLAGGED))

    def _spread(self, figure: Measurement | None) -> str:
        low, high = _ends(figure)
        return f" ({between(low, high)})" if low is not None and high is not None else ""

    def _spreads(self, figures: Sequence[Measurement | None], words: str) -> Line:
        cells = [Span(" " * self.widths[0])]
        for figure, room in zip(figures, self.widths[1:], strict=True):
            cells.append(Span(f"{between(*_ends(figure)):>{room - 1}} ", "dim"))
        return (*cells, Span(f"  {words}", FLAGGED))


def _ends(figure: Measurement | None) -> tuple[float | None, float | None]:
    return (figure.p10_bytes_per_second, figure.p90_bytes_per_second) if figure else (None, None)


def _picture(report: Report, width: int, *, unicode: bool) -> list[Line]:
    series = curves(report)
    if sum(len(each.points) for each in series) < 2:
        return []
    draw = picture.curves if len(sweep(report)) >= CURVE_POINTS else picture.bars
    return [(), *draw(series, width, unicode=unicode)]


def _numa(report: Report, width: int) -> list[Line]:
    found = numa(report)
    if not found:
        return []
    homes = sorted({memory for _, memory in found})
    readers = sorted({cpus for cpus, _ in found})
    text = "GB/s read by the CPUs of a node (row) from the memory of a node (column)"
    lines = heading("NUMA", text, width)
    cells = {key: rate(each.median_bytes_per_second) + mark(each) for key, each in found.items()}
    lines += matrix("node", readers, homes, cells, width) or [
        line
        for cpus in readers
        for line in joined(
            f" node {cpus}",
            tuple(f"{home}: {cells[cpus, home]}" for home in homes if (cpus, home) in cells),
            INDENT,
            width,
        )
    ]
    return lines + hanging(Span(""), Span(numa_sentence(found)), INDENT, width)


def _latency(report: Report, width: int) -> list[Line]:
    if not report.latencies:
        return []
    text = "one load that waits for the one before, at random over so much memory"
    lines = heading("LATENCY", text, width)
    names = [latency_words(each) for each in report.latencies]
    room = max(map(len, names))
    for name, each in zip(names, report.latencies, strict=True):
        spread = f"{nanoseconds(each.p10_seconds)}-{nanoseconds(each.p90_seconds)}"
        style = FLAGGED if each.flags else ""
        over = f"over {gib(each.spread_bytes)}  " if width >= WIDTH_ROOMY else ""
        lines.append((
            Span(f" {name:<{room}}  "),
            Span(f"{nanoseconds(each.median_seconds):>5} ns {mark(each)}", style),
            Span(f" {spread}  {over}", "dim"),
            Span("; ".join(each.flags) if width >= WIDTH_WIDE else "", FLAGGED),
        ))  # fmt: skip
    return lines


def _placement(report: Report, what: tuple[str, ...], width: int) -> list[Line]:
    bands = placement.placement(report, what)
    if not bands:
        return []
    lines = heading("PLACEMENT", "a cache line from one CPU to another and back", width)
    square = placement.square(report, bands)
    if square:
        cells = {pair: text for pair, (text, _) in square.cells.items()}
        lines += matrix("CPU", square.cpus[1:], square.cpus[:-1], cells, width)
    times = [placement.band_times(band) for band in bands]
    for number, (band, time) in enumerate(zip(bands, times, strict=True)):
        words = placement.group_words(band, bands[number - 1] if number else None)
        label = f" {time:<{max(map(len, times))}}  {count(band.pairs, 'pair'):<10}  "
        lines += hanging(Span(label), Span(words), len(label), width)
    text = placement.sampled(report)
    return lines + (hanging(Span(""), Span(text, "dim"), INDENT, width) if text else [])


def _decode(report: Report, width: int) -> list[Line]:
    rows = decode(report)
    if not rows:
        return []
    roomy = width >= WIDTH_ROOMY
    shown = columns(rows) if roomy else columns(rows)[-2:]
    kernels = {row.kernel: _cut(row.kernel if roomy else row.kernel.split()[0], 20) for row in rows}
    room = max(map(len, kernels.values()), default=0) + 2
    across = max(len(part) for column in shown for part in column.heading) + 1
    lines = heading("DECODE", "GB/s of weights used up, multiplied with one vector", width)
    for names, line in ((("weights", "kernel", "limited by"), 0), (("", "", ""), 1)):
        head = "".join(f"{column.heading[line]:>{across}} " for column in shown)
        lines.append((Span(f" {names[0]:<10}{names[1]:<{room}}{head} {names[2]}", "dim"),))
    for row in rows:
        cells = [Span(f" {_cut(row.weights, 9):<10}{kernels[row.kernel]:<{room}}")]
        cells += [_cell(column.figure(row), across) for column in shown]
        lines.append((*cells, Span(f" {limit(row)}")))
    said = decode_sentence(rows)
    return lines + (hanging(Span(""), Span(said), INDENT, width) if said else [])


def _cell(figure: Measurement | None, room: int) -> Span:
    text = rate(figure.median_bytes_per_second) if figure else "-"
    return Span(f"{text:>{room}}{mark(figure)}", FLAGGED if figure and figure.flags else "")


def _cut(name: str, room: int) -> str:
    return printable(name)[:room]


def _flags(report: Report, width: int) -> list[Line]:
    told = flag_words((*report.measurements, *report.latencies, *report.transfers))
    lines: list[Line] = [()] if told else []
    for flag, meaning in told:
        label = Span(f" {mark_of((flag,))} {flag}  ", FLAGGED)
        lines += hanging(label, Span(meaning), 15, width)
    return lines


def _findings(report: Report, width: int) -> list[Line]:
    found = findings(report)
    lines: list[Line] = []
    for finding in faults(found):
        lines += [(), *fault(finding, width)]
    return lines + _noted([f for f in found if f.severity is Severity.INFO], width)


def _noted(noted: list[Finding], width: int) -> list[Line]:
    text = "; ".join(note(finding) for finding in noted)
    return [(), *hanging(Span("NOTED", "bold"), Span(text), INDENT, width)] if noted else []


def _rest(report: Report, what: tuple[str, ...], width: int) -> list[Line]:
    lines: list[Line] = []
    for label, texts in (
        ("WARNING", warnings(report)),
        ("NOT MEASURED", tuple(missing(report, what))),
    ):
        for number, text in enumerate(texts):
            head = Span("" if number else label, "bold")
            lines += hanging(head, Span(text), len("NOT MEASURED") + 2, width)
    return [(), *lines] if lines else []
