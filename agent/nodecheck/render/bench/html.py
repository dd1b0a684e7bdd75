"""A benchmark as a page that needs nothing else: no script, no address, no font of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodecheck.model import faults
from nodecheck.render import charts
from nodecheck.render.bench import gpu, placement
from nodecheck.render.bench.decode import (
    Decode,
    columns,
    decode,
    decode_sentence,
    limit,
)
from nodecheck.render.bench.figures import (
    CONVENTION,
    Series,
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
from nodecheck.render.page import page_maker, told_time
from nodecheck.render.report.terminal import title_parts
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import count, gib

FIGURES: dict[str, Callable[..., str]] = {
    "rate": rate,
    "between": between,
    "mark": mark,
    "mark_of": mark_of,
    "ns": nanoseconds,
}
"""What measured.html.j2 writes figures with."""


def page(thresholds: Thresholds = SHIPPED) -> Callable[[Report, tuple[str, ...]], str]:
    """Makes the page of a report, judged by `thresholds`, and of the parts that were asked for."""

    def content(report: Report, what: tuple[str, ...]) -> dict[str, Any]:
        return _content(report, what, thresholds)

    return page_maker("bench.html.j2", content, **FIGURES)


def _content(report: Report, what: tuple[str, ...], thresholds: Thresholds) -> dict[str, Any]:
    status, sentence = verdict(report, what, thresholds)
    return {
        "node": report.host.name,
        "title": [*title_parts(report), told_time(report.time)],
        "status": status.value,
        "sentence": sentence,
        "findings": faults(findings(report)),
        "warnings": warnings(report),
        "missing": missing(report, what),
        **measured(report, what),
    }


def measured(report: Report, what: tuple[str, ...]) -> dict[str, Any]:
    """What measured.html.j2 shows of the parts that were asked for."""
    return {
        **_memory(report),
        **_latency(report),
        **_placement(report, what),
        **_decode(report),
        **_gpu(report),
        "flags": [
            (mark_of((flag,)), flag, meaning)
            for flag, meaning in flag_words(
                (*report.measurements, *report.latencies, *report.transfers)
            )
        ],
    }


def _memory(report: Report) -> dict[str, Any]:
    rows, found = sweep(report), numa(report)
    series = curves(report)
    basis = (
        ("Fastest", kernel_words(report)),
        ("Buffers", buffer_words(report)),
        ("Placement", [moved(report)] if moved(report) else []),
    )
    pairs = {
        "found": found,
        "readers": sorted({cpus for cpus, _ in found}),
        "homes": sorted({home for _, home in found}),
        "sentence": numa_sentence(found),
    }
    return {
        "sweep": [(threads, row, named_flags(row)) for threads, row in rows.items()],
        "operations": operations(rows),
        "convention": CONVENTION,
        "sweep_chart": charts.over_threads(series, _described(series)) if len(rows) > 1 else "",
        "basis": [(name, texts) for name, texts in basis if texts],
        "numa": pairs if found else None,
    }


def _described(series: list[Series]) -> str:
    """A chart in words: the ends of each curve; all figures are in the table that follows."""
    ends = (
        f"{each.name} {rate(each.points[0][1])} on {count(each.points[0][0], 'thread')}, "
        f"{rate(each.points[-1][1])} on {each.points[-1][0]}"
        for each in series
    )
    return f"Bandwidth over threads, GB/s: {'; '.join(ends)}"


def _latency(report: Report) -> dict[str, Any]:
    return {
        "latencies": [
            (f"{latency_words(each)}, over {gib(each.spread_bytes)}", each)
            for each in report.latencies
        ]
    }


def _placement(report: Report, what: tuple[str, ...]) -> dict[str, Any]:
    bands = placement.placement(report, what)
    return {
        "bands": [
            (placement.band_times(band), band.pairs, placement.group_words(band, earlier))
            for earlier, band in zip((None, *bands), bands, strict=False)
        ],
        "square": placement.square(report, bands) if bands else None,
        "sampled": placement.sampled(report),
    }


def _decode(report: Report) -> dict[str, Any]:
    rows = decode(report)
    shown = columns(rows) if rows else []
    return {
        "decode": [(row, [column.figure(row) for column in shown], limit(row)) for row in rows],
        "decode_columns": [", ".join(column.heading) for column in shown],
        "decode_sentence": decode_sentence(rows),
        "decode_chart": _bars(rows) if rows else "",
    }


def _gpu(report: Report) -> dict[str, Any]:
    found = gpu.rows(report)
    slots = gpu.slots(found)
    pairs = gpu.peers(report)
    return {
        "cards": [
            (row, [(gpu.cell(row, names), gpu.flags_of(row, names)) for _, names in slots])
            for row in found
        ],
        "card_columns": [name for name, _ in slots],
        "gpu_convention": gpu.CONVENTION,
        "gpu_notes": list(filter(None, [*gpu.notes(report), gpu.replays(report)])),
        "beside": [row for row in found if row.beside],
        "beside_text": gpu.AT_ONCE,
        "beside_sentence": gpu.beside_sentence(found),
        "peers": pairs,
        "peers_text": gpu.PEERS,
        "peer_sentence": gpu.peer_sentence(report),
    }


def _bars(rows: list[Decode]) -> str:
    """The weight types side by side, on most threads, beside what memory delivers."""
    most = [row.most.median_bytes_per_second if row.most else None for row in rows]
    series = {
        "weights in cache": most,
        "weights from memory": [
            row.memory.median_bytes_per_second if row.memory else None for row in rows
        ],
        "memory, read alone": [
            used * row.allowed if used and row.allowed else None
            for used, row in zip(most, rows, strict=True)
        ],
    }
    known = {name: rates for name, rates in series.items() if any(rates)}
    described = f"Weights used up, GB/s, for each weight type. {decode_sentence(rows)}"
    return charts.beside([row.weights for row in rows], known, described)
