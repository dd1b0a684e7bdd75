"""Tries the imports of a serving environment, each in a process of its own."""

from __future__ import annotations

import json
import re
import signal

from nodecheck.checks.python.facts import Library, PythonFacts
from nodecheck.checks.python.libraries import DISTRIBUTIONS
from nodecheck.machine.command import Output
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

LISTING_SECONDS = 30.0
IMPORT_SECONDS = 60.0
"""An import of torch or vllm from a cold network disk takes tens of seconds."""

DETAIL_LIMIT = 300

SHELL_SIGNAL = 128
"""A shell that runs the interpreter reports its death by signal N as 128 + N."""

MARK = "nodecheck-python:"

_START = (
    "import resource, sys\n"
    "sys.path[:] = [p for p in sys.path if p]\n"  # the current directory is no library
    "try:\n"
    "    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))\n"  # 1: not even a piped core dump
    "except (ValueError, OSError):\n"
    "    pass\n"
)
_LIST = (
    _START + "import json\n"
    "from importlib import metadata\n"
    "found = {}\n"
    "for name in sys.argv[1:]:\n"
    "    try:\n"
    "        found[name] = str(metadata.version(name))\n"
    "    except Exception:\n"
    "        pass\n"
    f"print('\\n{MARK}' + json.dumps(found))\n"
)
_IMPORT = (
    _START + "import importlib\n"
    "importlib.import_module(sys.argv[1])\n"
    f"print('\\n{MARK}imported', flush=True)\n"
    "import os\n"
    "if sys.argv[1] == 'torch':\n"
    "    try:\n"  # torch.cuda.get_arch_list() asks the driver first, which wakes cards
    "        flags = sys.modules['torch']._C._cuda_getArchFlags()\n"
    f"        print('{MARK}archs', flags, flush=True)\n"
    "    except Exception:\n"
    "        pass\n"
    "os._exit(0)\n"  # what goes wrong at exit is not the import's
)
_ARCH = re.compile(r"\b(?:sm|compute)_\d{2,4}[af]?\b|\bgfx[0-9a-f]{1,5}(?:-[0-9a-z-]{1,20})?")
_REFUSAL = re.compile(
    r"baseline optimizations:\s*\([^()]{0,200}\)[^()]{0,80}\([^()]{0,200}\)\.?"
    r"|compiled to use \S{1,40}(?: \S{1,40}){0,6} instructions, but [^\n]{0,200}"
    r"|CPU does not support x86-64-v\d[^\n]{0,80}|[Uu]nsupported CPU\b[^\n]{0,200}"
)


def probe(reader: Reader, interpreter: str) -> PythonFacts:
    """The libraries that are installed in `interpreter` and what became of their imports.

    Nothing is imported into this process. A captured tree has no interpreter to run.
    """
    if not reader.host.live:
        reader.gap("*", Reason.UNSUPPORTED, "libraries are tried on a live node only")
        return PythonFacts(interpreter=interpreter)
    try:
        output = _run(reader, interpreter, _LIST, *DISTRIBUTIONS, seconds=LISTING_SECONDS)
    except UnreadableError as error:
        reader.missed("libraries", error)
        return PythonFacts(interpreter=interpreter)
    versions = _listed(output.text)
    if versions is None:
        itself = _library("python", None, output)
        reader.gap("libraries", Reason.FAILED, f"{interpreter}: {itself.detail or 'not a Python'}")
        return PythonFacts(interpreter=interpreter, libraries=(itself,))
    modules = {DISTRIBUTIONS[name]: version for name, version in versions.items()}
    tried = [_try(reader, interpreter, module, modules[module]) for module in modules]
    return PythonFacts(
        interpreter=interpreter,
        libraries=tuple(library for library, _ in tried),
        torch_archs=next((archs for _, archs in tried if archs), None),
    )


def _run(reader: Reader, interpreter: str, *arguments: str, seconds: float) -> Output:
    return reader.host.run((interpreter, "-B", "-c", *arguments), seconds)


def _listed(text: str) -> dict[str, str] | None:
    """The versions that the interpreter printed, whatever its start-up files print beside them."""
    lines = [line for line in text.splitlines() if line.startswith(MARK)]
    try:
        found = json.loads(lines[-1][len(MARK) :])
    except (IndexError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {name: str(found[name])[:40] for name in DISTRIBUTIONS if name in found}


def _try(
    reader: Reader, interpreter: str, module: str, version: str
) -> tuple[Library, tuple[str, ...]]:
    """What became of an import, and what torch has code for."""
    name = module.partition(".")[0]
    try:
        output = _run(reader, interpreter, _IMPORT, module, seconds=IMPORT_SECONDS)
    except UnreadableError as error:
        outcome = "timeout" if error.reason is Reason.TIMEOUT else "failed"
        detail = f"import {module}: {_without_script(error.detail)}"
        reader.gap("libraries", error.reason, detail)
        return Library(name=name, version=version, outcome=outcome, detail=detail), ()
    if f"\n{MARK}imported" in output.text:
        return Library(name=name, version=version, outcome="ok"), _archs(output.text)
    return _library(name, version, output), ()


def _archs(text: str) -> tuple[str, ...]:
    """The generations of cards that torch printed, none where it is built without CUDA or ROCm."""
    said = re.search(rf"^{MARK}archs ([^\n]{{1,2000}})$", text, re.MULTILINE)
    return tuple(_ARCH.findall(said[1])) if said else ()


def _without_script(detail: str) -> str:
    """A command's failure without the text of the program that it ran."""
    return detail.rpartition(": ")[2].strip()[:DETAIL_LIMIT]


def _library(name: str, version: str | None, output: Output) -> Library:
    """What a process that did not import its library died of."""
    refusal = _refusal(output.text)
    if _signal(output) == signal.SIGILL:
        outcome, detail = "illegal_instruction", _last_line(output.text)
    elif refusal is not None:
        outcome, detail = "refused", refusal
    else:
        number = _signal(output)
        died = f"died by signal {number}: " if number else ""
        outcome, detail = "failed", died + _last_line(output.text)
    return Library(
        name=name, version=version, outcome=outcome, detail=detail[:DETAIL_LIMIT] or None
    )


def _refusal(text: str) -> str | None:
    """The last statement in which a library names what the processor lacks, as one line."""
    found = None
    for found in _REFUSAL.finditer(text):  # noqa: B007 - a traceback quotes the source before it
        pass
    if found is None:
        return None
    start = max(text.rfind("\n", 0, found.start()) + 1, found.start() - DETAIL_LIMIT)
    return " ".join(text[start : found.end()].split())


def _signal(output: Output) -> int | None:
    if output.status < 0:
        return -output.status
    return output.status - SHELL_SIGNAL if output.status > SHELL_SIGNAL else None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
