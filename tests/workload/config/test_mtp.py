"""Modules that guess further tokens: stored and counted, read by no token."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.serving import Kind
from nodecheck.workload.config import from_config
from nodecheck.workload.errors import WorkloadError
from tests.workload.config.hybrid_models import HYBRID_MODELS
from tests.workload.config.known import every
from tests.workload.config.reference_models import REFERENCE_MODELS
from tests.workload.config.sparse_models import SPARSE_MODELS

KNOWN: dict[str, dict[str, Any]] = {
    m.name: m.config for m in (*REFERENCE_MODELS, *SPARSE_MODELS, *HYBRID_MODELS)
}
MIMO = {
    "model_type": "mimo", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "vocab_size": 151680, "attention_bias": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "stored"),
    [
        (KNOWN["glm-4.5"], 358_337_791_296),
        (KNOWN["glm-4.7-flash"], 31_221_488_576),
        (KNOWN["glm-5"], 753_864_139_008),
        (KNOWN["deepseek-v3"], 684_489_845_504),
        (KNOWN["deepseek-v3.2"], 685_396_921_376 - 41_591_584),
        (KNOWN["qwen3-next-80b-a3b"], 81_324_862_720),
        (MIMO, 7_833_409_536),
    ],
    ids=["glm-4.5", "glm-4.7-flash", "glm-5", "deepseek-v3", "deepseek-v3.2", "qwen3-next", "mimo"],
)
def test_with_one_module_a_model_comes_to_the_published_count(
    config: dict[str, Any], stored: int
) -> None:
    """Figures: element counts of the published checkpoints; DeepSeek-V3.2's without its scales."""
    without = from_config({**config, "num_nextn_predict_layers": 0}, None, "x")
    work = from_config({**config, "num_nextn_predict_layers": 1}, None, "x")
    assert work.weight_bytes_bf16 == 2 * stored
    assert work.parameters == without.parameters
    assert work.read_parameters_per_token == without.read_parameters_per_token
    assert work.layers_with_kv == without.layers_with_kv
    assert (work.layers, work.mtp_layers) == (without.layers + 1, 1)


def test_a_module_lies_in_the_layer_after_the_last() -> None:
    work = from_config(KNOWN["glm-4.5"], None, "x")
    last = next(g for g in work.layer_groups if 92 in g.numbers)
    assert {w.kind for w in last.weights} == {Kind.MTP}


def test_ernies_module_is_dense() -> None:
    """Source: SGLang, models/ernie4_eagle.py: a layer without experts, two norms, one matrix."""
    config = {**KNOWN["ernie-4.5-21b-a3b"], "num_nextn_predict_layers": 1}
    work = from_config(config, None, "x")
    hidden, width = 2560, 12288
    attention = 2 * hidden * 20 * 128 + 2 * hidden * 4 * 128
    module = attention + 3 * hidden * width + 4 * hidden + 2 * hidden * hidden
    assert work.weight_bytes_bf16 == 2 * (21_825_437_888 + module)


SUPER = KNOWN["nemotron-3-super"]


@pytest.mark.parametrize(
    "pattern",
    [{"mtp_hybrid_override_pattern": "*E"}, {"mtp_layers_block_type": ["attention", "moe"]}],
    ids=["letters", "words"],
)
def test_nemotrons_module_is_the_blocks_of_its_own_pattern(pattern: dict[str, Any]) -> None:
    """Source: SGLang, models/nemotron_h_mtp.py: each block's norm, two to join by, one at the end.

    With it Nemotron 3 Super comes to the 123.6 billion that its checkpoint holds.
    """
    work = from_config({**SUPER, **pattern, "num_nextn_predict_layers": 1}, None, "x")
    hidden, latent, width = 4096, 1024, 2688
    attention = 2 * hidden * 32 * 128 + 2 * hidden * 2 * 128
    experts = 512 * 2 * latent * width + 2 * hidden * latent + 512 * hidden + 512
    module = attention + experts + 2 * hidden * 5376 + 2 * hidden * hidden + 5 * hidden
    assert work.weight_bytes_bf16 == 2 * (120_668_707_840 + module) == 2 * 123_611_033_088
    assert (work.layers, work.mtp_layers) == (89, 1)


def test_a_module_whose_blocks_no_key_says_is_not_counted() -> None:
    work = from_config({**SUPER, "num_nextn_predict_layers": 1}, None, "x")
    assert work.weight_bytes_bf16 == 2 * 120_668_707_840
    assert any("mtp_hybrid_override_pattern is absent" in note for note in work.notes)


def test_a_module_with_a_state_is_refused() -> None:
    config = {**SUPER, "mtp_hybrid_override_pattern": "M*", "num_nextn_predict_layers": 1}
    with pytest.raises(WorkloadError, match="holds a recurrent block"):
        from_config(config, None, "x")


EXAONE = {
    "model_type": "exaone4_5_text", "architectures": ["Exaone4ForCausalLM"], "hidden_size": 5120,
    "intermediate_size": 27392, "num_hidden_layers": 64, "num_attention_heads": 40,
    "num_key_value_heads": 8, "vocab_size": 153600, "sliding_window": 4096,
    "num_nextn_predict_layers": 1, "layer_types": [*every(64, 4), "sliding_attention"],
}  # fmt: skip
"""EXAONE 4.5's text model: the last kind is the module's."""


def test_kinds_may_name_the_modules_layers_too() -> None:
    config = {"architectures": ["Exaone4_5_ForConditionalGeneration"], "text_config": EXAONE,
              "vision_config": {}, "tie_word_embeddings": False}  # fmt: skip
    work = from_config(config, None, "x")
    hidden = 5120
    layer = 2 * hidden * 40 * 128 + 2 * hidden * 8 * 128 + 3 * hidden * 27392 + 2 * hidden + 256
    assert work.parameters == 64 * layer + hidden + 2 * 153600 * hidden
    assert work.weight_bytes_bf16 is not None
    module = layer + 3 * hidden + 2 * hidden * hidden
    assert work.weight_bytes_bf16 == 2 * (work.parameters + module)
    assert sum(len(g.numbers) for g in work.layer_groups if g.cache.window) == 48


@pytest.mark.parametrize("extra", [2, -1])
def test_kinds_of_another_number_are_refused(extra: int) -> None:
    kinds = (["sliding_attention"] * 70)[: 64 + extra]
    with pytest.raises(WorkloadError, match=f"layer_types has {64 + extra} entries for 64 layers"):
        from_config({**EXAONE, "layer_types": kinds}, None, "x")


def test_a_module_of_a_model_that_never_attends_is_refused() -> None:
    inner = {**KNOWN["qwen3.5-27b"]["text_config"], "layer_types": ["linear_attention"] * 64}
    with pytest.raises(WorkloadError, match="mtp_num_hidden_layers is set, but no layer attends"):
        from_config({**KNOWN["qwen3.5-27b"], "text_config": inner}, None, "x")
