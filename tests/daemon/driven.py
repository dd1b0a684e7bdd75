"""The daemon with a collector that a test drives: `driven.py DIRECTORY SPEED LISTEN INTERVAL`.

DIRECTORY is what fake_collector.sh takes, and may hold a configuration, SPEED the loop's clock's.
SIGUSR1 blocks the event loop for BLOCKED_SECONDS, as a fault of ours would.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

from nodecheck.daemon.loaded import Request
from nodecheck.daemon.process import Clock
from nodecheck.daemon.service import serve

BLOCKED_SECONDS = 3.0
CONFIG = "nodecheck.toml"


def config_in(directory: str) -> str | None:
    """The configuration, where there is one."""
    config = Path(directory, CONFIG)
    return str(config) if config.exists() else None


async def main(directory: str, speed: str, listen: str, interval: str) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, time.sleep, BLOCKED_SECONDS)
    fake = ("/bin/sh", str(Path(__file__).with_name("fake_collector.sh")), directory)
    request = Request(listen=listen, interval=interval, config=config_in(directory))
    await serve(request, fake, Clock(float(speed)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
