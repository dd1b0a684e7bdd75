"""What blocks remember, family by family, on small models: as llama.cpp sizes its caches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.serving import Kind, LayerCache, Workload
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf.header import read_header
from nodecheck.workload.gguf.model import workload
from tests.workload.gguf.files import Tensor, Value, write
from tests.workload.gguf.shapes import (
    LATENT,
    Pairs,
    Shape,
    Width,
    attention,
    blocks,
    delta_net,
    dense,
    ends,
    experts,
    keyed,
    latent,
    mamba2,
    norms,
    tensors,
)

SMALL = Width(8, 64, 4, 2, 16, 128, 256)


def load(folder: Path, shape: Shape) -> Workload:
    path = write(folder / "model.gguf", shape.keys, shape.tensors)
    with open_regular(path) as file:
        return workload([read_header(file)], "model")


def of_blocks(
    architecture: str, block: Callable[[int], Pairs], count: int = 8, /, **keys: Value
) -> Shape:
    said = keyed(architecture, block_count=count, embedding_length=64, **keys)
    return Shape(said, tensors(iter([*ends(256, 64, tied=False), *blocks(count, block)])))


def caches_of(work: Workload) -> list[LayerCache]:
    by_number = {n: group.cache for group in work.layer_groups for n in group.numbers}
    return [by_number[number] for number in sorted(by_number)]


def windows_of(work: Workload) -> list[int | None]:
    return [cache.window for cache in caches_of(work)]


W = 32
WINDOWS: list[tuple[str, list[int | None]]] = [
    ("afmoe", [W, W, W, None] * 2),
    ("cohere2", [W, W, W, None] * 2),
    ("cohere2moe", [None, W, W, W] * 2),
    ("exaone4", [None] * 8),
    ("exaone-moe", [W, W, W, None] * 2),
    ("gemma2", [W, None] * 4),
    ("gemma3", [W, W, W, W, W, None, W, W]),
    ("gemma3n", [W, W, W, W, None, W, W, W]),
    ("gpt-oss", [W, None] * 4),
    ("laguna", [None, W, W, W] * 2),
    ("llama4", [8192, 8192, 8192, None] * 2),
    ("mellum", [W, W, W, None] * 2),
    ("muse-glimmer", [W, W, W, None] * 2),
    ("olmo2", [W, W, W, None] * 2),
    ("plamo3", [W, W, W, W, W, W, W, None]),
    ("smallthinker", [None, 4096, 4096, 4096] * 2),
    ("llama", [W] * 8),
    ("phi3", [W] * 8),
]


@pytest.mark.parametrize(("architecture", "expected"), WINDOWS)
def test_each_family_has_its_layers_with_a_window(
    tmp_path: Path, architecture: str, expected: list[int | None]
) -> None:
    found = load(tmp_path, dense(architecture, SMALL, window=W))
    assert windows_of(found) == expected
    assert found.llama_cpp_windows is (architecture not in {"llama", "phi3"})


@pytest.mark.parametrize("architecture", [a for a, _ in WINDOWS])
def test_a_window_of_0_is_none(tmp_path: Path, architecture: str) -> None:
    assert windows_of(load(tmp_path, dense(architecture, SMALL, window=0))) == [None] * 8


@pytest.mark.parametrize(
    ("architecture", "default"),
    [("gemma2", 4096), ("llama4", 8192), ("gemma3", None), ("olmo2", None), ("smallthinker", None)],
)
def test_a_window_that_the_file_does_not_name(
    tmp_path: Path, architecture: str, default: int | None
) -> None:
    found = windows_of(load(tmp_path, dense(architecture, SMALL)))
    assert set(found) == {None, default}


def test_exaone4_has_windows_in_its_large_model_alone(tmp_path: Path) -> None:
    large = dense("exaone4", SMALL._replace(layers=64), window=W)
    assert windows_of(load(tmp_path, large)) == [W, W, W, None] * 16


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ([True, True, False, False, True, True, False, True], [W, W, None, None, W, W, None, W]),
        ([1, 0, 0, 0, 0, 0, 0, 0, 1], [W, *[None] * 7]),
        (4, [W, W, W, None] * 2),
        (1, [None] * 8),
        (0, [W] * 8),
    ],
)
@pytest.mark.parametrize("architecture", ["gpt-oss", "gemma4"])
def test_a_pattern_in_the_file_wins(
    tmp_path: Path, architecture: str, pattern: Value, expected: list[int | None]
) -> None:
    shape = dense(architecture, SMALL, window=W)
    shape.keys[f"{architecture}.attention.sliding_window_pattern"] = pattern
    assert windows_of(load(tmp_path, shape)) == expected


def test_gemma4_has_other_heads_under_its_window_and_shares_its_last_layers(
    tmp_path: Path,
) -> None:
    shape = dense("gemma4", SMALL, window=W)
    shape.keys["gemma4.attention.sliding_window_pattern"] = [True, True, True, False] * 2
    shape.keys["gemma4.attention.key_length_swa"] = 8
    shape.keys["gemma4.attention.value_length_swa"] = 8
    shape.keys["gemma4.attention.head_count_kv"] = [2, 2, 2, 1] * 2
    shape.keys["gemma4.attention.shared_kv_layers"] = 3
    found = caches_of(load(tmp_path, shape))
    near = LayerCache(key_elements=16, value_elements=16, window=W)
    far = LayerCache(key_elements=16, value_elements=16)
    assert found == [near, near, near, far, near, *[LayerCache()] * 3]


@pytest.mark.parametrize(
    ("latent_keys", "expected"),
    [(True, (576, 0)), (False, (4 * 192, 4 * 128))],
)
def test_a_latent_is_kept_as_keys_alone(
    tmp_path: Path, latent_keys: bool, expected: tuple[int, int]
) -> None:
    """Older files of the same model keep expanded heads."""
    keys: dict[str, Value] = dict(LATENT)
    if not latent_keys:
        keys = {"attention__key_length": 192, "attention__value_length": 128}
    shape = of_blocks("deepseek2", lambda _: latent(64, 4, None), attention__head_count=4, **keys)
    for cache in caches_of(load(tmp_path, shape)):
        assert (cache.key_elements, cache.value_elements) == expected


def test_an_indexer_keeps_keys_of_its_own_where_a_block_has_one(tmp_path: Path) -> None:
    def block(number: int) -> Pairs:
        yield from latent(64, 4, None)
        if number % 2:
            yield "indexer.attn_k.weight", (64, 128)

    shape = of_blocks("glm-dsa", block, attention__head_count=4,
                      attention__indexer__key_length=128, **LATENT)  # fmt: skip
    assert [c.key_elements for c in caches_of(load(tmp_path, shape))] == [576, 576 + 128] * 4


def test_kimi_mixes_delta_attention_and_latents(tmp_path: Path) -> None:
    def block(number: int) -> Pairs:
        if number % 4 == 3:
            yield from latent(64, 4, None)
            return
        for name in ("q", "k", "v"):
            yield f"ssm_conv1d_{name}.weight", (4, 1, 64)
            yield f"attn_{name}.weight", (64, 64)
        yield "ssm_beta.weight", (64, 4)
        yield "attn_output.weight", (64, 64)

    heads = [0, 0, 0, 1] * 2
    keys: dict[str, Value] = {**LATENT, "attention__head_count_kv": heads}
    shape = of_blocks("kimi-linear", block, attention__head_count=4, ssm__conv_kernel=4,
                      kda__head_dim=16, **keys)  # fmt: skip
    found = load(tmp_path, shape)
    delta = LayerCache(conv_elements=3 * 3 * 4 * 16, state_elements=4 * 16 * 16)
    assert caches_of(found) == [delta, delta, delta, LayerCache(key_elements=576)] * 2
    kinds = {w.kind for group in found.layer_groups if 0 in group.numbers for w in group.weights}
    assert kinds == {Kind.RECURRENT}


@pytest.mark.parametrize(
    ("architecture", "shifted", "kept"),
    [("rwkv6", None, 2), ("rwkv7", 2, 2), ("rwkv6qwen2", 1, 1), ("arwkv7", 1, 1)],
)
def test_rwkv_keeps_shifted_tokens_and_a_state(
    tmp_path: Path, architecture: str, shifted: int | None, kept: int
) -> None:
    def block(_: int) -> Pairs:
        yield "time_mix_key.weight", (64, 64)
        yield "channel_mix_key.weight", (64, 128)

    keys: dict[str, Value] = {} if shifted is None else {"token_shift_count": shifted}
    found = load(tmp_path, of_blocks(architecture, block, wkv__head_size=16, **keys))
    assert set(caches_of(found)) == {LayerCache(conv_elements=kept * 64, state_elements=64 * 16)}
    assert found.state_bytes_per_sequence is not None
    assert found.state_bytes_per_sequence.sglang is None
    kinds = {w.kind for group in found.layer_groups for w in group.weights}
    assert kinds == {Kind.RECURRENT, Kind.FFN}


def test_jamba_has_attention_in_some_layers_and_experts_in_others(tmp_path: Path) -> None:
    def block(number: int) -> Pairs:
        if number % 4 == 2:
            yield from attention(64, 4, 2, 16)
        else:
            yield "ssm_conv1d.weight", (4, 128)
            yield "ssm_out.weight", (128, 64)
        if number % 2:
            yield from experts(64, 32, 4)

    shape = of_blocks("jamba", block, attention__head_count=4,
                      attention__head_count_kv=[0, 0, 2, 0] * 2, ssm__conv_kernel=4,
                      ssm__inner_size=128, ssm__state_size=16, expert_count=4,
                      expert_used_count=2)  # fmt: skip
    found = load(tmp_path, shape)
    ssm = LayerCache(conv_elements=3 * 128, state_elements=16 * 128)
    attends = LayerCache(key_elements=32, value_elements=32)
    assert caches_of(found) == [ssm, ssm, attends, ssm] * 2
    assert found.is_hybrid
    assert (found.experts, found.experts_used) == (4, 2)


def test_deci_has_layers_without_attention_and_with_none_to_remember(tmp_path: Path) -> None:
    def block(number: int) -> Pairs:
        if number == 1:
            yield "attn_output.weight", (64, 64)
        elif number != 2:
            yield from attention(64, 4, 2, 16)
        if number:
            yield "ffn_up.weight", (64, 128)

    shape = of_blocks("deci", block, 4, attention__head_count=[4, 4, 0, 4],
                      attention__head_count_kv=[2, 0, 0, 1])  # fmt: skip
    assert [c.key_elements for c in caches_of(load(tmp_path, shape))] == [32, 0, 0, 16]


def test_a_gated_delta_net_is_told_from_attention_by_its_output(tmp_path: Path) -> None:
    """Both hold attn_qkv; the array of recurrent layers is not needed."""

    def block(number: int) -> Pairs:
        if number % 2:
            yield "attn_qkv.weight", (64, 128)
            yield "attn_output.weight", (64, 64)
        else:
            yield from delta_net(64, 4, (2, 16), (4, 16))
        yield from norms(64, "attn_norm")

    shape = of_blocks("qwen35", block, attention__head_count=4, attention__head_count_kv=2,
                      ssm__conv_kernel=4, ssm__inner_size=64, ssm__state_size=16,
                      ssm__group_count=2)  # fmt: skip
    net = LayerCache(conv_elements=3 * 128, state_elements=64 * 16)
    attends = LayerCache(key_elements=32, value_elements=32)
    assert caches_of(load(tmp_path, shape)) == [net, attends] * 4


def test_falcon_h1_may_fuse_its_projections(tmp_path: Path) -> None:
    def block(_: int) -> Pairs:
        yield "attn_qkv.weight", (64, 128)
        yield "attn_output.weight", (64, 64)
        yield from mamba2(64, 128, 1, 16, 8, 4)

    shape = of_blocks("falcon-h1", block, attention__head_count=4, attention__head_count_kv=2,
                      ssm__conv_kernel=4, ssm__inner_size=128, ssm__state_size=16,
                      ssm__group_count=1)  # fmt: skip
    both = LayerCache(
        key_elements=32, value_elements=32, conv_elements=3 * 160, state_elements=16 * 128
    )
    assert set(caches_of(load(tmp_path, shape))) == {both}


def test_chunk_experts_and_their_scales_are_read_in_part(tmp_path: Path) -> None:
    def block(_: int) -> Pairs:
        yield from attention(64, 4, 2, 16)
        yield from experts(64, 32, 8)
        yield "ffn_up_exps.scale", (8,)
        yield "ffn_up_chexps.weight", (64, 16, 4)

    shape = of_blocks("grovemoe", block, 1, attention__head_count=4, attention__head_count_kv=2,
                      expert_count=8, expert_used_count=2)  # fmt: skip
    (group,) = load(tmp_path, shape).layer_groups
    (found,) = [w for w in group.weights if w.kind is Kind.EXPERTS]
    whole = 3 * 64 * 32 * 8 + 8
    assert found.parameters == whole + 64 * 16 * 4
    assert found.read_parameters == whole // 4 + 64 * 16 * 4 // 2


@pytest.mark.parametrize(
    ("name", "shape", "kind", "read"),
    [
        ("position_embd.weight", (64, 1024), Kind.EMBEDDING, 64),
        ("token_types.weight", (64, 2), Kind.EMBEDDING, 64),
        ("token_embd_norm.weight", (64,), Kind.NORM, 64),
        ("output.bias", (256,), Kind.OUTPUT, 256),
        ("output_norm.bias", (64,), Kind.NORM, 64),
        ("rope_freqs.weight", (8,), Kind.ATTENTION, 8),
        ("v.blk.0.attn_q.weight", (64, 64), Kind.OTHER, 0),
        ("mm.0.weight", (64, 64), Kind.OTHER, 0),
        ("cls.weight", (64, 2), Kind.OTHER, 0),
        ("nextn.pre_projection.weight", (64, 64), Kind.MTP, 0),
        ("something_new.weight", (64, 64), Kind.FFN, 4096),
    ],
)
def test_tensors_outside_of_blocks(
    tmp_path: Path, name: str, shape: tuple[int, ...], kind: Kind, read: int
) -> None:
    plain = dense("llama", SMALL)
    more = load(tmp_path, Shape(plain.keys, [*plain.tensors, Tensor(name, shape, "f32")]))
    (found,) = [w for w in more.outside if w.type == "f32"]
    assert (found.kind, found.read_parameters, found.read_bytes) == (kind, read, 4 * read)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ffn_gate_inp.weight", Kind.FFN),
        ("exp_probs_b.bias", Kind.FFN),
        ("ffn_up_shexp.weight", Kind.FFN),
        ("ffn_norm_exps.weight", Kind.NORM),
        ("attn_sinks.weight", Kind.ATTENTION),
        ("attn_sub_norm.weight", Kind.NORM),
        ("layer_output_scale.weight", Kind.FFN),
        ("indexer.proj.weight", Kind.ATTENTION),
        ("vis_gate.weight", Kind.OTHER),
        ("nextn.eh_proj.weight", Kind.MTP),
    ],
)
def test_tensors_inside_of_blocks(tmp_path: Path, name: str, kind: Kind) -> None:
    plain = dense("llama", SMALL)
    extra = Tensor(f"blk.5.{name}", (64,), "f32")
    found = load(tmp_path, Shape(plain.keys, [*plain.tensors, extra]))
    (group,) = [g for g in found.layer_groups if 5 in g.numbers]
    assert [w.kind for w in group.weights if w.type == "f32"] == [kind]
