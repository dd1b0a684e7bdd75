"""Weights of a model from the headers of its safetensors files. Pure.

Their bytes are what the headers say; how many parameters packed ones hold follows from their shapes
or, where these do not tell, from the quantisation's configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from nodecheck.model import Struct
from nodecheck.serving import Kind, LayerCache, Weights
from nodecheck.workload.assemble import MOST_LAYERS, NOT_TEXT, PlacedWeights, tied_output
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown
from nodecheck.workload.hf import names as hf_names
from nodecheck.workload.hf import packed
from nodecheck.workload.hf.packed import Packed, Stored
from nodecheck.workload.hf.safetensors import BITS, MOST_TENSORS, Tensor, too_many_tensors

MOST_NAMES = 50_000
"""Of one model, those of experts counted once: what can be put in order in half a second.

The most of a known model are some 5,000 (61 layers of DeepSeek-V3 in FP8 with an MTP module).
"""

MOST_NAME_CHARACTERS = 1_500_000
"""Of those names together: each is searched for what its module does, about 0.1 us a character.

The 5,000 of a known model have some 300,000.
"""

MOST_CHARACTERS = 70 * MOST_TENSORS
"""Of all names, those of every expert too: their numbers are found in about half a second.

The longest of a known model have some 20,000,000 (Kimi K2 in NVFP4, 280,000 of 71 at most).
"""

Parts = dict[str, Stored]
Read = tuple[int, int]
"""Parts of a tensor that a token reads, and parts that it has."""


class Inventory:
    """The tensors of a model's files, those of a layer's experts together."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.tensors = 0
        self.bytes = 0
        self._characters = 0
        self._name_characters = 0
        self._seen: set[int] = set()
        self._sums: dict[tuple[str, str], list[int]] = {}
        self._shapes: dict[tuple[str, str], tuple[int, ...]] = {}

    def add(self, tensors: Mapping[str, Tensor]) -> None:
        """More of them. WorkloadError for a name that was there already."""
        self._refuse_known(tensors)
        self.tensors += len(tensors)
        if self.tensors > MOST_TENSORS:
            raise too_many_tensors()
        self._characters += sum(map(len, tensors))
        if self._characters > MOST_CHARACTERS:
            raise _names_too_long(MOST_CHARACTERS, "its tensors")
        keys = hf_names.without_expert_numbers(list(tensors))
        for key, tensor in zip(keys, tensors.values(), strict=True):
            begin, end = tensor.data_offsets
            self.bytes += end - begin
            if (sums := self._sums.get((key, tensor.dtype))) is None:
                self._sums[key, tensor.dtype] = [1, end - begin]
                self._shapes[key, tensor.dtype] = tensor.shape
                self._name_characters += len(key)
            else:
                sums[0] += 1
                sums[1] += end - begin
        if len(self._sums) > MOST_NAMES:
            what = f"there are more than {MOST_NAMES:,} kinds of tensors, as in no known model"
            raise NotEnoughMetadata(what)
        if self._name_characters > MOST_NAME_CHARACTERS:
            raise _names_too_long(MOST_NAME_CHARACTERS, "its kinds of tensors")

    def _refuse_known(self, tensors: Mapping[str, Tensor]) -> None:
        """By their hashes: names of 280,000 tensors would take too much memory."""
        hashes = set(map(hash, tensors))
        if not self._seen.isdisjoint(hashes):
            name = next(name for name in tensors if hash(name) in self._seen)
            raise WorkloadError(f"it holds {shown(name)}, which an earlier part holds too")
        self._seen |= hashes

    def modules(self) -> Iterable[tuple[str, Parts]]:
        """What is stored of each module; where experts differ in dtype, a module more than once."""
        found: dict[tuple[str, int], Parts] = {}
        for (key, dtype), (count, size) in self._sums.items():
            module, part = packed.split(key)
            number = 0
            while part in found.setdefault((module, number), {}):
                number += 1
            shape = self._shapes[key, dtype]
            elements = size * 8 // BITS[dtype]
            found[module, number][part] = Stored(dtype, shape, count, elements, size)
        return ((module, parts) for (module, _), parts in found.items())


def _names_too_long(most: int, what: str) -> NotEnoughMetadata:
    names = f"the names of {what} have more than {most:,} characters together"
    return NotEnoughMetadata(f"{names}, as in no known model: name its config.json")


class Said(Struct, frozen=True, kw_only=True):
    """What is known of a model apart from its files' headers; None for what is not.

    `layers` are those without MTP modules. `packed` tells how a module is stored.
    """

    layers: int | None = None
    caches: Mapping[int, LayerCache] | None = None
    experts: int | None = None
    experts_used: int | None = None
    packed: Callable[[str, int | None, Kind], Packed | None] = lambda *_: None


class Held(Struct, frozen=True, kw_only=True):
    """What the headers hold. `parameters_known` is false where some are packed in unknown ways."""

    placed: tuple[PlacedWeights, ...]
    layers: int
    mtp_layers: int
    tied: bool
    parameters_known: bool
    experts: int | None
    vocabulary: int | None
    hidden_size: int | None


def held(inventory: Inventory, said: Said) -> Held:
    """The weights by layer and kind. NotEnoughMetadata where they are no language model's."""
    modules = list(inventory.modules())
    if any(_ADAPTER.search(name) for name, _ in modules):
        raise NotEnoughMetadata("a LoRA adapter is no model of its own: name its base model")
    layers = said.layers or _trunk(name for name, _ in modules)
    reading = _Reading(said, layers)
    for module, parts in modules:
        reading.add(module, parts)
    return reading.result()


_ADAPTER = re.compile(r"\.lora_[AB](?:\.|$)")


def _trunk(modules: Iterable[str]) -> int:
    """Layers without those that hold the parts of an MTP module."""
    numbers, guessing = set(), set()
    for module in modules:
        if (number := hf_names.text_layer(module)) is not None:
            numbers.add(number)
            if not hf_names.MTP_PARTS.isdisjoint(module.split(".")):
                guessing.add(number)
    return max(numbers - guessing, default=-1) + 1


class _Reading:
    """Modules, turned into weights one after the other."""

    def __init__(self, said: Said, layers: int) -> None:
        self._said = said
        self._layers = layers
        self._placed: list[PlacedWeights] = []
        self._numbers: set[int] = set()
        self._vocabulary: tuple[Weights, tuple[int, ...]] | None = None
        self._experts: int | None = None
        self._known = True

    def add(self, module: str, parts: Parts) -> None:
        place = hf_names.place(module, self._layers)
        if place.layer is not None:
            self._numbers.add(place.layer)
        if place.layer is not None and place.layer >= MOST_LAYERS:
            number = place.layer
            raise WorkloadError(f"tensor {shown(module)}: layer {number}, of {MOST_LAYERS} at most")
        kind = self._mixer(place.layer, place.kind)
        main = packed.main_part(parts)
        if _is_mask(module, main):
            kind = Kind.OTHER
        inside = packed.contents(parts, lambda: self._said.packed(module, place.layer, kind))
        weights = _weights(kind, inside, parts, self._read(module, kind, main))
        self._known = self._known and (inside.parameters is not None or kind is Kind.OTHER)
        self._placed.append((place.layer, weights))
        if kind is Kind.EMBEDDING and hf_names.is_vocabulary(module):
            known = inside.parameters is not None and main.elements == inside.parameters
            self._vocabulary = weights, main.shape if known else main.shape[:1]

    def _mixer(self, layer: int | None, kind: Kind) -> Kind:
        """A layer that remembers only a state mixes with it; one without a state attends."""
        if kind not in (Kind.ATTENTION, Kind.RECURRENT) or layer is None:
            return kind
        cache = (self._said.caches or {}).get(layer, LayerCache())
        keeps_state = bool(cache.conv_elements or cache.state_elements)
        keeps_tokens = bool(cache.key_elements or cache.value_elements)
        if keeps_state == keeps_tokens:
            return kind
        return Kind.RECURRENT if keeps_state else Kind.ATTENTION

    def _read(self, module: str, kind: Kind, main: Stored) -> Read:
        """Of an embedding a token reads one row, of experts some, of MTP modules nothing."""
        if kind is Kind.EMBEDDING:
            return 1, main.shape[0] if main.shape else 1
        if kind in NOT_TEXT:
            return 0, 1
        if kind is not Kind.EXPERTS:
            return 1, 1
        leading = main.shape[0] if main.shape else 1
        count = main.count
        if hf_names.EXPERT not in module:  # all experts in one tensor, in DBRX as one long matrix
            count = (leading if len(main.shape) > 2 else self._said.experts or leading) or 1
        self._experts = max(count, self._experts or 0)
        return min(self._said.experts_used or count, count), count

    def result(self) -> Held:
        numbers = {n for n, w in self._placed if n is not None and w.kind not in NOT_TEXT}
        if not numbers or (self._vocabulary is None and self._said.layers is None):
            what = "layers" if not numbers else "embedding"
            raise NotEnoughMetadata(f"its tensors are not those of a language model: no {what}")
        tied = all(w.kind is not Kind.OUTPUT for _, w in self._placed)
        shape: tuple[int, ...] = ()
        if self._vocabulary is not None:
            table, shape = self._vocabulary
            if tied:
                self._placed.append((None, tied_output(table)))
        return Held(
            placed=tuple(self._placed),
            layers=max(self._numbers) + 1,
            mtp_layers=len([n for n in self._numbers if n >= self._layers]),
            tied=tied,
            parameters_known=self._known,
            experts=self._experts,
            vocabulary=shape[0] if shape else None,
            hidden_size=shape[1] if len(shape) == 2 else None,
        )


def _is_mask(module: str, main: Stored) -> bool:
    """Whether it is the causal mask that GPT-2 and its kin once stored."""
    return module.endswith("attn.bias") and len(main.shape) == 4


def _weights(kind: Kind, inside: packed.Contents, parts: Parts, read: Read) -> Weights:
    some, of = read
    parameters = inside.parameters or 0
    return Weights(
        kind=kind,
        type=inside.type,
        parameters=parameters,
        bytes=sum(part.bytes for part in parts.values()),
        read_parameters=parameters * some // max(of, 1),
        read_bytes=sum(part.bytes * some // max(of, 1) for part in parts.values()),
    )
