"""Which kind each layer is, and where configurations write it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.workload.assemble import MOST_LAYERS
from nodecheck.workload.config import keys as names
from nodecheck.workload.config.family import Family
from nodecheck.workload.config.keys import Keys, whole
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown

WORDS = {
    "full_attention": "full",
    "attention": "full",
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "minimax_m3_sparse": "indexed",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "conv": "recurrent",
    "hybrid": "hybrid",
    "mlp": "mlp",
    "moe": "moe",
}
"""The words of `layer_types` and `layers_block_type`, and the kind that each means."""

LETTERS = {"M": "recurrent", "*": "full", "-": "mlp", "E": "moe"}
"""The letters of `hybrid_override_pattern`. Source: NVIDIA's Nemotron-H configuration."""


def layer_count(keys: Keys) -> int:
    """Layers without those of MTP modules."""
    name, value = keys.find(names.LAYERS)
    if value is None:
        written = keys.list_of("layers_block_type") or keys.value("hybrid_override_pattern")
        if not isinstance(written, (list, str)):
            raise NotEnoughMetadata(f"{keys.named(name)} is missing")
        value = len(written)
    return whole(keys.named(name), value, 1, MOST_LAYERS)


def layer_kinds(family: Family, keys: Keys, layers: int) -> list[str]:
    """The kind of each layer: what a list of words says, else the family's rule."""
    for name in ("layer_types", "layers_block_type"):
        if (words := keys.list_of(name)) is not None:
            kinds = _of_words(keys, name, words, layers)
            break
    else:
        kinds = RULES[family.kinds](keys, layers)
    if not keys.flag("use_sliding_window", absent=True):
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    return _known(family, keys, kinds)


def _known(family: Family, keys: Keys, kinds: list[str]) -> list[str]:
    allowed = family.mixers or ("full", "sliding", "chunked")
    for number, kind in enumerate(kinds):
        if kind not in allowed:
            raise WorkloadError(
                f"{keys.named('layer_types')}[{number}] is a {kind} layer, which "
                f"{family.types[0]} models have not"
            )
    return kinds


def _of_words(keys: Keys, name: str, words: list[object], layers: int) -> list[str]:
    if len(words) not in (layers, layers + keys.integer_or(names.MODULES, 0)):
        raise WorkloadError(keys.wrong_length(name, len(words), layers))
    for number, word in enumerate(words):
        if not isinstance(word, str) or word not in WORDS:
            raise WorkloadError(
                f"{keys.named(name)}[{number}] is {shown(word)!r}, which is no known kind of layer"
            )
    return [WORDS[str(word)] for word in words[:layers]]


def _full(_keys: Keys, layers: int) -> list[str]:
    return ["full"] * layers


def _recurrent(_keys: Keys, layers: int) -> list[str]:
    return ["recurrent"] * layers


def _sliding(keys: Keys, layers: int) -> list[str]:
    """Every layer has a window where there is one."""
    if not keys.integer_or("sliding_window", 0):
        if not keys.holds("sliding_window"):
            keys.note(f"{keys.named('sliding_window')} is absent: no window")
        return ["full"] * layers
    return ["sliding"] * layers


def _upper_sliding(keys: Keys, layers: int) -> list[str]:
    """Layers from max_window_layers on, where `use_sliding_window` is true (Qwen2, Qwen3)."""
    if not keys.flag("use_sliding_window", absent=False):
        return ["full"] * layers
    if not keys.integer_or("sliding_window", 0):
        return ["full"] * layers
    first = keys.integer("max_window_layers", least=0)
    return ["full" if number < first else "sliding" for number in range(layers)]


def _every(number: int) -> Callable[[Keys, int], list[str]]:
    """Every so many layers one is full, the rest slide; `sliding_window_pattern` says how many."""

    def kinds(keys: Keys, layers: int) -> list[str]:
        name, said = keys.find(("sliding_window_pattern", "_sliding_window_pattern"))
        if isinstance(said, str):
            return _by_letters(keys, name, said, layers)
        pattern = number if said is None else whole(keys.named(name), said, 0)
        return [
            "full" if not pattern or (i + 1) % pattern == 0 else "sliding" for i in range(layers)
        ]

    return kinds


def _by_letters(keys: Keys, name: str, pattern: str, layers: int) -> list[str]:
    """A repeated pattern of L (local) and G (global), the last layer global (EXAONE)."""
    if not pattern or set(pattern) - {"L", "G"}:
        raise WorkloadError(f"{keys.named(name)} is {shown(pattern)!r}, not letters L and G")
    kinds = ["full" if pattern[i % len(pattern)] == "G" else "sliding" for i in range(layers)]
    return [*kinds[:-1], "full"]


def _chunked(keys: Keys, layers: int) -> list[str]:
    """Layers with rotary positions attend to chunks (Llama 4)."""
    chunk = keys.integer_or("attention_chunk_size", 0)
    return ["chunked" if uses and chunk else "full" for uses in _rotary(keys, layers)]


def _rotary(keys: Keys, layers: int) -> list[int]:
    """Which layers have rotary positions: a list says it, else all but every so many-th have."""
    if keys.value("no_rope_layers"):
        return keys.integers("no_rope_layers", layers) or []
    interval = keys.integer_or("no_rope_layer_interval", 4, least=1)
    return [int((i + 1) % interval != 0) for i in range(layers)]


def _no_rope_sliding(keys: Keys, layers: int) -> list[str]:
    """Layers without rotary positions slide, where a key asks for it (SmolLM3)."""
    if not keys.flag("use_sliding_window", absent=False):
        return ["full"] * layers
    return ["full" if uses else "sliding" for uses in _rotary(keys, layers)]


def _attn_type_list(keys: Keys, layers: int) -> list[str]:
    """1 is softmax attention, 0 linear (MiniMax)."""
    types = keys.integers("attn_type_list", layers)
    if types is None:
        raise NotEnoughMetadata(f"{keys.named('attn_type_list')} is missing")
    for number, kind in enumerate(types):
        if kind > 1:
            raise WorkloadError(f"{keys.named('attn_type_list')}[{number}] is {kind}, not 0 or 1")
    return ["full" if kind else "recurrent" for kind in types]


def _interval(keys: Keys, layers: int) -> list[str]:
    """Every so many layers one attends (Qwen3-Next)."""
    every = keys.integer("full_attention_interval")
    return ["recurrent" if (i + 1) % every else "full" for i in range(layers)]


def _pattern(keys: Keys, layers: int) -> list[str]:
    """A letter for each layer (Nemotron-H)."""
    name = "hybrid_override_pattern"
    if keys.value(name) is None:
        raise NotEnoughMetadata(f"{keys.named(name)} is missing")
    kinds = _of_letters(keys, name)
    if len(kinds) != layers:
        raise WorkloadError(keys.wrong_length(name, len(kinds), layers))
    return kinds


def _of_letters(keys: Keys, name: str) -> list[str]:
    pattern = keys.value(name)
    if not isinstance(pattern, str):
        raise WorkloadError(f"{keys.named(name)} is {shown(pattern)}, not a text")
    for number, letter in enumerate(pattern):
        if letter not in LETTERS:
            raise WorkloadError(
                f"{keys.named(name)}[{number}] is {shown(letter)!r}, none of {' '.join(LETTERS)}"
            )
    return [LETTERS[letter] for letter in pattern]


def module_kinds(keys: Keys) -> list[str]:
    """The blocks of a module that guesses a further token; none where no key says (Nemotron-H)."""
    words, letters = "mtp_layers_block_type", "mtp_hybrid_override_pattern"
    if (written := keys.list_of(words)) is not None:
        return _of_words(keys, words, written, len(written))
    return [] if keys.value(letters) is None else _of_letters(keys, letters)


def _period(keys: Keys, layers: int) -> list[str]:
    """Every so many layers one attends, from an offset on (Jamba)."""
    period = keys.integer("attn_layer_period")
    offset = keys.integer("attn_layer_offset", least=0)
    return ["full" if i % period == offset else "recurrent" for i in range(layers)]


def _numbers(keys: Keys, name: str, layers: int, first: int = 0) -> frozenset[int]:
    """The layers in a list, counted from `first`; none where it is null or absent."""
    numbers = frozenset(keys.integers(name) or ())
    if out := [n for n in numbers if not first <= n < layers + first]:
        raise WorkloadError(f"{keys.named(name)} names layer {max(out)} of {layers}")
    return numbers


def _listed(name: str) -> Callable[[Keys, int], list[str]]:
    """The layers that attend, by number, in a list under this key."""

    def kinds(keys: Keys, layers: int) -> list[str]:
        if not keys.holds(name):
            raise NotEnoughMetadata(f"{keys.named(name)} is missing")
        attending = _numbers(keys, name, layers)
        return ["full" if i in attending else "recurrent" for i in range(layers)]

    return kinds


def _kimi(keys: Keys, layers: int) -> list[str]:
    """`kda_layers` of `linear_attn_config` are counted from 1 (Kimi Linear)."""
    section = keys.section("linear_attn_config")
    if section.value("kda_layers") is None:
        raise NotEnoughMetadata(f"{section.named('kda_layers')} is missing")
    numbers = _numbers(section, "kda_layers", layers, first=1)
    return ["recurrent" if i + 1 in numbers else "full" for i in range(layers)]


def _sparse_frequency(keys: Keys, layers: int) -> list[str]:
    """1 attends to blocks that an indexer picks, 0 to all (MiniMax-M3)."""
    section = keys.section("sparse_attention_config")
    flags = section.integers("sparse_attention_freq", layers)
    if flags is None:
        raise NotEnoughMetadata(f"{section.named('sparse_attention_freq')} is missing")
    return ["indexed" if flag else "full" for flag in flags]


def _chosen(keys: Keys, layers: int) -> list[str]:
    """Each block attends, or holds a network alone (Nemotron NAS)."""
    blocks = [chosen_block(keys, layer, layers, "attention") for layer in range(layers)]
    skipped = [
        b.flag(word, absent=False) for b in blocks for word in ("no_op", "replace_with_linear")
    ]
    return ["mlp" if any(skipped[2 * i : 2 * i + 2]) else "full" for i in range(layers)]


def chosen_block(keys: Keys, layer: int, layers: int, part: str) -> Keys:
    """What was chosen for a layer's attention or network: a part of an entry of a list."""
    blocks = keys.list_of("block_configs")
    if blocks is None:
        raise NotEnoughMetadata(f"{keys.named('block_configs')} is missing")
    if len(blocks) != layers:
        raise WorkloadError(keys.wrong_length("block_configs", len(blocks), layers))
    name = f"{keys.named('block_configs')}[{layer}]"
    if not isinstance(blocks[layer], dict):
        raise WorkloadError(f"{name} is {shown(blocks[layer])}, not an object")
    return Keys(keys.top, blocks[layer], name).section(part)


def _hybrid_pattern(keys: Keys, layers: int) -> list[str]:
    """1 slides, 0 is full (MiMo-V2)."""
    pattern = keys.integers("hybrid_layer_pattern", layers)
    if pattern is None:
        raise NotEnoughMetadata(f"{keys.named('hybrid_layer_pattern')} is missing")
    return ["sliding" if slides else "full" for slides in pattern]


def _hybrid_ids(keys: Keys, layers: int) -> list[str]:
    """Where the shared transformer works before a mixer (Zamba2)."""
    if keys.value("hybrid_layer_ids") is None:
        raise NotEnoughMetadata(f"{keys.named('layers_block_type')} is missing")
    numbers = _numbers(keys, "hybrid_layer_ids", layers)
    return ["hybrid" if i in numbers else "recurrent" for i in range(layers)]


def _cross(keys: Keys, layers: int) -> list[str]:
    """The layers of `cross_attention_layers` look at images (Llama 3.2 Vision)."""
    numbers = _numbers(keys, "cross_attention_layers", layers)
    return ["cross" if i in numbers else "full" for i in range(layers)]


RULES: dict[str, Callable[[Keys, int], list[str]]] = {
    "full": _full,
    "recurrent": _recurrent,
    "sliding": _sliding,
    "upper_sliding": _upper_sliding,
    "every_2": _every(2),
    "every_4": _every(4),
    "every_5": _every(5),
    "every_6": _every(6),
    "chunked": _chunked,
    "no_rope_sliding": _no_rope_sliding,
    "attn_type_list": _attn_type_list,
    "interval": _interval,
    "pattern": _pattern,
    "period": _period,
    "full_attn_idxs": _listed("full_attn_idxs"),
    "attn_layer_indices": _listed("attn_layer_indices"),
    "kimi": _kimi,
    "hybrid_layer_pattern": _hybrid_pattern,
    "hybrid_layer_ids": _hybrid_ids,
    "sparse_attention_freq": _sparse_frequency,
    "block_configs": _chosen,
    "cross_attention_layers": _cross,
}
"""The rules that families name."""
