"""What an operator reads of cards: what it means first, then figures, then what they rest on."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.cuda.facts import CudaFacts, Failed
from nodecheck.model import Status, Transfer
from nodecheck.render.bench import gpu, html
from nodecheck.render.bench.terminal import render
from nodecheck.render.bench.verdict import missing, verdict
from nodecheck.render.layout import plain
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from tests.checks.cuda.nodes import address, card, node, pinned, way, whole
from tests.render import benches, cards
from tests.render.cards import ACS, BUSY, DEAD, GPU, GUEST, NONE, ONE, REPORTS, SHARED, THREE
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
)

EVERY = pytest.mark.parametrize("name", sorted(REPORTS))
COMMANDS = ("nvidia-smi", "sudo ", "ps -eo", "nodecheck bench", "cat /proc", "lspci", "systemctl")


def text(report: Report, width: int = 100, what: tuple[str, ...] = GPU) -> str:
    return plain(render(report, what, width, unicode=True))


def words(report: Report, width: int = 100) -> str:
    """The whole of it, on one line."""
    return " ".join(text(report, width).split())


@EVERY
@settings(max_examples=30, deadline=None)
@given(width=st.integers(60, 140))
def test_no_line_is_longer_than_the_terminal(name: str, width: int) -> None:
    for line in text(REPORTS[name], width).splitlines():
        assert len(line) <= width or line.strip().startswith(COMMANDS), line


@pytest.mark.parametrize(
    ("report", "status", "sentence"),
    [
        (
            ONE,
            Status.OK,
            (
                "The card's link carries what it should: 25.1 GB/s of 31.5; GPU memory "
                "copies at 742 GB/s of 864."
            ),
        ),
        (
            THREE,
            Status.OK,
            (
                "Every card's link carries what it should: 25.1 GB/s of 31.5; GPU "
                "memory copies at 742 GB/s of 864."
            ),
        ),
        (
            SHARED,
            Status.OK,
            (
                "Every card's link carries what it should: 55.3 GB/s of 63.0; GPU "
                "memory copies at 4310 GB/s of 4800; all at once the slowest gets 51 % of its rate "
                "alone."
            ),
        ),
        (
            cards.SLOW,
            Status.WARNING,
            "GPU memory copies at 310 GB/s, 36 % of its rate.",
        ),
        (
            BUSY,
            Status.UNKNOWN,
            (
                "Copies to 2 cards reach 25.1 GB/s or more; GPU memory copies at "
                "742 GB/s or more of 864. Other work ran meanwhile: see the figures marked !."
            ),
        ),
        (
            GUEST,
            Status.OK,
            (
                "Copies to the card reach 25.1 GB/s (an emulated port hides the way to "
                "the host); GPU memory copies at 742 GB/s of 864."
            ),
        ),
        (
            cards.UNKNOWN,
            Status.OK,
            (
                "Copies to the card reach 25.1 GB/s (what its link carries is "
                "not known); GPU memory copies at 742 GB/s of 864."
            ),
        ),
        (NONE, Status.UNKNOWN, "Nothing was measured: no card is free to be measured."),
        (
            DEAD,
            Status.CRITICAL,
            (
                "Nothing was measured: CUDA does not start: "
                "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized."
            ),
        ),
    ],
)
def test_the_first_sentence_says_what_it_means(
    report: Report, status: Status, sentence: str
) -> None:
    assert verdict(report, GPU) == (status, sentence)


@pytest.mark.parametrize("rates", [(11.2, 25.9), (25.9, 11.2)])
def test_a_slow_link_that_nobody_can_blame_is_not_called_well(rates: tuple[float, float]) -> None:
    busy = card(1, utilisation_share=0.9, granted=False)
    _, sentence = verdict(cards.report(node((card(0), busy), pinned(0, *rates))), GPU)
    assert sentence == f"Copies to the card reach {rates[0]} GB/s."


def test_what_a_link_should_carry_is_the_policys_to_say() -> None:
    strict = Thresholds(link_rate_share=0.82)
    _, sentence = verdict(ONE, GPU, strict)
    assert sentence.startswith("Copies to the card reach 25.1 GB/s;")
    shown = " ".join(plain(render(ONE, GPU, 100, unicode=True, thresholds=strict)).split())
    assert "Copies to the card reach 25.1 GB/s;" in shown
    assert "carries what it should" not in html.page(strict)(ONE, GPU)
    assert "carries what it should" in html.page()(ONE, GPU)


def test_a_link_below_its_maximum_is_what_it_comes_to() -> None:
    narrow = cards.report(node(transfers=pinned(0, 12.4, 12.6, link=(8.0, 16))))
    status, sentence = verdict(narrow, GPU)
    assert status is Status.WARNING
    (fault,) = [f for f in narrow.findings if f.id == "pcie.speed_below_max"]
    assert sentence == f"{fault.summary}."


def test_a_link_that_changed_is_shown_at_its_slowest_and_told() -> None:
    to, _ = pinned(0, 12.4, link=(8.0, 16))
    _, back = pinned(0)
    report = cards.report(node(transfers=(to, back)))
    (line,) = [each for each in text(report).splitlines() if each.startswith("  0 L40")]
    assert line.split()[2:10] == ["Gen3", "x16", "12.4", "79", "%", "26.2", "83", "%"]
    assert "GPU 0: its link changed between copies: Gen3 x16 and Gen4 x16" in words(report)


def test_a_narrower_link_above_the_card_is_told() -> None:
    above = way(0, "0000:11:00.0", "0000:10:00.0", "0000:00:01.0")
    ends = (*above.hops[:2], replace(above.hops[2], current_width=8), above.hops[3])
    report = cards.report(node(transfers=pinned(0, 12.4), paths=(replace(above, hops=ends),)))
    assert "GPU 0: link Gen4 x8 at 0000:10:00.0, above it" in words(report)
    assert "  0 L40                 Gen4 x8 " in text(report)


def test_a_card_has_a_line_with_its_link_and_shares() -> None:
    (line,) = [each for each in text(ONE).splitlines() if each.startswith("  0 L40")]
    assert line.split() == [
        "0", "L40", "Gen4", "x16", "25.1", "80", "%", "26.2", "83", "%", "742", "86", "%",
        "9.1/8.0", "790", "91", "%",
    ]  # fmt: skip


@pytest.mark.parametrize(("width", "columns"), [(60, 3), (80, 4), (100, 5)])
def test_a_narrow_terminal_shows_what_tells_most(width: int, columns: int) -> None:
    (head,) = [each for each in text(ONE, width).splitlines() if each.startswith(" card ")]
    names = ("to card", "from card", "copied on it", "pageable", "read on it")
    assert [name for name in names if name in head] == list(names[:columns])


def test_cards_that_hold_one_another_back_are_told_with_what_they_get() -> None:
    shown = words(SHARED)
    assert "0: 28.1 to, 27.2 from" in shown
    assert "Together 226 GB/s to the cards and 218 GB/s from them" in shown
    assert "NOTED 8 cards share 4 ways to the host" in shown
    assert "each as fast as alone" in words(THREE)


def test_pairs_are_a_square_that_says_how_they_go() -> None:
    assert "Copies of all pairs go through the host's memory." in words(THREE)
    assert (
        "16 of 56 pairs were measured; copies go from card to card without the host's memory."
        in words(SHARED)
    )
    assert "ports with ACS redirect (0000:10:01.0 and 0000:20:01.0)" in words(ACS)
    assert "and the IOMMU is on" in words(ACS)


def test_doubtful_figures_are_marked_and_explained() -> None:
    assert "80 %!" in text(BUSY)
    assert "! busy other programs used the card meanwhile; no finding rests on it" in words(BUSY)


def test_what_was_not_measured_is_told_with_why() -> None:
    assert missing(BUSY, GPU) == [
        "GPU 1 (NVIDIA L40, 0000:27:00.0): it is busy (98 %); --force measures it all the same"
    ]
    assert missing(NONE, GPU)[0] == "copies of the GPUs"
    assert missing(DEAD, GPU) == []  # the verdict says it, and why
    assert "WARNING interrupted after 3.2 s" in words(cards.INTERRUPTED)


def cards_of(number: int, *transfers: Transfer, **more: Any) -> Report:
    """A report of so many cards, all of which were to be measured."""
    wanted = tuple(address(n) for n in range(number))
    cuda = CudaFacts(**{"state": "ok", "devices": wanted, "wanted": wanted, **more})
    return cards.report(node(tuple(card(n) for n in range(number)), transfers, cuda=cuda))


def test_a_card_that_was_not_measured_leaves_the_answer_open() -> None:
    status, sentence = verdict(cards_of(3, *whole(0), *whole(1)), GPU)
    assert status is Status.UNKNOWN
    assert sentence.startswith("2 of 3 cards' links carry what they should: 25.1 GB/s")
    status, sentence = verdict(cards_of(2, *whole(0), pinned(1)[0]), GPU)
    assert (status, sentence[:21]) == (Status.UNKNOWN, "1 of 2 cards' links c")
    status, sentence = verdict(cards_of(2, pinned(0)[0]), GPU)
    assert (status, sentence) == (Status.UNKNOWN, "Copies to 1 of 2 cards reach 25.1 GB/s.")


def test_a_card_that_was_left_alone_is_told() -> None:
    report = cards_of(2, *whole(0), wanted=(address(0),))
    status, sentence = verdict(report, GPU)
    assert status is Status.OK
    assert sentence.endswith("of 864; 1 card left alone.")


def test_what_a_card_failed_is_what_it_comes_to() -> None:
    failed = Failed(
        card=address(1),
        name="host_to_device",
        error=214,
        call="cuEventSynchronize",
        message="CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
    )
    said = "CUDA fails copies of GPU 1: CUDA_ERROR_ECC_UNCORRECTABLE"
    report = cards_of(2, *whole(0), failed=(failed,))
    assert verdict(report, GPU) == (Status.CRITICAL, f"{said}.")
    report = cards_of(2, failed=(failed,))
    assert verdict(report, GPU) == (Status.CRITICAL, f"Nothing was measured: {said}.")


def test_at_once_is_two_or_more() -> None:
    report = cards_of(2, *whole(0), *whole(1), *pinned(0, cards=2))
    assert "AT ONCE" not in text(report)
    report = cards_of(2, *whole(0), *whole(1), *pinned(0, cards=2), *pinned(1, cards=2))
    assert "AT ONCE" in text(report)


def test_cards_of_other_makers_are_named() -> None:
    other = card(0, "Instinct MI300X", vendor="amd")
    said = gpu.why_none(cards.report(node((other,))))
    assert said.startswith("this machine has no NVIDIA GPU; copies to others")
    assert said.endswith(other.label)
    hidden = cards.report(node((card(0, granted=False),)))
    assert gpu.why_none(hidden).startswith("no NVIDIA card is given to this process")


def test_a_link_that_was_not_seen_or_is_not_judged_is_told() -> None:
    assert "GPU 0: not judged: an emulated port hides the way to the host" in words(GUEST)
    assert "GPU 0: not known what its link carries" in words(cards.UNKNOWN)
    told = cards.report(node((card(0, link_generation=4),), whole(0, link=(None, None)), paths=()))
    assert "GPU 0: link Gen4 x16 as the driver tells it" in words(told)


def test_a_bounce_buffer_is_said() -> None:
    facts = ONE.facts
    confidential = replace(facts, gpu=replace(facts.gpu, confidential_compute=True))
    report = replace(ONE, facts=confidential)
    assert "confidential computing copies through a bounce buffer" in words(report)


def test_packets_sent_again_are_told() -> None:
    report = cards.report(node(transfers=pinned(0, replays=412)))
    assert "packets sent again meanwhile (replays): GPU 0 412" in words(report)


def test_without_cards_nothing_is_missed() -> None:
    everything = (*benches.ALL, *GPU)
    assert missing(benches.GUEST, everything) == missing(benches.GUEST, benches.ALL)
    assert "GPU" not in text(benches.GUEST, what=everything)


def test_beside_the_other_parts_the_cards_come_last() -> None:
    both = replace(
        benches.GUEST, facts=replace(ONE.facts, dram=benches.GUEST.facts.dram),
        transfers=ONE.transfers,
    )  # fmt: skip
    status, sentence = verdict(both, (*benches.ALL, *GPU))
    assert status is Status.OK
    assert sentence.startswith("Memory is read at 24.1 GB/s")
    assert sentence.endswith("of 864.")
    shown = text(both, what=(*benches.ALL, *GPU))
    assert shown.index("DECODE") < shown.index("GPU        GB/s")


@EVERY
def test_the_page_is_whole_and_told_to_readers(name: str) -> None:
    page = Page(html.page()(REPORTS[name], GPU))
    needs_nothing_from_elsewhere(page)
    is_told_to_readers(page, "nodecheck bench: node7")


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1))
def test_names_of_cards_cannot_leave_their_place(name: str) -> None:
    named = replace(ONE.facts.gpus[0], name=f"<script>{name}")
    report = replace(ONE, facts=replace(ONE.facts, gpus=(named,)))
    holds_nothing_hostile(Page(html.page()(report, GPU)))
    characters = text(report).replace("\n", "")
    assert not [each for each in characters if unicodedata.category(each) == "Cc"]


@EVERY
def test_the_page_holds_the_same(name: str) -> None:
    page = html.page()(REPORTS[name], GPU)
    shown = " ".join(page.split())
    status, sentence = verdict(REPORTS[name], GPU)
    assert f"<strong>{status.value.upper()}</strong>" in page
    assert sentence.split(";")[0].replace("'", "&#39;") in shown
    if REPORTS[name].transfers:
        assert "Copies to, from and on each card alone" in page
        assert "0000:17:00.0" in page
    assert ("GB/s from a card (row) to another" in page) == any(
        each.peer for each in REPORTS[name].transfers
    )
