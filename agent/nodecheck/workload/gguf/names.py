"""What the names in a GGUF file mean: tensors and architectures. Pure."""

from __future__ import annotations

import re

from nodecheck.serving import Kind

_BLOCK = re.compile(r"blk\.([0-9]+)\.(.+)")
_EXPERTS = re.compile(r"ffn_(gate|up|down|gate_up)_(exps|chexps)\.|ffn_(gate|up|down)\.[0-9]+\.")
_MIXERS = ("attn_", "indexer", "ssm_", "time_mix_", "shortconv.", "hc_attn", "rope_f")

_EMBEDDINGS = {"token_embd", "per_layer_token_embd", "position_embd", "token_types"}
"""Tables of which a token reads a row."""

_TOWERS = ("v.", "a.", "mm.", "vis_", "cls", "dense_2", "dense_3")
"""Images, sound, classification: not read for a token of text."""


def place(name: str) -> tuple[int | None, str]:
    """The number of the block that a tensor belongs to, and its name there."""
    if (match := _BLOCK.fullmatch(name)) is None:
        return None, name
    return int(match[1]), match[2]


def kind_outside(name: str) -> Kind:
    """What a tensor of no block does."""
    stem = name.split(".", maxsplit=1)[0]
    if stem in _EMBEDDINGS:
        return Kind.EMBEDDING
    if stem == "output":
        return Kind.OUTPUT
    if stem == "nextn":
        return Kind.MTP
    if name.startswith(_TOWERS):
        return Kind.OTHER
    if "norm" in stem:
        return Kind.NORM
    return Kind.ATTENTION if stem.startswith("rope_") else Kind.FFN


def kind_inside(name: str) -> Kind:
    """What a tensor of a block does. Mixers are all ATTENTION here."""
    if name.startswith("nextn."):
        return Kind.MTP
    if name.startswith("vis_"):
        return Kind.OTHER
    if _EXPERTS.match(name):
        return Kind.EXPERTS
    if "norm" in name or name.startswith("time_mix_ln"):
        return Kind.NORM
    return Kind.ATTENTION if name.startswith(_MIXERS) else Kind.FFN


def is_recurrent(name: str) -> bool:
    """Whether a tensor belongs to a mixer with a state, whatever else its block holds."""
    return name.startswith(("ssm_", "time_mix_", "shortconv."))


_EMBEDDERS = (
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2",
    "jina-bert-v3", "eurobert", "gemma-embedding", "llama-embed",
)  # fmt: skip
_IMAGES = (
    "flux", "sd1", "sd2", "sd3", "sdxl", "aura", "hidream", "cosmos", "hyvid", "wan", "ltxv",
    "lumina2", "qwen_image", "chroma", "pixart", "pig", "z_image",
)  # fmt: skip

NO_DECODERS = {
    "clip": "a vision or audio projector (mmproj), to be loaded beside a model",
    "controlvector": "a control vector, to be loaded beside a model",
    "imatrix": "an importance matrix, which is for quantising",
    "eagle3": "a draft head, to be loaded beside a model",
    "dflash": "a draft head, to be loaded beside a model",
    "gemma4-assistant": "a draft model that uses another one's cache",
    "wavtokenizer-dec": "a sound decoder",
    "qwen3tts": "a speech model",
    "pockettts": "a speech model",
    "t5": "an encoder-decoder model",
    "t5encoder": "an encoder, which generates no tokens",
    **dict.fromkeys(_EMBEDDERS, "an embedding model, which generates no tokens"),
    **dict.fromkeys(
        ("dream", "llada", "llada-moe", "rnd1", "diffusion-gemma"),
        "a diffusion language model, which does not generate token by token",
    ),
    **dict.fromkeys(_IMAGES, "a diffusion model for images or video"),
    "graniteswitch": "a model that switches adapters, whose reads are not known",
    "hrm_text": "a model that runs its layers several times, whose reads are not known",
}
"""Architectures that hold no model to generate text with, token by token, and what they are."""

OTHER_TYPES = {
    "adapter": "an adapter (LoRA), to be loaded beside a model",
    "mmproj": "a vision or audio projector (mmproj), to be loaded beside a model",
    "imatrix": "an importance matrix, which is for quantising",
    "vocab": "a vocabulary without a model",
    "controlvector": "a control vector, to be loaded beside a model",
}
"""Values of general.type beside "model"."""

CACHE_UNKNOWN = {"deepseek4", "dots3note", "glm5-next", "qwen4exp", "minimax-m3", "hy_v4"}
"""Known to keep more than keys and values, in ways that are not worked out here."""

# fmt: off
KNOWN = {
    "afmoe", "apertus", "arcee", "arctic", "arwkv7", "baichuan", "bailingmoe", "bailingmoe2",
    "bailingmoe3", "bitnet", "bloom", "chameleon", "chatglm", "codeshell", "cogvlm", "cohere2",
    "cohere2moe", "command-r", "dbrx", "deci", "deepseek", "deepseek2", "deepseek2-ocr",
    "deepseek32", "dots1", "ernie4_5", "ernie4_5-moe", "exaone", "exaone-moe", "exaone4", "falcon",
    "falcon-h1", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "glm-dsa", "glm4", "glm4moe",
    "gpt-oss", "gpt2", "gptj", "gptneox", "granite", "granite_swa", "granitehybrid", "granitemoe",
    "grok", "grovemoe", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais",
    "jais2", "jamba", "kimi-k3", "kimi-linear", "laguna", "lfm2", "lfm2moe", "llama", "llama4",
    "maincoder", "mamba", "mamba2", "maple", "mellum", "mimo2", "minicpm", "minicpm3", "minimax-01",
    "minimax-m2", "mistral3", "mistral4", "mpt", "muse-glimmer", "nanbeige", "nemotron",
    "nemotron_h", "nemotron_h_moe", "olmo", "olmo2", "olmoe", "openelm", "orion", "paddleocr",
    "pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "plamo2", "plamo3", "plm", "qwen", "qwen2",
    "qwen2moe", "qwen2vl", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen3vl",
    "qwen3vlmoe", "refact", "rwkv6", "rwkv6qwen2", "rwkv7", "seed_oss", "smallthinker", "smollm3",
    "spark2_5", "stablelm", "starcoder", "starcoder2", "step35", "talkie", "xverse",
}
# fmt: on
"""Architectures whose cache follows from their keys. Source: llama.cpp, src/llama-arch.cpp."""
