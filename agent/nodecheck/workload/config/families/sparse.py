"""Decoders with experts. Data."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.workload.config.families.dense import AFTER, BIAS, NORMED
from nodecheck.workload.config.family import Attention, Experts, Family, Mlp, Shared, Switch

MIXTRAL_MLP = Mlp(gate="w1", up="w3", down="w2")
ROUTED = ("n_routed_experts", "num_experts", "num_local_experts")
QWEN_SHARED = Shared(
    module="mlp.shared_expert",
    width=("shared_expert_intermediate_size",),
    gate="mlp.shared_expert_gate",
)
DEEPSEEK_SHARED = Shared(count=("n_shared_experts", "num_shared_experts"))
CORRECTED = "gate.e_score_correction_bias"
MIXTRAL_EXPERTS = Experts(
    module="block_sparse_moe",
    mlp=MIXTRAL_MLP,
    count=("num_local_experts",),
    width=("intermediate_size",),
)
ROUTED_EXPERTS = Experts(
    count=ROUTED, layers="after_dense", shared=DEEPSEEK_SHARED, correction=CORRECTED
)
GRANITE_SHARED = Shared(
    module="shared_mlp",
    mlp=Mlp(fused="input_linear", down="output_linear"),
    width=("shared_intermediate_size",),
)
GRANITE_EXPERTS = Experts(
    module="block_sparse_moe",
    router="router.layer",
    mlp=Mlp(fused="input_linear", down="output_linear"),
    experts="",
    count=("num_local_experts",),
    width=("intermediate_size",),
)

SPARSE = (
    Family(
        types=("mixtral",),
        architectures=("MixtralForCausalLM",),
        source="transformers, modeling_mixtral.py",
        kinds="sliding",
        experts=MIXTRAL_EXPERTS,
        llama_cpp_windows=False,
    ),
    Family(
        types=("minimax_m2",),
        architectures=("MiniMaxM2ForCausalLM",),
        source="transformers, modeling_minimax_m2.py",
        attention=Attention(norm=True, norm_width="full"),
        experts=Experts(
            module="block_sparse_moe",
            mlp=MIXTRAL_MLP,
            count=("num_local_experts",),
            width=("intermediate_size",),
            correction="e_score_correction_bias",
        ),
    ),
    Family(
        types=("qwen2_moe",),
        architectures=("Qwen2MoeForCausalLM",),
        source="transformers, modeling_qwen2_moe.py",
        kinds="upper_sliding",
        llama_cpp_windows=False,
        attention=Attention(bias=Switch("qkv_bias", absent=True)),
        experts=Experts(count=("num_experts",), layers="sparse_step", shared=QWEN_SHARED),
    ),
    Family(
        types=("qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"),
        architectures=("Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration"),
        source="transformers, modeling_qwen3_moe.py",
        kinds="upper_sliding",
        llama_cpp_windows=False,
        attention=NORMED,
        experts=Experts(
            count=("num_experts", "num_local_experts"),
            layers="sparse_step",
        ),
    ),
    Family(
        types=("olmoe",),
        architectures=("OlmoeForCausalLM",),
        source="transformers, modeling_olmoe.py",
        attention=Attention(bias=BIAS, output_bias=BIAS, norm=True, norm_width="full"),
        experts=Experts(count=("num_experts",), width=("intermediate_size",)),
    ),
    Family(
        types=("flex_olmo",),
        architectures=("FlexOlmoForCausalLM",),
        source="transformers, modeling_flex_olmo.py",
        norms=AFTER,
        attention=Attention(bias=BIAS, output_bias=BIAS, norm=True, norm_width="full"),
        experts=Experts(count=("num_experts",), width=("intermediate_size",)),
    ),
    Family(
        types=("phimoe",),
        architectures=("PhiMoEForCausalLM", "PhimoeForCausalLM"),
        source="transformers, modeling_phimoe.py",
        kinds="sliding",
        llama_cpp_windows=False,
        norm_bias=True,
        head_bias=Switch("lm_head_bias"),
        attention=Attention(bias=BIAS, output_bias=BIAS),
        experts=MIXTRAL_EXPERTS,
    ),
    Family(
        types=("granitemoe",),
        architectures=("GraniteMoeForCausalLM",),
        source="transformers, modeling_granitemoe.py",
        attention=Attention(bias=BIAS, output_bias=BIAS),
        experts=GRANITE_EXPERTS,
    ),
    Family(
        types=("granitemoeshared",),
        architectures=("GraniteMoeSharedForCausalLM",),
        source="transformers, modeling_granitemoeshared.py",
        attention=Attention(bias=BIAS, output_bias=BIAS),
        experts=replace(GRANITE_EXPERTS, shared=GRANITE_SHARED),
    ),
    Family(
        types=("gpt_oss",),
        architectures=("GptOssForCausalLM",),
        source="transformers, modeling_gpt_oss.py",
        kinds="every_2",
        attention=Attention(
            bias=Switch("attention_bias", absent=True),
            output_bias=Switch("attention_bias", absent=True),
            sinks="sinks",
        ),
        experts=Experts(
            router="router",
            router_bias=True,
            experts="experts",
            mlp=Mlp(fused="gate_up_proj", bias=True),
            count=("num_local_experts", "num_experts"),
            used=("num_experts_per_tok", "experts_per_token"),
            width=("intermediate_size",),
        ),
    ),
    Family(
        types=("mellum",),
        architectures=("MellumForCausalLM",),
        source="transformers, modeling_mellum.py",
        attention=NORMED,
        experts=Experts(count=("num_experts",)),
    ),
    Family(
        types=("hunyuan_v1_moe", "hunyuan"),
        architectures=("HunYuanMoEV1ForCausalLM", "HunYuanForCausalLM"),
        source="transformers, modeling_hunyuan_v1_moe.py; SGLang, models/hunyuan.py",
        attention=Attention(
            bias=BIAS,
            output_bias=BIAS,
            norm=Switch("use_qk_norm", absent=True),
            norm_names=("query_layernorm", "key_layernorm"),
            one_layer_of="cla_share_factor",
        ),
        experts=Experts(
            router="gate.wg",
            count=("num_experts",),
            used=("moe_topk", "num_experts_per_tok"),
            width=("moe_intermediate_size", "intermediate_size"),
            shared=Shared(
                module="mlp.shared_mlp",
                count=("num_shared_expert",),
                width=("intermediate_size",),
                enabled=Switch("use_mixed_mlp_moe", absent=True),
            ),
            least=2,
            optional=True,
        ),
    ),
    Family(
        types=("llama4", "llama4_text"),
        architectures=("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
        source="transformers, modeling_llama4.py",
        kinds="chunked",
        attention=Attention(bias=BIAS, output_bias=BIAS),
        mlp=Mlp(module="feed_forward", width=("intermediate_size_mlp",)),
        experts=Experts(
            module="feed_forward",
            router="router",
            experts="experts",
            mlp=Mlp(fused="gate_up_proj"),
            count=("num_local_experts",),
            width=("intermediate_size",),
            layers="interleaved",
            shared=Shared(module="feed_forward.shared_expert", width=("intermediate_size",)),
        ),
    ),
    Family(
        types=("dbrx",),
        architectures=("DbrxForCausalLM",),
        source="transformers, modeling_dbrx.py",
        root="transformer",
        blocks="blocks",
        embedding="wte",
        final_norm="norm_f",
        norms=("norm_attn_norm.norm_1", "norm_attn_norm.norm_2"),
        heads="attn_config",
        attention=Attention(module="norm_attn_norm.attn", fused="Wqkv", output="out_proj"),
        experts=Experts(
            module="ffn",
            router="router.layer",
            experts="experts.mlp",
            mlp=Mlp(gate="w1", up="v1", down="w2"),
            count=("moe_num_experts",),
            used=("moe_top_k",),
            width=("ffn_hidden_size",),
        ),
    ),
)
"""The families, each with where its layout was read."""
