"""Configurations that are wrong, odd or incomplete: what is taken, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.serving import Workload
from nodecheck.workload.config import describe, from_config
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from tests.workload.config.known import every
from tests.workload.config.published_models import PUBLISHED_MODELS
from tests.workload.config.reference_models import REFERENCE_MODELS
from tests.workload.config.sparse_models import SPARSE_MODELS

MODELS = {m.name: m.config for m in REFERENCE_MODELS}
OTHERS = {m.name: m.config for m in (*SPARSE_MODELS, *PUBLISHED_MODELS)}
GLM_5, M3, NAS = (OTHERS[n] for n in ("glm-5", "minimax-m3", "llama-3.3-nemotron-super-49b"))
LLAMA, MIXTRAL, NEMOTRON = (MODELS[n] for n in ("llama-3.1-8b", "mixtral-8x7b", "nemotron-h-8b"))
GEMMA, LFM2, MINIMAX = (MODELS[n] for n in ("gemma-2-9b", "lfm2-1.2b", "minimax-text-01"))
QWEN, QWEN_MOE, DEEPSEEK = (MODELS[n] for n in ("qwen3-8b", "qwen3-30b-a3b-fp8", "deepseek-v3"))


def read(base: dict[str, Any], **changed: Any) -> Workload:
    return from_config(changed_by(base, changed), None, "x")


def changed_by(base: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """A key that is changed to `...` is left out."""
    return {k: v for k, v in {**base, **changed}.items() if v is not ...}


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (LLAMA, {"num_hidden_layers": "32"}, 'num_hidden_layers is the text "32", not a whole number'),
    (LLAMA, {"num_hidden_layers": True}, "num_hidden_layers is true, not a whole number"),
    (LLAMA, {"num_hidden_layers": 32.5}, "num_hidden_layers is 32.5, not a whole number"),
    (LLAMA, {"num_hidden_layers": -1}, "num_hidden_layers is -1, less than 1"),
    (LLAMA, {"num_hidden_layers": 0}, "num_hidden_layers is 0, less than 1"),
    (
        LLAMA,
        {"num_hidden_layers": 2**63},
        "num_hidden_layers is 9223372036854775808, more than 512",
    ),
    (LLAMA, {"num_hidden_layers": 513}, "num_hidden_layers is 513, more than 512"),
    (LLAMA, {"num_hidden_layers": float("nan")}, "num_hidden_layers is nan, not a whole number"),
    (LLAMA, {"num_hidden_layers": float("inf")}, "num_hidden_layers is inf, not a whole number"),
    (LLAMA, {"num_hidden_layers": [32]}, "num_hidden_layers is a list, not a whole number"),
    (LLAMA, {"hidden_size": 2**31}, "hidden_size is 2147483648, more than 2147483647"),
    (LLAMA, {"vocab_size": {}}, "vocab_size is {}, not a whole number"),
    (LLAMA, {"head_dim": 0}, "head_dim is 0, less than 1"),
    (LLAMA, {"num_key_value_heads": 0}, "num_key_value_heads is 0, less than 1"),
    (LLAMA, {"num_key_value_heads": [8] * 32}, "num_key_value_heads is a list, not a whole number"),
    (
        LLAMA,
        {"num_key_value_heads": 64},
        "num_key_value_heads is 64, which does not divide 32 attention heads",
    ),
    (LLAMA, {"attention_bias": "no"}, "attention_bias is no, not true or false"),
    (LLAMA, {"tie_word_embeddings": 1}, "tie_word_embeddings is 1, not true or false"),
    (
        LLAMA,
        {"architectures": "LlamaForCausalLM"},
        "architectures is LlamaForCausalLM, not a list of names",
    ),
    (LLAMA, {"architectures": [None]}, "architectures is [None], not a list of names"),
    (LLAMA, {"model_type": 3}, "model_type is 3, not a name"),
    (QWEN, {"layer_types": ["full_attention"] * 35}, "layer_types has 35 entries for 36 layers"),
    (QWEN, {"layer_types": ["full_attention"] * 37}, "layer_types has 37 entries for 36 layers"),
    (
        QWEN,
        {"layer_types": ["full_attention"] * 35 + ["psychic_attention"]},
        "layer_types[35] is 'psychic_attention', which is no known kind of layer",
    ),
    (QWEN, {"layer_types": [1] * 36}, "layer_types[0] is '1', which is no known kind of layer"),
    (QWEN, {"layer_types": "full_attention"}, "layer_types is full_attention, not a list"),
    (
        QWEN,
        {"layer_types": ["mamba"] * 36},
        "layer_types[0] is a recurrent layer, which qwen3 models have not",
    ),
    (
        NEMOTRON,
        {"hybrid_override_pattern": "M-*"},
        "hybrid_override_pattern has 3 entries for 52 layers",
    ),
    (
        NEMOTRON,
        {"hybrid_override_pattern": "M-" * 25 + "MX"},
        "hybrid_override_pattern[51] is 'X', none of M * - E",
    ),
    (NEMOTRON, {"hybrid_override_pattern": 7}, "hybrid_override_pattern is 7, not a text"),
    (LFM2, {"full_attn_idxs": [2, 16]}, "full_attn_idxs names layer 16 of 16"),
    (LFM2, {"full_attn_idxs": [-1]}, "full_attn_idxs[0] is -1, less than 0"),
    (MINIMAX, {"attn_type_list": [0, 1]}, "attn_type_list has 2 entries for 80 layers"),
    (MINIMAX, {"attn_type_list": [2] * 80}, "attn_type_list[0] is 2, not 0 or 1"),
    (
        MIXTRAL,
        {"num_experts_per_tok": 9},
        "num_experts_per_tok is 9, more than num_local_experts, 8",
    ),
    (MIXTRAL, {"num_experts_per_tok": 0}, "num_experts_per_tok is 0, less than 1"),
    (DEEPSEEK, {"num_nextn_predict_layers": 65}, "num_nextn_predict_layers is 65, more than 64"),
    (
        MODELS["qwen3.5-27b"],
        {"text_config": {**MODELS["qwen3.5-27b"]["text_config"], "head_dim": True}},
        "text_config.head_dim is true, not a whole number",
    ),
    (
        MODELS["qwen3.5-27b"],
        {"text_config": {**MODELS["qwen3.5-27b"]["text_config"], "mamba_ssm_dtype": "int8"}},
        "mamba_ssm_dtype is int8, none of float32, bfloat16, float16",
    ),
    (
        MODELS["mamba2-2.7b"],
        {"ssm_cfg": {"layer": "Mamba9"}},
        "ssm_cfg.layer is 'Mamba9', not Mamba1 or Mamba2",
    ),
    (MODELS["mamba2-2.7b"], {"ssm_cfg": []}, "ssm_cfg is [], not an object"),
    (GLM_5, {"indexer_types": ["full"] * 3}, "indexer_types has 3 entries for 78 layers"),
    (GLM_5, {"indexer_types": ["none"] * 78}, "indexer_types[0] is 'none', not full or shared"),
    (NAS, {"block_configs": [{}]}, "block_configs has 1 entries for 80 layers"),
    (NAS, {"block_configs": [1] * 80}, "block_configs[0] is 1, not an object"),
    (
        M3,
        {"sparse_attention_config": {"sparse_attention_freq": [1]}},
        "sparse_attention_config.sparse_attention_freq has 1 entries for 60 layers",
    ),
]


@pytest.mark.parametrize(("base", "changed", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_the_key_that_is_wrong_is_named(
    base: dict[str, Any], changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(WorkloadError) as refused:
        read(base, **changed)
    assert str(refused.value) == said


MISSING: list[tuple[dict[str, Any], str, str]] = [
    (LLAMA, "num_hidden_layers", "num_hidden_layers"),
    (LLAMA, "hidden_size", "hidden_size"),
    (LLAMA, "intermediate_size", "intermediate_size"),
    (LLAMA, "num_attention_heads", "num_attention_heads"),
    (LLAMA, "vocab_size", "vocab_size"),
    (MIXTRAL, "num_local_experts", "num_local_experts"),
    (MIXTRAL, "num_experts_per_tok", "num_experts_per_tok"),
    (GEMMA, "sliding_window", "sliding_window"),
    (DEEPSEEK, "kv_lora_rank", "kv_lora_rank"),
    (DEEPSEEK, "moe_intermediate_size", "moe_intermediate_size"),
    (MINIMAX, "attn_type_list", "attn_type_list"),
    (NEMOTRON, "hybrid_override_pattern", "hybrid_override_pattern"),
    (NEMOTRON, "ssm_state_size", "ssm_state_size"),
    (NEMOTRON, "mamba_head_dim", "mamba_head_dim"),
    (LFM2, "full_attn_idxs", "full_attn_idxs"),
    (LFM2, "conv_L_cache", "conv_L_cache"),
    (MODELS["falcon-mamba-7b-bnb4"], "time_step_rank", "time_step_rank"),
    (MODELS["qwen3-next-80b-a3b"], "linear_num_value_heads", "linear_num_value_heads"),
    (MODELS["qwen3-next-80b-a3b"], "full_attention_interval", "full_attention_interval"),
]


@pytest.mark.parametrize(("base", "key", "named"), MISSING, ids=[k for _, k, _ in MISSING])
def test_a_dimension_that_is_missing_is_named(base: dict[str, Any], key: str, named: str) -> None:
    with pytest.raises(NotEnoughMetadata) as refused:
        read(base, **{key: ...})
    assert str(refused.value) == f"not enough metadata: {named} is missing"


def test_heads_that_do_not_share_out_the_width_need_a_head_dim() -> None:
    with pytest.raises(NotEnoughMetadata, match="head_dim is missing, and hidden size 4096 is no"):
        read(LLAMA, num_attention_heads=48, num_key_value_heads=48)


@pytest.mark.parametrize("config", [{}, {"model_type": None, "architectures": []}])
def test_a_configuration_without_a_name_asks_for_weights(config: dict[str, Any]) -> None:
    with pytest.raises(NotEnoughMetadata, match="model_type is missing: give the weights"):
        from_config(config, None, "x")


def test_an_unknown_architecture_is_never_guessed_at() -> None:
    """Its keys look like Llama's; nothing says that its tensors are."""
    config = {**LLAMA, "model_type": "brandnew", "architectures": ["BrandNewForCausalLM"]}
    with pytest.raises(NotEnoughMetadata) as refused:
        from_config(config, None, "x")
    assert str(refused.value) == (
        "not enough metadata: unknown architecture BrandNewForCausalLM: give the weights "
        "(safetensors, GGUF)"
    )
    described = describe(config)
    assert (described.matrices, described.caches, described.layers) == (None, None, 32)


def test_a_name_from_the_file_is_shown_harmlessly() -> None:
    with pytest.raises(NotEnoughMetadata) as refused:
        from_config({"architectures": ["\x1b[31m" + "X" * 1000]}, None, "x")
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_whole_float_is_a_number() -> None:
    assert read(LLAMA, num_hidden_layers=32.0) == read(LLAMA)


@pytest.mark.parametrize("absent", [None, ...])
def test_absent_kv_heads_are_as_many_as_heads_and_it_is_said(absent: object) -> None:
    work = read(LLAMA, num_key_value_heads=absent)
    assert work.kv_bytes_per_token is not None
    assert work.kv_bytes_per_token.bf16 == 2 * 2 * 32 * 32 * 128
    assert "num_key_value_heads is absent: 32, as many as attention heads" in work.notes


def test_null_head_dim_is_shared_out() -> None:
    assert read(LLAMA, head_dim=None) == read(LLAMA)


def test_head_dim_wins_over_the_width_shared_out() -> None:
    half = read(LLAMA, head_dim=64).kv_bytes_per_token
    full = read(LLAMA).kv_bytes_per_token
    assert half is not None
    assert full is not None
    assert half.bf16 * 2 == full.bf16


@pytest.mark.parametrize("window", [0, None])
def test_no_window_is_none(window: int | None) -> None:
    work = read(MODELS["mistral-7b-v0.1"], sliding_window=window)
    assert all(g.cache.window is None for g in work.layer_groups)


def test_a_window_larger_than_the_context_saves_nothing() -> None:
    context = read(MODELS["phi-3-mini-4k"], sliding_window=262144).kv_bytes_at_131072
    assert context is not None
    assert context.window_only == 131072 * 393216


def test_use_sliding_window_false_cancels_the_window() -> None:
    types = every(36, 4)
    sliding = read(QWEN, layer_types=types, sliding_window=4096, use_sliding_window=True)
    cancelled = read(QWEN, layer_types=types, sliding_window=4096, use_sliding_window=False)
    assert any(g.cache.window for g in sliding.layer_groups)
    assert not any(g.cache.window for g in cancelled.layer_groups)


@pytest.mark.parametrize("count", [0, None])
def test_no_experts_are_a_dense_model(count: int | None) -> None:
    work = read(QWEN_MOE, num_experts=count)
    assert work.experts is None
    assert work.parameters == work.read_parameters_per_token - 2048 + 151936 * 2048  # type: ignore[operator]


def test_one_expert_is_an_expert() -> None:
    work = read(QWEN_MOE, num_experts=1, num_experts_per_tok=1)
    assert (work.experts, work.experts_used) == (1, 1)


def test_of_two_counts_the_familys_own_wins_and_it_is_said() -> None:
    work = read(QWEN_MOE, num_local_experts=8)
    assert work.experts == 128
    assert "num_experts counts, not num_local_experts" in work.notes


def test_experts_may_be_null_where_the_family_is_dense_then() -> None:
    assert read(DEEPSEEK, n_routed_experts=None).experts is None


def test_the_class_counts_where_type_and_class_differ() -> None:
    """A quantised MiniMax-M2 was published as a mixtral."""
    config = {
        "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "mixtral",
        "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62,
        "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 200064, "num_local_experts": 256, "num_experts_per_tok": 8,
        "tie_word_embeddings": False,
    }  # fmt: skip
    work = from_config(config, None, "x")
    assert work.parameters == 228_689_748_992 + 15_872
    assert any(
        "model_type is mixtral, but MiniMaxM2ForCausalLM is a class of minimax_m2" in note
        for note in work.notes
    )


def test_a_known_class_stands_for_a_type_of_its_own() -> None:
    work = read(DEEPSEEK, model_type="somebodys_own")
    assert work.parameters == read(DEEPSEEK).parameters
    assert "somebodys_own is not known: taken as deepseek_v3" in work.notes


def test_a_known_type_stands_for_a_class_of_its_own() -> None:
    work = read(LLAMA, architectures=["SomebodysForCausalLM"])
    assert work.parameters == read(LLAMA).parameters
    assert "SomebodysForCausalLM is not known: taken as llama" in work.notes


def test_expand_that_contradicts_heads_is_not_taken() -> None:
    """Falcon-H1 writes 2; its mixer is as wide as mamba_d_ssm says."""
    base = MODELS["falcon-h1-7b"]
    assert read(base, mamba_expand=16).parameters == read(base).parameters


def test_an_offered_mtp_of_unknown_layout_is_said_and_not_counted() -> None:
    work = read(QWEN, num_nextn_predict_layers=1)
    assert (work.layers, work.mtp_layers) == (36, 0)
    assert any("num_nextn_predict_layers is 1" in note for note in work.notes)


@pytest.mark.parametrize(
    ("key", "value"),
    [("routed_expert_hidden_size", 2048), ("index_n_heads", 64), ("block_configs", [{}]),
     ("linear_attn_config", {"num_heads": 4}), ("hc_mult", 4), ("num_kv_shared_layers", 0)],
)  # fmt: skip
def test_a_key_that_would_change_the_layers_is_said_where_it_is_not_known(
    key: str, value: object
) -> None:
    work = read(MIXTRAL, **{key: value})
    said = [note for note in work.notes if note.startswith(f"{key} is set, which is not known of")]
    assert len(said) == bool(value)
    assert work.parameters == read(MIXTRAL).parameters


def test_attention_in_a_mamba_ssm_model_asks_for_weights() -> None:
    with pytest.raises(NotEnoughMetadata, match="attn_layer_idx"):
        read(MODELS["mamba2-2.7b"], attn_layer_idx=[9, 18])


def test_state_may_be_asked_for_in_less(  # SGLang reads it inside of text_config first
) -> None:
    base = MODELS["qwen3.5-27b"]
    inner = {**base["text_config"], "mamba_ssm_dtype": "bfloat16"}
    outer = read(base, text_config=inner, mamba_ssm_dtype="float32").state_bytes_per_sequence
    full = read(base).state_bytes_per_sequence
    assert outer is not None
    assert full is not None
    assert (outer.sglang, outer.llama_cpp) == (78_446_592, full.llama_cpp)


@pytest.mark.parametrize("name", ["minimax-text-01", "jamba-1.5-mini", "rwkv7-0.1b"])
def test_states_that_sglang_has_no_class_for_are_unknown_there(name: str) -> None:
    from tests.workload.config.hybrid_models import HYBRID_MODELS
    from tests.workload.config.published_models import PUBLISHED_MODELS

    known = {m.name: m.config for m in (*HYBRID_MODELS, *PUBLISHED_MODELS)}
    state = from_config({**MODELS, **known}[name], None, "x").state_bytes_per_sequence
    assert state is not None
    assert state.sglang is None
    assert state.llama_cpp
