"""Copies on a node whose sysfs tells of links, replays and ways."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodecheck.model import Reason, Transfer
from tests.checks.cuda.commands import OURS, Node, live, node
from tests.checks.gpu.inputs import device, port
from tests.fake_cuda.build import fake_cuda, left, log
from tests.fake_nvml.build import fake_nvml
from tests.trees import Tree, plant

__all__ = ["fake_cuda", "fake_nvml", "node"]

ROOT, UPLINK = "0000:00:01.0", "0000:10:00.0"
CARDS = ("0000:01:00.0", "0000:02:00.0")


def planted(place: Path, tree: Tree) -> Path:
    plant({"proc/driver/nvidia/version": "NVRM version: x  580.65.06  y", **tree}, place / "tree")
    return place / "tree"


def of(transfers: tuple[Transfer, ...], name: str) -> Transfer:
    return next(each for each in transfers if each.name == name)


@pytest.mark.parametrize(
    ("speed", "lanes", "found"),
    [
        ("16.0 GT/s PCIe", "16", []),
        ("8.0 GT/s PCIe", "16", ["pcie.speed_below_max"]),
    ],
)
def test_the_link_is_read_while_copies_run(
    node: Node, speed: str, lanes: str, found: list[str]
) -> None:
    card = device(CARDS[0], ROOT, now=(speed, lanes))
    tree = planted(node.place, {**card, **port(ROOT, now=(speed, lanes))})
    rate = 26.2 if found == [] else 12.6
    environment = node.environment(cards=[{"h2d": rate, "d2h": rate}])
    report = live(environment, tree, 3)
    each = of(report.transfers, "host_to_device")
    assert (each.link_gts, each.link_width) == (float(speed.split(maxsplit=1)[0]), 16)
    assert [f.id for f in report.findings if f.id in (*OURS, "pcie.speed_below_max")] == found


def test_replays_are_those_of_the_copies(node: Node) -> None:
    tree = planted(node.place, {**device(CARDS[0], ROOT), **port(ROOT)})
    report = live(node.environment(driver=[{"pcie_replays": "3,3,3,500"}]), tree, 3)
    each = of(report.transfers, "host_to_device")
    assert each.replays is not None
    assert each.replay_seconds is not None
    assert 1 < each.replay_seconds < 20


def test_cards_behind_one_switch_are_told_by_their_way(node: Node) -> None:
    above = f"{ROOT}/{UPLINK}"
    tree: Tree = {**port(ROOT), **port(UPLINK, ROOT)}
    for number, card in enumerate(CARDS):
        down = f"0000:11:0{number}.0"
        tree |= {**port(down, above), **device(card, f"{above}/{down}")}
    environment = node.environment(driver=[{}, {}], cards=[{"uplink": "left"}] * 2, uplink_left=26)
    report = live(environment, planted(node.place, tree), 60)
    (finding,) = [f for f in report.findings if f.id in OURS]
    assert finding.id == "pcie.shared_uplink"
    assert UPLINK in (finding.evidence[0].basis or "")
    assert len([each for each in report.transfers if each.cards == 2]) == 4
    peers = {(t.card, t.peer) for t in report.transfers if t.name == "peer_to_peer"}
    assert peers == {CARDS, CARDS[::-1]}
    assert left(node.place) == {}
    made = [words[1] for words in log(node.place) if words[0] == "+context"]
    assert sorted(made) == ["0", "1"]  # one process for all: the driver is started once


def test_a_copy_that_hangs_ends_and_is_what_programs_get(node: Node) -> None:
    tree = planted(node.place, {**device(CARDS[0], ROOT), **port(ROOT)})
    environment = node.environment(driver=[{}, {}], cards=[{"cuMemcpyDtoHAsync_v2": "hang@3"}, {}])
    report = live(environment, tree, 9)
    assert [each.name for each in report.transfers] == ["host_to_device"]
    assert report.facts.cuda.state == "unresponsive"
    assert report.facts.cuda.call == "cuMemcpyDtoHAsync_v2"
    (finding,) = [f for f in report.findings if f.id in OURS]
    assert finding.summary == "CUDA hangs in copies from the card: GPU 0"
    assert finding.subject.endswith(f"{CARDS[0]})")
    assert "Programs start on 1 card and hang" in finding.impact
    assert finding.evidence[0].value.startswith("cuMemcpyDtoHAsync_v2: no answer within 3")
    details = [gap.detail for gap in report.gaps if gap.check == "cuda"]
    for about in ("GPU 0", "GPU 1", "2 GPUs at once"):
        assert any(about in d and "not tried, since CUDA hangs" in d for d in details), details


def test_a_library_that_dies_in_a_copy_leaves_what_was_measured(node: Node) -> None:
    tree = planted(node.place, {**device(CARDS[0], ROOT), **port(ROOT)})
    environment = node.environment(driver=[{}, {}], cards=[{"cuMemcpyDtoHAsync_v2": "crash@3"}, {}])
    report = live(environment, tree, 9)
    assert {(each.card, each.name) for each in report.transfers} >= {
        (CARDS[0], "host_to_device"),
        (CARDS[1], "device_to_host"),
    }
    gaps = [gap for gap in report.gaps if gap.check == "cuda" and "SIG" in gap.detail]
    assert {gap.reason for gap in gaps} == {Reason.FAILED}
    assert gaps != []
    assert [g.detail for g in gaps if "cuMemcpyDtoHAsync_v2: died by SIGSEGV" not in g.detail] == []
    (finding,) = [f for f in report.findings if f.id in OURS]
    assert finding.subject.endswith(f"{CARDS[0]})")


def without_cuda(node: Node) -> dict[str, str]:
    environment = node.environment()
    environment["LD_LIBRARY_PATH"] = environment["LD_LIBRARY_PATH"].split(os.pathsep)[-1]
    return environment


@pytest.mark.parametrize(
    ("container", "words"), [(False, "libnvidia-compute"), (True, "NVIDIA_DRIVER_CAPABILITIES")]
)
def test_a_library_that_is_not_there_is_told(node: Node, container: bool, words: str) -> None:
    tree: Tree = {**device(CARDS[0], ROOT), **port(ROOT)}
    tree |= {".dockerenv": ""} if container else {}
    report = live(without_cuda(node), planted(node.place, tree))
    assert report.facts.cuda.state == "missing"
    (finding,) = [f for f in report.findings if f.id in OURS]
    assert words in finding.remedy.text


def test_a_device_file_that_is_not_there_is_told(node: Node) -> None:
    tree: Tree = {**device(CARDS[0], ROOT), **port(ROOT), "dev/null": "", "dev/nvidia0": ""}
    report = live(node.environment(cuInit="!999"), planted(node.place, tree))
    assert report.facts.cuda.uvm is False
    (finding,) = [f for f in report.findings if f.id in OURS]
    assert "/dev/nvidia-uvm is not there" in finding.summary
    (node.place / "tree" / "dev" / "nvidia-uvm").write_text("")
    assert live(node.environment(cuInit="!999"), node.place / "tree").facts.cuda.uvm is True
