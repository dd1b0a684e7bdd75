"""What a shell asks for while a command is typed: click's completion, file names and findings."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from nodecheck.cli import COMMANDS, group

Words = Callable[[str], "list[CompletionItem[str]]"]


def main() -> None:
    """Answer the shell and end. A failure says nothing: the user is in the middle of a line."""
    with contextlib.suppress(Exception):
        COMPLETING.main(prog_name="nodecheck")
    sys.exit(1)


class _Completed(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    """A parameter whose words are known to a function of what was typed so far."""

    name = "completed"

    def __init__(self, words: Words) -> None:
        self._words = words

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        return self._words(incomplete)


class _Group(click.Group):
    """The commands, each with words for its parameters; listing them imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command = group.get_command(ctx, name)
        if command:
            _give_words(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        told = [
            CompletionItem(name, help=line)
            for name, (_, line) in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return told + click.Command.shell_complete(self, ctx, incomplete)


def _give_words(command: click.Command) -> None:
    """What its metavars promise: FILE, DIR, ID. Nothing is looked at, so that nothing hangs."""
    for param in command.params:
        if (words := _words(param)) is not None:
            param.type = _Completed(words)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _give_words(below)


def _words(param: click.Parameter) -> Words | None:
    if param.metavar in _NAMED:
        names = _NAMED[param.metavar]
        return lambda typed: [CompletionItem(name) for name in names() if name.startswith(typed)]
    named = set(re.findall(r"[A-Z]+", param.metavar or ""))
    if named & {"FILE", "MODEL", "PATH"}:
        return lambda typed: [CompletionItem(typed, type="file")]
    if "DIR" in named:
        return lambda typed: [CompletionItem(typed, type="dir")]
    return None


def _findings() -> list[str]:
    from nodecheck.cli.explain import PAGES

    return sorted(page.name.removesuffix(".md") for page in PAGES.iterdir())


def _integrations() -> list[str]:
    from nodecheck.cli.integrations import names

    return names()


_NAMED = {"[ID]": _findings, "[NAME]": _integrations}
"""What an argument of this metavar can be."""


def _completing() -> _Group:
    """`nodecheck` itself, as completion sees it."""
    settings: dict[str, Any] = dict(group.context_settings)
    made = _Group(
        "nodecheck",
        params=group.params,
        invoke_without_command=True,
        context_settings=settings,
    )
    _give_words(made)
    return made


COMPLETING = _completing()
