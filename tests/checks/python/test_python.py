from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.python import probe as python_probe
from nodecheck.checks.python.facts import Library, PythonFacts
from nodecheck.checks.python.libraries import DISTRIBUTIONS, NEEDS, PINS
from nodecheck.checks.python.probe import probe
from nodecheck.checks.python.rules import RULES
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.host import CapturedHost, LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Action, Finding, Reason
from nodecheck.policy import Policy
from tests.checks.python.examples import environment
from tests.processes import children
from tests.trees import Tree

BASELINE = (
    "RuntimeError: NumPy was built with baseline optimizations: \n"
    "(X86_V2) but your machine doesn't support:\n(X86_V2)."
)
ONE_LINE = (
    "RuntimeError: NumPy was built with baseline optimizations: (X86_V2) but your machine "
    "doesn't support: (X86_V2)."
)

Environment = Callable[[dict[str, str]], str]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "state" / "history.db"))


@pytest.fixture
def interpreter(tmp_path: Path) -> Environment:
    """A Python whose libraries are the given ones: distribution -> source of its module."""

    def make(libraries: dict[str, str]) -> str:
        site = tmp_path / "site"
        for name, source in libraries.items():
            module = DISTRIBUTIONS.get(name, name).partition(".")[0]
            (site / f"{name.replace('-', '_')}-1.2.dist-info").mkdir(parents=True)
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n"
            (site / f"{name.replace('-', '_')}-1.2.dist-info" / "METADATA").write_text(metadata)
            (site / f"{module}.py").write_text(source)
        site.mkdir(exist_ok=True)
        return script(tmp_path / "python", f'PYTHONPATH={site} exec {sys.executable} -S "$@"')

    return make


def script(file: Path, text: str) -> str:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def tried(interpreter: str) -> tuple[PythonFacts, Reader]:
    reader = Reader(LiveHost(), "python")
    return probe(reader, interpreter), reader


def outcomes(facts: PythonFacts) -> dict[str, str]:
    return {library.name: library.outcome for library in facts.libraries}


def judge(seen: Seen) -> list[Finding]:
    return [finding for rule in RULES for finding in rule.judge(seen)]


KILL_SELF = "import os, signal\nos.kill(os.getpid(), signal.{})\n"


def test_only_what_is_installed_is_tried(interpreter: Environment) -> None:
    facts, reader = tried(interpreter({"numpy": "", "tiktoken": ""}))
    assert outcomes(facts) == {"numpy": "ok", "tiktoken": "ok"}
    assert {library.version for library in facts.libraries} == {"1.2"}
    assert reader.gaps == []


def test_a_death_by_sigill(interpreter: Environment) -> None:
    source = "print('Missing required CPU features', flush=True)\n" + KILL_SELF.format("SIGILL")
    facts, _ = tried(interpreter({"numpy": "", "polars": source}))
    assert facts.libraries[1] == Library(
        name="polars",
        version="1.2",
        outcome="illegal_instruction",
        detail="Missing required CPU features",
    )


def test_a_shell_that_runs_the_interpreter_reports_it_otherwise(
    interpreter: Environment, tmp_path: Path
) -> None:
    inner = interpreter({"numpy": KILL_SELF.format("SIGILL")})
    assert outcomes(tried(script(tmp_path / "outer", f'{inner} "$@"\nexit $?'))[0]) == {
        "numpy": "illegal_instruction"
    }


@pytest.mark.parametrize(
    "words",
    [
        ONE_LINE,
        "The TensorFlow library was compiled to use AVX instructions, but these aren't available.",
        "Fatal glibc error: CPU does not support x86-64-v2",
    ],
)
def test_a_library_that_says_so_itself(words: str, interpreter: Environment) -> None:
    source = f"import sys\nsys.exit({words!r})\n"
    (library,) = tried(interpreter({"numpy": source}))[0].libraries
    assert (library.outcome, library.detail) == ("refused", words)


def test_numpys_words_as_a_traceback(interpreter: Environment) -> None:
    source = f"raise RuntimeError({ONE_LINE.removeprefix('RuntimeError: ')!r})\n"
    (library,) = tried(interpreter({"numpy": source}))[0].libraries
    assert (library.outcome, library.detail) == ("refused", ONE_LINE)


def test_numpys_words_over_several_lines(interpreter: Environment) -> None:
    source = f"raise RuntimeError({BASELINE.removeprefix('RuntimeError: ')!r})\n"
    (library,) = tried(interpreter({"numpy": source}))[0].libraries
    assert (library.outcome, library.detail) == ("refused", ONE_LINE)


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", None),
        ("raise RuntimeError('CUDA is missing')", "RuntimeError: CUDA is missing"),
        (KILL_SELF.format("SIGSEGV"), "died by signal 11: "),
        (KILL_SELF.format("SIGKILL"), "died by signal 9: "),
        ("import os; os._exit(0)", None),
        ("import sys\nwhile True: sys.stdout.write('x' * (1 << 20))", "printed"),
        ("syntax error", "SyntaxError: invalid syntax"),
    ],
)
def test_other_failures_are_no_finding(
    source: str, detail: str | None, interpreter: Environment
) -> None:
    facts, _ = tried(interpreter({"numpy": source, "tiktoken": ""}))
    assert outcomes(facts) == {"numpy": "failed", "tiktoken": "ok"}
    assert (detail or "") in (facts.libraries[0].detail or "")
    assert judge(Seen(facts=Facts(python=facts), policy=Policy())) == []


def test_an_import_that_hangs_is_cut_off_and_the_others_are_tried(
    interpreter: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_probe, "IMPORT_SECONDS", 1.0)
    before = children()
    facts, reader = tried(interpreter({"numpy": "import time; time.sleep(600)", "tiktoken": ""}))
    assert facts.libraries[0].outcome == "timeout"
    assert facts.libraries[0].detail == "import numpy: no answer within 1 s"
    assert [(gap.field, gap.reason) for gap in reader.gaps] == [("libraries", Reason.TIMEOUT)]
    assert children() == before


def test_what_goes_wrong_after_the_import_does_not_count(interpreter: Environment) -> None:
    source = "import atexit, os\natexit.register(os.abort)\nprint('noise')\n"
    assert outcomes(tried(interpreter({"numpy": source}))[0]) == {"numpy": "ok"}


def test_noise_at_start_does_no_harm(interpreter: Environment, tmp_path: Path) -> None:
    inner = interpreter({"numpy": ""})
    noisy = script(tmp_path / "noisy", f'echo "[]"; echo warning >&2; exec {inner} "$@"')
    assert outcomes(tried(noisy)[0]) == {"numpy": "ok"}


def test_the_current_directory_is_no_library(
    interpreter: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = interpreter({"numpy": ""})
    (tmp_path / "numpy.py").write_text("raise RuntimeError('planted')")
    monkeypatch.chdir(tmp_path)
    assert outcomes(tried(python)[0]) == {"numpy": "ok"}


def test_no_bytecode_and_no_core_dump_is_left(
    interpreter: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    tried(interpreter({"numpy": KILL_SELF.format("SIGILL"), "tiktoken": ""}))
    assert list(work.iterdir()) == []
    assert not list((tmp_path / "site").rglob("*.pyc"))


@pytest.mark.parametrize("name", ["/no/such/python", "no-such-python", "/etc/passwd", "/"])
def test_an_interpreter_that_is_not_there(name: str) -> None:
    facts, reader = tried(name)
    assert facts == PythonFacts(interpreter=name)
    assert [(gap.field, gap.reason) for gap in reader.gaps] == [("libraries", Reason.ABSENT)]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("exit 1", "failed"),
        ("echo 'nodecheck-python:{'", "failed"),
        ("echo 'nodecheck-python:[1]'", "failed"),
        ("kill -ILL $$", "illegal_instruction"),
        ("echo 'Fatal glibc error: CPU does not support x86-64-v3'; exit 127", "refused"),
    ],
)
def test_an_interpreter_that_does_not_start(text: str, outcome: str, tmp_path: Path) -> None:
    facts, reader = tried(script(tmp_path / "python", text))
    assert outcomes(facts) == {"python": outcome}
    assert [gap.field for gap in reader.gaps] == ["libraries"]


def test_a_captured_tree_has_no_interpreter(node: Callable[[Tree], CapturedHost]) -> None:
    reader = Reader(node({"proc/x": ""}), "python")
    assert probe(reader, sys.executable).libraries == ()
    assert [gap.reason for gap in reader.gaps] == [Reason.UNSUPPORTED]


def test_nothing_is_imported_here(interpreter: Environment) -> None:
    before = set(sys.modules)
    tried(interpreter({"faiss-cpu": "", "duckdb": ""}))
    assert not {"faiss", "duckdb"} & (set(sys.modules) - before)


def test_this_environment_imports() -> None:
    facts, reader = tried(sys.executable)
    assert set(outcomes(facts).values()) <= {"ok"}
    assert reader.gaps == []


# --- rules


def test_one_finding_for_all_libraries() -> None:
    libraries = (
        Library(name="numpy", version="2.4.6", outcome="refused", detail=ONE_LINE),
        Library(name="scipy", version="1.17.1", outcome="illegal_instruction"),
        Library(name="duckdb", version="2.0.1", outcome="illegal_instruction"),
        Library(name="tiktoken", version="0.14.0", outcome="ok"),
    )
    python = PythonFacts(interpreter="/opt/my venv/bin/python", libraries=libraries)
    facts = Facts(python=python, cpu=CpuFacts(x86_64_level=1))
    (found,) = judge(Seen(facts=facts, policy=Policy()))
    assert found.severity.value == "critical"
    assert found.summary == (
        "This processor (x86-64-v1) cannot run numpy 2.4.6, scipy 1.17.1, duckdb 2.0.1"
    )
    numpy, scipy, duckdb = found.evidence
    assert ONE_LINE in numpy.value
    assert "x86-64-v2" in (numpy.basis or "")
    assert scipy.value == "scipy 1.17.1 died by SIGILL (signal 4)"
    assert "beyond x86-64-v1" in (scipy.basis or "")
    assert "AVX2" in (duckdb.basis or "")
    assert "3 of 4" in found.impact
    assert found.remedy.commands == ("'/opt/my venv/bin/python' -m pip install 'numpy<2.4'",)
    assert found.remedy.action is Action.CHANGE_SETTING


@pytest.mark.parametrize("outcome", ["ok", "failed", "timeout"])
def test_other_outcomes_raise_nothing(outcome: str) -> None:
    assert judge(environment(outcome)) == []


def test_nothing_tried_raises_nothing() -> None:
    assert judge(Seen(facts=Facts(), policy=Policy())) == []


@pytest.mark.parametrize(("platform", "first"), [("proxmox", "qm set"), ("libvirt", "virsh edit")])
def test_a_guest_is_given_its_hosts_instructions(platform: str, first: str) -> None:
    python = environment("illegal_instruction").facts.python
    facts = Facts(python=python, virt=VirtFacts(guest=True, platform=platform))
    (found,) = judge(Seen(facts=facts, policy=Policy()))
    assert found.remedy.action is Action.RECONFIGURE_VM
    assert found.remedy.commands[0].startswith(first)


def test_the_tables_speak_of_known_libraries() -> None:
    modules = {module.partition(".")[0] for module in DISTRIBUTIONS.values()}
    assert set(NEEDS) <= modules
    assert set(PINS) <= modules


# --- a real processor without SSE4, emulated


QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
needs_qemu = pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 (Debian qemu-user) is missing")


@pytest.fixture(scope="module")
def python_with_numpy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A new environment with the NumPy that does not run below x86-64-v2."""
    place = tmp_path_factory.mktemp("numpy")
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "numpy>=2.4"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"NumPy cannot be installed: {done.stderr.strip()[-200:]}")
    return python


@needs_qemu
@pytest.mark.lab
@pytest.mark.timeout(300)
def test_numpy_on_kvm64(python_with_numpy: str, tmp_path: Path) -> None:
    wrapper = script(tmp_path / "python", f'exec {QEMU} -cpu kvm64 {python_with_numpy} "$@"')
    facts, _ = tried(wrapper)
    numpy = next(library for library in facts.libraries if library.name == "numpy")
    assert numpy.outcome in ("illegal_instruction", "refused")
    (finding,) = judge(Seen(facts=Facts(python=facts), policy=Policy()))
    assert "numpy" in finding.summary


@needs_qemu
def test_our_own_dependencies_run_on_kvm64(tmp_path: Path) -> None:
    code = "import cffi, click, msgspec, psutil, rich, pynvml"
    run = subprocess.run(
        [str(QEMU), "-cpu", "kvm64", sys.executable, "-c", code],
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode == 0


def torch(flags: str) -> str:
    return f"class _C:\n    _cuda_getArchFlags = staticmethod(lambda: {flags})\n"


@pytest.mark.parametrize(
    ("source", "archs"),
    [
        (torch("'sm_80 sm_90a compute_90'"), ("sm_80", "sm_90a", "compute_90")),
        (torch("'gfx90a gfx942:sramecc+ gfx1100 gfx9-4-generic'"),
         ("gfx90a", "gfx942", "gfx1100", "gfx9-4-generic")),
        (torch("None"), None),
        (torch("''"), None),
        (torch("1 / 0"), None),
        ("", None),  # built without CUDA
        ("print('sm_80 nodecheck-python:archs sm_90')\n", None),
    ],
)  # fmt: skip
def test_what_torch_has_code_for(
    source: str, archs: tuple[str, ...] | None, interpreter: Environment
) -> None:
    facts, reader = tried(interpreter({"torch": source, "numpy": ""}))
    assert facts.torch_archs == archs
    assert outcomes(facts) == {"numpy": "ok", "torch": "ok"}
    assert reader.gaps == []


def test_a_torch_that_does_not_import_has_said_nothing(interpreter: Environment) -> None:
    source = torch("'sm_80'") + "raise ImportError('libcudart.so.12')\n"
    facts, _ = tried(interpreter({"torch": source}))
    assert facts.torch_archs is None
    assert outcomes(facts) == {"torch": "failed"}


def test_a_driver_call_of_torch_that_crashes_is_not_the_imports(interpreter: Environment) -> None:
    source = torch("__import__('os').abort()")
    facts, _ = tried(interpreter({"torch": source}))
    assert outcomes(facts) == {"torch": "ok"}
    assert facts.torch_archs is None
