"""Gemma and what grew out of it. Data."""

from __future__ import annotations

from nodecheck.workload.config.families.dense import BIAS, SANDWICH
from nodecheck.workload.config.family import Attention, Experts, Family, Switch

STORED = "layers that share a cache are counted with the key and value matrices that files hold"
"""Source: transformers, which leaves those tensors of a checkpoint unread."""

GEMMA = (
    Family(
        types=("gemma",),
        architectures=("GemmaForCausalLM",),
        source="transformers, modeling_gemma.py",
        tied=True,
        attention=Attention(bias=BIAS, output_bias=BIAS),
    ),
    Family(
        types=("gemma2",),
        architectures=("Gemma2ForCausalLM",),
        source="transformers, modeling_gemma2.py",
        tied=True,
        norms=SANDWICH,
        kinds="every_2",
        attention=Attention(bias=BIAS, output_bias=BIAS),
    ),
    Family(
        types=("vaultgemma",),
        architectures=("VaultGemmaForCausalLM",),
        source="transformers, modeling_vaultgemma.py",
        tied=True,
        norms=("input_layernorm", "pre_feedforward_layernorm"),
        kinds="every_2",
        attention=Attention(bias=BIAS, output_bias=BIAS),
    ),
    Family(
        types=("gemma3", "gemma3_text"),
        architectures=("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
        source="transformers, modeling_gemma3.py, configuration_gemma3.py",
        tied=True,
        norms=SANDWICH,
        kinds="every_6",
        attention=Attention(bias=BIAS, output_bias=BIAS, norm=True),
        defaults={
            "vocab_size": 262208,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
        },
    ),
    Family(
        types=("gemma3n", "gemma3n_text"),
        architectures=("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"),
        source="transformers, modeling_gemma3n.py",
        tied=True,
        norms=SANDWICH,
        kinds="every_5",
        attention=Attention(bias=BIAS, output_bias=BIAS, norm=True),
        beside=("per_layer_inputs", "altup"),
        remarks=(STORED,),
        required=("num_kv_shared_layers", "hidden_size_per_layer_input"),
        defaults={"vocab_size": 262400},
    ),
    Family(
        types=("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"),
        architectures=("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"),
        source="transformers, modeling_gemma4.py",
        tied=True,
        norms=SANDWICH,
        kinds="every_6",
        heads="of_kind",
        attention=Attention(bias=BIAS, output_bias=BIAS, norm=True),
        beside=("per_layer_inputs", "layer_scalar", "gemma4_router"),
        experts=Experts(
            module="",
            router="router.proj",
            count=("num_experts",),
            used=("top_k_experts",),
            enabled=Switch("enable_moe_block"),
            beside_mlp=True,
        ),
        required=("hidden_size_per_layer_input",),
        defaults={"vocab_size": 262144, "global_head_dim": 512},
    ),
)
"""The families, each with where its layout was read."""
