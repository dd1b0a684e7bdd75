"""What processes have mapped and open: as the kernel shows it of real ones, and as it may look."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.checks.engine.mappings import (
    Mapped,
    gpu_files,
    locked_limit_bytes,
    mapped,
    numa_bytes,
    once,
    opened,
)
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason
from tests.trees import Link, Tree, plant

PAGE = 4096
MAPS = """
import mmap, os, sys
held = []
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        held.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def maps(*paths: Path | bytes) -> Iterator[int]:
    """A process that maps these files."""
    with subprocess.Popen(
        [sys.executable, "-c", MAPS, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()


def here() -> Reader:
    return Reader(open_host(None), "engine")


def captured(tree: Tree, directory: Path) -> Reader:
    return Reader(plant(tree, directory), "engine")


def file_of(path: Path | bytes, pages: int = 3) -> Path | bytes:
    with open(path, "wb") as file:  # noqa: PTH123 - may be no text
        file.write(bytes(pages * PAGE))
    return path


def one_of(pid: int, inode: int) -> Mapped:
    (found,) = [each for each in mapped(here(), pid) if each.inode == inode]
    return found


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"model.gguf", "model.gguf"),
        (b"two words  and a (bracket) .gguf ", "two words  and a (bracket) .gguf "),
        (b"two\nlines.gguf", "two\ufffdlines.gguf"),
        (b"caf\xe9\xff.gguf", "caf\ufffd\ufffd.gguf"),
        ("модель.gguf".encode(), "модель.gguf"),
        (b"\x1b[2J.gguf", "\ufffd[2J.gguf"),
    ],
)
def test_a_file_by_any_name(tmp_path: Path, name: bytes, shown: str) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    file_of(path)
    inode = os.stat(path).st_ino  # noqa: PTH116
    with maps(path) as pid:
        found = one_of(pid, inode)
        with opened(found) as fd:
            assert os.fstat(fd).st_ino == inode
    assert found.path == f"{tmp_path}/{shown}"
    assert found.name == shown
    assert found.mapped_bytes == 3 * PAGE
    assert not found.is_code
    assert not found.is_deleted


def test_a_program_maps_code() -> None:
    inode = Path(sys.executable).resolve().stat().st_ino
    with maps() as pid:
        assert one_of(pid, inode).is_code


def test_a_file_that_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "gone.gguf"
    file_of(path)
    inode = path.stat().st_ino
    with maps(path) as pid:
        path.unlink()
        found = one_of(pid, inode)
        assert found.is_deleted
        assert found.path == str(path)
        if os.geteuid() == 0:
            with opened(found) as fd:
                assert os.fstat(fd).st_ino == inode


def test_a_file_whose_place_another_took(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    file_of(path)
    with maps(path) as pid:
        found = one_of(pid, path.stat().st_ino)
    (tmp_path / "keeps the number").hardlink_to(path)
    path.unlink()
    file_of(path)
    stale = Mapped(
        path=found.path, place=str(path), device=found.device, inode=found.inode,
        mapped_bytes=PAGE, is_code=False, is_deleted=False,
    )  # fmt: skip
    with pytest.raises(OSError, match="replaced") as error, opened(stale):
        pass
    assert error.value.errno == errno.ENOENT


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "model.gguf")
    found = Mapped(
        path="m", place=str(tmp_path / "model.gguf"), device=(0, 0), inode=1,
        mapped_bytes=PAGE, is_code=False, is_deleted=False,
    )  # fmt: skip
    begun = time.monotonic()
    with pytest.raises(OSError, match="not a regular file"), opened(found):
        pass
    assert time.monotonic() - begun < 1


def test_several_mappings_of_one_file(tmp_path: Path) -> None:
    lines = (
        "7f0000000000-7f0000002000 r--p 00000000 fd:01 77 /lib/libggml-cpu.so\n"
        "7f0000002000-7f0000005000 r-xp 00002000 fd:01 77 /lib/libggml-cpu.so\n"
        "7f0000005000-7f0000006000 rw-p 00000000 00:00 0 \n"
        "7f0000006000-7f0000007000 rw-p 00000000 00:00 0                          [heap]\n"
        "7f0000007000-7f0000008000 rw-s 00000000 00:01 1034 /memfd:x (deleted)\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n"
        "not a line at all\n"
    )
    library, memory = mapped(captured({"proc/7/maps": lines}, tmp_path), 7)
    assert (library.path, library.mapped_bytes, library.is_code) == (
        "/lib/libggml-cpu.so", 0x5000, True,
    )  # fmt: skip
    assert (library.device, library.inode) == ((0xFD, 1), 77)
    assert memory.is_deleted
    assert memory.place == "/proc/7/map_files/7f0000007000-7f0000008000"


def test_as_many_mappings_as_linux_allows(tmp_path: Path) -> None:
    lines = "".join(
        f"{n:012x}-{n + 1:012x} r-xp 00000000 fd:01 {n % 100} /opt/venv/lib/lib{n % 100}.so\n"
        for n in range(65_530)
    )
    reader = captured({"proc/7/maps": lines}, tmp_path)
    begun = time.process_time()
    found = mapped(reader, 7)
    assert time.process_time() - begun < 3
    assert len(found) == 100
    assert sum(each.mapped_bytes for each in found) == 65_530


def test_files_of_several_processes(tmp_path: Path) -> None:
    tree: Tree = {
        f"proc/{pid}/maps": f"7f0000000000-7f000000{size}000 r--s 0 fd:01 9 /m.gguf\n"
        for pid, size in ((7, "1"), (8, "3"), (9, "2"))
    }
    tree = {path: str(text).replace(" 0 fd", " 00000000 fd") for path, text in tree.items()}
    reader = captured(tree, tmp_path)
    (file,) = once(mapped(reader, pid) for pid in (7, 8, 9))
    assert file.mapped_bytes == 0x3000
    assert file.place == "/proc/8/root/m.gguf"


@pytest.mark.parametrize(
    ("root", "path", "place"),
    [
        ("/", "/m.gguf", "/proc/7/root/m.gguf"),
        ("/srv/jail", "/srv/jail/m.gguf", "/proc/7/root/m.gguf"),
        ("/srv/jail", "/srv/jailed/m.gguf", "/proc/7/map_files/1000-2000"),
        ("/srv/jail", "/opt/m.gguf", "/proc/7/map_files/1000-2000"),
    ],
)
def test_a_process_with_another_root(tmp_path: Path, root: str, path: str, place: str) -> None:
    tree: Tree = {
        "proc/7/maps": f"1000-2000 r--s 00000000 fd:01 9 {path}\n",
        "proc/7/root": Link(root),
    }
    (file,) = mapped(captured(tree, tmp_path), 7)
    assert (file.path, file.place) == (path, place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may chroot")
def test_a_real_chroot(tmp_path: Path) -> None:
    jail = tmp_path / "jail"
    jail.mkdir()
    file_of(jail / "m.gguf")
    file_of(tmp_path / "outside.gguf")
    code = f"import os; os.chroot({str(jail)!r})\n{MAPS}"
    opened_before = f"outside = open({str(tmp_path / 'outside.gguf')!r}, 'rb'); import mmap\n"
    opened_before += "also = mmap.mmap(outside.fileno(), 0, prot=mmap.PROT_READ)\n"
    with subprocess.Popen(
        [sys.executable, "-c", opened_before + code, "/m.gguf"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for path in (jail / "m.gguf", tmp_path / "outside.gguf"):
            found = one_of(process.pid, path.stat().st_ino)
            assert found.path == str(path)
            with opened(found) as fd:
                assert os.fstat(fd).st_ino == path.stat().st_ino
        assert process.stdin is not None
        process.stdin.close()


def fds(*targets: str) -> Tree:
    return {f"proc/7/fd/{number}": Link(target) for number, target in enumerate(targets)}


@pytest.mark.parametrize(
    ("targets", "cards"),
    [
        (("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"), ("/dev/nvidia0",)),
        (("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"), ()),
        (("/dev/nvidia1", "/dev/nvidia1", "/dev/nvidia0"), ("/dev/nvidia0", "/dev/nvidia1")),
        (("/dev/kfd", "/dev/dri/renderD128"), ("/dev/dri/renderD128", "/dev/kfd")),
        (("/dev/accel/accel0",), ("/dev/accel/accel0",)),
        (("/dev/dri/card0", "/dev/null", "/dev/nvidia0.old", "/srv/dev/nvidia0"), ()),
        ((), ()),
    ],
)
def test_device_files(tmp_path: Path, targets: tuple[str, ...], cards: tuple[str, ...]) -> None:
    tree = fds(*targets) | {"proc/7/fd/99": Link("/dev/zero")}
    assert gpu_files(captured(tree, tmp_path), 7) == cards


def test_ten_thousand_descriptors() -> None:
    code = (
        "import resource, socket, sys, os\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (11_000, 11_000))\n"
        "held = [os.dup(0) for _ in range(10_000)]\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        begun = time.process_time()
        assert gpu_files(here(), process.pid) == ()
        assert time.process_time() - begun < 1


def test_where_memory_lies(tmp_path: Path) -> None:
    lines = (
        "7f00 default file=/m/N9=1.gguf mapped=300 N0=100 N1=200 kernelpagesize_kB=4\n"
        "7f01 bind:0 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
        "7f02 default heap\n"
        "7f03 default N0=5\n"
    )
    found = numa_bytes(captured({"proc/7/numa_maps": lines}, tmp_path), 7)
    assert found == {0: 100 << 12, 1: (200 << 12) + (4 << 20)}


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("Max locked memory         8388608              unlimited            bytes     ", 8388608),
        ("Max locked memory         unlimited            unlimited            bytes     ", None),
        ("Max file locks            unlimited            unlimited            locks     ", None),
        ("Max locked memory         0                    0                    bytes     ", 0),
    ],
)
def test_what_may_be_locked(tmp_path: Path, line: str, limit: int | None) -> None:
    written = f"Limit                     Soft Limit\n{line}\n"
    assert locked_limit_bytes(captured({"proc/7/limits": written}, tmp_path), 7) == limit


def test_our_own_limit() -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    expected = None if soft == resource.RLIM_INFINITY else soft
    assert locked_limit_bytes(here(), os.getpid()) == expected


@pytest.mark.parametrize("ask", [mapped, gpu_files, numa_bytes, locked_limit_bytes])
def test_a_process_that_is_not_there(tmp_path: Path, ask: object) -> None:
    assert callable(ask)
    with pytest.raises(UnreadableError) as error:
        ask(captured({}, tmp_path), 7)
    assert error.value.reason is Reason.ABSENT
