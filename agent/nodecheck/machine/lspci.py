"""What lspci prints, with any of -v, -vv, -vvv, -nn and -k, as one block a device."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from nodecheck.machine.pci_config import ACS_CONTROLS

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
_TARGET = re.compile(r"LnkCtl2:.*?\bTarget Link Speed: (\S+?),")
_EQUALISED = re.compile(r"LnkSta2:.*?\bEqualizationComplete([+-])")
_ACS = dict(
    zip(
        ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl",
         "DirectTrans"),
        ACS_CONTROLS,
        strict=True,
    )
)  # fmt: skip
_REGION = re.compile(r"Region \d: Memory at .*\[size=(\d{1,6})([KMGT]?)\]")
_WINDOW = re.compile(r"BAR \d: current size: \S+, supported: (.*)")
_SIZE = re.compile(r"\b(\d{1,6})([KMGT])B\b")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Block(msgspec.Struct):
    """What was printed of one device. Ids are four hex digits; speeds are as printed (`32GT/s`).

    `bar_bytes` is its largest memory window, `bar_maximum_bytes` the largest that it can be made.
    Without the right to read the registers lspci prints few of them: they are None then.
    """

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
    target_speed: str | None = None
    equalised: bool | None = None
    acs: tuple[str, ...] | None = None
    ats: bool | None = None
    bar_bytes: int | None = None
    bar_maximum_bytes: int | None = None
    iommu_group: int | None = None
    section: str = ""
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
    elif match := re.match(r"IOMMU group: (\d{1,6})$", line):
        block.iommu_group = int(match[1])
    elif match := _BUS.match(line):
        block.secondary_bus = match[1]
    elif match := _LINK.match(line):
        _add_link(block, match[1], match[2], int(match[3]))
    else:
        _add_register(block, line)


def _add_register(block: Block, line: str) -> None:
    if match := re.match(r"Capabilities: \[([0-9a-f]+)[^]]*\] (.*)", line):
        _begin_section(block, match[1], match[2])
    elif match := _TARGET.match(line):
        block.target_speed = match[1]
    elif match := _EQUALISED.match(line):
        block.equalised = match[1] == "+"
    elif line.startswith("ACSCtl:"):
        block.acs = tuple(name for word, name in _ACS.items() if f"{word}+" in line)
    elif match := re.match(r"ATSCtl:\s*Enable([+-])", line):
        block.ats = match[1] == "+"
    elif match := _REGION.match(line):
        size = int(match[1]) * _UNITS[match[2]]
        block.bar_bytes = max(size, block.bar_bytes or 0)
    elif block.section.startswith("Physical Resizable BAR") and (match := _WINDOW.match(line)):
        sizes = (int(n) * _UNITS[unit] for n, unit in _SIZE.findall(match[1]))
        block.bar_maximum_bytes = max((*sizes, block.bar_maximum_bytes or 0)) or None


def _begin_section(block: Block, offset: str, name: str) -> None:
    """Who sees extended capabilities sees all of them: one that does not follow is not there."""
    block.section = name
    if len(offset) > 2:
        block.acs, block.ats = block.acs or (), bool(block.ats)


def _add_link(block: Block, register: str, speed: str, width: int) -> None:
    block.has_link = True
    if register == "LnkCap":
        block.maximum_speed, block.maximum_width = speed, width
        return
    block.current_speed, block.current_width = speed, width
