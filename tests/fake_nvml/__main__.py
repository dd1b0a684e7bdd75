"""`python -m tests.fake_nvml NODE -- COMMAND`: run a command on the cards of nodes/NODE.txt."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fake_nvml.build import FakeNvml, NotHereError, compile_library
from tests.fake_nvml.profiles import NODES, node


def main(arguments: list[str]) -> int:
    """The command's exit status; 1 where the library cannot be built, 2 on wrong usage."""
    known = sorted(file.stem for file in NODES.glob("*.txt"))
    if len(arguments) < 3 or arguments[0] not in known or arguments[1] != "--":
        return _refuse(f"python -m tests.fake_nvml {{{'|'.join(known)}}} -- COMMAND", 2)
    cards, system = node(arguments[0])
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "new").mkdir()
        try:
            compile_library(place / "new" / "libnvidia-ml.so.1")
        except NotHereError as reason:
            return _refuse(str(reason), 1)
        environment = FakeNvml(place).describing(cards, system, place)
        return subprocess.run(arguments[2:], env=environment, check=False).returncode


def _refuse(why: str, status: int) -> int:
    sys.stderr.write(f"{why}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
