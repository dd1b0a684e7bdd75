"""Two reports side by side: what differs beyond noise, what that moved, what proves nothing."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.model import Gap, Latency, Measurement, Reason, Severity, Strategy, Viability
from nodecheck.policy import Policy, Waiver
from nodecheck.records.compare.compare import compare
from nodecheck.records.compare.comparison import (
    Certainty,
    Comparison,
    FigurePair,
    FindingPair,
    Outcome,
    StrategyPair,
)
from nodecheck.records.compare.headline import AGAIN
from nodecheck.records.figures import Kind
from nodecheck.report import Report
from nodecheck.serving import Storage
from nodecheck.workload.numbers import from_numbers
from tests.records.sides import LATER, facts, judged, measuring, node, read

SAME = "No difference beyond noise."


def compared(before: Report, after: Report) -> Comparison:
    return compare(("a.json", before), ("b.json", after))


def finding(made: Comparison, name: str) -> FindingPair:
    [found] = [f for f in made.findings if f.id == name]
    return found


def figure(made: Comparison, name: str) -> FigurePair:
    [found] = [f for f in made.figures if f.metric.name == name]
    return found


def strategy(made: Comparison, name: str) -> StrategyPair:
    [found] = [s for s in made.strategies if s.strategy == name]
    return found


def of_kind(made: Comparison, outcome: Outcome) -> list[str]:
    return [f.id for f in made.findings if f.outcome is outcome]


# --- the CPU type of a guest was changed ---


@pytest.fixture(scope="module")
def changed() -> Comparison:
    return compared(node("masked"), node("host type"))


def test_one_sentence_says_what_changed_and_what_it_did(changed: Comparison) -> None:
    assert changed.differs
    assert changed.headline == (
        "CPU type changed: AVX2, FMA, F16C and 6 more gained; partial-offload 0.7-19 -> 2.1-22 "
        "tok/s, cpu-only 0.2-0.5 -> 0.5-0.7 tok/s. gpu-resident is unchanged, 34-42 tok/s."
    )


def test_what_the_node_is_now(changed: Comparison) -> None:
    values = {t.name: (t.before, t.after) for t in changed.traits if not (t.gained or t.lost)}
    assert values == {
        "CPU": ("Common KVM processor", "AMD EPYC 7313 16-Core Processor"),
        "x86-64 level": ("v1", "v3"),
    }
    [flags] = [t for t in changed.traits if t.name == "CPU flags"]
    assert {"avx2", "fma", "f16c", "bmi2"} <= set(flags.gained)
    assert flags.lost == ()
    assert {"RAM", "GPU", "PCIe link", "VRAM"} <= set(changed.unchanged)
    assert not {"CPU", "CPU flags", "host name", "nodecheck"} & set(changed.unchanged)


def test_its_finding_is_cleared_and_the_others_stay(changed: Comparison) -> None:
    masked = finding(changed, "cpu.hypervisor_masked")
    assert masked.outcome is Outcome.CLEARED
    assert (masked.before, masked.after) == (Severity.CRITICAL, None)
    assert masked.summary.startswith("VM CPU type kvm64")
    assert of_kind(changed, Outcome.SAME) == ["disk.low", "mem.bandwidth_low", "virt.guest"]


def test_what_runs_on_the_cpu_moved_and_nothing_else(changed: Comparison) -> None:
    moved = [s.strategy for s in changed.strategies if s.moved]
    assert moved == ["partial-offload", "cpu-only"]
    cpu = strategy(changed, "cpu-only")
    assert cpu.before is not None
    assert cpu.after is not None
    assert cpu.before.limit == "CPU instruction set (SSE2), then DRAM"
    assert cpu.after.limit.startswith("DRAM, 11.7 GB/s")


def test_the_other_way_round_it_is_lost_and_appears() -> None:
    made = compared(node("host type"), node("masked"))
    assert made.headline.startswith(
        "CPU type changed: AVX2, FMA, F16C and 6 more lost; cpu.hypervisor_masked appeared; "
    )
    assert finding(made, "cpu.hypervisor_masked").outcome is Outcome.APPEARED
    assert "B was made before A" in made.notes


def test_each_side_is_told(changed: Comparison) -> None:
    side = changed.before
    assert (side.label, side.time) == ("a.json", "2026-11-28T10:00:00+00:00")
    assert side.cpu == "Common KVM processor (x86-64-v1)"
    assert "3x NVIDIA L40 45 GiB" in side.node
    assert (side.status.value, changed.after.status.value) == ("critical", "warning")


def test_a_verdict_that_moved_is_told_before_its_range() -> None:
    made = compared(node("masked"), node("fast"))
    assert "partial-offload not viable -> viable, cpu-only 0.2-0.5 -> " in made.headline


# --- noise ---


@pytest.mark.parametrize("name", ["masked", "host type", "fast"])
def test_a_report_does_not_differ_from_itself(name: str) -> None:
    made = compared(node(name), node(name))
    assert (made.headline, made.differs, made.notes) == (SAME, False, ())
    assert made.traits == ()
    assert {f.outcome for f in made.findings} == {Outcome.SAME}
    assert {f.certainty for f in made.figures} == {Certainty.WITHIN}


def test_what_comes_and_goes_by_itself_is_no_difference() -> None:
    before = facts("host type")
    seen = before.facts
    after = replace(
        before,
        time=LATER,
        elapsed_seconds=3.2,
        facts=replace(
            seen,
            cpu=replace(seen.cpu, load_1min=7.5, busy_share=0.4, current_mhz=1200.0),
            memory=replace(seen.memory, available_bytes=100_000_000_000),
            gpus=tuple(
                replace(g, temperature_celsius=71, power_watts=212.0, link_generation=1)
                for g in seen.gpus
            ),
            disk=replace(
                seen.disk,
                filesystems=tuple(
                    replace(f, available_bytes=(f.available_bytes or 0) - 500_000_000)
                    for f in seen.disk.filesystems
                ),
            ),
        ),
    )
    made = compared(judged(before), judged(after))
    assert (made.headline, made.differs) == (SAME, False)
    assert not [f for f in made.figures if f.metric.kind is Kind.MOMENTARY]


@pytest.mark.parametrize(
    ("before", "after", "certainty"),
    [
        pytest.param(read(20, 19, 21), read(15, 14, 16), Certainty.BEYOND, id="apart"),
        pytest.param(read(20, 14, 21), read(15, 13, 19), Certainty.WITHIN, id="overlap"),
        pytest.param(read(20, 19.9, 20.1), read(19, 18.9, 19.1), Certainty.WITHIN,
                     id="apart, by less than runs repeat"),
        pytest.param(read(20), read(15), Certainty.UNKNOWN, id="no spread"),
        pytest.param(read(20), read(19), Certainty.WITHIN, id="no spread, and close"),
        pytest.param(read(20, 19, 21), read(15, 14, 16, "contended"), Certainty.FLAGGED,
                     id="disturbed after"),
        pytest.param(read(20, 19, 21, "bimodal"), read(20, 19, 21), Certainty.FLAGGED,
                     id="disturbed before"),
    ],
)  # fmt: skip
def test_what_two_measurements_prove(
    before: Measurement, after: Measurement, certainty: Certainty
) -> None:
    pair = figure(compared(measuring(before), measuring(after)), "dram_read@8")
    assert pair.certainty is certainty
    assert pair.ratio == after.median_bytes_per_second / before.median_bytes_per_second


def test_slower_memory_is_a_difference_though_nothing_else_changed() -> None:
    before = measuring(read(42, 41, 43), read(12, 11.8, 12.2, threads=1))
    made = compared(before, measuring(read(21, 20, 22), read(12.1, 11.8, 12.3, threads=1)))
    assert made.differs
    assert made.headline.startswith("memory read (8 threads) 50 % slower; ")
    assert made.headline.endswith(AGAIN)
    assert "gpu-resident" not in made.headline


CLEAN = (read(42, 41, 43), read(12, 11, 13, threads=1))
FEW_DISTURBED = (read(42, 41, 43), read(9, 8, 10, "contended", threads=1))
DISTURBED = (read(20, 15, 40, "contended"), read(12, 11, 13, threads=1))
WORSE = (read(10, 8, 20, "contended"), read(6, 5, 7, "contended", threads=1))


@pytest.mark.parametrize(
    ("before", "after", "sides"),
    [
        pytest.param(CLEAN, FEW_DISTURBED, "", id="on one thread, which moves nothing"),
        pytest.param(CLEAN, DISTURBED, "B", id="after"),
        pytest.param(DISTURBED, CLEAN, "A", id="before"),
        pytest.param(DISTURBED, WORSE, "A and B", id="both"),
    ],
)
def test_a_disturbed_measurement_alone_is_no_difference(
    before: tuple[Measurement, ...], after: tuple[Measurement, ...], sides: str
) -> None:
    made = compared(measuring(*before), measuring(*after))
    why = f" Memory was disturbed in {sides}: what rests on it is not comparable." if sides else ""
    assert (made.headline, made.differs) == (SAME + why, False)
    assert any(each.moved for each in made.strategies) == bool(sides)


def test_beside_what_changed_a_disturbed_measurement_is_told_before_what_rests_on_it() -> None:
    made = compared(measuring(*CLEAN, name="masked"), measuring(*DISTURBED))
    assert made.differs
    assert (
        "; memory was disturbed in B: what rests on it is not comparable; partial-offload "
        in made.headline
    )


def test_less_latency_is_no_ratio_of_rates() -> None:
    def waiting(seconds: float) -> Report:
        latency = Latency(
            name="dram_latency", other_threads=0, passes=9, spread_bytes=1 << 28,
            median_seconds=seconds, p10_seconds=seconds * 0.98, p90_seconds=seconds * 1.02,
        )  # fmt: skip
        return judged(replace(facts("fast"), latencies=(latency,)))

    pair = figure(compared(waiting(100e-9), waiting(150e-9)), "dram_latency@0")
    assert pair.certainty is Certainty.BEYOND
    assert pair.metric.more_is_better is False
    assert pair.ratio == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("share", "certainty"), [(0.99, Certainty.WITHIN), (0.5, Certainty.BEYOND)]
)
def test_a_disk_that_moves_a_little_is_as_it_was(share: float, certainty: Certainty) -> None:
    before = facts("fast")
    [root] = before.facts.disk.filesystems
    less = replace(root, available_bytes=round((root.available_bytes or 0) * share))
    disk = replace(before.facts.disk, filesystems=(less,))
    after = replace(before, facts=replace(before.facts, disk=disk))
    pair = figure(compared(judged(before), judged(after)), "disk_available@/")
    assert pair.certainty is certainty


def test_a_counter_that_grew_is_a_difference_and_has_no_ratio() -> None:
    before = facts("fast")
    gpus = tuple(replace(g, ecc_volatile_correctable=n) for n, g in enumerate(before.facts.gpus))
    more = tuple(replace(g, ecc_volatile_correctable=n + 12) for n, g in enumerate(gpus))
    one, other = (
        judged(replace(before, facts=replace(before.facts, gpus=cards))) for cards in (gpus, more)
    )
    pair = figure(compared(one, other), "ecc_corrected@0000:01:00.0")
    assert (pair.ratio, pair.certainty) == (None, Certainty.BEYOND)
    assert compared(one, other).headline.startswith(
        "ECC errors corrected rose 3 -> 39 on 0000:01:00.0, 0000:02:00.0 and 0000:03:00.0. "
    )
    assert compared(other, one).headline.startswith(
        "ECC errors corrected (0000:01:00.0) 12 -> 0; ECC errors corrected (0000:02:00.0) 13 -> 1; "
    )


def with_errors(report: Report, errors: int, kernel: str) -> Report:
    """Its first file system has counted so many."""
    first, *rest = report.facts.disk.filesystems
    disk = replace(report.facts.disk, filesystems=(replace(first, errors_count=errors), *rest))
    host = replace(report.host, kernel=kernel)
    return judged(replace(report, host=host, facts=replace(report.facts, disk=disk)))


def test_what_fell_and_what_failed_is_told_beside_what_changed() -> None:
    """Bad news is no detail of another kernel."""

    def rates(factor: float, latency: float) -> Report:
        decode = replace(read(30 * factor, 30 * factor, 30 * factor), name="decode_q4_k")
        waiting = Latency(
            name="dram_latency", other_threads=0, passes=9, spread_bytes=1 << 28,
            median_seconds=latency, p10_seconds=latency, p90_seconds=latency,
        )  # fmt: skip
        found = [read(n * rate, n * rate, n * rate, threads=n)
                 for n, rate in ((1, 12 * factor), (8, 5 * factor**1.2))]  # fmt: skip
        return replace(facts("fast"), measurements=(*found, decode), latencies=(waiting,))

    made = compared(
        with_errors(rates(1.0, 100e-9), 0, "6.8.0-60-generic"),
        with_errors(rates(0.86, 80e-9), 7, "6.8.0-61-generic"),
    )
    assert made.headline.startswith(
        "kernel 6.8.0-60-generic -> 6.8.0-61-generic; "
        "memory read 14-17 % slower, decode from cache (q4_k, 8 threads) 14 % slower and "
        "memory latency 20 % shorter; file system errors rose 0 -> 7 on /; "
    )
    assert AGAIN not in made.headline


def test_of_many_rates_the_worst_are_named() -> None:
    def rates(factor: float) -> Report:
        names = ("dram_read", "dram_write", "dram_copy", "dram_triad")
        return measuring(*(
            replace(read(rate, rate, rate), name=name)
            for rate, name in ((40 * factor**n, name) for n, name in enumerate(names, 1))
        ))  # fmt: skip

    said = compared(rates(1.0), rates(0.8)).headline
    assert said.startswith(
        "memory triad (8 threads) 59 % slower, memory copy (8 threads) 49 % slower, memory write "
        "(8 threads) 36 % slower and 1 more; "
    )


# --- what one of them could not see ---


def test_a_report_without_measurements_clears_no_finding() -> None:
    quick = replace(facts("masked"), measurements=())
    made = compared(node("masked"), judged(quick))
    assert finding(made, "mem.bandwidth_low").outcome is Outcome.UNSEEN
    assert figure(made, "dram_read@8").certainty is Certainty.ONE_SIDED
    assert made.headline.startswith("memory was measured in A alone; ")


@pytest.mark.parametrize(
    "disturbed",
    [
        (read(4.7, 4.0, 9.0, "contended"),),
        (read(13, threads=1), read(4.7, 4.0, 9.0, "contended")),  # one thread alone is no floor
    ],
)
def test_a_disturbed_measurement_clears_no_finding(disturbed: tuple[Measurement, ...]) -> None:
    slow = measuring(read(11.7, 11.6, 11.8))
    made = compared(slow, measuring(*disturbed))
    assert finding(made, "mem.bandwidth_low").outcome is Outcome.UNSEEN
    assert "emory was disturbed in B: what rests on it is not comparable" in made.headline
    back = compared(measuring(*disturbed), slow)
    assert finding(back, "mem.bandwidth_low").outcome is Outcome.UNSEEN


def without_driver(report: Report) -> Report:
    """Its cards are known from PCI alone, as the driver does not answer."""
    cards = tuple(
        Gpu(index=g.index, pci_address=g.pci_address, vendor="nvidia", seen_by=("pci",))
        for g in report.facts.gpus
    )
    gpu = replace(report.facts.gpu, state="unresponsive")
    hangs = Gap(check="gpu", field="gpus", reason=Reason.TIMEOUT, detail="NVML: no answer")
    made = replace(report, facts=replace(report.facts, gpus=cards, gpu=gpu), gaps=(hangs,))
    return judged(made)


def without(check: str, report: Report) -> Report:
    """The probe of a check died."""
    blank = msgspec.convert({}, type(getattr(report.facts, check)))
    dead = Gap(check=check, field="*", reason=Reason.FAILED, detail="the probe died")
    made = replace(report, facts=replace(report.facts, **{check: blank}), gaps=(dead,))
    return judged(made)


@pytest.mark.parametrize(
    ("blind", "lost"),
    [
        (without_driver, {"tensor-parallel", "partial-offload", "host-kv-pool"}),
        (lambda report: without("cpu", report), {"partial-offload", "cpu-only"}),
        (lambda report: without("disk", report), {"model-load"}),
    ],
)
def test_what_one_side_could_not_judge_has_not_gone(
    blind: Callable[[Report], Report], lost: set[str]
) -> None:
    seeing = node("fast")
    for made in (compared(seeing, blind(seeing)), compared(blind(seeing), seeing)):
        unseen = {s.strategy for s in made.strategies if s.unseen}
        assert unseen == lost
        assert not any(s.moved for s in made.strategies if s.unseen)
        assert not any(name in made.headline for name in unseen)
        assert "What the node can do is unchanged" not in made.headline


def test_a_log_that_could_not_be_read_clears_no_xid() -> None:
    clean = facts("fast")
    xid = Xid(code=48, pci_address="0000:01:00.0", text="DBE (double bit error)")
    logs = {
        "hit": KernelLogFacts(source="dmesg", xids=(xid,)),
        "quiet": KernelLogFacts(source="dmesg"),
        "unread": KernelLogFacts(),
    }
    denied = Gap(check="kernel_log", field="source", reason=Reason.DENIED, detail="dmesg: denied")
    said = {
        name: judged(
            replace(
                clean,
                facts=replace(clean.facts, kernel_log=log),
                gaps=() if log.source else (denied,),
            )
        )
        for name, log in logs.items()
    }
    assert finding(compared(said["hit"], said["quiet"]), "gpu.xid").outcome is Outcome.CLEARED
    assert finding(compared(said["hit"], said["unread"]), "gpu.xid").outcome is Outcome.UNSEEN
    assert finding(compared(said["quiet"], said["hit"]), "gpu.xid").outcome is Outcome.APPEARED
    assert finding(compared(said["unread"], said["hit"]), "gpu.xid").outcome is Outcome.UNSEEN
    assert not compared(said["unread"], said["hit"]).differs


# --- what keeps two reports from being alike ---


def test_strategies_for_two_models_are_not_compared() -> None:
    small = from_numbers("q8_0 model", 8 << 30, 32, "q8_0")
    other = judged(replace(facts("host type"), workload=small))
    made = compared(node("masked"), other)
    assert made.strategies == ()
    [note] = made.notes
    assert note.startswith("judged for two models, 27B dense, 4-bit in A and q8_0 model in B")
    assert "tok/s" not in made.headline


def test_one_model_in_two_places_is_one_model() -> None:
    work = from_numbers("q4_k model", 16 << 30, 64, "q4_k")
    sides = [
        judged(replace(facts(name), workload=replace(work, storage=Storage(path=path))))
        for name, path in (("masked", "/srv/a.gguf"), ("host type", "/data/a.gguf"))
    ]
    made = compared(*sides)
    assert made.notes == ()
    assert strategy(made, "cpu-only").moved


def test_two_nodes_and_two_versions_are_told() -> None:
    one, other = (
        judged(replace(r, host=replace(r.host, name=name), nodecheck_version=version))
        for r, name, version in (
            (facts("masked"), "gpu-01", "0.1.0"), (facts("fast"), "gpu-02", "0.2.0"),
        )
    )  # fmt: skip
    made = compared(one, other)
    nodes, versions = made.notes
    assert nodes == "two nodes, gpu-01 and gpu-02: a difference is no change of either"
    assert versions.startswith("made by nodecheck 0.1.0 and 0.2.0: what only one of them reads")
    assert not {"host name", "nodecheck"} & {t.name for t in made.traits}


@pytest.mark.parametrize("time", ["2026-11-29T10:00:00", "2026-11-29T12:00:00+02:00"])
def test_times_of_any_zone_have_an_order(time: str) -> None:
    earlier = judged(replace(facts("fast"), time="2026-11-29T10:30:00+00:00"))
    assert "B was made before A" in compared(earlier, replace(earlier, time=time)).notes
    assert compared(replace(earlier, time=time), earlier).notes == ()


def test_a_waiver_that_ran_out_between_the_two_is_a_change_of_severity() -> None:
    policy = Policy(
        waivers=(
            Waiver(
                id="cpu.hypervisor_masked",
                reason="nothing runs on the CPU",
                expires=datetime.date(2026, 11, 28),
            ),
        )
    )
    later = replace(facts("masked"), time=LATER)
    made = compared(judged(facts("masked"), policy), judged(later, policy))
    pair = finding(made, "cpu.hypervisor_masked")
    assert pair.outcome is Outcome.SEVERITY
    assert (pair.before, pair.after) == (Severity.INFO, Severity.CRITICAL)
    assert made.headline.startswith("cpu.hypervisor_masked info -> critical. What the node can do")


# --- strategies ---


def way(low: float | None, high: float | None, limit: str = "DRAM, 29.4 GB/s",
        viability: Viability = Viability.MARGINAL) -> Strategy:  # fmt: skip
    return Strategy(
        strategy="cpu-only", viability=viability, limit=limit, basis="", unit="tok/s", low=low,
        high=high,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        pytest.param(way(1.0, 2.0), way(1.05, 1.9), False, id="as runs repeat"),
        pytest.param(way(1.0, 2.0), way(1.0, 2.5), True, id="its end"),
        pytest.param(way(1.0, 2.0), way(1.0, 2.0, viability=Viability.VIABLE), True, id="verdict"),
        pytest.param(way(1.0, 2.0), way(1.0, 2.0, "DRAM, 28.8 GB/s"), False, id="limit's figure"),
        pytest.param(way(None, 2.0), way(1.0, 2.0), True, id="its lower end is known now"),
        pytest.param(
            way(None, None, "CPU cores"), way(None, None, "RAM"), True, id="why not known"
        ),
        pytest.param(way(None, None, "4 of 5"), way(None, None, "3 of 5"), False, id="figures"),
        pytest.param(way(None, None, "SSE2"), way(None, None, "SSE4"), True, id="names"),
    ],
)
def test_whether_a_strategy_moved(before: Strategy, after: Strategy, moved: bool) -> None:
    base = node("fast")
    made = compared(replace(base, strategies=(before,)), replace(base, strategies=(after,)))
    assert [s.moved for s in made.strategies] == [moved]
    assert made.differs == moved


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (way(0.2, 0.5), way(1.9, 2.6), "cpu-only 0.2-0.5 -> 1.9-2.6 tok/s."),
        (way(0.2, 0.5), way(None, None), "cpu-only 0.2-0.5 tok/s -> not known."),
        (way(None, 0.5), way(None, 5.0), "cpu-only <= 0.5 -> <= 5.0 tok/s."),
        (way(0.2, 0.5, viability=Viability.NOT_VIABLE), way(1.9, 2.6),
         "cpu-only not viable -> marginal."),
    ],
)  # fmt: skip
def test_how_a_strategy_moved_is_told(before: Strategy, after: Strategy, words: str) -> None:
    base = node("fast")
    made = compared(replace(base, strategies=(before,)), replace(base, strategies=(after,)))
    assert made.headline == words


def test_a_strategy_that_came_or_went_is_named() -> None:
    base = node("fast")
    without = replace(base, strategies=base.strategies[1:])
    assert compared(without, base).headline == "gpu-resident new."
    assert compared(base, without).headline == "gpu-resident gone."


# --- words ---


def with_cards(change: Callable[[tuple[Gpu, ...]], tuple[Gpu, ...]]) -> Report:
    seen = facts("fast")
    return judged(replace(seen, facts=replace(seen.facts, gpus=change(seen.facts.gpus))))


def test_cards_that_went_are_named_once_each() -> None:
    said = compared(node("fast"), with_cards(lambda cards: cards[:1])).headline
    assert "GPU gone: 0000:02:00.0 and 0000:03:00.0; " in said
    assert "PCIe link" not in said


def test_a_link_that_is_narrower_is_named_with_its_card() -> None:
    narrow = with_cards(lambda cards: (replace(cards[0], link_width=8), *cards[1:]))
    said = compared(node("fast"), narrow).headline
    assert said.startswith("PCIe link Gen4 x16 -> Gen4 x8: 0000:01:00.0; ")


def other_flags(report: Report) -> Report:
    cpu = report.facts.cpu
    more = replace(
        cpu, flags=(*(cpu.flags or ()), "md_clear"), usable_flags=(*(cpu.flags or ()), "md_clear")
    )
    return replace(report, facts=replace(report.facts, cpu=more))


def other_kernel(report: Report) -> Report:
    return replace(report, host=replace(report.host, kernel="6.8.0-60-generic"))


def paused(report: Report) -> Report:
    """An info finding more: no persistence mode."""
    gpus = tuple(replace(g, persistence=False) for g in report.facts.gpus)
    return replace(report, facts=replace(report.facts, gpus=gpus))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_flags, "CPU flags changed: 1 gained. What the node can do is unchanged."),
        (other_kernel, "kernel new: 6.8.0-60-generic. What the node can do is unchanged."),
        (paused, "gpu.persistence_off appeared. What the node can do is unchanged."),
    ],
)
def test_the_least_difference_is_in_the_sentence(
    change: Callable[[Report], Report], words: str
) -> None:
    made = compared(node("fast"), judged(change(facts("fast"))))
    assert made.differs
    assert made.headline == words


def test_no_two_comparisons_of_the_same_differ() -> None:
    made = [compared(node("masked"), node("fast")) for _ in range(2)]
    assert msgspec.json.encode(made[0]) == msgspec.json.encode(made[1])
