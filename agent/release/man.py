"""`python -m release.man DIRECTORY`: a man page for every command, from what click knows of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from nodecheck import __version__
from nodecheck.cli import COMMANDS, group
from release.facts import ENVIRONMENT, EXIT_STATUS, FILES, Told
from release.roff import bold, escape, italic, listed, prose, section


def pages() -> dict[str, str]:
    """File name -> page."""
    top = click.Context(group, info_name="nodecheck", **group.context_settings)
    contexts = list(_walk(top))
    names = [ctx.command_path for ctx in contexts]
    return {f"{_dashed(ctx.command_path)}.1": _page(ctx, names) for ctx in contexts}


def _walk(ctx: click.Context) -> Iterator[click.Context]:
    """A command and all below it."""
    yield ctx
    for below in _below(ctx):
        yield from _walk(below)


def _below(ctx: click.Context) -> Iterator[click.Context]:
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            found = ctx.command.get_command(ctx, name)
            if found and not found.hidden:
                settings = found.context_settings
                yield click.Context(found, parent=ctx, info_name=name, **settings)


def _page(ctx: click.Context, names: list[str]) -> str:
    told = Told.of(ctx)
    lines = [
        (
            f'.TH "{escape(_dashed(ctx.command_path).upper())}" 1 "" "nodecheck {__version__}"'
            ' "nodecheck manual"'
        ),
        ".nh",
        ".ad l",
        *section("NAME", [f"{escape(_dashed(ctx.command_path))} \\- {escape(_about(ctx))}"]),
        *section("SYNOPSIS", [_synopsis(ctx)]),
        *section("DESCRIPTION", prose(ctx.command.help or "")),
        *section("OPTIONS", listed(_options(ctx))),
        *section("COMMANDS", listed(_commands(ctx))),
        *section('"EXIT STATUS"', listed(_tagged(bold, told.pick(EXIT_STATUS)))),
        *section("ENVIRONMENT", listed(_tagged(bold, told.pick(ENVIRONMENT)))),
        *section("FILES", listed(_tagged(italic, told.pick(FILES)))),
        *section('"SEE ALSO"', _see_also(ctx, names)),
    ]
    return "\n".join(lines) + "\n"


def _dashed(command_path: str) -> str:
    return command_path.replace(" ", "-")


def _about(ctx: click.Context) -> str:
    """One line: that of the list of commands, else the first sentence of its help."""
    if ctx.parent and ctx.parent.parent is None and ctx.info_name in COMMANDS:
        line = COMMANDS[ctx.info_name][1]
    else:
        line = ctx.command.get_short_help_str(limit=200)
    return line.rstrip(" .,")


def _synopsis(ctx: click.Context) -> str:
    pieces = [escape(piece) for piece in ctx.command.collect_usage_pieces(ctx)]
    return " ".join([bold(ctx.command_path), *pieces])


def _options(ctx: click.Context) -> list[tuple[str, str]]:
    records = [param.get_help_record(ctx) for param in ctx.command.get_params(ctx)]
    return [(_option(record[0]), record[1]) for record in records if record]


def _option(spelling: str) -> str:
    """`-o, --output FILE`: options in bold, what they take in italics."""
    words = re.split(r"( |, )", spelling)
    return "".join(bold(w) if w.startswith("-") else w if w in " , " else italic(w) for w in words)


def _commands(ctx: click.Context) -> list[tuple[str, str]]:
    return [
        (f"{bold(_dashed(below.command_path))}(1)", f"{_about(below)}.") for below in _below(ctx)
    ]


def _tagged(style: Callable[[str], str], entries: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(style(tag), text) for tag, text in entries]


def _see_also(ctx: click.Context, names: list[str]) -> list[str]:
    """Its parent, what is below it, and the commands that its help names."""
    text = " ".join([ctx.command.help or "", *(text for _, text in _options(ctx))])
    spoken = " ".join(text.split())
    near = [name for name in names if _is_near(name, ctx.command_path, spoken)]
    return [",\n".join(f"{bold(_dashed(name))}(1)" for name in near)] if near else []


def _is_near(name: str, mine: str, spoken: str) -> bool:
    if name == mine:
        return False
    above = name == "nodecheck" or mine.startswith(f"{name} ")
    return above or name.rpartition(" ")[0] == mine or bool(re.search(rf"\b{name}\b", spoken))


def write(directory: Path) -> None:
    """All pages into a directory, which is made where it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (directory / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
