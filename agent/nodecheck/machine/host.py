"""One view of a node, live or captured: probes ask a Host and do not know which it is."""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeVar

import msgspec

from nodecheck.machine import child, command, stuck
from nodecheck.machine.child import Outcome
from nodecheck.machine.command import HungError, Output
from nodecheck.machine.tree import (
    DirectoryTree,
    LayeredTree,
    Tree,
    UnreadableError,
    resolve,
)
from nodecheck.model import Reason

T = TypeVar("T")

CpuidLeaves = dict[str, tuple[int, int, int, int]]
"""`"leaf.subleaf"` in lower-case hex -> eax, ebx, ecx, edx."""


_LEAF = re.compile(r"[0-9a-f]{1,8}\.[0-9a-f]{1,8}")

STATVFS_LIMIT = 1 << 64
"""The members of statvfs(3) have 64 bits."""


class Statvfs(msgspec.Struct, frozen=True, kw_only=True):
    """The members of statvfs(3) that are judged. Block counts are in units of f_frsize bytes."""

    f_frsize: int
    f_blocks: int
    f_bfree: int
    f_bavail: int
    f_files: int
    f_ffree: int
    f_flag: int = 0


class _CapturedStatvfs(msgspec.Struct, frozen=True):
    hang: bool = False
    f_frsize: int | None = None
    f_blocks: int | None = None
    f_bfree: int | None = None
    f_bavail: int | None = None
    f_files: int | None = None
    f_ffree: int | None = None
    f_flag: int = 0


class Host(ABC):
    """A node whose files, commands and CPU can be asked. Paths start with `/`.

    Everything that cannot be read raises UnreadableError with its reason.
    """

    live: bool

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def real_path(self, path: str) -> str:
        """`path` with its links followed."""
        return resolve(self._tree, path)

    def read(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 become U+FFFD."""
        return self._tree.read(self.real_path(path)).decode(errors="replace")

    def read_bytes(self, path: str) -> bytes:
        """The content of a file that is no text."""
        return self._tree.read(self.real_path(path))

    def names(self, path: str) -> tuple[str, ...]:
        """The sorted names in a directory."""
        return self._tree.names(self.real_path(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory at `path`."""
        try:
            real = self.real_path(path)
        except UnreadableError:
            return False
        return self._tree.is_file(real) or self._tree.is_dir(real)

    @abstractmethod
    def run(self, argv: tuple[str, ...], deadline_seconds: float = 2.0) -> Output:
        """What a command prints on this node."""

    @abstractmethod
    def statvfs(
        self, mounts: tuple[str, ...], deadline_seconds: float
    ) -> dict[str, Statvfs | UnreadableError]:
        """The sizes of mounted file systems, asked all at once; one that hangs is its own error."""

    @abstractmethod
    def cpuid(self) -> CpuidLeaves:
        """Every CPUID leaf that the processor has."""

    @abstractmethod
    def xcr0(self) -> int:
        """The register states that the kernel has enabled (XGETBV)."""

    @abstractmethod
    def witness(self) -> dict[str, str]:
        """Instruction set -> executed | sigill | wrong, whatever CPUID says."""


class LiveHost(Host):
    """The machine that this process runs on."""

    live = True

    def __init__(self) -> None:
        super().__init__(DirectoryTree(Path("/")))

    def read(self, path: str) -> str:
        """As Host.read; the kernel follows the links."""
        return self._tree.read(path).decode(errors="replace")

    def read_bytes(self, path: str) -> bytes:
        """As Host.read_bytes; the kernel follows the links."""
        return self._tree.read(path)

    def names(self, path: str) -> tuple[str, ...]:
        """As Host.names; the kernel follows the links."""
        return self._tree.names(path)

    def real_path(self, path: str) -> str:
        """`path` with its links followed by the kernel."""
        try:
            return os.path.realpath(path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise UnreadableError(Reason.ABSENT, f"{path!r}: {error}") from error

    def run(self, argv: tuple[str, ...], deadline_seconds: float = 2.0) -> Output:
        """Run a command, unless the same one still hangs from an earlier run."""
        name = " ".join(argv)
        if pid := stuck.stuck_pid(name):
            raise UnreadableError(
                Reason.TIMEOUT, f"{name}: not tried, process {pid} still hangs on it"
            )
        try:
            return command.run(argv, deadline_seconds)
        except HungError as error:
            if error.pid is not None:
                stuck.remember(name, error.pid)
            raise

    def statvfs(
        self, mounts: tuple[str, ...], deadline_seconds: float
    ) -> dict[str, Statvfs | UnreadableError]:
        """One killable child a mount: a dead server or FUSE daemon holds only its own."""
        hanging = {mount: pid for mount in mounts if (pid := stuck.stuck_pid(f"statvfs {mount}"))}
        tasks = {mount: _Statvfs(mount) for mount in mounts if mount not in hanging}
        answers: dict[str, Statvfs | UnreadableError] = {
            mount: UnreadableError(
                Reason.TIMEOUT, f"{mount}: not tried, process {pid} still hangs on it"
            )
            for mount, pid in hanging.items()
        }
        for mount, outcome in child.gather(tasks, _Answered, deadline_seconds).items():
            if outcome.stuck_pid is not None:
                stuck.remember(f"statvfs {mount}", outcome.stuck_pid)
            answers[mount] = _live_statvfs(mount, outcome)
        return answers

    def cpuid(self) -> CpuidLeaves:
        from nodecheck.machine import native

        return _present(native.cpuid(), "this processor has no CPUID")

    def xcr0(self) -> int:
        from nodecheck.machine import native

        return _present(native.xgetbv(), "XGETBV is not enabled")

    def witness(self) -> dict[str, str]:
        from nodecheck.machine import native

        return _present(native.witness(), "there is no witness for this processor")


class _Answered(msgspec.Struct, frozen=True):
    """What statvfs(3) answered, or the error that it gave."""

    sizes: Statvfs | None = None
    errno: int = 0


class _Statvfs:
    """The child's work."""

    def __init__(self, mount: str) -> None:
        self.mount = mount

    def __call__(self) -> _Answered:
        try:
            seen = os.statvfs(self.mount)
        except OSError as error:
            return _Answered(errno=error.errno or errno.EIO)
        return _Answered(
            sizes=Statvfs(**{name: getattr(seen, name) for name in Statvfs.__struct_fields__})
        )


def _live_statvfs(mount: str, outcome: Outcome[_Answered]) -> Statvfs | UnreadableError:
    answer = outcome.value
    if answer is None:
        reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
        return UnreadableError(reason, f"{mount}: {outcome.error}")
    if answer.sizes is None:
        return UnreadableError.from_os(OSError(answer.errno, os.strerror(answer.errno)), mount)
    return answer.sizes


def _present(value: T | None, otherwise: str) -> T:
    if value is None:
        raise UnreadableError(Reason.UNSUPPORTED, otherwise)
    return value


class CapturedHost(Host):
    """A captured tree: a directory with proc/, sys/, cmd/ and the like, or root.tar.gz in it."""

    live = False

    def __init__(self, directory: Path) -> None:
        archive = directory / "root.tar.gz" if directory.is_dir() else directory
        if not archive.is_file() and not directory.is_dir():
            raise UnreadableError(Reason.ABSENT, f"{directory}: no such directory or archive")
        layers: list[Tree] = [DirectoryTree(directory)] if directory.is_dir() else []
        if archive.is_file():
            from nodecheck.machine.archive import ArchiveTree

            layers.append(ArchiveTree(archive))
        super().__init__(layers[0] if len(layers) == 1 else LayeredTree(tuple(layers)))

    def run(self, argv: tuple[str, ...], deadline_seconds: float = 2.0) -> Output:  # noqa: ARG002
        """The captured output: cmd/<command, spaces as _>.txt or .csv, its status in .rc."""
        stem = "/cmd/" + "_".join(argv).replace("/", "_")
        for kind in (".txt", ".csv"):
            if self.exists(stem + kind):
                printed = self._tree.read(self.real_path(stem + kind), tail=True)
                return Output(self._status(stem), printed.decode(errors="replace"))
        raise UnreadableError(Reason.ABSENT, f"{' '.join(argv)}: not in this capture")

    def _status(self, stem: str) -> int:
        try:
            return int(self.read(stem + ".rc"))
        except (UnreadableError, ValueError):
            return 0

    def statvfs(
        self, mounts: tuple[str, ...], deadline_seconds: float
    ) -> dict[str, Statvfs | UnreadableError]:
        """statvfs.json: what it does not hold is absent, `{"hang": true}` never answered."""
        try:
            captured = self._json("/statvfs.json", dict[str, msgspec.Raw])
        except UnreadableError as error:
            return dict.fromkeys(mounts, error)
        return {
            mount: _captured_statvfs(mount, captured.get(mount), deadline_seconds)
            for mount in mounts
        }

    def cpuid(self) -> CpuidLeaves:
        leaves = self._json("/cpuid.json", CpuidLeaves)
        for name, registers in leaves.items():
            if not _LEAF.fullmatch(name) or not all(0 <= r < 1 << 32 for r in registers):
                detail = f"/cpuid.json: {name[:40]!r} is no CPUID leaf of four 32-bit registers"
                raise UnreadableError(Reason.FAILED, detail)
        return leaves

    def xcr0(self) -> int:
        raise UnreadableError(Reason.ABSENT, "XCR0 is not in a capture")

    def witness(self) -> dict[str, str]:
        seen = self._json("/witness.json", dict[str, str])
        return {name: how for name, how in seen.items() if how in ("executed", "sigill", "wrong")}

    def _json(self, path: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(self.read(path), type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UnreadableError(Reason.FAILED, f"{path}: {error}") from error


def _captured_statvfs(
    mount: str, written: msgspec.Raw | None, deadline_seconds: float
) -> Statvfs | UnreadableError:
    if written is None:
        return UnreadableError(Reason.ABSENT, f"{mount}: not in statvfs.json")
    try:
        seen = msgspec.json.decode(written, type=_CapturedStatvfs)
    except (msgspec.MsgspecError, RecursionError) as error:
        return UnreadableError(Reason.FAILED, f"{mount}: statvfs.json: {error}")
    if seen.hang:
        return UnreadableError(Reason.TIMEOUT, f"{mount}: no answer within {deadline_seconds:g} s")
    values = {name: getattr(seen, name) for name in Statvfs.__struct_fields__}
    missing = [n for n, v in values.items() if v is None or not 0 <= v < STATVFS_LIMIT]
    if missing:
        return UnreadableError(Reason.FAILED, f"{mount}: statvfs.json lacks {', '.join(missing)}")
    return Statvfs(**values)


HELD = ("/proc", "/sys", "/cmd", "/statvfs.json", "/nvml.json", "/measurements.json", "/cpuid.json")
"""A capture holds at least one of these."""


def open_host(root: Path | None) -> Host:
    """The live machine, or the captured tree at `root`. Raises UnreadableError."""
    if root is None:
        return LiveHost()
    host = CapturedHost(root)
    if not any(map(host.exists, HELD)):
        raise UnreadableError(
            Reason.ABSENT, f"{root}: no capture, it has neither proc, sys nor cmd"
        )
    return host
