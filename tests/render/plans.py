"""Plans of whole nodes, with figures as such nodes and models give them."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.model import Lever, Point, Strategy, Viability
from nodecheck.plan import Plan
from nodecheck.report import HostInfo
from nodecheck.serving import (
    Comparison,
    Curve,
    EngineStart,
    Fit,
    Flag,
    Kind,
    LayerCache,
    Need,
    Run,
    Serving,
    Storage,
    Weights,
    Workload,
)
from nodecheck.units import GIB
from nodecheck.workload.assemble import PlacedWeights, assemble
from nodecheck.workload.numbers import from_numbers

BITS = {"q4_k": 4.5, "q6_k": 6.5625, "q8_0": 8.5, "f32": 32, "bf16": 16, "mxfp4": 4.25}


def matrix(kind: Kind, parameters: int, storage: str, read: int | None = None) -> Weights:
    """Weights of that many parameters, of which a token reads all or `read`."""
    used = parameters if read is None else read
    return Weights(
        kind=kind,
        type=storage,
        parameters=parameters,
        bytes=round(parameters * BITS[storage] / 8),
        read_parameters=used,
        read_bytes=round(used * BITS[storage] / 8),
    )


def _outside(vocabulary: int, hidden: int, storage: str) -> list[PlacedWeights]:
    size = vocabulary * hidden
    return [
        (None, matrix(Kind.EMBEDDING, size, storage, hidden)),
        (None, matrix(Kind.OUTPUT, size, "q6_k" if storage == "q4_k" else storage)),
    ]


def hybrid_27b() -> Workload:
    """64 layers, every fourth with a cache, the others with a state; one MTP block."""
    placed = _outside(248_320, 5120, "q4_k")
    caches = {}
    for layer in range(64):
        attention = layer % 4 == 3
        kind, size = (Kind.ATTENTION, 104_857_600) if attention else (Kind.RECURRENT, 115_875_936)
        placed.append((layer, matrix(kind, size, "q4_k")))
        placed.append((layer, matrix(Kind.FFN, 267_386_880, "q4_k" if layer % 3 else "q6_k")))
        placed.append((layer, matrix(Kind.NORM, 10_240, "f32")))
        caches[layer] = (
            LayerCache(key_elements=1024, value_elements=1024)
            if attention
            else LayerCache(conv_elements=30_720, state_elements=786_432)
        )
    placed.append((64, matrix(Kind.MTP, 424_699_392, "q4_k")))
    return assemble(
        placed,
        caches,
        name="Qwen3.5-27B-Q4_K_XL",
        layers=65,
        named_by_user=True,
        format="gguf",
        architecture="qwen35",
        hidden_size=5120,
        vocabulary=248_320,
        context_length=262_144,
        mtp_layers=1,
        storage=Storage(
            path="/srv/models/Qwen3.5-27B-Q4_K_XL.gguf",
            fstype="ext4",
            mount="/srv",
            size_bytes=17_502_000_000,
            sequential_bytes_per_second=2.1e9,
            cached_bytes=0,
        ),
    )


def moe_30b() -> Workload:
    """48 layers with 128 experts, of which a token takes 8."""
    placed = _outside(151_936, 2048, "q4_k")
    for layer in range(48):
        placed.append((layer, matrix(Kind.ATTENTION, 18_874_368, "q4_k")))
        placed.append((layer, matrix(Kind.EXPERTS, 603_979_776, "q4_k", 37_748_736)))
        placed.append((layer, matrix(Kind.FFN, 262_144, "f32")))
    caches = {n: LayerCache(key_elements=512, value_elements=512) for n in range(48)}
    return assemble(
        placed,
        caches,
        name="Qwen3-30B-A3B-Q4_K_M",
        layers=48,
        named_by_user=True,
        format="gguf",
        architecture="qwen3moe",
        experts=128,
        experts_used=8,
        context_length=40_960,
        notes=("the file has no tokenizer: its vocabulary is that of token_embd.weight",),
    )


def dense_8b() -> Workload:
    """36 layers in q8_0."""
    placed = _outside(151_936, 4096, "q8_0")
    for layer in range(36):
        placed.append((layer, matrix(Kind.ATTENTION, 41_943_040, "q8_0")))
        placed.append((layer, matrix(Kind.FFN, 150_994_944, "q8_0")))
    caches = {n: LayerCache(key_elements=1024, value_elements=1024) for n in range(36)}
    return assemble(
        placed, caches, name="Qwen3-8B-Q8_0", layers=36, named_by_user=True, format="gguf",
        architecture="qwen3", context_length=40_960,
    )  # fmt: skip


def strategy(
    name: str,
    viability: Viability,
    limit: str,
    basis: str,
    *reach: float | None,
    unit: str = "tok/s",
    points: tuple[Point, ...] = (),
    levers: tuple[Lever, ...] = (),
) -> Strategy:
    """A strategy that reaches from `reach[0]` to `reach[1]`."""
    low, high = reach or (None, None)
    return Strategy(
        strategy=name, viability=viability, limit=limit, basis=basis, unit=unit, low=low, high=high,
        points=points, levers=levers,
    )  # fmt: skip


def offload(
    layers: int, gpu: tuple[float, float], layer: tuple[float, float], holds: int | None = None
) -> tuple[Point, ...]:
    """-ngl from all to none: `gpu` and `layer` are milliseconds of all on the GPU and of one layer
    on the CPU, fastest and slowest; the VRAM holds up to `holds` of them."""
    points = []
    for ngl in range(layers + 1, -1, -1):
        left = layers + 1 - ngl
        points.append(
            Point(
                setting=f"ngl {ngl}",
                low=1000 / (gpu[1] + left * layer[1]),
                high=1000 / (gpu[0] + left * layer[0]),
                cpu_layers=min(left, layers),
                cpu_bytes=left * 248_000_000,
                fits=holds is None or ngl <= holds,
            )
        )
    return tuple(points)


def experts(layers: int, holds_from: int) -> tuple[Point, ...]:
    """--n-cpu-moe from none to all."""
    return tuple(
        Point(
            setting=f"ncmoe {n}",
            low=1000 / (10 + n),
            high=1000 / (8 + 0.6 * n),
            cpu_layers=n,
            fits=n >= holds_from,
        )
        for n in range(layers + 1)
    )


V, M, N, U = Viability.VIABLE, Viability.MARGINAL, Viability.NOT_VIABLE, Viability.UNKNOWN
MASKED = "CPU instruction set (SSE2), then DRAM"
CPU_BASIS = "4-8 cores x 0.9-1.1 GB/s (reference); DRAM 11.7 GB/s"
CURVE = offload(64, (24.0, 28.2), (28.3, 69.0))
FASTER = Lever(resource="bandwidth", change="a card with 1,792 GB/s", low=75, high=86)
HOST = Lever(resource="instruction_set", change="CPU type host (AVX2)", low=0.6, high=0.7)

L40_STRATEGIES = (
    strategy("gpu-resident", V, "VRAM bandwidth, 864 GB/s", "0.7-0.8 x 864 / 16.7 GB", 36.3, 41.5,
             levers=(FASTER,)),
    strategy("tensor-parallel", U, "link between the cards, not measured",
             "ceiling: 3 x 864 GB/s; may be slower than one card", None, 124.0),
    strategy("partial-offload", N, MASKED, f"{CPU_BASIS}; a GB on the CPU adds 114-278 ms a token",
             0.9, 19.1, points=(CURVE[1], CURVE[15]),
             levers=(Lever(resource="instruction_set", change="CPU type host (AVX2): ngl 50",
                           low=2.6, high=3.0),)),
    strategy("cpu-only", N, MASKED, CPU_BASIS, 0.22, 0.53, levers=(HOST,)),
    strategy("kv-on-host", N, "PCIe, 31.5 GB/s", "8,192 tokens are read over the link each token",
             9.0, 14.0),
    strategy("host-kv-pool", V, "DRAM, 11.7 GB/s",
             "65,536 B a token; room for 116 GiB; no SIMD needed", 0.06, 0.11,
             unit="s to fetch 10k cached tokens from RAM"),
    strategy("speculative", V, "VRAM bandwidth, 864 GB/s",
             "MTP, 3 tokens ahead, acceptance 0.6-0.8 (not measured)", 51.0, 78.0),
    strategy("model-load", V, "disk, 2.1 GB/s", "16.3 GiB, none of it in the page cache", 8.3, 10.4,
             unit="s"),
)  # fmt: skip

L40_FITS = (
    Fit(
        strategy="gpu-resident",
        engine="llama.cpp",
        room="VRAM of one card",
        needs=(
            Need(what="weights", bytes=16_700_000_000),
            Need(what="KV of 8,192 tokens", bytes=536_870_912),
            Need(what="state of 1 request", bytes=156_893_184),
            Need(what="buffers and CUDA", bytes=GIB),
        ),
        needed_bytes=18_467_505_920,
        available_bytes=48_305_799_168,
        fits=True,
        basis="46,068 MiB, 0 in use",
    ),
    Fit(
        strategy="gpu-resident",
        engine="SGLang",
        room="VRAM of one card",
        needs=(
            Need(what="weights", bytes=54_641_395_712),
            Need(what="3 state slots a request", bytes=461_832_192),
        ),
        needed_bytes=55_103_227_904,
        available_bytes=48_305_799_168,
        fits=False,
        basis="46,068 MiB, 0 in use",
        advice="--tp 2, or weights of 8 bits or fewer",
    ),
    Fit(
        strategy="host-kv-pool",
        engine="SGLang",
        room="host RAM",
        needs=(
            Need(what="pool of 277,365 tokens", bytes=18_177_392_640),
            Need(what="reserve", bytes=10 * GIB),
        ),
        needed_bytes=18_177_392_640 + 10 * GIB,
        available_bytes=134_963_200_000,
        fits=True,
        basis="MemAvailable",
    ),
    Fit(
        strategy="host-kv-pool",
        engine="SGLang",
        room="memlock",
        needs=(Need(what="pinned pool", bytes=18_177_392_640),),
        needed_bytes=18_177_392_640,
        available_bytes=None,
        fits=None,
        basis="the limit of the engine's service is not known",
    ),
)

L40_ENGINES = (
    EngineStart(
        engine="llama.cpp",
        command="llama-server -m Qwen3.5-27B-Q4_K_XL.gguf -ngl 99 -sm none -c 8192 -fa on",
        flags=(
            Flag(
                flag="-ngl 99", why="all 65 layers on the GPU; 64 would leave one, at 10-19 tok/s"
            ),
            Flag(flag="-sm none", why="one card holds it; a split gains nothing for one request"),
            Flag(flag="-c 8192", why="the context asked for"),
        ),
    ),
    EngineStart(
        engine="SGLang",
        command="python -m sglang.launch_server --model-path MODEL --tp 1 --hicache-ratio 2",
        flags=(Flag(flag="--hicache-ratio 2", why="cached prefixes come back in 0.06-0.11 s"),),
        risks=("wrong output on host hits of hybrid models (sglang#39830, open in 2026-09)",),
    ),
    EngineStart(engine="vLLM", command=None, not_for="it loads no GGUF of this architecture"),
)


def _run(ngl: int, rate: float, spread: float, **members: object) -> Run:
    made = Run(
        source="bench.jsonl",
        tool="llama-bench",
        tokens_per_second=rate,
        spread=spread,
        gpu_layers=ngl,
        generated_tokens=128,
        gpus=("NVIDIA L40",),
        build="b4321",
    )
    return replace(made, **members)


L40_COMPARISONS = (
    Comparison(
        run=_run(99, 38.0, 0.05), strategy="gpu-resident", low=36.3, high=41.5, ceiling=51.9,
        share=0.73, explained_by="VRAM bandwidth",
        says="73 % of what 864 GB/s allow for 16.7 GB a token: as decode does on this card.",
    ),
    Comparison(
        run=_run(96, 37.99, 0.07), strategy="gpu-resident", low=36.3, high=41.5, ceiling=51.9,
        share=0.73, explained_by="VRAM bandwidth",
        says="The same as -ngl 99: from 65 on, no layer is left on the CPU.",
    ),
    Comparison(
        run=_run(50, 3.72, 0.02), strategy="partial-offload", low=0.9, high=2.2, ceiling=3.3,
        share=1.13, explained_by=None,
        says="Faster than the CPU's instructions and its memory allow: 15 layers at 15 GB/s.",
        look_at=("the build: was it SSE2 alone?",),
    ),
    Comparison(
        run=_run(0, 0.07, 0.0), strategy="cpu-only", low=0.2, high=0.5, ceiling=0.53, share=0.13,
        explained_by=None, says="6 to 10 times slower than predicted.",
        look_at=("paging", "contention", "the number of threads"),
    ),
)  # fmt: skip

SLOW_WHEN_SMALL = (
    "Without SSSE3, q8_0 decodes 3.3 times as fast as q4_0 on this CPU although it has twice the "
    "bytes: a smaller quantisation makes it slower."
)
CONTRADICTION = (
    "-ngl 50 and -ngl 0 contradict each other: 14-15 GB/s and 1.2 GB/s of weights on the same CPU. "
    "Neither tells what this CPU can do."
)

THREE_L40 = Plan(
    nodecheck_version="0.1.0",
    time="2026-11-30T02:11:09+00:00",
    host=HostInfo(source="live", holds=("cpu", "memory"), name="node7"),
    node=("KVM guest (Q35)", "8 vCPU", "142 GiB RAM", "3x NVIDIA L40 45 GiB"),
    workload=hybrid_27b(),
    serving=Serving(context_tokens=8192),
    strategies=L40_STRATEGIES,
    curves=(Curve(strategy="partial-offload", setting="-ngl", points=CURVE),),
    fits=L40_FITS,
    engines=L40_ENGINES,
    advice=(SLOW_WHEN_SMALL,),
    elapsed_seconds=3.1,
)
"""The masked node and a hybrid model of 27B: fine on the GPU, hopeless on the CPU."""

MEASURED = replace(
    THREE_L40,
    comparisons=L40_COMPARISONS,
    conclusions=(CONTRADICTION,),
)
"""The same with the rows of llama-bench beside it."""

ROOMIER = Lever(resource="vram", change="6 GiB more", low=96, high=121)
REFERENCE = "8 cores x 15.5-19.2 GB/s (reference)"

MOE = replace(
    THREE_L40,
    node=("bare metal", "16 CPUs", "64 GiB RAM", "1x NVIDIA GeForce RTX 4070 12 GiB"),
    workload=moe_30b(),
    strategies=(
        strategy("gpu-resident", N, "VRAM size", "17.9 GiB needed, 12 GiB of VRAM on 1 card"),
        strategy("expert-offload", V, "DRAM, 52 GB/s", "--n-cpu-moe 22: 0.6 GB of experts a token",
                 31.0, 48.0, levers=(ROOMIER,)),
        strategy("partial-offload", V, "DRAM, 52 GB/s", "ngl 31: 0.7 GB on the CPU", 27.0, 40.0),
        strategy("cpu-only", V, "DRAM, 52 GB/s", REFERENCE, 17.0, 26.0),
    ),
    curves=(
        Curve(strategy="partial-offload", setting="-ngl",
              points=offload(48, (8.0, 10.0), (0.6, 0.9), holds=31)),
        Curve(strategy="expert-offload", setting="--n-cpu-moe",
              points=experts(48, holds_from=22)),
    ),
    fits=(
        Fit(strategy="gpu-resident", engine="llama.cpp", room="VRAM of one card",
            needs=(Need(what="weights", bytes=17 * GIB), L40_FITS[0].needs[1]),
            needed_bytes=18 * GIB, available_bytes=12 * GIB, fits=False, basis="12,282 MiB",
            advice="--n-cpu-moe 22 leaves 6.1 GiB of experts in RAM"),
    ),
    engines=(L40_ENGINES[0],),
    advice=(),
)  # fmt: skip
"""A model whose experts lie in RAM."""

SMALL = replace(
    THREE_L40,
    node=("bare metal", "16 CPUs", "252 GiB RAM", "1x NVIDIA L40 45 GiB"),
    workload=dense_8b(),
    strategies=(
        strategy("gpu-resident", V, "VRAM bandwidth, 864 GB/s", "864 / 8.0 GB", 75.0, 86.0),
        strategy("partial-offload", V, "DRAM, 140 GB/s", "16 cores", 15.0, 80.0),
        strategy("cpu-only", V, "DRAM, 140 GB/s", "16 cores", 12.0, 18.0),
        strategy("host-kv-pool", V, "PCIe, 25.2 GB/s", "147,456 B a token", 0.06, 0.09,
                 unit="s to fetch 10k cached tokens from RAM"),
    ),
    curves=(Curve(strategy="partial-offload", setting="-ngl",
                  points=offload(36, (11.6, 13.3), (1.2, 1.5))),),
    fits=(replace(L40_FITS[0], needs=(), needed_bytes=10 * GIB),),
    advice=(),
)  # fmt: skip
"""A small model on a healthy node."""

CPU_NODE = replace(
    THREE_L40,
    node=("KVM guest", "2 vCPU", "23 GiB RAM"),
    workload=dense_8b(),
    strategies=(
        strategy("cpu-only", N, "CPU cores or DRAM, 24.1 GB/s", "2 cores x 15.8 GB/s", 2.1, 3.1,
                 levers=(Lever(resource="quantisation", change="q4_k", low=4.0, high=5.6),)),
    ),
    curves=(), fits=(), engines=(), advice=(),
)  # fmt: skip
"""Two vCPUs and no GPU."""

UNKNOWN = replace(
    CPU_NODE,
    workload=replace(
        from_numbers("q4_k model", round(16.3 * GIB), 64, "q4_k"),
        notes=("nothing is known of its attention cache",),
    ),
    strategies=(
        strategy("gpu-resident", U, "not known", "the VRAM rate of a card is not known"),
        strategy("host-kv-pool", U, "not known", "bytes of cache a token are not known", unit="s"),
    ),
    serving=Serving(),
)
"""A model of which only the size is known, on a node of which little is."""

PLANS = {
    "three-l40": THREE_L40,
    "measured": MEASURED,
    "moe": MOE,
    "small": SMALL,
    "cpu": CPU_NODE,
    "unknown": UNKNOWN,
}
