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
from tests.checks.cuda.nodes import failed
from tests.trees import Tree, plant


def read(tree: Tree, place: Path) -> tuple[CudaProbe, list[Gap]]:
    reader = Reader(plant(tree, place), "cuda")
    return probe(reader, "auto"), reader.gaps


def test_the_answer_comes_back_as_it_was_written(tmp_path: Path) -> None:
    facts = failed(802, "CUDA_ERROR_SYSTEM_NOT_READY", uvm=True)
    assert read({"cuda.json": pretty_json(facts)}, tmp_path) == (CudaProbe(facts=facts), [])


def test_a_report_of_the_tree_holds_it(tmp_path: Path) -> None:
    tree: Tree = {"cuda.json": pretty_json(CudaFacts(state="ok", version="13.0"))}
    report = collect(plant(tree, tmp_path))
    assert report.facts.cuda.version == "13.0"
    assert "cuda" in report.host.holds


def test_a_tree_without_it_tells_nothing(tmp_path: Path) -> None:
    assert read({}, tmp_path) == (CudaProbe(), [])


def test_what_is_not_ours_is_a_gap(tmp_path: Path) -> None:
    found, (gap,) = read({"cuda.json": '{"state": 7}'}, tmp_path)
    assert found == CudaProbe()
    assert "/cuda.json" in gap.detail


@given(text=st.binary(max_size=60))
def test_whatever_the_file_holds_nothing_is_raised(
    text: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    read({"cuda.json": text}, tmp_path_factory.mktemp("node"))
