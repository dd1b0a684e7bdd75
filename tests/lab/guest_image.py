"""What a guest boots: Debian's cloud kernel, and an initramfs with Python and the nodecheck wheel.

Both lie under build/lab; the initramfs is made anew when what it is made of has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fake_nvml import build
from tests.fake_nvml.profiles import L40, at, description
from tests.lab.debian import CACHE, REPOSITORY, NotHereError, apt, need_program

GUEST_INIT = Path(__file__).with_name("guest_init.sh")

QEMU = "qemu-system-x86_64"
KERNEL_PACKAGE = "linux-image-cloud-amd64"

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SOURCES = ("agent", "csrc", "docs/findings", "pyproject.toml", "LICENSE")
"""What the wheel is built from."""

CARDS = {"three_l40": [at(L40, bus) for bus in (1, 2, 3)]}
"""Cards that a guest may be told to have (`nvml=NAME`), as the fake library describes them."""

LEFT_OUT = shutil.ignore_patterns(
    "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo",
    "lib2to3", "ensurepip", "pydoc_data", "distutils", "_tkinter*", "config-*", "__pycache__",
)  # fmt: skip
"""Of the standard library: what nodecheck does not need, and bytecode, which is compiled anew."""


@dataclass(frozen=True)
class Image:
    kernel: Path
    initramfs: Path


def prepare() -> Image:
    """The kernel, and the initramfs of this checkout. Raises NotHereError."""
    if sysconfig.get_platform() != "linux-x86_64":
        raise NotHereError("guests take this machine's Python, which is none for x86-64 Linux")
    CACHE.mkdir(parents=True, exist_ok=True)
    need_program(QEMU, "qemu-system-x86")
    need_program("cpio", "cpio")
    kernel = _from_debian("vmlinuz", KERNEL_PACKAGE, "boot/vmlinuz-*")
    busybox = _from_debian("busybox", "busybox-static", "bin/busybox")
    kept = CACHE / f"initramfs-{_digest()}.cpio"
    if not kept.exists():
        for old in CACHE.glob("initramfs-*.cpio"):
            old.unlink()
        _make_initramfs(busybox, kept)
    return Image(kernel, kept)


def _from_debian(name: str, package: str, inside: str) -> Path:
    """One file of a Debian package, downloaded unless it is there already."""
    kept = CACHE / name
    if kept.exists():
        return kept
    if package == KERNEL_PACKAGE:
        # an empty package that depends on the newest build, whose name changes
        shown = apt("apt-cache", "depends", package)
        package = re.findall(r"Depends: (linux-image-\S+)", shown)[0]
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        apt("apt-get", "download", package, directory=Path(work))
        subprocess.run(["dpkg", "-x", next(Path(work).glob("*.deb")), work], check=True)
        next(Path(work).glob(inside)).replace(kept)
    return kept


def _digest() -> str:
    """Of all that goes into the initramfs but the versions of dependencies."""
    total = hashlib.sha256(sys.version.encode())
    cards = (f for f in sorted(build.HERE.rglob("*")) if f.suffix in {".c", ".h", ".py", ".txt"})
    for file in (*_sources(), Path(__file__), GUEST_INIT, *cards):
        total.update(f"{file.relative_to(REPOSITORY)}\0".encode() + file.read_bytes())
    return total.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    for name in SOURCES:
        place = REPOSITORY / name
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        yield from (f for f in files if f.is_file() and f.suffix not in {".pyc", ".so"})


def _make_initramfs(busybox: Path, kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        root = Path(work) / "root"
        for name in ("bin", "dev", "etc", "opt", "proc", "sys", "tmp", "usr/bin"):
            (root / name).mkdir(parents=True)
        shutil.copy(GUEST_INIT, root / "init")
        (root / "init").chmod(0o755)
        shutil.copy(busybox, root / "bin")
        (root / "etc/passwd").write_text(
            "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n"
        )
        (root / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
        _add_nodecheck(root, Path(work))
        _add_cards(root / "opt/nvml")
        _add_python(root)
        _add_libraries(root)
        _tell("chmod", "-R", "a+rX", str(root))
        packed = Path(work) / "packed"
        _pack(root, packed)
        packed.replace(kept)


def _add_nodecheck(root: Path, work: Path) -> None:
    """The wheel and what it depends on, as a user would install them."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _tell(*pip, "wheel", "--no-deps", "--wheel-dir", str(work), str(REPOSITORY))
    wheel = next(work.glob("nodecheck-*.whl"))
    install = [*pip, "install", "--no-compile", "--root-user-action=ignore"]
    _tell(*install, "--target", str(root / "opt/nodecheck"), str(wheel))


def _add_cards(place: Path) -> None:
    """NVIDIA's library as a stand-in, for the oldest of CPUs, and what it is to say."""
    place.mkdir()
    try:
        build.compile_library(place / "libnvidia-ml.so.1", "-march=x86-64")
    except build.NotHereError as reason:
        raise NotHereError(str(reason)) from reason
    for name, cards in CARDS.items():
        (place / name).write_text(description(cards))


def _add_python(root: Path) -> None:
    """This interpreter and its standard library."""
    shutil.copy(os.path.realpath(sys.executable), root / "usr/bin/python3")
    library = root / "usr/lib" / PYTHON
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=LEFT_OUT)
    # emulated, compiling would take longer than all else; times are not kept on the way
    compiler = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    _tell(*compiler, str(library), str(root / "opt"))


def _add_libraries(root: Path) -> None:
    """The shared libraries of the interpreter and of every extension, where they lie here."""
    modules = [file for file in root.rglob("*.so*") if file.is_file()]
    for binary in (Path(sys.executable).resolve(), *modules):
        shown = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
        for found in re.findall(r"(?:=> |^\s)(/\S+) \(", shown.stdout, re.MULTILINE):
            place = root / found.lstrip("/")
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, place)


def _pack(root: Path, archive: Path) -> None:
    """An uncompressed archive: unpacking takes an emulated CPU long."""
    names = "\0".join(str(file.relative_to(root)) for file in sorted(root.rglob("*")))
    with archive.open("wb") as packed:
        command = ["cpio", "--create", "--quiet", "--null", "--format=newc", "--owner=0:0"]
        subprocess.run(command, cwd=root, input=names.encode(), stdout=packed, check=True)


def _tell(*command: str) -> None:
    """Run a command; its words are the error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
