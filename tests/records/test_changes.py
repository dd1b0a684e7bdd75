"""Changes of a node: what came, went or changed, and not what could not be seen for a while."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodecheck import checks
from nodecheck.checks import CHECKS
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.dram.facts import DramFacts
from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.memory.facts import Dimm
from nodecheck.checks.seen import Seen
from nodecheck.collect import collect
from nodecheck.diagnose import diagnose
from nodecheck.model import Gap, Reason, Severity
from nodecheck.policy import Policy
from nodecheck.records.differences import READS, Difference, differences
from nodecheck.records.history import changes as module
from nodecheck.records.history.changes import Change, changes
from nodecheck.records.series import HOUR, Window
from nodecheck.records.state import State, Told, Trait
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import GIB
from tests.checks.dram.examples import RAISES, SILENT
from tests.checks.engine.engines import THROTTLED
from tests.nodes import AVX2, l40, root, three_l40
from tests.records.windows import FIRST, assembled, judged, three, window
from tests.trees import Tree, plant

CARDS = tuple(replace(l40(n), seen_by=("nvml", "pci"), pci_device_id="10de:26b5") for n in range(3))
DRIVER = GpuFacts(state="ok", source="nvml", driver_version="550.54.15", cuda_version="12.4")


def node(gpus: tuple[Gpu, ...] = CARDS, gpu: GpuFacts = DRIVER, **facts: object) -> Report:
    return three(gpus=gpus, gpu=gpu, **facts)


def hung() -> Report:
    """NVML did not answer: the cards are known from PCI alone."""
    alone = tuple(
        Gpu(pci_address=c.pci_address, vendor="nvidia", name="NVIDIA device 26b5",
            pci_device_id=c.pci_device_id, seen_by=("pci",))
        for c in CARDS
    )  # fmt: skip
    made = node(alone, GpuFacts(state="unresponsive", source="nvml"))
    gap = Gap(check="gpu", field="gpus", reason=Reason.TIMEOUT, detail="3 cards from PCI alone")
    return replace(made, gaps=(gap,))


def quick(made: Report) -> Report:
    """Of the same node, without kernels."""
    facts = replace(made.facts, dram=DramFacts(skipped="not asked for"))
    return judged(replace(made, facts=facts, measurements=()))


def told(*reports: Report) -> list[Difference]:
    return [each.difference for each in changes(window(*reports))]


def trait(name: str, before: str | None, after: str | None, where: str | None = None) -> Difference:
    return Difference(kind="trait", name=name, where=where, before=before, after=after)


def test_what_changed_is_told_newest_first_with_the_snapshot_that_showed_it() -> None:
    newer = replace(DRIVER, driver_version="560.35.03", cuda_version="12.6")
    colder = replace(node(gpu=newer), host=replace(node().host, kernel="6.8.0"))
    found = changes(window(node(), node(), node(gpu=newer), colder, colder))
    assert found == (
        Change(time=FIRST + 3 * HOUR, snapshot=4, first=FIRST + 3 * HOUR,
               difference=trait("kernel", "6.1.0", "6.8.0")),
        Change(time=FIRST + 2 * HOUR, snapshot=3, first=FIRST + 2 * HOUR,
               difference=trait("GPU driver", "550.54.15", "560.35.03")),
        Change(time=FIRST + 2 * HOUR, snapshot=3, first=FIRST + 2 * HOUR,
               difference=trait("CUDA", "12.4", "12.6")),
    )  # fmt: skip


def test_nothing_changes_where_nothing_does() -> None:
    assert told() == []
    assert told(node()) == []
    assert told(node(), node(), node()) == []


def test_flags_are_told_as_gained_and_lost() -> None:
    wider = judged(replace(node(), facts=replace(node().facts, cpu=three_l40(AVX2).facts.cpu)))
    found = {each.name: each for each in told(node(), wider)}
    assert "avx2" in found["CPU flags"].gained
    assert found["CPU flags"].lost == ()
    assert found["x86-64 level"] == trait("x86-64 level", "v1", "v3")
    assert "avx2" in {each.name: each for each in told(wider, node())}["CPU flags"].lost


def full_disk(available_gib: int) -> Report:
    disk = replace(node().facts.disk, filesystems=(root(available_gib * GIB, 950 * GIB),))
    return node(disk=disk)


def test_a_finding_appears_gets_worse_and_clears() -> None:
    found = [d for d in told(full_disk(600), full_disk(57), full_disk(2), full_disk(600))
             if d.name.startswith("disk.")]  # fmt: skip
    assert [(d.name, d.before, d.after) for d in reversed(found) if d.name == "disk.low"] == [
        ("disk.low", None, "warning"),
        ("disk.low", "warning", "critical"),
        ("disk.low", "critical", None),
    ]
    assert {d.kind for d in found} == {"finding"}
    assert {d.where for d in found} == {"/"}


def test_a_hung_driver_is_told_and_takes_no_card_away() -> None:
    found = told(node(), hung(), hung(), node())
    assert all(each.kind == "finding" for each in found)
    assert {each.name for each in found} == {f.id for f in hung().findings} - {
        f.id for f in node().findings
    }


def test_a_probe_that_timed_out_changes_nothing() -> None:
    gap = Gap(check="gpu", field="*", reason=Reason.TIMEOUT, detail="the gpu probe hung")
    blind = replace(three(gpus=(), gpu=GpuFacts()), gaps=(gap,))
    assert told(node(), blind, node(), blind, blind, node()) == []


def test_what_a_hung_driver_hid_is_told_when_it_answers() -> None:
    found = told(node(), hung(), node(CARDS[:2]))
    assert trait("GPU", "NVIDIA L40", None, "0000:03:00.0") in found


def measuring(example: Tree | Seen, folder: Path) -> Report:
    """A guest with figures of its memory in its capture."""
    assert isinstance(example, dict)
    return judged(collect(plant(example, folder)))


def test_without_kernels_nothing_of_memory_clears_or_comes_back(tmp_path: Path) -> None:
    slow = measuring(RAISES["mem.bandwidth_low"], tmp_path / "slow")
    assert any(f.id == "mem.bandwidth_low" for f in slow.findings)
    assert told(slow, quick(slow), quick(slow), slow, quick(slow)) == []


def test_what_was_measured_again_and_is_well_clears(tmp_path: Path) -> None:
    slow = measuring(RAISES["mem.bandwidth_low"], tmp_path / "slow")
    well = measuring(SILENT["mem.bandwidth_low"], tmp_path / "well")
    found = {each.name: each for each in told(slow, quick(slow), well)}
    assert found["mem.bandwidth_low"].after is None


def test_a_card_that_went_is_told_once() -> None:
    found = [each for each in told(node(), node(CARDS[:2])) if each.kind == "trait"]
    assert found == [trait("GPU", "NVIDIA L40", None, "0000:03:00.0")]
    found = [each for each in told(node(CARDS[:2]), node()) if each.kind == "trait"]
    assert found == [trait("GPU", None, "NVIDIA L40", "0000:03:00.0")]


def test_a_card_that_left_the_bus_behind_a_hung_driver_is_told() -> None:
    fewer = replace(hung(), facts=replace(hung().facts, gpus=hung().facts.gpus[:2]))
    assert trait("PCI device", "10de:26b5", None, "0000:03:00.0") in told(node(), hung(), fewer)


def test_a_limit_that_was_set_is_a_change_of_a_card_that_stays() -> None:
    cards = (replace(CARDS[0], power_limit_watts=300.0), *CARDS[1:])
    lower = (replace(CARDS[0], power_limit_watts=200.0), *CARDS[1:])
    assert trait("power limit", "300 W", "200 W", "0000:01:00.0") in told(node(cards), node(lower))


def with_dimms(speed: int | None) -> Report:
    """As root sees it; None is who may not."""
    memory = node().facts.memory
    if speed is None:
        denied = Gap(check="memory", field="dimms", reason=Reason.DENIED, detail="root only")
        return replace(node(), gaps=(denied,))
    slots = (Dimm(locator="A1", size_bytes=32 * GIB, configured_mts=speed),)
    return node(memory=replace(memory, dimms=slots))


def test_what_only_root_sees_neither_comes_nor_goes() -> None:
    assert told(with_dimms(None), with_dimms(3200), with_dimms(None), with_dimms(3200)) == []


def test_what_changed_meanwhile_is_told_when_it_is_seen_again() -> None:
    found = told(with_dimms(3200), with_dimms(None), with_dimms(2133))
    assert found == [trait("DIMM", "32 GiB, 3200 MT/s", "32 GiB, 2133 MT/s", "A1")]


def test_a_slow_link_is_not_cleared_by_a_driver_that_does_not_answer() -> None:
    """It is judged by what the driver says of the card's load."""
    slow = Told("pcie", "pcie.link_degraded", "0000:01:00.0", Severity.WARNING)
    seen = State(findings=(slow,))
    silent = State(unseen=("gpu.gpus",))
    assert differences(seen, silent) == ()
    assert differences(silent, seen) == ()
    assert len(differences(seen, State())) == 1
    assert len(differences(seen, State(unseen=("gpu.gpus.mig",)))) == 1


def test_a_gap_that_was_there_before_keeps_no_finding() -> None:
    low = Told("disk", "disk.low", "/", Severity.WARNING)
    gaps = ("disk.thin_pools",)
    assert len(differences(State(findings=(low,), unseen=gaps), State(unseen=gaps))) == 1
    assert differences(State(findings=(low,)), State(unseen=gaps)) == ()


def test_a_dead_probe_clears_no_finding_of_another_check() -> None:
    """mem.bandwidth_low rests on how many CPUs there are."""
    sick = node()
    assert "mem.bandwidth_low" in {finding.id for finding in sick.findings}
    dead = Gap(check="cpu", field="*", reason=Reason.FAILED, detail="the cpu probe: died")
    blind = judged(replace(node(cpu=CpuFacts()), gaps=(dead,)))
    assert "mem.bandwidth_low" not in {finding.id for finding in blind.findings}
    assert told(sick, blind, sick) == []


def test_an_engine_that_nobody_watches_is_no_change() -> None:
    slow = judged(replace(node(), facts=replace(node().facts, engine=THROTTLED)))
    assert "engine.throttled_quota" in {finding.id for finding in slow.findings}
    assert told(node(), slow, node()) == []


@pytest.mark.parametrize("check", CHECKS)
def test_the_facts_of_others_that_a_check_rests_on_are_known(check: str) -> None:
    folder = Path(checks.__path__[0]) / check
    text = "".join(p.read_text() for p in folder.glob("*.py") if p.name != "probe.py")
    used = set(re.findall(r"seen\.facts\.(gpus|kernel_log)\b", text))
    named = {"gpus": ("gpu", "gpus"), "kernel_log": ("kernel_log", "source")}
    assert set(READS.get(check, ())) == {named[each] for each in used if each[:3] != check}


def test_what_goes_to_and_fro_is_told_once() -> None:
    slow = tuple(replace(card, link_generation_max=3) for card in CARDS[:1]) + CARDS[1:]
    found = changes(window(*[node(), node(slow)] * 10))
    links = [each for each in found if each.difference.name == "PCIe link"]
    assert len(links) == 1
    assert links[0].repeats == 19
    assert (links[0].first, links[0].time) == (FIRST + HOUR, FIRST + 19 * HOUR)
    assert links[0].difference == trait("PCIe link", "Gen4 x16", "Gen3 x16", "0000:01:00.0")


def test_there_and_back_is_told_in_full() -> None:
    found = changes(window(full_disk(600), full_disk(57), full_disk(600)))
    assert [(each.difference.name, each.repeats) for each in found] == [("disk.low", 1)] * 2


def test_one_driver_after_the_other_is_no_going_to_and_fro() -> None:
    drivers = [replace(DRIVER, driver_version=str(version)) for version in range(530, 590, 10)]
    found = changes(window(*(node(gpu=each) for each in drivers)))
    assert [each.difference.after for each in found] == ["580", "570", "560", "550", "540"]


def test_another_nodecheck_stands_before_what_it_found() -> None:
    newer = replace(full_disk(57), nodecheck_version="2")
    found = told(full_disk(600), newer)
    assert found[0] == trait("nodecheck", "1", "2")
    assert [each.name for each in found[1:]] == ["disk.low"]


def test_another_policy_stands_before_what_it_found() -> None:
    strict = Policy(name="strict", thresholds=Thresholds(disk_low_share=0.01))
    lax = Policy(name="lax", thresholds=Thresholds(disk_low_share=0.99))
    found = told(diagnose(node(), lax), diagnose(node(), strict))
    assert (found[0].name, found[1].name) == ("policy", "disk.low")


def test_the_gravest_finding_stands_first() -> None:
    several = State(findings=(
        Told("cpu", "cpu.a", "CPU", Severity.INFO),
        Told("cpu", "cpu.b", "CPU", Severity.CRITICAL),
        Told("disk", "disk.low", "/", Severity.WARNING),
    ))  # fmt: skip
    assert [each.name for each in differences(State(), several)] == ["cpu.b", "disk.low", "cpu.a"]


def test_a_month_of_going_to_and_fro_compares_each_pair_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []

    def counted(before: State, after: State) -> tuple[Difference, ...]:
        compared.append((before, after))
        return differences(before, after)

    monkeypatch.setattr(module, "differences", counted)
    up = State(traits=(Trait("gpu", "gpus.link_width", "PCIe link", "0", "Gen4 x16"),))
    down = State(traits=(Trait("gpu", "gpus.link_width", "PCIe link", "0", "Gen3 x16"),))
    (found,) = changes(assembled(*[(up, ()), (down, ())] * 20_000, every=60))
    assert found.repeats == 39_999
    assert len(compared) <= 3


def test_no_snapshot_is_no_change() -> None:
    assert changes(Window()) == ()


def test_the_pool_of_a_file_system_may_fill_without_a_change() -> None:
    sizes = [replace(root(57 * GIB, total * GIB), fstype="zfs") for total in (950, 940)]
    disks = [replace(node().facts.disk, filesystems=(each,)) for each in sizes]
    assert [d for d in told(*(node(disk=each) for each in disks)) if d.kind == "trait"] == []
