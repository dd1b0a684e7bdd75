"""Models without a module tree to ask: configurations, and the totals that were published."""

from __future__ import annotations

from typing import Any

from tests.workload.config.known import model

KDA = [i for i in range(1, 28) if i not in (4, 8, 12, 16, 20, 24, 27)]

NO_ATTENTION = ((5.25, 1), (3.28125, 1), (2.625, 5), (1.3125, 10), (1.0, 8), (0.5, 6))
"""Widths of the blocks of Llama-3.3-Nemotron-Super-49B that do not attend, and how many."""


def block(group: int | None, width: float) -> dict[str, Any]:
    """An entry of `block_configs`: query heads to a key's head, and a network's width."""
    attention = {"n_heads_in_group": group, "no_op": group is None, "replace_with_linear": False}
    return {"attention": attention, "ffn": {"ffn_mult": width, "no_op": False}}


# fmt: off
PUBLISHED_MODELS = (
    model(
        "internlm2-7b", 7_737_708_544, 65_536, 32,
        model_type="internlm2", hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8, vocab_size=92544, bias=False,
    ),
    model(
        "internlm-7b", 7_321_948_160, 262_144, 32,
        model_type="internlm", hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
        num_attention_heads=32, vocab_size=103168, bias=True,
    ),
    model(
        "chatglm3-6b", 6_243_584_000, 14_336, 28,
        model_type="chatglm", architectures=["ChatGLMModel"], hidden_size=4096,
        ffn_hidden_size=13696, num_layers=28, num_attention_heads=32, kv_channels=128,
        multi_query_attention=True, multi_query_group_num=2, padded_vocab_size=65024,
        add_qkv_bias=True, add_bias_linear=False, seq_length=8192,
    ),
    model(
        "baichuan2-7b", 7_505_973_248, 262_144, 32,
        model_type="baichuan", architectures=["BaichuanForCausalLM"], hidden_size=4096,
        intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, vocab_size=125696,
    ),
    model(
        "qwen-7b", 7_721_324_544, 262_144, 32,
        model_type="qwen", hidden_size=4096, intermediate_size=22016, num_hidden_layers=32,
        num_attention_heads=32, kv_channels=128, vocab_size=151936, no_bias=True,
    ),
    model(
        "minicpm-2b", 2_724_880_896, 184_320, 40,
        model_type="minicpm", hidden_size=2304, intermediate_size=5760, num_hidden_layers=40,
        num_attention_heads=36, num_key_value_heads=36, vocab_size=122753,
    ),
    model(
        "deepseek-moe-16b", 16_375_728_128, 114_688, 28,
        model_type="deepseek", hidden_size=2048, intermediate_size=10944,
        moe_intermediate_size=1408, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=16, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
        first_k_dense_replace=1, moe_layer_freq=1, vocab_size=102400,
    ),
    model(
        "kimi-linear-48b", 49_122_681_728, 4_032, 7,
        model_type="kimi_linear", hidden_size=2304, intermediate_size=9216,
        moe_intermediate_size=1024, num_hidden_layers=27, num_attention_heads=32,
        num_key_value_heads=32, num_experts=256, num_experts_per_token=8, num_shared_experts=1,
        first_k_dense_replace=1, moe_layer_freq=1, kv_lora_rank=512, q_lora_rank=None,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, vocab_size=163840,
        linear_attn_config={
            "kda_layers": KDA, "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
        },
    ),
    model(
        "rwkv7-0.1b", 191_034_624, 0, 0,
        model_type="rwkv7", hidden_size=768, head_dim=64, num_hidden_layers=12,
        intermediate_size=3072, decay_low_rank_dim=64, a_low_rank_dim=64, gate_low_rank_dim=128,
        v_low_rank_dim=32, vocab_size=65536, norm_first=True, norm_bias=True,
        tie_word_embeddings=False,
    ),
    model(
        "openelm-270m", 271_527_168, 8_064, 16,
        model_type="openelm", model_dim=1280, num_transformer_layers=16, head_dim=64,
        ffn_dim_divisor=256, vocab_size=32000, normalize_qk_projections=True,
        share_input_output_layers=True, max_context_length=2048,
        ffn_multipliers=[
            0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13, 2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77,
            4.0,
        ],
        num_kv_heads=[3] * 5 + [4] * 7 + [5] * 4, num_query_heads=[12] * 5 + [16] * 7 + [20] * 4,
    ),
    model(
        "mamba-2.8b", 2_768_345_600, 0, 0,
        d_model=2560, n_layer=64, vocab_size=50277, ssm_cfg={}, rms_norm=True,
        pad_vocab_size_multiple=8,
    ),
    model(
        "ling-lite", 16_801_974_272, 28_672, 28,
        model_type="bailing_moe", hidden_size=2048, intermediate_size=5632,
        moe_intermediate_size=1408, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=4, num_experts=64, num_experts_per_tok=6, num_shared_experts=2,
        first_k_dense_replace=0, vocab_size=126464, use_bias=False, use_qkv_bias=False,
        head_dim=128,
    ),
    model(
        "ling-mini-2.0", 16_255_643_392, 20_480, 20,
        model_type="bailing_moe", architectures=["BailingMoeV2ForCausalLM"], hidden_size=2048,
        intermediate_size=5120, moe_intermediate_size=512, num_hidden_layers=20,
        num_attention_heads=16, num_key_value_heads=4, num_experts=256, num_experts_per_tok=8,
        num_shared_experts=1, first_k_dense_replace=1, vocab_size=157184, use_bias=False,
        use_qkv_bias=False, head_dim=128, use_qk_norm=True, moe_router_enable_expert_bias=True,
    ),
    model(
        "hunyuan-large", 388_698_128_640, 40_960, 32,
        model_type="hunyuan", architectures=["HunYuanForCausalLM"], hidden_size=6400,
        intermediate_size=18304, num_hidden_layers=64, num_attention_heads=80,
        num_key_value_heads=8, attention_head_dim=80, num_experts=16, moe_topk=1,
        num_shared_expert=1, use_mixed_mlp_moe=True, use_cla=True, cla_share_factor=2,
        use_qk_norm=True, vocab_size=128512, tie_word_embeddings=True,
    ),
    model(
        "minicpm-moe-8x2b", 13_873_291_776, 184_320, 40,
        model_type="minicpm", hidden_size=2304, intermediate_size=5760, num_hidden_layers=40,
        num_attention_heads=36, num_key_value_heads=36, num_experts=8, num_experts_per_tok=2,
        vocab_size=122753,
    ),
    model(
        "llama-3.3-nemotron-super-49b", 49_867_145_216, 100_352, 49,
        model_type="nemotron-nas", architectures=["DeciLMForCausalLM"], hidden_size=8192,
        intermediate_size=None, num_hidden_layers=80, num_attention_heads=64,
        num_key_value_heads=None, vocab_size=128256, tie_word_embeddings=False,
        block_configs=[
            *(block(8, 5.25) for _ in range(48)), block(8, 2.625),
            *(block(None, width) for width, count in NO_ATTENTION for _ in range(count)),
        ],
    ),
    model(
        "kimi-k3", 2_779_484_478_208, 13_824, 24,
        model_type="kimi_linear", hidden_size=7168, intermediate_size=33792,
        moe_intermediate_size=3072, routed_expert_hidden_size=3584, latent_moe_use_norm=True,
        num_hidden_layers=93, num_attention_heads=96, num_key_value_heads=96, num_experts=896,
        num_experts_per_token=16, num_shared_experts=2, first_k_dense_replace=1, moe_layer_freq=1,
        kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64,
        v_head_dim=128, mla_use_output_gate=True, attn_res_block_size=12, vocab_size=163840,
        linear_attn_config={
            "kda_layers": [i for i in range(1, 93) if i % 4], "head_dim": 128, "num_heads": 96,
            "short_conv_kernel_size": 4, "use_full_rank_gate": True,
        },
    ),
)
# fmt: on
