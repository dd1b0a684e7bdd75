"""What the memory benchmarks print, as captured from likwid 5.2, sysbench 1.0, mbw 1.2, stress-ng
0.15, llmfit 1.1, and what is made of rounds.
"""

from __future__ import annotations

import pytest
from tests.bench.peers import table, tools
from tests.bench.peers.contest import Contest, Sample
from tests.bench.peers.tools import Loop

LIKWID = """\
Time:			2.854709e-01 sec
Data volume (Byte):	4000000000
MByte/s:		14011.94
Cycles per update:	1.313126
"""
SYSBENCH = """\
Total operations: 8 (    8.34 per second)

4096.00 MiB transferred (4271.43 MiB/sec)
"""
MBW = """\
2	Method: MEMCPY	Elapsed: 0.15727	MiB: 512.00000	Copy: 3255.527 MiB/s
AVG	Method: MEMCPY	Elapsed: 0.16250	MiB: 512.00000	Copy: 3150.737 MiB/s
AVG	Method: DUMB	Elapsed: 0.09005	MiB: 512.00000	Copy: 5685.730 MiB/s
"""
STRESS_NG = """\
stress-ng: metrc: [22777] memrate               1      6.22      2.42      0.25         0.16
stress-ng: metrc: [22777] memrate             6523.08 write128nt MB per sec (geometic mean
stress-ng: metrc: [22777] memrate             5128.97 read1024 MB per sec (geometic mean
"""
STREAM = """\
stress-ng: metrc: [22857] stream              2623.72 memory read rate (MB per sec) (geometic mean
stress-ng: metrc: [22857] stream              1749.15 memory write rate (MB per sec) (geometic mean
"""
LLMFIT = """\
Available RAM: 22.72 GB
RAM Bandwidth: ~13 GB/s (measured)
"""
TOO_SHORT = "stress-ng: info:  [28290] stream: run duration too short to determine memory rate\n"


def test_likwid_counts_10_to_the_6_bytes() -> None:
    assert tools.likwid_rate(LIKWID) == pytest.approx(4e9 / 2.854709e-01, rel=1e-5)


def test_sysbench_counts_mebibytes() -> None:
    assert tools.sysbench_rate(SYSBENCH) == pytest.approx(8.34 * (512 << 20), rel=1e-3)


def test_mbw_counts_once_what_is_read_and_written() -> None:
    rates = tools.mbw_rates(MBW)
    assert rates.keys() == {"memcpy", "dumb"}
    assert rates["memcpy"] == pytest.approx(2 * (512 << 20) / 0.16250, rel=1e-3)


def test_memrate_is_by_method() -> None:
    assert tools.memrate_rates(STRESS_NG) == {
        "write128nt": pytest.approx(6.8399e9, rel=1e-4),
        "read1024": pytest.approx(5.3781e9, rel=1e-4),
    }


def test_stream_is_what_is_read_and_written() -> None:
    assert tools.stream_rate(STREAM) == pytest.approx((2623.72 + 1749.15) * 1048576)


def test_llmfit_is_in_gb() -> None:
    assert tools.llmfit_rate(LLMFIT) == 13e9


@pytest.mark.parametrize("parse", [tools.stream_rate, tools.likwid_rate, tools.llmfit_rate])
def test_no_figure_is_no_zero(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match="too short"):
        parse(TOO_SHORT)


MINE = Loop("nodecheck", "read", "avx2")
LIKWID_READ = Loop("likwid-bench", "read", "load_avx")
CACHED = Loop("llmfit", "read", "memcpy")
SAME, ELSEWHERE = (60e-9, 61e-9), (60e-9, 330e-9)


def contest(*rounds: tuple[Sample, Sample]) -> Contest:
    return Contest(
        threads=1,
        ours={"read": MINE},
        comparable={LIKWID_READ: True, CACHED: False},
        huge_share={"likwid-bench": 1.0},
        rounds=[
            {MINE: mine, LIKWID_READ: other, CACHED: Sample(99e9, SAME)} for mine, other in rounds
        ],
    )


def test_a_round_counts_where_both_ran_in_one_placement() -> None:
    moved = contest(
        (Sample(30e9, SAME), Sample(20e9, SAME)),
        (Sample(60e9, ELSEWHERE), Sample(20e9, SAME)),
        (Sample(60e9, (330e-9, 331e-9)), Sample(20e9, SAME)),
    )
    assert moved.ratios(LIKWID_READ) == [1.5]
    assert moved.steady(MINE) == [30e9, 60e9]


def test_a_loop_in_the_caches_is_no_best_peer() -> None:
    one = contest((Sample(30e9, SAME), Sample(20e9, SAME)))
    assert one.best_peer("read") == LIKWID_READ
    assert one.best_peer("copy") is None


def test_a_goal_takes_five_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "GOALS", {"read": 0.97})
    level = (Sample(30e9, SAME), Sample(30e9, SAME))
    behind = (Sample(28e9, SAME), Sample(30e9, SAME))
    assert table.missed([contest(*[level] * 5)]) == []
    assert table.missed([contest(*[level] * 4)]) == ["read, 1 threads"]
    assert table.missed([contest(*[behind] * 5)]) == ["read, 1 threads"]
