"""Rows that a captured node's own file holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodecheck.measured.fields import MeasuredError
from nodecheck.measured.read import parse
from nodecheck.units import GIB

CAPTURED: dict[str, Any] = {
    "dram_read_gbps": {"1": 7.4, "8": 11.7},
    "llama_bench": {"model_gib": 16.3, "ngl": {"99": 38.0, "96": 37.99, "50": 3.72, "0": 0.07}},
    "mtp": {"on": 70.9, "off": 39.1},
}


def test_each_setting_is_a_row() -> None:
    runs = parse(json.dumps(CAPTURED).encode(), "measurements.json")
    bench = [(run.gpu_layers, run.tokens_per_second) for run in runs if run.tool == "llama-bench"]
    assert bench == [(99, 38.0), (96, 37.99), (50, 3.72), (0, 0.07)]
    assert {run.model_bytes for run in runs[:4]} == {round(16.3 * GIB)}
    off, on = runs[4:]
    assert (off.tokens_per_second, on.tokens_per_second) == (39.1, 70.9)
    assert on.remarks == ("MTP",)


@pytest.mark.parametrize(
    "members", [{"llama_bench": {"ngl": {"many": 3.0}}}, {"llama_bench": {"ngl": {"9": -3.0}}}]
)
def test_what_is_no_rate_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(MeasuredError, match=r"^row 1: llama_bench: ngl: "):
        parse(json.dumps(members).encode(), "x")
