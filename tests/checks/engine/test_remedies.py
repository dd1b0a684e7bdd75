"""What to change, in the words of the engine that runs: no flag that it does not have."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.facts import CpuLibrary
from nodecheck.checks.seen import Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.units import GIB
from tests.checks.engine.engines import HEALTHY, ON_CARD, node, two_nodes, use, with_process

OPTION = (
    'curl localhost:11434/api/generate -d \'{"model": "<MODEL>", "options": {"num_thread": 7}}\''
)
DOCKER = "docker update --memory=5g --memory-swap=5g <CONTAINER>"
ALLOWED = "AllowedCPUs=8-15 AllowedMemoryNodes=1"
TORCH = CpuLibrary(path="/v/torch/lib/libtorch_cpu.so", family="torch")
SERVER = ("python3", "-m", "llama_cpp.server", "--model", "/models/model.gguf")


def run_as(engine: str | None, *command: str) -> Seen:
    return node(replace(HEALTHY, engine=engine, command=command), numa=two_nodes())


@pytest.mark.parametrize(
    ("seen", "commands"),
    [
        (run_as("llama.cpp", "/opt/llama-cli"), ("llama-cli --threads 7 --threads-batch 7",)),
        (run_as("llama.cpp", "/opt/llama-bench"), ("llama-bench --threads 7",)),
        (run_as("llama.cpp", "./server"), ("llama-server --threads 7 --threads-batch 7",)),
        (run_as("llama.cpp", "python3", "koboldcpp.py"),
         ("koboldcpp --threads 7 --blasthreads 7",)),
        (run_as("llama-cpp-python", "python3", "app.py"),
         ("Llama(..., n_threads=7, n_threads_batch=7)",)),
        (run_as("llama-cpp-python", *SERVER),
         ("python3 -m llama_cpp.server --n_threads 7 --n_threads_batch 7",)),
        (run_as("ollama", "ollama", "serve"), (
            "PARAMETER num_thread 7  # in the Modelfile, then: ollama create <MODEL> -f Modelfile",
            OPTION,
        )),
        (run_as("vllm"), ("VLLM_CPU_OMP_THREADS_BIND=0-6",)),
        (run_as("sglang"), ("SGLANG_CPU_OMP_THREADS_BIND=0-6",)),
        (node(replace(ON_CARD, engine="vllm")), ("OMP_NUM_THREADS=7",)),
        (node(replace(HEALTHY, engine="vllm", usable_cpus=None)), ("OMP_NUM_THREADS=7",)),
        (run_as(None, "python3", "serve.py"), ()),  # ggml alone: it has no such variable
        (node(replace(HEALTHY, engine=None, environment={"OMP_NUM_THREADS": "9"})),
         ("OMP_NUM_THREADS=7",)),
        (node(replace(HEALTHY, engine=None, libraries=(TORCH,))), ("OMP_NUM_THREADS=7",)),
    ],
)  # fmt: skip
def test_threads(seen: Seen, commands: tuple[str, ...]) -> None:
    assert remedies.thread_commands(seen, 7) == commands


@pytest.mark.parametrize(
    ("seen", "commands"),
    [
        (run_as("llama.cpp", "llama-server"), ("llama-server --n-gpu-layers 999",)),
        (run_as("llama.cpp", "koboldcpp"), ("koboldcpp --gpulayers 999",)),
        (run_as("llama-cpp-python"), ("Llama(..., n_gpu_layers=-1)",)),
        (run_as("llama-cpp-python", *SERVER), ("python3 -m llama_cpp.server --n_gpu_layers -1",)),
        (run_as("vllm"), ()),
        (run_as(None), ()),
    ],
)
def test_layers(seen: Seen, commands: tuple[str, ...]) -> None:
    assert remedies.layer_commands(seen.facts.engine) == commands


@pytest.mark.parametrize(
    ("seen", "command"),
    [
        (run_as("llama.cpp"), "llama-server --load-mode mmap+mlock  # older builds: --mlock"),
        (run_as("llama.cpp", "koboldcpp"), "koboldcpp --usemlock"),
        (run_as("llama-cpp-python"), "Llama(..., use_mlock=True)"),
        (run_as("llama-cpp-python", *SERVER), "python3 -m llama_cpp.server --use_mlock True"),
        (run_as("ollama"), None),  # it has no such option any more
        (run_as("vllm"), None),
        (run_as(None), None),
    ],
)
def test_locking(seen: Seen, command: str | None) -> None:
    assert remedies.lock_commands(seen.facts.engine) == ((command,) if command else ())


def test_a_limit_on_locked_memory_is_raised_first() -> None:
    small, large = (with_process(HEALTHY, locked_limit_bytes=n) for n in (8 << 20, 64 * GIB))
    assert remedies.lock_commands(small)[0] == "ulimit -l unlimited"
    assert len(remedies.lock_commands(large)) == 1


@pytest.mark.parametrize(
    ("seen", "command"),
    [
        (run_as("llama.cpp"), "numactl --cpunodebind=1 --membind=1 llama-server --numa numactl"),
        (run_as("llama.cpp", "koboldcpp"), "numactl --cpunodebind=1 --membind=1 <ENGINE>"),
        (run_as("llama-cpp-python"), "numactl --cpunodebind=1 --membind=1 <ENGINE>"),
        (run_as("ollama"), f"sudo systemctl set-property ollama.service {ALLOWED}"),
        (run_as("vllm"), "VLLM_CPU_OMP_THREADS_BIND=8-15"),
        (run_as("sglang"), "SGLANG_CPU_OMP_THREADS_BIND=8-15"),
        (node(replace(ON_CARD, engine="vllm"), numa=two_nodes()), "vllm serve --numa-bind"),
    ],
)  # fmt: skip
def test_nodes(seen: Seen, command: str) -> None:
    assert remedies.node_commands(seen, [1]) == (command,)


@pytest.mark.parametrize(
    ("source", "container", "quota", "memory"),
    [
        ("/sys/fs/cgroup/system.slice/ollama.service/cpu.max", None,
         ("sudo systemctl set-property ollama.service CPUQuota=400%",),
         ("sudo systemctl set-property ollama.service MemoryMax=5G",)),
        ("/sys/fs/cgroup/system.slice/docker-0123.scope/cpu.max", None,
         ("docker update --cpus=4 <CONTAINER>",), (DOCKER,)),
        ("/sys/fs/cgroup/cpu/docker/0123/cpu.cfs_quota_us", None,
         ("docker update --cpus=4 <CONTAINER>",), (DOCKER,)),
        ("/sys/fs/cgroup/machine.slice/libpod-0123.scope/cpu.max", None,
         ("podman update --cpus=4 <CONTAINER>",), ("podman update --memory=5g <CONTAINER>",)),
        ("/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cri-1.scope/cpu.max", None,
         ("kubectl set resources deployment/<NAME> --limits=cpu=4",),
         ("kubectl set resources deployment/<NAME> --limits=memory=5Gi",)),
        ("/sys/fs/cgroup/cpu.max", "kubernetes",
         ("kubectl set resources deployment/<NAME> --limits=cpu=4",),
         ("kubectl set resources deployment/<NAME> --limits=memory=5Gi",)),
        ("/sys/fs/cgroup/cpu.max", None, (), ()),
    ],
)  # fmt: skip
def test_limits(
    source: str, container: str | None, quota: tuple[str, ...], memory: tuple[str, ...]
) -> None:
    seen = node(HEALTHY, virt=VirtFacts(container=container))
    assert remedies.quota_commands(seen, source, 4) == quota
    assert remedies.memory_commands(seen, source, 4.2 * GIB) == memory


def test_a_build_for_the_card_and_for_the_cpu() -> None:
    made = replace(HEALTHY, engine="llama-cpp-python", cards=(use(0, 0.0),))
    for command in (*remedies.gpu_build_commands(made)[1:], *remedies.build_commands(made)):
        assert command.startswith("CMAKE_ARGS=-DGGML_")
        assert command.endswith("--no-binary llama-cpp-python llama-cpp-python")
    assert remedies.gpu_build_commands(replace(made, engine="ollama"))[0] == "ollama ps"


@pytest.mark.parametrize("container", [None, "docker", "kubernetes"])
@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("/sys/fs/cgroup/cpu/mine/cpu.cfs_quota_us", "echo -1 > {}  # lifts it"),
        ("/sys/fs/cgroup/mine/cpu.max", "echo max > {}  # lifts it"),
        ("/sys/fs/cgroup/llama.service/mine/cpu.max", "echo max > {}  # lifts it"),
    ],
)
def test_a_group_that_somebody_made_is_named(
    source: str, command: str, container: str | None
) -> None:
    """No runtime and no unit changes it, in a container or out of it."""
    seen = node(HEALTHY, virt=VirtFacts(container=container))
    assert remedies.quota_commands(seen, source, 4) == (command.format(source),)


@pytest.mark.parametrize(
    "source",
    ["/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/unified/cpu.max",
     "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"],
)  # fmt: skip
def test_a_containers_own_group_is_its_runtimes(source: str) -> None:
    seen = node(HEALTHY, virt=VirtFacts(container="docker"))
    assert remedies.quota_commands(seen, source, 4) == ("docker update --cpus=4 <CONTAINER>",)


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("/sys/fs/cgroup/mine/memory.max", ("echo 5368709120 > {}",)),
        ("/sys/fs/cgroup/memory/mine/memory.limit_in_bytes", ("echo 5368709120 > {}",)),
        ("/sys/fs/cgroup/memory/memory.stat hierarchical_memory_limit", (DOCKER,)),
        ("/sys/fs/cgroup/memory/a/memory.stat hierarchical_memory_limit", (DOCKER,)),
    ],
)
def test_a_memory_limit_is_raised_where_it_is_set(source: str, command: tuple[str, ...]) -> None:
    seen = node(HEALTHY, virt=VirtFacts(container="docker"))
    expected = tuple(each.format(source) for each in command)
    assert remedies.memory_commands(seen, source, 4.2 * GIB) == expected
