"""systemd as process 1 of namespaces of its own, with our units and none of this system's.

Its root is a copy in memory over this system's, its control group a new one, its network its own.
"""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodecheck.machine.cgroups import V2, parse_membership, parse_mountinfo

SCRIPT = Path(__file__).with_suffix(".sh")
REPOSITORY = Path(__file__).parents[2]
SYSTEMD = Path("/lib/systemd/systemd")
NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net", "--cgroup")
DEADLINE_SECONDS = 100.0

TARGETS = ("sysinit", "basic", "shutdown", "network", "local-fs", "multi-user", "timers")
"""What units stand before or behind unless they say otherwise: here they hold nothing."""
BARE = "[Unit]\nDefaultDependencies=no\n"
RUNS_SCRIPT = """\
[Service]
ExecStart=/bin/sh /run/units/script
StandardOutput=file:/run/told/out
StandardError=file:/run/told/errors
ExecStopPost=/bin/systemctl --no-block exit
"""
ENDS = f"""{BARE}
[Service]
Type=oneshot
ExecStart=/bin/systemctl --force exit
"""


def why_not() -> str | None:
    """Why systemd cannot be started here, None where it can."""
    if os.geteuid() != 0:
        return "not root"
    if not SYSTEMD.exists() or shutil.which("unshare") is None:
        return "systemd is not here: apt-get install systemd"
    if hidden := _hidden():
        return f"{hidden} lies in a /tmp that services do not see"
    if (group := _groups()) is None or not (group / "cgroup.procs").exists():
        return "no control groups of version 2 (with cgroup.kill: Linux 5.14)"
    with tempfile.TemporaryDirectory() as made:
        mounts = "mount -t tmpfs tmpfs $0 && mkdir $0/u $0/w && mount -t overlay overlay -o "
        mounts += "lowerdir=/,upperdir=$0/u,workdir=$0/w $0"
        command = ["unshare", *NAMESPACES, "sh", "-c", mounts, made]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return tried.stderr.strip() or None if tried.returncode else None


def _hidden() -> Path | None:
    """What a service would need of a folder for temporary files: PrivateTmp= shows it another."""
    needed = (REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))
    theirs = (Path("/tmp"), Path("/var/tmp"))
    return next((each for each in needed if not set(theirs).isdisjoint(each.parents)), None)


def _groups() -> Path | None:
    """The directory of our control group of version 2."""
    paths = parse_membership(Path("/proc/self/cgroup").read_text()).paths
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    points = [mount.point for mount in mounts if mount.controllers == {V2}]
    return Path(points[0]) / paths[V2].lstrip("/") if points and V2 in paths else None


@contextlib.contextmanager
def _own_group() -> Iterator[Path]:
    group = (_groups() or Path()) / f"nodecheck-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")
        while "populated 1" in (group / "cgroup.events").read_text():
            time.sleep(0.01)
        for directory, _, _ in os.walk(group, topdown=False):
            Path(directory).rmdir()


def boot(script: str, files: dict[str, str | bytes]) -> dict[str, str]:
    """What was written to files in /run/told, and as `log` what systemd says.

    `files` lie in /run/units, where units are looked for. The script is run as root; what it prints
    becomes `out`, `errors` what it complains of. Once it ends, so does the system.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as made, _own_group() as group, _console() as said:
        told, units = Path(made) / "told", Path(made) / "units"
        told.mkdir()
        told.chmod(0o1777)
        _write(units, {**_skeleton(), "script": script, **files})
        enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        lay_out = ["sh", str(SCRIPT), str(told), said.name, str(units), str(REPOSITORY)]
        done = subprocess.run(
            ["sh", "-c", enter, "sh", "unshare", *NAMESPACES, *lay_out, *_closed()],
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        log = done.stderr + said.text
        assert (told / "out").exists(), log
        return {"log": log, **{file.name: file.read_text() for file in told.iterdir()}}


def _skeleton() -> dict[str, str]:
    ends = f"{BARE}Requires=systemd-exit.service\nAfter=systemd-exit.service\n"
    own = {"script.service": RUNS_SCRIPT, "systemd-exit.service": ENDS, "exit.target": ends}
    return {**{f"{name}.target": BARE for name in TARGETS}, **own}


def _write(place: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def _closed() -> list[str]:
    """Folders on the way to our interpreter that other users may not enter."""
    parents = Path(sys.executable).resolve().parents
    return [str(p) for p in reversed(parents) if not p.stat().st_mode & 0o001] + [sys.base_prefix]


class _Console:
    """A terminal, and what was written to it."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.name = os.ttyname(theirs)
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while block := os.read(self._ours, 1 << 12):
                self.text += block.decode(errors="replace").replace("\r", "")


@contextlib.contextmanager
def _console() -> Iterator[_Console]:
    console = _Console()
    try:
        yield console
    finally:
        os.close(console._ours)
