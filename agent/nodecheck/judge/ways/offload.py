"""A model of which a part, or all, lies in host RAM: llama.cpp's -ngl and --n-cpu-moe, CPU only.

Placement as in llama.cpp, src/llama-model.cpp: the output layer is the first to go to the GPU, the
CPU keeps the first blocks, the embedding table always stays on it. A block's cache lies beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between
from nodecheck.judge.fits.host_room import CPU_BUFFERS_BYTES, in_ram
from nodecheck.judge.rates.ceilings import Range, tokens_per_second
from nodecheck.judge.rates.cpu_stage import CpuStage, cpu_stage, stage_of
from nodecheck.judge.rates.gpu_stage import gpu_limit, gpu_seconds
from nodecheck.judge.rates.reads import Reads, Share, reads, running, together
from nodecheck.judge.ways.answers import (
    SHARED_MEMORY,
    TOKENS,
    refused,
    speed_viability,
    unknown,
)
from nodecheck.model import Point, Strategy, Struct
from nodecheck.serving import Curve, Workload
from nodecheck.units import GB, gib

CROSSING_SECONDS = (20e-6, 200e-6)
"""Handing a token's activations from one side to the other: a copy of some kB, and waking who waits
for it. Source: a small copy and its synchronisation take 10 us each; what a token of Qwen3-30B-A3B
has left over with the experts of 36 blocks on a 10-core i9 beside an RTX 2080 (llmfit#755) comes to
150 to 200 us."""

CROSSINGS_OF_EXPERTS = 2
"""Of each block whose experts lie on the CPU: there and back."""

CURVE_POINTS_MOST = 131
"""A curve of more blocks leaves values out."""

TOLD_SHARE = 0.22
"""Of the blocks on the CPU, at which partial offload is told beside a single block: enough to show
where the curve goes."""


class Cut(Struct, frozen=True):
    """A setting, and what it leaves on each side; the embedding table is on the CPU with any.

    `gpu_blocks` are those with kernels on a card.
    """

    setting: str
    moved: Share
    on_gpu: Share
    embedding: Share
    cpu_layers: int
    gpu_blocks: int
    crossings: int

    @property
    def on_cpu(self) -> Share:
        """What a token reads there, and what host RAM must hold."""
        return self.moved + self.embedding


class Split(Struct, frozen=True):
    """What turns a cut into a range: the CPU's cost, the cards' rate, the VRAM that is free.

    Free is what engines and whole layers leave usable on all cards.
    """

    stage: CpuStage
    rate: float
    free_bytes: int

    def fits(self, cut: Cut) -> bool:
        """Whether the cards hold their part."""
        return cut.on_gpu.room_bytes <= self.free_bytes

    def times(self, cut: Cut) -> tuple[Range, Range, Range]:
        """Seconds on the CPU, on the GPUs and between them, fastest to slowest."""
        low, high = CROSSING_SECONDS
        return (
            self.stage.seconds(cut.on_cpu),
            gpu_seconds(cut.on_gpu, self.rate, cut.gpu_blocks),
            Range(cut.crossings * low, cut.crossings * high),
        )

    def speed(self, cut: Cut) -> Range:
        """Tokens a second: the stages of one token come one after the other."""
        cpu, gpu, between_them = self.times(cut)
        only = self.stage.ceiling_only and bool(cut.cpu_layers)
        return tokens_per_second(cpu + gpu + between_them, ceiling_only=only)

    def limit(self, cut: Cut) -> str:
        """What takes most of the time."""
        cpu, gpu, crossing = (each.floor + each.high for each in self.times(cut))
        if crossing > max(cpu, gpu):
            return "hand-over between CPU and GPU"
        return self.stage.limit if cpu >= gpu else gpu_limit(cut.on_gpu, self.rate, cut.gpu_blocks)

    def point(self, cut: Cut) -> Point:
        """As a curve holds it."""
        speed = self.speed(cut)
        return Point(
            setting=cut.setting,
            low=speed.low,
            high=speed.high,
            cpu_layers=cut.cpu_layers,
            cpu_bytes=round(cut.moved.stored_bytes),
            fits=self.fits(cut),
        )


def cpu_layers(work: Workload, ngl: int) -> int:
    """Layers that -ngl leaves on the CPU, the output layer counted; a negative one leaves none."""
    return 0 if ngl < 0 else max(0, work.layers + 1 - ngl)


def split_of(seen: Seen, work: Workload, cards: node.Cards, on_cpu: Share) -> Split | str:
    """What the node brings to splitting a model whose part `on_cpu` may lie there, or what not."""
    stage = stage_of(seen, on_cpu)
    if isinstance(stage, str):
        return stage
    if cards.share_memory:
        return SHARED_MEMORY
    rate = cards.split_rate
    if rate is None:
        return "the VRAM rate of a card is not known"
    parts = reads(seen, work)
    if not parts.blocks:
        return f"its {work.layers} layers are not told apart"
    free = free_for_layers(seen, parts, cards)
    return Split(stage, rate, free)


def free_for_layers(seen: Seen, parts: Reads, cards: node.Cards) -> int:
    """VRAM of all cards less an engine's own and what whole layers leave unused."""
    overhead = seen.policy.thresholds.vram_overhead_bytes * len(cards.gpus)
    largest = max((block.stored_bytes for block in parts.both), default=0)
    return cards.all_free_bytes - overhead - round((len(cards.gpus) - 1) * largest)


def ngl_cuts(parts: Reads) -> list[Cut]:
    """[n]: what `-ngl` leaves where n layers stay on the CPU, the output layer last."""
    first, last = running(parts.both), running(parts.both[::-1])
    blocks = len(parts.blocks)
    cuts = [
        Cut(
            setting=f"ngl {blocks + 1 - kept}",
            moved=first[kept],
            on_gpu=last[blocks - kept] + parts.output,
            embedding=parts.embedding,
            cpu_layers=kept,
            gpu_blocks=blocks - kept,
            crossings=1 if kept else 0,
        )
        for kept in range(blocks + 1)
    ]
    all_moved = first[blocks] + parts.output
    return [*cuts, Cut("ngl 0", all_moved, Share(), parts.embedding, blocks + 1, 0, 0)]


def expert_cuts(parts: Reads) -> list[Cut]:
    """[n]: what `--n-cpu-moe n` leaves, up to the last block that has experts."""
    has_experts = [bool(each.stored_bytes) for each in parts.experts]
    last = max((n + 1 for n, has in enumerate(has_experts) if has), default=0)
    first, rest = running(parts.experts[:last]), running(parts.experts[:last][::-1])
    beside = together(parts.blocks) + parts.output
    return [
        Cut(
            setting=f"ncmoe {number}",
            moved=first[number],
            on_gpu=beside + rest[last - number],
            embedding=parts.embedding,
            cpu_layers=sum(has_experts[:number]),
            gpu_blocks=len(parts.blocks),
            crossings=CROSSINGS_OF_EXPERTS * sum(has_experts[:number]),
        )
        for number in range(last + 1)
    ]


def curves(seen: Seen, work: Workload) -> tuple[Curve, ...]:
    """Each setting of llama.cpp against speed, from all on the GPU to none; () without a GPU."""
    cards = node.cards(seen)
    if not cards.gpus:
        return ()
    parts = reads(seen, work)
    found = []
    for strategy, setting, cuts, on_cpu in (
        ("partial-offload", "-ngl", ngl_cuts(parts), parts.whole),
        ("expert-offload", "--n-cpu-moe", expert_cuts(parts), parts.all_experts),
    ):
        split = split_of(seen, work, cards, on_cpu) if len(cuts) > 1 else "nothing to split"
        if isinstance(split, Split):
            points = tuple(split.point(cut) for cut in _thinned(cuts))
            found.append(Curve(strategy=strategy, setting=setting, points=points))
    return tuple(found)


def _thinned(cuts: Sequence[Cut]) -> Iterable[Cut]:
    step = -(-len(cuts) // CURVE_POINTS_MOST)
    return (cut for number, cut in enumerate(cuts) if number % step == 0 or cut is cuts[-1])


def partial_offload(seen: Seen, work: Workload, cards: node.Cards) -> Strategy:
    """Some layers on the CPU: one, and about a quarter of them; more where VRAM is short.

    It is judged by the fewest that VRAM asks for; where that asks for none, by the quarter.
    """
    parts = reads(seen, work)
    split = split_of(seen, work, cards, parts.whole)
    if isinstance(split, str):
        return unknown("partial-offload", split)
    cuts = ngl_cuts(parts)
    told = _told_cuts(split, cuts)
    if not told:
        return refused("partial-offload", "VRAM size", "not one layer fits beside the cache")
    judged = told[-1] if split.fits(cuts[0]) else told[0]
    return _offload(seen, "partial-offload", split, told, judged=judged)


def _told_cuts(split: Split, cuts: Sequence[Cut]) -> list[Cut]:
    """The most that fits with a layer left on the CPU, and a share of all blocks or more."""
    blocks = len(cuts) - 2
    fits = next((n for n in range(1, blocks + 1) if split.fits(cuts[n])), None)
    if fits is None:
        return []
    share = max(fits, 1 + max(1, round(blocks * TOLD_SHARE)))
    return [cuts[n] for n in sorted({fits, min(share, blocks)})]


def expert_offload(seen: Seen, work: Workload, cards: node.Cards) -> Strategy | None:
    """Experts of the first blocks on the CPU, all else on the cards; None where it has none.

    Told are the fewest that VRAM asks for, one at least, and all of them (-cmoe). It is judged by
    the fewest; where VRAM asks for none, by all.
    """
    parts = reads(seen, work)
    cuts = expert_cuts(parts)
    if len(cuts) < 2:
        return None
    split = split_of(seen, work, cards, parts.all_experts)
    if isinstance(split, str):
        return unknown("expert-offload", split)
    fits = next((cut for cut in cuts if cut.cpu_layers and split.fits(cut)), None)
    if fits is None:
        why = f"{gib(cuts[-1].on_gpu.room_bytes)} needed without any expert"
        return refused("expert-offload", "VRAM size", why)
    every = replace(cuts[-1], setting="cmoe")
    told = [every] if fits is cuts[-1] else [fits, every]
    judged = told[-1] if split.fits(cuts[0]) else told[0]
    return _offload(seen, "expert-offload", split, told, judged=judged)


def _offload(seen: Seen, name: str, split: Split, told: Sequence[Cut], *, judged: Cut) -> Strategy:
    if short := ram_shortage(seen, told[0].on_cpu):
        return refused(name, "RAM size", short)
    stage, speed = split.stage, split.speed(judged)
    low, high = (GB * end for end in (stage.seconds_per_byte.floor, stage.seconds_per_byte.high))
    return Strategy(
        strategy=name,
        viability=speed_viability(seen, speed),
        limit=split.limit(judged),
        low=speed.low,
        high=split.speed(told[0]).high,
        unit=TOKENS,
        basis=f"{stage.basis}; a GB on the CPU adds {between(1000 * low, 1000 * high)} ms a token",
        points=tuple(map(split.point, told)),
        cpu_seconds_per_gb=(low, high),
    )


def ram_needed(on_cpu: Share) -> int:
    """Bytes of RAM for a part of the model and for what llama.cpp takes beside it."""
    return on_cpu.room_bytes + CPU_BUFFERS_BYTES


def ram_shortage(seen: Seen, on_cpu: Share) -> str | None:
    """What is missing where free RAM does not hold a part; None where it does, or is unknown."""
    free, need = node.free_ram_bytes(seen), ram_needed(on_cpu)
    return f"{gib(need)} needed, {gib(free)} free" if free is not None and need > free else None


def cpu_speed(seen: Seen, work: Workload) -> Range | None:
    """Tokens a second with all of the model on the CPU, whatever RAM it takes; None if unknown."""
    stage = cpu_stage(seen, work)
    if isinstance(stage, str):
        return None
    seconds = stage.seconds(reads(seen, work).whole)
    return tokens_per_second(seconds, ceiling_only=stage.ceiling_only)


def cpu_only(seen: Seen, work: Workload) -> Strategy:
    """All of the model on the CPU."""
    stage, speed = cpu_stage(seen, work), cpu_speed(seen, work)
    if isinstance(stage, str) or speed is None:
        return unknown("cpu-only", str(stage))
    if short := ram_shortage(seen, in_ram(seen, work)):
        return refused("cpu-only", "RAM size", short)
    return Strategy(
        strategy="cpu-only",
        viability=speed_viability(seen, speed),
        limit=stage.limit,
        low=speed.low,
        high=speed.high,
        unit=TOKENS,
        basis=stage.basis,
    )
