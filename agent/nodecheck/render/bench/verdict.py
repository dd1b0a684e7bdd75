"""What a benchmark comes to: a status, one sentence, how far it can be trusted, what is missing."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.model import Finding, Latency, Load, Measurement, Severity, Status, Transfer
from nodecheck.render.bench import gpu
from nodecheck.render.bench.decode import decode, limit_sentence, unmeasured
from nodecheck.render.bench.figures import DISTURBED, nanoseconds, sweep
from nodecheck.render.bench.placement import Band, band_times, placement
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import count, gb_per_second, listed, percent

SHIPPED = Thresholds()

Figure = Measurement | Latency | Transfer

PARTS = {
    "dram": "memory bandwidth",
    "latency": "latency",
    "placement": "placement of the CPUs",
    "decode": "decode",
    gpu.PART: "copies of the GPUs",
}
"""What can be asked for, and its name in a sentence."""

FOLLOWING = ("cpu.placement_split", "cpu.decode_compute_bound")
"""Findings that a benchmark leads to, beside those of the memory."""

FLAGS = {
    "contended": "other work ran meanwhile; no finding rests on it",
    "busy": "other programs used the card meanwhile; no finding rests on it",
    "unsteady": "the rate drifted while it was measured",
    "bimodal": "two rates: the host moved the CPUs, or two placements took part",
    "undersized": "less than four times the caches was free, or touched in time; "
    "they may have helped",
}
"""Flag of a measurement -> what it means."""


def findings(report: Report) -> tuple[Finding, ...]:
    """Those that the measurements lead to, or that explain them."""
    ids = gpu.FOLLOWING if report.transfers or report.facts.cuda.state else ()
    if ids and not _has_memory(report):
        return tuple(f for f in report.findings if f.id in ids)
    ids = (*FOLLOWING, *ids)
    return tuple(f for f in report.findings if f.id.startswith("mem.") or f.id in ids)


def _has_memory(report: Report) -> bool:
    """Whether the node's memory was measured, or was to be."""
    dram = report.facts.dram
    measured = report.measurements or report.latencies or dram.round_trips
    return bool(measured or dram.skipped or dram.warnings)


def is_interrupted(report: Report) -> bool:
    """Whether the user ended it."""
    return bool(report.facts.dram.interrupted or report.facts.cuda.interrupted)


def warnings(report: Report) -> tuple[str, ...]:
    """What went on that figures suffer from."""
    return (*report.facts.dram.warnings, *report.facts.cuda.warnings)


def is_empty(report: Report) -> bool:
    """Whether nothing at all was measured."""
    trips = report.facts.dram.round_trips
    return not (report.measurements or report.latencies or trips or report.transfers)


def missing(report: Report, what: tuple[str, ...]) -> list[str]:
    """What was asked for and was not measured, and why where the verdict and warnings do not."""
    there = {
        "dram": bool(sweep(report)),
        "latency": bool(report.latencies),
        "placement": bool(report.facts.dram.round_trips),
        "decode": bool(decode(report)),
        gpu.PART: bool(report.transfers) or not has_cards(report),
    }
    without = [PARTS[part] for part in what if not there[part]]
    if there["decode"] and "decode" in what:
        without += [f"{weights} weights" for weights in unmeasured(report)]
    skipped = (report.facts.dram.skipped, report.facts.cuda.skipped if is_empty(report) else None)
    told = (*warnings(report), *filter(None, skipped))
    asked = {"dram" for part in what if part != gpu.PART}
    asked |= {"cuda"} if gpu.PART in what and has_cards(report) else set()
    gaps = dict.fromkeys(gap.detail for gap in report.gaps if gap.check in asked)
    reasons = [detail for detail in gaps if not any(text in detail for text in told)]
    if is_empty(report) and len(what) == 1 and not reasons:
        return []  # the verdict says that, and why
    return [*([listed(without)] if without else []), *reasons]


def has_cards(report: Report) -> bool:
    """Whether this process was given a card that could be measured."""
    return bool(gpu.granted(report))


def verdict(
    report: Report, what: tuple[str, ...], thresholds: Thresholds = SHIPPED
) -> tuple[Status, str]:
    """The status and one sentence; unknown where what it rests on was disturbed or is not there.

    `thresholds` are those that the report was judged by.
    """
    worst = max((f.severity for f in findings(report)), key=lambda s: s.rank, default=Severity.INFO)
    status = Status.UNKNOWN if _is_doubtful(report) else Status.OK
    status = status if worst is Severity.INFO else Status(worst.value)
    return status, " ".join(filter(None, (_said(report, what, thresholds), _doubt(report))))


def _said(report: Report, what: tuple[str, ...], thresholds: Thresholds) -> str:
    if is_empty(report):
        return f"Nothing was measured: {_why_nothing(report, what)}."
    read, row = _best_read(report), next(iter(decode(report)), None)
    cards = gpu.sentence(report, thresholds) if gpu.PART in what else ""
    parts = [_read_sentence(read), limit_sentence(row)]
    if not read and not row:
        parts += [_latency_sentence(report.latencies), _placement_sentence(placement(report, what))]
    parts = [cards, *parts] if cards and gpu.fault(report) else [*parts, cards]
    return " ".join(filter(None, parts))


def _why_nothing(report: Report, what: tuple[str, ...]) -> str:
    if tuple(what) == (gpu.PART,):
        cuda, fault = report.facts.cuda, gpu.fault(report)
        return cuda.skipped or (fault.summary if fault else cuda.message) or "no copy succeeded"
    return report.facts.dram.skipped or "the kernels did not run"


def _is_doubtful(report: Report) -> bool:
    read, row = _best_read(report), next(iter(decode(report)), None)
    rates = [read, row.most, row.memory] if row else [read]
    flags = [each.flags for each in rates if each] or [each.flags for each in report.latencies]
    flags += [each.flags for each in report.transfers]
    disturbed = any(not DISTURBED.isdisjoint(each) for each in flags)
    incomplete = bool(gpu.unmeasured(report))
    return is_empty(report) or is_interrupted(report) or disturbed or incomplete


def _best_read(report: Report) -> Measurement | None:
    reads = (row["read"] for row in sweep(report).values() if "read" in row)
    return max(reads, key=lambda each: each.median_bytes_per_second, default=None)


def _read_sentence(read: Measurement | None) -> str:
    """Beside other work a rate is a lower bound."""
    if read is None:
        return ""
    least = " or more" if "contended" in read.flags else ""
    rate_words = gb_per_second(read.median_bytes_per_second)
    return f"Memory is read at {rate_words}{least} on {count(read.threads, 'thread')}."


def _latency_sentence(latencies: tuple[Latency, ...]) -> str:
    idle = next((each for each in latencies if not each.other_threads), None)
    return f"A load from memory takes {nanoseconds(idle.median_seconds)} ns." if idle else ""


def _placement_sentence(found: list[Band]) -> str:
    if not found:
        return ""
    if len(found) == 1:
        return f"A cache line takes {band_times(found[0])} between any two CPUs and back."
    groups = len(found[-2].groups)
    return (
        f"The CPUs lie in {groups} groups: a cache line takes {band_times(found[0])} and back "
        f"where it is shortest and {band_times(found[-1])} where it is longest."
    )


def _doubt(report: Report) -> str:
    said = []
    figures: tuple[Figure, ...] = (*report.measurements, *report.latencies, *report.transfers)
    if any(not DISTURBED.isdisjoint(each.flags) for each in figures):
        said.append("Other work ran meanwhile: see the figures marked !.")
    if is_interrupted(report):
        said.append("It was interrupted: this is what was measured until then.")
    return " ".join(said)


def flag_words(figures: Iterable[Figure]) -> list[tuple[str, str]]:
    """The flags that are there, and what each means; for other work, what was seen of it."""
    figures = list(figures)
    words = []
    for flag, meaning in FLAGS.items():
        marked = [each for each in figures if flag in each.flags]
        if marked:
            loads = [each.load for each in marked if not isinstance(each, Transfer)]
            seen = load_words(loads) if flag == "contended" else ""
            words.append((flag, f"{meaning} ({seen})" if seen else meaning))
    return words


def load_words(loads: Iterable[Load | None]) -> str:
    """The worst of what else ran."""
    known = [load for load in loads if load]
    kinds = (
        ("other CPUs {} busy", [load.other_cpus_busy_share for load in known]),
        ("steal {}", [load.steal_share for load in known]),
        ("threads waited {} of their time", [load.run_delay_share for load in known]),
        ("tasks waited for a CPU {} of the time", [load.pressure_share for load in known]),
        ("a thread was off its CPU {} of a pass", [_off(load) for load in known]),
    )
    worst = [(text, max(filter(None, shares), default=0.0)) for text, shares in kinds]
    return ", ".join(text.format(percent(share)) for text, share in worst if share >= 0.015)


def _off(load: Load) -> float | None:
    share = load.thread_cpu_share_min
    return None if share is None else 1 - share
