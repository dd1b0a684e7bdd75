"""A comparison at a terminal and as a page: the same, in the same order, at every width."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck import __version__
from nodecheck.checks.disk.facts import DiskFacts
from nodecheck.model import Gap, Reason
from nodecheck.records.compare.compare import compare
from nodecheck.records.compare.comparison import Comparison
from nodecheck.render.compare.html import page
from nodecheck.render.compare.terminal import render
from nodecheck.render.layout import Line, plain
from nodecheck.report import Report
from tests.records.sides import facts, judged, measuring, node, read
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
    uses_the_palette,
)


def compared(before: Report, after: Report) -> Comparison:
    return compare(("before.json", before), ("after.json", after))


def quick(name: str) -> Report:
    return judged(replace(facts(name), measurements=()))


def counting(errors: int) -> Report:
    seen = facts("fast")
    gpus = tuple(replace(g, ecc_volatile_correctable=errors) for g in seen.facts.gpus)
    return judged(replace(seen, facts=replace(seen.facts, gpus=gpus)))


MASKED = compared(node("masked"), node("fast"))
"""A guest whose CPU type was changed, on a faster host."""

SPREAD = compared(
    measuring(read(42, 41, 43), read(13, 12, 14, threads=1), read(30, 29, 31, threads=4)),
    measuring(
        read(21, 20, 22), read(13.5, 12, 14, threads=1), read(12, 9, 14, "contended", threads=4)
    ),
)
"""Slower memory: one figure beyond its spread, one within, one disturbed."""

ALIKE = compared(node("fast"), node("fast"))
ONE_SIDED = compared(node("masked"), quick("masked"))
COUNTED = compared(counting(3), counting(15))
TWO_MODELS = compared(
    node("masked"),
    replace(node("fast"), workload=None),
)
LOST = compared(node("fast"), node("masked"))


def paused(report: Report) -> Report:
    gpus = tuple(replace(g, persistence=False) for g in report.facts.gpus)
    return judged(replace(report, facts=replace(report.facts, gpus=gpus)))


PAUSED = compared(node("fast"), paused(facts("fast")))
"""A finding more, that asks for nothing."""

ALL = {
    "masked": MASKED,
    "spread": SPREAD,
    "alike": ALIKE,
    "one-sided": ONE_SIDED,
    "counted": COUNTED,
    "two models": TWO_MODELS,
}
EVERY = pytest.mark.parametrize("name", ALL)


def text(made: Comparison, width: int = 100) -> str:
    return plain(render(made, width))


def row(made: Comparison, start: str, width: int = 120) -> str:
    """The line that begins so, with single blanks."""
    lines = (" ".join(line.split()) for line in text(made, width).splitlines())
    [found] = [line for line in lines if line.startswith(start)]
    return found


# --- at a terminal ---


def test_before_and_after_of_another_cpu_type() -> None:
    lines = text(MASKED).splitlines()
    assert lines[1].startswith(" A  before.json   2026-11-28 10:00Z   CRITICAL   KVM guest (Q35)")
    headings = [line for line in lines if re.match("[A-Z]{4}", line) and "   " not in line[:8]]
    assert [h.split()[0] for h in headings] == [
        "CHANGED", "FINDINGS", "MEASURED", "STRATEGIES", "UNCHANGED",
    ]  # fmt: skip
    assert "CPU type changed: AVX2, FMA, F16C and 6 more gained" in text(MASKED)
    assert row(MASKED, "CPU flags gained").startswith("CPU flags gained avx2 fma f16c bmi2 avx")
    assert row(MASKED, "cleared x").startswith("cleared x cpu.hypervisor_masked VM CPU type kvm64")
    assert row(MASKED, "memory read, 8") == (
        "memory read, 8 threads 11.7 GB/s 42 GB/s 3.59x no spread known"
    )
    assert row(MASKED, "cpu-only not") == (
        "cpu-only not viable not viable A: CPU instruction set (SSE2), then DRAM"
    )
    assert "strategies: gpu-resident (34-42 tok/s, viable)" in " ".join(text(MASKED).split())


def test_what_a_measurement_proves_is_said() -> None:
    assert row(SPREAD, "memory read, 8").endswith(
        "42 (41-43) GB/s 21 (20-22) GB/s 0.50x beyond the spread, worse"
    )
    assert row(SPREAD, "memory read, 1").endswith("1.04x within noise")
    assert row(SPREAD, "memory read, 4").endswith("0.40x not comparable: contended in B")


def test_a_benchmarks_long_list_is_told_where_it_differs() -> None:
    before = [read(10 + n, 9 + n, 11 + n, threads=n) for n in range(1, 33)]
    made = compared(measuring(*before), measuring(*before[:-1], read(4, 3, 5, threads=32)))
    said = " ".join(text(made).split())
    assert said.count("memory read,") == 1
    assert "measured: 31 figures within noise" in said


def test_two_reports_that_are_alike_are_two_lines() -> None:
    title, sentence = text(ALIKE).splitlines()
    when = "2026-11-29 10:00Z"
    assert title == f"nodecheck {__version__}   A before.json, {when}   B after.json, {when}"
    assert sentence == "No difference beyond noise."


def test_what_one_side_could_not_see_is_told_and_nothing_concluded() -> None:
    said = text(ONE_SIDED)
    assert "cleared" not in said
    assert row(ONE_SIDED, "unseen ! mem.bandwidth_low").startswith(
        "unseen ! mem.bandwidth_low in A; B could not look: Memory is read at 11.7 GB/s"
    )
    assert row(ONE_SIDED, "memory read, 8").endswith("11.7 GB/s - - in A alone")


def test_a_way_that_one_side_could_not_judge_is_said_to_be_so() -> None:
    seen = node("fast")
    dead = Gap(check="disk", field="*", reason=Reason.FAILED, detail="the probe died")
    blind = judged(replace(seen, facts=replace(seen.facts, disk=DiskFacts()), gaps=(dead,)))
    made = compared(measuring(read(42, 41, 43)), replace(blind, measurements=(read(21, 20, 22),)))
    assert row(made, "model-load").startswith("model-load unknown not judged A: not known")
    assert "not judged" in page()(made)
    assert "model-load" not in text(made).partition("UNCHANGED")[2]


def test_what_a_disturbed_measurement_moved_is_told_as_no_difference() -> None:
    made = compared(measuring(read(42, 41, 43)), measuring(read(20, 15, 40, "contended")))
    said = "No difference beyond noise. Memory was disturbed in B: what rests on it is not"
    assert said in " ".join(text(made).split())
    shown = paged(made)
    assert said in shown.said
    assert "limited by" not in shown.said
    assert shown.all("svg") == []


def test_room_is_unchanged_where_it_is_so_on_every_disk() -> None:
    seen = facts("fast")
    [disk] = seen.facts.disk.filesystems
    two = [
        judged(replace(seen, facts=replace(seen.facts, disk=replace(
            seen.facts.disk, filesystems=(disk, replace(disk, mount="/data", available_bytes=free))
        ))))
        for free in (90 << 30, 9 << 30)
    ]  # fmt: skip
    said = " ".join(text(compared(*two)).split())
    assert "disk free, /data 90 GiB 9 GiB" in said
    assert "disk free" not in said.partition("UNCHANGED")[2]
    assert "inodes free" in said.partition("UNCHANGED")[2]


def test_a_counter_tells_what_was_added() -> None:
    said = " ".join(text(COUNTED).split())
    assert "COUNTERS A B B / A ECC errors corrected, 3 15 +12" in said
    assert "worse" not in said


def test_strategies_for_two_models_are_left_out_and_it_says_so() -> None:
    said = " ".join(text(TWO_MODELS).split())
    assert "! judged for two models" in said
    assert "STRATEGIES" not in said
    assert "tok/s" not in said


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@EVERY
def test_no_line_is_longer_than_the_terminal(name: str, width: int) -> None:
    most = max(60, min(width, 140))
    assert [line for line in text(ALL[name], width).splitlines() if len(line) > most] == []


@EVERY
def test_it_is_ascii(name: str) -> None:
    assert text(ALL[name]).isascii()


def styles(lines: list[Line]) -> dict[str, str]:
    return {span.text.strip(): span.style for line in lines for span in line if span.style}


def test_colours_say_what_words_say() -> None:
    shown = styles(render(SPREAD, 120))
    assert shown["beyond the spread, worse"] == "red"
    assert styles(render(MASKED, 120))["cleared"] == "green"
    appeared = [s.style for line in render(LOST, 120) for s in line if s.text.strip() == "appeared"]
    assert appeared == ["bold red", "bold yellow"]
    assert "appeared" not in styles(render(PAUSED, 120))
    assert styles(render(MASKED, 120))["not viable"] == "red"


# --- as a page ---

MAKE = page()


def paged(made: Comparison) -> Page:
    return Page(MAKE(made))


@EVERY
def test_a_page_is_whole_and_told_to_readers(name: str) -> None:
    page = paged(ALL[name])
    needs_nothing_from_elsewhere(page)
    is_told_to_readers(page, "nodecheck compare: before.json and after.json")
    uses_the_palette(page)
    for drawing in page.all("svg"):
        assert re.search(
            r"cpu-only in A: [\d.]+-[\d.]+ \(not viable\)", drawing["aria-label"] or ""
        )


def test_the_page_says_what_the_terminal_says_in_its_order() -> None:
    said = paged(MASKED).said
    places = [
        said.index(words)
        for words in (
            MASKED.headline,
            "before.json · 2026-11-28 10:00Z · CRITICAL",
            "x86-64 level",
            "avx2 fma f16c bmi2 avx ssse3",
            "VM CPU type kvm64",
            "1.74x",
            "no spread known",
            "ngl 64: 25-34",
            "A: CPU instruction set (SSE2), then DRAM",
            "strategies: gpu-resident (34-42 tok/s, viable)",
        )
    ]
    assert places == sorted(places)


def classes(page: Page, text: str) -> list[str | None]:
    cells = zip(page.all("td"), page.texts["td"], strict=True)
    return [cell.get("class") for cell, said in cells if said == text]


def test_on_the_page_colours_say_how_grave_it_is() -> None:
    assert classes(paged(SPREAD), "beyond the spread, worse") == ["words critical"]
    assert classes(paged(LOST), "appeared") == ["words critical", "words warning"]
    assert classes(paged(PAUSED), "appeared") == ["words"]
    assert classes(paged(MASKED), "cleared") == ["words ok", "words ok"]


def test_a_caption_tells_of_a_spread_where_there_may_be_one() -> None:
    measured, counted = paged(SPREAD), paged(COUNTED)
    assert "in brackets p10-p90" in measured.said
    assert "what it proves" in measured.said
    assert "Counters side by side" in counted.said
    assert "in brackets" not in counted.said.partition("Counters side by side")[2]
    assert "what it proves" not in counted.said.partition("Counters side by side")[2]


def test_before_and_after_are_bars_of_one_scale() -> None:
    [drawing] = paged(MASKED).all("svg")
    described = drawing["aria-label"] or ""
    assert "partial-offload in A" in described
    assert "partial-offload in B" in described
    assert paged(ALIKE).all("svg") == []


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1))
def test_names_cannot_leave_their_place(name: str) -> None:
    nasty = f"<script>{name}"
    made = replace(
        MASKED,
        before=replace(MASKED.before, label=nasty, cpu=nasty, node=(nasty,)),
        traits=tuple(replace(t, before=nasty if t.before else None) for t in MASKED.traits),
        findings=tuple(replace(f, summary=nasty) for f in MASKED.findings),
        notes=(nasty,),
    )
    holds_nothing_hostile(paged(made))
    assert not set(text(made)) & {"\x00", "\x1b", "\x08", "\r"}
