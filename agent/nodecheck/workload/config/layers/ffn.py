"""Feed-forward networks: dense, of experts, of shared experts. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.serving import Kind
from nodecheck.workload.config import keys as names
from nodecheck.workload.config.family import Experts, Mlp, Shared
from nodecheck.workload.config.keys import Keys, whole
from nodecheck.workload.config.layers.model import Model
from nodecheck.workload.config.layers.tensors import Tensors
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown

F = Kind.FFN


def feed_forward(m: Model, t: Tensors, layer: int) -> None:
    """A layer's network: experts where the family's rule has them in this layer, else dense."""
    e = m.family.experts
    sparse = e is not None and m.keys.says(e.enabled) and has_experts(m, layer)
    if e is not None and sparse:
        sparse_network(m, t, layer, e)
    if not sparse or (e is not None and e.beside_mlp):
        dense(m, t, layer)


def dense(m: Model, t: Tensors, layer: int) -> None:
    """One network for every token."""
    network(m, t, m.family.mlp, m.family.mlp.module, dense_width(m, layer))


def dense_width(m: Model, layer: int) -> int:
    """The width of a layer's dense network."""
    mlp = m.family.mlp
    keys = mlp.width or names.WIDTH
    if mlp.hidden_multiple and m.keys.value(keys) is None:
        return mlp.hidden_multiple * m.hidden
    width = m.keys.integer_at(keys, layer, m.layers)
    if m.keys.flag("use_double_wide_mlp", absent=False):
        return width * (2 if layer >= m.layers - m.keys.integer("num_kv_shared_layers") else 1)
    return adjusted(m.keys, width)


def adjusted(keys: Keys, width: int) -> int:
    """The width as LFM2 rounds it: two thirds, by a factor, up to a multiple.

    Source: transformers, Lfm2MLP.
    """
    if not keys.flag("block_auto_adjust_ff_dim", absent=False):
        return width
    multiple = keys.integer("block_multiple_of")
    width = int(keys.number("block_ffn_dim_multiplier", absent=1.0) * int(2 * width / 3))
    return -(-width // multiple) * multiple


def network(m: Model, t: Tensors, mlp: Mlp, module: str, width: int) -> None:
    """Up, down, and a gate where the family has one."""
    prefix = f"{module}." if module else ""
    bias, gated = m.keys.says(mlp.bias), m.keys.says(mlp.gated)
    if mlp.fused:
        t.linear(prefix + mlp.fused, F, 2 * width, m.hidden, bias=bias)
    elif gated:
        t.linear(prefix + mlp.gate, F, width, m.hidden, bias=bias)
    if not mlp.fused:
        t.linear(prefix + mlp.up, F, width, m.hidden, bias=bias)
    if mlp.inner_norm:
        t.norm(prefix + mlp.inner_norm, width)
    t.linear(prefix + mlp.down, F, m.hidden, width, bias=bias)


def expert_counts(m: Model, layer: int = 0) -> tuple[int, int]:
    """Experts of a layer, and those that a token takes."""
    e = m.family.experts
    assert e is not None
    count = m.keys.integer_at(e.count, layer, m.layers, least=0)
    if not count:
        return 0, 0
    used = m.keys.integer_at(e.used, layer, m.layers)
    if used > count:
        raise WorkloadError(
            f"{m.keys.named(m.keys.find(e.used)[0])} is {used}, more than "
            f"{m.keys.named(m.keys.find(e.count)[0])}, {count}"
        )
    return count, used


def has_experts(m: Model, layer: int) -> bool:
    """Whether a layer of the family has experts, by its rule and a count above none."""
    e = m.family.experts
    if e is None or _largest_count(m.keys, e) < e.least:
        return False
    written = m.keys.list_of("mlp_layer_types")
    if written is None:
        return WHERE[e.layers](m.keys, layer, m.layers)
    if len(written) not in (m.layers, m.layers + m.keys.integer_or(names.MODULES, 0)):
        raise WorkloadError(m.keys.wrong_length("mlp_layer_types", len(written), m.layers))
    if written[layer] not in ("dense", "sparse"):
        name = f"{m.keys.named('mlp_layer_types')}[{layer}]"
        raise WorkloadError(f"{name} is {shown(written[layer])!r}, not dense or sparse")
    return bool(written[layer] == "sparse")


def _largest_count(keys: Keys, e: Experts) -> int:
    """Experts of the layer that has most; none where a key is null, or absent as it may be."""
    name, value = keys.find(e.count)
    if isinstance(value, list):
        each = [whole(f"{keys.named(name)}[{i}]", v, 0) for i, v in enumerate(value)]
        return max(each, default=0)
    if value is not None:
        _note_others(keys, e, name, value)
        return keys.integer(e.count, least=0)
    if e.optional or any(keys.holds(key) for key in e.count):
        return 0
    raise NotEnoughMetadata(f"{keys.named(name)} is missing")


def _note_others(keys: Keys, e: Experts, name: str, value: object) -> None:
    for other in e.count:
        if keys.value(other) not in (None, value):
            keys.note(f"{keys.named(name)} counts, not {keys.named(other)}")


def sparse_network(m: Model, t: Tensors, layer: int, e: Experts) -> None:
    """A router, experts, and shared experts."""
    k = m.keys
    count, used = expert_counts(m, layer)
    width = k.integer_at(e.width or names.WIDTH, layer, m.layers)
    prefix = f"{e.module}." if e.module else ""
    t.linear(prefix + e.router, F, count, m.hidden, bias=k.says(e.router_bias))
    if e.correction and k.says(e.corrected):
        t.add(prefix + e.correction, F, count, float_type="f32")
    inner = k.integer(e.latent) if e.latent and k.value(e.latent) else m.hidden
    if inner != m.hidden:
        _latent(m, t, e, inner)
    expert_matrices(m, t, e, (count, used), (inner, width))
    if e.shared is not None and k.says(e.shared.enabled):
        _shared(m, t, e.shared, layer, width)


def _latent(m: Model, t: Tensors, e: Experts, inner: int) -> None:
    """What takes the stream to the experts' own size and back."""
    prefix = f"{e.module}." if e.module else ""
    sizes = ((inner, m.hidden), (m.hidden, inner))
    for name, (rows, columns) in zip(e.latent_names, sizes, strict=True):
        t.add(prefix + name, F, rows, columns, linear=e.latent_quantised)
        if m.keys.says(e.mlp.bias):
            t.add(f"{prefix}{name}.bias", F, rows)
    if e.latent_norm and m.keys.says(e.latent_normed):
        t.norm(prefix + e.latent_norm, inner)


def expert_matrices(
    m: Model, t: Tensors, e: Experts, counts: tuple[int, int], sizes: tuple[int, int]
) -> None:
    """The matrices of all experts of a layer; `sizes` are what they read and how wide they are."""
    prefix = ".".join(part for part in (e.module, e.experts) if part)
    bias = m.keys.says(e.mlp.bias)
    for name, rows, columns in _matrices(e.mlp, *sizes, gated=m.keys.says(e.mlp.gated)):
        more = {"copies": counts[0], "used": counts[1]}
        t.add(f"{prefix}.{name}", Kind.EXPERTS, rows, columns, linear=True, **more)
        if bias:
            t.add(f"{prefix}.{name}_bias", Kind.EXPERTS, rows, **more)


def _matrices(mlp: Mlp, inputs: int, width: int, *, gated: bool) -> list[tuple[str, int, int]]:
    """Name, outputs and inputs of each matrix of one expert."""
    down = (mlp.down, inputs, width)
    if mlp.fused:
        return [(mlp.fused, 2 * width, inputs), down]
    up = (mlp.up, width, inputs)
    return [(mlp.gate, width, inputs), up, down] if gated else [up, down]


def _shared(m: Model, t: Tensors, s: Shared, layer: int, width: int) -> None:
    """Experts that every token takes, as one network."""
    k = m.keys
    own = k.integer_at(s.width, layer, m.layers, least=0) if s.width and k.value(s.width) else None
    count = 1
    if s.count:
        count = k.integer_at(s.count, layer, m.layers, least=0) if k.value(s.count) else 0
    elif own is None:
        raise NotEnoughMetadata(f"{k.named(s.width[0])} is missing")
    total = count * (width if own is None else own)
    if not total:
        return
    network(m, t, s.mlp, s.module, total)
    if s.gate:
        t.linear(s.gate, F, 1, m.hidden)


def _after_dense(keys: Keys, layer: int, layers: int) -> bool:
    """After the first dense layers every `moe_layer_freq`-th, or as its list of 0 and 1 says."""
    if isinstance(keys.inner.get("moe_layer_freq"), list):
        return bool(keys.integer_at("moe_layer_freq", layer, layers, least=0))
    first = keys.integer_or("first_k_dense_replace", 0)
    return layer >= first and layer % keys.integer_or("moe_layer_freq", 1, least=1) == 0


def _first_dense(keys: Keys, layer: int, _layers: int) -> bool:
    """After the first dense layers every layer (Ling)."""
    return layer >= keys.integer_or("first_k_dense_replace", 0)


def _sparse_step(keys: Keys, layer: int, _layers: int) -> bool:
    """Every `decoder_sparse_step`-th layer, but those of `mlp_only_layers` (Qwen)."""
    only = keys.integers("mlp_only_layers") or []
    step = keys.integer_or("decoder_sparse_step", 1, least=1)
    return layer not in only and (layer + 1) % step == 0


def _expert_period(keys: Keys, layer: int, _layers: int) -> bool:
    """Every so many layers, from an offset on (Jamba)."""
    period = keys.integer("expert_layer_period")
    return layer % period == keys.integer("expert_layer_offset", least=0)


def _interleaved(keys: Keys, layer: int, _layers: int) -> bool:
    """The layers of `moe_layers`, else every `interleave_moe_layer_step`-th (Llama 4)."""
    listed = keys.integers("moe_layers")
    if listed is not None:
        return layer in listed
    return (layer + 1) % keys.integer("interleave_moe_layer_step") == 0


def _between(keys: Keys, layer: int, layers: int) -> bool:
    """From one layer to another, every so many (Ernie 4.5)."""
    start, end = keys.value("moe_layer_start_index"), keys.value("moe_layer_end_index")
    first = min(start) if isinstance(start, list) and start else start
    last = max(end) if isinstance(end, list) and end else end
    if first is None:
        raise NotEnoughMetadata(f"{keys.named('moe_layer_start_index')} is missing")
    first = whole(keys.named("moe_layer_start_index"), first, 0)
    last = -1 if last is None else whole(keys.named("moe_layer_end_index"), last, -1)
    interval = keys.integer_or("moe_layer_interval", 1, least=1)
    return (layer + 1) % interval == 0 and first <= layer <= (layers - 1 if last < 0 else last)


def _enumerated(keys: Keys, layer: int, layers: int) -> bool:
    """The layers whose numbers a text lists, else those after the first dense ones (Step 3.5)."""
    written = keys.inner.get("moe_layers_enum")
    if written is None:
        return _after_dense(keys, layer, layers)
    words = (
        written.split(",") if isinstance(written, str) else keys.list_of("moe_layers_enum") or []
    )
    return str(layer) in [str(word).strip() for word in words]


def _after_count(name: str) -> Callable[[Keys, int, int], bool]:
    """After as many dense layers as a key says."""

    def where(keys: Keys, layer: int, _layers: int) -> bool:
        return layer >= keys.integer(name, least=0)

    return where


WHERE: dict[str, Callable[[Keys, int, int], bool]] = {
    "all": lambda _keys, _layer, _layers: True,
    "after_dense": _after_dense,
    "first_dense": _first_dense,
    "sparse_step": _sparse_step,
    "period": _expert_period,
    "interleaved": _interleaved,
    "between": _between,
    "enumerated": _enumerated,
    "after_num_dense_layers": _after_count("num_dense_layers"),
}
"""The rules that families name: which layers have experts."""
