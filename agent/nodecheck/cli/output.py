"""What commands write: progress that can be taken back, JSON, lines for a terminal or a pipe."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

import click

from nodecheck.render.layout import Line, plain
from nodecheck.report import Report, to_json

PIPE_WIDTH = 100


def progress(doing: str) -> None:
    """One line on a terminal that can take it back; an empty one takes back the last."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(f"\r\033[K{doing} ..." if doing else "\r\033[K")
        sys.stderr.flush()


def print_json(report: Report) -> None:
    """The report as one JSON object."""
    progress("")
    sys.stdout.buffer.write(to_json(report))
    sys.stdout.buffer.flush()


def print_lines(render: Callable[[int], list[Line]]) -> None:
    """What `render` makes of the width, styled where the output is a terminal that shows it."""
    progress("")
    lines = render(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)
    if not _shows_styles():
        click.echo(plain(lines), nl=False)
        return
    _print_styled(lines)


def load_styles() -> None:
    """Import what styled lines are printed with, where any will be."""
    if _shows_styles():
        import rich.console
        import rich.text  # noqa: F401


def _shows_styles() -> bool:
    asks_not_to = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not asks_not_to


def _print_styled(lines: list[Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((span.text, span.style) for span in line)))
