"""Engines as they were seen, for the rules: each fault, and what looks like one."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.engine.facts import (
    CardUse,
    CpuGroup,
    CpuLibrary,
    EngineFacts,
    MemoryGroup,
    ModelFile,
    OtherProcess,
    Process,
    Thread,
)
from nodecheck.checks.engine.rules import RULES
from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.seen import Facts, Seen
from nodecheck.model import Finding
from nodecheck.policy import Policy
from nodecheck.units import GIB

PID = 4242
SECONDS = 5.0
CARD = "0000:01:00.0"
AVX2_FLAGS = ("lm", "sse2", "ssse3", "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx512f")
SET_APART = ("ssse3", "avx", "avx2", "fma", "f16c")
"""What a library may be built with or without."""


def threads(number: int, ran: float, waited: float | None = 0.0, **other: Any) -> list[Thread]:
    """So many of one process, each on a CPU of its own."""
    pid, first = other.pop("pid", PID), other.pop("first", 0)
    return [
        Thread(
            pid=pid,
            tid=pid + first + n,
            name="llama-server",
            cpu_share=ran,
            delay_share=waited,
            cpu=first + n,
            **other,
        )
        for n in range(number)
    ]


def process(cpus: float, **other: Any) -> Process:
    other = {"major_faults": 0, "read_bytes": 0, "gpu_files": (), **other}
    return Process(**{"pid": PID, "name": "llama-server", "cpu_seconds": cpus * SECONDS, **other})


def model(size: float = 4 * GIB, cached: float | None = None, kind: str = "Q4_K") -> ModelFile:
    """A model file of so many bytes; wholly in memory unless told otherwise."""
    return ModelFile(
        path="/models/model.gguf",
        size_bytes=int(size),
        mapped_bytes=int(size),
        cached_bytes=int(size if cached is None else cached),
        weight_type=kind,
    )


def ggml(*left_out: str, variant: str | None = None) -> CpuLibrary:
    built = tuple(name for name in SET_APART if name not in left_out)
    return CpuLibrary(
        path=f"/opt/llama/libggml-cpu{f'-{variant}' if variant else ''}.so",
        family="ggml",
        variant=variant,
        compiled=built,
        left_out=left_out,
    )


def engine(
    running: list[Thread], *processes: Process, usable: int = 8, **other: Any
) -> EngineFacts:
    """llama-server with these threads, in order in all else."""
    made = processes or (process(sum(thread.cpu_share for thread in running)),)
    return EngineFacts(
        **{
            "state": "watched",
            "pid": PID,
            "engine": "llama.cpp",
            "seconds": SECONDS,
            "command": ("llama-server", "-m", "/models/model.gguf"),
            "processes": made,
            "threads": tuple(running),
            "thread_count": 20,
            "usable_cpus": tuple(range(usable)),
            "page_bytes": 4096,
            "libraries": (ggml(variant="haswell"),),
            "model_files": (model(),),
            "busy_cpus": sum(thread.cpu_share for thread in running) + 0.1,
            **other,
        }
    )


HEALTHY = engine(threads(8, 0.98, 0.01))
IDLE = engine(threads(1, 0.01))


def gpu(address: str = CARD, **other: Any) -> Gpu:
    return Gpu(
        **{
            "index": 0,
            "pci_address": address,
            "vendor": "nvidia",
            "name": "NVIDIA L40",
            "seen_by": ("pci", "nvml"),
            "granted": True,
            "memory_bytes": 48 * GIB,
            "memory_used_bytes": 1 * GIB,
            "vram_bytes_per_second": 864e9,
            "numa_node": 0,
            **other,
        }
    )


def use(memory: float | None, load: float | None, card: str = CARD) -> CardUse:
    held = None if memory is None else int(memory)
    return CardUse(card=card, memory_bytes=held, utilisation_share=load, samples=20)


def two_nodes(memory: int = 64 * GIB) -> NumaFacts:
    return NumaFacts(
        nodes=tuple(
            NumaNode(id=n, cpus=tuple(range(8 * n, 8 * n + 8)), memory_bytes=memory)
            for n in range(2)
        )
    )


def node(made: EngineFacts, *gpus: Gpu, **facts: Any) -> Seen:
    """A node of 16 CPUs with AVX2, on which this engine runs."""
    facts = {
        "cpu": CpuFacts(
            arch="x86_64", usable_flags=AVX2_FLAGS, logical_cpus=16, vendor="GenuineIntel"
        ),
        "gpu": GpuFacts(state="ok" if gpus else None),
        **facts,
    }
    policy, measurements = facts.pop("policy", Policy()), facts.pop("measurements", ())
    return Seen(
        facts=Facts(engine=made, gpus=gpus, **facts),
        policy=policy,
        measurements=measurements,
        live=True,
    )


def judged(seen: Seen) -> list[Finding]:
    return [finding for rule in RULES for finding in rule.judge(seen)]


def ids(seen: Seen) -> list[str]:
    return [finding.id.removeprefix("engine.") for finding in judged(seen)]


def with_process(made: EngineFacts, **changes: Any) -> EngineFacts:
    """The engine with something else of its first process."""
    first, *rest = made.processes
    return replace(made, processes=(replace(first, **changes), *rest))


def quota(cpus: float, throttled: int, periods: int = 50) -> CpuGroup:
    return CpuGroup(
        source="/sys/fs/cgroup/system.slice/llama.service/cpu.max",
        quota_cpus=cpus,
        periods=periods,
        throttled_periods=throttled,
        throttled_seconds=throttled * 0.05,
    )


def limit(size: float, refaults: int | None) -> MemoryGroup:
    return MemoryGroup(
        source="/sys/fs/cgroup/system.slice/llama.service/memory.max",
        limit_bytes=int(size),
        current_bytes=int(size),
        file_refaults=refaults,
        limit_hits=100,
    )


STRESS = OtherProcess(pid=77, name="stress-ng", cpus=4.0)

THROTTLED = engine(threads(8, 0.06, 0.93), cpu_group=quota(0.5, 49))
CROWDED = engine(threads(8, 0.5, 0.45), usable=4)
CROWDED_BY_OTHERS = engine(threads(8, 0.55, 0.42), others=(STRESS,), busy_cpus=8.0)
PAGING = with_process(
    engine(
        threads(8, 0.03, 0.0),
        memory_group=limit(2 * GIB, 200_000),
        model_files=(model(4 * GIB, cached=1.5 * GIB),),
    ),
    major_faults=8_000,
    read_bytes=900_000_000,
    read_total_bytes=30 * GIB,
)
LOADING = with_process(
    engine(threads(1, 0.4, 0.0), file_refaults=3, model_files=(model(cached=GIB),)),
    major_faults=8_000,
    read_bytes=900_000_000,
    read_total_bytes=GIB,
)
SLOW = engine(threads(8, 0.98, 0.01), libraries=(ggml(*SET_APART, variant="x64"),))
FALLEN_BACK = HEALTHY
PARTLY_ON_CARD = with_process(
    engine(
        threads(8, 0.8, 0.01),
        cards=(use(12 * GIB, 0.25),),
        model_files=(model(16 * GIB),),
    ),
    gpu_files=("/dev/nvidia0", "/dev/nvidiactl"),
)
ON_CARD = with_process(
    engine(
        threads(1, 1.0, 0.0),
        cards=(use(18 * GIB, 0.93),),
        model_files=(model(16 * GIB),),
    ),
    gpu_files=("/dev/nvidia0", "/dev/nvidiactl"),
)
FEEDER_WAITS = with_process(
    engine(
        threads(1, 0.6, 0.38),
        engine="vllm",
        cards=(use(18 * GIB, 0.3),),
        model_files=(),
        libraries=(),
        others=(STRESS,),
        busy_cpus=8.0,
    ),
    gpu_files=("/dev/nvidia0", "/dev/nvidiactl"),
)
REMOTE = with_process(HEALTHY, numa_bytes={0: GIB // 4, 1: 4 * GIB})
