"""Cards for the fake library, at rates that are plausible for such cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Card = Mapping[str, "str | float"]
"""Keys and values of a card, as description.c names them."""

GIB = 1 << 30

H200: Card = {
    "multiprocessors": 132,
    "memory": 150754820096,
    "h2d": 55.2,
    "d2h": 53.1,
    "h2d_pageable": 14,
    "d2h_pageable": 11,
    "device": 2150,
    "read": 4250,
    "peer": 390,  # of 18 NVLinks with 26.6 GB/s each way
}
L40: Card = {
    "multiprocessors": 142,
    "memory": 48305799168,
    "h2d": 26.2,
    "d2h": 26.4,
    "h2d_pageable": 9,
    "d2h_pageable": 8,
    "device": 360,
    "read": 780,
    "peer": 22,
}
RTX_4090: Card = {
    "multiprocessors": 128,
    "memory": 25757220864,
    "h2d": 26.0,
    "d2h": 26.2,
    "device": 440,
    "read": 930,
    "peer_access": "no",
    "peer_staged": 11,
}
T4: Card = {
    "multiprocessors": 40,
    "memory": 15828320256,
    "h2d": 6.2,
    "d2h": 6.3,
    "h2d_pageable": 4,
    "d2h_pageable": 3.5,
    "device": 115,
    "read": 240,
}


def node(card: Card, count: int, first_bus: int = 0x17, **changes: str | float) -> list[Card]:
    """As many of them as `count`, each on a bus of its own."""
    return [
        {**card, "pci_address": f"0000:{first_bus + i:02x}:00.0", **changes} for i in range(count)
    ]


def description(cards: Sequence[Card], **system: str | float) -> str:
    """What $FAKE_CUDA holds for such a node; `uplink_left=40` is the system's `uplink left 40`."""
    lines = [f"{key.replace('uplink_', 'uplink ')} {value}" for key, value in system.items()]
    for card in cards:
        lines += ["card", *(f"{key} {value}" for key, value in card.items())]
    return "\n".join(lines) + "\n"
