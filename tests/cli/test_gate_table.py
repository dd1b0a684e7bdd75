"""The gate's truth table through the real command line: every style, status and bad input."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.cli.gating import (
    STATUSES,
    Done,
    answered,
    failed,
    first_word,
    forked_gates,
    gate,
    planted,
)
from tests.hosts import HEALTHY, statvfs
from tests.trees import Tree

STYLES = tuple(STATUSES)
LENIENCE = ("fail", "ok")

NEARLY_FULL: Tree = {**HEALTHY, "statvfs.json": json.dumps({"/": statvfs(1800 << 30, 100 << 30)})}
NOT_MEASURED: Tree = {name: text for name, text in HEALTHY.items() if name != "measurements.json"}

CASES: dict[str, tuple[Tree, tuple[str, ...]]] = {
    "OK": (HEALTHY, ("--gpus", "1")),
    "WARNING": (NEARLY_FULL, ()),
    "CRITICAL": (HEALTHY, ("--require", "amx_int8", "--min-dram-read", "9TB/s")),
    "UNKNOWN": (NOT_MEASURED, ("--min-dram-read", "40GB/s")),
}
"""First word -> a node, and what is asked of it."""

TABLE = tuple(itertools.product(STYLES, CASES, LENIENCE, LENIENCE))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Done]:
    """Every style with every status, lenient with warnings or what is unknown and not."""
    place = tmp_path_factory.mktemp("table")
    saved = {}
    for word, (tree, _) in CASES.items():
        saved[word] = place / f"{word}.json"
        report = gate("--json", "--root", planted(tree, place / word), command="")
        saved[word].write_text(report.stdout)
    commands = [
        ("--from", str(saved[word]), *CASES[word][1], "--exit-style", style,
         "--warning", warning, "--unknown", unknown)
        for style, word, warning, unknown in TABLE
    ]  # fmt: skip
    return dict(zip(TABLE, forked_gates(commands), strict=True))


@pytest.mark.parametrize(("style", "word", "warning", "unknown"), TABLE)
def test_every_status_in_every_style(
    table: dict[tuple[str, ...], Done], style: str, word: str, warning: str, unknown: str
) -> None:
    done = table[style, word, warning, unknown]
    figures = answered(done, style)
    assert first_word(done) == word
    excused = (word, "ok") in (("UNKNOWN", unknown), ("WARNING", warning))
    assert done.returncode == (0 if excused else STATUSES[style][word])
    if style == "nagios":
        assert any(figure.is_critical for figure in figures.values()) == (word == "CRITICAL")
        assert any(figure.warns for figure in figures.values()) == (word == "WARNING")
        assert any(figure.value is None for figure in figures.values()) == (word == "UNKNOWN")


POLICIES = {
    "broken TOML": ("[thresholds\n", "not TOML"),
    "an unknown key": ("[thresholds]\nsurprise = 1\n", "surprise"),
    "an unknown table": ("[surprise]\na = 1\n", "surprise"),
    "a number for text": ("name = 5\n", "name"),
    "text for a number": ('[requirements]\ngpus = "3"\n', "gpus"),
    "a count below zero": ("[requirements]\ngpus = -1\n", "gpus"),
    "a rate without a unit": ('[requirements]\ndram_read_bytes_per_second = "40"\n', "is no rate"),
    "a link that is none": ('[requirements]\npcie = "gen4"\n', "is no PCIe link"),
    "an unknown finding": ('[[waivers]]\nid = "disk.lo"\nreason = "x"\n', "'disk.lo'"),
    "an unknown subject": ('required = ["cpus"]\n', "'cpus'"),
    "an unknown instruction set": ('[requirements]\ninstruction_sets = ["avx-2"]\n', "'avx-2'"),
    "a waiver without a reason": ('[[waivers]]\nid = "disk.low"\n', "reason"),
    "no date": ('[[waivers]]\nid = "disk.low"\nreason = "x"\nexpires = "soon"\n', "expires"),
    "not UTF-8": ("name = '\udcff'\n", "not UTF-8"),
}
"""What is wrong with a policy -> its text, and what the error names."""

REPORTS = {
    "an empty report": "",
    "a binary report": "\0\1\2\udcff" * 100,
    "half a report": '{"schema_version": 1, "nodecheck_version": "0.1',
    "a report of another schema": '{"schema_version": 99}',
    "JSON that is no report": "[1, 2]",
}

USAGE = {
    "an unknown option": (["--surprise"], "--surprise"),
    "an argument": (["surprise"], "surprise"),
    "an unknown strategy": (["--strategy", "magic"], "magic"),
    "a strategy without a model": (["--strategy", "cpu-only"], "--strategy is of a model"),
    "a rate without a model": (["--min-tokens-per-second", "5"], "is of a model"),
    "a context without a model": (["--context", "32k"], "--context is of a model"),
    "half a model": (["--layers", "4"], "--weights and --layers"),
    "a model that is not there": (["--model", "/nonexistent"], "/nonexistent"),
    "an empty model": (["--model", ""], "empty"),
    "no rate": (["--weights", "9GiB", "--layers", "4", "--min-tokens-per-second", "nan"], "number"),
    "a rate below zero": (["--min-tokens-per-second", "-1"], "-1"),
    "a rate of what has none": (["--weights", "9GiB", "--layers", "4", "--strategy", "model-load",
                                 "--min-tokens-per-second", "5"], "tokens a second"),
    "a misspelt instruction set": (["--require", "avx-2"], "did you mean avx2"),
    "no instruction set": (["--require", ""], "--require"),
    "a comma too much": (["--require", "avx2,,fma"], "--require"),
    "a bandwidth without a unit": (["--min-dram-read", "40"], "is no rate"),
    "an empty bandwidth": (["--min-dram-read", ""], "is no rate"),
    "a bandwidth out of range": (["--min-dram-read", "9999999999TB/s"], "more than can be meant"),
    "a disk without a unit": (["--min-disk-free", "200"], "write it as 200GB or 10GiB"),
    "a disk that is no size": (["--min-disk-free", "50GBit"],
                               "is no size; write it as 200GB or 10GiB"),
    "GPUs below zero": (["--gpus", "-1"], "-1"),
    "GPUs in words": (["--gpus", "three"], "three"),
    "a link without lanes": (["--pcie", "gen4"], "is no PCIe link"),
    "a link of no generation": (["--pcie", "gen9x16"], "is no PCIe link"),
    "another leniency": (["--unknown", "maybe"], "maybe"),
    "a leniency of warnings": (["--warning", "maybe"], "maybe"),
    "an option without its value": (["--gpus"], "--gpus"),
    "contradictions": (["--quick", "--kernels", "always"], "--quick"),
    "two sources": (["--from", "x", "--root", "y"], "--from"),
    "no such root": (["--root", "/nonexistent"], "/nonexistent"),
    "a root that is no capture": (["--root", "/dev/null"], "/dev/null"),
    "an empty root": (["--root", ""], "--root is empty"),
    "no such report": (["--from", "/nonexistent"], "/nonexistent"),
    "a folder as report": (["--from", "/"], "/: Is a directory"),
    "no such policy": (["--policy", "/nonexistent"], "/nonexistent"),
    "no such shipped policy": (["--policy", "nonexistent"], "nonexistent"),
    "a folder as policy": (["--policy", "/"], "/: Is a directory"),
    "a policy that cannot be read": (["--policy", "/proc/self/mem"], "/proc/self/mem"),
    "an empty policy's name": (["--policy", ""], "--policy is empty"),
    "a model without permission": (["--model", "/proc/1/mem"], "/proc/1/mem"),
}  # fmt: skip
"""What is wrong with the line -> the line, and what the error names."""

BAD = (*POLICIES, *REPORTS, *USAGE)
OF_STYLE = {style: ("--exit-style", style) for style in ("npd", "posix")} | {"nagios": ()}


def bad_inputs(place: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """What is wrong -> the arguments, and what the error names."""
    made = {what: (tuple(line), named) for what, (line, named) in USAGE.items()}
    for number, (what, (text, named)) in enumerate(POLICIES.items()):
        file = place / f"{number}.toml"
        file.write_text(text, errors="surrogateescape")
        made[what] = (("--policy", str(file)), named)
    for number, (what, text) in enumerate(REPORTS.items()):
        file = place / f"{number}.json"
        file.write_text(text, errors="surrogateescape")
        made[what] = (("--from", str(file)), str(file))
    return made


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[Done, str]]:
    """Every style with every bad input; no leniency excuses it."""
    inputs = bad_inputs(tmp_path_factory.mktemp("bad"))
    cases = [(style, what) for what in BAD for style in STYLES]
    lenient = ("--warning", "ok", "--unknown", "ok")
    commands = [(*lenient, *inputs[what][0], *OF_STYLE[style]) for style, what in cases]
    done = zip(cases, forked_gates(commands), strict=True)
    return {(style, what): (ended, inputs[what][1]) for (style, what), ended in done}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("style", STYLES)
def test_a_bad_input_is_unknown_and_never_critical_nor_well(
    bad: dict[tuple[str, str], tuple[Done, str]], style: str, what: str
) -> None:
    done, named = bad[style, what]
    assert named in failed(done, style)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--exit-style", "magic"), 3),
        (("--exit-style=magic",), 3),
        (("--exit-style=npd", "--surprise"), 2),
        (("--surprise", "--exit-style=posix"), 1),
        (("--exit-style", "npd", "--exit-style", "posix", "--surprise"), 1),
        (("--exit-style",), 3),
        (("--exit-style=", "npd"), 3),
    ],
)
def test_the_style_counts_however_it_is_written(arguments: tuple[str, ...], status: int) -> None:
    done = gate(*arguments)
    assert done.returncode == status
    assert done.stdout.startswith("UNKNOWN ")
