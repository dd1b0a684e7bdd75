"""Asks the fake library about many descriptions, in one process; run as a program it answers them.

One process, because the library is found through a variable that is read at its start.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodecheck.checks.gpu import from_nvml, nvml_refusals
from nodecheck.machine import child, nvidia_driver, nvml
from tests.fake_nvml.build import FakeNvml

HANGS_AT_ONCE = 55
"""More children on two CPUs would not come to the call that hangs before their time is over."""


def queried(
    fake_nvml: FakeNvml,
    place: Path,
    texts: Sequence[str],
    *,
    old: bool = False,
    hang_seconds: float = 0,
) -> list[dict[str, Any]]:
    """What is made of NVML's answer to each description.

    With a deadline for hangs the descriptions are asked side by side.
    """
    for number, text in enumerate(texts):
        (place / f"{number}.txt").write_text(text)
    done = subprocess.run(
        (sys.executable, __file__, str(place), str(len(texts)), str(hang_seconds)),
        env=fake_nvml.environment([], place, old=old),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers: list[dict[str, Any]] = msgspec.json.decode(done.stdout)
    return answers


def main() -> None:
    place, hang_seconds = Path(sys.argv[1]), float(sys.argv[3])
    files = [place / f"{number}.txt" for number in range(int(sys.argv[2]))]
    nvml.SECOND_SAMPLE_SECONDS = 0.01
    if hang_seconds:
        nvidia_driver.BASE_SECONDS = hang_seconds - nvidia_driver.PER_CARD_SECONDS
        import pynvml  # noqa: F401 - so that no child takes its time over it

        answers = _side_by_side(files, 4 * hang_seconds)
    else:
        nvidia_driver.BASE_SECONDS = nvidia_driver.LIMIT_SECONDS = 60.0
        answers = [_answer(file) for file in files]
    sys.stdout.buffer.write(msgspec.json.encode(answers))


def _answer(file: Path) -> dict[str, Any]:
    os.environ["FAKE_NVML"] = str(file)
    os.environ["FAKE_NVML_LOG"] = str(file.with_suffix(".log"))
    os.environ["NODECHECK_HISTORY"] = str(file.with_suffix("") / "history.db")
    answer = nvml.query(1)
    return {
        "gpu": from_nvml.facts_of(answer),
        "gpus": from_nvml.gpus_of(answer),
        "refusals": [nvml_refusals.refusals(device) for device in answer.devices],
        "asked": answer.asked,
        "unsupported": [device.unsupported for device in answer.devices],
    }


def _side_by_side(files: list[Path], limit_seconds: float) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    for first in range(0, len(files), HANGS_AT_ONCE):
        some = files[first : first + HANGS_AT_ONCE]
        tasks = {str(file): functools.partial(_answer, file) for file in some}
        outcomes = child.gather(tasks, dict[str, Any], limit_seconds)
        for file in some:
            outcome = outcomes[str(file)]
            if outcome.value is None:
                raise RuntimeError(f"{file.read_text()}\n{outcome.error}")
            answers.append(outcome.value)
    return answers


if __name__ == "__main__":
    main()
