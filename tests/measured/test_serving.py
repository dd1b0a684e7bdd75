"""Rows of SGLang's and vLLM's benchmarks: the rate of one sequence and that of all."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.measured.read import parse
from nodecheck.serving import Run
from tests.measured.outputs import Row, as_lines, sglang, vllm


def one(row: Row) -> Run:
    (run,) = parse(as_lines(row), "serve.jsonl")
    return run


def test_one_request_at_a_time() -> None:
    run = one(sglang())
    assert run.tool == "sglang"
    assert run.tokens_per_second == pytest.approx(70.9, abs=0.01)
    assert run.spread == pytest.approx(70.9 * 0.05, abs=0.01)
    assert run.all_tokens_per_second == 64.9
    assert run.concurrency == 1
    assert (run.prompt_tokens, run.generated_tokens) == (1024, 256)
    assert run.prompt_tokens_per_second == pytest.approx(1024 / 0.346)
    assert (run.model, run.build, run.kv_type) == ("Qwen/Qwen3.5-27B", "0.5.23", None)
    assert run.accepted_tokens == 2.84
    assert run.tensor_parallel == 1


def test_the_gap_between_chunks_is_not_the_time_of_a_token() -> None:
    """With accepted guesses a chunk holds several tokens: 1000 / median_itl_ms is a third."""
    rate = one(sglang(median_itl_ms=39.8)).tokens_per_second
    assert rate is not None
    assert rate > 2 * 1000 / 39.8


def test_many_requests_at_a_time() -> None:
    run = one(sglang(max_concurrency=32, concurrency=30.5, output_throughput=900.0,
                     mean_tpot_ms=33.0, mean_ttft_ms=5000.0))  # fmt: skip
    assert run.tokens_per_second == pytest.approx(30.3, abs=0.01)
    assert run.all_tokens_per_second == 900.0
    assert run.concurrency == 30.5
    assert run.prompt_tokens_per_second is None


def test_how_many_there_were_follows_from_the_rates_where_it_is_not_said() -> None:
    run = one(sglang(max_concurrency=None, concurrency=None, output_throughput=900.0,
                     mean_tpot_ms=33.0))  # fmt: skip
    assert run.concurrency == pytest.approx(29.7)


def test_sglang_against_a_server_of_vllm_is_still_its_own_format() -> None:
    assert one(sglang(backend="vllm", server_info=None)).tool == "sglang"


def test_vllm_with_metadata() -> None:
    run = one(vllm(remark="live traffic", host="node7", vllm_version="0.9.1"))
    assert run.tool == "vllm"
    assert run.tokens_per_second == pytest.approx(27.2, abs=0.01)
    assert (run.tensor_parallel, run.gpus) == (2, ("NVIDIA L40",))
    assert (run.model, run.build) == ("Qwen/Qwen3.5-27B-AWQ", "0.9.1")
    assert run.when == "2026-11-30T08:50:57"
    assert run.remarks == ("live traffic", "host: node7")


def test_vllm_tells_the_accepted_length() -> None:
    assert one(vllm(spec_decode_acceptance_length=2.75)).accepted_tokens == 2.75


@pytest.mark.parametrize(
    ("gpu", "cards"),
    [
        ("2x NVIDIA L40", ("NVIDIA L40",) * 2),
        ("NVIDIA L40 x2", ("NVIDIA L40",) * 2),
        ("NVIDIA L40, NVIDIA L40", ("NVIDIA L40",) * 2),
        ("NVIDIA L40 + NVIDIA A10", ("NVIDIA L40", "NVIDIA A10")),
        ("NVIDIA RTX PRO 6000", ("NVIDIA RTX PRO 6000",)),
        ("99999x L40", ("99999x L40",)),
        (["L40", "L40"], ("L40", "L40")),
        (2, ()),
    ],
)
def test_cards_by_name_and_number(gpu: object, cards: tuple[str, ...]) -> None:
    assert one(vllm(gpu=gpu)).gpus == cards


def test_a_count_of_cards_beside_one_name() -> None:
    assert one(vllm(gpu="L40", gpu_count="2")).gpus == ("L40", "L40")


def test_one_batch() -> None:
    run = one({"run_name": "default", "batch_size": 8, "input_len": 1024, "output_len": 64,
               "prefill_latency": 1.0, "prefill_throughput": 8192.0,
               "median_decode_latency": 0.03, "median_decode_throughput": 266.7,
               "total_latency": 3.0, "overall_throughput": 2900.0})  # fmt: skip
    assert run.tokens_per_second == pytest.approx(33.3, abs=0.1)
    assert (run.concurrency, run.all_tokens_per_second) == (8, 266.7)
    assert (run.prompt_tokens, run.prompt_tokens_per_second) == (1024, 8192.0)


def test_one_batch_against_a_server_writes_minus_one_for_what_it_does_not_know() -> None:
    run = one({"run_name": "default", "batch_size": 1, "input_len": 1024, "output_len": 64,
               "latency": 2.0, "input_throughput": 3000.0, "output_throughput": 38.5,
               "overall_throughput": 500.0, "last_ttft": 0.34, "last_gen_throughput": -1,
               "acc_length": -1})  # fmt: skip
    assert (run.tokens_per_second, run.accepted_tokens) == (38.5, None)


def test_offline_throughput_tells_nothing_of_one_sequence() -> None:
    run = one({"backend": "engine", "successful_requests": 100, "total_latency": 60.0,
               "total_input_tokens": 102400, "total_output_tokens": 25600,
               "request_throughput": 1.7, "input_throughput": 1706.0,
               "output_throughput": 426.7, "total_throughput": 2133.0})  # fmt: skip
    assert (run.tokens_per_second, run.all_tokens_per_second) == (None, 426.7)


@pytest.mark.parametrize(
    "row",
    [
        {"avg_latency": 3.3, "latencies": [3.3], "percentiles": {"50": 3.3}},
        {"elapsed_time": 60.0, "num_requests": 100, "total_num_tokens": 128000,
         "requests_per_second": 1.7, "tokens_per_second": 2133.0},
    ],
)  # fmt: skip
def test_vllm_outputs_without_lengths_say_so(row: dict[str, Any]) -> None:
    run = one(row)
    assert (run.tool, run.tokens_per_second) == ("vllm", None)
    assert "do not say how many tokens" in run.remarks[0]


def test_a_server_that_keeps_weights_on_the_cpu() -> None:
    info = {"tp_size": 2, "cpu_offload_gb": 8, "kv_cache_dtype": "fp8_e5m2"}
    run = one(sglang(server_info=info))
    assert (run.placement, run.kv_type, run.tensor_parallel) == ("--cpu-offload-gb 8", "fp8", 2)


def test_without_times_a_single_sequence_has_the_rate_of_all() -> None:
    run = one(vllm(mean_tpot_ms=0.0, median_tpot_ms=None))
    assert run.tokens_per_second == 26.2
    assert "first token" in run.remarks[0]
