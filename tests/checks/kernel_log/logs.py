"""Pieces of kernel logs."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.checks.kernel_log.facts import KernelLogFacts

Read = Callable[[str], KernelLogFacts]

BOOT = "[    0.000000] Linux version 6.8.0-45-generic (buildd@host) #45-Ubuntu SMP\n"
LOAD = "[   12.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31\n"


PREFIXES = [
    "",
    "[ 8123.100000] ",
    "[ 8123.100000][  T123] ",
    "[Mon Oct  3 13:52:42 2022] ",
    "<4>[ 8123.100000] ",
    "<4>",
    "4,1234,8123100000,-;",
    "4,1234,8123100000,-,caller=T123;",
    "kern  :warn  : [ 8123.100000] ",
    "2024-07-31T23:14:18,123456+00:00 ",
    "2024-07-31T23:14:18.123456+02:00 gpu-node-1 kernel: ",
    "Oct 03 13:52:42 gpu-node-1 kernel: ",
    "Oct  3 13:52:42 gpu-node-1 kernel: [ 8123.100000] ",
    "[ 8123.100000] gpu-node-1 kernel: ",
]


def xid(rest: str, time_: str = "[ 8123.100000] ") -> str:
    return f"{time_}NVRM: Xid (PCI:0000:03:00): {rest}\n"


LOST = xid("79, pid=1, GPU has fallen off the bus.") + xid("31, pid=2, name=a, MMU Fault")
