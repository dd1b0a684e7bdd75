"""Which control groups hold a process, and where their files are: cgroup v1, v2 or both."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodecheck.machine.reader import Reader
from nodecheck.model import Struct

V2 = ""
"""The name under which the one hierarchy of cgroup v2 stands among the controllers of v1."""

NO_LIMIT = 1 << 60
"""Values from here on are ways to write "none" (v1's memory sentinel is 2^63 less a page)."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    """A mounted hierarchy: group `root` appears at `point`; `controllers` is {V2} for v2."""

    point: str
    root: str
    controllers: frozenset[str]


class Groups(Struct, frozen=True):
    """The directories of a controller's groups: the process's own, then every ancestor seen."""

    version: str
    directories: tuple[str, ...]


class Membership(Struct, frozen=True):
    """Controller (V2 for the v2 hierarchy) -> the process's group in it; empty where not known."""

    paths: dict[str, str]

    @property
    def version(self) -> str | None:
        """v1, v2, or hybrid where controllers of v1 and the v2 hierarchy stand side by side."""
        has_v1 = any(name != V2 and not name.startswith("name=") for name in self.paths)
        if V2 not in self.paths:
            return "v1" if has_v1 else None
        return "hybrid" if has_v1 else "v2"

    def path(self) -> str | None:
        """The group to name in a report: where memory and CPU are held, not the bookkeeping one."""
        wanted = ("memory", "cpu", V2) if self.version == "hybrid" else (V2, "memory", "cpu")
        return next((self.paths[name] for name in wanted if name in self.paths), None)


_USUAL_MOUNTS = (
    Mount("/sys/fs/cgroup/unified", "/", frozenset({V2})),
    *(
        Mount(f"/sys/fs/cgroup/{name}".rstrip("/"), "/", frozenset(name.split(",")))
        for name in (V2, "cpu,cpuacct", "cpuacct,cpu", "cpu", "cpuset", "memory")
    ),
)


def parse_membership(text: str) -> Membership:
    """The lines `id:controllers:path` of /proc/self/cgroup; others are passed over."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.strip().split(":", 2)
        if len(parts) == 3 and parts[0].isdigit() and parts[2].startswith("/"):
            for name in parts[1].split(","):
                paths.setdefault(name, parts[2])
    return Membership(paths)


def parse_mountinfo(text: str) -> list[Mount]:
    """The cgroup mounts of /proc/self/mountinfo (proc(5))."""
    mounts = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if len(before) >= 5 and len(after) >= 3 and after[0] in ("cgroup", "cgroup2"):
            mounts.append(_mount(before[4], before[3], after[0], after[2]))
    return mounts


def parse_mounts(text: str) -> list[Mount]:
    """The cgroup mounts of /proc/mounts, which does not tell what their root is."""
    lines = (line.split() for line in text.splitlines())
    return [
        _mount(line[1], "/", line[2], line[3])
        for line in lines
        if len(line) >= 4 and line[2] in ("cgroup", "cgroup2")
    ]


def _mount(point: str, root: str, kind: str, options: str) -> Mount:
    controllers = {V2} if kind == "cgroup2" else set(options.split(","))
    return Mount(_unescape(point), _unescape(root), frozenset(controllers))


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def read_mounts(reader: Reader) -> list[Mount]:
    """Where hierarchies are mounted, as the process sees it."""
    named = parse_mountinfo(reader.text("/proc/self/mountinfo", None) or "")
    return named or parse_mounts(reader.text("/proc/mounts", None) or "")


def groups(
    reader: Reader, membership: Membership, mounts: Iterable[Mount], controller: str
) -> Groups | None:
    """A controller's groups: in its v1 hierarchy if it has one, else in v2; None in neither."""
    name = controller if controller in membership.paths else V2
    path = membership.paths.get(name)
    if path is None:
        return None
    # a capture may hold the files, but not the mount table, or under the name of a link
    for table in (mounts, _USUAL_MOUNTS):
        for mount in _best_first(table, name, path):
            if found := tuple(d for d in _directories(mount, path) if reader.names(d)):
                return Groups("v2" if name == V2 else "v1", found)
    return None


def _best_first(table: Iterable[Mount], controller: str, path: str) -> list[Mount]:
    """The controller's mounts: first those in which the group lies, with most of its ancestors."""
    candidates = [mount for mount in table if controller in mount.controllers]
    return sorted(candidates, key=lambda m: (_below(m.root, path) is None, len(m.root)))


def _directories(mount: Mount, path: str) -> list[str]:
    """From the group up to the mount; the mount alone where the group lies outside its root."""
    parts = _below(mount.root, path) or []
    point = mount.point.rstrip("/")
    return ["/".join([point, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def _below(root: str, path: str) -> list[str] | None:
    """The way from `root` down to `path`; None where it leads up, out of the namespace."""
    above, parts = ([p for p in text.split("/") if p] for text in (root, path))
    rest = parts[len(above) :]
    return rest if parts[: len(above)] == above and ".." not in rest else None
