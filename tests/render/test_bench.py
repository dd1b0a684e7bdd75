"""What an operator reads: the answer first, every doubtful figure marked, no line too long."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.model import Gap, Measurement, Reason, Status
from nodecheck.render.bench.figures import kernel_words, moved, rate
from nodecheck.render.bench.terminal import render
from nodecheck.render.bench.verdict import missing, verdict
from nodecheck.render.layout import Line, plain
from nodecheck.report import Report
from tests.render import benches
from tests.render.benches import (
    ALL,
    CONTENDED,
    GUEST,
    INTERRUPTED,
    KVM64,
    NODE,
    NOTHING,
    REPORTS,
    streams,
)

EVERY = pytest.mark.parametrize("name", sorted(REPORTS))


def text(report: Report, width: int = 100, what: tuple[str, ...] = ALL) -> str:
    return plain(render(report, what, width, unicode=True))


def line(report: Report, start: str, width: int = 100) -> str:
    """The first line that begins so, less the blanks within it."""
    found = (" ".join(each.split()) for each in text(report, width).splitlines())
    return next(each for each in found if each.startswith(start))


def with_kernel(report: Report, kernel: str) -> Report:
    return replace(
        report, measurements=tuple(replace(m, kernel=kernel) for m in report.measurements)
    )


# --- the shape ---


@EVERY
@settings(max_examples=30, deadline=None)
@given(width=st.integers(60, 140), unicode=st.booleans())
def test_no_line_is_longer_than_the_terminal(name: str, width: int, unicode: bool) -> None:
    lines = plain(render(REPORTS[name], ALL, width, unicode=unicode)).splitlines()
    assert max(map(len, lines)) <= width


@EVERY
def test_without_unicode_all_is_ascii(name: str) -> None:
    assert plain(render(REPORTS[name], ALL, 100, unicode=False)).isascii()


@EVERY
def test_the_answer_comes_before_the_tables(name: str) -> None:
    lines = text(REPORTS[name]).splitlines()
    assert lines[0].startswith("nodecheck 0.1.0   node7")
    assert lines[2].split()[0] in ("OK", "WARNING", "CRITICAL", "UNKNOWN")


@given(st.text(min_size=1))
def test_names_of_kernels_do_not_steer_the_terminal(kernel: str) -> None:
    nasty = with_kernel(KVM64, kernel)
    characters = plain(render(nasty, ALL, 100, unicode=True)).replace("\n", "")
    assert not [each for each in characters if unicodedata.category(each) == "Cc"]


def test_parts_that_were_not_asked_for_are_not_missed() -> None:
    only = replace(GUEST, measurements=(), facts=replace(GUEST.facts, dram=benches.facts()))
    shown = text(only, what=("latency",))
    assert "LATENCY" in shown
    for other in ("MEMORY", "PLACEMENT", "DECODE", "NOT MEASURED"):
        assert other not in shown
    assert "A load from memory takes 112 ns." in shown


# --- what it says ---


def test_cores_that_are_slower_than_memory_are_named_as_the_limit() -> None:
    status, said = verdict(KVM64, ALL)
    assert status is Status.CRITICAL
    assert said == (
        "Memory is read at 161 GB/s on 8 threads. q4_k weights are used up at 7.2 GB/s on 8 "
        "threads from memory, 7.8 GB/s on 8 threads from the caches: the cores, not memory, limit "
        "decode on the CPU (memory would allow 21x more)."
    )
    assert line(KVM64, "q4_k").endswith("cores, 21x")
    assert line(KVM64, "f16").endswith("memory")


def test_memory_that_is_slower_than_cores_is_named_as_the_limit() -> None:
    status, said = verdict(NODE, ALL)
    assert status is Status.OK
    assert said.endswith("memory is what limits decode on the CPU.")


def test_rates_that_are_alike_accuse_neither() -> None:
    even = replace(
        GUEST,
        measurements=(*streams(2, 18.0), *benches.products(2, {"q4_k": 9.0}, "avx2")),
    )
    assert "cores and memory limit decode on the CPU alike" in verdict(even, ALL)[1]
    assert line(even, "q4_k").endswith("both")


def test_no_limit_is_told_from_a_contended_figure() -> None:
    status, said = verdict(CONTENDED, ALL)
    assert status is Status.UNKNOWN
    assert "15.9 GB/s or more on 2 threads" in said
    assert "limit" not in said
    assert line(CONTENDED, "q4_k").endswith("-")


def test_a_contended_figure_is_marked_and_what_ran_is_told() -> None:
    row = line(CONTENDED, "2 15.9", 120)
    assert row.count("!") == 4
    assert row.endswith("contended; unsteady")
    assert "!" not in line(CONTENDED, "1 12.1")
    assert "other CPUs 34 % busy, steal 3 %, threads waited 22 %" in " ".join(
        text(CONTENDED).split()
    )
    assert line(CONTENDED, "while 1 thread").endswith("contended")


def test_a_flag_of_one_operation_names_it() -> None:
    read, write, copy, triad = streams(2, 24.1, 17.6, 33.2, 31.9)
    mixed = replace(GUEST, measurements=(read, write, replace(copy, flags=("bimodal",)), triad))
    row = line(mixed, "2 24.1")
    assert row.endswith("copy bimodal")
    assert row.count("?") == 1


def test_the_median_stands_with_its_spread() -> None:
    assert "24.1 (23.4-24.3)" in text(GUEST, 100)
    narrow = text(GUEST, 80).splitlines()
    at = next(n for n, each in enumerate(narrow) if each.split()[:2] == ["2", "24.1"])
    assert narrow[at + 1].split()[0] == "23.4-24.3"


def test_the_kernel_that_won_is_named_with_the_threads_it_won_on() -> None:
    won = "avx2 non-temporal on 1 thread, avx512 non-temporal on 2-64 threads"
    assert kernel_words(NODE)[2] == f"copy: {won}"
    assert kernel_words(NODE)[0] == "read: avx512"


def test_cpus_that_the_host_moved_are_told() -> None:
    shifted = replace(GUEST.measurements[4], round_trip_seconds=(55e-9, 340e-9))
    assert "55 ns before and 340 ns after" in moved(replace(GUEST, measurements=(shifted,)))
    assert moved(GUEST) == "round trips of 52-53 ns, before as after"


def test_remote_memory_is_set_beside_local() -> None:
    assert line(NODE, "0 158") == "0 158 71.9"
    assert "Memory of another node is read at 45 % of the best local rate." in text(NODE)


def test_few_cpus_are_shown_pair_by_pair() -> None:
    shown = text(KVM64).splitlines()
    at = next(n for n, each in enumerate(shown) if each.split()[:2] == ["CPU", "0"])
    assert shown[at + 4].split() == ["4", "343", "330", "333", "337"]
    assert "within 2 groups of CPUs: 0-3; 4-7" in text(KVM64)


def test_many_cpus_are_shown_in_groups_and_a_sample_is_called_one() -> None:
    shown = text(NODE)
    assert "within 2 groups of CPUs: 0-31; 32-62" in shown
    assert "sampled: 672 of 2016 pairs" in shown
    assert "\n CPU " not in shown


def test_findings_that_follow_are_told_in_full_and_no_others() -> None:
    other = replace(benches.SLOW, id="disk.low")
    shown = text(replace(KVM64, findings=(benches.SLOW, other)))
    assert "x cpu.decode_compute_bound" in shown
    assert "qm set <vmid> --cpu host" in shown
    assert "disk.low" not in shown


def test_what_was_not_measured_is_told_with_its_reason() -> None:
    status, said = verdict(NOTHING, ALL)
    assert status is Status.UNKNOWN
    assert said.startswith("Nothing was measured: 16 MiB are left by /sys/fs/cgroup/memory, less")
    gap = Gap(check="dram", field="round_trips", reason=Reason.FAILED, detail="ping-pong: EPERM")
    without = replace(GUEST, facts=replace(GUEST.facts, dram=benches.facts()), gaps=(gap,))
    assert missing(without, ALL) == [
        "placement of the CPUs, int4_g128 weights and fp8_e4m3 weights",
        "ping-pong: EPERM",
    ]


def test_an_interrupted_measurement_says_so() -> None:
    status, said = verdict(INTERRUPTED, ALL)
    assert status is Status.UNKNOWN
    assert "interrupted" in said
    assert line(INTERRUPTED, "NOT MEASURED").endswith("latency, placement of the CPUs and decode")


# --- the picture ---


ENDS = ("copy 190", "triad 181", "read 161", "write 120")


def picture(report: Report, *, unicode: bool) -> list[Line]:
    return [
        each
        for each in render(report, ALL, 80, unicode=unicode)
        if each and each[0].text.endswith(("│", "|"))
    ]


def test_three_numbers_of_threads_make_a_curve() -> None:
    rows = plain(picture(KVM64, unicode=False)).splitlines()
    assert len(rows) == 8
    assert rows[0].split()[0] == "190"
    assert rows[-1].split()[0] == "0"
    for name in ENDS:
        assert any(row.endswith(name) for row in rows)


def test_a_faster_operation_lies_higher_in_the_picture() -> None:
    rows = plain(picture(KVM64, unicode=False)).splitlines()
    places = {name: next(n for n, row in enumerate(rows) if name in row) for name in ENDS}
    assert sorted(ENDS, key=lambda name: places[name]) == list(ENDS)


def test_fewer_make_bars_as_long_as_their_rates() -> None:
    assert not picture(GUEST, unicode=True)
    lines = plain(render(GUEST, ALL, 80, unicode=False)).splitlines()
    lengths = {
        float(each.split()[-1]): each.count("#") for each in lines if each.rstrip().count("##")
    }
    assert lengths[24.1] / lengths[12.1] == pytest.approx(24.1 / 12.1, rel=0.05)
    assert max(lengths, key=lambda value: lengths[value]) == 33.2


def test_one_figure_makes_no_picture() -> None:
    alone = replace(GUEST, measurements=streams(2, 24.1))
    assert "█" not in text(alone)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e3, 1e15), min_size=1, max_size=9), st.integers(60, 140), st.booleans())
def test_any_rates_can_be_drawn(rates: list[float], width: int, unicode: bool) -> None:
    figures = tuple(
        Measurement(name="dram_read", kernel="avx2", threads=n + 1, median_bytes_per_second=value)
        for n, value in enumerate(rates)
    )
    lines = plain(render(replace(GUEST, measurements=figures), ALL, width, unicode=unicode))
    assert max(map(len, lines.splitlines())) <= width


@pytest.mark.parametrize(
    ("value", "shown"), [(0.943e9, "0.94"), (0.996e9, "1.0"), (24.14e9, "24.1"), (182.4e9, "182")]
)
def test_a_rate_has_the_digits_that_matter(value: float, shown: str) -> None:
    assert rate(value) == shown
