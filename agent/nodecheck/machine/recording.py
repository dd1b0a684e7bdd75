"""A live host that keeps what probes ask of it: a capture holds exactly what they look at."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from nodecheck.machine.command import Output
from nodecheck.machine.host import CpuidLeaves, LiveHost, Statvfs
from nodecheck.machine.pci_config import without_serial
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, pretty_json

NAMES_LIMIT = 4096

HOST_NAME_FILE = "/proc/sys/kernel/hostname"
PCI_REGISTERS = "config"
IDENTITY_FILES = ("serial_number", "unique_id")
"""Of a card in sysfs: they hold nothing else."""

SAMPLED = ("/proc/stat", "/proc/vmstat", "/proc/uptime")
SAMPLED_NAMES = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
"""Files of which a difference is judged, by path and by name: counters, and the clock to them."""

_IDENTITIES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (
            r"\b[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}\b",
            "00000000-0000-0000-0000-000000000000",
        ),
        (r"(Device Serial Number) [0-9a-f-]+", r"\1 removed"),
        (r"\b(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\b", "00:00:00:00:00:00"),
        (r"\b(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}\b", "0000.0000.0000"),
        (r"\b(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}\b", "0000:0000:0000:0000"),
        (r"\b(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{32})\b", "0" * 32),
        (r"(?i)\b(PARTUUID=|UUID=|wwn-0x|eui\.|nvme-eui\.|nqn\.)[\w.:-]+", r"\1removed"),
        (r"(?i)((?:serial(?:[ _]?number)?|s/n|sn)\s*[:>=]\s*)[^\s<][^<\n]*", r"\1removed"),
        (r"\b(unique_id\s+)\d+", r"\1removed"),
        (r'(?i)("\w*serial\w*"\s*:\s*")[^"]*', r"\1removed"),
        (r"(?i)((?:service|asset) tag\s*[:>=]\s*)[^\s<][^<\n]*", r"\1removed"),
        (r"(?i)(<pdi>|board_id>|GPU PDI\s*:\s*|Board ID\s*:\s*)[^<\n]+", r"\1removed"),
        (r"\b(addr|mountaddr|clientaddr|username|user|domain)=[^,\s]+", r"\1=removed"),
        (
            r"(?<=\s)(?://[^/\s]+|[\w.-]+|\[[0-9a-fA-F:]+\])(:?/)(?=[^\s]*\s+(?:rw|ro)\b)",
            r"server\1",
        ),
    )
)
"""UUIDs, MAC and InfiniBand addresses, machine and container ids, serials, accounts, servers."""

_IDENTITY_MEMBERS = ("uuid", "serial")
"""Of facts: they are left out, for cards with one UUID would be one card."""


def anonymous(text: str, host_name: str) -> str:
    """The text without what names the machine, its parts, its servers or its users."""
    for pattern, replacement in _IDENTITIES:
        text = pattern.sub(replacement, text)
    short, _, domain = host_name.partition(".")
    for name, instead in ((host_name, "host"), (domain, "domain"), (short, "host")):
        # in /dev/mapper every hyphen of a name stands twice
        for form in {name, name.replace("-", "--")} if len(name) > 2 else ():
            text = re.sub(rf"(?<![A-Za-z0-9.]){re.escape(form)}(?![A-Za-z0-9])", instead, text)
    return text


class RecordingHost(LiveHost):
    """LiveHost that writes every answer below `directory`, by default without identities."""

    def __init__(self, directory: Path, *, keep_identities: bool = False) -> None:
        super().__init__()
        self._directory = directory
        self._clean: Callable[[str], str] = (
            str if keep_identities else lambda text: anonymous(text, os.uname().nodename)
        )

    def read(self, path: str) -> str:
        """As LiveHost.read. Counters that are read again are kept as `.2`, a second sample."""
        text = super().read(path)
        if path == HOST_NAME_FILE and self._clean is not str:
            _keep(self._place(path), "host\n")
            return text
        place = self._place(path)
        if (path in SAMPLED or place.name in SAMPLED_NAMES) and place.exists():
            place = place.with_name(place.name + ".2")
        if place.name in IDENTITY_FILES and self._clean is not str:
            _keep(place, "removed\n")
        else:
            _keep(place, self._clean(_only_container(text) if path.endswith("/environ") else text))
        return text

    def read_bytes(self, path: str) -> bytes:
        """As LiveHost.read_bytes; of a device's registers the serial number is left out."""
        content = super().read_bytes(path)
        place = self._place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        bare = self._clean is not str and place.name == PCI_REGISTERS
        place.write_bytes(without_serial(content) if bare else content)
        return content

    def names(self, path: str) -> tuple[str, ...]:
        """As LiveHost.names; directories and links are kept."""
        names = super().names(path)
        place = self._place(path)
        place.mkdir(parents=True, exist_ok=True)
        for name in names[:NAMES_LIMIT]:
            here = os.path.join(path, name)
            if os.path.islink(here):
                self._place(here)
            elif os.path.isdir(here):
                (place / name).mkdir(exist_ok=True)
        return names

    def real_path(self, path: str) -> str:
        """As LiveHost.real_path; the links on the way are kept."""
        self._place(path)
        return super().real_path(path)

    def exists(self, path: str) -> bool:
        """As Host.exists; that something is there is kept, not what."""
        found = super().exists(path)
        if found and not os.path.isdir(path):
            place = self._place(path)
            if not place.exists():
                _keep(place, "")
        elif found:
            self._place(path).mkdir(parents=True, exist_ok=True)
        return found

    def run(self, argv: tuple[str, ...], deadline_seconds: float = 2.0) -> Output:
        """As LiveHost.run; output and exit status are kept."""
        output = super().run(argv, deadline_seconds)
        stem = "_".join(argv).replace("/", "_")
        _keep(self._directory / "cmd" / f"{stem}.txt", self._clean(output.text))
        _keep(self._directory / "cmd" / f"{stem}.rc", f"{output.status}\n")
        return output

    def statvfs(
        self, mounts: tuple[str, ...], deadline_seconds: float
    ) -> dict[str, Statvfs | UnreadableError]:
        """As LiveHost.statvfs; a mount that hung is kept as such."""
        answers = super().statvfs(mounts, deadline_seconds)
        kept: dict[str, object] = {}
        for mount, answer in answers.items():
            if isinstance(answer, Statvfs):
                kept[mount] = answer
            elif answer.reason is Reason.TIMEOUT:
                kept[mount] = {"hang": True}
        earlier = self._directory / "statvfs.json"
        if earlier.exists():
            kept = {**msgspec.json.decode(earlier.read_bytes()), **kept}
        self._keep_json("statvfs.json", kept)
        return answers

    def cpuid(self) -> CpuidLeaves:
        leaves = super().cpuid()
        self._keep_json("cpuid.json", leaves)
        return leaves

    def witness(self) -> dict[str, str]:
        seen = super().witness()
        self._keep_json("witness.json", seen)
        return seen

    def keep_facts(self, name: str, facts: object) -> None:
        """Keep what a probe made of a library's answers, which no file holds."""
        if facts is None:
            return
        content = msgspec.to_builtins(facts)
        if self._clean is not str:
            content = _without_identities(content, self._clean)
        (self._directory / name).write_bytes(pretty_json(content))

    def _keep_json(self, name: str, value: object) -> None:
        text = msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
        _keep(self._directory / name, text + "\n")

    def _place(self, path: str) -> Path:
        """Where `path` is kept, its links made anew. /proc/self stays a directory."""
        done, todo = "", [part for part in reversed(path.split("/")) if part]
        while todo:
            here = os.path.normpath(f"{done}/{todo.pop()}")
            if here == "/proc/self" or not os.path.islink(here):
                done = here
                continue
            target = os.readlink(here)
            kept = self._directory / here.lstrip("/")
            kept.parent.mkdir(parents=True, exist_ok=True)
            if not kept.is_symlink() and not kept.exists() and not target.startswith("/"):
                kept.symlink_to(target)
            done = "" if target.startswith("/") else os.path.dirname(here)
            todo.extend(part for part in reversed(target.split("/")) if part)
        return self._directory / done.lstrip("/")


def _without_identities(value: Any, clean: Callable[[str], str]) -> Any:
    """JSON's objects with their texts cleaned one by one: cleaned as a whole they would break."""
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if name not in _IDENTITY_MEMBERS}
        return {name: _without_identities(item, clean) for name, item in kept.items()}
    if isinstance(value, (list, tuple)):
        return [_without_identities(item, clean) for item in value]
    return clean(value) if isinstance(value, str) else value


def _keep(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, errors="replace")


def _only_container(environ: str) -> str:
    """Of another process's environment only what tells a container."""
    kept = [variable for variable in environ.split("\0") if variable.startswith("container=")]
    return "\0".join(kept)
