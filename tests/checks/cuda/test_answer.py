"""From what libcuda said to facts: beside its answer what the container was started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodecheck.checks.cuda.answer import facts_of
from nodecheck.machine import cuda
from nodecheck.machine.cuda import Answer
from nodecheck.machine.reader import Reader
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
