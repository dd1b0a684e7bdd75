"""What a policy holds, told at a terminal; and a policy that is drawn from a node, as a file."""

from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.judge.known_good import KnownGood, LeftOut
from nodecheck.policy import Policy, Requirements, parse_policy
from nodecheck.render.known_good import told, toml
from nodecheck.render.layout import plain
from nodecheck.render.policy import render
from nodecheck.report import HostInfo, Report
from tests.judge.test_verdict import report
from tests.nodes import three_l40

TODAY = datetime.date(2026, 11, 30)


def shown(text: str, width: int = 100) -> str:
    return plain(render(parse_policy(text, "p.toml"), TODAY, width))


def waiver(expires: str, subject: str = "") -> str:
    where = f'subject = "{subject}"\n' if subject else ""
    until = f"expires = {expires}\n" if expires else ""
    return f'[[waivers]]\nid = "disk.low"\nreason = "known"\n{where}{until}'


def test_an_empty_policy_holds_the_defaults() -> None:
    assert shown("").splitlines() == [
        "POLICY       p.toml   can be used",
        "REQUIRED     cpu   memory   disk",
        "MUST HAVE    nothing",
        "WAIVED       nothing",
        "THRESHOLDS   as shipped",
    ]


def test_what_it_asks_for_is_told_in_units() -> None:
    lines = shown(
        '[requirements]\ninstruction_sets = ["avx2", "fma"]\ngpus = 3\npcie = "gen4x16"\n'
        'dram_read_bytes_per_second = "40GB/s"\ndisk_free_bytes = "200GB"\n'
    )
    for said in (
        "instruction_sets avx2 fma", "dram_read_bytes_per_second 40GB/s", "disk_free_bytes 200GB",
        "gpus 3", "pcie gen4x16",
    ):  # fmt: skip
        assert said in lines


def test_what_differs_from_the_defaults_is_told_with_both() -> None:
    lines = shown(
        '[thresholds]\nmodel_min_bytes = "5GiB"\ndisk_low_share = 0.95\nheadroom_copies = 2\n'
        '[reference_workload]\nlayers = 80\n[retention]\nage_seconds = "30d"\n'
    )
    assert "THRESHOLDS   model_min_bytes 5GiB (shipped: 10GiB)\n" in lines
    assert "disk_low_share 0.95 (shipped: 0.9)\n" in lines
    assert "headroom_copies" not in lines
    assert "MODEL        layers 80 (shipped: 64)\n" in lines
    assert "HISTORY      age_seconds 30d (shipped: 400d)\n" in lines


def test_a_waiver_is_told_with_its_end() -> None:
    assert "WAIVED       disk.low: for good: known\n" in shown(waiver(""))
    assert "disk.low on /scratch: until 2027-06-30 (212 days left): known\n" in shown(
        waiver("2027-06-30", "/scratch")
    )


def test_a_waiver_that_ends_soon_is_told_first_too() -> None:
    usable = "p.toml   can be used; 1 waiver ends within 30 days\n"
    assert usable in shown(waiver("2026-12-30"))
    assert usable not in shown(waiver("2026-12-31"))
    both = shown(waiver("2026-12-30") + waiver("2026-12-01") + waiver("2026-11-29"))
    assert "can be used; 1 waiver expired; 2 waivers end within 30 days\n" in both


def test_a_waiver_is_told_with_the_days_left() -> None:
    assert "until 2026-11-30 (0 days left): known" in shown(waiver("2026-11-30"))
    assert "until 2026-12-01 (1 day left): known" in shown(waiver("2026-12-01"))
    assert "until 2026-12-30 (30 days left): known" in shown(waiver("2026-12-30"))
    assert "until 2026-12-31 (31 days left): known" in shown(waiver("2026-12-31"))


def test_a_waiver_that_has_expired_is_told_first() -> None:
    lines = shown(waiver("2026-11-29")).splitlines()
    assert lines[0] == "POLICY       p.toml   can be used; 1 waiver expired"
    assert "disk.low: expired on 2026-11-29: known" in lines[3]


def test_a_waiver_that_an_earlier_one_covers_is_told() -> None:
    assert shown(waiver("", "/") + waiver("", "/")).count("named twice") == 1
    assert shown(waiver("") + waiver("", "/")).count("named twice") == 1
    assert "named twice" not in shown(waiver("", "/") + waiver("", "/srv"))
    assert "named twice" not in shown(waiver("", "/") + waiver(""))


def test_names_of_a_policy_do_not_steer_the_terminal() -> None:
    hostile = 'name = "a\\u001b[2J\\u202e"\n[[waivers]]\nid = "disk.low"\nreason = "b\\u0007"\n'
    assert not set(shown(hostile)) & set("\x1b\x07\u202e")


KNOWN = KnownGood(
    required=("cpu", "disk"),
    requirements=Requirements(
        instruction_sets=("avx2", "fma"), dram_read_bytes_per_second=15e9, gpus=2
    ),
    seen={
        "instruction_sets": "Of 105 on a CPU",
        "dram_read_bytes_per_second": "50 % of 30 GB/s",
        "gpus": "2 GPUs",
    },
    left_out=(LeftOut("pcie", ("pcie.width_below_max (warning): narrow", "second")),),
)


NODE = report(three_l40())


def test_a_drawn_policy_tells_of_each_line_what_was_seen() -> None:
    lines = toml(KNOWN, NODE).splitlines()
    assert lines[-10:] == [
        "[requirements]",
        "# Of 105 on a CPU",
        'instruction_sets = ["avx2", "fma"]',
        "# 50 % of 30 GB/s",
        'dram_read_bytes_per_second = "15GB/s"',
        "# 2 GPUs",
        "gpus = 2",
        "",
        "# Left out, as this node does not show what to ask for:",
        "# - pcie: pcie.width_below_max (warning): narrow; second",
    ]
    assert list(told(KNOWN, NODE)) == [
        "Left out: pcie: pcie.width_below_max (warning): narrow; second"
    ]


def test_a_node_that_shows_nothing_gives_a_policy_that_asks_for_nothing() -> None:
    nothing = KnownGood(required=(), requirements=Requirements(), seen={}, left_out=())
    made = Report(
        nodecheck_version="0",
        time="2026-01-01T00:00:00+00:00",
        host=HostInfo(source="live", holds=()),
        facts=replace(three_l40().facts, gpus=()),
    )
    assert parse_policy(toml(nothing, made), "p") == Policy(name="p", required=())


@given(st.text(max_size=40) | st.text("\r\n\0\"'#\x1b\x85\u2028\ud800 a", max_size=40))
def test_no_name_of_a_node_breaks_out_of_its_comment(name: str) -> None:
    named = replace(NODE, host=HostInfo(source="live", holds=(), name=name))
    known = replace(KNOWN, seen={**KNOWN.seen, "gpus": name}, left_out=(LeftOut("pcie", (name,)),))
    text = toml(known, named).encode(errors="strict").decode()
    assert parse_policy(text, "p").requirements == KNOWN.requirements
    assert all("\n" not in line for line in told(known, named))
