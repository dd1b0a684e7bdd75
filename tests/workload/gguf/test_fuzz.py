"""Whatever the bytes are: a header, or one line that says what is wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf import splits
from nodecheck.workload.gguf.header import read_header
from nodecheck.workload.gguf.model import workload
from tests.workload.gguf.files import header
from tests.workload.gguf.test_metadata import SHAPES

LONGEST_SECONDS = 2
FUZZ = settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SOUND = [
    header(shape.keys, shape.tensors) + bytes(1000)
    for shape in (make() for make in SHAPES.values())
]

EXTREMES = st.sampled_from([0, 1, 7, 8, 9, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1])


def attempt(folder: Path, data: bytes) -> None:
    """A workload that can be written as JSON, or a WorkloadError of one line."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    start = time.monotonic()
    try:
        with open_regular(path) as file:
            found = read_header(file)
        splits.check([found])
        json.loads(msgspec.json.encode(workload([found], "m")))
    except WorkloadError as error:
        said = str(error)
    else:
        said = ""
    assert len(said) < 400
    assert said.isprintable()
    assert time.monotonic() - start < LONGEST_SECONDS


@FUZZ
@given(
    st.sampled_from(SOUND),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_changed_bytes(tmp_path: Path, data: bytes, changes: list[tuple[float, int]]) -> None:
    changed = bytearray(data)
    for place, value in changes:
        changed[int(place * (len(data) - 1))] = value
    attempt(tmp_path, bytes(changed))


@FUZZ
@given(st.sampled_from(SOUND), st.floats(0, 1), EXTREMES, st.sampled_from([1, 4, 8]))
def test_extreme_numbers(tmp_path: Path, data: bytes, place: float, value: int, width: int) -> None:
    at = int(place * (len(data) - width))
    number = (value % 2 ** (8 * width)).to_bytes(width, "little")
    attempt(tmp_path, data[:at] + number + data[at + width :])


@FUZZ
@given(st.sampled_from(SOUND), st.floats(0, 1), st.floats(0, 1), st.binary(max_size=64))
def test_pieces_moved_and_put_in(
    tmp_path: Path, data: bytes, first: float, second: float, piece: bytes
) -> None:
    start, end = sorted(int(place * len(data)) for place in (first, second))
    attempt(tmp_path, data[:start] + piece + data[end:])
    attempt(tmp_path, data[:start])


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes(tmp_path: Path, data: bytes) -> None:
    attempt(tmp_path, data)
    attempt(tmp_path, b"GGUF\3\0\0\0" + data)


@pytest.mark.parametrize("number", range(len(SOUND)))
def test_each_length_that_a_file_can_be_cut_to(tmp_path: Path, number: int) -> None:
    data = SOUND[number]
    for length in range(0, len(data), 3):
        attempt(tmp_path, data[:length])
