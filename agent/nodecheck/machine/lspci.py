"""What lspci prints, with any of -v, -vv, -vvv, -nn and -k, as one block a device."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

COMMANDS = (
    ("lspci", "-vvv", "-nn"),
    ("lspci", "-vvv"),
    ("lspci", "-vv", "-nn"),
    ("lspci", "-vv"),
    ("lspci", "-nnvvv"),
    ("lspci", "-vvvnn"),
    ("lspci", "-nnk"),
    ("lspci", "-nn"),
    ("lspci", "-k"),
    ("lspci",),
)
"""The forms that a capture may hold, the one that says most first."""

LINE_LIMIT = 1024

_CLASSES = {
    "VGA compatible controller": 0x0300,
    "3D controller": 0x0302,
    "Display controller": 0x0380,
    "Processing accelerators": 0x1200,
    "Co-processor": 0x0B40,
    "PCI bridge": 0x0604,
}
_VENDORS = {
    "NVIDIA Corporation": "10de",
    "Advanced Micro Devices, Inc. [AMD/ATI]": "1002",
    "Advanced Micro Devices, Inc. [AMD]": "1022",
    "Intel Corporation": "8086",
    "Red Hat, Inc.": "1b36",
    "VMware": "15ad",
    "InnoTek Systemberatung GmbH": "80ee",
    "ASPEED Technology, Inc.": "1a03",
    "Matrox Electronics Systems Ltd.": "102b",
    "NEC Corporation": "1033",
}
_HEAD = re.compile(
    r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<class>[^:\[]+?)"
    r"(?: \[(?P<code>[0-9a-f]{4})\])?: (?P<rest>.*)"
)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_LINK = re.compile(r"(LnkCap|LnkSta):.*?\bSpeed (\S+?)(?: \(\w+\))?, Width x(\d{1,3})")
_BUS = re.compile(r"Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}),")


class Block(msgspec.Struct):
    """What was printed of one device. Ids are four hex digits; speeds are as printed (`32GT/s`)."""

    address: str
    pci_class: int | None
    vendor: str | None
    device: str | None
    name: str
    subsystem: str | None = None
    driver: str | None = None
    numa_node: int | None = None
    current_speed: str | None = None
    current_width: int | None = None
    maximum_speed: str | None = None
    maximum_width: int | None = None
    secondary_bus: str | None = None
    has_link: bool = False
    gone: bool = False


def parse(text: str) -> Iterator[Block]:
    """The devices in the order of the text; lines that fit nothing are passed over."""
    block: Block | None = None
    for line in text.splitlines():
        if len(line) > LINE_LIMIT:
            continue
        if head := _HEAD.match(line):
            if block is not None:
                yield block
            block = _begin(head)
        elif block is not None and line[:1].isspace():
            _add(block, line.strip())
    if block is not None:
        yield block


def _begin(head: re.Match[str]) -> Block:
    rest = head["rest"]
    ids = _IDS.search(rest)
    vendor = ids[1] if ids else next((v for n, v in _VENDORS.items() if rest.startswith(n)), None)
    unnamed = re.search(r"\bDevice ([0-9a-f]{4})\b", rest)
    return Block(
        address=head["address"],
        pci_class=int(head["code"], 16) if head["code"] else _CLASSES.get(head["class"]),
        vendor=vendor,
        device=ids[2] if ids else unnamed[1] if unnamed else None,
        name=re.sub(r" \((?:rev|prog-if) [^)]*\)| \[[0-9a-f]{4}:[0-9a-f]{4}\]", "", rest).strip(),
        gone="(rev ff)" in rest,
    )


def _add(block: Block, line: str) -> None:
    if line.startswith("!!! Unknown header type 7f"):
        block.gone = True
    elif line.startswith("Subsystem:") and (ids := _IDS.search(line)):
        block.subsystem = f"{ids[1]}:{ids[2]}"
    elif line.startswith("Kernel driver in use:"):
        block.driver = line.partition(":")[2].strip() or None
    elif match := re.match(r"NUMA node: (\d{1,4})$", line):
        block.numa_node = int(match[1])
    elif match := _BUS.match(line):
        block.secondary_bus = match[1]
    elif match := _LINK.match(line):
        _add_link(block, match[1], match[2], int(match[3]))


def _add_link(block: Block, register: str, speed: str, width: int) -> None:
    block.has_link = True
    if register == "LnkCap":
        block.maximum_speed, block.maximum_width = speed, width
        return
    block.current_speed, block.current_width = speed, width
