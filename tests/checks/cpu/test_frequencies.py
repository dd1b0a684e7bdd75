"""Frequencies of captures: every CPU counts, with or without a driver's name."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.checks.cpu.clocks import frequencies
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from tests.trees import Tree


def test_the_median_is_that_of_all_cpus(node: Callable[[Tree], CapturedHost]) -> None:
    tree: Tree = {}
    for cpu in range(64):
        place = f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
        tree[f"{place}/scaling_cur_freq"] = "3600000\n" if cpu % 4 == 0 else "1200000\n"
        tree[f"{place}/cpuinfo_max_freq"] = "3600000\n"
        tree[f"{place}/scaling_governor"] = "powersave\n" if cpu % 2 else "performance\n"
    seen = frequencies(Reader(node(tree), "cpu"), tuple(range(64)))
    assert seen.current_mhz == 1200
    assert seen.maximum_mhz == 3600
    assert seen.governors == ("performance", "powersave")
