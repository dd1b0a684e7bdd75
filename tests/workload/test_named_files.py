"""A file that is named is read although its folder cannot be listed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.hf.folder import MOST_FILES
from nodecheck.workload.read import model_files, read_workload
from tests.workload.gguf import files as gguf_files
from tests.workload.gguf.shapes import Width, dense
from tests.workload.gguf.test_splits import written
from tests.workload.hf.files import llama, total, write, write_config, write_shards

WIDTH = Width(2, 64, 4, 2, 16, 128, 100)


@pytest.fixture(params=["too many files", "may not be listed"])
def unlisted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder that may be written to and searched, but not listed."""
    folder = tmp_path / "models"
    folder.mkdir()
    if request.param == "too many files":
        for number in range(MOST_FILES + 1):
            os.mknod(folder / str(number))
    elif os.geteuid() == 0:
        pytest.skip("root may list everything")
    else:
        folder.chmod(0o311)
    with pytest.raises(WorkloadError, match=r"more than 20,000 files|Permission denied"):
        read_workload(folder)
    yield folder
    folder.chmod(0o755)


def test_a_configuration(unlisted: Path) -> None:
    path = write_config(unlisted)
    assert read_workload(path).weight_bytes_shipped == total(llama())
    assert read_workload(path).notes == ()
    (unlisted / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    assert read_workload(path).weight_bytes_shipped < total(llama())


def test_a_configuration_beside_weights(unlisted: Path) -> None:
    write(unlisted / "model.safetensors", llama())
    assert any("files beside it" in note for note in read_workload(write_config(unlisted)).notes)


def test_a_gguf(unlisted: Path) -> None:
    path = gguf_files.write(unlisted / "m.gguf", *dense("llama", WIDTH))
    assert read_workload(path).format == "gguf"


def test_a_part_of_a_gguf(unlisted: Path) -> None:
    parts = written(unlisted, dense("llama", WIDTH))
    assert model_files(parts[1]) == tuple(parts)
    assert read_workload(parts[1]).format == "gguf"
    parts[2].unlink()
    with pytest.raises(WorkloadError, match=r"1 of 3 parts are missing .*m-00003-of-00003\.gguf"):
        read_workload(parts[1])


def test_a_safetensors_file(unlisted: Path) -> None:
    path = write(unlisted / "m.safetensors", llama())
    write_config(unlisted)
    work = read_workload(path)
    assert work.weight_bytes_shipped == total(llama())
    assert work.kv_bytes_per_token is not None


@pytest.mark.parametrize("index", [False, True])
def test_a_shard_or_an_index(unlisted: Path, index: bool) -> None:
    files = write_shards(unlisted, llama(), 3, index=index)
    write_config(unlisted)
    path = unlisted / "model.safetensors.index.json" if index else files[1]
    assert model_files(path) == tuple(files)
    assert read_workload(path).weight_bytes_shipped == total(llama())
    assert read_workload(path).kv_bytes_per_token is not None
    files[2].unlink()
    with pytest.raises(WorkloadError, match="1 of 3 files are missing: model-00003-of-00003"):
        read_workload(path)
