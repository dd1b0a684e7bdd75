"""Figures have names that people use."""

from __future__ import annotations

import pytest

from nodecheck.records.figure_names import named
from nodecheck.records.figures import Kind, Metric


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dram_read@8", "memory read, 8 threads"),
        ("dram_triad@1", "memory triad, 1 thread"),
        ("dram_read@4,node0-node1", "memory read, 4 threads, node 0 reads node 1"),
        ("dram_latency@0", "memory latency"),
        ("dram_latency_loaded@7", "memory latency under load, 7 threads"),
        ("decode_q4_k@8", "decode from cache, q4_k, 8 threads"),
        ("decode_dram_q8_0@8", "decode from memory, q8_0, 8 threads"),
        ("disk_available@/srv/a@b", "disk free, /srv/a@b"),
        ("xid_79@0000:41:00.0", "Xid 79, 0000:41:00.0"),
        ("steal_share", "CPU time stolen"),
        ("something_new@here", "something_new, here"),
    ],
)
def test_a_figure_has_a_name_that_people_use(name: str, words: str) -> None:
    assert named(Metric(name, "", Kind.RATE)) == words
