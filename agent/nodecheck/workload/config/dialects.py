"""Configurations in words of their own, put into the usual ones. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodecheck.workload.config.keys import Keys
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown

Config = Mapping[str, Any]


def rewritten(config: Config, notes: list[str]) -> Config:
    """A text model's configuration in the usual keys; `notes` gather what was assumed."""
    if "model_type" not in config and "ssm_cfg" in config:
        return _mamba_ssm(config, notes)
    rule = RULES.get(str(config.get("model_type")))
    return config if rule is None else rule(config)


def _mamba_ssm(config: Config, notes: list[str]) -> Config:
    """mamba_ssm's own files hold what differs from the library's defaults.

    Source: mamba_ssm, models/config_mamba.py, modules/mamba_simple.py, modules/mamba2.py.
    """
    keys = Keys(config, config)
    if keys.list_of("attn_layer_idx"):
        raise NotEnoughMetadata("attn_layer_idx names attention layers: give the weights")
    if keys.integer_or("d_intermediate", 0):
        raise NotEnoughMetadata("d_intermediate is not 0: give the weights")
    sizes, second = _mamba_sizes(keys, notes)
    hidden = keys.integer("d_model")
    inner = sizes.integer("expand") * hidden
    return {
        "model_type": "mamba2" if second else "mamba",
        "hidden_size": hidden,
        "num_hidden_layers": keys.integer("n_layer"),
        "vocab_size": keys.integer("vocab_size"),
        "pad_vocab_size_multiple": keys.integer_or("pad_vocab_size_multiple", 8, least=1),
        "tie_word_embeddings": keys.flag("tie_embeddings", absent=True),
        "norm_bias": not keys.flag("rms_norm", absent=True),
        "intermediate_size": inner,
        "expand": sizes.integer("expand"),
        "state_size": sizes.integer("d_state"),
        "conv_kernel": sizes.integer("d_conv"),
        "n_groups": sizes.integer_or("ngroups", 1, least=1),
        "num_heads": inner // sizes.integer("headdim") if second else 1,
        "head_dim": sizes.integer("headdim") if second else 1,
        "time_step_rank": sizes.value("dt_rank") or "auto",
    }


def _mamba_sizes(keys: Keys, notes: list[str]) -> tuple[Keys, bool]:
    """A layer's sizes, the library's where the file leaves them out, and whether it is Mamba 2."""
    ssm = keys.section("ssm_cfg").inner
    layer = ssm.get("layer", "Mamba1")
    if layer not in ("Mamba1", "Mamba2"):
        raise WorkloadError(f"ssm_cfg.layer is {shown(layer)!r}, not Mamba1 or Mamba2")
    own = MAMBA2_SIZES if layer == "Mamba2" else MAMBA1_SIZES
    if absent := sorted(set(own) - set(ssm)):
        notes.append(f"ssm_cfg: {', '.join(absent)} absent: mamba_ssm's own values")
    return Keys(keys.top, {**own, **ssm}, "ssm_cfg"), layer == "Mamba2"


MAMBA1_SIZES = {"d_state": 16, "d_conv": 4, "expand": 2}
"""mamba_ssm's defaults of a Mamba 1 layer."""

MAMBA2_SIZES = {"d_state": 128, "d_conv": 4, "expand": 2, "headdim": 64, "ngroups": 1}
"""mamba_ssm's defaults of a Mamba 2 layer."""


def _openelm(config: Config) -> Config:
    """The width of each layer is a factor of the model's, rounded. Source: apple, OpenELM."""
    keys = Keys(config, config)
    factors = keys.list_of("ffn_multipliers")
    if factors is None:
        raise NotEnoughMetadata("ffn_multipliers is missing")
    hidden, divisor = keys.integer("model_dim"), keys.integer("ffn_dim_divisor")
    single = Keys(config, {f"ffn_multipliers[{i}]": f for i, f in enumerate(factors)})
    wanted = [single.number(name, absent=0.0) * hidden for name in single.inner]
    widths = [_divisible(width, divisor) for width in wanted]
    tied = keys.flag("share_input_output_layers", absent=True)
    return {**config, "intermediate_size": widths, "tie_word_embeddings": tied}


def _divisible(value: float, divisor: int) -> int:
    """The nearest multiple that is no less than nine tenths. Source: apple, make_divisible."""
    near = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * value else near


def _dbrx(config: Config) -> Config:
    """Sizes of the experts are in a section."""
    inner = Keys(config, config).section("ffn_config").inner
    names = ("ffn_hidden_size", "moe_num_experts", "moe_top_k")
    return {**config, **{n: inner[n] for n in names if n in inner}}


def _mpt(config: Config) -> Config:
    """The width is a multiple of the model's."""
    keys = Keys(config, config)
    ratio = keys.integer_or("expansion_ratio", 4, least=1)
    return {**config, "intermediate_size": ratio * keys.integer("d_model")}


def _qwen(config: Config) -> Config:
    """Its width counts gate and up together. Source: SGLang, models/qwen.py."""
    width = Keys(config, config).integer("intermediate_size")
    return {**config, "intermediate_size": width // 2}


RULES: dict[str, Callable[[Config], Config]] = {
    "openelm": _openelm,
    "dbrx": _dbrx,
    "mpt": _mpt,
    "qwen": _qwen,
}
"""By model type."""
