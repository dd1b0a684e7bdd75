"""Figures by the names that people use: what they are of, and where."""

from __future__ import annotations

from nodecheck.records.figures import Metric
from nodecheck.units import count

_WHAT = {
    "dram_read": "memory read",
    "dram_write": "memory write",
    "dram_copy": "memory copy",
    "dram_triad": "memory triad",
    "dram_latency": "memory latency",
    "dram_latency_loaded": "memory latency under load",
    "disk_available": "disk free",
    "inodes_free": "inodes free",
    "ecc_corrected": "ECC errors corrected",
    "ecc_uncorrected": "ECC errors not corrected",
    "rows_remapped": "VRAM rows remapped",
    "pcie_replays": "PCIe replays",
    "aer_correctable": "PCIe errors corrected",
    "aer_nonfatal": "PCIe errors, not fatal",
    "aer_fatal": "PCIe errors, fatal",
    "ram_corrected": "RAM errors corrected",
    "ram_uncorrected": "RAM errors not corrected",
    "disk_errors": "file system errors",
    "memory_available": "RAM available",
    "steal_share": "CPU time stolen",
    "busy_share": "CPUs busy",
    "load_1min": "load",
    "cpu_clock": "CPU clock",
    "gpu_temperature": "GPU temperature",
    "gpu_power": "GPU power",
    "gpu_memory_used": "VRAM used",
}
_PREFIXES = {
    "decode_dram_": "decode from memory, ",
    "decode_": "decode from cache, ",
    "xid_": "Xid ",
}


def what(metric: Metric) -> str:
    """The quantity, without where: "memory read", "decode from memory, q4_k"."""
    name = metric.name.partition("@")[0]
    for prefix, words in _PREFIXES.items():
        if name.startswith(prefix):
            return words + name.removeprefix(prefix)
    return _WHAT.get(name, name)


def where(metric: Metric) -> str:
    """Threads, nodes, a mount point, a PCI address; empty where there is one of it alone."""
    name, _, place = metric.name.partition("@")
    if not name.startswith(("dram_", "decode_")):
        return place
    threads, _, nodes = place.partition(",")
    if not threads.isdecimal() or (name == "dram_latency" and not int(threads)):
        return nodes
    cpus, _, home = nodes.partition("-")
    apart = f", {cpus} reads {home}".replace("node", "node ") if home else ""
    return count(int(threads), "thread") + apart


def named(metric: Metric) -> str:
    """What and where: "memory read, 8 threads"."""
    return ", ".join(filter(None, (what(metric), where(metric))))
