"""What is measured, from which look at the cards it is judged, and what an interruption leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from nodecheck import collect
from nodecheck.checks.cuda import bench as copying
from nodecheck.checks.cuda.bench import Wish, wanted_seconds
from nodecheck.checks.cuda.facts import CudaFacts, CudaProbe
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Facts
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.report import HostInfo, Report
from tests.checks.cuda.nodes import card, node, pinned
from tests.trees import plant

BEFORE_MEMORY = card(pcie_replays=3, utilisation_share=0.99)
BEFORE_COPIES = card(pcie_replays=40, utilisation_share=0.0)
AFTER = card(pcie_replays=41)


def facts(*cards: Gpu) -> Facts:
    return node(cards).facts


class Looks:
    """The looks at the cards beside the report's own, one by one, and what was measured by."""

    def __init__(self) -> None:
        self.coming: list[Gpu | None] = []
        self.measured_by: list[Gpu] = []

    def look(self, _host: object, known: Facts) -> Facts:
        """None is Ctrl-C."""
        seen = self.coming.pop(0)
        if seen is None:
            raise KeyboardInterrupt
        return replace(known, gpus=(seen,))

    def copies(self, _reader: object, known: Facts, *_: object) -> CudaProbe:
        self.measured_by += known.gpus
        return CudaProbe(facts=CudaFacts(state="ok"), transfers=pinned(0))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """A benchmark of which nothing is real but the order of things."""
    host = HostInfo(source="live", holds=())
    report = Report(nodecheck_version="0", time="", host=host, facts=facts(BEFORE_MEMORY))
    found = Looks()
    monkeypatch.setattr(collect, "collect", lambda *_, **__: report)
    monkeypatch.setattr(collect, "_memory", lambda _host, report, *_: report)
    monkeypatch.setattr(collect, "_with_cards", found.look)
    monkeypatch.setattr(copying, "run", found.copies)
    return found


def replays(report: Report) -> set[int | None]:
    return {each.replays for each in report.transfers}


def test_beside_memory_the_cards_are_looked_at_anew(looks: Looks) -> None:
    looks.coming = [BEFORE_COPIES, AFTER]
    report = collect.bench(LiveHost(), ("dram", "gpu"))
    assert looks.measured_by == [BEFORE_COPIES]
    assert replays(report) == {1}
    assert report.facts.gpus == (BEFORE_MEMORY,)


def test_alone_the_first_look_is_fresh(looks: Looks) -> None:
    looks.coming = [AFTER]
    report = collect.bench(LiveHost(), ("gpu",))
    assert looks.measured_by == [BEFORE_MEMORY]
    assert replays(report) == {38}


def test_an_interruption_of_the_last_look_loses_nothing(looks: Looks) -> None:
    looks.coming = [None]
    report = collect.bench(LiveHost(), ("gpu",))
    assert report.transfers == pinned(0)
    assert report.facts.cuda.interrupted
    assert report.facts.cuda.state == "ok"


def test_an_interruption_before_the_copies_leaves_what_memory_reaches(looks: Looks) -> None:
    looks.coming = [None]
    report = collect.bench(LiveHost(), ("dram", "gpu"))
    assert report.transfers == ()
    assert report.facts.cuda.interrupted


def test_cards_that_are_left_alone_take_no_time() -> None:
    busy = [card(number, utilisation_share=0.9) for number in range(8)]
    assert wanted_seconds(facts(*busy), Wish()) == 0
    assert wanted_seconds(facts(*busy, card(8)), Wish()) == wanted_seconds(facts(card(0)), Wish())
    assert wanted_seconds(facts(*busy), Wish(force=True)) > 30


@pytest.mark.parametrize(("left_mib", "starts"), [(500, False), (700, True)])
def test_a_host_without_memory_for_a_context_is_left_alone(
    left_mib: int, starts: bool, tmp_path: Path
) -> None:
    host = plant({"proc/meminfo": f"MemAvailable: {left_mib << 10} kB\n"}, tmp_path)
    why = copying._hopeless(Reader(host, "cuda"), facts(card()), [card()])
    assert (why is None) == starts
