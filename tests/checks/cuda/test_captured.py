"""What a capture holds of CUDA is read; what is not ours is a gap."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.cuda.facts import CudaFacts, CudaProbe
from nodecheck.checks.cuda.probe import probe
from nodecheck.collect import collect
from nodecheck.machine.reader import Reader
from nodecheck.model import Gap, pretty_json
from tests.checks.cuda.nodes import failed, whole
from tests.trees import Tree, plant


def read(tree: Tree, place: Path) -> tuple[CudaProbe, list[Gap]]:
    reader = Reader(plant(tree, place), "cuda")
    return probe(reader, "auto"), reader.gaps


def test_both_files_come_back_as_they_were_written(tmp_path: Path) -> None:
    facts = failed(802, "CUDA_ERROR_SYSTEM_NOT_READY", uvm=True)
    tree: Tree = {
        "cuda.json": pretty_json(facts),
        "measurements.json": pretty_json({"measurements": [], "transfers": whole(0)}),
    }
    found, gaps = read(tree, tmp_path)
    assert found == CudaProbe(facts=facts, transfers=whole(0))
    assert gaps == []


def test_a_report_of_the_tree_holds_them(tmp_path: Path) -> None:
    tree: Tree = {
        "cuda.json": pretty_json(CudaFacts(state="ok", version="13.0")),
        "measurements.json": pretty_json({"transfers": whole(0)}),
    }
    report = collect(plant(tree, tmp_path))
    assert report.transfers == whole(0)
    assert report.facts.cuda.version == "13.0"
    assert "cuda" in report.host.holds


def test_a_tree_without_them_tells_nothing(tmp_path: Path) -> None:
    assert read({}, tmp_path) == (CudaProbe(), [])


@pytest.mark.parametrize(
    "transfers",
    [
        [{"name": "host_to_device"}],
        [{"name": "host_to_device", "card": "x", "median_bytes_per_second": -1}],
        [{"name": "host_to_device", "card": "x", "median_bytes_per_second": 1e18}],
        [{"name": "host_to_device", "card": "x", "median_bytes_per_second": 1, "cards": 0}],
        [7],
    ],
)
def test_what_is_no_rate_is_a_gap(transfers: list[object], tmp_path: Path) -> None:
    found, (gap,) = read({"measurements.json": pretty_json({"transfers": transfers})}, tmp_path)
    assert found.transfers == ()
    assert gap.field == "transfers"


@given(text=st.binary(max_size=60))
def test_whatever_the_files_hold_nothing_is_raised(
    text: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree: Tree = {"cuda.json": text, "measurements.json": text}
    found, _ = read(tree, tmp_path_factory.mktemp("node"))
    assert found.transfers == ()
