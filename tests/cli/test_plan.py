"""`nodecheck plan` as a command: which models it takes, what it prints and writes, how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner, Result

from nodecheck.cli import group, models
from nodecheck.plan import Plan
from tests.hosts import THREE_L40
from tests.lab.hanging_mount import LOOKUP, hanging_mount, is_possible
from tests.trees import plant
from tests.workload.gguf import files as gguf_files
from tests.workload.gguf import shapes as gguf_shapes
from tests.workload.hf.files import llama, write_config, write_shards

SCHEMA = Path(__file__).parents[2] / "docs" / "plan.schema.json"
NODECHECK = [sys.executable, "-m", "nodecheck"]

QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "torch_dtype": "bfloat16",
}
ROWS = [
    {"model_filename": "m.gguf", "model_size": 1 << 34, "n_gpu_layers": ngl, "n_gen": 128,
     "n_prompt": 0, "avg_ts": rate, "stddev_ts": 0.05, "n_threads": 8, "build_commit": "b1",
     "gpu_info": "NVIDIA L40", "cpu_info": "Common KVM processor", "samples_ts": [rate]}
    for ngl, rate in ((99, 38.0), (50, 3.72))
]  # fmt: skip


def run(*arguments: str, charset: str = "utf-8", stdin: str | None = None) -> Result:
    runner = CliRunner(charset=charset, env={"COLUMNS": "100"})
    return runner.invoke(group, ["plan", *arguments], input=stdin, prog_name="nodecheck")


def failed(done: Result, *named: str) -> None:
    """It ended with 1 and one line that names the trouble."""
    assert done.exit_code == 1, done.output
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for word in named:
        assert word in done.stderr


@pytest.fixture
def node(tmp_path: Path) -> str:
    """The three-L40 node."""
    plant(THREE_L40, tmp_path / "node")
    return str(tmp_path / "node")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A GGUF of 27B, without its data."""
    shape = gguf_shapes.qwen3_5_27b()
    path = tmp_path_factory.mktemp("models") / "Qwen3.5-27B.gguf"
    return str(gguf_files.write(path, shape.keys, shape.tensors))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A checkpoint's folder with nothing but a configuration."""
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    return folder


def planned(*arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


# --- what it tells ---


def test_a_gguf_file_is_planned_to_the_byte(node: str, hybrid: str) -> None:
    made = planned(hybrid, "--root", node)
    work = made["workload"]
    assert work["kv_bytes_per_token"]["bf16"] == 65_536
    assert work["state_bytes_per_sequence"] == {"sglang": 153_944_064, "llama_cpp": 156_893_184}
    assert work["layers_with_kv"] == 16
    assert work["named_by_user"]
    names = {strategy["strategy"] for strategy in made["strategies"]}
    assert {"gpu-resident", "partial-offload", "cpu-only", "host-kv-pool"} <= names


def test_a_folder_and_its_configuration_are_one_model(node: str, config: Path) -> None:
    folder = planned(str(config), "--root", node)
    file = planned(str(config / "config.json"), "--root", node)
    assert folder["workload"] == file["workload"]
    assert folder["workload"]["parameters"] == 8_190_735_360
    assert folder["workload"]["kv_bytes_per_token"]["bf16"] == 147_456


def test_numbers_are_a_model_too(node: str) -> None:
    made = planned("--weights", "16.3GiB", "--layers", "64", "--root", node)
    assert made["workload"]["format"] == "numbers"
    assert made["workload"]["kv_bytes_per_token"] is None
    assert made["workload"]["weight_type"] == "q4_k"


def test_a_model_can_be_asked_about_in_another_type_and_size(node: str, hybrid: str) -> None:
    smaller = planned(hybrid, "--root", node, "--weight-type", "q4_k_m", "--weights", "16.3GiB")
    work = smaller["workload"]
    assert work["weight_bytes_shipped"] == round(16.3 * 2**30)
    assert work["weight_type"] == "q4_k"
    assert work["kv_bytes_per_token"]["bf16"] == 65_536
    assert work["storage"] is None  # it does not lie there so


def test_how_it_is_to_be_served_is_taken(node: str, hybrid: str) -> None:
    made = planned(
        hybrid, "--root", node, "--context", "32768", "--requests", "4", "--kv-type", "q8_0",
        "--hicache-size", "40GB", "--draft-tokens", "2", "--acceptance", "0.7",
    )  # fmt: skip
    assert made["serving"]["context_tokens"] == 32_768
    assert made["serving"]["requests"] == 4
    assert made["serving"]["kv_type"] == "q8_0"
    assert made["serving"]["hicache_size_bytes"] == 40 * 10**9
    assert made["serving"]["draft_tokens"] == 2
    assert made["serving"]["acceptance"] == 0.7


def test_what_was_measured_is_set_beside_it(node: str, hybrid: str, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(ROWS))
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    from_file = planned(hybrid, "--root", node, "--measured", str(file))
    piped = run(hybrid, "--root", node, "--measured", "-", "--json", stdin=lines)
    assert [row["run"]["gpu_layers"] for row in from_file["comparisons"]] == [99, 50]
    assert len(json.loads(piped.stdout)["comparisons"]) == 2
    twice = planned(hybrid, "--root", node, "--measured", str(file), "--measured", str(file))
    assert len(twice["comparisons"]) == 4


def test_saved_facts_give_the_same_plan(node: str, hybrid: str, tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    report = CliRunner().invoke(group, ["--root", node, "--json"])
    saved.write_text(report.stdout)
    first, again = planned(hybrid, "--root", node), planned(hybrid, "--from", str(saved))
    for made in (first, again):
        made.pop("time")
        made.pop("elapsed_seconds")
    assert first == again


def test_the_json_is_valid_against_the_published_schema(node: str, hybrid: str) -> None:
    published = json.loads(SCHEMA.read_text())
    assert published == json.loads(json.dumps(msgspec.json.schema(Plan))), "run: make schema"
    jsonschema.Draft202012Validator(published).validate(planned(hybrid, "--root", node))


def test_the_terminal_has_the_answer_and_the_curve(node: str, hybrid: str) -> None:
    done = run(hybrid, "--root", node, "--weight-type", "q4_k")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2].startswith("VIABLE")
    assert "OFFLOAD" in done.stdout
    assert "⣿" in done.stdout
    assert max(map(len, (line for line in lines if "llama-server" not in line))) <= 100


def test_a_terminal_without_unicode_gets_ascii(node: str, config: Path) -> None:
    assert run(str(config), "--root", node, charset="latin-1").stdout.isascii()


def test_this_machine_is_planned_for_and_its_disk_looked_at(hybrid: str) -> None:
    made = planned(hybrid, "--quick")
    assert made["host"]["source"] == "live"
    storage = made["workload"]["storage"]
    assert storage["path"] == hybrid
    assert storage["size_bytes"] == os.stat(hybrid).st_size  # noqa: PTH116
    assert storage["allocated_bytes"] < 10**8
    assert storage["fstype"]


@pytest.mark.parametrize("asked", [".", "model.safetensors.index.json", "shard"])
def test_servers_are_given_the_folder_whatever_named_the_model(tmp_path: Path, asked: str) -> None:
    shards = write_shards(tmp_path, llama(), 2)
    write_config(tmp_path)
    path = shards[1] if asked == "shard" else tmp_path / asked
    assert planned(str(path), "--quick")["workload"]["storage"]["path"] == str(tmp_path)


# --- the page ---


def test_the_page_is_written_beside_what_is_printed(node: str, hybrid: str, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    page.write_text("<!DOCTYPE html>old")
    page.chmod(0o640)
    done = run(hybrid, "--root", node, "--html", str(page))
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"Wrote {page}\n"
    assert done.stdout.startswith("nodecheck 0.1.0")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    assert "<svg" in text
    assert page.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["node", "plan.html"]


def test_a_page_is_written_through_a_link(node: str, config: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    link.symlink_to(real)
    assert run(str(config), "--root", node, "--html", str(link)).exit_code == 0
    assert link.is_symlink()
    assert real.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", [".", "missing/plan.html", "/dev/null"])
def test_a_page_that_cannot_be_written_is_told_first(
    hybrid: str, tmp_path: Path, name: str
) -> None:
    done = run(hybrid, "--root", str(tmp_path / "no node"), "--html", str(tmp_path / name))
    failed(done, "cannot be written")


# --- what cannot be planned ---


def bad(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Paths that hold no model, and what is said of each."""
    html, empty = tmp_path / "page.gguf", tmp_path / "empty.gguf"
    html.write_text("<!DOCTYPE html><html></html>")
    empty.write_bytes(b"")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    folder = tmp_path / "folder"
    folder.mkdir()
    shape = gguf_shapes.llama_3_2_1b()
    huge = tmp_path / "huge.gguf"
    huge.write_bytes(gguf_files.header(shape.keys, shape.tensors, tensor_count=1 << 62))
    short = tmp_path / "short.gguf"
    keys = {"general.architecture": "llama"}
    gguf_files.write(short, keys, shape.tensors)
    return {
        "missing": (tmp_path / "missing.gguf", "No such file"),
        "page": (html, "web page"),
        "empty": (empty, ""),
        "fifo": (fifo, "not a regular file"),
        "folder": (folder, ""),
        "huge": (huge, ""),
        "short": (short, "not enough metadata"),
        "control": (tmp_path / "a\x1b[2J\nb", "a?[2J?b"),
    }


@pytest.mark.parametrize(
    "kind", ["missing", "page", "empty", "fifo", "folder", "huge", "short", "control"]
)
def test_what_is_no_model_is_one_line_at_once(tmp_path: Path, kind: str) -> None:
    path, named = bad(tmp_path)[kind]
    began = time.monotonic()
    done = run(str(path), "--root", str(tmp_path / "no node"))
    assert time.monotonic() - began < 1
    failed(done, named)
    assert done.stderr.startswith(f"Error: {tmp_path}")


def test_measured_files_are_read_before_the_node_is_looked_at(hybrid: str, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text('{"surprise": 1}')
    failed(run(hybrid, "--measured", str(file)), str(file), "surprise")
    failed(run(hybrid, "--measured", str(tmp_path / "missing")), "missing")


@pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse")
def test_a_file_server_that_is_gone_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "READ_SECONDS", 1.0)
    with hanging_mount(tmp_path / "hung", LOOKUP):
        began = time.monotonic()
        done = run(str(tmp_path / "hung" / "model.gguf"), "--quick")
        took = time.monotonic() - began
    failed(done, "no answer within 1 s", "hangs")
    assert took < 2


def test_a_name_of_any_bytes_is_planned(tmp_path: Path, node: str) -> None:
    shape = gguf_shapes.llama_3_2_1b()
    plain = gguf_files.write(tmp_path / "m.gguf", shape.keys, shape.tensors)
    odd = os.fsencode(tmp_path) + b"/od\xffd\x1b[2J.gguf"
    os.rename(plain, odd)  # noqa: PTH104
    command = [*NODECHECK, "plan", os.fsdecode(odd), "--root", node]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert subprocess.run([*command, "--json"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "name a MODEL"),
        (["--layers", "4"], "name a MODEL"),
        (["--weights", "4GiB"], "--weights and --layers go together"),
        (["--weights", "40", "--layers", "4"], "too little to be meant"),
        (["--weights", "4GiB", "--layers", "4", "--weight-type", "q9"], "is not known: one of"),
        (["MODEL", "--layers", "4"], "--layers is for a model without a file"),
        (["MODEL", "--weight-type", "q9"], "not known"),
        (["MODEL", "--weights", "lots"], "is no size"),
        (["MODEL", "--hicache-size", "40GB", "--hicache-ratio", "2"], "exclude each other"),
        (["MODEL", "--hicache-size", "40"], "too little"),
        (["MODEL", "--hicache-ratio", "nan"], "not a number"),
        (["MODEL", "--acceptance", "nan"], "not a number"),
        (["MODEL", "--acceptance", "1.5"], "--acceptance"),
        (["MODEL", "--context", "0"], "--context"),
        (["MODEL", "--requests", "0"], "--requests"),
        (["MODEL", "--kv-type", "f8"], "--kv-type"),
        (["MODEL", "--quick", "--kernels", "always"], "--quick"),
        (["MODEL", "--from", "x", "--root", "y"], "--from"),
        (["MODEL", "MODEL"], "extra argument"),
        (["--surprise"], "--surprise"),
    ],
)
def test_wrong_usage_exits_with_2(hybrid: str, arguments: list[str], named: str) -> None:
    done = run(*(hybrid if word == "MODEL" else word for word in arguments))
    assert done.exit_code == 2, done.output
    assert named in done.stderr


@pytest.mark.parametrize("option", ["--measured", "--policy", "--from", "--html"])
@pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse")
def test_no_other_file_may_hang_it_either(
    option: str, hybrid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "state" / "history.db"))
    monkeypatch.setattr("nodecheck.cli.inputs.READ_SECONDS", 1.0)
    monkeypatch.setattr("nodecheck.cli.output.ANSWER_SECONDS", 1.0)
    with hanging_mount(tmp_path / "hung", LOOKUP):
        first = run(hybrid, "--quick", option, str(tmp_path / "hung" / "file"))
        again = run(hybrid, "--quick", option, str(tmp_path / "hung" / "file"))
    failed(first, "no answer within 1 s", "hangs")
    failed(again, "an earlier run still hangs on it")


@pytest.mark.parametrize("kept", ["model", "measured", "policy"])
def test_no_input_becomes_a_page(kept: str, node: str, tmp_path: Path) -> None:
    shape = gguf_shapes.llama_3_2_1b()
    files = {
        "model": gguf_files.write(tmp_path / "m.gguf", shape.keys, shape.tensors),
        "measured": tmp_path / "rows.json",
        "policy": tmp_path / "policy.toml",
    }
    files["measured"].write_text('[{"avg_ts": 1.0, "n_gen": 1}]')
    files["policy"].write_text('name = "mine"')
    before = files[kept].read_bytes()
    given = ("--measured", str(files["measured"]), "--policy", str(files["policy"]))
    done = run(str(files["model"]), "--root", node, *given, "--html", str(files[kept]))
    failed(done, "cannot be written", "holds no HTML page")
    assert files[kept].read_bytes() == before
