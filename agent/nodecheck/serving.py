"""The vocabulary of serving a model: what it weighs, how it is to be served, what was measured.

Sizes are bytes; a parameter is one number of the model, however it is stored.
"""

from __future__ import annotations

from enum import Enum

from nodecheck.model import Point, Struct

STRATEGIES = (
    "gpu-resident",
    "tensor-parallel",
    "partial-offload",
    "expert-offload",
    "kv-on-host",
    "cpu-only",
    "host-kv-pool",
    "speculative",
    "model-load",
)
"""Every way to serve a model that is judged."""


class Kind(str, Enum):
    """What a weight does in the model. `recurrent` are mixers with a state instead of a cache."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    FFN = "ffn"
    EXPERTS = "experts"
    NORM = "norm"
    OUTPUT = "output"
    MTP = "mtp"
    OTHER = "other"
    """Vision and audio towers: loaded, but not read for a token of text."""


class Weights(Struct, frozen=True, kw_only=True):
    """Weights of one kind and one storage type, in one layer or outside of all.

    `type` is as ggml or the checkpoint names it, lower case: q4_k, bf16, fp8_e4m3, int4_g128.
    `read_parameters` and `read_bytes` are what one token of one sequence reads of them.
    """

    kind: Kind
    type: str
    parameters: int
    bytes: int
    read_parameters: int
    read_bytes: int


class LayerCache(Struct, frozen=True, kw_only=True):
    """What one layer remembers of a sequence, in elements.

    `key_elements` and `value_elements` are stored for each token, of the last `window` tokens
    where there is one. `conv_elements` and `state_elements` are there once a sequence.
    """

    key_elements: int = 0
    value_elements: int = 0
    window: int | None = None
    conv_elements: int = 0
    state_elements: int = 0


class Layers(Struct, frozen=True, kw_only=True):
    """Layers that are alike, by number from 0: each holds `weights` and remembers `cache`."""

    numbers: tuple[int, ...]
    weights: tuple[Weights, ...]
    cache: LayerCache = LayerCache()


class CacheBytes(Struct, frozen=True, kw_only=True):
    """Bytes of attention cache that one token takes, by the cache's type."""

    bf16: int
    fp8: int
    q8_0: int
    q4_0: int


class StateBytes(Struct, frozen=True, kw_only=True):
    """Bytes of recurrent state that one sequence takes, by engine; None where it is not known."""

    sglang: int | None
    llama_cpp: int


class ContextBytes(Struct, frozen=True, kw_only=True):
    """Bytes of bf16 cache of one sequence at some context.

    `window_only` keeps the window's tokens and no more, `llama_cpp` is its pool, which keeps a
    batch beside the window.
    """

    window_only: int
    llama_cpp: int


class Storage(Struct, frozen=True, kw_only=True):
    """Where a model's files lie.

    `sequential_bytes_per_second` was read past the page cache; `cached_bytes` of them lie in it.
    `allocated_bytes` are on the disk: fewer than the size where the file has holes.
    """

    path: str
    fstype: str | None = None
    mount: str | None = None
    size_bytes: int | None = None
    allocated_bytes: int | None = None
    cached_bytes: int | None = None
    sequential_bytes_per_second: float | None = None
    detail: str | None = None
    """Why the rate is not known."""


class Workload(Struct, frozen=True, kw_only=True):
    """A model to serve. `named_by_user` is false for the policy's reference workload.

    `format` is gguf, safetensors, config or numbers. `weight_bytes_shipped` are the bytes of all
    weights as they are stored, MTP modules and towers included; `parameters` leaves those out.
    `weight_type` is the type of most bytes. Where `layer_groups` is empty, nothing is known of the
    parts. `layers` are the blocks that an engine counts, MTP blocks included. `experts` are those
    of a layer, `experts_used` those that a token takes. `notes` say what was assumed.
    """

    name: str
    weight_bytes_shipped: int
    layers: int
    weight_type: str
    named_by_user: bool = False
    format: str = "numbers"
    architecture: str | None = None
    parameters: int | None = None
    weight_bytes_bf16: int | None = None
    read_parameters_per_token: int | None = None
    read_bytes_per_token_shipped: int | None = None
    kv_bytes_per_token: CacheBytes | None = None
    layers_with_kv: int | None = None
    state_bytes_per_sequence: StateBytes | None = None
    kv_bytes_at_131072: ContextBytes | None = None
    hidden_size: int | None = None
    vocabulary: int | None = None
    context_length: int | None = None
    kv_heads: int | None = None
    experts: int | None = None
    experts_used: int | None = None
    mtp_layers: int = 0
    outside: tuple[Weights, ...] = ()
    layer_groups: tuple[Layers, ...] = ()
    llama_cpp_windows: bool = True
    """False where llama.cpp keeps every token although the model has a window."""
    notes: tuple[str, ...] = ()
    storage: Storage | None = None

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers keep a state instead of a cache."""
        return any(g.cache.conv_elements or g.cache.state_elements for g in self.layer_groups)


class Serving(Struct, frozen=True, kw_only=True):
    """How the model is to be served. None is "not said": the policy's figure, or a range.

    `hicache_size_bytes` and `hicache_ratio` size SGLang's host pool; `draft_tokens` are guessed
    ahead, each accepted with `acceptance` (0 to 1).
    """

    context_tokens: int | None = None
    requests: int = 1
    kv_type: str = "bf16"
    hicache_size_bytes: int | None = None
    hicache_ratio: float | None = None
    draft_tokens: int | None = None
    acceptance: float | None = None
    draft_bytes: int | None = None
    """Of a separate draft model."""


class Need(Struct, frozen=True, kw_only=True):
    """One thing that takes room."""

    what: str
    bytes: int


class Fit(Struct, frozen=True, kw_only=True):
    """Whether a way to serve has the room that it needs, in one kind of memory.

    `room` names it: "VRAM of one card", "host RAM", "memlock", "disk". `fits` is None where the
    room is not known. `advice` is what makes it fit, where it does not.
    """

    strategy: str
    engine: str | None
    room: str
    needs: tuple[Need, ...]
    needed_bytes: int
    available_bytes: int | None
    fits: bool | None
    basis: str
    advice: str | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One row of a benchmark's output. `tool` is llama-bench, sglang or vllm.

    `tokens_per_second` is what `generated_tokens` were generated with, of one sequence where
    `concurrency` is 1; `prompt_tokens_per_second` what prompts were read with. `gpus` are named by
    the tool. `when` is ISO 8601.
    """

    source: str
    tool: str
    model: str | None = None
    model_bytes: int | None = None
    tokens_per_second: float | None = None
    spread: float | None = None
    """Standard deviation of it."""
    prompt_tokens_per_second: float | None = None
    prompt_tokens: int | None = None
    generated_tokens: int | None = None
    gpu_layers: int | None = None
    cpu_expert_layers: int | None = None
    threads: int | None = None
    tensor_parallel: int | None = None
    split_mode: str | None = None
    concurrency: float | None = None
    accepted_tokens: float | None = None
    """Mean accepted length of speculative decoding."""
    kv_type: str | None = None
    build: str | None = None
    cpu: str | None = None
    gpus: tuple[str, ...] = ()
    when: str | None = None
    context_tokens: int | None = None
    """Tokens that lay in the cache before the first of these."""
    all_tokens_per_second: float | None = None
    """Of all sequences together, the reading of prompts included."""
    kv_on_host: bool = False
    """Whether the cache was kept in RAM (llama.cpp's -nkvo)."""
    mmap: bool | None = None
    placement: str | None = None
    """What else the row says of where weights lay: llama.cpp's -ot, an engine's CPU offload."""
    remarks: tuple[str, ...] = ()
    """What the row itself says of its circumstances: other traffic, another host."""


class Comparison(Struct, frozen=True, kw_only=True):
    """A run beside what the node allows. `share` is of the ceiling, which is `ceiling` tok/s.

    `explained_by` is the resource that explains it, None where none does; `says` is the sentence.
    """

    run: Run
    strategy: str | None
    low: float | None
    high: float | None
    ceiling: float | None
    share: float | None
    explained_by: str | None
    says: str
    look_at: tuple[str, ...] = ()


class Flag(Struct, frozen=True, kw_only=True):
    """A flag to start an engine with, and why."""

    flag: str
    why: str


class EngineStart(Struct, frozen=True, kw_only=True):
    """How to start one engine. `not_for` says why it is not one for this model and node."""

    engine: str
    command: str | None
    flags: tuple[Flag, ...] = ()
    risks: tuple[str, ...] = ()
    not_for: str | None = None


class Curve(Struct, frozen=True, kw_only=True):
    """A setting of an engine against speed: `points` from all on the GPU to none."""

    strategy: str
    setting: str
    points: tuple[Point, ...]
