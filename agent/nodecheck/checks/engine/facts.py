"""A running engine: what its processes did for some seconds, and what they hold."""

from __future__ import annotations

import msgspec

from nodecheck.model import Struct

OTHERS_NAMED = 3
"""So many other programs are told, the busiest."""


class Thread(Struct, frozen=True, kw_only=True):
    """A thread that ran in the window. Shares are of the window, 0 to 1.

    `delay_share` is the time that it could have run and waited for a CPU, that in which a quota
    stopped it included; a wait counts when it is over. Switches are those of the window;
    involuntary ones took the CPU from it. `cpu` is where it ran last.
    """

    pid: int
    tid: int
    name: str
    cpu_share: float
    delay_share: float | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    cpu: int | None = None


class CpuLibrary(Struct, frozen=True, kw_only=True):
    """A library that computes on the CPU, as a process has it loaded.

    `family` is ggml, onednn, openblas, mkl or torch. `variant` is what its name says it was built
    for (haswell of libggml-cpu-haswell.so). `compiled` are the instruction sets that it was built
    with, by the kernel's names, `left_out` those that it was built without; None where it does not
    say (it chooses at run time, or its file could not be read).
    """

    path: str
    family: str
    variant: str | None = None
    compiled: tuple[str, ...] | None = None
    left_out: tuple[str, ...] | None = None


class ModelFile(Struct, frozen=True, kw_only=True):
    """A file of weights that a process maps. `path` is as the process sees it.

    `cached_bytes` is how much of the file lies in memory, whoever brought it there, at the end of
    the window, or at its begin where the engine ended; None where the kernel does not tell us.
    `weight_type` is what most of a GGUF file is stored as.
    """

    path: str
    size_bytes: int | None = None
    mapped_bytes: int = 0
    cached_bytes: int | None = None
    weight_type: str | None = None


class Process(Struct, frozen=True, kw_only=True):
    """A process of the tree. Members without "total" that count are of the window.

    `cpu_seconds` is what all its threads ran; that of the root process has also what the engine
    started and what ended before anybody looked at it. `major_faults` had to wait for a disk.
    `read_bytes` came from storage, `read_total_bytes` since it began. `first_state` and `state` are
    the kernel's letters of what its first thread did at both ends of the window (R runs, S sleeps,
    D waits in the kernel, T stopped, t traced), the first None where it began meanwhile.
    `numa_bytes` is where its memory lies, by NUMA node; read only where there are several.
    `gpu_files` are the device files of accelerators that it has open, None where that is hidden
    from us.
    """

    pid: int
    name: str
    parent: int | None = None
    thread_count: int = 0
    cpu_seconds: float = 0.0
    ended: bool = False
    first_state: str | None = None
    state: str | None = None
    allowed_cpus: tuple[int, ...] | None = None
    allowed_nodes: tuple[int, ...] | None = None
    major_faults: int | None = None
    minor_faults: int | None = None
    read_bytes: int | None = None
    read_total_bytes: int | None = None
    resident_bytes: int | None = None
    swapped_bytes: int | None = None
    locked_bytes: int | None = None
    locked_limit_bytes: int | None = None
    numa_bytes: dict[int, int] | None = None
    gpu_files: tuple[str, ...] | None = None


class CpuGroup(Struct, frozen=True, kw_only=True):
    """The control group whose quota binds first: CPUs, and how often it held the engine.

    `throttled_periods` of the `periods` of the window ended with its tasks stopped,
    `throttled_seconds` is for how long (of all its CPUs together in v1).
    """

    source: str
    quota_cpus: float
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_seconds: float | None = None


class MemoryGroup(Struct, frozen=True, kw_only=True):
    """The control group with the tightest memory limit.

    `file_refaults` are pages of files that had been thrown out and were read again in the window,
    `limit_hits` how often the limit was met in it.
    """

    source: str
    limit_bytes: int
    current_bytes: int | None = None
    file_refaults: int | None = None
    limit_hits: int | None = None


class CardUse(Struct, frozen=True, kw_only=True):
    """What the engine has of a card, and how busy the card was in the window.

    `memory_bytes` is what the processes of the tree hold on it: 0 where the driver lists others and
    none of them, None where it does not tell. `utilisation_share` is the mean of `samples`.
    """

    card: str
    memory_bytes: int | None = None
    utilisation_share: float | None = None
    samples: int = 0


class OtherProcess(Struct, frozen=True, kw_only=True):
    """One that is not the engine's and may run on its CPUs; how many it used in the window."""

    pid: int
    name: str
    cpus: float


class EngineFacts(Struct, frozen=True, kw_only=True):
    """One engine: the process that was named and all that it started.

    `state` is None where nobody asked, watched, ended (it ended while it was watched: what was seen
    until then stands) or absent (there was no such process, or it is hidden from us: then there is
    a gap). `engine` is llama.cpp, llama-cpp-python, ollama, vllm, sglang, or None for another
    program. `seconds` is the window, until the last look at which any of its processes lived.
    `command` is the program with the arguments that are known to be harmless; `settings` are those
    that matter, by one name for all engines (threads, gpu_layers, mlock, mmap, numa, device,
    cpu_offload), from its arguments or its environment. `environment` holds names of an allow-list.
    `threads` are those that ran, the busiest first, `thread_count` all of them. `nice` is that of
    its first process. `usable_cpus` are the online ones on which those that compute may run, or the
    root process where none does. `steal_share` is what the hypervisor took of the node's CPUs,
    `busy_cpus` how many of the node's were busy, `usable_busy_cpus` how many of the usable ones,
    the engine's own work included in both; `others` are those of other programs that may be on the
    usable ones. `file_refaults` are the node's, in pages of `page_bytes`, as those of its memory
    group. `frozen_by` is the file that says that its control group is frozen.
    """

    state: str | None = None
    pid: int | None = None
    engine: str | None = None
    seconds: float | None = None
    command: tuple[str, ...] = ()
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    threads: tuple[Thread, ...] = ()
    thread_count: int | None = None
    nice: int | None = None
    usable_cpus: tuple[int, ...] | None = None
    cpu_group: CpuGroup | None = None
    memory_group: MemoryGroup | None = None
    frozen_by: str | None = None
    file_refaults: int | None = None
    page_bytes: int | None = None
    libraries: tuple[CpuLibrary, ...] = ()
    model_files: tuple[ModelFile, ...] = ()
    cards: tuple[CardUse, ...] = ()
    others: tuple[OtherProcess, ...] = ()
    busy_cpus: float | None = None
    usable_busy_cpus: float | None = None
    steal_share: float | None = None

    @property
    def cpus(self) -> float | None:
        """CPUs that it kept busy, over the window."""
        if not self.seconds:
            return None
        return sum(process.cpu_seconds for process in self.processes) / self.seconds
