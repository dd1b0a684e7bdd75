"""How long NVIDIA's driver may take to answer, whichever of its libraries asks."""

from __future__ import annotations

BASE_SECONDS = 4.0
"""For a library to load and start on a busy node: where its cards are awake, well under 1 s."""

PER_CARD_SECONDS = 3.0
"""Without persistence mode the driver starts each card anew when it is opened, one after the other,
and takes 1 to 3 s for each."""

LIMIT_SECONDS = BASE_SECONDS + 8 * PER_CARD_SECONDS
"""Eight such cards answer within it, and no report waits longer for a driver that hangs."""


def seconds(cards: int) -> float:
    """How long the driver may take with so many cards."""
    return min(BASE_SECONDS + PER_CARD_SECONDS * cards, LIMIT_SECONDS)
