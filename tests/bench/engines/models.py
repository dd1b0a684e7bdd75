"""Synthetic GGUF files: models whose weights are random numbers."""

from __future__ import annotations

import random
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from nodecheck.serving import Kind
from nodecheck.workload.read import read_workload


@dataclass(frozen=True)
class Model:
    """A model's shape; its weights are random numbers."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int
    architecture: str = "llama"
    is_tied: bool = False
    """Its output is its embedding."""


OURS = Model("synthetic-1.8B", 16, 3072, 24, 8, 128, 8192, 32000)
LLAMA_1B = Model("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, is_tied=True)
QWEN_8B = Model("Qwen3-8B", 36, 4096, 32, 8, 128, 12288, 151936, architecture="qwen3")

FORMATS = ("Q4_0", "Q4_K_M", "Q8_0", "F16")
"""As llama-quantize names them."""

ALIGNMENT = 32
UINT32, FLOAT32, STRING = 4, 6, 8

Shape = tuple[int, ...]


def make(
    folder: Path, quantize: Path, model: Model = OURS, formats: tuple[str, ...] = FORMATS
) -> dict[str, Path]:
    """Write what is missing of the files into folder; the path of each by its format."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.gguf" for name in formats}
    source = folder / "F16.gguf"
    for name in sorted(formats, key=lambda name: name != "F16"):
        if paths[name].exists():
            continue
        if not source.exists():
            part = source.with_suffix(".part")
            write(part, model)
            part.rename(source)
        if name != "F16":
            part = paths[name].with_suffix(".part")
            subprocess.run([quantize, source, part, name], check=True, capture_output=True)
            part.rename(paths[name])
    if "F16" not in formats:
        source.unlink(missing_ok=True)
    return paths


def bytes_per_token(path: Path) -> dict[str, int]:
    """Bytes of weights that one token's decode reads, by weight type.

    Norms (f32) and the one row of the embedding are left out: 0.04 %.
    """
    work = read_workload(path)
    read = Counter[str]()
    for each in work.outside:
        read[each.type] += each.read_bytes if each.kind is Kind.OUTPUT else 0
    for group in work.layer_groups:
        for each in group.weights:
            read[each.type] += each.read_bytes * len(group.numbers)
    return {kind: size for kind, size in read.items() if kind != "f32" and size}


def warm(path: Path) -> None:
    """Read the file once, so that it lies in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def shapes(model: Model) -> Iterator[tuple[str, Shape]]:
    """Every tensor's name and shape, the length of a row first."""
    yield "token_embd.weight", (model.width, model.vocabulary)
    yield "output_norm.weight", (model.width,)
    if not model.is_tied:
        yield "output.weight", (model.width, model.vocabulary)
    for layer in range(model.layers):
        for name, shape in _layer(model).items():
            yield f"blk.{layer}.{name}.weight", shape


def _layer(model: Model) -> dict[str, Shape]:
    queries, keys = model.heads * model.head, model.kv_heads * model.head
    norms = ("attn_q_norm", "attn_k_norm") if model.architecture == "qwen3" else ()
    return {
        "attn_norm": (model.width,),
        "attn_q": (model.width, queries),
        "attn_k": (model.width, keys),
        "attn_v": (model.width, keys),
        "attn_output": (queries, model.width),
        **dict.fromkeys(norms, (model.head,)),
        "ffn_norm": (model.width,),
        "ffn_gate": (model.width, model.ffn),
        "ffn_up": (model.width, model.ffn),
        "ffn_down": (model.ffn, model.width),
    }


def write(path: Path, model: Model) -> None:
    """Write the F16 file."""
    draw = random.Random(3)
    noise = struct.pack(f"<{1 << 20}e", *(draw.gauss(0, 0.02) for _ in range(1 << 20)))
    with path.open("wb") as file:
        file.write(header(model))
        for _, shape in shapes(model):
            if len(shape) == 1:
                file.write(struct.pack("<f", 1.0) * shape[0])
                continue
            left = 2 * prod(shape)
            while left:
                # Every stretch starts elsewhere in the noise: no two rows are alike.
                start = 2 * draw.randrange(1 << 19)
                left -= file.write(noise[start : start + min(left, 1 << 20)])


def metadata(model: Model) -> dict[str, str | int | float]:
    """What an engine must know of it."""
    kind = model.architecture
    return {
        "general.architecture": kind,
        "general.file_type": 1,
        f"{kind}.block_count": model.layers,
        f"{kind}.context_length": 2048,
        f"{kind}.embedding_length": model.width,
        f"{kind}.feed_forward_length": model.ffn,
        f"{kind}.attention.head_count": model.heads,
        f"{kind}.attention.head_count_kv": model.kv_heads,
        f"{kind}.attention.key_length": model.head,
        f"{kind}.attention.value_length": model.head,
        f"{kind}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{kind}.rope.dimension_count": model.head,
        f"{kind}.vocab_size": model.vocabulary,
        "tokenizer.ggml.model": "no_vocab",
    }


def header(model: Model) -> bytes:
    """All that comes before the first tensor's data, padded. GGUF version 3."""
    names, values = list(shapes(model)), metadata(model)
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(names), len(values))
    out += b"".join(_text(key) + _value(value) for key, value in values.items())
    offset = 0
    for name, shape in names:
        number, size = (0, 4) if len(shape) == 1 else (1, 2)
        out += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        offset += -(-prod(shape) * size // ALIGNMENT) * ALIGNMENT
    return out + bytes(-len(out) % ALIGNMENT)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: str | float) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    return struct.pack("<If", FLOAT32, value)
