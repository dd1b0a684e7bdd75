"""Rows of llama-bench: what was generated, read, and left where."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.measured.read import parse
from nodecheck.serving import Run
from tests.measured.outputs import as_json, as_lines, llama_bench, on_gpus


def one(**members: Any) -> Run:
    (run,) = parse(as_json(llama_bench(**members)), "bench.json")
    return run


def gpu(gpus: str = "NVIDIA L40, NVIDIA L40, NVIDIA L40", **members: Any) -> Run:
    (run,) = parse(as_json(on_gpus(gpus, **members)), "bench.json")
    return run


def test_a_row_of_decode() -> None:
    run = one()
    assert run.tokens_per_second == 5.838965
    assert run.spread == 1.446910
    assert run.prompt_tokens_per_second is None
    assert (run.generated_tokens, run.context_tokens, run.threads) == (4, 0, 2)
    assert (run.model, run.model_bytes) == ("Q4_K_M.gguf", 1100703744)
    assert (run.kv_type, run.cpu, run.when) == ("f16", "AMD EPYC", "2026-11-30T08:51:07Z")
    assert run.build is None


def test_reading_generating_and_both_are_told_apart() -> None:
    read = one(n_prompt=512, n_gen=0, avg_ts=93.0)
    assert (read.prompt_tokens_per_second, read.tokens_per_second) == (93.0, None)
    both = one(n_prompt=512, n_gen=128, avg_ts=20.0)
    assert (both.prompt_tokens_per_second, both.tokens_per_second) == (None, None)
    assert both.remarks == ("512 tokens read and 128 generated at 20 tok/s together",)


@pytest.mark.parametrize("layers", [-1, 0, 99])
def test_without_a_gpu_backend_no_layer_is_on_a_gpu(layers: int) -> None:
    run = one(n_gpu_layers=layers)
    assert (run.gpu_layers, run.gpus) == (0, ())


def test_with_one_the_row_says_how_many() -> None:
    assert gpu().gpu_layers == 99
    assert gpu(n_gpu_layers=-1).gpu_layers == -1
    assert gpu(devices="none").gpu_layers == 0


@pytest.mark.parametrize(
    ("members", "cards"),
    [
        ({}, 3),
        ({"split_mode": "none"}, 1),
        ({"devices": "CUDA0/CUDA1"}, 2),
        ({"tensor_split": "1.00/1.00"}, 2),
        ({"tensor_split": "1.00/0.00/1.00"}, 2),
        ({"gpu_info": "NVIDIA L40/NVIDIA L40"}, 2),
        ({"gpu_info": ""}, 0),
    ],
)
def test_the_cards_are_those_that_its_settings_use(members: dict[str, Any], cards: int) -> None:
    assert gpu(**members).gpus == ("NVIDIA L40",) * cards


def test_a_build_is_its_commit_and_number() -> None:
    assert gpu().build == "8cf427ff (5163)"


@pytest.mark.parametrize(
    ("members", "mmap"),
    [
        ({"use_mmap": True}, True),
        ({"use_mmap": False}, False),
        ({"load_mode": "none"}, False),
        ({"load_mode": "mmap"}, True),
        ({"load_mode": "auto"}, None),
    ],
)
def test_mmap_under_its_old_and_its_new_name(members: dict[str, Any], mmap: bool | None) -> None:
    assert one(**members).mmap is mmap


def test_what_changes_where_things_lie_is_kept() -> None:
    assert gpu(no_kv_offload=True).kv_on_host
    assert not gpu().kv_on_host
    assert gpu(tensor_buft_overrides="exps=CPU").placement == "-ot exps=CPU"
    assert gpu(n_cpu_moe=12).cpu_expert_layers == 12
    assert gpu(type_v="q8_0").kv_type == "f16/q8_0"
    assert gpu(n_depth=4096).context_tokens == 4096


def test_a_rate_that_is_missing_comes_from_the_times() -> None:
    row = llama_bench()
    del row["avg_ts"]
    (run,) = parse(as_json(row), "x")
    assert run.tokens_per_second == pytest.approx(4 / 0.706752345)


def test_rows_carry_the_remarks_that_were_added() -> None:
    assert gpu(remark="older build", traffic="live").remarks == ("older build", "traffic: live")


def test_both_formats_are_the_same_rows() -> None:
    rows = (llama_bench(n_gen=8), llama_bench(n_gen=16))
    assert parse(as_json(*rows), "x") == parse(as_lines(*rows), "x")
    assert [run.source for run in parse(as_json(*rows), "x")] == ["x row 1", "x row 2"]


def test_a_row_of_a_few_members_will_do() -> None:
    (run,) = parse(b'[{"n_gpu_layers": 50, "n_prompt": 0, "n_gen": 128, "avg_ts": 3.72}]', "x")
    assert (run.gpu_layers, run.tokens_per_second) == (50, 3.72)
