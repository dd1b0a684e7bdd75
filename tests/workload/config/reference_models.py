"""Models whose sizes were derived twice: by formula, and from a module tree or an engine."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.workload.config.known import every, placed


class Reference(NamedTuple):
    """Sizes of a model: bf16 bytes with modules that guess ahead, the rest without.

    `window_only` and `pool` are bytes of a bf16 cache of 131,072 tokens, None without a window.
    """

    name: str
    parameters: int
    bf16_bytes: int
    read_parameters: int
    kv_bytes: int
    kv_layers: int
    state_sglang: int | None
    state_llama_cpp: int | None
    window_only: int | None
    pool: int | None
    config: dict[str, Any]


def reference(*figures: Any, **config: Any) -> Reference:
    return Reference._make((*figures, config))


# fmt: off
REFERENCE_MODELS = (
    reference(
        "command-r-v01", 34_980_831_232, 69_961_662_464, 34_980_839_424, 1_310_720, 40, None,
        None, None, None,
        architectures=["CohereForCausalLM"], model_type="cohere", hidden_size=8192,
        intermediate_size=22528, num_hidden_layers=40, num_attention_heads=64,
        num_key_value_heads=64, attention_bias=False, vocab_size=256000,
        max_position_embeddings=8192, model_max_length=131072, tie_word_embeddings=True,
    ),
    reference(
        "deepseek-v2-lite", 15_706_484_224, 31_412_968_448, 2_451_437_056, 31_104, 27, None, None,
        None, None,
        architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", hidden_size=2048,
        intermediate_size=10944, num_hidden_layers=27, num_attention_heads=16,
        num_key_value_heads=16, first_k_dense_replace=1, moe_layer_freq=1, n_routed_experts=64,
        n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408, kv_lora_rank=512,
        q_lora_rank=None, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
        attention_bias=False, vocab_size=102400, max_position_embeddings=163840,
        tie_word_embeddings=False,
    ),
    reference(
        "deepseek-v3", 671_026_419_200, 1_368_979_691_008, 36_625_625_600, 70_272, 61, None, None,
        None, None,
        architectures=["DeepseekV3ForCausalLM"], attention_bias=False, first_k_dense_replace=3,
        hidden_size=7168, intermediate_size=18432, kv_lora_rank=512,
        max_position_embeddings=163840, model_type="deepseek_v3", moe_intermediate_size=2048,
        moe_layer_freq=1, n_routed_experts=256, n_shared_experts=1, num_attention_heads=128,
        num_experts_per_tok=8, num_hidden_layers=61, num_key_value_heads=128,
        num_nextn_predict_layers=1, q_lora_rank=1536, qk_nope_head_dim=128, qk_rope_head_dim=64,
        tie_word_embeddings=False, v_head_dim=128, vocab_size=129280,
    ),
    reference(
        "falcon-h1-7b", 7_585_648_736, 15_171_297_472, 7_186_144_352, 45_056, 44, 139_358_208,
        140_304_384, None, None,
        architectures=["FalconH1ForCausalLM"], model_type="falcon_h1", hidden_size=3072,
        head_dim=128, intermediate_size=12288, num_hidden_layers=44, num_attention_heads=12,
        num_key_value_heads=2, mamba_d_ssm=3072, mamba_n_heads=24, mamba_d_head=128,
        mamba_d_state=256, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_conv_bias=True,
        mamba_proj_bias=False, mamba_rms_norm=True, attention_bias=False, mlp_bias=False,
        projectors_bias=False, vocab_size=130048, max_position_embeddings=262144,
        tie_word_embeddings=False,
    ),
    reference(
        "falcon-mamba-7b-bnb4", 7_272_665_088, 14_545_330_176, 7_006_330_880, 0, 0, 36_700_160,
        39_845_888, None, None,
        architectures=["FalconMambaForCausalLM"], model_type="falcon_mamba", hidden_size=4096,
        intermediate_size=8192, expand=16, state_size=16, conv_kernel=4, time_step_rank=256,
        num_hidden_layers=64, use_bias=False, use_conv_bias=True, vocab_size=65024,
        tie_word_embeddings=False,
    ),
    reference(
        "gemma-2-9b", 9_241_705_984, 18_483_411_968, 9_241_709_568, 344_064, 42, None, None,
        23_253_221_376, 23_341_301_760,
        architectures=["Gemma2ForCausalLM"], model_type="gemma2", hidden_size=3584, head_dim=256,
        intermediate_size=14336, num_hidden_layers=42, num_attention_heads=16,
        num_key_value_heads=8, vocab_size=256000, sliding_window=4096, attention_bias=False,
        max_position_embeddings=8192,
    ),
    reference(
        "gemma-3n-e4b", 6_866_696_688, 13_733_393_376, 4_517_897_456, 40_960, 20, None, None,
        1_090_519_040, 1_107_296_256,
        architectures=["Gemma3nForConditionalGeneration"], model_type="gemma3n",
        text_config={
            "model_type": "gemma3n_text", "hidden_size": 2048, "head_dim": 256,
            "intermediate_size": [16384] * 35, "num_hidden_layers": 35, "num_attention_heads": 8,
            "num_key_value_heads": 2, "num_kv_shared_layers": 15, "sliding_window": 512,
            "layer_types": every(35, 5), "vocab_size": 262400,
            "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256,
            "altup_num_inputs": 4, "laurel_rank": 64, "max_position_embeddings": 32768,
        },
    ),
    reference(
        "glm-4.5-air-fp8", 106_852_251_264, 220_937_649_664, 12_803_376_768, 188_416, 46, None,
        None, None, None,
        architectures=["Glm4MoeForCausalLM"], model_type="glm4_moe", hidden_size=4096,
        head_dim=128, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=46,
        num_attention_heads=96, num_key_value_heads=8, n_routed_experts=128, n_shared_experts=1,
        num_experts_per_tok=8, first_k_dense_replace=1, num_nextn_predict_layers=1,
        attention_bias=True, use_qk_norm=False, vocab_size=151552, max_position_embeddings=131072,
        tie_word_embeddings=False,
    ),
    reference(
        "gpt-oss-20b", 20_914_757_184, 41_829_514_368, 3_608_310_144, 49_152, 24, None, None,
        3_224_371_200, 3_240_099_840,
        architectures=["GptOssForCausalLM"], attention_bias=True, head_dim=64, hidden_size=2880,
        intermediate_size=2880, layer_types=every(24, 2),
        max_position_embeddings=131072, model_type="gpt_oss", num_attention_heads=64,
        num_experts_per_tok=4, num_hidden_layers=24, num_key_value_heads=8, num_local_experts=32,
        sliding_window=128, tie_word_embeddings=False, vocab_size=201088,
    ),
    reference(
        "granite-4.0-h-small", 32_207_337_984, 64_414_675_968, 8_803_125_760, 16_384, 4,
        152_819_712, 154_644_480, None, None,
        architectures=["GraniteMoeHybridForCausalLM"], model_type="granitemoehybrid",
        layer_types=placed(40, (5, 15, 25, 35), "attention", "mamba"), hidden_size=4096,
        intermediate_size=768, shared_intermediate_size=1536, num_hidden_layers=40,
        num_attention_heads=32, num_key_value_heads=8, num_local_experts=72,
        num_experts_per_tok=10, mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128,
        mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_conv_bias=True,
        mamba_proj_bias=False, attention_bias=False, position_embedding_type="nope",
        vocab_size=100352, max_position_embeddings=131072, tie_word_embeddings=True,
    ),
    reference(
        "hunyuan-7b-fp8", 7_504_568_320, 15_009_136_640, 7_504_572_416, 131_072, 32, None, None,
        None, None,
        architectures=["HunYuanDenseV1ForCausalLM"], model_type="hunyuan_v1_dense",
        hidden_size=4096, head_dim=128, attention_head_dim=128, intermediate_size=14336,
        num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, use_qk_norm=True,
        attention_bias=False, mlp_bias=False, vocab_size=128167, org_vocab_size=128167,
        use_cla=False, cla_share_factor=2, max_position_embeddings=32768,
        tie_word_embeddings=True,
    ),
    reference(
        "lfm2-1.2b", 1_170_340_608, 2_340_681_216, 1_170_342_656, 12_288, 6, 81_920, 163_840,
        None, None,
        architectures=["Lfm2ForCausalLM"], model_type="lfm2", hidden_size=2048,
        intermediate_size=12288, block_ff_dim=12288, block_auto_adjust_ff_dim=True,
        block_ffn_dim_multiplier=1.0, block_multiple_of=256, num_hidden_layers=16,
        num_attention_heads=32, num_key_value_heads=8, full_attn_idxs=[2, 5, 8, 10, 12, 14],
        conv_L_cache=3, conv_bias=False, conv_dim=2048, vocab_size=65536,
        max_position_embeddings=128000,
    ),
    reference(
        "llama-3.1-8b", 8_030_261_248, 16_060_522_496, 7_504_928_768, 131_072, 32, None, None,
        None, None,
        architectures=["LlamaForCausalLM"], attention_bias=False, hidden_size=4096,
        intermediate_size=14336, max_position_embeddings=131072, mlp_bias=False,
        model_type="llama", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8,
        tie_word_embeddings=False, vocab_size=128256,
    ),
    reference(
        "llama-3.2-1b", 1_235_814_400, 2_471_628_800, 1_235_816_448, 32_768, 16, None, None, None,
        None,
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=2048, head_dim=64,
        intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, attention_bias=False, mlp_bias=False,
        max_position_embeddings=131072, tie_word_embeddings=True,
    ),
    reference(
        "mamba2-2.7b", 2_702_599_680, 5_405_199_360, 2_702_602_240, 0, 0, 169_836_544,
        171_900_928, None, None,
        d_model=2560, d_intermediate=0, n_layer=64, vocab_size=50277, ssm_cfg={"layer": "Mamba2"},
        attn_layer_idx=[], rms_norm=True, pad_vocab_size_multiple=16, tie_embeddings=True,
    ),
    reference(
        "minimax-text-01", 456_089_655_296, 912_179_310_592, 47_174_119_424, 40_960, 10, None,
        293_601_280, None, None,
        architectures=["MiniMaxText01ForCausalLM"], model_type="minimax_text_01",
        attn_type_list=[0, 0, 0, 0, 0, 0, 0, 1] * 10, hidden_size=6144, head_dim=128,
        intermediate_size=9216,
        num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8, num_local_experts=32,
        num_experts_per_tok=2, shared_intermediate_size=0, sliding_window=None, vocab_size=200064,
        max_position_embeddings=10240000, tie_word_embeddings=False,
    ),
    reference(
        "mistral-7b-v0.1", 7_241_732_096, 14_483_464_192, 7_110_664_192, 131_072, 32, None, None,
        536_870_912, 603_979_776,
        architectures=["MistralForCausalLM"], model_type="mistral", hidden_size=4096,
        intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=32000, max_position_embeddings=32768,
        sliding_window=4096, tie_word_embeddings=False,
    ),
    reference(
        "mixtral-8x7b", 46_702_792_704, 93_405_585_408, 12_748_857_344, 131_072, 32, None, None,
        None, None,
        architectures=["MixtralForCausalLM"], hidden_size=4096, intermediate_size=14336,
        max_position_embeddings=32768, model_type="mixtral", num_attention_heads=32,
        num_experts_per_tok=2, num_hidden_layers=32, num_key_value_heads=8, num_local_experts=8,
        sliding_window=None, tie_word_embeddings=False, vocab_size=32000,
    ),
    reference(
        "nemotron-h-8b", 8_100_852_736, 16_201_705_472, 7_563_985_920, 16_384, 4, 102_137_856,
        103_612_416, None, None,
        architectures=["NemotronHForCausalLM"], model_type="nemotron_h",
        hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
        hidden_size=4096, intermediate_size=21504, num_hidden_layers=52, num_attention_heads=32,
        num_key_value_heads=8, attention_head_dim=128, mamba_num_heads=128, mamba_head_dim=64,
        ssm_state_size=128, n_groups=8, conv_kernel=4, expand=2, use_conv_bias=True,
        use_bias=False, mamba_proj_bias=False, mlp_bias=False, attention_bias=False,
        vocab_size=131072, max_position_embeddings=8192, tie_word_embeddings=False,
        time_step_limit=[0.0, float("inf")],
    ),
    reference(
        "phi-3-mini-4k", 3_821_079_552, 7_642_159_104, 3_722_582_016, 393_216, 32, None, None,
        804_913_152, 1_006_632_960,
        architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_size=3072,
        intermediate_size=8192, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=32, vocab_size=32064, sliding_window=2047, attention_bias=False,
        max_position_embeddings=4096, tie_word_embeddings=False,
    ),
    reference(
        "qwen2.5-7b-awq", 7_615_616_512, 15_231_233_024, 7_070_622_720, 57_344, 28, None, None,
        None, None,
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=3584,
        intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
        num_key_value_heads=4, vocab_size=152064, max_position_embeddings=131072,
        sliding_window=131072, use_sliding_window=False, tie_word_embeddings=False,
    ),
    reference(
        "qwen3-235b-a22b-nvfp4", 235_093_634_560, 470_187_269_120, 21_568_437_760, 192_512, 94,
        None, None, None, None,
        architectures=["Qwen3MoeForCausalLM"], attention_bias=False, decoder_sparse_step=1,
        head_dim=128, hidden_size=4096, intermediate_size=12288, max_position_embeddings=40960,
        mlp_only_layers=[], model_type="qwen3_moe", moe_intermediate_size=1536,
        num_attention_heads=64, num_experts=128, num_experts_per_tok=8, num_hidden_layers=94,
        num_key_value_heads=4, sliding_window=None, tie_word_embeddings=False,
        use_sliding_window=False, vocab_size=151936,
    ),
    reference(
        "qwen3-30b-a3b-fp8", 30_532_122_624, 61_064_245_248, 3_041_869_824, 98_304, 48, None,
        None, None, None,
        architectures=["Qwen3MoeForCausalLM"], attention_bias=False, decoder_sparse_step=1,
        head_dim=128, hidden_size=2048, intermediate_size=6144, max_position_embeddings=40960,
        mlp_only_layers=[], model_type="qwen3_moe", moe_intermediate_size=768,
        num_attention_heads=32, num_experts=128, num_experts_per_tok=8, num_hidden_layers=48,
        num_key_value_heads=4, sliding_window=None, tie_word_embeddings=False,
        use_sliding_window=False, vocab_size=151936,
    ),
    reference(
        "qwen3-8b", 8_190_735_360, 16_381_470_720, 7_568_409_600, 147_456, 36, None, None, None,
        None,
        architectures=["Qwen3ForCausalLM"], attention_bias=False, head_dim=128, hidden_size=4096,
        intermediate_size=12288, max_position_embeddings=40960, model_type="qwen3",
        num_attention_heads=32, num_hidden_layers=36, num_key_value_heads=8, sliding_window=None,
        tie_word_embeddings=False, use_sliding_window=False, vocab_size=151936,
    ),
    reference(
        "qwen3-next-80b-a3b", 79_674_391_296, 159_348_782_592, 3_563_766_528, 24_576, 12,
        77_266_944, 79_036_416, None, None,
        architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", hidden_size=2048,
        intermediate_size=5120, num_hidden_layers=48, full_attention_interval=4,
        num_attention_heads=16, num_key_value_heads=2, head_dim=256, linear_conv_kernel_dim=4,
        linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32,
        linear_value_head_dim=128, num_experts=512, num_experts_per_tok=10,
        moe_intermediate_size=512, shared_expert_intermediate_size=512, decoder_sparse_step=1,
        mlp_only_layers=[], use_sliding_window=False, vocab_size=151936,
        max_position_embeddings=262144, tie_word_embeddings=False,
    ),
    reference(
        "qwen3.5-27b", 26_895_998_464, 54_641_395_712, 25_624_605_184, 65_536, 16, 153_944_064,
        156_893_184, None, None,
        architectures=["Qwen3_5ForConditionalGeneration"], model_type="qwen3_5",
        text_config={
            "attention_bias": False, "attn_output_gate": True, "full_attention_interval": 4,
            "head_dim": 256, "hidden_size": 5120, "intermediate_size": 17408,
            "layer_types": every(64, 4, "linear_attention", "full_attention"),
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
            "linear_num_value_heads": 48, "linear_value_head_dim": 128,
            "max_position_embeddings": 262144, "mlp_only_layers": [], "model_type": "qwen3_5_text",
            "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
            "num_attention_heads": 24, "num_hidden_layers": 64, "num_key_value_heads": 4,
            "vocab_size": 248320, "mamba_ssm_dtype": "float32",
        },
        tie_word_embeddings=False,
    ),
    reference(
        "smollm3-3b", 3_075_098_624, 6_150_197_248, 3_075_100_672, 73_728, 36, None, None, None,
        None,
        architectures=["SmolLM3ForCausalLM"], model_type="smollm3", hidden_size=2048,
        intermediate_size=11008, num_hidden_layers=36, num_attention_heads=16,
        num_key_value_heads=4, attention_bias=False, mlp_bias=False, use_sliding_window=False,
        sliding_window=None, vocab_size=128256, max_position_embeddings=65536,
    ),
)
# fmt: on
