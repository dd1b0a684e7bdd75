"""Every kind of path that may be named as a model."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from pathlib import Path

import pytest

from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from nodecheck.workload.hf.folder import MOST_FILES
from nodecheck.workload.read import model_files, read_workload
from tests.workload.gguf import files as gguf_files
from tests.workload.gguf.shapes import Width, dense
from tests.workload.hf.files import (
    LLAMA_CONFIG,
    llama,
    total,
    write,
    write_config,
    write_index,
    write_raw,
    write_shards,
)
from tests.workload.spent import spent

SIZE = total(llama())


def refusal(path: Path) -> str:
    begin = time.monotonic()
    with pytest.raises(WorkloadError) as error:
        read_workload(path)
    assert time.monotonic() - begin < 1
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", str(error.value))
    return str(error.value)


def has_note(path: Path, words: str) -> bool:
    return any(words in note for note in read_workload(path).notes)


def write_gguf(path: Path) -> Path:
    """A small Llama in f32."""
    return gguf_files.write(path, *dense("llama", Width(2, 64, 4, 2, 16, 128, 100)))


def test_a_folder_a_file_and_an_index_are_one_model(tmp_path: Path) -> None:
    folder = tmp_path / "llama-small"
    folder.mkdir()
    files = write_shards(folder, llama(), 3)
    write_config(folder)
    paths = [folder, folder / "model.safetensors.index.json", *files]
    for path in paths:
        work = read_workload(path)
        assert (work.name, work.weight_bytes_shipped) == ("llama-small", SIZE)
        assert work.kv_bytes_per_token is not None
        assert model_files(path) == tuple(files)
    assert has_note(files[1], f"{files[1].name} is one of 3 shards: all of them are used")


def test_a_configuration_stands_for_a_model_that_is_not_there(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    for named in (path, tmp_path):
        work = read_workload(named)
        assert (work.format, work.weight_bytes_shipped, work.notes) == ("config", SIZE, ())
        assert work.name == tmp_path.name
        assert model_files(named) == ()


def test_a_configuration_that_is_named_counts_alone(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", llama())
    path = write_config(tmp_path, num_hidden_layers=3)
    work = read_workload(path)
    assert (work.format, work.layers) == ("config", 3)
    assert has_note(path, "name the folder to take those of the files beside it")


def test_a_configuration_of_another_name_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "llama.json"
    path.write_text(f"\ufeff \n{json.dumps(LLAMA_CONFIG)}", encoding="utf-8")
    assert read_workload(path).weight_bytes_shipped == SIZE
    assert read_workload(path).name == "llama"


def test_an_index_of_another_name_is_known_by_its_content(tmp_path: Path) -> None:
    write_shards(tmp_path, llama(), 2)
    (tmp_path / "model.safetensors.index.json").rename(tmp_path / "other.json")
    assert read_workload(tmp_path / "other.json").weight_bytes_shipped == SIZE


def test_a_file_of_another_name_is_known_by_its_content(tmp_path: Path) -> None:
    write(tmp_path / "weights", llama())
    write_gguf(tmp_path / "model.bin")
    assert read_workload(tmp_path / "weights").format == "safetensors"
    assert read_workload(tmp_path / "model.bin").format == "gguf"


def test_a_gguf_that_lies_about_its_name(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.safetensors")
    assert read_workload(tmp_path / "model.safetensors").format == "gguf"


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("models--Qwen--Qwen3-8B/snapshots/0123abcd", "Qwen/Qwen3-8B"),
        ("models/Qwen3-8B", "Qwen3-8B"),
    ],
)
def test_a_model_is_called_by_its_folder(tmp_path: Path, name: str, called: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    write_config(folder)
    assert read_workload(folder).name == called


def test_links_into_a_cache_are_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, file in enumerate(write_shards(blobs, llama(), 2)):
        blob = file.rename(blobs / f"{number:064x}")
        (snapshot / file.name).symlink_to(f"../../blobs/{blob.name}")
    assert read_workload(snapshot).weight_bytes_shipped == SIZE


class TestFolder:
    """What of a folder is the model."""

    def test_one_file(self, tmp_path: Path) -> None:
        write(tmp_path / "llama-3.safetensors", llama())
        assert read_workload(tmp_path).weight_bytes_shipped == SIZE

    def test_shards_without_an_index(self, tmp_path: Path) -> None:
        write_shards(tmp_path, llama(), 4, index=False, prefix="llama")
        assert read_workload(tmp_path).weight_bytes_shipped == SIZE

    def test_copies_in_other_layouts_are_left_out(self, tmp_path: Path) -> None:
        write_shards(tmp_path, llama(), 2)
        write(tmp_path / "consolidated.safetensors", llama(layers=7))
        (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
        for name in ("original", "metal"):
            (tmp_path / name).mkdir()
            write(tmp_path / name / "model.safetensors", llama(layers=5))
        assert read_workload(tmp_path).weight_bytes_shipped == SIZE

    def test_the_whole_file_wins_over_others(self, tmp_path: Path) -> None:
        write(tmp_path / "model.safetensors", llama())
        write(tmp_path / "other.safetensors", llama(layers=7))
        write_shards(tmp_path, llama(layers=5), 2, index=False)
        assert read_workload(tmp_path).weight_bytes_shipped == SIZE

    def test_an_index_wins_over_the_whole_file(self, tmp_path: Path) -> None:
        files = write_shards(tmp_path, llama(), 2, index=False)
        write_index(tmp_path, {"a": files[0].name, "b": files[1].name})
        write(tmp_path / "model.safetensors", llama(layers=7))
        assert read_workload(tmp_path).weight_bytes_shipped == SIZE

    def test_several_models(self, tmp_path: Path) -> None:
        write(tmp_path / "a.safetensors", llama())
        write(tmp_path / "b.safetensors", llama())
        assert refusal(tmp_path) == "several models: a.safetensors and b.safetensors; name one"
        assert read_workload(tmp_path / "b.safetensors").weight_bytes_shipped == SIZE

    def test_one_gguf(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "llama-q8_0.gguf")
        (tmp_path / "mmproj-f16.gguf").write_bytes(b"GGUF")
        write_config(tmp_path)
        assert read_workload(tmp_path).format == "gguf"
        assert model_files(tmp_path) == (tmp_path / "llama-q8_0.gguf",)

    def test_several_quantisations(self, tmp_path: Path) -> None:
        for name in ("m-q8_0", "m-q4_k_m-00001-of-00002", "m-q4_k_m-00002-of-00002", "m-f16"):
            write_gguf(tmp_path / f"{name}.gguf")
        wanted = "several GGUF models: m-f16.gguf, m-q4_k_m-00001-of-00002.gguf and m-q8_0.gguf"
        assert refusal(tmp_path) == f"{wanted}; name one"

    def test_parts_of_one_gguf(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "m-00001-of-00002.gguf")
        assert "m-00002-of-00002.gguf" in refusal(tmp_path)

    def test_safetensors_win_over_gguf(self, tmp_path: Path) -> None:
        write(tmp_path / "model.safetensors", llama())
        write_gguf(tmp_path / "m.gguf")
        assert read_workload(tmp_path).format == "safetensors"
        assert has_note(tmp_path, "the folder also holds GGUF files, as m.gguf: not used")

    def test_pickles_beside_a_configuration(self, tmp_path: Path) -> None:
        write_config(tmp_path)
        (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
        assert read_workload(tmp_path).weight_bytes_shipped == SIZE
        assert has_note(tmp_path, "its weights are PyTorch pickles")

    @pytest.mark.parametrize(
        ("names", "word"),
        [
            ([], "no model: neither *.safetensors, *.gguf nor config.json"),
            (["README.md", "tokenizer.json"], "no model: neither"),
            (["pytorch_model.bin"], "only PyTorch pickles"),
            (["params.json", "consolidated.safetensors"], "not enough metadata: params.json"),
            (["adapter_config.json", "adapter_model.safetensors"], "a LoRA adapter is no model"),
            (["model.safetensors.incomplete"], "nothing but unfinished downloads"),
        ],
    )
    def test_nothing(self, tmp_path: Path, names: list[str], word: str) -> None:
        for name in names:
            (tmp_path / name).write_bytes(b"{}")
        assert word in refusal(tmp_path)

    def test_more_files_than_are_looked_at(self, tmp_path: Path) -> None:
        for number in range(MOST_FILES + 1):
            os.mknod(tmp_path / str(number))
        assert refusal(tmp_path) == "a folder of more than 20,000 files: name the model's own"

    def test_shards_that_are_no_files(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "model-00001-of-00002.safetensors")
        (tmp_path / "model-00002-of-00002.safetensors").mkdir()
        assert refusal(tmp_path) == ("model-00001-of-00002.safetensors: a FIFO, not a regular file")

    @pytest.mark.parametrize("count", ["00000", "65535", "99999"])
    def test_numbers_of_shards_that_cannot_be(self, tmp_path: Path, count: str) -> None:
        (tmp_path / f"model-00001-of-{count}.safetensors").touch()
        assert "of 1024 at most" in refusal(tmp_path)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_it_may_not_be_listed(self, tmp_path: Path) -> None:
        (tmp_path / "closed").mkdir(mode=0)
        assert refusal(tmp_path / "closed") == "Permission denied"


class TestRefusal:
    """Paths that are no model."""

    def test_it_is_not_there(self, tmp_path: Path) -> None:
        assert refusal(tmp_path / "model.gguf") == "No such file or directory"
        assert refusal(tmp_path / "a" / "b") == "No such file or directory"

    def test_a_fifo(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "m.gguf")
        assert refusal(tmp_path / "m.gguf") == "a FIFO, not a regular file"

    def test_a_socket(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("s")
            assert refusal(Path("s")) == "a socket, not a regular file"

    def test_links_in_a_circle(self, tmp_path: Path) -> None:
        (tmp_path / "m").symlink_to(tmp_path / "m")
        assert refusal(tmp_path / "m") == "a symbolic link that leads to itself"

    def test_a_shard_that_links_to_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").symlink_to("gone")
        write_config(tmp_path)
        assert refusal(tmp_path) == "No such file or directory"

    @pytest.mark.parametrize("path", ["a\0b", "\0", "/dev/null", "/dev/zero"])
    def test_odd_paths(self, path: str) -> None:
        assert refusal(Path(path))

    def test_a_still_growing_download(self, tmp_path: Path) -> None:
        write(tmp_path / "model.safetensors.part", llama())
        assert "wait for the download" in refusal(tmp_path / "model.safetensors.part")

    @pytest.mark.parametrize(
        ("name", "content", "word"),
        [
            ("m.gguf", b"", "an empty file"),
            ("m.gguf", b"abc", "no GGUF file"),
            ("m", b"", "an empty file"),
            ("m", bytes(100), "does not begin with {"),
            ("config.json", b"", "an empty file"),
            ("config.json", b"12", "not an object"),
            ("config.json", b"no", "config.json is no JSON"),
            ("config.json", b"[]", "not an object"),
            ("config.json", b"{", "config.json is no JSON"),
            ("config.json", b'{"a":' + b"[" * 100_000, "nests deeper"),
            ("config.json", b"{}", "not enough metadata"),
            ("m.json", b'{"weight_map":{}}', "names no file"),
            ("config.json", b"[" * 200_000, "config.json"),
            ("config.json", b"{" + b'"a":[],' * 200_000 + b'"b":1}', "over 300,000 values"),
            ("m.safetensors", b"{}", "too short"),
            ("m.safetensors", b'{"error":"not found"}', "no safetensors file"),
        ],
    )
    def test_content(self, tmp_path: Path, name: str, content: bytes, word: str) -> None:
        (tmp_path / name).write_bytes(content)
        assert word in refusal(tmp_path / name)

    @pytest.mark.parametrize(
        ("dimensions", "word"),
        [
            (("hidden_size", "intermediate_size", "vocab_size"), "bytes of weights"),
            (("num_attention_heads", "num_key_value_heads", "head_dim"), "bytes of weights"),
        ],
    )
    def test_dimensions_of_no_model(
        self, tmp_path: Path, dimensions: tuple[str, ...], word: str
    ) -> None:
        write_config(tmp_path, **dict.fromkeys(dimensions, 2**31 - 1))
        assert word in refusal(tmp_path)

    def test_a_configuration_of_100_mb(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_bytes(b'{"a":"' + b"x" * 100_000_000 + b'"}')
        assert "no configuration is as long" in refusal(tmp_path)


SETUP = "from nodecheck.workload.read import read_workload"
WORK = "read_workload(Path(sys.argv[1]))"


def hostile_json(path: Path) -> Path:
    """As many values as a configuration of 8 MB may hold."""
    path.write_bytes(b"{" + b'"a":[{}],' * 74_000 + b'"b":1}')
    return path


def hostile_index(path: Path) -> Path:
    entries = ",".join(f'"t{n}":"{n % 1000}.safetensors"' for n in range(1_200_000))
    path.write_text('{"weight_map":{' + entries + "}}")
    return path


def many_layers(path: Path) -> Path:
    return write(path, {f"model.layers.{n % 512}.mlp.w{n}": ("U8", (1,)) for n in range(49_999)})


def long_names(path: Path, count: int, length: int, begin: str, fill: str = "x") -> Path:
    """`begin` takes a tensor's number; `fill` is repeated behind it."""
    tail = fill * length
    names = (f"model.layers.{n % 512}.{begin.format(n)}{tail}"[:length] for n in range(count))
    return write(path, dict.fromkeys(names, ("U8", (1,))))


HOSTILE = {
    "values": lambda folder: hostile_json(folder / "config.json"),
    "names in an index": lambda folder: hostile_index(folder / "model.safetensors.index.json"),
    "tensors of as many kinds as may be": lambda folder: many_layers(folder / "m.safetensors"),
    "names of 3,000": lambda folder: long_names(folder / "m", 30_000, 3000, "w{}"),
    "names of 500": lambda folder: long_names(folder / "m", 49_999, 500, "w{}", ".x"),
    "experts of 500": lambda folder: long_names(
        folder / "m", 160_000, 500, "experts.{}.", "experts.0."
    ),
    "a sparse file of 1 TB": lambda folder: write_raw(folder / "m", b"{}", 1 << 40),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_takes_a_second_and_100_mb(tmp_path: Path, case: str) -> None:
    took = spent(SETUP, WORK, HOSTILE[case](tmp_path))
    assert took.said
    assert "\n" not in took.said
    assert took.seconds < 1
    assert took.peak_kib < 100_000


def test_metadata_that_is_missing_is_said_so(tmp_path: Path) -> None:
    write(tmp_path / "m", {"a": ("F32", (1,))})
    with pytest.raises(NotEnoughMetadata, match=r"^not enough metadata: "):
        read_workload(tmp_path / "m")
