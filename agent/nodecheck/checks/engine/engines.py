"""Which engine a process is, by its name, its arguments and the libraries that it maps.

Names: llama.cpp (tools/, and main and server before June 2024), koboldcpp (koboldcpp.py, Makefile),
llama-cpp-python (llama_cpp/server), ollama (llm/server.go, llm/llama_server.go), vLLM
(entrypoints/, utils/system_utils.py set_process_title), SGLang (launch_server.py, srt/managers).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from nodecheck.checks.engine import mappings, tasks
from nodecheck.checks.engine.mappings import Mapped
from nodecheck.checks.engine.tasks import Moment, Stat
from nodecheck.machine import child
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Struct

LLAMA_CPP, LLAMA_CPP_PYTHON, OLLAMA, VLLM, SGLANG = ENGINES = (
    "llama.cpp", "llama-cpp-python", "ollama", "vllm", "sglang",
)  # fmt: skip

FIND_SECONDS = 5.0
"""Who reads another's arguments can hang with it."""

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python that take the next word."""

_LLAMA = re.compile(r"llama-(?:server|cli|bench|batched-bench|perplexity|simple|parallel|mtmd-cli)")
_OLD_LLAMA = ("main", "server")
_KOBOLD = re.compile(r"koboldcpp(?:[-_.].*)?")
_TITLES = (("VLLM::", VLLM), ("sglang::", SGLANG))
"""How workers call themselves."""

_MODULES = (
    (re.compile(r"llama_cpp\.server(?:\..+)?"), LLAMA_CPP_PYTHON),
    (re.compile(r"vllm\.entrypoints\..+|vllm"), VLLM),
    (re.compile(r"sglang\.(?:launch_server|srt\..+|bench_(?:one_batch|offline).*)|sglang"), SGLANG),
)
_SCRIPTS = {
    "vllm": (VLLM, ("serve", "bench", "run-batch")),
    "sglang": (SGLANG, ("serve",)),
}
"""Programs that pip installs, and the commands of theirs that start an engine."""

_LIBRARIES = (
    (re.compile(r"/llama_cpp/(?:lib/)?libllama\."), LLAMA_CPP_PYTHON),
    (re.compile(r"/ollama/(?:.*/)?libggml"), OLLAMA),
    (re.compile(r"/sgl_kernel/[^/]+\.so"), SGLANG),
    (re.compile(r"/vllm/_C[^/]*\.so"), VLLM),
    (re.compile(r"/koboldcpp_\w+\.so"), LLAMA_CPP),
    (re.compile(r"/libllama\.so"), LLAMA_CPP),
)


def engine_of(name: str, argv: Sequence[str]) -> str | None:
    """The engine of a process of this name and these arguments; None for another program."""
    first = argv[0] if argv else name
    for title, engine in _TITLES:
        if first.startswith(title) or name.startswith(title):
            return engine
    program = first.rpartition("/")[2]
    if is_python(first):
        return _of_python(argv[1:])
    return _of_program(first, program, argv[1:])


def _of_program(path: str, program: str, words: Sequence[str]) -> str | None:
    if program in ("ollama", "ollama_llama_server"):
        serves = words[:1] and words[0] in ("serve", "start", "runner")
        return OLLAMA if serves or program != "ollama" else None
    if _LLAMA.fullmatch(program):
        return OLLAMA if "/ollama/" in path else LLAMA_CPP
    if _KOBOLD.fullmatch(program):
        return LLAMA_CPP
    if program in _OLD_LLAMA and any(word.endswith(".gguf") for word in words):
        return LLAMA_CPP
    return _of_script(program, words)


def _of_script(program: str, words: Sequence[str]) -> str | None:
    engine, commands = _SCRIPTS.get(program, (None, ()))
    return engine if words and words[0] in commands else None


def _of_python(words: Sequence[str]) -> str | None:
    place = script_place(words)
    if place is None:
        return None
    rest = words[place:]
    if place and words[place - 1] == "-m":
        named = (engine for form, engine in _MODULES if form.fullmatch(rest[0]))
        return next(named, None)
    program = rest[0].rpartition("/")[2]
    if _KOBOLD.fullmatch(program):
        return LLAMA_CPP
    return _of_script(program, rest[1:])


def is_python(path: str) -> bool:
    """Whether a program is Python."""
    return bool(_PYTHON.fullmatch(path.rpartition("/")[2]))


def script_place(words: Sequence[str]) -> int | None:
    """Where among Python's arguments the script or module stands; None for code and standard input.

    A module follows "-m".
    """
    place = 0
    while place < len(words):
        word = words[place]
        if word == "-m":
            return place + 1 if place + 1 < len(words) else None
        if word in ("-c", "-"):
            return None
        if not word.startswith("-"):
            return place
        place += 2 if word in _WITH_VALUE else 1
    return None


def engine_by_files(files: Iterable[Mapped]) -> str | None:
    """The engine whose library a process maps."""
    paths = [file.path for file in files if file.is_code]
    for form, engine in _LIBRARIES:
        if any(form.search(path) for path in paths):
            return engine
    return None


def arguments(reader: Reader, pid: int) -> tuple[str, ...]:
    """A process's arguments; () where it has none, or has ended."""
    written = reader.binary(f"/proc/{pid}/cmdline", None) or b""
    # who renames itself leaves NULs, or blanks, behind the name
    words = written.rstrip(b"\0 ").split(b"\0") if written.strip(b"\0 ") else []
    return tuple(word.decode(errors="replace") for word in words)


class _Found(Struct, frozen=True):
    pids: tuple[int, ...]


def find(reader: Reader, name: str) -> tuple[int, ...]:
    """The processes that an engine of this name began with, on this node.

    What an engine started is not among them. () with a gap of `pid` where they cannot be looked at.
    """
    if not reader.host.live:
        return _roots(reader, name)
    outcome = child.call(lambda: _Found(_roots(reader, name)), _Found, FIND_SECONDS)
    if outcome.value is None:
        reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
        reader.gap("pid", reason, f"looking for {name}: {outcome.error}")
        return ()
    return outcome.value.pids


def _roots(reader: Reader, name: str) -> tuple[int, ...]:
    stats = tasks.processes(Moment(reader))
    found = {
        pid: engine
        for pid, stat in stats.items()
        if not (stat.is_over or stat.is_kernels)
        and (engine := _engine(reader, pid, stat.name)) is not None
    }
    return tuple(
        pid
        for pid, engine in sorted(found.items())
        if engine == name and not found.keys() & (_ancestors(stats, pid) - {pid})
    )


def _engine(reader: Reader, pid: int, name: str) -> str | None:
    argv = arguments(reader, pid)
    engine = engine_of(name, argv)
    if engine is not None or not argv or not is_python(argv[0]):
        return engine
    try:
        return engine_by_files(mappings.mapped(reader, pid))
    except UnreadableError:
        return None


def _ancestors(stats: Mapping[int, Stat], pid: int) -> set[int]:
    found: set[int] = set()
    while pid in stats and (pid := stats[pid].parent) not in found:
        found.add(pid)
    return found
