"""What a node is: words that stay until something changes it, and what nobody could look at."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.memory.facts import Dimm, MemoryFacts
from nodecheck.checks.seen import Facts
from nodecheck.diagnose import diagnose
from nodecheck.model import Gap, Reason
from nodecheck.policy import Policy
from nodecheck.records.state import State, state
from nodecheck.report import Report
from nodecheck.units import GIB
from tests.nodes import AVX2, three_l40
from tests.records.test_figures import report


def three(flags: tuple[str, ...] | None = None) -> Report:
    seen = three_l40(flags) if flags else three_l40()
    return diagnose(report(seen.facts, *seen.measurements), Policy())


def words(of: State) -> dict[str, str | tuple[str, ...]]:
    return {f"{t.name}@{t.where}" if t.where else t.name: t.value for t in of.traits}


def test_a_node_in_words() -> None:
    told = words(state(three()))
    assert told["GPU@0000:01:00.0"] == "NVIDIA L40"
    assert told["PCIe link@0000:03:00.0"] == "Gen4 x16"
    assert told["CPUs"] == "8"
    assert told["file system@/"] == "ext4, 950 GiB"
    assert "sse2" in told["CPU flags"]
    assert "" not in told.values()


def test_what_comes_and_goes_by_itself_is_no_part_of_it() -> None:
    made = three()
    facts = made.facts
    later = replace(
        made,
        time="2026-12-24T10:00:00+00:00",
        facts=replace(
            facts,
            memory=replace(facts.memory, available_bytes=1),
            gpus=tuple(replace(g, link_generation=1, temperature_celsius=80) for g in facts.gpus),
        ),
    )
    assert state(later) == state(made)


def test_findings_are_told_with_the_check_that_judges_them() -> None:
    found = {(told.check, told.id) for told in state(three()).findings}
    assert ("cpu", "cpu.hypervisor_masked") not in found  # no hypervisor's name for the CPU
    assert ("disk", "disk.low") in found
    assert all(told.check for told in state(three()).findings)


def test_other_flags_are_another_state() -> None:
    assert words(state(three(AVX2)))["x86-64 level"] == "v3"
    assert state(three(AVX2)) != state(three())


def test_a_slot_is_named_with_its_bank() -> None:
    dimms = (
        Dimm(locator="A1", bank="P0", size_bytes=32 * GIB, configured_mts=3200),
        Dimm(locator="A2", size_bytes=0),
    )
    told = words(state(report(Facts(memory=MemoryFacts(dimms=dimms)))))
    assert told["DIMM@P0 A1"] == "32 GiB, 3200 MT/s"
    assert "DIMM@A2" not in told


def test_what_could_not_be_read_is_unseen() -> None:
    gaps = (
        Gap(check="gpu", field="*", reason=Reason.TIMEOUT, detail="NVML did not answer"),
        Gap(check="memory", field="dimms", reason=Reason.DENIED, detail="root only"),
    )
    seen = state(replace(three(), gaps=gaps))
    assert not seen.looked_at("gpu", "gpus")
    assert not seen.looked_at("memory", "dimms")
    assert seen.looked_at("memory", "total_bytes")


def test_without_kernels_memory_was_not_looked_at() -> None:
    assert not state(replace(three(), measurements=())).looked_at("dram", "*")
    assert state(three()).looked_at("dram", "*")
