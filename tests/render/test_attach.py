"""What an operator reads of a slow engine: why first, then what to change, then the figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.facts import EngineFacts, OtherProcess
from nodecheck.checks.seen import Facts
from nodecheck.judge.engine.answer import answer
from nodecheck.model import Gap, Reason, Status, faults, pretty_json
from nodecheck.policy import Policy
from nodecheck.render.attach.line import line
from nodecheck.render.attach.terminal import render
from nodecheck.render.attach.threads import fold
from nodecheck.render.layout import Line, plain
from nodecheck.render.report import html
from nodecheck.render.report import terminal as whole
from nodecheck.render.report.terminal import INDENT
from nodecheck.render.styles import STATUS_STYLES
from nodecheck.report import Report, from_json
from tests.checks.engine.engines import (
    HEALTHY,
    LOADING,
    ON_CARD,
    THROTTLED,
    engine,
    gpu,
    limit,
    node,
    quota,
    threads,
    two_nodes,
    with_process,
)
from tests.nodes import three_l40
from tests.render.attached import REPORTS, crowd, judged, of
from tests.render.pages import Page, holds_nothing_hostile
from tests.render.reports import of_tree

ORDINARY = pytest.mark.parametrize("name", sorted(REPORTS.keys() - {"nasty"}))
"""Of names that are no longer than a line, and that a saved report holds as they are."""

EVERY = pytest.mark.parametrize("name", sorted(REPORTS))
POLICY = Policy()

FULL = judged(
    node(
        with_process(
            replace(
                ON_CARD,
                cpu_group=quota(6, 2),
                memory_group=limit(32 << 30, 0),
                others=(OtherProcess(pid=77, name="cc1plus", cpus=1.94),),
                settings={"gpu_layers": "999", "threads": "8"},
                environment={"CUDA_VISIBLE_DEVICES": "0"},
                steal_share=0.012,
            ),
            resident_bytes=17 << 30,
            swapped_bytes=0,
            read_total_bytes=16 << 30,
            numa_bytes={0: 16 << 30, 1: 1 << 30},
        ),
        gpu(),
        numa=two_nodes(),
    )
)
"""With a quota and a limit that leave it room."""
WIDTH_LEAST = 80
"""Of a terminal on which the answer is one line."""

CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\u202e]")


def text(report: Report, width: int = 100) -> str:
    return plain(render(report, width, POLICY))


def words(report: Report) -> str:
    return " ".join(text(report).split())


def one_line(report: Report) -> str:
    return plain([line(report, POLICY)]).rstrip("\n")


def test_an_engine_with_all_figures_at_80_columns() -> None:
    expected = """
OK         Nothing was found that slows it.
           llama.cpp, process 4242 (llama-server)   20 threads   watched 5.0 s

 ran       waited    on CPU        threads
 100 %     0 %       0             llama-server
 19 threads hardly ran

 CPUs       1.00 used of 8 (0-7); 1.10 of the node's are busy; the hypervisor
            took 1 %
 quota      6 CPUs, stopped in 2 of 50 periods, for 0.1 s in all
            (/sys/fs/cgroup/system.slice/llama.service/cpu.max)
 memory     17 GiB resident
 limit      32 GiB, 32 GiB of it used, met 100 times
            (/sys/fs/cgroup/system.slice/llama.service/memory.max)
 disk       0 page faults waited for it, 0 MB/s read, 16 GiB since it began
 model      /models/model.gguf: 16 GiB Q4_K, 100 % in memory
 library    libggml-cpu-haswell.so (ggml), built with avx2, fma, f16c and 2 more
 GPU        0000:01:00.0: 18 GiB held, 93 % busy
 NUMA       its memory: 16 GiB on node 0, 1 GiB on node 1
 others     cc1plus (77) 1.94 CPUs
 settings   gpu layers 999, threads 8, CUDA_VISIBLE_DEVICES=0

LOOKED AT     CPU quota: 6 CPUs, stopped it in 4 % of its periods
              CPUs: its thread waited 0 % of the time
              instruction sets: avx2, fma and f16c
              disk: no page fault waited for it, nothing read   swap: none of it
              NUMA: 94 % of its memory is where it runs
              GPUs: 18 GiB held on 1 card, 93 % busy   steal: 1 %

The node itself: OK, no finding
"""
    assert text(FULL, 80) == expected.removeprefix("\n")


@ORDINARY
@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_longer_than_the_terminal(name: str, width: int) -> None:
    commands = {c for f in REPORTS[name].findings for c in f.remedy.commands}
    for each in text(REPORTS[name], width).splitlines():
        assert len(each) <= width or each.strip() in commands, each


@EVERY
def test_the_first_word_says_what_it_does(name: str) -> None:
    first = text(REPORTS[name]).split()[0]
    expected = {
        "idle": "IDLE",
        "loading": "LOADING",
        "stopped": "STOPPED",
        "ended": "ENDED",
        "bare": "UNKNOWN",
    }
    assert first == expected.get(name, "SLOW" if name.startswith("engine.") else "OK")


@pytest.mark.parametrize("name", [name for name in sorted(REPORTS) if name.startswith("engine.")])
def test_a_finding_is_told_with_its_number_and_its_remedy(name: str) -> None:
    report = REPORTS[name]
    (finding,) = (each for each in report.findings if each.id.startswith("engine."))
    assert finding.id == name
    told = words(report)
    summary = finding.headline or finding.summary
    assert told.startswith(f"SLOW {summary[0].upper()}{summary[1:]}.")
    assert " ".join(finding.remedy.text.split()) in told
    for command in finding.remedy.commands:
        assert " ".join(command.split()) in told
    assert f"nodecheck explain {name}" in told


def test_the_answer_and_the_finding_below_it_are_two_sentences() -> None:
    for name, report in REPORTS.items():
        if name.startswith("engine."):
            (finding,) = (each for each in report.findings if each.id == name)
            assert finding.headline
            assert len(finding.headline) <= WIDTH_LEAST - INDENT
            assert finding.headline not in finding.summary


def test_what_the_hypervisor_hardly_took_is_not_told_in_figures() -> None:
    assert "hypervisor took" not in text(of(replace(HEALTHY, steal_share=0.004)))
    assert "the hypervisor took 2 %" in words(of(replace(HEALTHY, steal_share=0.02)))


def test_pages_that_came_back_are_not_called_its_own() -> None:
    """A first load brings back what others have thrown out of the same group."""
    made = replace(LOADING, memory_group=limit(32 << 30, 71_680))
    told = words(of(made))
    assert told.startswith("LOADING")
    assert "71,680 pages had been in memory before" in told


def test_nothing_is_explained_where_nothing_was_found() -> None:
    for name in ("well", "idle", "loading", "ended", "hidden"):
        assert "engine." not in text(REPORTS[name])
        assert "WHY" not in text(REPORTS[name])


def test_what_is_hidden_takes_from_what_was_found() -> None:
    report = REPORTS["hidden"]
    assert "in what could be seen" in answer(report).sentence
    told = [each for each in text(report, 80).splitlines() if "another user" in each]
    assert len(told) == 1
    assert "libraries it computes with, model files, open GPU devices" in words(report)
    assert "in what could be seen" not in answer(REPORTS["well"]).sentence


@pytest.mark.parametrize(
    ("field", "reason", "detail", "said"),
    [
        (
            "model_files.cached_bytes",
            Reason.TIMEOUT,
            "took more than 3 s",
            "no answer: how much of the model is in memory (took more than 3 s)",
        ),
        (
            "libraries.compiled",
            Reason.UNSUPPORTED,
            "x" * 99,
            "not supported: what its libraries were built with",
        ),
        ("libraries", Reason.FAILED, "", "unreadable: libraries it computes with"),
        ("cards", Reason.FAILED, "\x1b[2J", "unreadable: GPUs"),
    ],
)
def test_what_is_not_seen_is_told_in_words_and_why(
    field: str, reason: Reason, detail: str, said: str
) -> None:
    report = of(HEALTHY, Gap(check="engine", field=field, reason=reason, detail=detail))
    assert said in words(report)
    assert "\x1b" not in text(report)
    if len(detail) > WIDTH_LEAST:
        assert detail not in words(report)


def test_threads_that_are_alike_are_told_once() -> None:
    groups = fold(crowd())
    assert [(len(group), group[0].name) for group in groups] == [
        (8, "scheduler_TP0"),
        (8, "pt_main_thread0"),
    ]
    told = text(REPORTS["crowd"], 80)
    assert "98 %      1 %       0-7           8x scheduler_TP0 of 8 processes" in told
    assert "884 threads hardly ran" in told


def test_threads_of_one_name_that_differ_stand_apart() -> None:
    made = engine([*threads(1, 0.5), *threads(7, 0.98, first=1)], thread_count=8)
    assert [len(group) for group in fold(made)] == [7, 1]
    waiting = engine([*threads(4, 0.4, 0.0), *threads(4, 0.4, 0.5, first=4)])
    assert [len(group) for group in fold(waiting)] == [4, 4]


def test_many_sorts_of_threads_are_cut() -> None:
    names = [replace(each, name=f"{chr(97 + each.tid - 4242)}") for each in threads(9, 0.3)]
    told = text(of(engine(names, thread_count=9)), 80)
    assert "3 threads more used 0.90 CPUs together" in told
    assert "hardly ran" not in told


def test_the_last_line_is_of_the_node() -> None:
    seen = three_l40()
    alone = judged(seen)
    assert alone.verdict.status is Status.CRITICAL
    report = judged(replace(seen, facts=replace(seen.facts, engine=THROTTLED)))
    number = len(faults(alone.findings))
    said = f"The node itself: CRITICAL, {number} findings: nodecheck tells them"
    assert text(report).splitlines()[-1] == said
    assert text(of(THROTTLED)).splitlines()[-1] == "The node itself: OK, no finding"


def test_the_whole_report_tells_it_as_well() -> None:
    report = REPORTS["well"]
    told = " ".join(plain(whole.render(report, 100)).split())
    assert "ENGINE llama.cpp, process 4242 (llama-server), watched for 5.0 s. Nothing was" in told
    assert (
        "engine: nothing slows llama.cpp, process 4242 (llama-server)" in report.verdict.ruled_out
    )
    slow = " ".join(plain(whole.render(REPORTS["engine.paging"], 100)).split())
    assert "x engine.paging Weights do not stay in memory" in slow


def test_the_examples_in_the_documents_are_what_is_printed() -> None:
    document = (Path(__file__).parents[2] / "docs" / "attach.md").read_text()
    report = REPORTS["engine.throttled_quota"]
    assert f"```\n{text(report)}```\n" in document
    assert f"```\n{one_line(report)}\n```\n" in document


def test_a_report_without_an_engine_says_nothing_of_one() -> None:
    report = of_tree("healthy")
    assert "engine" not in plain(whole.render(report, 100)).lower()
    assert not [gap for gap in report.gaps if gap.check == "engine"]
    assert not any("engine" in each for each in report.verdict.ruled_out)
    assert "<h3>Engine</h3>" not in html.page()(report)


def test_what_hides_is_told_in_the_whole_report_once() -> None:
    (said,) = (each for each in REPORTS["hidden"].verdict.not_checked if "engine" in each)
    assert said == "engine, denied: libraries it computes with, model files, open GPU devices"
    gone = of(EngineFacts(state="absent", pid=4242))
    assert "engine: there is no process 4242" in gone.verdict.not_checked


@EVERY
def test_the_page_has_its_facts_and_nothing_hostile(name: str) -> None:
    page = html.page()(REPORTS[name])
    holds_nothing_hostile(Page(page)) if name == "nasty" else Page(page)
    assert "<h3>Engine</h3>" in page
    assert f"process {REPORTS[name].facts.engine.pid}" in page


@EVERY
def test_names_do_not_steer_the_terminal(name: str) -> None:
    assert not CONTROLS.search(text(REPORTS[name]))
    assert not CONTROLS.search(one_line(REPORTS[name]))


@ORDINARY
def test_a_saved_report_is_judged_as_it_was(name: str) -> None:
    report = REPORTS[name]
    assert text(from_json(pretty_json(report), "saved")) == text(report)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "engine.throttled_quota",
            "02:14:09Z  SLOW     engine.throttled_quota  0.48 of 8 CPUs, waited 93 %, stopped 98 %",
        ),
        ("engine.paging", "02:14:09Z  SLOW     engine.paging  0.24 of 8 CPUs, 180 MB/s read"),
        ("well", "02:14:09Z  OK       7.84 of 8 CPUs, waited 1 %"),
        ("idle", "02:14:09Z  IDLE     0.01 of 8 CPUs"),
        (
            "on a card",
            "02:14:09Z  OK       1.00 of 8 CPUs, waited 0 %, 18 GiB on GPUs, 93 % busy",
        ),
        ("bare", "02:14:09Z  UNKNOWN"),
    ],
)
def test_a_window_is_one_line(name: str, said: str) -> None:
    assert one_line(REPORTS[name]) == said


@pytest.mark.parametrize("make", [lambda r: render(r, 100, POLICY), lambda r: [line(r, POLICY)]])
def test_the_first_word_has_the_colour_of_the_gravest_finding(
    make: Callable[[Report], list[Line]],
) -> None:
    def style(name: str, word: str) -> str:
        spans = [span for each in make(REPORTS[name]) for span in each]
        return next(span.style for span in spans if span.text.strip() == word)

    assert style("engine.paging", "SLOW") == STATUS_STYLES[Status.CRITICAL]
    assert style("engine.oversubscribed", "SLOW") == STATUS_STYLES[Status.WARNING]
    assert style("well", "OK") == STATUS_STYLES[Status.OK]


def test_a_node_that_was_not_judged_is_not_called_well() -> None:
    report = replace(REPORTS["well"], facts=Facts(engine=HEALTHY))
    said = "The node itself: UNKNOWN, not all was judged: nodecheck tells why"
    assert text(report).splitlines()[-1] == said
