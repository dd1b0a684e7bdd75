"""The numbers of a report: named, in units, and told apart by what can be concluded from them."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.disk.facts import DiskFacts, Filesystem
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.checks.memory.facts import MemoryController, MemoryFacts
from nodecheck.checks.pcie.facts import Errors, Hop, Path, PcieFacts
from nodecheck.checks.seen import Facts
from nodecheck.model import Latency, Measurement
from nodecheck.records.figures import Figure, Kind, figures
from nodecheck.report import HostInfo, Report
from tests.nodes import dram, root, three_l40

ADDRESS = "0000:01:00.0"


def report(facts: Facts, *measurements: Measurement, latencies: tuple[Latency, ...] = ()) -> Report:
    return Report(
        nodecheck_version="1",
        time="2026-11-30T10:00:00+00:00",
        host=HostInfo(source="live", holds=()),
        facts=facts,
        measurements=measurements,
        latencies=latencies,
    )


def named(made: Report) -> dict[str, Figure]:
    return {figure.metric.name: figure for figure in figures(made)}


def test_a_measurement_has_its_threads_in_its_name_and_keeps_its_spread() -> None:
    row = replace(dram(11.7, 8, "contended"), p10_bytes_per_second=11e9, p90_bytes_per_second=12e9)
    made = named(report(Facts(), dram(7.4, 1), row))
    assert list(made) == ["dram_read@1", "dram_read@8"]
    figure = made["dram_read@8"]
    assert (figure.value, figure.low, figure.high) == (11.7e9, 11e9, 12e9)
    assert figure.flags == ("contended",)
    assert figure.metric.kind is Kind.RATE
    assert figure.metric.more_is_better is True


def test_nodes_of_memory_are_told_apart() -> None:
    far = replace(dram(9.0, 8), cpu_node=0, memory_node=1)
    assert set(named(report(Facts(), dram(11.7, 8), far))) == {
        "dram_read@8", "dram_read@8,node0-node1",
    }  # fmt: skip


def test_less_latency_is_better() -> None:
    latency = Latency(
        name="dram_latency",
        other_threads=0,
        median_seconds=9e-8,
        p10_seconds=8e-8,
        p90_seconds=1e-7,
        passes=9,
        spread_bytes=1 << 30,
    )
    figure = named(report(Facts(), latencies=(latency,)))["dram_latency@0"]
    assert (figure.value, figure.metric.unit, figure.metric.more_is_better) == (9e-8, "s", False)


def test_room_is_that_of_file_systems_that_keep_files() -> None:
    others = (
        Filesystem(mount="/tmp", fstype="tmpfs", device="tmpfs", device_number="0:1"),
        Filesystem(
            mount="/nfs", fstype="nfs4", device="a:/", device_number="0:2", persistent=True,
            network=True, available_bytes=5,
        ),
        replace(root(7, 9), mount="/hung", available_bytes=None, hung=True),
    )  # fmt: skip
    made = named(report(Facts(disk=DiskFacts(filesystems=(root(57, 950), *others)))))
    assert {n: f.value for n, f in made.items()} == {"disk_available@/": 57.0}
    assert made["disk_available@/"].metric.kind is Kind.ROOM


def test_counters_of_cards_links_memory_disks_and_the_kernel_log() -> None:
    errors = Errors(
        correctable=4, nonfatal=5, fatal=1, nonfatal_names={"UnsupReq": 3, "CmpltTO": 2}
    )
    hops = (Hop(address=ADDRESS, aer=errors), Hop(address="0000:00:01.0"))
    facts = Facts(
        gpus=(Gpu(pci_address=ADDRESS, ecc_volatile_correctable=3, pcie_replays=9),),
        pcie=PcieFacts(paths=(Path(accelerator=ADDRESS, hops=hops),)),
        memory=MemoryFacts(
            controllers=(MemoryController(name="mc0", correctable=2, uncorrectable=0),)
        ),
        disk=DiskFacts(filesystems=(replace(root(57, 950), errors_count=1),)),
        kernel_log=KernelLogFacts(
            source="dmesg",
            xids=(
                Xid(code=63, pci_address=ADDRESS, text="Row Remapper", count=2),
                Xid(code=63, pci_address=ADDRESS, text="another"),
                Xid(code=79, pci_address=None, text="fell off"),
            ),
        ),
    )  # fmt: skip
    counted = {
        name: figure.value
        for name, figure in named(report(facts)).items()
        if figure.metric.kind is Kind.COUNTER
    }
    assert counted == {
        f"ecc_corrected@{ADDRESS}": 3, f"pcie_replays@{ADDRESS}": 9,
        f"aer_correctable@{ADDRESS}": 4, f"aer_nonfatal@{ADDRESS}": 2, f"aer_fatal@{ADDRESS}": 1,
        "ram_corrected@mc0": 2, "ram_uncorrected@mc0": 0, "disk_errors@/": 1,
        f"xid_63@{ADDRESS}": 3, "xid_79@unknown": 1,
    }  # fmt: skip


def test_free_memory_is_momentary() -> None:
    made = named(report(three_l40().facts))
    assert made["memory_available"].metric.kind is Kind.MOMENTARY


def test_of_two_with_one_name_the_first_counts() -> None:
    made = figures(report(Facts(), dram(7.0, 1), dram(9.0, 1)))
    assert [figure.value for figure in made] == [7e9]
