"""Decoders of one feed-forward network a layer, with rotary positions. Data."""

from __future__ import annotations

from nodecheck.workload.config.family import Attention, Experts, Family, Mlp, Switch

BIAS = Switch("attention_bias")
LLAMA_ATTENTION = Attention(bias=BIAS, output_bias=BIAS)
MLP_BIAS = Mlp(bias=Switch("mlp_bias"))
NORMED = Attention(bias=BIAS, output_bias=BIAS, norm=True)
SANDWICH = (
    "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)  # fmt: skip
AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
LAYER_BIAS = Switch("bias")
BIASED = Switch("bias", absent=True)

DENSE = (
    Family(
        types=("llama", "granite", "iquestcoder", "aquila", "Yi", "xverse", "Emu3"),
        architectures=(
            "LlamaForCausalLM",
            "LLaMAForCausalLM",
            "GraniteForCausalLM",
            "IQuestCoderForCausalLM",
            "AquilaForCausalLM",
            "YiForCausalLM",
            "XverseForCausalLM",
            "Emu3ForCausalLM",
        ),
        source="transformers, modeling_llama.py, modeling_granite.py",
        attention=LLAMA_ATTENTION,
        mlp=MLP_BIAS,
        defaults={
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
        },
    ),
    Family(
        types=("cwm",),
        architectures=("CwmForCausalLM",),
        source="transformers, modeling_cwm.py",
        attention=LLAMA_ATTENTION,
        mlp=MLP_BIAS,
        llama_cpp_windows=False,
    ),
    Family(
        types=("mistral", "ministral3", "helium"),
        architectures=("MistralForCausalLM", "Ministral3ForCausalLM", "HeliumForCausalLM"),
        source="transformers, modeling_mistral.py; llama.cpp converts it to llama, without window",
        kinds="sliding",
        defaults={
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "sliding_window": 4096,
        },
        llama_cpp_windows=False,
    ),
    Family(
        types=("ministral",),
        architectures=("MinistralForCausalLM",),
        source="transformers, modeling_ministral.py",
        kinds="sliding",
        llama_cpp_windows=False,
    ),
    Family(
        types=("minicpm",),
        architectures=("MiniCPMForCausalLM",),
        source="openbmb, modeling_minicpm.py",
        tied=True,
        attention=LLAMA_ATTENTION,
        experts=Experts(
            mlp=Mlp(gate="w1", up="w3", down="w2"),
            count=("num_experts",),
            width=("intermediate_size",),
            optional=True,
        ),
    ),
    Family(
        types=("internlm",),
        architectures=("InternLMForCausalLM",),
        source="SGLang, models/llama.py (InternLMForCausalLM)",
        attention=Attention(bias=BIASED, output_bias=BIASED),
    ),
    Family(
        types=("internlm2",),
        architectures=("InternLM2ForCausalLM",),
        source="SGLang, models/internlm2.py",
        embedding="tok_embeddings",
        head="output",
        norms=("attention_norm", "ffn_norm"),
        attention=Attention(
            module="attention", fused="wqkv", output="wo", bias=LAYER_BIAS, output_bias=LAYER_BIAS
        ),
        mlp=Mlp(module="feed_forward", gate="w1", up="w3", down="w2"),
    ),
    Family(
        types=("internlm3",),
        architectures=("InternLM3ForCausalLM",),
        source="transformers, modeling_internlm3.py",
        attention=Attention(bias=Switch("qkv_bias"), output_bias=LAYER_BIAS),
        mlp=Mlp(bias=LAYER_BIAS),
    ),
    Family(
        types=("orion",),
        architectures=("OrionForCausalLM",),
        source="SGLang, models/orion.py",
        norm_bias=True,
    ),
    Family(
        types=("baichuan",),
        architectures=("BaichuanForCausalLM", "BaiChuanForCausalLM"),
        source="SGLang, models/baichuan.py",
        heads="multi",
        attention=Attention(fused="W_pack"),
    ),
    Family(
        types=("qwen",),
        architectures=("QWenLMHeadModel",),
        source="SGLang, models/qwen.py",
        root="transformer",
        blocks="h",
        embedding="wte",
        final_norm="ln_f",
        norms=("ln_1", "ln_2"),
        heads="multi",
        attention=Attention(module="attn", fused="c_attn", output="c_proj", bias=True),
        mlp=Mlp(gate="w2", up="w1", down="c_proj"),
    ),
    Family(
        types=(
            "qwen2",
            "qwen2_vl",
            "qwen2_vl_text",
            "qwen2_5_vl",
            "qwen2_5_vl_text",
            "qwen2_5_omni_text",
        ),
        architectures=(
            "Qwen2ForCausalLM",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
        ),
        source="transformers, modeling_qwen2.py: biases of query, key and value without a key",
        kinds="upper_sliding",
        llama_cpp_windows=False,
        attention=Attention(bias=True),
        defaults={
            "vocab_size": 151936,
            "hidden_size": 4096,
            "intermediate_size": 22016,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "sliding_window": 4096,
            "max_window_layers": 28,
        },
    ),
    Family(
        types=("mimo",),
        architectures=("MiMoForCausalLM",),
        source="SGLang, models/mimo.py: Qwen2 with modules that guess ahead",
        kinds="upper_sliding",
        llama_cpp_windows=False,
        attention=Attention(bias=Switch("attention_bias", absent=True)),
        mtp="mimo",
    ),
    Family(
        types=("qwen3", "qwen3_vl", "qwen3_vl_text"),
        architectures=("Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"),
        source="transformers, modeling_qwen3.py",
        kinds="upper_sliding",
        llama_cpp_windows=False,
        attention=NORMED,
    ),
    Family(
        types=("seed_oss",),
        architectures=("SeedOssForCausalLM",),
        source="transformers, modeling_seed_oss.py",
        attention=Attention(
            bias=Switch("attention_bias", absent=True), output_bias=Switch("attention_out_bias")
        ),
        mlp=MLP_BIAS,
    ),
    Family(
        types=("smollm3",),
        architectures=("SmolLM3ForCausalLM",),
        source="transformers, modeling_smollm3.py",
        tied=True,
        kinds="no_rope_sliding",
        llama_cpp_windows=False,
        attention=LLAMA_ATTENTION,
        mlp=MLP_BIAS,
    ),
    Family(
        types=("ernie4_5", "paddleocr_vl", "paddleocr_vl_text"),
        architectures=(
            "Ernie4_5ForCausalLM",
            "Ernie4_5_ForCausalLM",
            "PaddleOCRVLForConditionalGeneration",
        ),
        source="transformers, modeling_ernie4_5.py",
        tied=True,
        attention=Attention(bias=Switch("use_bias"), output_bias=Switch("use_bias")),
        mlp=Mlp(bias=Switch("use_bias")),
    ),
    Family(
        types=("hunyuan_v1_dense",),
        architectures=("HunYuanDenseV1ForCausalLM",),
        source="transformers, modeling_hunyuan_v1_dense.py; SGLang, models/hunyuan.py",
        attention=Attention(
            bias=BIAS,
            output_bias=BIAS,
            norm=Switch("use_qk_norm", absent=True),
            norm_names=("query_layernorm", "key_layernorm"),
            one_layer_of="cla_share_factor",
        ),
    ),
)
"""The families, each with where its layout was read."""
