from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf.header import Header, Skipped, read_header
from tests.workload.gguf.files import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U64,
    Raw,
    Tensor,
    Typed,
    Value,
    header,
    padded,
    string,
    write,
)

LLAMA = {"general.architecture": "llama"}
ONE = [Tensor("a", [32])]


def read(data: bytes | Path, folder: Path | None = None) -> Header:
    path = data if isinstance(data, Path) else (folder or Path()) / "model.gguf"
    if isinstance(data, bytes):
        path.write_bytes(data)
    with open_regular(path) as file:
        return read_header(file)


def test_it_says_what_the_file_says(tmp_path: Path) -> None:
    keys: dict[str, Value] = {
        **LLAMA,
        "u8": Typed(U8, 255),
        "i8": Typed(I8, -1),
        "u16": Typed(U16, 65535),
        "i16": Typed(I16, -2),
        "i32": Typed(I32, -3),
        "f32": Typed(F32, 0.5),
        "f64": Typed(F64, 0.1),
        "u64": Typed(U64, 2**64 - 1),
        "i64": Typed(I64, -(2**63)),
        "yes": True,
        "text": "é",
        "pattern": [True, False],
        "heads": [8, 0],
        "tokens": ["a", "bc", ""],
        "floats": Typed(ARRAY, [0.5], F32),
        "nothing": Typed(ARRAY, [], U8),
        "scores": Typed(ARRAY, [0] * 65537, U8),
    }
    infos = [Tensor("a", [512, 3], "q4_k"), Tensor("b", [2, 3, 4]), Tensor("c", [64], "mxfp4")]
    found = read(write(tmp_path / "model.gguf", keys, infos))
    assert found.version == 3
    assert found.metadata == {
        "general.architecture": "llama",
        "u8": 255,
        "i8": -1,
        "u16": 65535,
        "i16": -2,
        "i32": -3,
        "f32": 0.5,
        "f64": 0.1,
        "u64": 2**64 - 1,
        "i64": -(2**63),
        "yes": True,
        "text": "é",
        "pattern": (True, False),
        "heads": (8, 0),
        "tokens": Skipped(kind="string", count=3),
        "floats": (0.5,),
        "nothing": (),
        "scores": Skipped(kind="u8", count=65537),
    }
    assert [(t.name, t.shape, t.type, t.elements, t.bytes, t.offset) for t in found.tensors] == [
        ("a", (512, 3), "q4_k", 1536, 864, 0),
        ("b", (2, 3, 4), "f32", 24, 96, 864),
        ("c", (64,), "mxfp4", 64, 34, 960),
    ]
    assert found.data_offset % 32 == 0
    assert found.missing_bytes == 0


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_another_alignment_is_kept(tmp_path: Path, alignment: int) -> None:
    keys: dict[str, Value] = {**LLAMA, "general.alignment": alignment}
    infos = [Tensor("a", [5]), Tensor("b", [5])]
    found = read(write(tmp_path / "model.gguf", keys, infos, alignment=alignment))
    assert found.data_offset % alignment == 0
    assert found.tensors[1].offset == padded(20, alignment)


@pytest.mark.parametrize(
    ("data", "tensors"),
    [
        (header(LLAMA, ONE, version=2) + bytes(128), 1),
        (header(LLAMA), 0),
        (header(), 0),
        (header(LLAMA, [Tensor("a", [])]) + bytes(4), 1),
        (header(LLAMA, [Tensor("a", [32, 0])]), 1),
        (header(LLAMA, [Tensor("n" * 63, [32])]) + bytes(128), 1),
        (header(LLAMA, ONE) + bytes(1000), 1),
    ],
    ids=["version 2", "no tensors", "nothing", "scalar", "empty tensor", "long name", "more data"],
)
def test_odd_but_sound(tmp_path: Path, data: bytes, tensors: int) -> None:
    found = read(data, tmp_path)
    assert len(found.tensors) == tensors
    assert found.missing_bytes == 0


def test_a_tensor_without_dimensions_has_one_element(tmp_path: Path) -> None:
    (tensor,) = read(header(LLAMA, [Tensor("a", [])]) + bytes(4), tmp_path).tensors
    assert (tensor.elements, tensor.bytes) == (1, 4)


@pytest.mark.parametrize("cut", [1, 28, 128, 140])
def test_it_says_how_much_is_missing(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "model.gguf", LLAMA, [*ONE, Tensor("b", [32])], cut=cut)
    assert read(path).missing_bytes == cut


def claims(keys: int = 0, tensors: int = 0) -> bytes:
    return header(key_count=keys, tensor_count=tensors) + bytes(100)


def key(kind_and_value: bytes, name: str | bytes = "x") -> bytes:
    return header(key_count=1) + string(name) + kind_and_value


def array(of: int, count: int, data: bytes = b"") -> bytes:
    return key(struct.pack("<IIQ", ARRAY, of, count) + data)


HOSTILE = {
    "empty": (b"", "an empty file"),
    "magic only": (b"GGUF", "header at byte 4: 4 bytes are needed, but the file ends at byte 4"),
    "cut counts": (header()[:20], "header at byte 8: 16 bytes are needed"),
    "web page": (b"<!DOCTYPE html><html>", "a web page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    "zeros": (bytes(100), "begins with zero bytes: not downloaded yet, or damaged"),
    "old": (b"tjgg\x03\0\0\0" + bytes(90), "a GGML file from before GGUF"),
    "other": (b"\x7fELF\x01" + bytes(90), "not a GGUF file: it begins with '\\?ELF'"),
    "version 0": (header(version=0), "GGUF version 0, which llama.cpp no longer reads"),
    "version 1": (header(version=1), "GGUF version 1, .*: convert the model again"),
    "version 4": (header(version=4), "GGUF version 4: only 2 and 3 are known"),
    "big endian": (header(version=3 << 24), "the other byte order .*gguf-convert-endian"),
    "2^63 keys": (claims(keys=2**63), "claims 9223372036854775808 keys, for which 100 bytes"),
    "2^40 tensors": (claims(tensors=2**40), "claims 1099511627776 tensors, for which 100 bytes"),
    "2^63 tensors": (claims(tensors=2**63), "claims 9223372036854775808 tensors"),
    "missing key": (claims(keys=2), "key 0 at byte 24: its name is empty"),
    "empty key": (key(struct.pack("<IQ", U64, 1), ""), "key 0 at byte 24: its name is empty"),
    "2^63 long key": (
        header(key_count=1) + struct.pack("<Q", 2**63) + bytes(99),
        "key 0 at byte 24: a name of 9223372036854775808 bytes, at most 65535",
    ),
    "key past the end": (
        header(key_count=1) + struct.pack("<Q", 1000) + bytes(9),
        "key 0 at byte 32: 1000 bytes are needed, but the file ends at byte 41",
    ),
    "key of bytes": (key(b"\x00\0\0\0\1", b"\xff\xfe"), "key 0 at byte 32: .*not UTF-8"),
    "same key": (header([*LLAMA.items(), *LLAMA.items()]), "key 'general.architecture' .*twice"),
    "value type": (key(struct.pack("<IQ", 13, 1)), "key 'x' at byte 37: unknown value type 13"),
    "no value": (key(struct.pack("<IH", U64, 1)), "key 'x' at byte 37: 8 bytes are needed"),
    "bool of 2": (key(struct.pack("<IB", BOOL, 2)), "key 'x' .*a bool of 2, neither 0 nor 1"),
    "bools of 7": (array(BOOL, 3, b"\0\1\7"), "key 'x' .*a bool of 7, neither 0 nor 1"),
    "text of bytes": (key(struct.pack("<I", STRING) + string(b"\xff")), "key 'x' .*not UTF-8"),
    "text past the end": (
        key(struct.pack("<IQ", STRING, 1000) + bytes(8)),
        "key 'x' at byte 45: 1000 bytes are needed, but the file ends at byte 53",
    ),
    "4 GB of text": (
        key(struct.pack("<IQ", STRING, 2**32) + bytes(8)),
        "a string of 4294967296 bytes, at most 1073741824",
    ),
    "nested": (array(ARRAY, 1, bytes(99)), "key 'x' .*an array of arrays"),
    "element type": (array(13, 1, bytes(99)), "key 'x' .*an array of unknown value type 13"),
    "2^30 + 1 elements": (array(U8, 2**30 + 1, bytes(9)), "an array of 1073741825 elements"),
    "2^63 elements": (array(STRING, 2**63, bytes(9)), "an array of 9223372036854775808 elements"),
    "numbers past the end": (array(I32, 2**20, bytes(99)), "4194304 bytes are needed, but"),
    "few numbers past the end": (array(I32, 100, bytes(99)), "400 bytes are needed, but"),
    "strings past the end": (array(STRING, 99, bytes(99)), "99 strings, for which 99 bytes"),
    "last string past the end": (
        array(STRING, 2, string("a") + struct.pack("<Q", 1000)),
        "key 'x' .*string 1 ends 1000 bytes past the file's end",
    ),
    "2^64 long string": (
        array(STRING, 1, struct.pack("<Q", 2**64 - 1)),
        "string 0 ends 18446744073709551615 bytes past the file's end",
    ),
    "alignment 0": (header({"general.alignment": 0}), "general.alignment is 0, which is no power"),
    "alignment 24": (header({"general.alignment": 24}), "general.alignment is 24, which is no"),
    "alignment text": (header({"general.alignment": "32"}), "general.alignment is 32, which"),
    "alignment true": (header({"general.alignment": True}), "general.alignment is True, which"),
    "long name": (header(LLAMA, [Tensor("n" * 64, [1])]), "tensor 0 at byte 69: a name of 64"),
    "same tensor": (header(LLAMA, [*ONE, *ONE]), "tensor 'a' at byte 102: it is there twice"),
    "5 dimensions": (
        header(LLAMA, [Tensor("a", [2] * 5)]),
        "tensor 'a' at byte 69: 5 dimensions, at most 4",
    ),
    "2^32 dimensions": (
        header(LLAMA, [Tensor("a", [32], dimensions=2**32 - 1)]),
        "tensor 'a' at byte 69: 4294967295 dimensions",
    ),
    "dimension of -1": (
        header(LLAMA, [Tensor("a", [2**64 - 1], 0)]),
        "tensor 'a' at byte 69: dimensions 18446744073709551615, more than 2",
    ),
    "2^80 elements": (
        header(LLAMA, [Tensor("a", [2**40, 2**40], 0)]),
        "tensor 'a' at byte 69: dimensions 1099511627776 x 1099511627776",
    ),
    "2^80 elements and none": (
        header(LLAMA, [Tensor("a", [2**40, 2**40, 0], 0)]),
        "dimensions 1099511627776 x 1099511627776 x 0",
    ),
    "2^63 bytes": (
        header(LLAMA, [Tensor("a", [2**61], 0)]),
        "tensor 'a' at byte 69: 9223372036854775808 bytes up to here",
    ),
    "half a block": (
        header(LLAMA, [Tensor("a", [33], 8)]),
        "tensor 'a' at byte 69: rows of 33 elements, which is no multiple of the 32 that q8_0",
    ),
    "type 99": (header(LLAMA, [Tensor("a", [32], 99)]), "tensor 'a' .*unknown type 99"),
    "type -1": (header(LLAMA, [Tensor("a", [32], 2**32 - 1)]), "unknown type 4294967295"),
    "type 4": (header(LLAMA, [Tensor("a", [32], 4)]), "tensor 'a' .*type 4 .*was removed"),
    "offset too far": (
        header(LLAMA, [Tensor("a", [32], offset=2**40)]),
        "tensor 'a' at byte 69: its data begins at 1099511627776, where 0 was expected",
    ),
    "unaligned": (header(LLAMA, [Tensor("a", [32], offset=7)]), "begins at 7, where 0 was"),
    "overlap": (
        header(LLAMA, [*ONE, Tensor("b", [32], offset=64)]),
        "tensor 'b' at byte 102: its data begins at 64, where 128 was expected",
    ),
    "cut tensor": (header(LLAMA, ONE)[:90], "tensor 'a' at byte 90: 12 bytes are needed"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_ends_in_one_line(tmp_path: Path, case: str) -> None:
    data, says = HOSTILE[case]
    with pytest.raises(WorkloadError, match=says) as caught:
        read(data, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_name_from_the_file_cannot_spoil_the_message(tmp_path: Path) -> None:
    name = "\n\x1b[31m" + "n" * 200
    with pytest.raises(WorkloadError) as caught:
        read(key(struct.pack("<I", 13), name), tmp_path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


def sparse(path: Path, data: bytes, size: int) -> Path:
    path.write_bytes(data)
    os.truncate(path, size)
    return path


def test_a_huge_text_is_not_read(tmp_path: Path) -> None:
    data = key(struct.pack("<IQ", STRING, 2**30))
    found = read(sparse(tmp_path / "model.gguf", data, len(data) + 2**30))
    assert found.metadata == {"x": Skipped(kind="string", count=2**30)}


def test_a_huge_array_is_not_read(tmp_path: Path) -> None:
    data = array(F64, 2**30)
    found = read(sparse(tmp_path / "model.gguf", data, len(data) + 2**33))
    assert found.metadata == {"x": Skipped(kind="f64", count=2**30)}


def test_more_strings_than_a_tokenizer_has_are_refused_at_once(tmp_path: Path) -> None:
    path = sparse(tmp_path / "model.gguf", array(STRING, 2**30), 2**40)
    with pytest.raises(WorkloadError, match="more than 4194304 strings: no tokenizer has as many"):
        read(path)


def test_strings_that_lie_far_apart_are_given_up(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    far = 2**20
    with path.open("wb") as file:
        file.write(array(STRING, 5000))
        for _ in range(5000):
            file.write(struct.pack("<Q", far))
            file.seek(far, os.SEEK_CUR)
        file.truncate(file.tell() + far)
    with pytest.raises(WorkloadError, match="more than 268435456 bytes of header"):
        read(path)


def test_more_keys_and_tensors_than_models_have_are_refused_at_once(tmp_path: Path) -> None:
    path = sparse(tmp_path / "model.gguf", claims(keys=2**32), 2**43)
    with pytest.raises(WorkloadError, match="claims 4294967296 keys, more than the 65536"):
        read(path)
    path = sparse(tmp_path / "model.gguf", claims(tensors=2**32), 2**43)
    with pytest.raises(WorkloadError, match="claims 4294967296 tensors, more than the 131072"):
        read(path)


def test_what_is_kept_of_arrays_and_texts_has_a_limit(tmp_path: Path) -> None:
    numbers = Typed(ARRAY, [7] * 65536, U8)
    keys = {f"k{number}": numbers for number in range(200)}
    kept = read(header(keys), tmp_path).metadata.values()
    assert sum(1 for value in kept if isinstance(value, tuple)) == 127
    assert sum(1 for value in kept if isinstance(value, Skipped)) == 73


def test_names_of_keys_have_a_limit_together(tmp_path: Path) -> None:
    keys = {f"{number:060000d}": 1 for number in range(150)}
    with pytest.raises(WorkloadError, match="more than 8388608 bytes of names"):
        read(header(keys), tmp_path)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "model.gguf", header(LLAMA, ONE), 4096)
    with open_regular(path) as file:
        os.truncate(path, 80)
        with pytest.raises(WorkloadError, match="became shorter while it was read"):
            read_header(file)


def test_a_terabyte_of_nothing_behind_a_sound_header(tmp_path: Path) -> None:
    path = sparse(tmp_path / "model.gguf", header(LLAMA, ONE), 2**40)
    assert read(path).missing_bytes == 0


def test_raw_bytes_of_a_value_are_written_as_they_are() -> None:
    assert header({"x": Raw(b"\xff\xff")}).endswith(b"x\xff\xff")
