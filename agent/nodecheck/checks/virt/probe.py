"""Look for a hypervisor above and a container around this process."""

from __future__ import annotations

import re

from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.host import CpuidLeaves
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.machine.virtualization import detect
from nodecheck.model import Gap, Reason

_FILES = (
    ("/.dockerenv", "docker"),
    ("/run/.containerenv", "podman"),
)
"""Made by the engine in a container's root -> its name."""


def probe(reader: Reader) -> VirtFacts:
    """The guest's and the container's side of this node; see Reader for what is missing."""
    seen = detect(reader, reader.text("/proc/cpuinfo", None), _cpuid(reader))
    if seen.guest is None:
        reader.gap("guest", Reason.ABSENT, "no CPU flags, no DMI and no PCI devices to tell by")
    container, evidence = _container(reader)
    return VirtFacts(
        guest=seen.guest,
        hypervisor=seen.hypervisor,
        platform=seen.platform,
        machine_type=seen.machine_type,
        emulated=seen.emulated,
        guest_evidence=tuple(f"{trace.source}: {trace.value}" for trace in seen.traces),
        container=container,
        container_evidence=evidence,
        sys_vendor=seen.dmi.get("sys_vendor"),
        product_name=seen.dmi.get("product_name"),
        bios_vendor=seen.dmi.get("bios_vendor"),
    )


def _cpuid(reader: Reader) -> CpuidLeaves | None:
    """The leaves, None where there are none; the cpu check reports why."""
    try:
        return reader.host.cpuid()
    except UnreadableError:
        return None
    except Exception:  # noqa: BLE001  an extension that cannot be loaded has an error of its own
        return None


def _container(reader: Reader) -> tuple[str | None, tuple[str, ...]]:
    """Name of the container engine and what gave it away."""
    named: list[tuple[str, str]] = []
    missed: list[Gap] = []
    environment, gap = _text(reader, "/proc/1/environ")
    missed += gap
    if match := re.search(r"(?:^|\0)container=([^\0\n]+)", environment):
        named.append((match[1], f"/proc/1/environ: container={match[1]}"))
    if name := reader.text("/run/systemd/container", None):
        named.append((name[:40], f"/run/systemd/container: {name[:40]}"))
    named += [(name, f"{path}: present") for path, name in _FILES if reader.host.exists(path)]
    mounts, gap = _text(reader, "/proc/self/mountinfo")
    missed += gap
    named += _mounted(mounts)
    if not named:
        reader.gaps += missed
        return None, ()
    return named[0][0], tuple(evidence for _, evidence in named)


def _text(reader: Reader, path: str) -> tuple[str, list[Gap]]:
    """A file's text, and the gap to report where nothing else tells."""
    try:
        return reader.host.read(path), []
    except UnreadableError as error:
        gap = Gap(check=reader.check, field="container", reason=error.reason, detail=error.detail)
        return "", [gap]


def _mounted(mountinfo: str) -> list[tuple[str, str]]:
    """Containers that show in the mount table: an overlay root, lxcfs over /proc."""
    root_kind = None
    lxcfs = None
    for line in mountinfo.splitlines():
        mount, _, rest = line.partition(" - ")
        fields, kind = mount.split(), rest.split(" ", 1)[0]
        if len(fields) < 5 or not kind:
            continue
        if fields[4] == "/":
            root_kind = kind  # the last one lies on top
        elif kind == "fuse.lxcfs" and fields[4].startswith("/proc/"):
            lxcfs = lxcfs or fields[4]
    found = []
    if lxcfs:
        found.append(("lxc", f"/proc/self/mountinfo: lxcfs over {lxcfs}"))
    if root_kind in {"overlay", "overlayfs", "aufs"}:
        found.append(("container", f"/proc/self/mountinfo: {root_kind} root"))
    return found
