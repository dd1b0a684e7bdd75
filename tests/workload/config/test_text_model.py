"""Configurations that hold their text model's inside."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.workload.config import describe, from_config
from nodecheck.workload.errors import NotEnoughMetadata
from tests.workload.config.dense_models import DENSE_MODELS
from tests.workload.config.reference_models import REFERENCE_MODELS
from tests.workload.config.sparse_models import SPARSE_MODELS

KNOWN: dict[str, dict[str, Any]] = {
    m.name: m.config for m in (*REFERENCE_MODELS, *DENSE_MODELS, *SPARSE_MODELS)
}


@pytest.mark.parametrize(
    ("key", "inside", "architecture", "module"),
    [
        ("text_config", "gemma-3-27b-text", "Gemma3ForConditionalGeneration",
         "language_model.model.layers.0.self_attn.q_proj"),
        ("text_config", "llama-4-scout", "Llama4ForConditionalGeneration",
         "language_model.model.layers.0.self_attn.q_proj"),
        ("text_config", "mistral-nemo", "Mistral3ForConditionalGeneration",
         "language_model.model.layers.0.self_attn.q_proj"),
        ("text_config", "qwen3-vl-text", "Qwen3VLForConditionalGeneration",
         "model.language_model.layers.0.self_attn.q_proj"),
        ("llm_config", "qwen2-7b", "InternVLChatModel",
         "language_model.model.layers.0.self_attn.q_proj"),
        ("language_config", "deepseek-v2-lite", None, "model.layers.0.self_attn.q_proj"),
        ("text_config", "kimi-k2", "KimiK25ForConditionalGeneration",
         "language_model.model.layers.0.self_attn.q_a_proj"),
        ("text_config", "llama-3.1-8b", "SomebodysOwnVision", "model.layers.0.self_attn.q_proj"),
    ],
)  # fmt: skip
def test_the_text_model_is_found_inside(
    key: str, inside: str, architecture: str | None, module: str
) -> None:
    wrapped = {
        "architectures": [architecture] if architecture else [],
        "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24},
        "tie_word_embeddings": KNOWN[inside].get("tie_word_embeddings"),
        key: KNOWN[inside],
    }
    inner = from_config(KNOWN[inside], None, "x")
    work = from_config(wrapped, None, "x")
    assert work.parameters == inner.parameters
    assert work.kv_bytes_per_token == inner.kv_bytes_per_token
    assert any("vision_config: that tower is not counted" in note for note in work.notes)
    assert module in {m.module for m in describe(wrapped).matrices or ()}


def test_a_text_model_may_lie_two_levels_deep() -> None:
    wrapped = {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "thinker_config": {"text_config": KNOWN["qwen3-vl-moe-text"]},
    }
    assert from_config(wrapped, None, "x").parameters == 30_532_122_624
    assert any(
        m.module == "thinker.model.layers.0.mlp.experts.*.gate_proj"
        for m in describe(wrapped).matrices or ()
    )


GEMMA_3_4B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152},
}
"""A real file leaves these out: heads, head_dim and vocabulary are the class's own values."""


def test_a_nested_file_may_leave_out_what_its_class_defines_and_it_is_said() -> None:
    """Figures: transformers 5.24, Gemma3TextModel with the same values on the meta device."""
    work = from_config(GEMMA_3_4B, None, "x")
    assert work.parameters == 3_880_263_168
    assert work.kv_bytes_per_token is not None
    assert work.kv_bytes_per_token.bf16 == 34 * 2 * 2 * 4 * 256
    assert "text_config.vocab_size is absent: 262208, as the model's class defines" in work.notes
    assert "text_config.head_dim is absent: 256, as the model's class defines" in work.notes


@pytest.mark.parametrize(
    ("text", "parameters", "kv_elements"),
    [
        ({"model_type": "llama", "vocab_size": 32064}, 6_738_939_904, 32 * 2 * 4096),
        ({"model_type": "mistral", "vocab_size": 32064, "sliding_window": None}, 7_242_256_384,
         32 * 2 * 1024),
        ({"model_type": "qwen2", "vocab_size": 156032, "intermediate_size": 11008}, 7_754_878_976,
         32 * 2 * 4096),
        ({"model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336,
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8},
         8_028_033_024, 32 * 2 * 1024),
    ],
    ids=["llava-1.5", "llava-next-mistral", "qwen2-audio", "aya-vision-8b"],
)  # fmt: skip
def test_a_nested_file_may_hold_no_more_than_what_differs(
    text: dict[str, Any], parameters: int, kv_elements: int
) -> None:
    """Figures: transformers 5.24, the same configurations' text models on the meta device."""
    work = from_config({"model_type": "wraps", "text_config": text}, None, "x")
    assert work.parameters == parameters
    assert work.kv_bytes_per_token is not None
    assert work.kv_bytes_per_token.bf16 == 2 * kv_elements


def test_null_is_not_absent() -> None:
    text = {"model_type": "mistral", "sliding_window": None}
    work = from_config({"model_type": "wraps", "text_config": text}, None, "x")
    assert {g.cache.window for g in work.layer_groups} == {None}


def test_a_file_of_its_own_may_not() -> None:
    with pytest.raises(NotEnoughMetadata, match="num_attention_heads is missing"):
        from_config({**GEMMA_3_4B["text_config"], "vocab_size": 262144}, None, "x")  # type: ignore[dict-item]


def test_a_missing_dimension_is_named_with_its_path() -> None:
    nested = {"architectures": ["LlavaForConditionalGeneration"],
              "text_config": {"model_type": "qwen3", "vocab_size": 151936}}  # fmt: skip
    with pytest.raises(NotEnoughMetadata, match=r"text_config\.num_hidden_layers is missing"):
        from_config(nested, None, "x")


@pytest.mark.parametrize(
    ("outer", "inner", "tied"),
    [(None, None, False), (True, None, True), (None, True, True), (False, True, False),
     (True, False, True)],
)  # fmt: skip
def test_the_outer_level_says_first_whether_the_head_is_tied(
    outer: bool | None, inner: bool | None, *, tied: bool
) -> None:
    text = {**KNOWN["llama-3.1-8b"], "tie_word_embeddings": inner}
    work = from_config({"tie_word_embeddings": outer, "text_config": text}, None, "x")
    head = next(w for w in work.outside if w.kind.value == "output")
    assert (head.parameters == 0) is tied
    contradicts = outer is not None and inner is not None and outer != inner
    said = "tie_word_embeddings counts, not text_config.tie_word_embeddings" in work.notes
    assert said is contradicts


def test_a_draft_of_another_model_is_refused() -> None:
    draft = {"architectures": ["Gemma4AssistantForCausalLM"], "text_config": KNOWN["gemma-2-9b"]}
    with pytest.raises(NotEnoughMetadata, match="a draft model that uses another one's cache"):
        from_config(draft, None, "x")
