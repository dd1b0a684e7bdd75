"""Headers of safetensors files: what is read, what is refused, both quick and small."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from nodecheck.workload.files import open_regular
from nodecheck.workload.hf.safetensors import (
    BITS,
    LONGEST_NAME,
    MOST_TENSORS,
    PIECE_BYTES,
    Tensor,
    read_tensors,
)
from tests.workload.hf.files import llama, write, write_raw
from tests.workload.spent import spent


def tensors_of(path: Path) -> dict[str, Tensor]:
    with open_regular(path) as file:
        return {name: t for piece in read_tensors(file) for name, t in piece.items()}


def refusal(path: Path) -> str:
    begin = time.monotonic()
    with pytest.raises(WorkloadError) as error:
        tensors_of(path)
    assert time.monotonic() - begin < 1
    message = str(error.value)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", message)
    assert len(message) < 300
    return message


def one(
    name: bytes, dtype: bytes = b"U8", shape: bytes = b"1", begin: int = 0, end: int | None = None
) -> bytes:
    """An entry, of a byte at `begin` if nothing else is said."""
    end = begin + 1 if end is None else end
    entry = b'"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'
    return entry % (name, dtype, shape, begin, end)


def of(*entries: bytes) -> bytes:
    return b"{" + b",".join(entries) + b"}"


def test_reads_a_model(tmp_path: Path) -> None:
    written = llama()
    found = tensors_of(write(tmp_path / "m", written, metadata={"format": "pt"}))
    assert {name: (t.dtype, t.shape) for name, t in found.items()} == {
        name: (dtype, tuple(shape)) for name, (dtype, shape) in written.items()
    }
    assert sum(t.bytes for t in found.values()) == (tmp_path / "m").stat().st_size - 8 - (
        int.from_bytes((tmp_path / "m").read_bytes()[:8], "little")
    )


@pytest.mark.parametrize("dtype", BITS)
def test_knows_each_dtype(tmp_path: Path, dtype: str) -> None:
    found = tensors_of(write(tmp_path / "m", {"a": (dtype, (4, 8))}))["a"]
    assert (found.elements, found.bytes * 8) == (32, 32 * BITS[dtype])


Case = tuple[bytes, int]
A, B = one(b"a"), one(b"b", begin=1)

VALID: dict[str, Case] = {
    "scalar": (of(one(b"a", b"F32", b"", 0, 4)), 4),
    "no element": (of(one(b"a", b"F32", b"0,5", 0, 0)), 0),
    "nothing": (b"{}", 0),
    "padding": (b"{}       ", 0),
    "line ends": (of(A).replace(b":", b" :\n").replace(b",", b",\n") + b"\n", 1),
    "members in another order": (b'{"a":{"data_offsets":[0,1],"dtype":"U8","shape":[1]}}', 1),
    "data in another order": (of(B, A), 2),
    "metadata behind": (of(A, b'"__metadata__":{"format":"pt"}'), 1),
    "metadata with braces": (of(b'"__metadata__":{"a":"},{\\"","a":"b"}', A), 1),
    "metadata of null": (of(b'"__metadata__":null', A), 1),
    "a member of a later version": (of(A.replace(b"{", b'{"x":[{"dtype":1}],')), 1),
    "a name like a member": (of(one(b"data_offsets")), 1),
    "a name in escapes": (of(one(b"\\u0061\\n\\ud83d\\ude00")), 1),
    "a name in UTF-8": (of(one("höhe".encode())), 1),
    "64 dimensions": (of(one(b"a", shape=b"1," * 63 + b"1")), 1),
}


@pytest.mark.parametrize("case", VALID)
def test_accepts(tmp_path: Path, case: str) -> None:
    header, data = VALID[case]
    tensors_of(write_raw(tmp_path / "m", header, data))


INVALID: dict[str, tuple[bytes, int, str]] = {
    "no header": (b"", 0, "does not begin with {"),
    "leading blank": (b" {}", 0, "does not begin with {"),
    "array": (b"[]", 0, "does not begin with {"),
    "no JSON": (b"{nope", 0, "not JSON"),
    "unfinished": (b'{"a":', 0, "not JSON"),
    "two objects": (b"{}{}", 0, "not JSON: .*trailing characters"),
    "trailing comma": (b"{" + A + b",}", 1, "not JSON"),
    "NUL behind": (b"{}\0", 0, "not JSON"),
    "bad UTF-8": (of(one(b"\xff")), 1, "UTF-8"),
    "control character": (of(one(b"a\x01")), 1, "not JSON"),
    "nested": (b'{"a":' + b"[" * 100_000, 0, "nested too deeply"),
    "entry is a number": (b'{"a":1}', 0, "entry a: Expected `object`"),
    "entry is null": (b'{"a":null}', 0, "entry a"),
    "metadata of numbers": (b'{"__metadata__":{"a":1}}', 0, "__metadata__: .*Expected `str`"),
    "metadata is a list": (b'{"__metadata__":[]}', 0, "entry __metadata__"),
    "no dtype": (b'{"a":{"shape":[],"data_offsets":[0,1]}}', 1, "entry a: .*`dtype`"),
    "unknown dtype": (of(one(b"a", b"F5")), 1, "tensor a: its dtype F5"),
    "nested in a member": (b'{"a":{"x":' + b"[" * 9999 + b"]}}", 1, "nested too deeply"),
    "three offsets": (A.replace(b"[0,1]", b"[0,1,2]").join((b"{", b"}")), 1, "entry a"),
    "fractional shape": (of(one(b"a", shape=b"1.0")), 1, "entry a: shape"),
    "negative shape": (of(one(b"a", shape=b"-1")), 1, "no tensor has the shape"),
    "two negative": (of(one(b"a", shape=b"-1,-1")), 1, "no tensor has the shape"),
    "negative offset": (of(one(b"a", shape=b"2", begin=-1)), 1, "lies from byte -1 to 0"),
    "offsets swapped": (of(one(b"a", begin=1, end=0)), 1, "lies from byte 1 to 0"),
    "huge offset": (of(one(b"a", begin=2**64 - 1, end=2**64)), 1, "lies from byte"),
    "wrong size": (of(one(b"a", b"F32", b"3", 0, 16)), 16, "16 bytes cannot hold F32"),
    "odd F4": (of(one(b"a", b"F4", b"3", 0, 2)), 2, "cannot hold F4"),
    "overflow": (of(one(b"a", b"F32", b"4611686018427387904,4", 0, 16)), 16, "cannot hold"),
    "overflow, then zero": (of(one(b"a", b"F32", b"9223372036854775807,4,0", 0, 0)), 0, "64 bits"),
    "digits": (of(one(b"a", shape=b"9" * 9999)), 1, "entry a: shape"),
    "65 dimensions": (of(one(b"a", shape=b"1," * 64 + b"1")), 1, "no tensor has the shape"),
    "hole at first": (of(B), 2, "leave a hole at byte 1"),
    "hole": (of(A, one(b"b", begin=2)), 3, "leave a hole at byte 2"),
    "overlap": (of(A, one(b"b")), 1, "overlap at byte 0"),
    "trailing data": (of(A), 5, "4 bytes behind its last tensor"),
    "data without tensors": (b"{}", 3, "3 bytes behind"),
    "truncated": (of(one(b"a", shape=b"16", end=16)), 10, "truncated: 6 of 16 bytes"),
    "name twice": (of(A, one(b"a", begin=1)), 2, "holds a twice"),
    "name twice in escapes": (of(A, one(b"\\u0061", begin=1)), 2, "holds a twice"),
    "member twice": (of(A.replace(b'"shape"', b'"dtype":"U8","shape"')), 1, "holds dtype twice"),
}


@pytest.mark.parametrize("case", INVALID)
def test_refuses(tmp_path: Path, case: str) -> None:
    header, data, word = INVALID[case]
    assert re.search(word, refusal(write_raw(tmp_path / "m", header, data)))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "0 bytes, too short"),
        (b"1234567", "7 bytes, too short"),
        (bytes(8), "does not begin with {"),
        ((100_000_001).to_bytes(8, "little") + b"{}", "a header of 100,000,001 bytes"),
        ((2**63).to_bytes(8, "little") + b"{}", "a header of 9,223,372,036,854,775,808 bytes"),
        ((5000).to_bytes(8, "little") + b"{}", "its header ends at byte 5,008, the file at 10"),
        ((10).to_bytes(8, "little") + b"{}", "its header ends at byte 18, the file at 10"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><title>404</title>", "a web page"),
    ],
)
def test_refuses_files_that_are_none(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "m").write_bytes(content)
    assert word in refusal(tmp_path / "m")


def test_a_length_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "m", b"{", length=8 << 30)
    os.truncate(path, 8 << 30)
    assert "a header of 8,589,934,592 bytes" in refusal(path)


def test_the_order_of_the_data_does_not_matter(tmp_path: Path) -> None:
    names = [b"t%d" % i for i in range(2000)]
    order = list(range(2000))
    random.Random(4).shuffle(order)
    parts = [one(name, begin=i) for name, i in zip(names, order, strict=True)]
    assert len(tensors_of(write_raw(tmp_path / "m", of(*parts), 2000))) == 2000


def test_headers_of_many_pieces_are_read_whole(tmp_path: Path) -> None:
    """A cut may fall anywhere: entries of every length around the size of a piece."""
    names = [b"n" * (i % 487) + b"%d" % i for i in range(9000)]
    header = of(*(one(name, begin=i) for i, name in enumerate(names)))
    assert len(header) > 8 * PIECE_BYTES
    found = tensors_of(write_raw(tmp_path / "m", header, 9000))
    assert [name.encode() for name in found] == names


def test_metadata_may_be_longer_than_a_piece(tmp_path: Path) -> None:
    found = tensors_of(write(tmp_path / "m", llama(), metadata={"training": "x" * 3 * PIECE_BYTES}))
    assert len(found) == len(llama())


def test_errors_name_the_byte_of_the_file(tmp_path: Path) -> None:
    header = many(20_000)
    wrong = header.rindex(b'"dtype"')
    path = write_raw(tmp_path / "m", header[:wrong] + b"'" + header[wrong + 1 :], 20_000)
    assert int(refusal(path).rpartition("byte ")[2].replace(",", "")) == 8 + wrong


def many(count: int, *, backwards: bool = False) -> bytes:
    numbers = range(count)[:: -1 if backwards else 1]
    return of(*(one(b"t%d" % i, begin=i) for i in numbers))


LARGE: dict[str, Callable[[], tuple[bytes, int, str]]] = {
    "100 MB of padding": lambda: (b"{}" + b" " * 99_999_998, 0, ""),
    "100 MB of blanks inside": lambda: (b"{" + b" " * 99_999_998 + b"}", 0, ""),
    "the most tensors": lambda: (many(MOST_TENSORS), MOST_TENSORS, ""),
    "backwards": lambda: (many(MOST_TENSORS, backwards=True), MOST_TENSORS, ""),
    "a million tensors": lambda: (many(1_000_000), 1_000_000, "more than 400,000 tensors"),
    "a name of 10 MB": lambda: (of(one(b"a" * 10_000_000)), 1, "longer than 2,097,152 bytes"),
    "metadata of 99 MB": lambda: (
        b'{"__metadata__":{"a":"' + b"x" * 99_000_000 + b'"}}',
        0,
        "longer than 2,097,152 bytes",
    ),
    "metadata of many keys": lambda: (
        b'{"__metadata__":{' + b",".join(b'"%d":""' % i for i in range(170_000)) + b"}}",
        0,
        "",
    ),
    "dimensions": lambda: (of(one(b"a", shape=b"1," * 999_999 + b"1")), 1, "no tensor"),
    "large dimensions": lambda: (
        of(one(b"a", shape=b"9" * 18 + (b"," + b"9" * 18) * 90_000)),
        1,
        "",
    ),
    "braces and commas": lambda: (b"{" + b"}," * 49_000_000 + b"}", 0, "trailing characters"),
    "opening braces": lambda: (b'{"a":' * 19_000_000 + b"}", 0, "longer than"),
    "opening brackets": lambda: (b'{"a":' + b"[" * 99_000_000, 0, "longer than"),
}

SETUP = """
from nodecheck.workload.files import open_regular
from nodecheck.workload.hf.safetensors import read_tensors
"""
WORK = "[None for _ in read_tensors(open_regular(Path(sys.argv[1])))]"


@pytest.mark.parametrize("case", LARGE)
def test_large_headers_take_a_second_and_little_memory(tmp_path: Path, case: str) -> None:
    header, data, word = LARGE[case]()
    path = write_raw(tmp_path / "m", header, data)
    del header
    took = spent(SETUP, WORK, path)
    assert took.seconds < 1
    assert took.peak_kib < 80_000
    assert word in took.said
    assert "\n" not in took.said


@pytest.mark.parametrize("characters", [LONGEST_NAME + 1, 10_000_000])
def test_limits_of_ours_are_no_fault_of_the_file(tmp_path: Path, characters: int) -> None:
    path = write_raw(tmp_path / "m", of(one(b"a" * characters)), 1)
    with pytest.raises(NotEnoughMetadata):
        tensors_of(path)


def test_names_are_as_long_as_the_limit_in_characters(tmp_path: Path) -> None:
    tensors_of(write_raw(tmp_path / "m", of(one("é".encode() * LONGEST_NAME)), 1))
    path = write_raw(tmp_path / "m", of(one("é".encode() * (LONGEST_NAME + 1))), 1)
    assert refusal(path).endswith("é... has 513 characters, over 512: name its config.json")


def test_agrees_with_json(tmp_path: Path) -> None:
    """The header of a random model, read as JSON and by pieces."""
    rng = random.Random(7)
    tensors = {
        "".join(rng.choices('ab."\\{},é\u2028', k=rng.randrange(30))) + str(i): (
            rng.choice(["U8", "BF16", "F32"]),
            tuple(rng.randrange(5) for _ in range(rng.randrange(4))),
        )
        for i in range(500)
    }
    path = write(tmp_path / "m", tensors)
    text = path.read_bytes()
    wanted = json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])
    found = tensors_of(path)
    assert {n: list(t.shape) for n, t in found.items()} == {
        n: w["shape"] for n, w in wanted.items()
    }
