"""What fuzzing begins with and what it found, without the fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS, run, seeds

FOUND: list[tuple[str, bytes]] = [
    (
        "safetensors",  # bad UTF-8 under a name that is there again
        b'{"a":{"\xff":0},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}\1',
    ),
    (
        "safetensors",  # nesting under a name that is there again
        b'{"__metadata__":{},"a":' + b"[" * 5000 + b"]" * 5000 + b',"a":'
        b'{"dtype":"U8","shape":[],"data_offsets":[0,1]}}\1',
    ),
]
"""Inputs that once broke a promise, made small."""


@pytest.mark.parametrize("target", TARGETS)
def test_sound_inputs_keep_every_promise(tmp_path: Path, target: str) -> None:
    for seed in seeds(target):
        run(target, seed, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_cut_and_bent_inputs_keep_every_promise(tmp_path: Path, target: str) -> None:
    for seed in seeds(target):
        for at in range(0, len(seed), max(1, len(seed) // 50)):
            run(target, seed[:at], tmp_path)
            run(target, seed[:at] + bytes([seed[at] ^ 0x81]) + seed[at + 1 :], tmp_path)


@pytest.mark.parametrize(("target", "data"), FOUND)
def test_what_was_found(tmp_path: Path, target: str, data: bytes) -> None:
    run(target, data, tmp_path)
