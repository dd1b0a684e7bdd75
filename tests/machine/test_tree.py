from __future__ import annotations

import contextlib
import gzip
import io
import os
import socket
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.machine import archive as archive_module
from nodecheck.machine.archive import ArchiveTree
from nodecheck.machine.child import call
from nodecheck.machine.host import CapturedHost, LiveHost
from nodecheck.machine.tree import (
    FILE_LIMIT_BYTES,
    DirectoryTree,
    LayeredTree,
    UnreadableError,
    resolve,
)
from nodecheck.model import Reason
from tests.trees import Link, Tree

MIB = 1 << 20
Node = Callable[[Tree], CapturedHost]


def reason(work: Callable[[], object]) -> Reason:
    with pytest.raises(UnreadableError) as error:
        work()
    assert error.value.detail.count("\n") == 0
    return error.value.reason


def test_a_file_and_a_directory(node: Node) -> None:
    host = node({"proc/b": "2", "proc/a": "1"})
    assert host.read("/proc/a") == "1"
    assert host.names("/proc") == ("a", "b")
    assert host.exists("/proc")
    assert host.exists("/proc/a")
    assert not host.exists("/proc/c")


def test_what_is_missing_or_of_another_kind(node: Node) -> None:
    host = node({"proc/a": "1"})
    assert reason(lambda: host.read("/proc/none")) is Reason.ABSENT
    assert reason(lambda: host.read("/proc/a/below")) is Reason.ABSENT
    assert reason(lambda: host.read("/proc")) is Reason.FAILED
    assert reason(lambda: host.names("/proc/a")) is Reason.ABSENT


def test_bytes_that_are_no_text(node: Node) -> None:
    assert node({"proc/a": b"\xff\x00a"}).read("/proc/a") == "\ufffd\0a"


@pytest.mark.parametrize("path", ["/proc/a\0b", "/" + "x" * 5000])
def test_paths_that_cannot_be(path: str, node: Node) -> None:
    for host in (node({"proc/a": "1"}), LiveHost()):
        assert not host.exists(path)
        reason(lambda host=host: host.read(path))  # type: ignore[misc]
        reason(lambda host=host: host.names(path))  # type: ignore[misc]


def test_a_fifo_a_socket_and_a_device_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (tmp_path / "zero").symlink_to("/dev/zero")
        tree = DirectoryTree(tmp_path)
        for name in ("/fifo", "/socket", "/zero"):
            assert reason(lambda name=name: tree.read(name)) is Reason.FAILED  # type: ignore[misc]
    assert reason(lambda: LiveHost().read("/dev/zero")) is Reason.FAILED
    with pytest.raises(OSError, match="No such device or address"):  # still nobody reads it
        os.open(tmp_path / "fifo", os.O_WRONLY | os.O_NONBLOCK)


def test_a_link_to_a_device_stays_in_the_capture(node: Node) -> None:
    host = node({"proc/cpuinfo": Link("/dev/zero")})
    assert reason(lambda: host.read("/proc/cpuinfo")) is Reason.ABSENT


def test_a_file_of_100_mb_is_refused_quickly(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(100 * MIB)
    start = time.process_time()
    assert reason(lambda: DirectoryTree(tmp_path).read("/large")) is Reason.FAILED
    assert time.process_time() - start < 1


def test_as_much_as_is_allowed_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * FILE_LIMIT_BYTES)
    assert len(DirectoryTree(tmp_path).read("/file")) == FILE_LIMIT_BYTES


def _refusal(work: Callable[[], object]) -> str:
    try:
        work()
    except UnreadableError as error:
        return error.reason.value
    return "read"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_what_another_user_may_not_read_is_denied(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "closed").mkdir(mode=0o700)

    def as_nobody() -> list[str]:
        for directory in (tmp_path, *tmp_path.parents):
            if directory.stat().st_mode & 0o055 != 0o055:
                directory.chmod(directory.stat().st_mode | 0o055)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        tree = DirectoryTree(tmp_path)
        return [_refusal(lambda: tree.read("/secret")), _refusal(lambda: tree.names("/closed"))]

    assert call(as_nobody, list[str], 20.0).value == ["denied", "denied"]


def test_links_are_followed_inside_the_capture(node: Node) -> None:
    host = node(
        {
            "sys/devices/pci0/0000:01:00.0/vendor": "0x10de",
            "sys/bus/pci/devices/0000:01:00.0": Link("../../../devices/pci0/0000:01:00.0"),
            "sys/class": Link("/sys/bus"),
        }
    )
    assert host.real_path("/sys/class/pci/devices/0000:01:00.0") == (
        "/sys/devices/pci0/0000:01:00.0"
    )
    assert host.read("/sys/class/pci/devices/0000:01:00.0/vendor") == "0x10de"


def test_a_link_that_was_kept_as_text(node: Node) -> None:
    host = node(
        {
            "sys/devices/pci0/0000:01:00.0/vendor": "0x10de",
            "sys/bus/pci/devices/0000:01:00.0": "../../../devices/pci0/0000:01:00.0\n",
        }
    )
    assert host.read("/sys/bus/pci/devices/0000:01:00.0/vendor") == "0x10de"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../../../../../../etc/passwd", "../" * 60 + "etc/passwd"]
)
def test_no_link_leads_out(target: str, node: Node) -> None:
    host = node({"proc/version": Link(target), "proc/dir": Link("/")})
    assert Path("/etc/passwd").exists()
    assert reason(lambda: host.read("/proc/version")) is Reason.ABSENT
    assert host.names("/proc/dir") == ("proc",)
    assert reason(lambda: host.read("/proc/dir/etc/passwd")) is Reason.ABSENT
    assert reason(lambda: host.read("/../../../etc/passwd")) is Reason.ABSENT


def test_links_in_a_circle_end(node: Node) -> None:
    host = node({"a": Link("b"), "b": Link("a"), "c": Link("c/c")})
    for path in ("/a", "/a/x", "/c"):
        assert reason(lambda path=path: host.read(path)) is Reason.FAILED  # type: ignore[misc]
        assert not host.exists(path)


def test_links_that_multiply_end(node: Node) -> None:
    tree: Tree = {f"l{n}": Link("/".join([f"l{n + 1}"] * 10)) for n in range(30)}
    host = node({**tree, "l30": Link(".")})
    assert reason(lambda: host.read("/l0")) is Reason.FAILED


@given(st.lists(st.sampled_from([".", "..", "a", "b", ""])), st.text(max_size=20))
def test_a_path_resolves_inside_whatever_it_holds(parts: list[str], tail: str) -> None:
    class Flat:
        def link(self, path: str) -> str | None:
            return "../.." if path.endswith("b") else None

        def is_file(self, _: str) -> bool:
            return False

    try:
        real = resolve(Flat(), "/" + "/".join([*parts, tail]))  # type: ignore[arg-type]
    except UnreadableError:
        return
    assert real.startswith("/")
    assert not {"..", "."} & set(real.split("/"))


# --- packed captures


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", **values: object) -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in values.items():
        setattr(info, key, value)
    return info, content


def packed(tmp_path: Path, *members: Member, mode: str = "w:gz") -> Path:
    file = tmp_path / "root.tar.gz"
    with tarfile.open(file, mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return file


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_packed_capture_reads_as_a_directory_does(mode: str, tmp_path: Path) -> None:
    packed(
        tmp_path,
        member("./proc/cpuinfo", b"flags: lm"),
        member("sys/a/b", b"1"),
        member("sys/link", type=tarfile.SYMTYPE, linkname="a"),
        member("sys/hard", type=tarfile.LNKTYPE, linkname="sys/a/b"),
        member("sys/empty", type=tarfile.DIRTYPE),
        mode=mode,
    )
    for host in (CapturedHost(tmp_path), CapturedHost(tmp_path / "root.tar.gz")):
        assert host.read("/proc/cpuinfo") == "flags: lm"
        assert host.read("/sys/link/b") == "1"
        assert host.read("/sys/hard") == "1"
        assert host.names("/sys") == ("a", "empty", "hard", "link")
        assert host.names("/sys/empty") == ()
        assert reason(lambda host=host: host.read("/sys/none")) is Reason.ABSENT  # type: ignore[misc]
        assert reason(lambda host=host: host.names("/none")) is Reason.ABSENT  # type: ignore[misc]


def test_loose_files_win_over_packed_ones(tmp_path: Path) -> None:
    packed(tmp_path, member("proc/a", b"packed"), member("proc/b", b"packed"))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "a").write_text("loose")
    host = CapturedHost(tmp_path)
    assert (host.read("/proc/a"), host.read("/proc/b")) == ("loose", "packed")
    assert host.names("/proc") == ("a", "b")


def test_layers_that_hold_nothing(tmp_path: Path) -> None:
    tree = LayeredTree((DirectoryTree(tmp_path),))
    assert tree.link("/x") is None
    assert not tree.is_dir("/x")
    assert reason(lambda: tree.read("/x")) is Reason.ABSENT


def test_hostile_names_stay_inside(tmp_path: Path) -> None:
    packed(
        tmp_path,
        member("/proc/absolute", b"1"),
        member("//proc//doubled", b"2"),
        member("../../proc/above", b"3"),
        member("proc/../../../proc/between", b"4"),
        member("proc/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("proc/up", type=tarfile.SYMTYPE, linkname="../../../etc/passwd"),
        member("proc/hard", type=tarfile.LNKTYPE, linkname="../../etc/passwd"),
    )
    host = CapturedHost(tmp_path)
    assert [host.read(f"/proc/{n}") for n in ("absolute", "doubled", "above", "between")] == list(
        "1234"
    )
    assert host.read("/proc/hard") == ""
    assert reason(lambda: host.read("/proc/link")) is Reason.ABSENT
    assert reason(lambda: host.read("/proc/up")) is Reason.ABSENT


def test_devices_and_fifos_are_not_files(tmp_path: Path) -> None:
    packed(
        tmp_path,
        member("dev/zero", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        member("dev/sda", type=tarfile.BLKTYPE),
        member("dev/fifo", type=tarfile.FIFOTYPE),
        member("dev/odd", b"x", type=b"Z"),
    )
    host = CapturedHost(tmp_path)
    for name in ("zero", "sda", "fifo"):
        assert reason(lambda name=name: host.read(f"/dev/{name}")) is Reason.ABSENT  # type: ignore[misc]
    assert list(tmp_path.iterdir()) == [tmp_path / "root.tar.gz"]


def broken(tmp_path: Path) -> str:
    with pytest.raises(UnreadableError) as error:
        CapturedHost(tmp_path)
    assert error.value.reason is Reason.FAILED
    assert "root.tar.gz" in error.value.detail
    return error.value.detail


def test_a_huge_member_is_refused(tmp_path: Path) -> None:
    packed(tmp_path, member("proc/large", b"\0" * (FILE_LIMIT_BYTES + 1)))
    assert "too large" in broken(tmp_path)


def test_a_member_that_claims_a_huge_size_is_refused(tmp_path: Path) -> None:
    for kind in (tarfile.REGTYPE, b"Z"):
        info = tarfile.TarInfo("proc/large")
        info.size, info.type = 1 << 40, kind
        (tmp_path / "root.tar.gz").write_bytes(gzip.compress(info.tobuf() + b"x" * 1024))
        assert "too large" in broken(tmp_path)


def test_more_than_the_limit_in_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "ARCHIVE_LIMIT_BYTES", MIB)
    packed(tmp_path, *(member(f"proc/{n}", b"\0" * (MIB // 4)) for n in range(8)))
    assert "unpacks to over" in broken(tmp_path)


def test_a_huge_header_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pax header is read whole by the library, whatever it claims to hold."""
    monkeypatch.setattr(archive_module, "ARCHIVE_LIMIT_BYTES", MIB)
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 33
    with gzip.open(tmp_path / "root.tar.gz", "wb") as file:
        file.write(info.tobuf())
        for _ in range(64):
            file.write(b"\0" * MIB)
    broken(tmp_path)


def test_more_members_than_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "ARCHIVE_LIMIT_MEMBERS", 10)
    packed(tmp_path, *(member(f"proc/{n}") for n in range(11)))
    assert "too many" in broken(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"no archive at all" * 100, b"\x1f\x8b", b"BZh9", b"\xfd7zXZ"]
)
def test_what_is_no_archive_is_told_so(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "root.tar.gz").write_bytes(content)
    broken(tmp_path)


def test_an_archive_cut_or_damaged_anywhere_never_crashes(tmp_path: Path) -> None:
    noise = os.urandom(3000)
    file = packed(tmp_path, member("proc/a", noise), member("proc/b", b"b" * 2000))
    whole = file.read_bytes()
    for at in range(0, len(whole) - 10, 211):
        for damaged in (whole[:at], whole[:at] + b"\x55\xaa" + whole[at + 2 :]):
            file.write_bytes(damaged)
            with contextlib.suppress(UnreadableError):
                ArchiveTree(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=1500))
def test_random_bytes_never_crash(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "some.tar"
    file.write_bytes(content)
    with contextlib.suppress(UnreadableError):
        ArchiveTree(file)


def test_a_place_that_is_no_capture(tmp_path: Path) -> None:
    assert reason(lambda: CapturedHost(tmp_path / "none")) is Reason.ABSENT
