"""What nvidia-smi says in all its forms, and what it says in place of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from nodecheck.checks.gpu import (
    nvidia_smi_csv,
    nvidia_smi_table,
    nvidia_smi_text,
    nvidia_smi_xml,
)
from nodecheck.checks.gpu.nvidia_smi_record import Record, outside_processes
from nodecheck.checks.gpu.nvml_words import BAD_INFOROM, LOST, NO_PERMISSION
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
    (("nvidia-smi",), nvidia_smi_table.parse),
)
"""The forms, the one that says most first."""

NOT_FOUND_STATUS = 127
TIMEOUT_STATUSES = (124, 137)
"""What timeout(1) exits with, and a shell for a child that was killed."""

UNKNOWN_ADDRESS = "address not said"

_ADDRESS = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_NO_HANDLE_LINE = re.compile(r"Unable to determine the device handle")
_LOST = re.compile(rf"{_NO_HANDLE_LINE.pattern}|{LOST}")
_CORRUPTED = re.compile(rf"WARNING: infoROM is corrupted at gpu ({_ADDRESS})")
_LIBRARY = re.compile(r"NVML library version: ([\w.]{1,40})")
_HEAD = 4096
"""Characters in which what stands in place of an answer is looked for."""

_NO_DRIVER = re.compile(r"couldn't communicate with the NVIDIA driver|Driver Not Loaded")
_WORDS = (
    ("mismatch", re.compile(r"Driver/library version mismatch")),
    ("missing", re.compile(r"command not found|No such file or directory")),
    ("missing", _NO_DRIVER),
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
    """A command that a capture lacks was not tried; one that a live node lacks is missing.

    One that could not be started, for want of memory or descriptors, says nothing of the driver.
    """
    if error.reason is Reason.TIMEOUT:
        said.state, said.message, said.source = "unresponsive", error.detail, "nvidia-smi"
    elif live:
        said.state = "missing" if error.reason is Reason.ABSENT else None
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
    _mark_corrupted(records, output.text)
    if records:
        said.records.append((source, records))
    for address in _lost(output.text, bool(records)):
        if address not in said.lost:
            said.lost.append(address)
    state = state_of(output, bool(records) or bool(said.lost))
    if state is not None and said.state is None:
        said.state, said.source = state, source
        said.message = _message(output, state)
        said.denied = NO_PERMISSION in output.text
    if not records and (match := _LIBRARY.search(output.text[:_HEAD])):
        said.library_version = match[1]
    if not records and state is None and not said.lost:
        reader.gap("gpus", Reason.FAILED, f"{source}: nothing in it could be read as a card")


def _records(
    reader: Reader, source: str, text: str, parse: Callable[[str], Iterator[Record]]
) -> Iterator[Record]:
    try:
        yield from parse(text)
    except nvidia_smi_xml.XmlError as error:
        reader.gap("gpus", Reason.FAILED, f"{source}: {error}")


def _mark_corrupted(records: list[Record], text: str) -> None:
    """Note what is warned of beside the cards, in the words that NVML has for it."""
    found = map(_CORRUPTED.match, outside_processes(text))
    addresses = {normal_address(match[1]) for match in found if match}
    for record in records:
        if normal_address(record.get("pci.bus_id", "")) in addresses - {None}:
            record["inforom"] = BAD_INFOROM


def says_no_driver(message: str) -> bool:
    """Whether it was told that the driver does not run, and not that nothing could be asked."""
    return _NO_DRIVER.search(message) is not None


def state_of(output: Output, answered: bool) -> str | None:
    """The state of the driver as the words and the exit status tell it, None where all is well."""
    if output.status in TIMEOUT_STATUSES and not answered:
        return "unresponsive"
    head = output.text[:_HEAD]
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
    told = _NO_HANDLE_LINE.match if cards_follow else _LOST.search
    for line in dict.fromkeys(filter(told, outside_processes(text))):
        found = re.search(_ADDRESS, line)
        address = normal_address(found[0]) if found else None
        yield address or UNKNOWN_ADDRESS
