"""What a path may name, and what is said of what it may not."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

import pytest

from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown
from nodecheck.workload.files import HEAD_BYTES, inside, open_regular, refuse_other_kinds


def refusal(path: Path) -> str:
    begin = time.monotonic()
    with pytest.raises(WorkloadError) as error, open_regular(path):
        pass
    assert time.monotonic() - begin < 1
    assert not re.search(r"[\x00-\x1f]", str(error.value))
    return str(error.value)


def test_reads_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"0123456789")
    with open_regular(path) as file:
        assert (file.size, file.name) == (10, "model")
        assert file.read_at(2, 3) == b"234"
        assert file.read_at(8, 100) == b"89"
        assert file.read_at(10, 1) == file.read_at(1 << 62, 1 << 62) == file.read_at(3, 0) == b""
        status = path.stat()
        assert file.device == f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        assert file.allocated_bytes == status.st_blocks * 512


def test_follows_links(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    (tmp_path / "model").symlink_to("blob")
    with open_regular(tmp_path / "model") as file:
        assert file.read_at(0, 2) == b"x"


def test_a_file_that_shrinks_is_read_short(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(bytes(1000))
    with open_regular(path) as file:
        os.truncate(path, 10)
        assert len(file.read_at(0, 1000)) == 10


def test_a_file_that_grows_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(bytes(10))
    with open_regular(path) as file:
        os.truncate(path, 1 << 40)
        assert len(file.read_at(0, 1 << 40)) == 10


def test_holes_are_not_allocated(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.touch()
    os.truncate(path, 1 << 40)
    with open_regular(path) as file:
        assert file.size == 1 << 40
        assert file.allocated_bytes < 1 << 20


def test_refuses_a_fifo_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "fifo") == "a FIFO, not a regular file"


def test_refuses_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert refusal(Path("socket")) == "a socket, not a regular file"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/null", "a device, not a regular file"),
        ("/dev", "a folder, not a regular file"),
        ("/nowhere/model.gguf", "No such file or directory"),
        ("/dev/null/model.gguf", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("a\0b", "no path: embedded null byte"),
    ],
)
def test_refuses_what_is_no_file(path: str, why: str) -> None:
    assert refusal(Path(path)) == why


def test_refuses_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert refusal(tmp_path / "a") == "a symbolic link that leads to itself"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_refuses_what_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "model").touch(mode=0)
    assert refusal(tmp_path / "model") == "Permission denied"


@pytest.mark.parametrize(
    ("head", "name", "word"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "model.safetensors", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "model.gguf", "web page"),
        (b"\n  <html lang=en>", "model.gguf", "web page"),
        (b'<?xml version="1.0"?><Error>', "model.gguf", "web page"),
        (b"PK\x03\x04....archive/data.pkl", "pytorch_model.bin", "PyTorch pickle"),
        (b"\x80\x02}q\x00", "model.pt", "PyTorch pickle"),
        (b"GGUF\x03\0\0\0", "model.gguf.part", "not whole yet by its name (.part)"),
        (b"GGUF\x03\0\0\0", "ab12.INCOMPLETE", "(.incomplete)"),
        (b"GGUF\x03\0\0\0", "Unconfirmed 1.crdownload", "(.crdownload)"),
        (b"GGUF\x03\0\0\0", "model.Q8_0.gguf.part1of2", "join the pieces"),
        (b"GGUF\x03\0\0\0", "model.q4_k_m.gguf-split-a", "join the pieces"),
    ],
)
def test_names_what_lies_in_the_place_of_a_model(head: bytes, name: str, word: str) -> None:
    with pytest.raises(WorkloadError, match=re.escape(word)):
        refuse_other_kinds(head[:HEAD_BYTES], name)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"GGUF\x03\0\0\0", "model-00001-of-00002.gguf"),
        (b"\x40\0\0\0\0\0\0\0{", "model.safetensors"),
        (b"\x80\x02\0\0\0\0\0\0{", "model.safetensors"),  # a header of 640 bytes
        (b"{", "config.json"),
        (b"", "empty"),
    ],
)
def test_lets_models_through(head: bytes, name: str) -> None:
    refuse_other_kinds(head, name)


def test_errors_name_the_file_among_several() -> None:
    with pytest.raises(WorkloadError, match=r"^b\?\.gguf: it is truncated$"), inside("b\n.gguf"):
        raise WorkloadError("it is truncated")
    with pytest.raises(NotEnoughMetadata, match=r"^not enough metadata: head_dim"), inside("x"):
        raise NotEnoughMetadata("head_dim")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("blk.0", "blk.0"),
        ("a\x1b[31mb\n\u2028\u202e", "a?[31mb???"),
        ("x" * 90, "x" * 80 + "..."),
        (7, "7"),
    ],
)
def test_text_of_files_is_shown_in_one_short_line(text: object, plain: str) -> None:
    assert shown(text) == plain
