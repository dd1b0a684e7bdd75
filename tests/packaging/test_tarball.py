"""The tarball for nodes without network: installed, upgraded, refused and removed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodecheck import __version__
from tests.machine.emulated import under_qemu
from tests.packaging.conftest import pack_into

pytestmark = pytest.mark.timeout(400)

MINE = f"{sys.version_info.major}.{sys.version_info.minor}"
NOBODY = 65_534


def all_users_python() -> str:
    """A Python of the tarball's version that every user may run."""
    for name in (f"/usr/bin/python{MINE}", f"/usr/local/bin/python{MINE}", sys.executable):
        if Path(name).exists() and all(p.stat().st_mode & 1 for p in Path(name).resolve().parents):
            return name
    pytest.skip(f"no Python {MINE} here that every user may run")


def without_network() -> list[str]:
    """What a command is put behind to have none, not even a loopback."""
    command = ["unshare", "--net"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and not subprocess.call([*command, "true"], stderr=-3):
        return command
    pytest.skip("this container lets nobody make a network namespace: unshare --net")


Done = subprocess.CompletedProcess[str]
Install = Callable[..., Done]


def run(*command: str | Path, **settings: Any) -> Done:
    settings.setdefault("env", {"PATH": os.environ["PATH"], "HOME": "/dev/null/none"})
    words = [*map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **settings)


def install_into(place: Path, folder: Path, *options: str) -> Done:
    """Run a folder's install.sh without network, for a node whose file system is `place`."""
    prefix, bin_ = str(place / "opt/nodecheck"), str(place / "usr/local/bin")
    command = [str(folder / "install.sh"), "--prefix", prefix, "--bin", bin_]
    return run(*without_network(), *command, *options)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "node"


@pytest.fixture
def install(unpacked: Path, place: Path) -> Install:
    def start(*options: str, folder: Path = unpacked) -> Done:
        return install_into(place, folder, *options)

    return start


@pytest.fixture(scope="module")
def installed(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node that has it; no test may change it."""
    place = tmp_path_factory.mktemp("installed") / "node"
    done = install_into(place, unpacked)
    assert (done.returncode, done.stderr) == (0, "")
    return place


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if not p.is_dir() or p.is_symlink()}


def test_the_same_files_make_the_same_tarball(tarball: Path, tmp_path: Path) -> None:
    shutil.copy(next(tarball.parent.glob("*.whl")), tmp_path)
    pack_into(tmp_path)
    again = tmp_path / tarball.name
    assert again.read_bytes() == tarball.read_bytes()
    told = tarball.with_name(f"{tarball.name}.sha256").read_text()
    assert told == f"{hashlib.sha256(tarball.read_bytes()).hexdigest()}  {tarball.name}\n"


def test_it_holds_all_that_a_node_needs_and_names_what_it_serves(tarball: Path) -> None:
    with tarfile.open(tarball) as tar:
        names = {member.name.partition("/")[2] for member in tar}
        served = tar.extractfile(f"{tarball.name.removesuffix('.tar.gz')}/serves")
        assert served is not None
        lines = served.read().decode().splitlines()
    assert {"install.sh", "LICENSE", "SHA256SUMS", "serves"} < names
    wheels = {name.removeprefix("wheels/").split("-")[0] for name in names if "wheels/" in name}
    assert {"nodecheck", "pip", "msgspec", "cffi", "psutil", "starlette", "uvicorn"} <= wheels
    assert {"share/man/man1/nodecheck.1", "share/zsh/site-functions/_nodecheck"} < names
    assert f"python_version={MINE}" in lines
    assert f"cp{MINE.replace('.', '')}-" in tarball.name


def test_it_installs_upgrades_and_goes(install: Install, place: Path) -> None:
    first = install()
    assert (first.returncode, first.stderr) == (0, "")
    program = place / "usr/local/bin/nodecheck"
    assert run(program, "--version").stdout == f"nodecheck {__version__}\n"
    assert run(program, "daemon", "--help").returncode == 0
    assert run(program, "policy", "check", "minimal").returncode == 0
    assert f"ExecStart={program} daemon" in run(program, "init", "systemd").stdout
    release = (place / "opt/nodecheck/current").resolve()
    older = release.with_name("release-0.0.1-1")
    older.mkdir()
    outside = files(place / "usr")
    assert all(link.is_symlink() and link.exists() for link in outside)

    second = install()
    assert (second.returncode, second.stderr) == (0, "")
    assert "systemctl restart nodecheck" in second.stdout
    assert (place / "opt/nodecheck/current").resolve() != release
    assert files(place / "usr") == outside
    assert run(release / "bin/nodecheck", "--version").returncode == 0  # a daemon may still run it
    assert not older.exists()

    gone = install("--uninstall")
    assert (gone.returncode, gone.stderr) == (0, "")
    assert files(place) == set()
    assert not (place / "opt/nodecheck").exists()


def test_an_ordinary_user_has_it_at_home(unpacked: Path, public: Path) -> None:
    python = all_users_python()
    home = public / "home"
    home.mkdir()
    user: dict[str, Any] = {"env": {"PATH": "/usr/bin:/bin", "HOME": str(home)}}
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
        user |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    done = run(unpacked / "install.sh", "--python", python, cwd="/", **user)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"add {home}/.local/bin" in done.stdout
    program = home / ".local/bin/nodecheck"
    assert run(program, "--version", **user).stdout == f"nodecheck {__version__}\n"
    assert (home / ".local/share/man/man1/nodecheck-gate.1").exists()
    assert run(unpacked / "install.sh", "--uninstall", cwd="/", **user).returncode == 0
    assert files(home / ".local") == set()


def test_a_failed_upgrade_leaves_what_was_there(
    installed: Path, unpacked: Path, tmp_path: Path
) -> None:
    place = installed
    before = (files(place), (place / "opt/nodecheck/current").readlink())
    newer = changed(unpacked, tmp_path, "9.9.9")
    failed = install_into(place, newer)
    assert failed.returncode == 1
    assert "installing the wheels failed, nothing was changed: ERROR: No matching" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1
    assert (files(place), (place / "opt/nodecheck/current").readlink()) == before
    assert run(place / "usr/local/bin/nodecheck", "--version").returncode == 0


def test_a_failed_first_install_leaves_nothing(
    install: Install, place: Path, unpacked: Path, tmp_path: Path
) -> None:
    assert install(folder=changed(unpacked, tmp_path, "9.9.9")).returncode == 1
    assert files(place) == set()
    assert not (place / "opt/nodecheck").exists()


def changed(unpacked: Path, tmp_path: Path, value: str, key: str = "version") -> Path:
    """The tarball's folder with another value in `serves`."""
    folder = tmp_path / "changed"
    folder.mkdir()
    for part in unpacked.iterdir():
        (folder / part.name).symlink_to(part)
    for name in ("serves", "SHA256SUMS", "install.sh"):
        (folder / name).unlink()
    shutil.copy(unpacked / "install.sh", folder)
    lines = (unpacked / "serves").read_text().splitlines()
    (folder / "serves").write_text(
        "".join(f"{key}={value}\n" if row.startswith(f"{key}=") else f"{row}\n" for row in lines)
    )
    sums = (unpacked / "SHA256SUMS").read_text().splitlines(keepends=True)
    (folder / "SHA256SUMS").write_text("".join(s for s in sums if not s.endswith("  serves\n")))
    return folder


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("python_version", "3.99", f"CPython {MINE}, this tarball is for CPython 3.99 on "),
        ("machine", "riscv64", " on riscv64"),
        ("glibc", "99.1", "the tarball needs 99.1 or newer"),
    ],
)
def test_the_wrong_node_is_told_before_anything_is_touched(
    install: Install, place: Path, unpacked: Path, tmp_path: Path, key: str, value: str, says: str
) -> None:
    refused = install(folder=changed(unpacked, tmp_path, value, key))
    assert refused.returncode == 1
    assert says in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not place.exists()


def test_a_python_without_venv_is_told(install: Install, place: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    shadow = "import sys; sys.modules['venv'] = None; exec(sys.stdin.read())"
    python.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} -I -S -c "{shadow}" "$@"\n')
    python.chmod(0o755)
    refused = install("--python", str(python))
    assert refused.returncode == 1
    assert "has no venv: apt-get install" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not place.exists()


def test_a_damaged_wheel_is_told(
    install: Install, place: Path, unpacked: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(unpacked, folder)
    wheel = next((folder / "wheels").glob("msgspec-*"))
    wheel.write_bytes(wheel.read_bytes()[:-1])
    refused = install(folder=folder)
    assert refused.stderr.startswith("install.sh: wheels/msgspec-")
    assert "is damaged" in refused.stderr
    assert not place.exists()


def test_what_others_put_there_stays(install: Install, place: Path) -> None:
    other = place / "usr/local/bin/nodecheck"
    other.parent.mkdir(parents=True)
    other.write_text("not ours\n")
    assert "does not lead to" in install().stderr
    assert other.read_text() == "not ours\n"
    other.unlink()
    own = place / "opt/nodecheck/pyvenv.cfg"
    own.parent.mkdir(parents=True)
    own.touch()
    assert "give another --prefix" in install().stderr
    assert "nothing that install.sh has put there" in install("--uninstall").stderr
    assert files(place) == {own}


def test_a_page_of_others_stays(install: Install, place: Path) -> None:
    page = place / "usr/local/share/man/man1/nodecheck.1"
    page.parent.mkdir(parents=True)
    page.write_text("not ours\n")
    assert f"{page}: is there already and does not lead to" in install().stderr
    assert files(place) == {page}


@pytest.mark.parametrize("upgraded", [False, True])
def test_an_install_that_fails_at_its_last_link_leaves_all_as_it_was(
    installed: Path, unpacked: Path, tmp_path: Path, *, upgraded: bool
) -> None:
    """A disk that fills up between two links, which no look before can tell."""
    place = installed if upgraded else tmp_path / "node"
    (place / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    before = (files(place), (place / "opt/nodecheck/current").resolve())
    python = tmp_path / "python"
    fails = 'case "$*" in *os.rename*_nodecheck) exit 1 ;; esac'
    python.write_text(f'#!/bin/sh\n{fails}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    failed = install_into(place, unpacked, "--python", str(python))
    assert failed.returncode == 1
    assert "_nodecheck: could not be made, nothing was changed" in failed.stderr
    assert (files(place), (place / "opt/nodecheck/current").resolve()) == before


@pytest.mark.parametrize("says", ["exit 0", "exit 1", "echo right; exit 4"])
def test_what_is_no_python_is_told(
    install: Install, place: Path, tmp_path: Path, says: str
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    refused = install("--python", str(program))
    assert f"{program}: not a Python that runs" in refused.stderr
    assert not place.exists()


def test_nothing_is_removed_while_an_install_is_at_work(installed: Path, unpacked: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with (installed / "opt/nodecheck/lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused = install_into(installed, unpacked, "--uninstall")
    assert "another install.sh is at work" in refused.stderr
    assert run(installed / "usr/local/bin/nodecheck", "--version").returncode == 0


def test_two_at_once_do_not_meet(install: Install, place: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    lock = place / "opt/nodecheck/lock"
    lock.parent.mkdir(parents=True)
    (lock.parent / "links").touch()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "another install.sh is at work" in install().stderr


@pytest.mark.parametrize(
    "wrong",
    [
        ["--prefix"],
        ["--bin", "here"],
        ["--prefix", "/a b"],
        ["now"],
        ["--prefix", "/a/../b"],
        ["--bin", "/a/."],
        ["--bin", "/a\nb"],
    ],
)
def test_wrong_usage_is_one_line_and_2(unpacked: Path, wrong: list[str]) -> None:
    done = run("sh", unpacked / "install.sh", *wrong)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_its_daemon_answers(installed: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = installed / "usr/local/bin/nodecheck"
    environment = {"PATH": "/usr/bin:/bin", "NODECHECK_HISTORY": str(tmp_path / "history.db")}
    command = [str(program), "daemon", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            assert answer(f"http://127.0.0.1:{port}/healthz") == 200
        finally:
            daemon.terminate()
        daemon.wait(20)
    assert daemon.returncode == 0


def answer(address: str) -> int:
    """The status, once there is one."""
    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as response:
            return int(response.status)
        time.sleep(0.1)
    raise AssertionError(f"{address}: no answer")


LOADED = """(lambda importlib, sysconfig, pathlib: [
    importlib.import_module(str(path.relative_to(site)).partition('.')[0].replace('/', '.')) and
    path.name.partition('.')[0]
    for site in [pathlib.Path(sysconfig.get_path('platlib'))] for path in site.rglob('*.so')
])(*map(__import__, ['importlib', 'sysconfig', 'pathlib']))"""
"""Every compiled module that is installed, imported."""


def test_no_dependency_needs_more_than_the_baseline(installed: Path) -> None:
    python = str(installed / "opt/nodecheck/current/bin/python")
    loaded = under_qemu("kvm64", "kernels", LOADED, python)
    assert isinstance(loaded, list)
    assert {"_cffi_backend", "_core", "_speedups", "_psutil_linux", "_native"} <= set(loaded)
