"""Writes safetensors files of real shapes: headers in full, data as one hole."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodecheck.workload.hf.safetensors import BITS

Shapes = Mapping[str, tuple[str, Sequence[int]]]
"""Dtype and shape of each tensor."""


def size_of(dtype: str, shape: Sequence[int]) -> int:
    return math.prod(shape) * BITS[dtype] // 8


def total(tensors: Shapes) -> int:
    return sum(size_of(dtype, shape) for dtype, shape in tensors.values())


def entries(tensors: Shapes) -> dict[str, dict[str, object]]:
    """One tensor behind the other, in this order."""
    header: dict[str, dict[str, object]] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + size_of(dtype, shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    return header


def write_raw(path: Path, header: bytes, data_bytes: int = 0, *, length: int | None = None) -> Path:
    """A file of this header, whatever it holds; `length` is what it claims to be long."""
    with path.open("wb") as file:
        file.write((len(header) if length is None else length).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + data_bytes)
    return path


def write(path: Path, tensors: Shapes, *, metadata: Mapping[str, str] | None = None) -> Path:
    header: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    text = json.dumps(header | entries(tensors), separators=(",", ":")).encode()
    return write_raw(path, text + b" " * (-len(text) % 8), total(tensors))


def write_shards(
    folder: Path, tensors: Shapes, count: int, *, index: bool = True, prefix: str = "model"
) -> list[Path]:
    """The tensors in so many files, and the index that names them."""
    names = list(tensors)
    step = -(-len(names) // count)
    weight_map, files = {}, []
    for number in range(count):
        held = names[number * step : (number + 1) * step]
        name = f"{prefix}-{number + 1:05d}-of-{count:05d}.safetensors"
        files.append(write(folder / name, {n: tensors[n] for n in held}))
        weight_map.update(dict.fromkeys(held, name))
    if index:
        write_index(folder, weight_map, total_size=total(tensors))
    return files


def write_index(folder: Path, weight_map: Mapping[str, object], **metadata: object) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": metadata, "weight_map": dict(weight_map)}))
    return path


def llama(
    layers: int = 2, *, hidden: int = 64, tied: bool = False, prefix: str = "model."
) -> dict[str, tuple[str, Sequence[int]]]:
    """A small Llama in bf16: 4 heads of 16, 2 for keys and values, FFN 128, vocabulary 100."""
    tensors: dict[str, tuple[str, Sequence[int]]] = {
        f"{prefix}embed_tokens.weight": ("BF16", (100, hidden))
    }
    for number in range(layers):
        layer = f"{prefix}layers.{number}."
        shapes = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (64, hidden),
            "self_attn.k_proj": (32, hidden),
            "self_attn.v_proj": (32, hidden),
            "self_attn.o_proj": (hidden, 64),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (128, hidden),
            "mlp.up_proj": (128, hidden),
            "mlp.down_proj": (hidden, 128),
        }
        tensors |= {f"{layer}{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    tensors[f"{prefix}norm.weight"] = ("BF16", (hidden,))
    if not tied:
        tensors["lm_head.weight"] = ("BF16", (100, hidden))
    return tensors


LLAMA_CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def write_config(folder: Path, **changed: object) -> Path:
    """The configuration of `llama()`."""
    path = folder / "config.json"
    path.write_text(json.dumps(LLAMA_CONFIG | changed))
    return path
