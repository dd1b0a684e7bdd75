"""Real models in GGUF: exact parameters, reads, caches and states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from nodecheck.serving import Kind, StateBytes, Workload
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf.header import read_header
from nodecheck.workload.gguf.model import workload
from tests.workload.gguf import shapes
from tests.workload.gguf.files import Tensor, tensor_bytes, write
from tests.workload.gguf.shapes import Shape


def load(folder: Path, shape: Shape) -> Workload:
    path = write(folder / "model.gguf", shape.keys, shape.tensors)
    with open_regular(path) as file:
        return workload([read_header(file)], "model")


def parameters_of(work: Workload, kind: Kind) -> int:
    held = [(1, w) for w in work.outside]
    held += [(len(group.numbers), w) for group in work.layer_groups for w in group.weights]
    return sum(count * w.parameters for count, w in held if w.kind is kind)


class Exact(NamedTuple):
    """Of a sequence of 131072 tokens: what windows leave, and llama.cpp's pool."""

    parameters: int
    read: int
    kv_bf16: int
    kv_layers: int
    state_sglang: int | None = None
    state_llama_cpp: int | None = None
    window_only: int | None = None
    llama_cpp_pool: int | None = None


MODELS: list[tuple[Callable[[], Shape], Exact]] = [
    (shapes.llama_3_1_8b, Exact(8030261248, 7504928768, 131072, 32)),
    (shapes.llama_3_2_1b, Exact(1235814400, 1235816448, 32768, 16)),
    (shapes.qwen2_5_7b, Exact(7615616512, 7070622720, 57344, 28)),
    (shapes.qwen3_8b, Exact(8190735360, 7568409600, 147456, 36)),
    (shapes.qwen3_30b_a3b, Exact(30532122624, 3041869824, 98304, 48)),
    (shapes.mixtral_8x7b, Exact(46702792704, 12748857344, 131072, 32)),
    (lambda: shapes.mixtral_8x7b(merged=False), Exact(46702792704, 12748857344, 131072, 32)),
    (shapes.command_r, Exact(34980831232, 34980839424, 1310720, 40)),
    (shapes.deepseek_v2_lite, Exact(15706484224, 2451437056, 31104, 27)),
    (shapes.deepseek_v3, Exact(671026419200, 36625625600, 70272, 61)),
    (shapes.glm_4_5_air, Exact(106852251264, 12803376768, 188416, 46)),
    (
        shapes.mistral_7b,
        Exact(7241732096, 7110664192, 131072, 32, None, None, 536870912, 603979776),
    ),
    (
        shapes.phi_3_mini,
        Exact(3821079552, 3722582016, 393216, 32, None, None, 804913152, 1006632960),
    ),
    (
        shapes.gemma_2_9b,
        Exact(9241705984, 9241709568, 344064, 42, None, None, 23253221376, 23341301760),
    ),
    (
        shapes.gemma_3n_e4b,
        Exact(6866696688, 4517897456, 40960, 20, None, None, 1090519040, 1107296256),
    ),
    (
        shapes.gpt_oss_20b,
        Exact(20914757184, 3608310144, 49152, 24, None, None, 3224371200, 3240099840),
    ),
    (shapes.qwen3_5_27b, Exact(26895998464, 25624605184, 65536, 16, 153944064, 156893184)),
    (shapes.qwen3_next_80b, Exact(79674391296, 3563766528, 24576, 12, 77266944, 79036416)),
    (shapes.nemotron_h_8b, Exact(8100852736, 7563985920, 16384, 4, 102137856, 103612416)),
    (shapes.granite_4_h_small, Exact(32207337984, 8803125760, 16384, 4, 152819712, 154644480)),
    (shapes.falcon_h1_7b, Exact(7585648736, 7186144352, 45056, 44, 139358208, 140304384)),
    (shapes.lfm2_1_2b, Exact(1170340608, 1170342656, 12288, 6, 81920, 163840)),
    (shapes.falcon_mamba_7b, Exact(7272665088, 7006330880, 0, 0, 36700160, 39845888)),
    (shapes.mamba2_2_7b, Exact(2702599680, 2702602240, 0, 0, 169836544, 171900928)),
    (shapes.minimax_text_01, Exact(456089655296, 47174119424, 40960, 10, None, 293601280)),
]


@pytest.mark.parametrize(
    ("shape", "exact"), MODELS, ids=[m[0].__name__.replace("<lambda>", "mixtral") for m in MODELS]
)
def test_a_model_to_the_byte(tmp_path: Path, shape: Callable[[], Shape], exact: Exact) -> None:
    work = load(tmp_path, shape())
    assert work.parameters == exact.parameters
    assert work.read_parameters_per_token == exact.read
    assert work.read_bytes_per_token_shipped == 2 * exact.read
    assert work.kv_bytes_per_token is not None
    assert work.kv_bytes_per_token.bf16 == exact.kv_bf16
    assert work.kv_bytes_per_token.q8_0 == exact.kv_bf16 * 17 // 32
    assert work.layers_with_kv == exact.kv_layers
    state = exact.state_llama_cpp and StateBytes(
        sglang=exact.state_sglang, llama_cpp=exact.state_llama_cpp
    )
    assert work.state_bytes_per_sequence == state
    assert work.kv_bytes_at_131072 is not None
    pool = work.kv_bytes_at_131072
    assert pool.window_only == exact.window_only or exact.window_only is None
    assert pool.llama_cpp == exact.llama_cpp_pool or exact.window_only is None
    assert work.notes == ()
    assert work.format == "gguf"


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        (shapes.qwen3_5_27b, {"recurrent": 5562044928, "attention": 1677721600, "norm": 674816,
                              "ffn": 17112760320, "mtp": 424699392, "output": 1271398400}),
        (shapes.falcon_h1_7b, {"recurrent": 1318949984, "attention": 484442112, "norm": 408576}),
        (shapes.minimax_text_01, {"recurrent": 17616076800, "attention": 1132462080,
                                  "ffn": 15728640, "experts": 434865438720}),
        (shapes.lfm2_1_2b, {"recurrent": 167833600, "attention": 62914560, "output": 0}),
        (shapes.gpt_oss_20b, {"attention": 637203456, "ffn": 2212608, "experts": 19116933120}),
        (shapes.glm_4_5_air, {"ffn": 936646272, "experts": 99656663040, "mtp": 3616573568}),
        (shapes.gemma_3n_e4b, {"embedding": 2886205440, "attention": 367001600}),
    ],
)  # fmt: skip
def test_parameters_by_kind(
    tmp_path: Path, shape: Callable[[], Shape], kinds: dict[str, int]
) -> None:
    work = load(tmp_path, shape())
    assert {name: parameters_of(work, Kind(name)) for name in kinds} == kinds


def test_the_members_that_name_a_model(tmp_path: Path) -> None:
    work = load(tmp_path, shapes.qwen3_30b_a3b())
    assert work.architecture == "qwen3moe"
    assert (work.layers, work.mtp_layers) == (48, 0)
    assert (work.hidden_size, work.vocabulary, work.kv_heads) == (2048, 151936, 4)
    assert (work.experts, work.experts_used) == (128, 8)
    assert work.context_length is None
    assert work.weight_bytes_bf16 == work.weight_bytes_shipped == 2 * 30532122624
    assert work.weight_type == "bf16"
    dense = load(tmp_path, shapes.llama_3_1_8b())
    assert (dense.experts, dense.experts_used, dense.context_length) == (None, None, 131072)


def test_mtp_blocks_are_layers_that_hold_weights_and_read_and_remember_nothing(
    tmp_path: Path,
) -> None:
    work = load(tmp_path, shapes.qwen3_5_27b())
    assert (work.layers, work.mtp_layers) == (65, 1)
    (last,) = [group for group in work.layer_groups if 64 in group.numbers]
    assert {w.kind for w in last.weights} == {Kind.MTP}
    assert sum(w.read_bytes for w in last.weights) == 0
    assert last.cache.key_elements + last.cache.state_elements == 0
    assert work.weight_bytes_shipped == 54641395712


def test_a_tied_embedding_is_stored_once_and_read_as_the_output(tmp_path: Path) -> None:
    work = load(tmp_path, shapes.llama_3_2_1b())
    embedding, output = (
        next(w for w in work.outside if w.kind is kind) for kind in (Kind.EMBEDDING, Kind.OUTPUT)
    )
    assert (embedding.bytes, embedding.read_bytes) == (525336576, 4096)
    assert (output.bytes, output.parameters, output.read_bytes) == (0, 0, 525336576)


@pytest.mark.parametrize(
    ("shape", "keeps"),
    [(shapes.mistral_7b, False), (shapes.phi_3_mini, False), (shapes.gemma_2_9b, True)],
)
def test_llama_cpp_ignores_some_windows(
    tmp_path: Path, shape: Callable[[], Shape], keeps: bool
) -> None:
    work = load(tmp_path, shape())
    assert work.llama_cpp_windows is keeps
    assert any(group.cache.window for group in work.layer_groups)


MIXTURE = {"norm": "f32", "attn_v": "q6_k", "output.weight": "q6_k"}


def test_bytes_are_those_of_each_tensor(tmp_path: Path) -> None:
    """A usual mixture: some matrices in six bits, norms in f32, the rest in four."""
    model = shapes.qwen3_8b()
    mixed = [
        Tensor(t.name, t.shape, next((k for s, k in MIXTURE.items() if s in t.name), "q4_k"))
        for t in model.tensors
    ]
    work = load(tmp_path, Shape(model.keys, mixed))
    assert work.weight_bytes_shipped == sum(map(tensor_bytes, mixed))
    other_rows_of_the_embedding = 151935 * 4096 // 256 * 144
    assert work.read_bytes_per_token_shipped == (
        work.weight_bytes_shipped - other_rows_of_the_embedding
    )
    assert work.weight_type == "q4_k"
    by_type: Counter[str] = Counter()
    for group in work.layer_groups:
        for w in group.weights:
            by_type[w.type] += w.bytes * len(group.numbers)
    assert set(by_type) == {"q4_k", "q6_k", "f32"}


def test_a_token_reads_its_experts_of_each_layer(tmp_path: Path) -> None:
    """One count for each layer, as in models that were pruned unevenly."""
    model = shapes.qwen3_30b_a3b()
    model.keys["qwen3moe.expert_used_count"] = [4] * 24 + [8] * 24
    work = load(tmp_path, model)
    assert work.experts_used == 8
    experts = 28991029248
    assert work.read_parameters_per_token == 3041869824 - experts // 128 * 2
