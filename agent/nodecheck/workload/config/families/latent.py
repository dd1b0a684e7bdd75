"""Decoders with multi-head latent attention. Data."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.workload.config.families.sparse import DEEPSEEK_SHARED, ROUTED, ROUTED_EXPERTS
from nodecheck.workload.config.family import Experts, Family, Mlp, Switch

MLA = {"full": ("latent",)}
DEEPSEEK_EXPERTS = replace(ROUTED_EXPERTS, optional=True)

LATENT = (
    Family(
        types=("deepseek_v2",),
        architectures=("DeepseekV2ForCausalLM",),
        source="transformers, modeling_deepseek_v2.py",
        mixers=MLA,
        experts=Experts(count=ROUTED, layers="after_dense", shared=DEEPSEEK_SHARED, optional=True),
    ),
    Family(
        types=("mistral4",),
        architectures=("Mistral4ForCausalLM",),
        source="transformers, modeling_mistral4.py",
        mixers=MLA,
        experts=Experts(count=ROUTED, layers="after_dense", shared=DEEPSEEK_SHARED, optional=True),
    ),
    Family(
        types=("deepseek_v3", "kimi_k2", "sarvam_mla"),
        architectures=("DeepseekV3ForCausalLM", "SarvamMLAForCausalLM"),
        source="transformers, modeling_deepseek_v3.py",
        mixers=MLA,
        experts=DEEPSEEK_EXPERTS,
        mtp="deepseek",
    ),
    Family(
        types=("axk1",),
        architectures=("AXK1ForCausalLM",),
        source="transformers, modeling_axk1.py: a norm after each network of experts",
        mixers=MLA,
        experts=DEEPSEEK_EXPERTS,
        beside=("norm_after_experts",),
    ),
    Family(
        types=("deepseek_v32",),
        architectures=("DeepseekV32ForCausalLM",),
        source="transformers, modeling_deepseek_v32.py",
        mixers={"full": ("indexed",)},
        experts=DEEPSEEK_EXPERTS,
        mtp="deepseek",
    ),
    Family(
        types=("glm_moe_dsa",),
        architectures=("GlmMoeDsaForCausalLM",),
        source="transformers, modeling_glm_moe_dsa.py",
        mixers={"full": ("indexed",)},
        experts=DEEPSEEK_EXPERTS,
        mtp="glm5",
    ),
    Family(
        types=("glm4_moe_lite",),
        architectures=("Glm4MoeLiteForCausalLM",),
        source="transformers, modeling_glm4_moe_lite.py",
        mixers=MLA,
        experts=DEEPSEEK_EXPERTS,
        mtp="deepseek",
    ),
    Family(
        types=("minicpm3",),
        architectures=("MiniCPM3ForCausalLM",),
        source="transformers, modeling_minicpm3.py",
        tied=True,
        mixers=MLA,
    ),
    Family(
        types=("youtu",),
        architectures=("YoutuForCausalLM",),
        source="transformers, modeling_youtu.py",
        tied=True,
        mixers=MLA,
        mlp=Mlp(bias=Switch("mlp_bias")),
    ),
    Family(
        types=("longcat_flash",),
        architectures=("LongcatFlashForCausalLM",),
        source="transformers, modeling_longcat_flash.py",
        layout="twofold",
        mixers=MLA,
        mlp=Mlp(width=("ffn_hidden_size",)),
        experts=Experts(
            count=("n_routed_experts",),
            used=("moe_topk", "num_experts_per_tok"),
            width=("expert_ffn_hidden_size",),
        ),
    ),
)
"""The families, each with where its layout was read."""
