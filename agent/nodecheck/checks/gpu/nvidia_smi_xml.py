"""`nvidia-smi -q -x`: XML of several DTD versions, which differ in names and depth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast
from xml.etree import ElementTree

from nodecheck.checks.gpu.nvidia_smi_names import XML, XML_HEAD
from nodecheck.checks.gpu.nvidia_smi_record import (
    CARDS_LIMIT,
    LINE_LIMIT,
    MIG,
    NO_PROCESSES,
    PROCESS,
    PROCESSES,
    REASON,
    Record,
    ecc_sums,
    renamed,
)

DEPTH_LIMIT = 32
ELEMENTS_LIMIT = 150_000
"""Elements in all; 16 cards with all their supported clocks have fewer."""

_CHUNK = 1 << 16
_BEGIN, _END = re.compile(r"<\?xml|<nvidia_smi_log"), "</nvidia_smi_log>"
_NAME_BEGIN, _NAME_END = "<process_name>", "</process_name>"
_NAME_LINE = re.compile(rf"{_NAME_BEGIN}([^\n]*)")
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#x?[0-9A-Fa-f]{1,6});)")
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML may hold, but a program's name may."""

_REASON = re.compile(r"clocks_(?:event|throttle)_reasons/clocks_(?:event|throttle)_reason_(\w+)")
_ECC = re.compile(
    r"ecc_errors/(volatile|aggregate)/(?:(?:sram|dram)_(un)?correctable\w*|(single|double)_bit/total)"
)
_REPEATED = ("mig_devices", "processes")
_PROCESS = {"pid": "pid", "type": "type", "process_name": "name", "used_memory": "memory"}
_INSTANCE = {
    "gpu_instance_id": "gpu_instance",
    "compute_instance_id": "compute_instance",
    "fb_memory_usage/total": "total",
    "fb_memory_usage/used": "used",
    "shared_fb_memory_usage/total": "total",
    "shared_fb_memory_usage/used": "used",
}
"""Where an element stands in its instance -> its member of a record."""

Event = tuple[str, ElementTree.Element]


class XmlError(ValueError):
    """What stands in the way of reading it to the end, in one line."""


def parse(text: str) -> Iterator[Record]:
    """The cards up to the end or to the first fault, at which XmlError is raised.

    Messages may stand before and after the log; nothing comes of a text without one.
    """
    begin, end = _BEGIN.search(text), text.rfind(_END)
    if begin is None:
        return
    text = text[begin.start() : end + len(_END) if end > 0 else None]
    text = _NAME_LINE.sub(_escaped, text)
    if re.search(r"<!\s*ENTITY", text, re.IGNORECASE):
        raise XmlError("it declares entities, which nvidia-smi never does")
    head: Record = {}
    addresses: list[str] = []
    seen = 0
    for element in _top_level(text):
        if element.tag != "gpu":
            head.setdefault(element.tag, _text(element))
            continue
        seen += 1
        if seen > CARDS_LIMIT:
            raise XmlError("more cards than any node has")
        record = _record(element)
        element.clear()
        # A program's name that is not escaped can forge elements, but no second card of a name.
        address = record["pci.bus_id"]
        if not address or address not in addresses:
            yield record | renamed(head, XML_HEAD) | {"index": str(len(addresses))}
            addresses.append(address)


def _escaped(line: re.Match[str]) -> str:
    """A line with a program's name, which is not escaped by every driver."""
    name, end, rest = line[1].rpartition(_NAME_END)
    if not end or len(name) > LINE_LIMIT:
        return line[0]
    name = _BARE_AMPERSAND.sub("&amp;", name).replace("<", "&lt;")
    return f"{_NAME_BEGIN}{name}{end}{rest}"


def _top_level(text: str) -> Iterator[ElementTree.Element]:
    """Each element of the log that ends, up to where the text is no XML any more."""
    depth = number = 0
    for kind, element in _events(text):
        if kind == "start":
            depth += 1
            number += 1
            if number > ELEMENTS_LIMIT or depth > DEPTH_LIMIT:
                raise XmlError("more elements than nvidia-smi prints")
        else:
            depth -= 1
            if depth == 1:
                yield element


def _events(text: str) -> Iterator[Event]:
    """The starts and ends of elements; a fault comes after all that stands before it."""
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(
        ("start", "end")
    )
    try:
        for begin in range(0, len(text), _CHUNK):
            parser.feed(_NO_XML.sub("\ufffd", text[begin : begin + _CHUNK]))
            yield from cast("Iterator[Event]", parser.read_events())
        parser.close()
    except ElementTree.ParseError as error:
        raise XmlError(f"not whole: {error}") from error


def _text(element: ElementTree.Element) -> str:
    return (element.text or "").strip()


def _record(gpu: ElementTree.Element) -> Record:
    flat = dict(_flat(gpu))
    record = renamed(flat, XML)
    record["pci.bus_id"] = gpu.get("id") or record.get("pci.bus_id", "")
    counts = []
    for path, text in flat.items():
        if match := _REASON.fullmatch(path):
            record[REASON + match[1]] = text
        elif match := _ECC.fullmatch(path):
            counts.append((match[1], bool(match[2]) or match[3] == "double", text))
    record |= ecc_sums(counts)
    record |= _numbered(gpu.iterfind("mig_devices/mig_device"), MIG, _INSTANCE)
    processes = gpu.find("processes")
    if processes is not None:
        record[PROCESSES] = _text(processes) or NO_PROCESSES
        record |= _numbered(processes.iterfind("process_info"), PROCESS, _PROCESS)
    return record


def _flat(gpu: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """Path under the card -> text, of two at one place the first last.

    What a card has several of is left out: an instance's memory is not the card's.
    """
    stack = [(child, child.tag) for child in gpu if child.tag not in _REPEATED]
    while stack:
        element, path = stack.pop()
        yield path, _text(element)
        stack.extend((child, f"{path}/{child.tag}") for child in element)


def _numbered(
    elements: Iterator[ElementTree.Element], prefix: str, places: dict[str, str]
) -> Record:
    return {
        f"{prefix}{number}.{member}": (element.findtext(place) or "").strip()
        for number, element in enumerate(elements)
        for place, member in places.items()
        if element.find(place) is not None
    }
