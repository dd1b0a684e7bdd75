"""Decoders with experts of which some serve every token, as DeepSeek has them. Data."""

from __future__ import annotations

from nodecheck.workload.config.families.dense import BIAS, NORMED
from nodecheck.workload.config.families.sparse import (
    CORRECTED,
    DEEPSEEK_SHARED,
    ROUTED,
    ROUTED_EXPERTS,
)
from nodecheck.workload.config.family import Attention, Experts, Family, Mlp, Shared, Switch

SPARSE_SHARED = (
    Family(
        types=("glm4_moe", "glm4v_moe_text"),
        architectures=("Glm4MoeForCausalLM",),
        source="transformers, modeling_glm4_moe.py",
        attention=Attention(bias=BIAS, norm=Switch("use_qk_norm")),
        experts=ROUTED_EXPERTS,
        mtp="deepseek",
    ),
    Family(
        types=("dots1",),
        architectures=("Dots1ForCausalLM",),
        source="transformers, modeling_dots1.py",
        kinds="upper_sliding",
        llama_cpp_windows=False,
        attention=NORMED,
        experts=ROUTED_EXPERTS,
    ),
    Family(
        types=("aria_text",),
        architectures=("AriaTextForCausalLM", "AriaForConditionalGeneration"),
        source="transformers, modeling_aria.py",
        attention=Attention(bias=BIAS, output_bias=BIAS),
        experts=Experts(
            router="router",
            mlp=Mlp(fused="fc1", down="fc2"),
            experts="experts",
            count=("moe_num_experts",),
            used=("moe_topk", "num_experts_per_tok"),
            width=("moe_intermediate_size", "intermediate_size"),
            shared=Shared(count=("moe_num_shared_experts",)),
        ),
        defaults={"moe_num_shared_experts": 2},
    ),
    Family(
        types=("solar_open",),
        architectures=("SolarOpenForCausalLM",),
        source="transformers, modeling_solar_open.py",
        attention=Attention(bias=BIAS, norm=Switch("use_qk_norm")),
        experts=ROUTED_EXPERTS,
    ),
    Family(
        types=("hy_v3",),
        architectures=("HYV3ForCausalLM",),
        source="transformers, modeling_hy_v3.py",
        attention=NORMED,
        experts=Experts(
            count=("num_experts", *ROUTED),
            layers="after_dense",
            shared=DEEPSEEK_SHARED,
            correction="e_score_correction_bias",
        ),
    ),
    Family(
        types=("exaone_moe",),
        architectures=("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"),
        source="transformers, modeling_exaone_moe.py",
        kinds="every_4",
        attention=Attention(norm=True),
        experts=Experts(
            count=("num_experts",),
            layers="after_dense",
            shared=DEEPSEEK_SHARED,
            correction=CORRECTED,
        ),
    ),
    Family(
        types=("afmoe",),
        architectures=("AfmoeForCausalLM",),
        source="transformers, modeling_afmoe.py",
        kinds="every_4",
        norms=(
            "input_layernorm",
            "post_attention_layernorm",
            "pre_mlp_layernorm",
            "post_mlp_layernorm",
        ),
        attention=Attention(norm=True, gate="gate_proj"),
        experts=Experts(
            router="router.gate",
            count=("num_experts",),
            layers="after_num_dense_layers",
            shared=DEEPSEEK_SHARED,
            correction="expert_bias",
        ),
    ),
    Family(
        types=("bailing_moe", "bailing_moe_v2"),
        architectures=("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"),
        source="SGLang, models/bailing_moe.py",
        embedding="word_embeddings",
        attention=Attention(
            module="attention",
            fused="query_key_value",
            output="dense",
            bias=Switch("use_qkv_bias"),
            output_bias=Switch("use_bias"),
            norm=Switch("use_qk_norm"),
            norm_names=("query_layernorm", "key_layernorm"),
        ),
        mlp=Mlp(bias=Switch("use_bias")),
        experts=Experts(
            count=("num_experts",),
            layers="first_dense",
            shared=Shared(
                count=("num_shared_experts",), width=("moe_shared_expert_intermediate_size",)
            ),
            correction="gate.expert_bias",
            corrected=Switch("moe_router_enable_expert_bias"),
        ),
    ),
    Family(
        types=("laguna",),
        architectures=("LagunaForCausalLM",),
        source="transformers, modeling_laguna.py",
        heads="query_per_layer",
        attention=Attention(
            bias=BIAS, output_bias=BIAS, norm=True, gate="g_proj", gate_width="head"
        ),
        experts=Experts(
            count=("num_experts",),
            layers="first_dense",
            shared=Shared(width=("shared_expert_intermediate_size",)),
            correction=CORRECTED,
        ),
    ),
    Family(
        types=("deepseek",),
        architectures=("DeepseekForCausalLM",),
        source="SGLang, models/deepseek.py",
        attention=Attention(bias=BIAS, output_bias=BIAS),
        experts=Experts(count=ROUTED, layers="after_dense", shared=DEEPSEEK_SHARED, optional=True),
    ),
    Family(
        types=("ernie4_5_moe",),
        architectures=("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"),
        source="transformers, modeling_ernie4_5_moe.py",
        tied=True,
        attention=Attention(bias=Switch("use_bias"), output_bias=Switch("use_bias")),
        mlp=Mlp(bias=Switch("use_bias")),
        experts=Experts(
            count=("moe_num_experts",),
            used=("moe_k",),
            layers="between",
            mlp=Mlp(bias=Switch("use_bias")),
            shared=Shared(mlp=Mlp(bias=Switch("use_bias")), count=("moe_num_shared_experts",)),
            correction="moe_statics.e_score_correction_bias",
        ),
        mtp="ernie",
    ),
    Family(
        types=("mimo_v2_flash",),
        architectures=("MiMoV2FlashForCausalLM",),
        source="transformers, modeling_mimo_v2_flash.py",
        kinds="hybrid_layer_pattern",
        heads="value_width",
        layout="sinks_in_windows",
        attention=Attention(bias=BIAS),
        experts=Experts(count=ROUTED, layers="after_dense", correction=CORRECTED),
    ),
    Family(
        types=("step3p5", "step3p7"),
        architectures=(
            "Step3p5ForCausalLM",
            "Step3p7FlashForCausalLM",
            "Step3p7ForConditionalGeneration",
        ),
        source="transformers, modeling_step3p7.py",
        heads="sliding_own",
        attention=Attention(
            bias=BIAS, output_bias=BIAS, norm=True, gate="g_proj", gate_width="head"
        ),
        experts=Experts(
            module="moe",
            experts="",
            count=("moe_num_experts", *ROUTED),
            used=("moe_top_k", "num_experts_per_tok"),
            layers="enumerated",
            shared=Shared(module="share_expert", width=("share_expert_dim", "share_expert_dims")),
            correction="router_bias",
            corrected=Switch("use_moe_router_bias", absent=True),
        ),
    ),
    Family(
        types=("minimax_m3", "minimax_m3_text", "minimax_m3_vl_text"),
        architectures=("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
        source="transformers, modeling_minimax_m3_vl.py",
        kinds="sparse_attention_freq",
        mixers={"full": ("grouped",), "indexed": ("block_indexed",)},
        attention=Attention(norm=True),
        mlp=Mlp(width=("dense_intermediate_size",)),
        experts=Experts(
            module="block_sparse_moe",
            mlp=Mlp(gate="w1", up="w3", down="w2"),
            count=("num_local_experts",),
            width=("intermediate_size",),
            layers="after_dense",
            shared=Shared(
                module="block_sparse_moe.shared_experts", width=("shared_intermediate_size",)
            ),
            correction="e_score_correction_bias",
            corrected=Switch("use_routing_bias", absent=True),
        ),
    ),
)
"""The families, each with where its layout was read."""
