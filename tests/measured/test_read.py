"""Files as they come: cut off, mixed with other lines, or hostile."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from nodecheck.measured.fields import MeasuredError
from nodecheck.measured.read import CUT, parse
from tests.measured.outputs import as_json, as_lines, llama_bench, on_gpus, sglang, vllm


def refusal(text: bytes) -> str:
    with pytest.raises(MeasuredError) as caught:
        parse(text, "x")
    said = str(caught.value)
    assert len(said.splitlines()) == 1
    assert len(said) < 400
    return said


def test_rows_of_several_tools_may_lie_in_one_file() -> None:
    runs = parse(as_lines(on_gpus(), sglang(), vllm()), "x")
    assert [run.tool for run in runs] == ["llama-bench", "sglang", "vllm"]


def test_a_row_that_is_killed_leaves_those_before_it() -> None:
    text = as_json(llama_bench(n_gen=8), llama_bench(n_gen=16))
    assert CUT not in parse(text, "x")[-1].remarks
    for end in range(len(text) // 2 + 40, len(text) - 2, 97):
        run, *rest = parse(text[:end], "x")
        assert not rest
        assert run.generated_tokens == 8
        assert run.remarks == (CUT,)


def test_an_array_that_ends_behind_a_row_is_cut_too() -> None:
    text = as_json(llama_bench()).rstrip().rstrip(b"]").rstrip()
    assert parse(text, "x")[0].remarks == (CUT,)


def test_lines_without_an_end_are_no_less_whole() -> None:
    assert parse(as_lines(llama_bench()).rstrip(), "x")[0].remarks == ()
    cut = as_lines(llama_bench(), llama_bench())[:-200]
    assert [run.remarks for run in parse(cut, "x")] == [(CUT,)]


def test_what_ends_before_its_first_row_is_refused() -> None:
    assert "ends before its first row" in refusal(as_json(llama_bench())[:300])


@pytest.mark.parametrize(
    "text",
    [
        b"ggml_cuda_init: found 3 CUDA devices:\n  Device 0: NVIDIA L40\n" + as_json(llama_bench()),
        b"[INFO] loading\n" + as_lines(llama_bench()),
        b"\xef\xbb\xbf" + as_json(llama_bench()),
        as_json(llama_bench()).decode().encode("utf-16"),
        json.dumps(llama_bench(), indent=2).encode(),
        as_json(llama_bench()).replace(b"\n", b"\r\n"),
        as_json(llama_bench(model_filename="\udcff", note="\x1b[31m")).replace(b"AMD", b"\xff\xfe"),
    ],
)
def test_other_lines_and_encodings_are_no_matter(text: bytes) -> None:
    (run,) = parse(text, "x")
    assert run.tokens_per_second == 5.838965


def test_a_detailed_serving_result_is_read_as_the_short_one() -> None:
    detailed = sglang(itls=[[0.01] * 500] * 16, generated_texts=["a } b { [" * 50] * 16)
    assert parse(as_lines(detailed), "x") == parse(as_lines(sglang()), "x")


BAD_NUMBERS: list[tuple[str, Any]] = [
    ("avg_ts", float("nan")),
    ("avg_ts", float("inf")),
    ("avg_ts", -1.0),
    ("avg_ts", 1e300),
    ("avg_ts", "fast"),
    ("avg_ts", True),
    ("avg_ts", [5.8]),
    ("avg_ts", {}),
    ("stddev_ts", -0.1),
    ("n_gen", -4),
    ("n_gen", 1.5),
    ("n_gen", 10**30),
    ("n_prompt", "many"),
    ("n_gpu_layers", 1e9),
    ("n_gpu_layers", 0.5),
    ("n_gpu_layers", "all"),
    ("n_threads", -2),
    ("model_size", -1),
    ("n_depth", float("nan")),
]


@pytest.mark.parametrize(("key", "value"), BAD_NUMBERS)
def test_a_number_that_cannot_be_is_named_with_its_row(key: str, value: Any) -> None:
    said = refusal(as_json(on_gpus(), on_gpus(**{key: value})))
    assert said.startswith(f"row 2: {key} is ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mean_tpot_ms", float("nan")),
        ("mean_tpot_ms", -3.0),
        ("output_throughput", "x"),
        ("max_concurrency", -2),
        ("accept_length", float("inf")),
        ("tensor_parallel_size", 1e12),
    ],
)
def test_the_same_of_a_serving_row(key: str, value: Any) -> None:
    assert refusal(as_lines(sglang(**{key: value}))).startswith(f"row 1: {key} is ")


def test_a_row_that_says_neither_read_nor_generated_is_refused() -> None:
    assert "n_prompt and n_gen are missing" in refusal(b'[{"n_gpu_layers": 1, "avg_ts": 3}]')


@pytest.mark.parametrize(
    "text", [b"", b"\n\n", b"[]", b"null", b"[1, 2]", b'"text"', b"\x00" * 100, b"[" * 100_000]
)
def test_what_holds_no_row_says_what_is_read(text: bytes) -> None:
    said = refusal(text)
    assert said.startswith("holds no row")
    assert "llama-bench" in said
    assert "SGLang" in said
    assert "vLLM" in said


@pytest.mark.parametrize("row", [{}, {"results": [1]}, {"model": "x", "tokens": 3}])
def test_an_object_of_another_format_is_named_by_its_keys(row: dict[str, Any]) -> None:
    said = refusal(json.dumps(row).encode())
    assert said.startswith("row 1: not known (it holds ")
    assert "llama-bench" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": ' + b"[" * 200_000 + b"}", "nested too deeply"),
        (b'{"avg_ts": ' + b"9" * 1_000_000 + b', "n_gen": 1}', "avg_ts is inf"),
        (b'[{"avg_ts": 1 "n_gen": 2}, {}]', "no JSON at line 1"),
        (b"[" + b"{}," * 300_000 + b"{}]", "rows; up to 1000"),
        (b'{"itls": [' + b"0," * 3_000_000 + b"0]}", "--output-details"),
    ],
)
def test_hostile_files_end_soon_in_one_line(text: bytes, says: str) -> None:
    started = time.monotonic()
    assert says in refusal(text)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\n" * 60_000_000, "holds no row"),
        (b"\r\n" * 30_000_000, "holds no row"),
        (b"]" * 60_000_000, "holds no row"),
        (b"x\n" * 10_000_000, "holds no row"),
        (b"x\n" * 10_000_000 + b"{}", "row 1: not known"),
        (b"x {\n" * 990_000, "holds no row"),
    ],
    ids=["lines", "lines of Windows", "brackets", "text", "text before a row", "braces in text"],
)
def test_what_is_no_row_is_passed_over_quickly(text: bytes, says: str) -> None:
    started = time.process_time()
    assert says in refusal(text)
    assert time.process_time() - started < 1.5


@pytest.mark.parametrize("between", [b"", b"\n\n", b" ,\r\n\t] [\n", b"text {}\n", b"[1] {}\n"])
def test_a_row_begins_its_line_or_follows_another(between: bytes) -> None:
    row = as_lines(llama_bench()).strip()
    text = row + between + row + between + row + b"text {}"
    assert len(parse(text, "x")) == 3


def test_any_damage_ends_in_rows_or_in_one_line() -> None:
    draw = random.Random(1)
    whole = as_lines(on_gpus(), sglang(), vllm())
    refused = []
    for _ in range(1500):
        text = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(text))
            text[at : at + draw.randint(0, 3)] = draw.choice(
                [b"", b"-", b"9", b'"', b"}", b"[", b"null", b"1e999", b"\xff", b",", b"{}"]
            )
        try:
            parse(bytes(text), "x")
        except MeasuredError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all(len(said.splitlines()) == 1 for said in refused)
