from __future__ import annotations

import pytest

from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.gguf import ggml


@pytest.mark.parametrize(
    ("name", "bits"),
    [("f32", 32), ("bf16", 16), ("q4_0", 4.5), ("q4_k", 4.5), ("q6_k", 6.5625), ("q8_0", 8.5),
     ("iq4_xs", 4.25), ("mxfp4", 4.25), ("nvfp4", 4.5), ("iq1_s", 1.5625), ("tq2_0", 2.0625),
     ("q1_0", 1.125)],
)  # fmt: skip
def test_a_type_has_its_bits_per_weight(name: str, bits: float) -> None:
    assert ggml.BY_NAME[name].bits_per_weight == bits


def test_a_number_names_a_type() -> None:
    assert ggml.type_of(12).name == "q4_k"
    assert len(ggml.TYPES) == 35
    assert not ggml.TYPES.keys() & ggml.REMOVED.keys()
    assert set(ggml.TYPES) | set(ggml.REMOVED) == set(range(43))


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (4, r"type 4 \(q4_2\) was removed from llama.cpp: convert it again"),
        (31, r"type 31 \(q4_0_4_4\) was removed"),
        (43, "unknown type 43: the file is damaged or newer than this program"),
        (2**32 - 1, "unknown type 4294967295"),
    ],
)
def test_what_is_no_type_is_refused_by_name(number: int, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        ggml.type_of(number)


def test_a_row_takes_whole_blocks() -> None:
    assert ggml.row_bytes(4096, ggml.BY_NAME["q4_k"]) == 2304
    with pytest.raises(
        WorkloadError, match="33 elements, which is no multiple of the 32 that q8_0"
    ):
        ggml.row_bytes(33, ggml.BY_NAME["q8_0"])
