"""`nodecheck --model FILE`: the report for a model that is read, and options where they belong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner, Result

from nodecheck.cli import group
from nodecheck.cli.options import KV_TYPES
from nodecheck.report import Report
from nodecheck.workload.cache import CACHE_TYPES
from tests.cli.test_plan import QWEN3_8B
from tests.hosts import HEALTHY, THREE_L40
from tests.trees import Tree, plant


def run(*arguments: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "100"})
    return runner.invoke(group, list(arguments), prog_name="nodecheck")


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    return str(folder)


def node(tree: Tree, tmp_path: Path) -> str:
    plant(tree, tmp_path / "node")
    return str(tmp_path / "node")


def report(*arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(json.dumps(msgspec.json.schema(Report)))).validate(
        made
    )
    return made


def test_the_report_is_for_the_model_that_was_read(model: str, tmp_path: Path) -> None:
    made = report("--model", model, "--root", node(THREE_L40, tmp_path))
    assert made["workload"]["name"] == "Qwen3-8B"
    assert made["workload"]["named_by_user"]
    assert made["workload"]["kv_bytes_per_token"]["bf16"] == 147_456
    pool = next(s for s in made["strategies"] if s["strategy"] == "host-kv-pool")
    assert "147,456 B a token" in pool["basis"]


def test_the_model_stands_above_what_the_node_can_do(model: str, tmp_path: Path) -> None:
    done = run("--model", model, "--root", node(THREE_L40, tmp_path))
    said = " ".join(done.stdout.split())
    assert "Qwen3-8B, 15.3 GiB bf16, 36 layers, 15.14 GB read a token" in said
    assert "yours:" not in said


def test_a_healthy_node_tells_it_in_a_line(model: str, tmp_path: Path) -> None:
    done = run("--model", model, "--root", node(HEALTHY, tmp_path))
    lines = done.stdout.splitlines()
    assert len(lines) <= 14
    assert any(line.startswith("CAN DO") and "Qwen3-8B, 15.3 GiB bf16" in line for line in lines)


def test_without_a_model_the_way_to_name_one_is_told(tmp_path: Path) -> None:
    said = " ".join(run("--root", node(THREE_L40, tmp_path)).stdout.split())
    assert "27B dense, 4-bit, 16.3 GiB, 64 layers (yours: --model FILE)" in said


def test_a_model_may_be_asked_about_in_another_type(model: str, tmp_path: Path) -> None:
    place = node(THREE_L40, tmp_path)
    made = report("--model", model, "--root", place, "--weight-type", "q8_0")
    assert made["workload"]["weight_type"] == "q8_0"
    assert made["workload"]["weight_bytes_shipped"] < 9 * 10**9
    numbers = report("--weights", "9GB", "--layers", "36", "--weight-type", "q8_0", "--root", place)
    assert numbers["workload"]["weight_type"] == "q8_0"


def test_what_is_no_model_is_one_line(tmp_path: Path) -> None:
    done = run("--model", str(tmp_path / "missing.gguf"))
    assert done.exit_code == 1
    assert done.stderr == f"Error: {tmp_path}/missing.gguf: No such file or directory\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model", "MODEL", "--layers", "4"], "--layers is for a model without a file"),
        (["--layers", "4"], "--weights and --layers go together"),
        (["--weights", "4GiB", "--layers", "4", "--weight-type", "q9"], "is not known: one of"),
        (["--root", "x", "bench", "gpu"], "--root is not for bench"),
        (["--root", "x", "policy", "init"], "--root belongs behind policy init"),
        (["--json", "bench"], "--json belongs behind bench"),
        (["--root", "x", "plan", "y"], "--root belongs behind plan"),
    ],
)
def test_wrong_usage_exits_with_2(model: str, arguments: list[str], named: str) -> None:
    done = run(*(model if word == "MODEL" else word for word in arguments))
    assert done.exit_code == 2, done.output
    assert named in done.stderr


def test_a_cache_may_be_of_every_type_whose_bytes_are_known() -> None:
    assert {*KV_TYPES, "f16"} == set(CACHE_TYPES)
