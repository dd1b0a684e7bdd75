"""Write the README's report anew from the program: `make readme`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.hosts import THREE_L40
from tests.trees import Tree, plant

README = Path(__file__).parents[1] / "README.md"
HOW = re.compile(r"captured   \d+\.\d s$", re.MULTILINE)
BLOCK = re.compile(r"^```\nnodecheck 0.*?^```\n", re.MULTILINE | re.DOTALL)


def report(tree: Tree, place: Path) -> str:
    """What is printed of a node in 100 columns; the title is that of a live node."""
    plant(tree, place)
    command = [sys.executable, "-m", "nodecheck", "--root", str(place)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"COLUMNS": "100"}
    )
    return HOW.sub("2.8 s", done.stdout, count=1)


def main() -> None:
    """Replace the block that starts with the program's name."""
    with tempfile.TemporaryDirectory() as place:
        printed = report(THREE_L40, Path(place) / "node")
    text, replaced = BLOCK.subn(lambda _: f"```\n{printed}```\n", README.read_text())
    if replaced != 1:
        sys.exit("README.md has no report to replace")
    README.write_text(text)


if __name__ == "__main__":
    main()
