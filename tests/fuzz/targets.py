"""What is fuzzed, what must hold of every input, and inputs to begin with."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from nodecheck.workload import config as config_package
from nodecheck.workload.config.families import BY_TYPE
from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.read import model_files, read_workload
from tests.workload.gguf import files as gguf_files
from tests.workload.gguf import shapes as gguf_shapes
from tests.workload.gguf.shapes import Width, dense
from tests.workload.hf.files import (
    LLAMA_CONFIG,
    entries,
    llama,
    write,
    write_index,
    write_raw,
)

SECONDS = 1.0
"""Of processor time, which any input may take."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check(path: Path) -> None:
    """AssertionError, or whatever it was, where reading a path breaks a promise."""
    begin = time.process_time()
    try:
        work = read_workload(path)
        model_files(path)
    except WorkloadError as error:
        message = str(error)
        assert message, "no message"
        assert not _UNPRINTABLE.search(message), f"not one printable line: {message!r}"
        assert len(message) < 1000, "a message without end"
    else:
        assert msgspec.json.decode(msgspec.json.encode(work), type=type(work)) == work
        assert work.weight_bytes_shipped >= 0
        assert work.layers > 0
        assert not any(_UNPRINTABLE.search(note) for note in (work.name, *work.notes))
    assert time.process_time() - begin < SECONDS, "too slow"


def gguf(folder: Path, data: bytes) -> Path:
    """A file of these bytes."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    return path


def safetensors(folder: Path, data: bytes) -> Path:
    """The bytes are a header, whose length is right; as much data follows as the last byte says."""
    return write_raw(folder / "model.safetensors", data[:-1], data[-1] if data else 0)


def config(folder: Path, data: bytes) -> Path:
    """A configuration of these bytes."""
    path = folder / "config.json"
    path.write_bytes(data)
    return path


def quantised(folder: Path, data: bytes) -> Path:
    """Two configurations, of which the second is the quantisation's."""
    first, _, second = data.partition(b"\0")
    (folder / "config.json").write_bytes(first)
    (folder / "hf_quant_config.json").write_bytes(second)
    return folder


def keys(folder: Path, data: bytes) -> Path:
    """A sound configuration of some family, changed: a byte for each key and each value."""
    numbers = iter(data)
    said = SIZES | {"model_type": FAMILIES[next(numbers, 0) % len(FAMILIES)]}
    for first, second, value in zip(numbers, numbers, numbers, strict=False):
        key = WORDS[(first << 8 | second) % len(WORDS)]
        said[key] = VALUES[value % len(VALUES)]
    path = folder / "config.json"
    path.write_text(json.dumps(said))
    return path


SOURCES = sorted((Path(config_package.__file__).parent).rglob("*.py"))
WORDS = sorted({w for p in SOURCES for w in re.findall(r'"([a-z][a-zA-Z0-9_]+)"', p.read_text())})
"""Every key that the reader of configurations may look for, and other words of it."""

FAMILIES = sorted(BY_TYPE)

SIZES: dict[str, object] = LLAMA_CONFIG | {
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "n_shared_experts": 1, "kv_lora_rank": 16, "q_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "sliding_window": 128,
    "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 1, "expand": 2,
    "conv_kernel": 4, "state_size": 8, "hybrid_override_pattern": "M*", "conv_L_cache": 3,
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "full_attention_interval": 2,
    "shared_expert_intermediate_size": 32, "mamba_d_state": 8, "mamba_d_conv": 4,
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_expand": 2,
    "time_step_rank": 4, "first_k_dense_replace": 1, "quantization_config": {},
}  # fmt: skip
"""Sizes of every kind of layer."""

VALUES: list[object] = [
    None, True, False, 0, 1, 2, 3, 4, -1, 8, 64, 512, 2**31 - 1, 2**31, 2**63, 2**70, 10**400, 32.0,
    0.5, 1e300, float("inf"), float("nan"), "", "32", "x" * 3000, "a\nb\u2028\ud800", [], [0],
    [1] * 600,
    [2**31 - 1] * 2, ["full_attention", "sliding_attention"], ["mamba", "attention"], {}, {"a": 1},
    {"quant_method": "fp8"}, {"quant_method": "awq", "bits": 4, "group_size": 128},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["(a+)+$", "re:(.*)*x", "*"]},
    {"bits": 3, "group_size": 0}, {"layer": "Mamba2"}, [[[[]]]], ["M"], "M*", "bfloat16", "int8",
]  # fmt: skip


def folder(folder: Path, data: bytes) -> Path:
    """An index, a configuration and two headers of shards."""
    index, said, *headers = (*data.split(b"\0", 3), b"", b"", b"")[:4]
    (folder / "model.safetensors.index.json").write_bytes(index)
    (folder / "config.json").write_bytes(said)
    for number, header in enumerate(headers, 1):
        write_raw(folder / f"model-{number:05d}-of-00002.safetensors", header)
    return folder


TARGETS: dict[str, Callable[[Path, bytes], Path]] = {
    "gguf": gguf,
    "safetensors": safetensors,
    "config": config,
    "keys": keys,
    "quantised": quantised,
    "folder": folder,
}


@contextlib.contextmanager
def room() -> Iterator[Path]:
    """An empty folder, in memory where there is some."""
    shared = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="nodecheck-fuzz-", dir=shared if shared.is_dir() else None))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def run(target: str, data: bytes, room: Path) -> None:
    """One input, in a folder that is empty before and after."""
    try:
        check(TARGETS[target](room, data))
    finally:
        for path in room.iterdir():
            path.unlink()


def seeds(target: str) -> list[bytes]:
    """Sound inputs, small ones first."""
    return SEEDS[target]()


def _ggufs() -> list[bytes]:
    small = [
        dense("llama", Width(2, 64, 4, 2, 16, 128, 100)),
        dense("qwen3", Width(1, 64, 4, 2, 16, 128, 100), qk_norm=True),
        dense("gemma2", Width(2, 64, 4, 2, 32, 128, 100), tied=True, window=128),
    ]
    odd: dict[str, gguf_files.Value] = {
        "split.count": 2,
        "general.alignment": 64,
        "x": [1, 2, 3],
        "y": "text",
        "z": 1.5,
    }
    files = [gguf_files.header(shape.keys, shape.tensors) for shape in small]
    files += [gguf_files.header(odd, [gguf_files.Tensor("a", (32,), "q8_0")])]
    whole = [gguf_shapes.nemotron_h_8b(), gguf_shapes.lfm2_1_2b(), gguf_shapes.deepseek_v2_lite()]
    return files + [gguf_files.header(s.keys, s.tensors[:60]) for s in whole]


def _header(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> bytes:
    return json.dumps(entries(tensors)).encode()


def _headers() -> list[bytes]:
    plain = _header({"a": ("F32", (2, 3)), "b": ("U8", ())})
    layer = "model.layers.0.mlp.experts.1.up_proj"
    packed = _header(
        {
            "model.embed_tokens.weight": ("BF16", (4, 2)),
            f"{layer}.qweight": ("I32", (1, 1)),
            f"{layer}.qzeros": ("I32", (1, 1)),
            f"{layer}.scales": ("F16", (1, 8)),
            "model.layers.0.self_attn.q_proj.weight": ("F8_E4M3", (2, 2)),
            "model.layers.0.self_attn.q_proj.weight_scale_inv": ("F32", (1, 1)),
        }
    )
    metadata = (
        b'{"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    )
    return [b"{}\0", plain + b"\x19", metadata + b"\1", packed + b"\x38", b"{}   \0"]


def _configs() -> list[bytes]:
    changes: list[dict[str, object]] = [
        {},
        {"model_type": "qwen2_moe", "num_experts": 8, "num_experts_per_tok": 2},
        {"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 6},
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
        {"layer_types": ["sliding_attention", "full_attention"], "model_type": "gpt_oss"},
    ]
    nested = {"model_type": "gemma3", "text_config": LLAMA_CONFIG | {"model_type": "gemma3_text"}}
    return [json.dumps(LLAMA_CONFIG | change).encode() for change in changes] + [
        json.dumps(nested).encode()
    ]


def _keys() -> list[bytes]:
    """Every family, unchanged and changed by chance."""
    chance = random.Random(5)
    return [bytes([n]) + chance.randbytes(3 * (n % 4)) for n in range(min(256, len(FAMILIES)))]


def _quantised() -> list[bytes]:
    said = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["*head"]}}
    return [text + b"\0" + json.dumps(said).encode() for text in _configs()[:3]]


def _folders() -> list[bytes]:
    with room() as made:
        names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        small = llama(layers=1)
        index = write_index(made, dict.fromkeys(small, names[0]), total_size=1).read_bytes()
        path = write(made / "m", small)
        length = int.from_bytes(path.read_bytes()[:8], "little")
        header = path.read_bytes()[8 : 8 + length]
    said = json.dumps(LLAMA_CONFIG | {"num_hidden_layers": 1}).encode()
    return [b"\0".join((index, said, header, b"{}")), b"\0".join((index, b"{}", b"{}", b"{}"))]


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "gguf": _ggufs,
    "safetensors": _headers,
    "config": _configs,
    "keys": _keys,
    "quantised": _quantised,
    "folder": _folders,
}
