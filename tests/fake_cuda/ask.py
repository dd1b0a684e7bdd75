"""Calls machine/cuda.py as its standard input says, and prints what it gives."""

from __future__ import annotations

import math
import os
import sys
import time

import msgspec

from nodecheck.machine import cuda, nvidia_driver


class Asked(msgspec.Struct):
    deadline_seconds: float
    plan: tuple[cuda.Copy, ...] | None = None
    seconds: float = math.inf
    warm_up_seconds: float = cuda.WARM_UP_SECONDS


def look(address: str) -> tuple[float | None, int | None]:
    """Lanes that are the card's bus number, which tells the cards apart."""
    time.sleep(float(os.environ.get("FAKE_LOOK_SECONDS", "0")))
    return 32.0, int(address[5:7], 16)


def main() -> None:
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    nvidia_driver.BASE_SECONDS = nvidia_driver.LIMIT_SECONDS = asked.deadline_seconds
    cuda.STALL_SECONDS = asked.deadline_seconds
    cuda.WARM_UP_SECONDS = asked.warm_up_seconds
    answer: cuda.Answer | cuda.Copies
    if asked.plan is None:
        answer = cuda.query(cards_expected=0)
    else:
        answer = cuda.copy(asked.plan, 0, look, seconds=asked.seconds)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
