"""Reports of whole benchmarks, with figures as such nodes give them."""

from __future__ import annotations

import itertools

from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.dram.facts import DramFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import (
    Action,
    Evidence,
    Finding,
    Latency,
    Load,
    Measurement,
    Owner,
    Remedy,
    RoundTrip,
    Severity,
)
from nodecheck.report import HostInfo, Report
from nodecheck.units import GB, GIB, MIB

ALL = ("dram", "latency", "placement", "decode")
QUIET = Load(
    other_cpus_busy_share=0.01,
    steal_share=0.0,
    thread_cpu_share_min=0.998,
    run_delay_share=0.0,
    pressure_share=0.004,
)
BUSY = Load(
    other_cpus_busy_share=0.34,
    steal_share=0.03,
    thread_cpu_share_min=0.71,
    run_delay_share=0.22,
    pressure_share=0.41,
)


def rate(
    name: str,
    threads: int,
    gigabytes: float,
    kernel: str = "avx2",
    *flags: str,
    nodes: tuple[int, int] | None = None,
    trips: tuple[float, float] | None = None,
) -> Measurement:
    """A figure whose passes lie 4 % around it."""
    return Measurement(
        name=name,
        kernel=kernel,
        threads=threads,
        median_bytes_per_second=gigabytes * GB,
        p10_bytes_per_second=0.97 * gigabytes * GB,
        p90_bytes_per_second=1.01 * gigabytes * GB,
        max_bytes_per_second=1.04 * gigabytes * GB,
        passes=40,
        convention="bytes",
        flags=flags,
        load=BUSY if "contended" in flags else QUIET,
        cpu_node=nodes[0] if nodes else None,
        memory_node=nodes[1] if nodes else None,
        round_trip_seconds=trips,
    )


def latency(threads: int, nanoseconds: float, *flags: str) -> Latency:
    """A load over 1 GiB; each thread beside it reads 11.3 GB/s."""
    return Latency(
        name="dram_latency_loaded" if threads else "dram_latency",
        other_threads=threads,
        median_seconds=nanoseconds * 1e-9,
        p10_seconds=0.98 * nanoseconds * 1e-9,
        p90_seconds=1.05 * nanoseconds * 1e-9,
        passes=60,
        spread_bytes=GIB,
        read_bytes_per_second=threads * 11.3 * GB if threads else None,
        convention="one load",
        flags=flags,
        load=BUSY if "contended" in flags else QUIET,
    )


def report(
    cpus: int,
    measurements: tuple[Measurement, ...] = (),
    latencies: tuple[Latency, ...] = (),
    dram: DramFacts | None = None,
    findings: tuple[Finding, ...] = (),
    guest: bool = True,
) -> Report:
    """What `collect.bench` would give, judged."""
    return Report(
        nodecheck_version="0.1.0",
        time="2026-11-30T02:11:09+00:00",
        host=HostInfo(source="live", holds=(), name="node7", kernel="6.8.0"),
        facts=Facts(
            cpu=CpuFacts(arch="x86_64", logical_cpus=cpus, physical_cores=cpus),
            virt=VirtFacts(guest=guest, hypervisor="kvm" if guest else None),
            memory=MemoryFacts(total_bytes=cpus * 12 * GIB),
            dram=dram or DramFacts(),
        ),
        measurements=measurements,
        latencies=latencies,
        findings=findings,
        elapsed_seconds=38.4,
    )


def streams(threads: int, *rates: float, flags: tuple[str, ...] = ()) -> tuple[Measurement, ...]:
    """Read, write, copy and triad on that many threads."""
    kinds = (
        ("dram_read", "avx512"),
        ("dram_write", "avx2 non-temporal"),
        ("dram_copy", "avx512 non-temporal" if threads > 1 else "avx2 non-temporal"),
        ("dram_triad", "avx2 non-temporal"),
    )
    trips = (52e-9, 53e-9) if threads > 1 else None
    return tuple(
        rate(name, threads, value, kernel, *flags, trips=trips)
        for (name, kernel), value in zip(kinds, rates, strict=False)
    )


def products(threads: int, cached: dict[str, float], kernel: str) -> tuple[Measurement, ...]:
    """Weights used up on one and on that many threads, at so many GB/s on one."""
    return tuple(
        each
        for kind, value in cached.items()
        for each in (
            rate(f"decode_{kind}", 1, value, kernel),
            rate(f"decode_{kind}", threads, 0.98 * value * threads, kernel),
            rate(f"decode_dram_{kind}", threads, min(23.0, 0.9 * value * threads), kernel),
        )
    )


def trips(cpus: int, seconds: dict[int, float]) -> tuple[RoundTrip, ...]:
    """Every pair of CPUs, at the time of the smallest block of CPUs that holds both."""
    return tuple(
        RoundTrip(
            cpus=pair,
            seconds=next(s for size, s in seconds.items() if pair[0] // size == pair[1] // size)
            * (1 + 0.01 * (sum(pair) % 5)),
        )
        for pair in itertools.combinations(range(cpus), 2)
    )


def facts(pairs: tuple[RoundTrip, ...] = (), of: int | None = None, *warnings: str) -> DramFacts:
    """Buffers of 512 MiB on huge pages, and those round trips."""
    return DramFacts(
        kernel="avx512",
        buffer_bytes_per_thread=512 * MIB,
        huge_page_share=1.0,
        llc_bytes=32 * MIB,
        round_trips=pairs,
        pairs=len(pairs) if of is None else of,
        warnings=warnings,
    )


DECODE = {"q4_0": 14.2, "q4_k": 9.3, "q6_k": 8.8, "q8_0": 15.6, "f16": 21.0, "bf16": 20.5}

GUEST = report(
    2,
    (
        *streams(1, 12.1, 9.84, 18.7, 17.3),
        *streams(2, 24.1, 17.6, 33.2, 31.9),
        *products(2, DECODE, "avx512_vnni q8_k"),
    ),
    (latency(0, 112.4), latency(1, 140.2)),
    facts(trips(2, {2: 52e-9})),
)
"""Two vCPUs, nothing wrong."""

CONTENDED = report(
    2,
    (
        *streams(1, 12.1, 9.84, 18.7, 17.3),
        *streams(2, 15.9, 11.6, 21.2, 20.9, flags=("contended", "unsteady")),
        *products(2, {"q4_k": 9.3}, "avx2 q8_k"),
    ),
    (latency(0, 131.0), latency(1, 260.2, "contended")),
    facts(trips(2, {2: 52e-9}), None, "on small pages: figures may be 20 % low"),
)
"""The same beside a stranger."""


def _node() -> Report:
    rates: list[Measurement] = []
    for shift in range(7):
        n = 1 << shift
        read = 410 * n / (n + 24)
        flags = ("bimodal",) if n == 4 else ()
        rates += streams(n, read, 0.55 * read, 0.93 * read, 0.9 * read, flags=flags)
    for cpus, home in itertools.product((0, 1), repeat=2):
        value = 158.3 if cpus == home else 71.9
        rates.append(rate("dram_read", 32, value, "avx512", nodes=(cpus, home)))
    rates += products(64, DECODE, "avx512_vnni q8_k")
    pairs = trips(64, {2: 21e-9, 32: 55e-9, 64: 312e-9})[::3]
    return report(
        64, tuple(rates), (latency(0, 98.0), latency(63, 410.0)), facts(pairs, 2016), guest=False
    )


NODE = _node()
"""Two sockets of 16 cores with two threads each, two NUMA nodes; a third of the pairs probed."""

SLOW = Finding(
    id="cpu.decode_compute_bound",
    severity=Severity.CRITICAL,
    subject="CPU",
    summary="4-bit weights are used up 20 times slower than memory delivers them",
    evidence=(Evidence(value="q4_k: 1.0 GB/s a core", source="kernel sse2", expected="15 GB/s"),),
    impact="A 27B model decodes at 0.5 instead of 4 tokens a second on the CPU",
    remedy=Remedy(
        text="Give the guest the host's CPU model",
        action=Action.RECONFIGURE_VM,
        commands=("qm set <vmid> --cpu host",),
        cost="One cold stop",
    ),
    owner=Owner.HYPERVISOR,
)

KVM64 = report(
    8,
    (
        *streams(1, 24.5, 21.0, 36.0, 33.0),
        *streams(2, 47.0, 40.0, 70.0, 65.0),
        *streams(4, 90.0, 78.0, 130.0, 120.0),
        *streams(8, 161.0, 120.0, 190.0, 181.0),
        *products(8, {"q4_0": 1.05, "q4_k": 1.0, "q8_0": 6.4, "f16": 25.0}, "sse2 q8_k"),
    ),
    (latency(0, 160.0), latency(7, 190.0)),
    facts(trips(8, {4: 54e-9, 8: 330e-9})),
    (SLOW,),
)
"""A masked CPU: decode far below what memory would allow."""

NOTHING = report(
    1,
    dram=DramFacts(
        skipped="16 MiB are left by /sys/fs/cgroup/memory, less than twice the cache",
        warnings=("memory is too tight",),
    ),
)
"""A control group that leaves no room."""

INTERRUPTED = report(
    2,
    streams(2, 24.1, 17.6),
    dram=replace(facts((), 1, "interrupted after 3.2 s"), interrupted=True),
)
"""Ctrl-C in the first stretch."""

REPORTS = {
    "guest": GUEST,
    "contended": CONTENDED,
    "node": NODE,
    "kvm64": KVM64,
    "nothing": NOTHING,
    "interrupted": INTERRUPTED,
}
