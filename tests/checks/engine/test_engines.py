"""Which engine a process is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodecheck.checks.engine.engines import ENGINES, arguments, engine_of, find
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
from tests.checks.engine import captures
from tests.fake_engine.build import FakeEngines, fake_engines
from tests.trees import Tree, plant

__all__ = ["fake_engines"]

KNOWN = {
    "llama.cpp": (
        "llama-server -m m.gguf -ngl 99",
        "/usr/local/bin/llama-server",
        "./build/bin/llama-bench -m m.gguf",
        "llama-cli -hf ggml-org/gemma-3-1b-it-GGUF",
        "./main -m models/7B/ggml-model-q4_0.gguf -t 8",
        "/srv/llama/server --model a.gguf",
        "python3 koboldcpp.py --model m.gguf",
        "/opt/koboldcpp-linux-x64-cuda1150 m.gguf 5001",
        "koboldcpp --model m.gguf",
    ),
    "llama-cpp-python": (
        "python3 -m llama_cpp.server --model m.gguf",
        "/venv/bin/python3.11 -u -X dev -m llama_cpp.server --model m.gguf",
    ),
    "ollama": (
        "/usr/local/bin/ollama serve",
        "ollama start",
        "/usr/bin/ollama runner --model /root/.ollama/models/blobs/sha256-12 --port 40001",
        "/tmp/ollama12/runners/cpu_avx2/ollama_llama_server --model m",
        "/usr/local/lib/ollama/llama-server --model /root/.ollama/models/blobs/sha256-12",
    ),
    "vllm": (
        "/venv/bin/python3 /venv/bin/vllm serve Qwen/Qwen3-8B",
        "vllm serve Qwen/Qwen3-8B",
        "python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B",
        "python -m vllm.entrypoints.cli.main serve x",
        "VLLM::EngineCore",
        "VLLM::EngineCore_DP1",
        "VLLM::Worker_TP0",
        "VLLM::APIServer",
    ),
    "sglang": (
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B",
        "/venv/bin/python /venv/bin/sglang serve --model-path x",
        "python3 -m sglang.bench_one_batch --model x",
        "sglang::scheduler_TP0",
        "sglang::detokenizer",
    ),
}
OTHERS = (
    "bash -c 'vllm serve x'",
    "docker run vllm/vllm-openai vllm serve x",
    "ollama run llama3",
    "ollama pull llama3",
    "ollama",
    "python3",
    "python3 -",
    "python3 -m",
    "python3 -c import vllm",
    "python3 -m http.server vllm.entrypoints",
    "python3 -m vllm_router",
    "python3 -m sglang_router.launch_server",
    "python3 -m sglang.bench_serving --backend vllm",
    "python3 train.py --engine vllm",
    "python3 /venv/bin/vllm chat",
    "python3 /venv/bin/vllm",
    "vim llama-server",
    "/usr/sbin/server --port 80",
    "main",
    "grep sglang::scheduler",
    "nodecheck attach --engine vllm",
    "python3 -m nodecheck attach --engine llama.cpp",
    "llama-server-log-reader",
    "postgres: writer process",
)


@pytest.mark.parametrize(
    ("command", "engine"), [(each, name) for name, commands in KNOWN.items() for each in commands]
)
def test_an_engine(command: str, engine: str) -> None:
    assert engine_of("x", command.split(" ")) == engine


@pytest.mark.parametrize("command", OTHERS)
def test_another_program(command: str) -> None:
    assert engine_of("x", command.split(" ")) is None


def test_every_engine_is_known() -> None:
    assert set(KNOWN) == set(ENGINES)


@pytest.mark.parametrize(
    ("name", "engine"),
    [("VLLM::EngineCor", "vllm"), ("sglang::schedul", "sglang"), ("ollama", None), ("", None)],
)
def test_who_has_only_a_name(name: str, engine: str | None) -> None:
    assert engine_of(name, []) == engine


def node(*processes: tuple[int, int, str]) -> Tree:
    """Each an id, its parent's and its command."""
    tree: Tree = {}
    for pid, parent, command in processes:
        tree[f"proc/{pid}/stat"] = captures.stat(pid, parent=parent)
        tree[f"proc/{pid}/cmdline"] = command.replace(" ", "\0") + "\0"
    return tree


def captured(tree: Tree, directory: Path) -> Reader:
    return Reader(plant(tree, directory), "engine")


def test_an_engine_is_found_by_its_first_process(tmp_path: Path) -> None:
    tree = node(
        (1, 0, "systemd"),
        (10, 1, "python3 /venv/bin/vllm serve a"),
        (11, 10, "VLLM::EngineCore"),
        (12, 11, "VLLM::Worker_TP0"),
        (20, 1, "bash start.sh"),
        (21, 20, "python3 /venv/bin/vllm serve b"),
        (30, 1, "/usr/local/bin/ollama serve"),
        (31, 30, "/opt/own/llama-server --model m"),
        (40, 1, "llama-server -m c.gguf"),
    )
    reader = captured(tree, tmp_path)
    assert find(reader, "vllm") == (10, 21)
    assert find(reader, "ollama") == (30,)
    assert find(reader, "llama.cpp") == (40,)
    assert find(reader, "sglang") == ()
    assert reader.gaps == []


def test_a_program_of_ones_own_is_known_by_what_it_maps(tmp_path: Path) -> None:
    tree = node((1, 0, "systemd"), (10, 1, "python3 chat.py"), (11, 1, "python3 other.py"))
    library = "/venv/lib/python3.11/site-packages/llama_cpp/lib/libllama.so"
    tree["proc/10/maps"] = f"7f00-7f10 r-xp 00000000 fd:01 55 {library}\n"
    tree["proc/11/maps"] = "7f00-7f10 r-xp 00000000 fd:01 56 /usr/lib/libc.so.6\n"
    reader = captured(tree, tmp_path)
    assert find(reader, "llama-cpp-python") == (10,)


def test_one_that_ended_and_those_of_the_kernel(tmp_path: Path) -> None:
    tree = node((10, 1, "vllm serve a"), (11, 1, "vllm serve a"))
    tree["proc/10/stat"] = captures.stat(10, state="Z")
    tree["proc/11/stat"] = captures.stat(11, flags=0x208040)
    assert find(captured(tree, tmp_path), "vllm") == ()


def test_parents_that_go_round_in_a_circle(tmp_path: Path) -> None:
    tree = node((10, 11, "vllm serve a"), (11, 10, "bash"))
    assert find(captured(tree, tmp_path), "vllm") == (10,)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"a\0b c\0\0d\0", ("a", "b c", "", "d")),
        (b"VLLM::EngineCore\0\0\0\0\0\0", ("VLLM::EngineCore",)),
        (b"", ()),
        (b"\0\0\0", ()),
        (b"caf\xe9\0x\0", ("caf\ufffd", "x")),
    ],
)
def test_arguments(tmp_path: Path, written: bytes, words: tuple[str, ...]) -> None:
    assert arguments(captured({"proc/7/cmdline": written}, tmp_path), 7) == words


def test_on_this_machine(fake_engines: FakeEngines) -> None:
    reader = Reader(open_host(None), "engine")
    with fake_engines.running() as engine:
        assert engine.pid in find(reader, "llama.cpp")
        assert engine.pid not in find(reader, "vllm")
    assert engine.process.wait() != 0
    assert engine.pid not in find(reader, "llama.cpp")
    assert reader.gaps == []


def test_a_title_that_a_process_gave_itself() -> None:
    """As setproctitle does: over its arguments, whatever lies behind them."""
    code = (
        "import ctypes, sys; end = int(open('/proc/self/stat').read().split(')')[1].split()[46])\n"
        "begin = int(open('/proc/self/stat').read().split(')')[1].split()[45])\n"
        "ctypes.memset(begin, 0, end - begin); ctypes.memmove(begin, b'VLLM::Worker', 12)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        reader = Reader(open_host(None), "engine")
        assert arguments(reader, process.pid) == ("VLLM::Worker",)
        assert process.pid in find(reader, "vllm")
