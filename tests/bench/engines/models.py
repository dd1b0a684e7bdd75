"""Synthetic GGUF files: a llama of 1.8 B parameters whose weights are random numbers."""

from __future__ import annotations

import mmap
import random
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, FFN, VOCABULARY = 16, 3072, 24, 8, 128, 8192, 32000

FORMATS = ("Q4_0", "Q4_K_M", "Q8_0", "F16")
"""As llama-quantize names them."""

BLOCKS = {
    0: ("f32", 1, 4),
    1: ("f16", 1, 2),
    2: ("q4_0", 32, 18),
    8: ("q8_0", 32, 34),
    12: ("q4_k", 256, 144),
    14: ("q6_k", 256, 210),
}
"""GGUF type number: name, weights in a block, bytes of a block."""

METADATA: Mapping[str, str | int | float] = {
    "general.architecture": "llama",
    "general.file_type": 1,
    "llama.block_count": LAYERS,
    "llama.context_length": 2048,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": FFN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.dimension_count": HEAD,
    "llama.vocab_size": VOCABULARY,
    "tokenizer.ggml.model": "no_vocab",
}

ALIGNMENT = 32
UINT32, FLOAT32, STRING = 4, 6, 8

Shape = tuple[int, ...]


def make(folder: Path, quantize: Path) -> dict[str, Path]:
    """Write what is missing of the files into folder; the path of each by its format."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.gguf" for name in FORMATS}
    for name in reversed(FORMATS):
        if paths[name].exists():
            continue
        part = paths[name].with_suffix(".part")
        if name == "F16":
            write(part)
        else:
            subprocess.run([quantize, paths["F16"], part, name], check=True, capture_output=True)
        part.rename(paths[name])
    return paths


def bytes_per_token(path: Path) -> dict[str, int]:
    """Bytes of weights that one token's decode reads, by weight type.

    Of the embedding, one row is read: nothing. Norms (f32) are left out too: 0.04 %.
    """
    read = Counter[str]()
    for name, shape, number in Header(path).tensors():
        kind, weights, size = BLOCKS[number]
        if name != "token_embd.weight" and kind != "f32":
            read[kind] += prod(shape) // weights * size
    return dict(read)


def warm(path: Path) -> None:
    """Read the file once, so that it lies in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def shapes() -> Iterator[tuple[str, Shape]]:
    """Every tensor's name and shape, the length of a row first."""
    yield "token_embd.weight", (WIDTH, VOCABULARY)
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (WIDTH, VOCABULARY)
    for layer in range(LAYERS):
        for name, shape in LAYER.items():
            yield f"blk.{layer}.{name}.weight", shape


LAYER: Mapping[str, Shape] = {
    "attn_norm": (WIDTH,),
    "attn_q": (WIDTH, HEADS * HEAD),
    "attn_k": (WIDTH, KV_HEADS * HEAD),
    "attn_v": (WIDTH, KV_HEADS * HEAD),
    "attn_output": (HEADS * HEAD, WIDTH),
    "ffn_norm": (WIDTH,),
    "ffn_gate": (WIDTH, FFN),
    "ffn_up": (WIDTH, FFN),
    "ffn_down": (FFN, WIDTH),
}


def write(path: Path) -> None:
    """Write the F16 file, 3.6 GB."""
    draw = random.Random(3)
    noise = struct.pack(f"<{1 << 20}e", *(draw.gauss(0, 0.02) for _ in range(1 << 20)))
    with path.open("wb") as file:
        file.write(header())
        for _, shape in shapes():
            if len(shape) == 1:
                file.write(struct.pack("<f", 1.0) * shape[0])
                continue
            left = 2 * prod(shape)
            while left:
                # Every stretch starts elsewhere in the noise: no two rows are alike.
                start = 2 * draw.randrange(1 << 19)
                left -= file.write(noise[start : start + min(left, 1 << 20)])


def header() -> bytes:
    """All that comes before the first tensor's data, padded. GGUF version 3."""
    names = list(shapes())
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(names), len(METADATA))
    out += b"".join(_text(key) + _value(value) for key, value in METADATA.items())
    offset = 0
    for name, shape in names:
        number = 0 if len(shape) == 1 else 1
        out += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        # All lengths here are multiples of the alignment.
        offset += prod(shape) * BLOCKS[number][2]
    return out + bytes(-len(out) % ALIGNMENT)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: str | float) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    return struct.pack("<If", FLOAT32, value)


class Header:
    """Reads a GGUF file's tensors, of the value types that METADATA and llama-quantize write."""

    def __init__(self, path: Path) -> None:
        """Open path."""
        with path.open("rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self.at = 8

    def tensors(self) -> Iterator[tuple[str, Shape, int]]:
        """Name, shape and type number of each."""
        tensors, values = self._take("QQ")
        for _ in range(values):
            self._text()
            self._skip_value()
        for _ in range(tensors):
            name = self._text()
            (dimensions,) = self._take("I")
            *shape, number, _ = self._take(f"{dimensions}QIQ")
            yield name, tuple(shape), number

    def _take(self, layout: str) -> tuple[int, ...]:
        fields = struct.unpack_from("<" + layout, self.bytes, self.at)
        self.at += struct.calcsize("<" + layout)
        return fields

    def _text(self) -> str:
        (length,) = self._take("Q")
        self.at += length
        return self.bytes[self.at - length : self.at].decode()

    def _skip_value(self) -> None:
        (kind,) = self._take("I")
        if kind == STRING:
            self._text()
        elif kind in (UINT32, FLOAT32):
            self.at += 4
        else:
            raise ValueError(f"GGUF value of type {kind} not expected here")
