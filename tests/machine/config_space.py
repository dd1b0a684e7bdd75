"""Configuration spaces of PCI devices made from what they are to tell."""

from __future__ import annotations

from collections.abc import Mapping

SIZE = 4096
EXPRESS_AT = 0x60
SPEEDS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
SERIAL, ACS, ATS, RESIZABLE_BAR = 0x0003, 0x000D, 0x000F, 0x0015


def space(
    *,
    port: bool = False,
    maximum: tuple[float, int] = (16.0, 16),
    target: float = 16.0,
    equalised: bool = True,
    extended: Mapping[int, bytes] | None = None,
) -> bytes:
    """Of a root port or an endpoint; `extended` are capabilities by id, without their header."""
    data = bytearray(SIZE)
    data[0:4] = bytes.fromhex("22108314" if port else "de10b526")
    data[0x06] = 0x10  # there is a list of capabilities
    data[0x0A:0x0C] = bytes.fromhex("0406" if port else "0003")
    data[0x0E] = 1 if port else 0
    data[0x34] = EXPRESS_AT
    put(data, EXPRESS_AT, 0x10 | (0x42 if port else 0x02) << 16)
    put(data, EXPRESS_AT + 0x0C, SPEEDS[maximum[0]] | maximum[1] << 4)
    put(data, EXPRESS_AT + 0x12, SPEEDS[maximum[0]] | maximum[1] << 4, size=2)
    put(data, EXPRESS_AT + 0x2C, 0x1E)
    put(data, EXPRESS_AT + 0x30, SPEEDS[target] | (0x1E << 16 if equalised else 0))
    here = 0x100
    for number, (id_, content) in enumerate((extended or {}).items()):
        after = here + 4 + len(content)
        last = number + 1 == len(extended or {})
        put(data, here, id_ | 1 << 16 | (0 if last else after) << 20)
        data[here + 4 : after] = content
        here = after
    return bytes(data)


def put(data: bytearray, offset: int, number: int, *, size: int = 4) -> None:
    """Write a register."""
    data[offset : offset + size] = number.to_bytes(size, "little")


def acs(control: int) -> bytes:
    """Access Control Services: able to do all, told to do some."""
    return (0x7F).to_bytes(2, "little") + control.to_bytes(2, "little")


def ats(*, enabled: bool) -> bytes:
    """Address Translation Service."""
    return bytes(2) + (0x8000 if enabled else 0).to_bytes(2, "little")


def windows(*sizes_mib: tuple[int, ...]) -> bytes:
    """A resizable window for each tuple of sizes that it can have, in MiB."""
    made = b""
    for number, sizes in enumerate(sizes_mib):
        able = sum(1 << 4 + size.bit_length() - 1 for size in sizes)
        control = number | len(sizes_mib) << 5 | (sizes[0].bit_length() - 1) << 8
        made += able.to_bytes(4, "little") + control.to_bytes(4, "little")
    return made


def dump(address: str, data: bytes) -> str:
    """As `lspci -xxxx` prints it and `lspci -F` reads it."""
    rows = (
        f"{row:02x}: " + " ".join(f"{byte:02x}" for byte in data[row : row + 16])
        for row in range(0, len(data), 16)
    )
    return "\n".join((f"{address} Class", *rows)) + "\n\n"
