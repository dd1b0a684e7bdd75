"""A capture's measurements are taken as they are, and only if they can be."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram import captured
from nodecheck.checks.dram.probe import probe
from nodecheck.checks.seen import Facts
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Measurement, Reason
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]


def read(host: CapturedHost) -> tuple[tuple[Measurement, ...], Reader]:
    reader = Reader(host, "dram")
    return probe(reader, Facts(), "always").measurements, reader


def test_rates_by_threads(node: Node) -> None:
    text = '{"dram_read_gbps": {"8": 11.7, "1": 7.4}, "model_bytes": 5}'
    found, reader = read(node({"measurements.json": text}))
    assert [(each.threads, each.median_bytes_per_second) for each in found] == [
        (1, 7.4e9),
        (8, 11.7e9),
    ]
    assert reader.gaps == []


def test_measurements_in_our_own_form(node: Node) -> None:
    own = Measurement(
        name="dram_read", kernel="avx2", threads=4, median_bytes_per_second=3e10, flags=("bimodal",)
    )
    text = json.dumps({"measurements": [msgspec.to_builtins(own), {"name": 1}, 7]})
    found, reader = read(node({"measurements.json": text}))
    assert found == (own,)
    assert len(reader.gaps) == 2


@pytest.mark.parametrize(
    "rates",
    [
        {"1": -4},
        {"1": 0},
        {"1": "fast"},
        {"1": None},
        {"1": True},
        {"1": 1e300},
        {"0": 5},
        {"-1": 5},
        {"x": 5},
        {"9" * 99: 5},
    ],
)
def test_rates_that_cannot_be(node: Node, rates: dict[str, object]) -> None:
    found, reader = read(node({"measurements.json": json.dumps({"dram_read_gbps": rates})}))
    assert found == ()
    assert [gap.reason for gap in reader.gaps] == [Reason.FAILED]


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "[" * 9999, '{"dram_read_gbps": 7}', b"\xff"])
def test_a_file_that_holds_none(node: Node, text: str | bytes) -> None:
    found, _ = read(node({"measurements.json": text}))
    assert found == ()


def test_no_file_is_said(node: Node) -> None:
    reader = Reader(node({"proc/version": ""}), "dram")
    assert probe(reader, Facts(), "auto").facts.skipped == "this capture holds no measurement"
    assert [gap.reason for gap in reader.gaps] == [Reason.ABSENT]


class OneFile(CapturedHost):
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, path: str) -> str:
        if path == captured.PATH:
            return self.text
        raise UnreadableError(Reason.ABSENT, path)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from(["measurements", "dram_read_gbps", "x"]), JSON))
def test_any_json_is_read(content: object) -> None:
    found, _ = read(OneFile(json.dumps(content)))
    assert all(each.median_bytes_per_second > 0 for each in found)
