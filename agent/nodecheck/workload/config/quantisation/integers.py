"""Integer quantisations: GPTQ, AWQ, AutoRound, MLX, bitsandbytes, EETQ, BitNet. Pure."""

from __future__ import annotations

from nodecheck.serving import Kind
from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.quantisation.module_names import Named
from nodecheck.workload.config.quantisation.narrow_floats import MICROSCALED, microscaled
from nodecheck.workload.config.quantisation.scheme import Coding, Scheme, integer_type
from nodecheck.workload.config.quantisation.shared_keys import (
    Checkpoint,
    bits,
    choice,
    entry,
    group_size,
    not_known,
    section_or_none,
    skipped,
)
from nodecheck.workload.errors import WorkloadError, shown

WORD_BITS = 32
"""GPTQ, AWQ and MLX pack numbers into int32."""

HALF_BYTES = 2
"""Their scales are f16 or bf16."""

FLOAT_BITS = 16
"""So many bits or more in an override say that a module is left in float."""


def gptq(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """GPTQ. Source: AutoGPTQ and GPTQModel, QuantLinear: qweight, qzeros, scales, g_idx."""
    choice(keys, "checkpoint_format", ("gptq", "gptq_v2"), "gptq")
    number, group = bits(keys, (2, 3, 4, 8)), group_size(keys, 128)
    skips = skipped(keys)
    named: Named[Coding] = Named()
    if (dynamic := section_or_none(keys, "dynamic")) is not None:
        _gptq_dynamic(dynamic, number, group, skips, named)
    inside = _gptq_modules(keys)
    coding = _gptq_coding(number, group)
    for module in inside:
        named.add(module, coding)
    return Scheme(
        method="gptq",
        default=None if inside else coding,
        skips=skips,
        named=named,
        takes=frozenset([Kind.OUTPUT]) if keys.flag("lm_head", absent=False) else frozenset(),
        layers_only=not keys.flag("lm_head", absent=False),
    )


def _gptq_coding(number: int, group: int | None) -> Coding:
    return Coding(
        type=integer_type(number, group),
        bits=number,
        word_bits=WORD_BITS,
        scale_rows=1,
        scale_columns=group,
        scale_bytes=HALF_BYTES,
        zero_bits=number,
        column_bytes=4,
    )


def _gptq_modules(keys: Keys) -> list[str]:
    """The only modules of a layer that are taken, where they are listed."""
    groups = keys.list_of("modules_in_block_to_quantize") or []
    listed = [group if isinstance(group, list) else [group] for group in groups]
    for name in (name for group in listed for name in group):
        if not isinstance(name, str):
            raise WorkloadError(
                f"{keys.named('modules_in_block_to_quantize')} holds {shown(name)}, not a string"
            )
    return [name for group in listed for name in group]


def _gptq_dynamic(
    keys: Keys, number: int, group: int | None, skips: Named[bool], named: Named[Coding]
) -> None:
    """GPTQModel's rules by regular expression: "-:" leaves in float, "+:" and none override."""
    for pattern in keys.inner:
        expression = f"re:{pattern[2:] if pattern[:2] in ('-:', '+:') else pattern}"
        if pattern.startswith("-:"):
            skips.add(expression, value=True)
            continue
        override = entry(keys, pattern)
        own_bits = bits(override, (2, 3, 4, 8)) if override.holds("bits") else number
        own_group = group_size(override, group) if override.holds("group_size") else group
        named.add(expression, _gptq_coding(own_bits, own_group))


def awq(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """AWQ. Source: AutoAWQ, awq/modules/linear: gemm packs zero points, gemv pads their width."""
    version = choice(
        keys, "version", ("gemm", "gemv", "gemv_fast", "exllama", "exllamav2", "ipex"), "gemm"
    )
    number = bits(keys, (4, 8), "bits", "w_bit")
    group = group_size(keys, 128, "group_size", "q_group_size")
    return Scheme(
        method="awq",
        default=_awq_coding(version, number, group),
        skips=skipped(keys, inside_words=True),
        layers_only=True,
    )


def _awq_coding(version: str, number: int, group: int | None) -> Coding:
    if not version.startswith("gemv"):
        return Coding(
            type=integer_type(number, group),
            bits=number,
            word_bits=WORD_BITS,
            scale_rows=1,
            scale_columns=group,
            scale_bytes=HALF_BYTES,
            zero_bits=number,
        )
    if group is None or group < 32 or number != 4:
        raise not_known(f"awq {version} of {number} bits in groups of {group or 'a row'}")
    packed = WORD_BITS // number
    words = 1 if group >= 128 else 2 if group >= 64 else 4
    zero_bytes = packed * HALF_BYTES if version == "gemv_fast" else WORD_BITS // 8
    return Coding(
        type=integer_type(number, group),
        bits=number,
        word_bits=WORD_BITS,
        scale_rows=1,
        scale_columns=group * packed * words,
        scale_bytes=words * (packed * HALF_BYTES + zero_bytes),
    )


def auto_round(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """AutoRound, which stores as GPTQ or AWQ does. Source: auto-round, export formats."""
    packing = choice(
        keys,
        "packing_format",
        ("auto_round:auto_gptq", "auto_round:gptq", "auto_round:auto_awq", "auto_round:awq"),
        "auto_round:auto_gptq",
    )
    choice(keys, "data_type", ("int",), "int")
    number, group = bits(keys, (2, 3, 4, 8)), group_size(keys, 128)
    skips = skipped(keys)
    named: Named[Coding] = Named()
    extra = section_or_none(keys, "extra_config") or Keys({}, {})
    for module in extra.inner:
        override = entry(extra, module)
        own_bits = override.integer_or("bits", number, least=1)
        if own_bits >= FLOAT_BITS:
            skips.add(module, value=True)
        else:
            own_bits = bits(override, (2, 3, 4, 8)) if override.holds("bits") else number
            named.add(module, _awq_coding("gemm", own_bits, group_size(override, group or -1)))
    return Scheme(
        method="auto-round",
        default=_awq_coding("gemm", number, group),
        skips=skips,
        named=named,
        layers_only=True,
        notes=(f"{packing}: no g_idx is counted, config.json does not say whether it is stored",),
    )


def mlx(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """MLX's own `quantization`. Source: mlx_lm, utils.quantize_model; mlx.core.quantize.

    It takes embedding, output and routers too, unless an entry by a module's name says otherwise.
    """
    skips = skipped(keys)
    named: Named[Coding] = Named()
    for module, value in keys.inner.items():
        if value is False:
            skips.add(module, value=True)
        elif isinstance(value, dict):
            named.add(module, _mlx_coding(entry(keys, module)))
    return Scheme(
        method="mlx",
        default=_mlx_coding(keys),
        skips=skips,
        named=named,
        takes=frozenset([Kind.EMBEDDING, Kind.OUTPUT]),
        routers=True,
        whole_groups=True,
    )


def _mlx_coding(keys: Keys) -> Coding:
    mode = choice(keys, "mode", ("affine", *MICROSCALED), "affine")
    if mode in MICROSCALED:
        return microscaled(mode, word_bits=WORD_BITS)
    number, group_or_row = bits(keys, (2, 3, 4, 5, 6, 8)), group_size(keys, 64)
    return Coding(
        type=integer_type(number, group_or_row),
        bits=number,
        word_bits=WORD_BITS,
        scale_rows=1,
        scale_columns=group_or_row,
        scale_bytes=2 * HALF_BYTES,
    )


def bitsandbytes(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """Quantised by bitsandbytes. Source: its functional.QuantState.as_dict and nn.Linear8bitLt.

    4 bit: an F32 absmax for 64 numbers, a map of 16 F32; where it is quantised again, absmax is a
    byte, 256 of them share an F32, and a map of 256 F32 is stored too.
    """
    four = keys.flag("load_in_4bit", absent=keys.flag("_load_in_4bit", absent=False))
    eight = keys.flag("load_in_8bit", absent=keys.flag("_load_in_8bit", absent=False))
    if four == eight:
        raise WorkloadError(f"{keys.path} wants load_in_4bit or load_in_8bit, and not both")
    kind = choice(keys, "bnb_4bit_quant_type", ("fp4", "nf4"), "fp4")
    twice = keys.flag("bnb_4bit_use_double_quant", absent=False)
    note = "bitsandbytes: the quant_state of a matrix, about 100 bytes, is not counted"
    return Scheme(
        method="bitsandbytes",
        default=_bnb_4bit(kind, twice=twice) if four else BNB_8BIT,
        skips=skipped(keys),
        notes=(note,) if four else (),
    )


BNB_8BIT = Coding(type="int8", bits=8, scale_rows=1, scale_bytes=4, matrix_bytes=1)


def _bnb_4bit(kind: str, *, twice: bool) -> Coding:
    return Coding(
        type=f"bnb_{kind}",
        bits=4,
        flat=True,
        scale_columns=64,
        scale_bytes=1 if twice else 4,
        nested_scales=256 if twice else 0,
        matrix_bytes=16 * 4 + (256 * 4 if twice else 0),
    )


def eetq(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """EETQ: int8 with an f16 scale a row. Source: transformers, integrations/eetq.py."""
    choice(keys, "weights", ("int8",), "int8")
    return Scheme(
        method="eetq",
        default=Coding(type="int8", bits=8, scale_rows=1, scale_bytes=HALF_BYTES),
        skips=skipped(keys),
    )


def bitnet(keys: Keys, checkpoint: Checkpoint) -> Scheme | None:
    """BitNet: four ternary numbers a byte. Source: transformers, integrations/bitnet.py.

    None where it quantises while loading: then the files hold floats.
    """
    if choice(keys, "quantization_mode", ("offline", "online"), "offline") == "online":
        return None
    return Scheme(
        method="bitnet",
        default=Coding(type="int2", bits=2, flat=True, matrix_bytes=checkpoint.float_bytes),
        skips=skipped(keys),
    )
