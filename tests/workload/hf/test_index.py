"""Indexes of shards, and the shards that they name: what is missing, wrong or not to be trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodecheck.serving import Workload
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from nodecheck.workload.hf.checkpoint import INDEX_LIMIT_BYTES
from nodecheck.workload.read import read_workload
from tests.workload.hf.files import (
    llama,
    total,
    write,
    write_config,
    write_index,
    write_shards,
)


def has_note(work: Workload, words: str) -> bool:
    return any(words in note for note in work.notes)


def refusal(path: Path) -> str:
    with pytest.raises(WorkloadError) as error:
        read_workload(path)
    return str(error.value)


@pytest.mark.parametrize("total_size", [0, 10**12, "12", 1.5, True, [], -1, 2**70])
def test_a_wrong_total_size_is_noted_and_not_used(tmp_path: Path, total_size: object) -> None:
    files = write_shards(tmp_path, llama(), 2)
    weight_map = dict.fromkeys(llama(), files[0].name) | {"model.norm.weight": files[1].name}
    write_index(tmp_path, weight_map, total_size=total_size)
    work = read_workload(tmp_path)
    assert work.weight_bytes_shipped == total(llama())
    assert any("the index" in note for note in work.notes)


def test_an_index_needs_no_metadata(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 1)
    weight_map = dict.fromkeys(llama(), files[0].name)
    path = tmp_path / "model.safetensors.index.json"
    path.write_text("\ufeff" + json.dumps({"weight_map": weight_map}), encoding="utf-8")
    write_config(tmp_path)
    assert read_workload(tmp_path).notes == ()


def test_an_index_that_names_other_tensors_is_noted(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 1)
    write_index(tmp_path, {"model.norm.weight": files[0].name}, total_size=total(llama()))
    note = f"the index names 1 tensors, the files hold {len(llama())}: the latter count"
    assert note in read_workload(tmp_path).notes


def test_a_large_index_is_read_in_pieces(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 2)
    weight_map = {
        f"model.layers.0.mlp.experts.{n}.w{'x' * 90}": files[n % 2].name for n in range(30_000)
    }
    path = write_index(tmp_path, weight_map)
    assert path.stat().st_size > 4 << 20
    assert has_note(read_workload(tmp_path), "the index names 30,000 tensors")


INDEXES: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "no index of tensors"),
    "a list": ('["weight_map"]', "no index of tensors"),
    "no map": ('{"metadata":{}}', "no index of tensors"),
    "a map of numbers": ('{"weight_map":{"a":1}}', "no index of tensors"),
    "a map that is a list": ('{"weight_map":["a"]}', "weight_map is no object"),
    "metadata that is a list": ('{"weight_map":{"a":"b"},"metadata":[]}', "no index of tensors"),
    "nothing": ('{"weight_map":{}}', "names no file"),
    "nested": ('{"weight_map":' + "[" * 100_000 + "}", "no index of tensors"),
    "above": ('{"weight_map":{"a":"../../etc/passwd"}}', "not in its folder"),
    "above, in the middle": ('{"weight_map":{"a":"x/../../b.safetensors"}}', "not in its folder"),
    "absolute": ('{"weight_map":{"a":"/etc/passwd"}}', "not in its folder"),
    "empty name": ('{"weight_map":{"a":""}}', "not in its folder"),
    "NUL": ('{"weight_map":{"a":"a\\u0000.safetensors"}}', "not in its folder"),
    "no safetensors": ('{"weight_map":{"a":"config.json"}}', "no safetensors file"),
    "pickles": ('{"weight_map":{"a":"pytorch_model.bin"}}', "PyTorch pickles"),
    "escapes": ('{"weight_map":{"a":"..\\u002fb.safetensors"}}', "not in its folder"),
    "many files": (
        json.dumps({"weight_map": {str(n): f"{n}.safetensors" for n in range(2000)}}),
        "more than 1024 files",
    ),
    "long name": (
        json.dumps({"weight_map": {"a" * 1_200_000: "a.safetensors", "b": "c.safetensors"}}),
        "a name of over",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INDEXES)
def test_refuses_an_index(tmp_path: Path, case: str) -> None:
    text, word = INDEXES[case]
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    assert word in refusal(tmp_path)
    assert word in refusal(path)


def test_an_index_of_100_mb_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{"weight_map":{')
    with path.open("r+b") as file:
        file.truncate(INDEX_LIMIT_BYTES + 1)
    with pytest.raises(NotEnoughMetadata, match="an index of 40,000,001 bytes"):
        read_workload(tmp_path)


def test_missing_shards_are_named(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 5)
    files[1].unlink()
    files[3].unlink()
    wanted = "2 of 5 files are missing: model-00002-of-00005.safetensors and model-00004-of"
    assert refusal(tmp_path).startswith(wanted)
    (tmp_path / "model.safetensors.index.json").unlink()
    assert refusal(tmp_path).startswith(wanted)
    assert refusal(files[0]).startswith(wanted)
    (tmp_path / f"{files[1].name}.incomplete").touch()
    assert refusal(tmp_path).endswith("; a download is under way")


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 2)
    write(files[1], {"model.embed_tokens.weight": ("BF16", (1, 1))})
    assert refusal(tmp_path) == (
        f"{files[1].name}: it holds model.embed_tokens.weight, which an earlier part holds too"
    )


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"", "0 bytes, too short"),
    ],
)
def test_a_broken_shard_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    files = write_shards(tmp_path, llama(), 3)
    files[2].write_bytes(content)
    message = refusal(tmp_path)
    assert message.startswith(f"{files[2].name}: ")
    assert word in message


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 3)
    with files[1].open("r+b") as file:
        file.truncate(files[1].stat().st_size - 7)
    assert refusal(tmp_path).startswith(f"{files[1].name}: truncated: 7 of ")
