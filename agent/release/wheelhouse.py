"""`python -m release.wheelhouse DIST`: all that a node without network needs, in one tarball.

Beside the wheel of nodecheck in DIST it makes `nodecheck-<version>-<python tag>-<machine>.tar.gz`
with that wheel, the wheels of its dependencies and of pip, `install.sh`, man pages and completions.
The dependencies are built for one version of Python each: the tarball serves the version, the
machine and the glibc that its file `serves` names.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from nodecheck import __version__
from nodecheck.cli import group
from release import man

HERE = Path(__file__).parent
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
MACHINE = sysconfig.get_platform().removeprefix("linux-")

COMPLETIONS: dict[str, type[ShellComplete]] = {
    "bash-completion/completions/nodecheck": BashComplete,
    "zsh/site-functions/_nodecheck": ZshComplete,
    "fish/vendor_completions.d/nodecheck.fish": FishComplete,
}
"""Where each shell looks below share/ for what click writes for it."""


def main(dist: Path) -> None:
    """Make the tarball and its checksum beside the wheel."""
    tag = f"cp{PYTHON_VERSION.replace('.', '')}"
    name = f"nodecheck-{__version__}-{tag}-{MACHINE}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        fill(folder, next(dist.glob(f"nodecheck-{__version__}-*.whl")))
        tarball = dist / f"{name}.tar.gz"
        pack(folder, tarball)
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    (dist / f"{tarball.name}.sha256").write_text(f"{digest}  {tarball.name}\n")


def fill(folder: Path, wheel: Path) -> None:
    """Write what goes into the tarball."""
    download(wheel, folder / "wheels")
    write_share(folder / "share")
    (folder / "install.sh").write_bytes((HERE / "install.sh").read_bytes())
    (folder / "install.sh").chmod(0o755)
    (folder / "LICENSE").write_bytes((HERE.parents[1] / "LICENSE").read_bytes())
    served = {
        "version": __version__,
        "python_version": PYTHON_VERSION,
        "machine": MACHINE,
        "glibc": needed_glibc(folder / "wheels"),
    }
    (folder / "serves").write_text("".join(f"{key}={value}\n" for key, value in served.items()))
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
        for path in files(folder)
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))


def download(wheel: Path, wheels: Path) -> None:
    """Fetch the wheels of all that it needs, and pip's, which sets up an environment without it."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    wanted = [f"{wheel}[daemon]", "pip"]
    subprocess.run([*command, "--only-binary", ":all:", "--dest", wheels, *wanted], check=True)


def write_share(share: Path) -> None:
    """Write man pages and completions, as they lie below share/ of a system."""
    man.write(share / "man" / "man1")
    for name, shell in COMPLETIONS.items():
        path = share / name
        path.parent.mkdir(parents=True)
        made = shell(group, {}, "nodecheck", "_NODECHECK_COMPLETE")
        path.write_text(ShellComplete.source(made))  # Bash's own runs bash, which need not be here


def needed_glibc(wheels: Path) -> str:
    """The oldest glibc that all wheels run on: by their tags and by the symbols that they bind."""
    found = {(2, 17)}
    for wheel in wheels.glob("*.whl"):
        tags = re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name)
        found |= {min((int(major), int(minor)) for major, minor in tags)} if tags else set()
        with zipfile.ZipFile(wheel) as content:
            for member in content.namelist():
                if ".so" in Path(member).suffixes:
                    symbols = re.findall(rb"GLIBC_(\d+)\.(\d+)", content.read(member))
                    found |= {(int(major), int(minor)) for major, minor in symbols}
    return ".".join(map(str, max(found)))


def files(folder: Path) -> list[Path]:
    """All of a folder, in one order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def pack(folder: Path, tarball: Path) -> None:
    """Write the folder as a tarball: the same files make the same bytes."""
    time = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))  # the first day that zip knows

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = time
        member.mode = 0o755 if member.mode & 0o100 else 0o644
        return member

    with (
        tarball.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in files(folder):
            tar.add(path, f"{folder.name}/{path.relative_to(folder)}", filter=plain)


if __name__ == "__main__":
    if platform.libc_ver()[0] != "glibc":
        sys.exit("wheelhouse: the tarball is made on a system with glibc")
    main(Path(sys.argv[1]))
