"""A header must be read fast and in little memory, however large the file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workload.gguf.files import ARRAY, F32, I32, STRING, Tensor, Typed, Value, write
from tests.workload.gguf.shapes import keyed
from tests.workload.spent import spent

SLOW_MACHINE = 3
"""Times are allowed to be so much longer where tests run."""

MOST_KIB = 100_000

SETUP = "from nodecheck.workload.read import read_workload"
READ = "read_workload(Path(sys.argv[1]))"


def tokenizer(tokens: int) -> dict[str, Value]:
    names = [f"▁t{'o' * (number % 7)}{number}" for number in range(tokens)]
    return {
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.scores": Typed(ARRAY, [-0.5] * tokens, F32),
        "tokenizer.ggml.token_type": Typed(ARRAY, [1] * tokens, I32),
        "tokenizer.ggml.merges": Typed(ARRAY, [f"{name} {name}" for name in names], STRING),
    }


def forty_gigabytes(path: Path, tokens: int) -> Path:
    layers, hidden = 80, 8192
    keys: dict[str, Value] = {
        **keyed("llama", block_count=layers, embedding_length=hidden, attention__head_count=64,
                attention__head_count_kv=8),
        **tokenizer(tokens),
    }  # fmt: skip
    tensors = [Tensor("token_embd.weight", [hidden, tokens], "q4_k")]
    for layer in range(layers):
        names = ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        tensors += [Tensor(f"blk.{layer}.{name}.weight", [hidden, 21504], "q4_k") for name in names]
    write(path, keys, tensors)
    assert path.stat().st_size > 39e9
    return path


@pytest.mark.parametrize(("tokens", "seconds"), [(32_000, 0.2), (250_000, 1.0)])
def test_a_header_of_40_gb(tmp_path: Path, tokens: int, seconds: float) -> None:
    path = forty_gigabytes(tmp_path / "m.gguf", tokens)
    took, peak_kib, said = spent(SETUP, READ, path)
    assert not said
    assert took < seconds * SLOW_MACHINE
    assert peak_kib < MOST_KIB


def test_a_tokenizer_of_200_mb(tmp_path: Path) -> None:
    words = ["w" * 90] * 2_000_000
    path = write(tmp_path / "m.gguf", {"words": words}, [])
    assert path.stat().st_size > 190e6
    took, peak_kib, said = spent(SETUP, READ, path)
    assert said == "not enough metadata: general.architecture"
    assert took < SLOW_MACHINE
    assert peak_kib < MOST_KIB


def test_a_hundred_thousand_tensors(tmp_path: Path) -> None:
    keys = keyed("llama", block_count=500, embedding_length=1, attention__head_count=1)
    tensors = [Tensor("token_embd.weight", [1, 1])]
    tensors += [Tensor(f"blk.{number % 500}.t{number}", [1]) for number in range(100_000)]
    took, peak_kib, said = spent(SETUP, READ, write(tmp_path / "m.gguf", keys, tensors))
    assert not said
    assert took < SLOW_MACHINE
    assert peak_kib < MOST_KIB
