"""What to change, in the words of the engine that runs.

Flags as in llama.cpp 0c1e57098 (common/arg.cpp), llama-cpp-python 0.3.36, Ollama's api/types.go,
vLLM's envs.py and engine/arg_utils.py, SGLang's server_args.py and platforms/cpu_server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.engine.signs import held_cards, model_bytes
from nodecheck.checks.seen import Seen
from nodecheck.units import GIB, ranges

_ALL_LAYERS = 999
"""More than any model has: every build takes it for all."""

_KOBOLD = "koboldcpp"
_BATCH_THREADS = {_KOBOLD: " --blasthreads {}", "llama-bench": ""}
"""Programs of llama.cpp's code that have no --threads-batch, and what they have."""

_BIND = {"vllm": "VLLM_CPU_OMP_THREADS_BIND", "sglang": "SGLANG_CPU_OMP_THREADS_BIND"}
"""CPUs of the OpenMP threads of a CPU backend, and by them their number."""

_OPENMP = ("torch", "mkl", "onednn", "openblas")
"""Families of libraries that heed OMP_NUM_THREADS, whatever program has them loaded."""

_GROUPS = (
    ("kubepods", "kubectl set resources deployment/<NAME> --limits={kind}={amount}"),
    ("libpod", "podman update --{flag}={amount} <CONTAINER>"),
    ("docker", "docker update --{flag}={amount}{swap} <CONTAINER>"),
)
"""Part of a group's path that names its maker -> how its limits are raised."""

_INHERITED = "hierarchical_memory_limit"
_ROOT = re.compile(r"/sys/fs/cgroup/(?:(?:unified/)?\w+\.max|[\w,]+/\w+\.\w+_(?:us|in_bytes))")
"""Files of the first group of a mounted hierarchy: of v2, and of v1's."""

_CONTAINERS = {"kubernetes": "kubepods", "podman": "libpod", "docker": "docker"}


def thread_commands(seen: Seen, number: int) -> tuple[str, ...]:
    """How the engine is started with so many threads; none where we do not know that."""
    engine = seen.facts.engine
    name = engine.engine or ""
    if name == "llama.cpp":
        program = _program(engine)
        batch = _BATCH_THREADS.get(program, f" --threads-batch {number}").format(number)
        return (f"{program} --threads {number}{batch}",)
    if name == "llama-cpp-python":
        return _python(engine, n_threads=str(number), n_threads_batch=str(number))
    if name == "ollama":
        return _ollama("num_thread", number)
    if name in _BIND and not held_cards(engine) and engine.usable_cpus:
        return (f"{_BIND[name]}={ranges(sorted(engine.usable_cpus)[:number])}",)
    heeds = name in _BIND or "OMP_NUM_THREADS" in engine.environment
    if heeds or any(library.family in _OPENMP for library in engine.libraries):
        return (f"OMP_NUM_THREADS={number}",)
    return ()


def layer_commands(engine: EngineFacts) -> tuple[str, ...]:
    """How its layers get onto the card."""
    name = engine.engine or ""
    if name == "llama.cpp":
        program = _program(engine)
        flag = "--gpulayers" if program == _KOBOLD else "--n-gpu-layers"
        return (f"{program} {flag} {_ALL_LAYERS}",)
    if name == "llama-cpp-python":
        return _python(engine, n_gpu_layers="-1")
    if name == "ollama":
        return _ollama("num_gpu", _ALL_LAYERS)
    return ()


def gpu_build_commands(engine: EngineFacts) -> tuple[str, ...]:
    """How one sees whether the engine's build knows the card, and gets one that does."""
    name = engine.engine or ""
    return {
        "llama.cpp": ("llama-server --list-devices",),
        "llama-cpp-python": (
            "python3 -c 'import llama_cpp; print(llama_cpp.llama_supports_gpu_offload())'",
            _rebuilt("-DGGML_CUDA=on"),
        ),
        "ollama": ("ollama ps", "journalctl -u ollama | grep -i 'inference compute'"),
        "vllm": ("python3 -c 'import torch; print(torch.cuda.is_available())'",),
        "sglang": ("python3 -c 'import torch; print(torch.cuda.is_available())'",),
    }.get(name, ("python3 -c 'import torch; print(torch.cuda.is_available())'",))


def lock_commands(engine: EngineFacts) -> tuple[str, ...]:
    """How its weights are locked into RAM; none where the engine cannot.

    Ollama has no such option any more, vLLM and SGLang never had one.
    """
    name, size = engine.engine or "", model_bytes(engine)
    if name == "llama.cpp":
        program = _program(engine)
        flag = "--load-mode mmap+mlock  # older builds: --mlock"
        lock: tuple[str, ...] = (f"{program} {'--usemlock' if program == _KOBOLD else flag}",)
    elif name == "llama-cpp-python":
        lock = _python(engine, use_mlock="True")
    else:
        return ()
    limits = [process.locked_limit_bytes for process in engine.processes]
    short = any(limit is not None and size is not None and limit < size for limit in limits)
    return (*(("ulimit -l unlimited",) if short else ()), *lock)


def node_commands(seen: Seen, nodes: Iterable[int]) -> tuple[str, ...]:
    """How the engine is started on the CPUs and the memory of these NUMA nodes."""
    engine, at = seen.facts.engine, ranges(nodes)
    cpus = ranges(
        cpu for node in seen.facts.numa.nodes if node.id in set(nodes) for cpu in node.cpus or ()
    )
    name = engine.engine or ""
    if name in _BIND and not held_cards(engine):
        return (f"{_BIND[name]}={cpus}",)
    if name == "vllm":
        return ("vllm serve --numa-bind",)
    if name == "sglang":
        return (f"python3 -m sglang.launch_server --numa-node {at}",)
    if name == "ollama":
        allowed = f"AllowedCPUs={cpus} AllowedMemoryNodes={at}"
        return (f"sudo systemctl set-property ollama.service {allowed}",)
    program = _with_numa(engine, "numactl") or "<ENGINE>"
    return (f"numactl --cpunodebind={at} --membind={at} {program}",)


def spread_commands(engine: EngineFacts) -> tuple[str, ...]:
    """How an engine that one NUMA node does not hold is spread over all."""
    return (_with_numa(engine, "distribute") or "numactl --interleave=all <ENGINE>",)


def build_commands(engine: EngineFacts) -> tuple[str, ...]:
    """How one gets a build of ggml for this CPU."""
    name = engine.engine or ""
    if name == "llama-cpp-python":
        return (_rebuilt("-DGGML_NATIVE=ON"),)
    if name == "ollama":
        return ("curl -fsSL https://ollama.com/install.sh | sh",)
    return (
        "cmake -B build -DGGML_NATIVE=ON && cmake --build build --config Release",
        "cmake -B build -DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON",
    )


def quota_commands(seen: Seen, source: str, cpus: int) -> tuple[str, ...]:
    """How the CPU quota set at `source` becomes so many CPUs, or none is set any more."""
    lifted = f"echo {'max' if source.endswith('cpu.max') else -1} > {source}  # lifts it"
    unit = f"CPUQuota={100 * cpus}%"
    return _group_commands(seen, source, "cpu", "cpus", str(cpus), unit) or _written(source, lifted)


def memory_commands(seen: Seen, source: str, size_bytes: float) -> tuple[str, ...]:
    """How the memory limit set at `source` becomes so much, in whole GiB."""
    amount = -int(-size_bytes // GIB)
    kubernetes = "kubepods" in _maker(seen, source)
    text = f"{amount}Gi" if kubernetes else f"{amount}g"
    raised = _written(source, f"echo {amount * GIB} > {source}")
    unit = f"MemoryMax={amount}G"
    return _group_commands(seen, source, "memory", "memory", text, unit) or raised


def _written(source: str, command: str) -> tuple[str, ...]:
    """The command; none for a container's own group, which cannot be written to in it."""
    return () if _is_mounts_root(source) else (command,)


def _group_commands(
    seen: Seen, source: str, kind: str, flag: str, amount: str, setting: str
) -> tuple[str, ...]:
    maker = _maker(seen, source)
    for part, command in _GROUPS:
        if part in maker:
            swap = f" --memory-swap={amount}" if kind == "memory" else ""
            return (command.format(kind=kind, flag=flag, amount=amount, swap=swap),)
    unit = re.search(r"([^/]+\.(?:service|scope|slice))/[^/]+$", source)
    return (f"sudo systemctl set-property {unit[1]} {setting}",) if unit else ()


def _maker(seen: Seen, source: str) -> str:
    """The group's path; of a container's own, where it is cut off, what runs the container."""
    if not _is_mounts_root(source):
        return source
    return _CONTAINERS.get(seen.facts.virt.container or "", source)


def _is_mounts_root(source: str) -> bool:
    """Whether it is the first group that we see, or a limit comes from above that."""
    return source.endswith(_INHERITED) or bool(_ROOT.fullmatch(source))


def _program(engine: EngineFacts) -> str:
    words = [word.rpartition("/")[2] for word in engine.command[:2]]
    if any(word.startswith(_KOBOLD) for word in words):
        return _KOBOLD
    return words[0] if words and words[0].startswith("llama-") else "llama-server"


def _with_numa(engine: EngineFacts, kind: str) -> str | None:
    """llama.cpp with --numa; None for what has no such flag."""
    program = _program(engine)
    if engine.engine != "llama.cpp" or program == _KOBOLD:
        return None
    return f"{program} --numa {kind}"


def _python(engine: EngineFacts, **settings: str) -> tuple[str, ...]:
    """Arguments of llama-cpp-python: of its server, or of its class."""
    if any("llama_cpp.server" in word for word in engine.command):
        flags = " ".join(f"--{name} {value}" for name, value in settings.items())
        return (f"python3 -m llama_cpp.server {flags}",)
    values = ", ".join(f"{name}={value}" for name, value in settings.items())
    return (f"Llama(..., {values})",)


def _ollama(name: str, value: int) -> tuple[str, ...]:
    """An option of Ollama: no variable of its environment sets it."""
    asked = f'{{"model": "<MODEL>", "options": {{"{name}": {value}}}}}'
    return (
        f"PARAMETER {name} {value}  # in the Modelfile, then: ollama create <MODEL> -f Modelfile",
        f"curl localhost:11434/api/generate -d '{asked}'",
    )


def _rebuilt(option: str) -> str:
    """How pip builds llama-cpp-python anew, whatever wheel there is."""
    return (
        f"CMAKE_ARGS={option} pip install --force-reinstall --no-cache-dir "
        "--no-binary llama-cpp-python llama-cpp-python"
    )
