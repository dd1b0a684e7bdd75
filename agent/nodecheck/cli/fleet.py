"""`nodecheck compare` on a fleet: every report is read, reduced to what is compared, and let go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from nodecheck.cli.inputs import INPUT_LIMIT_BYTES, READ_SECONDS, regular_content
from nodecheck.cli.output import Output, progress
from nodecheck.diagnose import rules
from nodecheck.machine.asking import ask_each
from nodecheck.model import Struct
from nodecheck.records.fleet.fleet import Fleet, Unread, make_fleet
from nodecheck.records.fleet.nodes import Node, node
from nodecheck.render.fleet.terminal import render
from nodecheck.report import from_json
from nodecheck.words import told_name

NODE_MOST_BYTES = 1 << 20
"""Of what a report is reduced to; one of 8 GPUs takes 10 KB."""


class _Answer(Struct, frozen=True, kw_only=True):
    """What a path is: a report, a folder with these files, or nothing that can be used.

    A file's name may be no text.
    """

    node: Node | None = None
    files: tuple[bytes, ...] = ()
    error: str | None = None


def run(operands: Sequence[str], options: dict[str, Any]) -> None:
    """Compare the reports in files and folders; `options` are those of the command."""
    if others := [each for each in operands if each == "-" or each.startswith("@")]:
        raise click.UsageError(f"{others[0]}: {_in_its_place(operands)}")
    if options["policy"]:
        raise click.UsageError("a fleet is compared as its reports were judged: no --policy")

    def page() -> str:
        from nodecheck.render.fleet import html

        return html.page()(made)

    output = Output.of(options["page"], as_json=options["as_json"])
    made = _read(operands)
    output.write(made, lambda width: render(made, width), page)


def _in_its_place(operands: Sequence[str]) -> str:
    """What works where a snapshot or standard input was named."""
    if len(operands) == 1:
        return "name a second report or snapshot to set beside it"
    return (
        "a fleet is of files and folders alone; compare @1 @2 sets two snapshots side by side, "
        "nodecheck history tells of all"
    )


def _read(operands: Sequence[str]) -> Fleet:
    list(rules())  # imported here and not in each child
    nodes: list[Node] = []
    unread: list[Unread] = []
    named = list(dict.fromkeys(operands))
    within = _ask(named, _folder_or_report, nodes, unread)
    _ask(within, _report, nodes, unread)
    if not nodes:
        raise click.ClickException(_nothing(unread))
    if len(operands) == 1 and not within:
        raise click.UsageError(f"{operands[0]}: name two reports or more, or a folder of them")
    order = {told_name(file): place for place, file in enumerate((*named, *within))}
    nodes.sort(key=lambda each: order[each.file])
    return make_fleet(nodes, sorted(unread, key=lambda each: order[each.file]))


def _ask(
    paths: Sequence[str],
    task: Callable[[str], _Answer],
    nodes: list[Node],
    unread: list[Unread],
) -> list[str]:
    """Sort what was read into the two lists; the files of folders, which are left to be read."""
    within: list[str] = []
    for number, (path, outcome) in enumerate(ask_each(paths, task, _Answer, READ_SECONDS)):
        if number % 100 == 0:
            progress(f"reading reports, {number} of {len(paths)}")
        answer = outcome.value or _Answer(error=outcome.error)
        if answer.node:
            nodes.append(answer.node)
        elif answer.error:
            hangs = ": its file system hangs" if outcome.hung else ""
            unread.append(Unread(told_name(path), answer.error + hangs))
        within += map(os.fsdecode, answer.files)
    return within


def _folder_or_report(path: str) -> _Answer:
    try:
        if not Path(path).is_dir():
            return _report(path)
        files = sorted(os.fsencode(f) for f in Path(path).iterdir() if f.name.endswith(".json"))
    except OSError as error:
        return _Answer(error=error.strerror or type(error).__name__)
    return _Answer(files=tuple(files), error=None if files else "it holds no *.json files")


def _report(path: str) -> _Answer:
    """The node of a report. It is made in a child: all else that was read is gone with it."""
    try:
        content = regular_content(Path(path), INPUT_LIMIT_BYTES + 1)
        if len(content) > INPUT_LIMIT_BYTES:
            return _Answer(error=f"longer than {INPUT_LIMIT_BYTES} bytes")
        found = node(from_json(content, path), told_name(path))
    except OSError as error:
        return _Answer(error=error.strerror or type(error).__name__)
    except ValueError as error:  # no report, or a NUL byte in the name
        return _Answer(error=str(error).removeprefix(f"{path}: "))
    if len(msgspec.json.encode(found)) > NODE_MOST_BYTES:
        return _Answer(error="it holds more than the report of a node")
    return _Answer(node=found)


def _nothing(unread: Sequence[Unread]) -> str:
    first = f"{unread[0].file}: {unread[0].why}"
    if len(unread) == 1:
        return first
    return f"none of {len(unread)} files is a report that can be read; the first: {first}"
