"""What one token reads of a model: by block, by weight type, and of what the model remembers."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from itertools import accumulate

from nodecheck.checks.seen import Seen
from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.ceilings import Range
from nodecheck.model import Struct
from nodecheck.serving import Kind, LayerCache, Weights, Workload
from nodecheck.workload.cache import bytes_per_token, llama_cpp_cells, whole_context_bytes

NOT_READ = (Kind.MTP, Kind.OTHER)
"""Kinds that lie in memory and that a token of text does not read."""

NOTHING_READ = "the model holds nothing that a token of text reads"

BLOCKS_MOST = 4096
"""More blocks than any model has: those of a larger number are not told apart."""

QUERIES_OF_KEY = 8
"""Query heads that share a cached key at most. Source: 4 to 8 in Llama 3, Qwen3 and Qwen3.5."""

QUERIES_OF_LATENT = 128
"""Heads that share a cached latent at most, where there is one instead of keys and values. Source:
16 in DeepSeek-V2-Lite, 128 in DeepSeek-V3."""

STATE_ELEMENT_BYTES = 4
"""Of a recurrent state in llama.cpp, which keeps convolution and state in f32."""


class Share(Struct, frozen=True):
    """Some part of a model.

    `weights` are the bytes that a token uses of each type, least and most; `step_bytes` what a step
    reads that gives each request its next token: the same for one request, and more experts for
    several. `cache_bytes` are those of all requests' attention caches, of which a first token reads
    nothing and the last all; `attended_bytes` are the same times the query heads that may share a
    cached key, each of which uses it up anew; `state_bytes` are those of all requests' recurrent
    states, which each step reads and writes.
    """

    stored_bytes: float = 0
    weights: Mapping[str, Range] = {}
    cache_bytes: float = 0
    state_bytes: float = 0
    attended_bytes: float = 0
    step_bytes: Range = Range(0, 0)

    def __add__(self, other: Share) -> Share:
        """Both parts together."""
        weights = dict(self.weights)
        for kind, read in other.weights.items():
            weights[kind] = read + weights[kind] if kind in weights else read
        return Share(
            self.stored_bytes + other.stored_bytes,
            weights,
            self.cache_bytes + other.cache_bytes,
            self.state_bytes + other.state_bytes,
            self.attended_bytes + other.attended_bytes,
            self.step_bytes + other.step_bytes,
        )

    @property
    def weight_bytes(self) -> Range:
        """Bytes of weights that a token uses, of all types."""
        return ceilings.total(self.weights.values())

    @property
    def bytes(self) -> Range:
        """All that a step moves: at an empty context, and at a full one."""
        moved = 2 * self.state_bytes
        return self.step_bytes + Range(moved, moved + self.cache_bytes)

    @property
    def room_bytes(self) -> int:
        """Memory that it takes with all requests at the full context."""
        return round(self.stored_bytes + self.cache_bytes + self.state_bytes)


class Reads(Struct, frozen=True):
    """A model in the parts that llama.cpp places.

    `blocks` are what a block holds beside its experts, which lie in `experts`, one for each block;
    none where they are not told apart.
    `output` is the output layer and what else lies outside of the blocks; `embedding`, of which a
    token reads one row, stays in host memory.
    """

    blocks: tuple[Share, ...]
    experts: tuple[Share, ...]
    output: Share
    embedding: Share

    @property
    def whole(self) -> Share:
        """All of it."""
        return self.without_embedding + self.embedding

    @property
    def without_embedding(self) -> Share:
        """What llama.cpp puts on GPUs at most."""
        return together((*self.blocks, *self.experts)) + self.output

    @property
    def both(self) -> tuple[Share, ...]:
        """Each block with its experts."""
        return tuple(map(operator.add, self.blocks, self.experts))

    @property
    def all_experts(self) -> Share:
        """Those of all blocks, with the embedding table that stays on the CPU beside them."""
        return together(self.experts) + self.embedding


def together(shares: Iterable[Share]) -> Share:
    """Their sum."""
    return sum(shares, Share())


def running(shares: Iterable[Share]) -> list[Share]:
    """[n]: the first n of them together, from none to all."""
    return list(accumulate(shares, initial=Share()))


def reads(seen: Seen, work: Workload) -> Reads:
    """The parts of a model, at the context, requests and cache type that are asked for."""
    known = bool(work.layer_groups or work.outside)
    if not known or _block_count(work) > BLOCKS_MOST:
        return _uniform(seen, work)
    requests, context, kv_type = seen.serving.requests, context_tokens(seen), seen.serving.kv_type
    spread = experts_spread(work, requests)
    blocks = [Share()] * _block_count(work)
    experts = list(blocks)
    for group in work.layer_groups:
        rest = [w for w in group.weights if w.kind is not Kind.EXPERTS]
        alone = _remembered(group.cache, context, kv_type, windows=work.llama_cpp_windows)
        remembered = _of_all(alone, requests)
        alike = _share(rest) + remembered
        expert = _share([w for w in group.weights if w.kind is Kind.EXPERTS], spread)
        for number in group.numbers:
            blocks[number], experts[number] = alike, expert
    table, rest = _embedding(work.outside)
    return Reads(tuple(blocks), tuple(experts), _share(rest), _share(table))


def _of_all(one: Share, requests: int) -> Share:
    """What all requests remember."""
    return Share(
        cache_bytes=requests * one.cache_bytes,
        attended_bytes=requests * one.attended_bytes,
        state_bytes=requests * one.state_bytes,
    )


def experts_spread(work: Workload, requests: int) -> float:
    """Times as many experts as one token takes that so many read between them.

    E x (1 - (1 - k / E)^n) of E experts, of which a token takes k: they are chosen alike often.
    """
    if not work.experts or not work.experts_used or requests == 1:
        return 1.0
    share = work.experts_used / work.experts
    return float((1 - (1 - share) ** requests) / share)


def context_tokens(seen: Seen) -> int:
    """Tokens of the context in question: the user's, else the policy's."""
    return seen.serving.context_tokens or seen.policy.thresholds.context_tokens


def is_latent(work: Workload) -> bool:
    """Whether it keeps one latent for all heads instead of keys and values."""
    return any(g.cache.key_elements and not g.cache.value_elements for g in work.layer_groups)


def _block_count(work: Workload) -> int:
    numbers = (number for group in work.layer_groups for number in group.numbers)
    return max(work.layers, 1 + max(numbers, default=0))


def _share(weights: Iterable[Weights], spread: float = 1.0) -> Share:
    """What some weights take; a step of all requests reads `spread` times what a token does."""
    stored, read, step = 0, dict[str, Range](), 0.0
    for each in weights:
        # a tied output is no tensor of its own, but an engine makes a copy of the table for it
        stored += max(each.bytes, each.read_bytes) if each.kind is Kind.OUTPUT else each.bytes
        if each.kind not in NOT_READ and each.read_bytes:
            step += min(spread * each.read_bytes, max(each.bytes, each.read_bytes))
            size = Range(each.read_bytes, each.read_bytes)
            read[each.type] = read[each.type] + size if each.type in read else size
    return Share(stored, read, step_bytes=Range(step, step))


def _embedding(outside: Iterable[Weights]) -> tuple[list[Weights], list[Weights]]:
    """Tables of which a token reads rows, and the rest."""
    tables: list[Weights] = []
    rest: list[Weights] = []
    for each in outside:
        (tables if each.kind is Kind.EMBEDDING else rest).append(each)
    return tables, rest


def _remembered(cache: LayerCache, context: int, kv_type: str, *, windows: bool) -> Share:
    elements = cache.key_elements + cache.value_elements
    cells = llama_cpp_cells(cache, context) if windows else context
    size = bytes_per_token(elements, kv_type) * cells
    return Share(
        cache_bytes=size,
        state_bytes=STATE_ELEMENT_BYTES * (cache.conv_elements + cache.state_elements),
        attended_bytes=size * (QUERIES_OF_KEY if cache.value_elements else QUERIES_OF_LATENT),
    )


def _uniform(seen: Seen, work: Workload) -> Reads:
    """Of a model of which only the size is known: equal blocks, the output layer one of them.

    How many query heads share its cache is not known either: it is used up once.
    """
    count = _block_count(work) if _block_count(work) <= BLOCKS_MOST else 0
    low, high = ceilings.READ_SHARE
    size = work.weight_bytes_shipped / (count + 1)
    cache = whole_context_bytes(work, context_tokens(seen), seen.serving.kv_type) or 0
    cache *= seen.serving.requests
    read = Range(size * low, size * high)
    part = Share(size, {work.weight_type: read}, step_bytes=read)
    block = part + Share(cache_bytes=cache / max(1, count))
    output = part if count else block
    return Reads((block,) * count, (Share(),) * count, output, Share())
