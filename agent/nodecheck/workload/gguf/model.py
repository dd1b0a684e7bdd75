"""The headers of a GGUF model to a workload. Pure.

Bytes are those of the tensors; what is remembered follows from the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from nodecheck.serving import Kind, LayerCache, Weights, Workload
from nodecheck.workload.assemble import MOST_LAYERS, NOT_TEXT, PlacedWeights, assemble, tied_output
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown
from nodecheck.workload.gguf.cache import (
    NO_STATE_IN_SGLANG,
    Block,
    Caches,
    attends,
    caches,
    mixer_of,
)
from nodecheck.workload.gguf.header import Header, TensorInfo
from nodecheck.workload.gguf.keys import MOST_EXPERTS, Keys, PerLayer
from nodecheck.workload.gguf.names import (
    CACHE_UNKNOWN,
    KNOWN,
    NO_DECODERS,
    OTHER_TYPES,
    is_recurrent,
    kind_inside,
    kind_outside,
    place,
)


def workload(headers: Sequence[Header], name: str, notes: Sequence[str] = ()) -> Workload:
    """The model whose parts have these headers, the first one first.

    `notes` come before its own. WorkloadError names the key or tensor that is wrong;
    NotEnoughMetadata says what is missing, or what the file is instead of a model.
    """
    try:
        return _Model(headers).workload(name, notes)
    except NotEnoughMetadata as error:
        if not (cut := truncation(headers)):
            raise
        missing = str(error).partition(": ")[2]
        raise NotEnoughMetadata("; ".join([missing, *cut])) from None


def truncation(headers: Sequence[Header]) -> list[str]:
    """A sentence for each part that was cut off."""
    return [
        f"{f'part {number}: ' if len(headers) > 1 else ''}truncated by {header.missing_bytes}"
        " bytes: it will not load"
        for number, header in enumerate(headers, 1)
        if header.missing_bytes
    ]


def _refuse_others(header: Header, tensors: Sequence[TensorInfo]) -> None:
    """NotEnoughMetadata where the file is no model to generate text with."""
    metadata = header.metadata
    kind = metadata.get("general.type")
    what = OTHER_TYPES.get(kind) if isinstance(kind, str) else None
    architecture = metadata.get("general.architecture")
    if what is None and isinstance(architecture, str):
        what = NO_DECODERS.get(architecture)
    if what is not None:
        raise NotEnoughMetadata(f"this is {what}")
    if architecture is not None and not tensors:
        raise NotEnoughMetadata("it holds no tensors")


@final
class _Model:
    """What the keys and tensors say together."""

    def __init__(self, headers: Sequence[Header]) -> None:
        self.headers = headers
        self.tensors = [tensor for header in headers for tensor in header.tensors]
        _refuse_others(headers[0], self.tensors)
        self.keys = Keys(headers[0].metadata)
        self.layers = self.keys.number("block_count", least=1, most=MOST_LAYERS)
        self.mtp_layers = self.keys.number("nextn_predict_layers", 0, most=max(self.layers - 1, 0))
        if self.keys.number("num_loops", 1) > 1:
            raise NotEnoughMetadata("it runs its layers several times, and its reads are not known")
        self.trunk = self.layers - self.mtp_layers
        self.blocks, self.outside = self._blocks()
        self.experts = Experts(self.keys, self.layers, self.blocks[: self.trunk])

    def _blocks(self) -> tuple[list[dict[str, TensorInfo]], dict[str, TensorInfo]]:
        blocks: list[dict[str, TensorInfo]] = [{} for _ in range(self.layers)]
        outside = {}
        for tensor in self.tensors:
            number, inner = place(tensor.name)
            if number is None:
                outside[tensor.name] = tensor
            elif number >= self.layers:
                raise WorkloadError(
                    f"tensor {shown(tensor.name)!r} is beyond the"
                    f" {self.layers} blocks of {self.keys.full('block_count')}"
                )
            else:
                blocks[number][inner] = tensor
        if not any(blocks[: self.trunk]):
            raise NotEnoughMetadata("the tensors of its blocks (blk.0 and on)")
        if "token_embd.weight" not in outside:
            raise NotEnoughMetadata("the tensor token_embd.weight")
        return blocks, outside

    def workload(self, name: str, notes: Sequence[str]) -> Workload:
        """All of it, with its caches."""
        found, cache_notes = self._caches()
        embedding = self.outside["token_embd.weight"]
        architecture = self.keys.architecture
        return assemble(
            [*self._placed_outside(), *self._placed_inside()],
            None if found is None else found.layers,
            name=name,
            layers=self.layers,
            sglang_keeps=architecture not in NO_STATE_IN_SGLANG,
            format="gguf",
            architecture=architecture,
            hidden_size=self.keys.given("embedding_length", least=1),
            vocabulary=_rows(embedding) or None,
            context_length=self.keys.given("context_length", most=(1 << 32) - 1) or None,
            kv_heads=found.kv_heads if found is not None else None,
            experts=self.experts.count,
            experts_used=self.experts.most_used,
            mtp_layers=self.mtp_layers,
            llama_cpp_windows=found is None or found.llama_cpp_windows,
            notes=(*notes, *cache_notes, *truncation(self.headers)),
        )

    def _caches(self) -> tuple[Caches | None, list[str]]:
        name = self.keys.architecture
        unknown = f"what a token takes in the cache of architecture {shown(name)} is not known"
        if name in CACHE_UNKNOWN:
            return None, [unknown]
        if name in KNOWN:
            found = caches(self.keys, self.blocks, self.trunk)
            wrong = disagreement(self.blocks, found.layers)
            return found, [] if wrong is None else [wrong]
        try:
            found = caches(self.keys, self.blocks, self.trunk)
        except NotEnoughMetadata:
            return None, [unknown]
        if not confirmed(self.blocks[: self.trunk], found.layers):
            return None, [unknown]
        return found, [
            f"architecture {shown(name)} is not known: its cache follows from its attn_k and attn_v"
        ]

    def _placed_outside(self) -> Iterable[PlacedWeights]:
        for name, tensor in self.outside.items():
            yield None, weights(tensor, kind_outside(name))
        if "output.weight" not in self.outside:
            table = weights(self.outside["token_embd.weight"], Kind.EMBEDDING)
            yield None, tied_output(table)

    def _placed_inside(self) -> Iterable[PlacedWeights]:
        for number, block in enumerate(self.blocks):
            mixer = mixer_of(block, self.keys.architecture)
            only_recurrent = mixer is not None and not attends(block, mixer)
            for name, tensor in block.items():
                kind = kind_inside(name) if number < self.trunk else Kind.MTP
                if kind is Kind.ATTENTION and (only_recurrent or is_recurrent(name)):
                    kind = Kind.RECURRENT
                used = self.experts.share(number, tensor) if kind is Kind.EXPERTS else (1, 1)
                yield number, weights(tensor, kind, used)


def _rows(tensor: TensorInfo) -> int:
    """Of a table."""
    return tensor.elements // tensor.shape[0] if tensor.shape and tensor.shape[0] else 0


def weights(tensor: TensorInfo, kind: Kind, used: tuple[int, int] = (1, 1)) -> Weights:
    """A tensor, of which a token reads `used[0]` parts of `used[1]`.

    Of an embedding it reads a row, of MTP modules and towers nothing.
    """
    parts, of = used
    if kind is Kind.EMBEDDING:
        parts, of = 1, _rows(tensor)
    elif kind in NOT_TEXT:
        parts = 0
    return Weights(
        kind=kind,
        type=tensor.type,
        parameters=tensor.elements,
        bytes=tensor.bytes,
        read_parameters=tensor.elements * parts // max(of, 1),
        read_bytes=tensor.bytes * parts // max(of, 1),
    )


@final
class Experts:
    """How many experts a layer has and how many of them a token takes. `count` is None for none."""

    def __init__(self, keys: Keys, layers: int, trunk: Sequence[Block]) -> None:
        """NotEnoughMetadata and WorkloadError name the key."""
        self._keys = keys
        self.count: int | None = None
        self._used: PerLayer = ()
        with_experts = [
            number
            for number, block in enumerate(trunk)
            if any(kind_inside(name) is Kind.EXPERTS for name in block)
        ]
        count = keys.number("expert_count", 0, most=MOST_EXPERTS)
        used = keys.per_layer("expert_used_count", layers, most=MOST_EXPERTS)
        if used is not None and max(used) > count:
            if keys.given("expert_count") is None:
                raise keys.missing("expert_count")
            raise keys.wrong("expert_used_count", f"more than the {count} of expert_count")
        if with_experts:
            self._set(count, used, with_experts)

    def _set(self, count: int, used: PerLayer | None, with_experts: Sequence[int]) -> None:
        if self._keys.given("expert_count") is None:
            raise self._keys.missing("expert_count")
        if used is None:
            raise self._keys.missing("expert_used_count")
        if idle := [number for number in with_experts if not used[number]]:
            raise self._keys.wrong(
                "expert_used_count", f"none for block {idle[0]}, which has experts"
            )
        self.count, self._used = count, used

    @property
    def most_used(self) -> int | None:
        """Of the layer that takes most."""
        return max(self._used) if self.count else None

    def share(self, number: int, tensor: TensorInfo) -> tuple[int, int]:
        """Parts that a token reads of a tensor of experts, and parts that it has."""
        count, used = self.count or 1, self._used[number]
        _, name = place(tensor.name)
        if "exps" not in name:
            return used, count
        held = tensor.shape[-1] if tensor.shape else 1
        if "chexps" in name:
            return min(used, held), held
        if held != count:
            raise WorkloadError(
                f"tensor {shown(tensor.name)!r} holds {held} experts,"
                f" where {self._keys.full('expert_count')} is {count}"
            )
        return used, count


def disagreement(blocks: Sequence[Block], layers: Mapping[int, LayerCache]) -> str | None:
    """The first projection whose rows are not what the keys say, as a sentence."""
    for number, cache in layers.items():
        for name, elements in _projections(cache):
            tensor = blocks[number].get(name)
            if tensor is not None and elements and _rows(tensor) != elements:
                return (
                    f"{shown(tensor.name)} has {_rows(tensor)} rows,"
                    f" where the keys mean {elements}: llama.cpp will not load it"
                )
    return None


def confirmed(blocks: Sequence[Block], layers: Mapping[int, LayerCache]) -> bool:
    """Whether all blocks attend by projections as large as the keys say, and by nothing else."""
    return all(
        mixer_of(block, "") is None
        and all(name in block and _rows(block[name]) == size for name, size in _projections(cache))
        for block, cache in zip(blocks, layers.values(), strict=False)
    )


def _projections(cache: LayerCache) -> tuple[tuple[str, int], ...]:
    return (("attn_k.weight", cache.key_elements), ("attn_v.weight", cache.value_elements))
