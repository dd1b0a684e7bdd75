"""A history at a terminal: what changed first, then what drifted, fills up and grew."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.records.history.history import History
from nodecheck.render.history.terminal import CHANGES_SHOWN, ROWS_SHOWN, render, render_metric
from nodecheck.render.layout import plain
from tests.render.histories import (
    DAY,
    FLAGS,
    FULL,
    LAST,
    ONE,
    QUIET,
    READ,
    change,
    measured,
    series,
    trait,
)


def said(history: History, width: int = 120) -> str:
    return plain(render(history, "--since 30d", width))


TOLD = """\
nodecheck history   node7   43,200 snapshots   2026-10-30 13:28Z to 2026-11-29 13:28Z
                    --since 30d

CHANGES
 2026-11-29 11:28Z  @43080  !  pcie.link_degraded, 0000:41:00.0: appeared (warning);
                               changed 7 times since 2026-11-22 11:28Z
 2026-11-29 08:28Z  @42900     DIMM, P0 CHANNEL C DIMM 1: gone (was 32 GiB, 3200 MT/s)
                            x  mem.insufficient, RAM: warning -> critical
 2026-11-27 14:28Z  @40380     CPU: Common KVM processor -> AMD EPYC 7452 32-Core
                               Processor
                               CPU flags: gained avx2, fma, f16c, bmi2, avx, 3dnowprefetch
                               and 4 more; lost pti
                               x86-64 level: v1 -> v3
                               cpu.hypervisor_masked, CPU: cleared (was critical)
 2026-11-20 13:28Z  @30240     GPU driver: 550.54.14 -> 570.86.10
 2026-11-09 13:28Z  @14400     GPU, 0000:81:00.0: NVIDIA L40 (new)

DRIFT
 !  memory read, 8 threads  24.1 -> 21.9 GB/s (-9.1 %, worse) since 2026-11-17; by itself
                            it varies by 1.2 %
    memory latency          104 -> 98 ns (-5.6 %, better) slowly since 2026-11-04; by
                            itself it varies by 2.1 %

FORECAST
 !  disk free, /srv/models  full in 18-26 days, 2026-12-17 to 2026-12-25: 57 GiB now,
                            2.20-3.10 GiB less each day

COUNTERS
    ECC errors corrected, 0000:41:00.0  +412 in 30 days, last rise 2026-11-29 12:28Z
 !  Xid 79, 0000:41:00.0                +3 in 30 days, last rise 2026-11-10 13:28Z

LATEST
 @43200  2026-11-29 13:28Z  critical  The hypervisor hides AVX2 and FMA. Weights on the...
 @43199  2026-11-29 13:27Z  ok        Nothing was found.

NOTED
 56 of 112 snapshots hold no measurements
 Error counters need two readings; fewer were made of RAM

nodecheck history --metric dram_read@8   draws it over time
"""


def test_all_of_it_is_told_in_the_order_of_what_matters() -> None:
    assert plain(render(FULL, "--since 30d", 92)) == TOLD


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140])
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    for history in (FULL, QUIET, ONE):
        assert max(map(len, said(history, width).splitlines())) <= width
    assert "..." in said(FULL, width)  # the headline is cut


def test_a_quiet_history_is_a_few_lines() -> None:
    printed = said(QUIET)
    assert "\n\nNo change of hardware, software or findings in 30 days.\n\n" in printed
    assert "\nNo measurement drifted, no disk fills up, no counter grew.\n" in printed
    assert len(printed.splitlines()) - len(QUIET.latest) <= 7


def test_what_there_is_nothing_of_is_told_beside_what_there_is() -> None:
    changed = said(replace(QUIET, changes=FULL.changes))
    assert "No change" not in changed
    assert "\nNo measurement drifted, no disk fills up, no counter grew.\n" in changed
    filling = said(replace(QUIET, forecasts=FULL.forecasts))
    assert filling.index("No change of") < filling.index("FORECAST") < filling.index("No measure")
    assert "\nNo measurement drifted, no counter grew.\n" in filling
    assert "No measurement" not in said(FULL)


def test_what_could_not_be_told_is_not_said_to_be_absent() -> None:
    short = replace(QUIET, untold=("drifts", "forecasts"))
    assert "\nNo counter grew.\n" in said(short)
    blind = said(replace(short, untold=(*short.untold, "growths")))
    assert "counter grew" not in blind
    assert "No change of" in blind


@pytest.mark.parametrize(
    ("days", "told"),
    [
        ((14.64, 14.64), "full in 14-15 days, about 2026-12-14: 57 GiB now, "),
        ((15, 15), "full in 15 days, about 2026-12-14: "),
        ((18.4, 25.9), "full in 18-26 days, 2026-12-17 to 2026-12-25: "),
        ((0.3, 1.2), "full in 7-29 hours, 2026-11-29 to 2026-11-30: "),
        ((0, 0), "full by now: "),
    ],
)
def test_the_soonest_is_rounded_down_and_the_latest_up(
    days: tuple[float, float], told: str
) -> None:
    assert told in said(replace(QUIET, forecasts=(replace(FULL.forecasts[0], days=days),)))


def test_what_was_read_days_ago_is_not_said_to_be_now() -> None:
    printed = " ".join(said(replace(FULL, time=LAST + 2 * DAY)).split())
    assert "57 GiB on 2026-11-29 13:28Z, 2.20-3.10 GiB less each day" in printed


def test_one_snapshot_says_what_to_do() -> None:
    assert "One snapshot says nothing about change: take another later.\n" in said(ONE)


def test_many_changes_are_cut_and_counted() -> None:
    many = tuple(
        change(LAST - n * 60, 43_200 - n, trait("GPU driver", None, str(n), str(n + 1)))
        for n in range(CHANGES_SHOWN + 3)
    )
    printed = said(replace(QUIET, changes=many))
    assert printed.count("GPU driver") == CHANGES_SHOWN
    assert "3 more, back to 2026-11-29 12:46Z: --json has them\n" in printed
    assert "more, back" not in said(replace(QUIET, changes=many[:CHANGES_SHOWN]))


def test_instruction_sets_that_matter_come_first() -> None:
    (line,) = (line for line in said(FULL).splitlines() if "gained" in line)
    gained, _, more = line.partition("gained ")[2].partition(" and ")
    assert gained.startswith("avx2, fma, ")
    assert more == f"{len(FLAGS) - len(gained.split())} more; lost pti"


def test_the_hint_can_be_pasted() -> None:
    odd = replace(
        FULL.forecasts[0],
        metric=replace(FULL.forecasts[0].metric, name="disk_available@/srv/my models"),
    )
    printed = said(replace(QUIET, forecasts=(odd,)))
    assert "nodecheck history --metric 'disk_available@/srv/my models'   draws" in printed


@pytest.mark.parametrize(
    ("before", "after", "is_built_in"),
    [("default (c5349037)", "default (a83ea639)", True), ("training (1)", "default (2)", False)],
)
def test_the_built_in_policy_changes_with_nodecheck(
    before: str, after: str, is_built_in: bool
) -> None:
    history = replace(QUIET, changes=(change(LAST, 1, trait("policy", None, before, after)),))
    told = " ".join(said(history).split())
    assert f"policy: {before} -> {after}" in told
    assert ("the built-in policy of another nodecheck version" in told) is is_built_in


def test_a_name_cannot_move_the_cursor() -> None:
    nasty = trait("DIMM", "\x1b[2J\u202e", None, "\x1b[31m16 GiB\n")
    printed = said(replace(QUIET, changes=(change(LAST, 1, nasty),)))
    assert not set(printed) & {"\x1b", "\u202e"}


def test_one_figure_is_named_drawn_and_summed_up() -> None:
    printed = plain(render_metric(measured(), "--since 30d", 80, unicode=True))
    lines = printed.splitlines()
    assert lines[:2] == [
        "nodecheck history   dram_read@8   memory read, 8 threads",
        "                    2026-10-30 13:28Z to 2026-11-29 12:28Z   --since 30d",
    ]
    assert lines[3].split() == ["GB/s"]
    assert "GB/s, median 23." in printed
    assert max(map(len, lines)) <= 80
    one = plain(render_metric(series(READ, (0, 24.1e9)), "--since 30d", 80, unicode=True))
    assert one.splitlines()[-1] == "One value: 24.1 GB/s, 2026-10-30 13:28Z."


def test_a_node_of_many_full_disks_does_not_scroll_for_ever() -> None:
    many = replace(FULL, forecasts=FULL.forecasts * 200)
    shown = said(many)
    assert shown.count("disk free, /srv/models") == ROWS_SHOWN
    assert f"{200 * len(FULL.forecasts) - ROWS_SHOWN} more: --json has them" in shown
