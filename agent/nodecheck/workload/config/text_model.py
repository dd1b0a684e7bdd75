"""Where a configuration of several towers holds that of its text model. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodecheck.model import Struct
from nodecheck.workload.config.dialects import rewritten
from nodecheck.workload.errors import WorkloadError, shown

INNER = ("text_config", "language_config", "llm_config", "thinker_config")
"""Keys under which the text model's configuration may lie, one in the other."""

TOWERS = (
    "vision_config", "audio_config", "visual", "vision_tower_config", "speech_config",
    "img_processor",
)  # fmt: skip
"""Keys that announce another tower."""

ROOTS = {
    "language_model.model": (
        "Gemma3ForConditionalGeneration", "Mistral3ForConditionalGeneration",
        "Llama4ForConditionalGeneration", "LlavaForConditionalGeneration",
        "LlavaNextForConditionalGeneration", "KimiVLForConditionalGeneration",
        "KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration", "InternVLChatModel",
        "MllamaForConditionalGeneration", "PaliGemmaForConditionalGeneration",
    ),
    "model.language_model": (
        "Gemma3nForConditionalGeneration", "Gemma4ForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
        "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
        "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration",
        "Exaone4_5_ForConditionalGeneration",
    ),
    "thinker.model": (
        "Qwen2_5OmniForConditionalGeneration", "Qwen2_5OmniModel",
        "Qwen3OmniMoeForConditionalGeneration",
    ),
    "language.model": ("DeepseekVLV2ForCausalLM",),
}  # fmt: skip
"""How a class that wraps a text model names it in checkpoints: lists of modules that a
quantisation leaves out use these names. Source: the classes' checkpoints and SGLang's loaders."""


class TextModel(Struct, frozen=True, kw_only=True):
    """The configuration of the text model, the path to it, and what wraps it."""

    config: Mapping[str, Any]
    path: str
    architectures: tuple[str, ...]
    model_types: tuple[str, ...]
    root: str | None
    towers: tuple[str, ...]


def text_model(config: Mapping[str, Any], notes: list[str]) -> TextModel:
    """Look for the innermost configuration of text, in the usual keys; its names come first.

    `notes` gather what was assumed.
    """
    inner, path = config, ""
    levels = [config]
    while found := next((k for k in INNER if isinstance(inner.get(k), dict)), None):
        inner = inner[found]
        path = f"{path}.{found}" if path else found
        levels.append(inner)
    inner = levels[-1] = rewritten(inner, notes)
    named = [_architecture(level) for level in levels]
    types = [_model_type(level) for level in levels]
    outer = named[0]
    wraps = len(levels) > 1
    return TextModel(
        config=inner,
        path=path,
        architectures=tuple(n for n in reversed(named) if n),
        model_types=tuple(t for t in reversed(types) if t),
        root=next((r for r, classes in ROOTS.items() if wraps and outer in classes), None),
        towers=tuple(k for k in TOWERS if any(isinstance(lv.get(k), dict) for lv in levels)),
    )


def _architecture(config: Mapping[str, Any]) -> str | None:
    """The first class that a configuration names."""
    names = config.get("architectures")
    if names is None or names == []:
        return None
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise WorkloadError(f"architectures is {shown(names)}, not a list of names")
    return names[0]


def _model_type(config: Mapping[str, Any]) -> str | None:
    name = config.get("model_type")
    if name is not None and not isinstance(name, str):
        raise WorkloadError(f"model_type is {shown(name)}, not a name")
    return name
