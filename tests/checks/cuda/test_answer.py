"""From what libcuda said to facts: beside its answer what the container was started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodecheck.checks.cuda.answer import facts_of
from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.machine import cuda
from nodecheck.machine.cuda import Answer
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from tests.trees import plant

VARIABLE = "NVIDIA_DRIVER_CAPABILITIES"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, None),
        ("", None),
        ("utility", ("utility",)),
        ("Utility, COMPUTE", ("compute", "utility")),
        ("all", ("all",)),
        ("compute,secret=1,utility", ("compute", "utility")),
        ("none", ()),
        (",", ()),
    ],
)
def test_only_known_words_of_the_environment_are_kept(
    told: str | None,
    words: tuple[str, ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if told is not None:
        monkeypatch.setenv(VARIABLE, told)
    reader = Reader(plant({}, tmp_path), "cuda")
    answer = Answer(error=cuda.LIBRARY_MISSING, call="dlopen", message="libcuda.so.1: ...")
    facts = facts_of(reader, answer)
    assert (facts.state, facts.capabilities) == ("missing", words)


@pytest.mark.parametrize(
    "words",
    [
        "libcuda.so.1: cannot open shared object file: Cannot allocate memory",
        "libcuda.so.1: cannot open shared object file: Too many open files",
        "libcuda.so.1: failed to map segment from shared object",
    ],
)
def test_a_library_for_which_we_had_no_room_is_not_missing(words: str, tmp_path: Path) -> None:
    """The loader's words: the driver may be well, and nothing is claimed of it."""
    reader = Reader(plant({}, tmp_path), "cuda")
    answer = Answer(error=cuda.LIBRARY_MISSING, call="dlopen", message=words)
    assert facts_of(reader, answer) == CudaFacts(message=words)
    assert [(gap.reason, gap.detail) for gap in reader.gaps] == [(Reason.FAILED, f"CUDA: {words}")]
