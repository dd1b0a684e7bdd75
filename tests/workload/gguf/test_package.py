"""Files that the gguf package writes, against what the package itself reads from them."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Stored

from nodecheck.serving import Workload
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf import ggml, splits
from nodecheck.workload.gguf.header import Header, read_header
from nodecheck.workload.gguf.model import workload

HIDDEN, WIDTH, VOCABULARY, LAYERS, EXPERTS = 256, 512, 320, 3, 4

QUANTISED = [Stored.Q4_0, Stored.Q4_1, Stored.Q5_0, Stored.Q5_1, Stored.Q8_0, Stored.TQ1_0,
             Stored.TQ2_0, Stored.BF16, Stored.F16, Stored.F32]  # fmt: skip
"""Types that the package itself converts to."""


def read(path: Path) -> Header:
    with open_regular(path) as file:
        return read_header(file)


def quantised(rows: int, columns: int, kind: Stored, *copies: int) -> np.ndarray:
    generator = np.random.default_rng(rows * columns)
    weights = generator.standard_normal((*copies, rows, columns), dtype=np.float32)
    return gguf.quants.quantize(weights, kind)


def stored(rows: int, columns: int, kind: Stored) -> np.ndarray:
    """Bytes of a matrix of any type; what they mean does not matter."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    return np.zeros((rows, columns // block * size), dtype=np.uint8)


def writer(path: Path, most_tensors: int = 0, most_bytes: int = 0) -> gguf.GGUFWriter:
    made = gguf.GGUFWriter(path, "llama", split_max_tensors=most_tensors, split_max_size=most_bytes)
    made.add_block_count(LAYERS)
    made.add_embedding_length(HIDDEN)
    made.add_context_length(4096)
    made.add_head_count(8)
    made.add_head_count_kv(2)
    made.add_layer_norm_rms_eps(1e-5)
    made.add_tokenizer_model("gpt2")
    made.add_token_list([f"token {number}" for number in range(VOCABULARY)])
    made.add_token_types([1] * VOCABULARY)
    made.add_token_merges(["a b", "c d"])
    return made


def fill(made: gguf.GGUFWriter, kind: Stored, *, experts: bool = False, tied: bool = False) -> None:
    def add(name: str, rows: int, columns: int, *copies: int) -> None:
        made.add_tensor(name, quantised(rows, columns, kind, *copies), raw_dtype=kind)

    add("token_embd.weight", VOCABULARY, HIDDEN)
    if not tied:
        add("output.weight", VOCABULARY, HIDDEN)
    made.add_tensor("output_norm.weight", np.ones(HIDDEN, dtype=np.float32))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        for name, rows in (("q", HIDDEN), ("k", 64), ("v", 64), ("output", HIDDEN)):
            add(f"{block}attn_{name}.weight", rows, HIDDEN)
        made.add_tensor(f"{block}attn_norm.weight", np.ones(HIDDEN, dtype=np.float32))
        suffix, copies = ("_exps", (EXPERTS,)) if experts else ("", ())
        add(f"{block}ffn_up{suffix}.weight", WIDTH, HIDDEN, *copies)
        add(f"{block}ffn_down{suffix}.weight", HIDDEN, WIDTH, *copies)


def finish(made: gguf.GGUFWriter) -> None:
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()


def model(path: Path, kind: Stored, *, experts: bool = False, tied: bool = False) -> Path:
    made = writer(path)
    if experts:
        made.add_expert_count(EXPERTS)
        made.add_expert_used_count(1)
    fill(made, kind, experts=experts, tied=tied)
    finish(made)
    return path


def their_bytes(path: Path) -> dict[str, int]:
    return {tensor.name: int(tensor.n_bytes) for tensor in gguf.GGUFReader(path).tensors}


def loaded(path: Path) -> Workload:
    return workload([read(path)], "m")


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
@pytest.mark.parametrize("kind", QUANTISED, ids=lambda kind: kind.name)
def test_weights_are_theirs_to_the_byte(tmp_path: Path, kind: Stored, experts: bool) -> None:
    path = model(tmp_path / "m.gguf", kind, experts=experts)
    theirs = their_bytes(path)
    assert {tensor.name: tensor.bytes for tensor in read(path).tensors} == theirs
    work = loaded(path)
    assert work.weight_bytes_shipped == sum(theirs.values())
    rows = theirs["token_embd.weight"] * (VOCABULARY - 1) // VOCABULARY
    idle = sum(size for name, size in theirs.items() if "exps" in name) * (EXPERTS - 1) // EXPERTS
    assert work.read_bytes_per_token_shipped == sum(theirs.values()) - rows - idle
    assert work.notes == ()


def test_every_tensor_lies_where_they_find_it(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", Stored.Q8_0, experts=True)
    header = read(path)
    theirs = gguf.GGUFReader(path)
    assert header.data_offset == theirs.data_offset
    assert [
        (t.name, t.shape, t.elements, header.data_offset + t.offset, t.type) for t in header.tensors
    ] == [
        (
            t.name,
            tuple(map(int, t.shape)),
            int(t.n_elements),
            t.data_offset,
            t.tensor_type.name.lower(),
        )
        for t in theirs.tensors
    ]
    assert header.missing_bytes == 0


def test_the_keys_are_theirs(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", Stored.F32)
    theirs = gguf.GGUFReader(path)
    keys = read(path).metadata
    assert set(keys) == {name for name in theirs.fields if not name.startswith("GGUF.")}
    for name, value in keys.items():
        field = theirs.get_field(name)
        assert field is not None
        if isinstance(value, str | int | float):
            assert value == field.contents()
    types = theirs.get_field("tokenizer.ggml.token_type")
    assert types is not None
    assert keys["tokenizer.ggml.token_type"] == tuple(types.contents())


def test_every_type_that_they_know_has_their_size(tmp_path: Path) -> None:
    """But q8_1, of which the package has an older size and no file has any."""
    known = {kind: s for kind, s in gguf.GGML_QUANT_SIZES.items() if kind is not Stored.Q8_1}
    made = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    numeric = {Stored.F64, Stored.F32, Stored.F16, Stored.I8, Stored.I16, Stored.I32, Stored.I64}
    for kind in known.keys() - numeric:
        made.add_tensor(kind.name, stored(5, 1024, kind), raw_dtype=kind)
    finish(made)
    found = {tensor.name: tensor.bytes for tensor in read(tmp_path / "m.gguf").tensors}
    assert found == their_bytes(tmp_path / "m.gguf")
    for kind, (block, size) in known.items():
        ours = ggml.TYPES[kind.value]
        assert (ours.name, ours.block, ours.bytes) == (kind.name.lower(), block, size)


def test_a_tied_embedding_is_stored_once(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", Stored.Q8_0, tied=True)
    theirs = their_bytes(path)
    work = loaded(path)
    assert work.weight_bytes_shipped == sum(theirs.values())
    row = theirs["token_embd.weight"] // VOCABULARY
    assert work.read_bytes_per_token_shipped == sum(theirs.values()) + row


@pytest.mark.parametrize(("most_tensors", "most_bytes"), [(7, 0), (0, 300_000)])
def test_parts_that_they_split_are_read_together(
    tmp_path: Path, most_tensors: int, most_bytes: int
) -> None:
    made = writer(tmp_path / "m.gguf", most_tensors, most_bytes)
    fill(made, Stored.Q8_0)
    finish(made)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) > 1
    paths = splits.parts(tmp_path / names[1], names)
    assert [path.name for path in paths] == names
    headers = [read(path) for path in paths]
    splits.check(headers)
    whole = model(tmp_path / "whole.gguf", Stored.Q8_0)
    assert workload(headers, "m") == loaded(whole)
    total = sum(sum(their_bytes(path).values()) for path in paths)
    assert workload(headers, "m").weight_bytes_shipped == total


def test_a_file_of_the_other_byte_order_is_told(tmp_path: Path) -> None:
    made = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    made.add_block_count(1)
    finish(made)
    with pytest.raises(ValueError, match="the other byte order"):
        read(tmp_path / "m.gguf")
