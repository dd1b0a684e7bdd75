"""What nvidia-smi says in all its forms, and what it says in place of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from nodecheck.checks.gpu import nvidia_smi_csv, nvidia_smi_text, nvidia_smi_xml
from nodecheck.checks.gpu.nvidia_smi_fields import Record
from nodecheck.machine.command import Output
from nodecheck.machine.pci import normal_address
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

XML = ("nvidia-smi", "-q", "-x")
FORMS: tuple[tuple[tuple[str, ...], Callable[[str], Iterator[Record]]], ...] = (
    (XML, nvidia_smi_xml.parse),
    (("nvidia-smi", "-q"), nvidia_smi_text.parse),
    (("nvidia-smi", "--query-gpu"), nvidia_smi_csv.parse),
    (("nvidia-smi",), nvidia_smi_text.parse_table),
)
"""The forms, the one that says most first."""

NOT_FOUND_STATUS = 127
TIMEOUT_STATUSES = (124, 137)
"""What timeout(1) exits with, and a shell for a child that was killed."""

UNKNOWN_ADDRESS = "address not said"

_ADDRESS = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_LOST = re.compile(r"Unable to determine the device handle|GPU is lost")
_WORDS = (
    ("mismatch", re.compile(r"Driver/library version mismatch")),
    ("missing", re.compile(r"command not found|No such file or directory")),
    ("missing", re.compile(r"couldn't communicate with the NVIDIA driver|Driver Not Loaded")),
    ("missing", re.compile(r"couldn't find libnvidia-ml|NVML Shared Library Not Found")),
    ("failed", re.compile(r"Failed to initialize NVML|No devices were found|has failed because")),
)
"""Words -> state of the driver, the first that is found counts."""


class Said(msgspec.Struct):
    """All that nvidia-smi said. `state` and `message` are those of GpuFacts; `lost` are addresses.

    `records` holds the cards a form: nothing says yet which of them are the same.
    """

    state: str | None = None
    message: str | None = None
    source: str | None = None
    library_version: str | None = None
    denied: bool = False
    lost: list[str] = msgspec.field(default_factory=list)
    records: list[tuple[str, list[Record]]] = msgspec.field(default_factory=list)


def ask(reader: Reader, deadline_seconds: float) -> Said:
    """Read every form that a capture holds; on a live node run the XML form alone."""
    said = Said()
    for argv, parse in FORMS[:1] if reader.host.live else FORMS:
        _ask_one(said, reader, argv, parse, deadline_seconds)
    if said.state is None and (said.records or said.lost):
        said.state, said.source = "ok", said.records[0][0] if said.records else "nvidia-smi"
    return said


def _ask_one(
    said: Said,
    reader: Reader,
    argv: tuple[str, ...],
    parse: Callable[[str], Iterator[Record]],
    deadline_seconds: float,
) -> None:
    try:
        output = reader.host.run(argv, deadline_seconds)
    except UnreadableError as error:
        _note_failure(said, error, reader.host.live)
    else:
        _take(said, reader, argv, output, parse)


def _note_failure(said: Said, error: UnreadableError, live: bool) -> None:
    """A command that a capture lacks was not tried; one that a live node lacks is missing."""
    if error.reason is Reason.TIMEOUT:
        said.state, said.message, said.source = "unresponsive", error.detail, "nvidia-smi"
    elif live:
        missing = error.reason is Reason.ABSENT
        said.state = "missing" if missing else "failed"
        said.message, said.source = error.detail, "nvidia-smi"


def _take(
    said: Said,
    reader: Reader,
    argv: tuple[str, ...],
    output: Output,
    parse: Callable[[str], Iterator[Record]],
) -> None:
    source = " ".join(argv)
    records = list(_records(reader, source, output.text, parse))
    if records:
        said.records.append((source, records))
    for address in _lost(output.text, bool(records)):
        if address not in said.lost:
            said.lost.append(address)
    state = state_of(output, bool(records) or bool(said.lost))
    if state is not None and said.state is None:
        said.state, said.source = state, source
        said.message = _message(output, state)
        said.denied = "Insufficient Permissions" in output.text
    if match := re.search(r"NVML library version: ([\w.]{1,40})", output.text):
        said.library_version = match[1]
    if not records and state is None and not said.lost:
        reader.gap("gpus", Reason.FAILED, f"{source}: nothing in it could be read as a card")


def _records(
    reader: Reader, source: str, text: str, parse: Callable[[str], Iterator[Record]]
) -> Iterator[Record]:
    if parse is nvidia_smi_xml.parse:
        begin = re.search(r"<\?xml|<nvidia_smi_log", text)
        if begin is None:
            return
        text = text[begin.start() :]
    try:
        yield from parse(text)
    except nvidia_smi_xml.XmlError as error:
        reader.gap("gpus", Reason.FAILED, f"{source}: {error}")


def state_of(output: Output, answered: bool) -> str | None:
    """The state of the driver as the words and the exit status tell it, None where all is well."""
    if output.status in TIMEOUT_STATUSES and not answered:
        return "unresponsive"
    head = output.text[:4096]
    for state, words in _WORDS:
        if not answered and words.search(head):
            return state
    if output.status == NOT_FOUND_STATUS:
        return "missing"
    return "failed" if output.status != 0 and not answered else None


def _message(output: Output, state: str) -> str:
    """The first line, or what the exit status alone says."""
    line = next((line.strip() for line in output.text.splitlines() if line.strip()), "")
    if state == "unresponsive" and not line:
        return f"no answer (exit status {output.status})"
    return line[:200] or f"exit status {output.status}"


def _lost(text: str, cards_follow: bool) -> Iterator[str]:
    """The addresses of cards that are named as lost outside a list of cards."""
    for line in nvidia_smi_text.short_lines(text):
        if not _LOST.search(line) or (cards_follow and "device handle" not in line):
            continue
        found = re.search(_ADDRESS, line)
        address = normal_address(found[0]) if found else None
        yield address or UNKNOWN_ADDRESS
