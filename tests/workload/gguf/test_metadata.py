"""Keys that are missing, wrong or hostile, and files that are sound but hold no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodecheck.serving import Workload
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf.header import read_header
from nodecheck.workload.gguf.model import workload
from tests.workload.gguf.files import (
    ARRAY,
    F32,
    I32,
    STRING,
    U8,
    U32,
    U64,
    Keys,
    Tensor,
    Typed,
    Value,
    write,
)
from tests.workload.gguf.shapes import (
    LATENT,
    Shape,
    Width,
    attention,
    blocks,
    dense,
    ends,
    experts,
    keyed,
    latent,
    mamba2,
    norms,
    tensors,
)

SMALL = Width(4, 64, 4, 2, 16, 128, 256)


def load(folder: Path, shape: Shape, cut: int = 0) -> Workload:
    path = write(folder / "model.gguf", shape.keys, shape.tensors, cut=cut)
    with open_regular(path) as file:
        return workload([read_header(file)], "model")


def small(architecture: str = "llama") -> Shape:
    return dense(architecture, SMALL)


def moe() -> Shape:
    def block(_: int) -> list[tuple[str, tuple[int, ...]]]:
        return [*attention(64, 4, 2, 16), *norms(64, "attn_norm"), *experts(64, 32, 8)]

    keys = keyed("qwen3moe", block_count=4, embedding_length=64, attention__head_count=4,
                 attention__head_count_kv=2, expert_count=8, expert_used_count=2)  # fmt: skip
    parts = [*ends(256, 64, tied=False), *blocks(4, lambda number: iter(block(number)))]
    return Shape(keys, tensors(iter(parts)))


def mla() -> Shape:
    parts = [*ends(256, 64, tied=False), *blocks(2, lambda _: latent(64, 4, None))]
    keys = keyed("deepseek2", block_count=2, embedding_length=64, attention__head_count=4, **LATENT)
    return Shape(keys, tensors(iter(parts)))


def state_space() -> Shape:
    parts = [*ends(256, 64, tied=False), *blocks(2, lambda _: mamba2(64, 128, 1, 16, 8, 4))]
    keys = keyed("mamba2", block_count=2, embedding_length=64, ssm__conv_kernel=4,
                 ssm__inner_size=128, ssm__state_size=16, ssm__group_count=1)  # fmt: skip
    return Shape(keys, tensors(iter(parts)))


SHAPES = {"llama": small, "qwen3moe": moe, "deepseek2": mla, "mamba2": state_space}


@pytest.mark.parametrize(
    ("architecture", "key"),
    [
        ("llama", "block_count"),
        ("llama", "attention.head_count"),
        ("qwen3moe", "expert_count"),
        ("qwen3moe", "expert_used_count"),
        ("qwen3moe", "embedding_length"),
        ("mamba2", "ssm.conv_kernel"),
        ("mamba2", "ssm.inner_size"),
        ("mamba2", "ssm.state_size"),
        ("mamba2", "ssm.group_count"),
    ],
)
def test_a_missing_dimension_is_named(tmp_path: Path, architecture: str, key: str) -> None:
    shape = SHAPES[architecture]()
    del shape.keys[f"{architecture}.{key}"]
    with pytest.raises(NotEnoughMetadata) as caught:
        load(tmp_path, shape)
    assert str(caught.value) == f"not enough metadata: {architecture}.{key}"


def test_heads_of_keys_and_values_are_as_many_as_of_queries_unless_said(tmp_path: Path) -> None:
    shape = small()
    del shape.keys["llama.attention.head_count_kv"]
    found = load(tmp_path, shape)
    assert found.kv_bytes_per_token is not None
    assert found.kv_bytes_per_token.bf16 == 2 * 4 * 2 * 4 * 16


A_TEXT = Typed(STRING, "4")
WRONG: list[tuple[str, str, Value, str]] = [
    ("llama", "block_count", "4", "llama.block_count is the text '4', not a whole number"),
    ("llama", "block_count", 4.0, "llama.block_count is 4.0, not a whole number"),
    ("llama", "block_count", True, "llama.block_count is True, not a whole number"),
    ("llama", "block_count", [4], "is an array of 1 elements, not a whole number"),
    ("llama", "block_count", ["4"], "is strings, not a whole number"),
    ("llama", "block_count", Typed(ARRAY, [0] * 70000, U8), "is an array of 70000 elements, not"),
    ("llama", "block_count", Typed(I32, -4), "llama.block_count is -4, not from 1 to 512"),
    ("llama", "block_count", 0, "llama.block_count is 0, not from 1 to 512"),
    ("llama", "block_count", 513, "llama.block_count is 513, not from 1 to 512"),
    ("llama", "block_count", 2**32 - 1, "is 4294967295, not from 1 to 512"),
    ("llama", "block_count", 3, "tensor 'blk.3.attn_q.weight' is beyond the 3 blocks of llama.bl"),
    ("llama", "nextn_predict_layers", 4, "llama.nextn_predict_layers is 4, not from 0 to 3"),
    ("llama", "nextn_predict_layers", 2**32 - 1, "nextn_predict_layers is 4294967295, not from"),
    ("llama", "embedding_length", Typed(U64, 2**63), "embedding_length is 9223372036854775808"),
    ("llama", "context_length", A_TEXT, "llama.context_length is the text '4'"),
    ("llama", "attention.head_count", 0, "head_count is 0 for block 0, which has attention"),
    ("llama", "attention.head_count", [4, 4, 0, 4], "head_count is 0 for block 2, which has att"),
    ("llama", "attention.head_count", [4] * 3, "of 3 elements, where llama.block_count is 4"),
    ("llama", "attention.head_count", [4] * 5, "of 5 elements, where llama.block_count is 4"),
    ("llama", "attention.head_count", [-1] * 4, "attention.head_count is an array of 4 elements"),
    ("llama", "attention.head_count", Typed(ARRAY, [4.0] * 4, F32), "array of 4 .*not a whole"),
    ("llama", "attention.head_count_kv", 8, "head_count_kv is 8 for block 0, more than its 4"),
    ("llama", "attention.head_count_kv", 0, "head_count_kv is 0 for block 0, which has attention"),
    ("llama", "attention.key_length", 0, "llama.attention.key_length is 0, not from 1"),
    ("llama", "attention.value_length", Typed(U64, 2**64 - 1), "value_length is 184467440737095"),
    ("llama", "attention.shared_kv_layers", 4, "shared_kv_layers is 4, not from 0 to 3"),
    ("llama", "attention.sliding_window", A_TEXT, "sliding_window is the text '4'"),
    ("qwen3moe", "expert_count", 1025, "qwen3moe.expert_count is 1025, not from 0 to 1024"),
    ("qwen3moe", "expert_count", 0, "expert_used_count is 2, more than the 0 of expert_count"),
    ("qwen3moe", "expert_count", 4, "'blk.0.ffn_gate_exps.weight' holds 8 experts, where qwen3m"),
    ("qwen3moe", "expert_used_count", 9, "expert_used_count is 9, more than the 8 of expert_co"),
    ("qwen3moe", "expert_used_count", 0, "expert_used_count is 0, none for block 0, which has"),
    ("qwen3moe", "expert_used_count", [2, 2], "of 2 elements, where qwen3moe.block_count is 4"),
    ("qwen3moe", "expert_used_count", [2, 2, 2, 9], "of 4 elements, more than the 8 of expert_c"),
    ("mamba2", "ssm.conv_kernel", 0, "mamba2.ssm.conv_kernel is 0, not from 1"),
    ("mamba2", "ssm.state_size", 2**24, "a cache of .* elements: no model has as many"),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "key", "value", "says"), WRONG)
def test_a_wrong_value_is_refused_by_its_key(
    tmp_path: Path, architecture: str, key: str, value: Value, says: str
) -> None:
    shape = SHAPES[architecture]()
    shape.keys[f"{architecture}.{key}"] = value
    if key == "ssm.state_size":
        shape.keys["mamba2.ssm.inner_size"] = 2**24
    with pytest.raises(WorkloadError, match=says) as caught:
        load(tmp_path, shape)
    assert not isinstance(caught.value, NotEnoughMetadata)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ([True, False], "sliding_window_pattern is an array of 2 elements, where gemma2.block_c"),
        ([2, 0, 1, 0], "sliding_window_pattern is an array of 4 elements, not of yes and no"),
        (513, "sliding_window_pattern is 513, not from 0 to 512"),
    ],
)
def test_a_wrong_pattern_of_windows(tmp_path: Path, pattern: Value, says: str) -> None:
    shape = dense("gemma2", SMALL, window=8)
    shape.keys["gemma2.attention.sliding_window_pattern"] = pattern
    with pytest.raises(WorkloadError, match=says):
        load(tmp_path, shape)


NO_MODEL: list[tuple[Keys, str]] = [
    ({}, "general.architecture"),
    ({"general.type": "model"}, "general.architecture"),
    ({"general.architecture": "llama"}, "llama.block_count"),
    ({"general.architecture": "a\nb" * 99}, r"(a\?b){26}a\?\.\.\..block_count"),
    ({"general.architecture": "clip"}, r"this is a vision or audio projector \(mmproj\)"),
    ({"general.architecture": "llama", "general.type": "adapter"}, r"this is an adapter \(LoRA\)"),
    ({"general.type": "mmproj"}, "this is a vision or audio projector"),
    ({"general.type": "imatrix"}, "this is an importance matrix"),
    ({"general.architecture": "controlvector"}, "this is a control vector"),
    ({"general.architecture": "flux"}, "this is a diffusion model for images or video"),
    ({"general.architecture": "dream"}, "this is a diffusion language model"),
    ({"general.architecture": "bert"}, "this is an embedding model, which generates no tokens"),
    ({"general.architecture": "t5"}, "this is an encoder-decoder model"),
    ({"general.architecture": "eagle3"}, "this is a draft head"),
    (keyed("nanbeige", block_count=2, num_loops=2), "it runs its layers several times"),
    (keyed("llama", block_count=2), r"the tensors of its blocks \(blk.0 and on\)"),
]


@pytest.mark.parametrize(("keys", "says"), NO_MODEL)
def test_a_file_that_holds_no_model_says_what_it_is(tmp_path: Path, keys: Keys, says: str) -> None:
    assert isinstance(keys, dict)
    with pytest.raises(NotEnoughMetadata, match=f"not enough metadata: {says}"):
        load(tmp_path, Shape(keys, [Tensor("a", [32])]))


def test_a_file_without_tensors_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughMetadata, match="it holds no tensors"):
        load(tmp_path, Shape({"general.architecture": "llama"}, []))


@pytest.mark.parametrize("name", [5, True, "", Typed(ARRAY, [1], U32)])
def test_an_architecture_has_a_name(tmp_path: Path, name: Value) -> None:
    with pytest.raises(WorkloadError, match=r"general\.architecture is .*which is no name"):
        load(tmp_path, Shape({"general.architecture": name}, [Tensor("a", [32])]))


def test_a_model_has_an_embedding(tmp_path: Path) -> None:
    shape = small()
    with pytest.raises(NotEnoughMetadata, match=r"the tensor token_embd\.weight"):
        load(tmp_path, Shape(shape.keys, shape.tensors[1:]))


def test_an_mtp_block_alone_is_no_model(tmp_path: Path) -> None:
    keys = keyed("qwen35", block_count=3, nextn_predict_layers=1)
    lone = [Tensor("blk.2.nextn.eh_proj.weight", [8, 4]), Tensor("token_embd.weight", [4, 8])]
    with pytest.raises(NotEnoughMetadata, match="the tensors of its blocks"):
        load(tmp_path, Shape(keys, lone))


def test_a_model_that_was_cut_off_is_still_read(tmp_path: Path) -> None:
    assert load(tmp_path, small(), cut=28).notes == ("truncated by 28 bytes: it will not load",)


def test_a_file_that_is_short_of_both_says_both(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughMetadata) as caught:
        load(tmp_path, Shape({"general.architecture": "llama"}, [Tensor("a", [32])]), cut=28)
    assert str(caught.value) == (
        "not enough metadata: llama.block_count; truncated by 28 bytes: it will not load"
    )


def test_tensors_that_contradict_the_keys_are_noted(tmp_path: Path) -> None:
    shape = small()
    shape.keys["llama.attention.head_count_kv"] = 1
    assert load(tmp_path, shape).notes == (
        "blk.0.attn_k.weight has 32 rows, where the keys mean 16: llama.cpp will not load it",
    )


def test_an_empty_embedding_is_read_for_nothing(tmp_path: Path) -> None:
    shape = small()
    empty = [Tensor("token_embd.weight", [64, 0], "bf16"), *shape.tensors[1:]]
    found = load(tmp_path, Shape(shape.keys, empty))
    assert found.vocabulary is None


def test_an_unknown_architecture_is_known_by_its_projections(tmp_path: Path) -> None:
    found = load(tmp_path, small("newest"))
    assert found.kv_bytes_per_token is not None
    assert found.kv_bytes_per_token.bf16 == 2 * 4 * 2 * 2 * 16
    assert found.notes == (
        "architecture newest is not known: its cache follows from its attn_k and attn_v",
    )


@pytest.mark.parametrize("without", ["key", "projection", "attention"])
def test_what_an_unknown_architecture_remembers_is_not_guessed(
    tmp_path: Path, without: str
) -> None:
    shape = small("newest")
    kept = shape.tensors
    if without == "key":
        del shape.keys["newest.attention.head_count"]
    elif without == "projection":
        shape.keys["newest.attention.value_length"] = 8
    else:
        kept = [tensor for tensor in kept if not tensor.name.startswith("blk.2.attn")]
    found = load(tmp_path, Shape(shape.keys, kept))
    assert (found.kv_bytes_per_token, found.layers_with_kv) == (None, None)
    assert found.weight_bytes_shipped > 0
    assert found.notes == ("what a token takes in the cache of architecture newest is not known",)


def test_a_cache_that_is_not_worked_out_is_said_to_be_unknown(tmp_path: Path) -> None:
    found = load(tmp_path, small("deepseek4"))
    assert found.kv_bytes_per_token is None
    assert found.notes == (
        "what a token takes in the cache of architecture deepseek4 is not known",
    )
