"""Dense models that stray further from Llama: configurations, and what their module trees hold."""

from __future__ import annotations

from tests.workload.config.known import model

# fmt: off
DENSE_OTHER_MODELS = (
    model(
        "hyperclovax-seed-think-32b-text", 32_598_348_800, 147_456, 72,
        model_type="hyperclovax", hidden_size=5120, intermediate_size=24192, num_hidden_layers=72,
        num_attention_heads=40, num_key_value_heads=8, head_dim=128, vocab_size=128256,
        use_post_norm=False,
    ),
    model(
        "glm-ocr-text", 673_285_632, 32_768, 16,
        model_type="glm_ocr_text", hidden_size=1536, intermediate_size=4608, num_hidden_layers=16,
        num_attention_heads=16, num_key_value_heads=8, head_dim=128, attention_bias=False,
        vocab_size=59392, tie_word_embeddings=False,
    ),
    model(
        "diffllama-1b", 1_392_580_608, 16_384, 16,
        model_type="diffllama", hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
        num_attention_heads=32, num_key_value_heads=8, head_dim=64, attention_bias=False,
        vocab_size=102400, tie_word_embeddings=False,
    ),
    model(
        "nanochat", 256_573_440, 18_432, 12,
        model_type="nanochat", hidden_size=768, intermediate_size=8192, num_hidden_layers=12,
        num_attention_heads=6, num_key_value_heads=6, vocab_size=50304, tie_word_embeddings=False,
    ),
    model(
        "phi-4-multimodal-text", 3_836_021_760, 65_536, 32,
        model_type="phi4mm", architectures=["Phi4MMForCausalLM"], hidden_size=3072,
        intermediate_size=8192, num_hidden_layers=32, num_attention_heads=24,
        num_key_value_heads=8, vocab_size=200064, tie_word_embeddings=True, sliding_window=None,
    ),
)
# fmt: on
