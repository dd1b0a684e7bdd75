"""What the processes of an engine hold: of real ones, of others' users, of those that end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodecheck.checks.engine import forms, held, mappings, model_files
from nodecheck.checks.engine.held import Held, hold
from nodecheck.machine import child, page_cache
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
from nodecheck.model import Gap, Reason, Struct
from tests.checks.engine import captures
from tests.fake_engine.build import FakeEngines, fake_engines
from tests.trees import Link, Tree, plant
from tests.workload.gguf.files import Tensor, write

__all__ = ["fake_engines"]

MIB = 1 << 20
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: cannot become another user")


class Told(Struct, frozen=True):
    held: Held
    gaps: tuple[Gap, ...]


def told(*pids: int) -> Told:
    reader = Reader(open_host(None), "engine")
    return Told(hold(reader, pids), tuple(reader.gaps))


def holds(*pids: int) -> Held:
    """Of processes that tell all."""
    found = told(*pids)
    assert found.gaps == ()
    return found.held


def captured(tree: Tree, directory: Path, *pids: int) -> Told:
    reader = Reader(plant(tree, directory), "engine")
    return Told(hold(reader, pids), tuple(reader.gaps))


def model(path: Path, data: int = 4 * MIB) -> Path:
    """Mostly Q4_0, with an output that is Q6_K; its data is written, and so in memory."""
    tensors = [
        Tensor("blk.0.ffn_up.weight", (256, 4096), "q4_0"),
        Tensor("output.weight", (256, 64), "q6_k"),
        Tensor("output_norm.weight", (256,), "f32"),
    ]
    write(path, {"general.architecture": "llama"}, tensors)
    with path.open("ab") as file:
        file.write(os.urandom(data))
    return path


def test_an_engine_that_runs(fake_engines: FakeEngines, tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf")
    with fake_engines.running("--threads", "1", "--model", path) as engine:
        found = holds(engine.pid)
    assert found.engine == "llama.cpp"
    assert found.command[0] == str(fake_engines.program)
    assert found.command[1:] == ("--threads", "1", "--model", str(path))
    assert found.settings == {"threads": "1"}
    (library,) = found.libraries
    assert library.path.endswith("/avx2/libggml-cpu.so")
    assert library.compiled is not None
    assert "avx2" in library.compiled
    (file,) = found.model_files
    assert (file.path, file.size_bytes) == (str(path), path.stat().st_size)
    assert file.mapped_bytes == -(-path.stat().st_size // 4096) * 4096
    assert file.cached_bytes == path.stat().st_size
    assert file.weight_type == "q4_0"
    assert found.processes[engine.pid].gpu_files == ()


def test_its_other_build(fake_engines: FakeEngines) -> None:
    with fake_engines.running("--threads", "1", variant="sse2") as engine:
        (library,) = holds(engine.pid).libraries
    assert library.compiled == ()
    assert library.left_out is not None
    assert "avx2" in library.left_out


def test_a_model_of_which_half_is_in_memory(fake_engines: FakeEngines, tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", data=64 * MIB)
    size = path.stat().st_size
    with fake_engines.running("--model", path) as engine:
        os.sync()
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), size // 2, 0, os.POSIX_FADV_DONTNEED)
            left = page_cache.cached_bytes(file.fileno(), 0, size)
        (found,) = holds(engine.pid).model_files
    assert left is not None
    assert found.cached_bytes == left
    assert 0.45 * size < left < 0.6 * size


def test_secrets_stay(fake_engines: FakeEngines, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-sk-9f8e7d"
    monkeypatch.setenv("LLAMA_API_KEY", secret)
    monkeypatch.setenv("HF_TOKEN", secret)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with fake_engines.running("--threads", "1", "--api-key", secret) as engine:
        found = holds(engine.pid)
    assert secret not in str(found)
    assert found.environment["OMP_NUM_THREADS"] == "3"
    assert found.environment.keys() <= forms.ENVIRONMENT.keys()


def as_nobody(work: Callable[[], Told]) -> Told:
    """What another user sees."""

    def become() -> Told:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        return work()

    outcome = child.call(become, Told, 20)
    assert outcome.value is not None, outcome.error
    return outcome.value


@as_root
def test_another_users_engine(fake_engines: FakeEngines, tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf")
    with (
        fake_engines.running("--threads", "1", "--model", path) as one,
        subprocess.Popen(["sleep", "60"]) as two,
    ):
        found = as_nobody(lambda: told(one.pid, two.pid))
        two.kill()
    assert found.held.engine == "llama.cpp"
    assert found.held.settings == {"threads": "1"}
    assert found.held.libraries == ()
    assert found.held.model_files == ()
    assert found.held.processes[one.pid].gpu_files is None
    assert sorted((gap.field, gap.reason) for gap in found.gaps) == [
        ("environment", Reason.DENIED),
        ("libraries", Reason.DENIED),
        ("model_files", Reason.DENIED),
        ("processes.gpu_files", Reason.DENIED),
    ]


@as_root
def test_a_model_that_is_anothers(tmp_path: Path) -> None:
    """Who may neither write nor own a file is told nothing of its pages."""
    path = model(tmp_path / "m.gguf")
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if not os.stat(folder).st_mode & 0o001:  # noqa: PTH116
            folder.chmod(0o755)
    file = mappings.Mapped(
        path=str(path), place=str(path), device=(0, 0), inode=1,
        mapped_bytes=4096, is_code=False, is_deleted=False,
    )  # fmt: skip

    def look() -> Told:
        seen = model_files.look([file])
        assert seen.reason is not None
        gap = Gap(check="engine", field="x", reason=seen.reason, detail=seen.detail)
        return Told(Held(model_files=seen.files), (gap,))

    found = as_nobody(look)
    (seen,) = found.held.model_files
    assert seen.size_bytes == path.stat().st_size
    assert seen.cached_bytes is None
    assert seen.weight_type == "q4_0"
    assert found.gaps[0].reason is Reason.DENIED


@contextlib.contextmanager
def zombie() -> Iterator[int]:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    yield pid
    os.waitpid(pid, 0)


def test_those_that_ended_and_the_kernels() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    with zombie() as pid:
        assert told(pid, gone.pid, 2) == Told(Held(), ())


def test_nothing_is_asked_about_nothing() -> None:
    assert told() == Told(Held(), ())


def test_processes_that_vanish_meanwhile() -> None:
    """None of them is a gap, whatever of it was read before it went."""
    for _ in range(30):
        with subprocess.Popen(["sleep", "0.01"]) as process:
            while process.poll() is None:
                assert told(process.pid).gaps == ()


PYTHON = """
import ctypes, os, sys
ctypes.CDLL(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_program_of_ones_own(tmp_path: Path) -> None:
    """Known by the library that it loads: what it computes with lies in llama_cpp."""
    place = tmp_path / "site-packages" / "llama_cpp" / "lib"
    place.mkdir(parents=True)
    code = "int ggml_cpu_has_avx2(void) { return 1; }"
    (place / "x.c").write_text(code)
    subprocess.run(["gcc", "-O2", "-shared", "x.c", "-o", "libllama.so"], cwd=place, check=True)
    with subprocess.Popen(
        [sys.executable, "-c", PYTHON, place / "libllama.so"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        found = holds(process.pid)
    assert found.engine == "llama-cpp-python"
    assert found.command == (sys.executable,)
    assert [each.compiled for each in found.libraries] == [("avx2",)]
    assert found.environment["CUDA_VISIBLE_DEVICES"] == ""


def test_a_program_that_tells_nothing(tmp_path: Path) -> None:
    """All in one, and stripped."""
    code = '#include <unistd.h>\nint main(void) { write(1, "x\\n", 2); pause(); }'
    (tmp_path / "x.c").write_text(code)
    program = tmp_path / "llama-server"
    subprocess.run(["gcc", "-s", "x.c", "-o", program], cwd=tmp_path, check=True)
    with subprocess.Popen([program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = told(process.pid)
        process.kill()
    assert found.held.engine == "llama.cpp"
    assert found.held.libraries == ()
    assert [(gap.field, gap.reason) for gap in found.gaps] == [("libraries", Reason.UNSUPPORTED)]


def test_a_file_that_hangs(
    fake_engines: FakeEngines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a dead server keeps is not known; the rest is."""

    def never(*_: object) -> object:
        time.sleep(60)
        raise AssertionError

    monkeypatch.setattr(model_files, "look", never)
    monkeypatch.setattr(held, "LOOK_SECONDS", 3)
    path = model(tmp_path / "m.gguf")
    with fake_engines.running("--threads", "1", "--model", path) as engine:
        begun = time.monotonic()
        found = told(engine.pid)
    assert time.monotonic() - begun < 20
    (file,) = found.held.model_files
    assert (file.path, file.size_bytes, file.cached_bytes) == (str(path), None, None)
    assert found.held.libraries[0].compiled
    assert [(gap.field, gap.reason) for gap in found.gaps] == [
        ("model_files.cached_bytes", Reason.TIMEOUT)
    ]


def process(pid: int, command: str, parent: int = 1, **environment: str) -> Tree:
    written = "".join(f"{name}={value}\0" for name, value in environment.items())
    return {
        f"proc/{pid}/stat": captures.stat(pid, parent=parent),
        f"proc/{pid}/cmdline": command.replace(" ", "\0") + "\0",
        f"proc/{pid}/environ": written,
        f"proc/{pid}/maps": "",
        f"proc/{pid}/limits": "Max locked memory   65536   65536   bytes\n",
        f"proc/{pid}/fd/0": Link("/dev/null"),
    }


def test_ollama_and_what_it_started(tmp_path: Path) -> None:
    tree = {
        **process(7, "/usr/local/bin/ollama serve", OLLAMA_NUM_PARALLEL="4"),
        **process(8, "/usr/local/bin/ollama runner --threads 8 --n-gpu-layers 33", 7),
        "proc/8/fd/1": Link("/dev/nvidia0"),
    }
    tree["proc/8/maps"] = (
        "7f0000000000-7f0000001000 r-xp 00000000 fd:01 7 /usr/lib/ollama/libggml-cpu-haswell.so\n"
        f"7f0000000000-7f0100000000 r--s 00000000 fd:01 8 /models/blobs/sha256-{'1f' * 32}\n"
    )
    found, gaps = (answer := captured(tree, tmp_path, 7, 8)).held, answer.gaps
    assert gaps == ()
    assert found.engine == "ollama"
    assert found.command == ("/usr/local/bin/ollama", "serve")
    assert found.settings == {"threads": "8", "gpu_layers": "33"}
    assert found.environment == {"OLLAMA_NUM_PARALLEL": "4"}
    assert [each.variant for each in found.libraries] == ["haswell"]
    assert [each.mapped_bytes for each in found.model_files] == [1 << 32]
    assert found.processes[8].gpu_files == ("/dev/nvidia0",)
    assert found.processes[7].gpu_files == ()
    assert found.processes[7].locked_limit_bytes == 65536


def test_settings_that_contradict_each_other_are_none(tmp_path: Path) -> None:
    tree = {
        **process(7, "ollama serve"),
        **process(8, "ollama runner --threads 8 --n-gpu-layers 33", 7),
        **process(9, "ollama runner --threads 8 --n-gpu-layers 0", 7),
    }
    assert captured(tree, tmp_path, 7, 8, 9).held.settings == {"threads": "8"}


def test_an_engine_behind_a_script(tmp_path: Path) -> None:
    tree = {
        **process(7, "bash start.sh", OMP_NUM_THREADS="2", CUDA_VISIBLE_DEVICES="0"),
        **process(8, "python3 /venv/bin/vllm serve q/q", 7, OMP_NUM_THREADS="8"),
        **process(9, "VLLM::EngineCore", 8),
    }
    found = captured(tree, tmp_path, 7, 8, 9).held
    assert found.engine == "vllm"
    assert found.command == ("python3", "/venv/bin/vllm", "serve", "q/q")
    assert found.environment == {"OMP_NUM_THREADS": "8"}
    assert found.settings == {"threads": "8"}


GROUPS = "14:freezer:/a/b\n0::/a/b\n"


@pytest.mark.parametrize(
    ("files", "group", "by"),
    [
        ({"a/b/cgroup.events": "populated 1\nfrozen 1\n"}, "0::/a/b\n", "a/b/cgroup.events"),
        ({"a/b/cgroup.events": "populated 1\nfrozen 0\n"}, "0::/a/b\n", None),
        ({"freezer/a/b/freezer.state": "FROZEN\n"}, GROUPS, "freezer/a/b/freezer.state"),
        ({"freezer/a/b/freezer.state": "THAWED\n"}, GROUPS, None),
        ({}, GROUPS, None),
        ({}, "", None),
    ],
)
def test_frozen_by_its_control_group(
    tmp_path: Path, files: dict[str, str], group: str, by: str | None
) -> None:
    tree: Tree = {
        **process(7, "llama-server"),
        "proc/7/cgroup": group,
        "proc/mounts": (
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
            "cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n"
        ),
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
    reader = Reader(plant(tree, tmp_path), "engine")
    assert held.frozen_by(reader, 7) == (by and f"/sys/fs/cgroup/{by}")
    assert reader.gaps == []


def test_another_program(tmp_path: Path) -> None:
    found = captured(process(7, "/opt/own --key x", OMP_NUM_THREADS="2"), tmp_path, 7).held
    assert found.engine is None
    assert found.command == ("/opt/own",)
    assert found.environment == {"OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize(("nodes", "known"), [("0-1", True), ("0", False), ("", False)])
def test_where_memory_lies_is_read_where_there_are_nodes(
    tmp_path: Path, nodes: str, known: bool
) -> None:
    tree = process(7, "llama-server")
    tree["sys/devices/system/node/has_memory"] = nodes + "\n"
    tree["proc/7/numa_maps"] = "7f00 default N0=1 N1=3 kernelpagesize_kB=4\n"
    found = captured(tree, tmp_path, 7)
    expected = {0: 4096, 1: 3 * 4096} if known else None
    assert found.held.processes[7].numa_bytes == expected
    assert found.gaps == ()


def test_more_processes_than_any_engine_has(tmp_path: Path) -> None:
    tree: Tree = {}
    for pid in range(7, 607):
        tree[f"proc/{pid}/stat"] = captures.stat(pid)
        tree[f"proc/{pid}/cmdline"] = "bash\0"
    found = captured(tree, tmp_path, *range(7, 607))
    assert len(found.held.processes) == 512
    assert [gap.field for gap in found.gaps] == ["processes"]
