"""What commands write: progress that can be taken back, JSON, lines for a terminal or a pipe."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from nodecheck.render.layout import Line, plain

PIPE_WIDTH = 100


def progress(doing: str) -> None:
    """One line on a terminal that can take it back; an empty one takes back the last."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(f"\r\033[K{doing} ..." if doing else "\r\033[K")
        sys.stderr.flush()


def print_json(text: bytes) -> None:
    """One JSON object."""
    progress("")
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def print_lines(render: Callable[[int], list[Line]]) -> None:
    """What `render` makes of the width, styled where the output is a terminal that shows it."""
    progress("")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name may hold what the terminal cannot write
        sys.stdout.reconfigure(errors="replace")
    lines = render(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)
    if not _shows_styles():
        click.echo(plain(lines), nl=False)
        return
    _print_styled(lines)


def shows_unicode() -> bool:
    """Whether standard output takes more than ASCII."""
    return "utf" in (sys.stdout.encoding or "").lower()


def writable(page: str) -> Path:
    """The file to write a page to, if that can be done: found out before time is spent."""
    file = Path(page)
    try:
        if file.exists() and not file.is_file():
            raise click.ClickException(f"{page}: cannot be written, it is no regular file")
        with _beside(file).open("xb"):
            pass
        _beside(file).unlink()
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{page}: cannot be written") from error
    return file


def write_page(file: Path, text: str) -> None:
    """The whole page at once, over what was there: never half of it."""
    made = _beside(file)
    try:
        made.write_text(text, encoding="utf-8", errors="replace")
        if file.exists():
            made.chmod(file.stat().st_mode & 0o777)
        made.replace(file.resolve())
    except OSError as error:
        with contextlib.suppress(OSError):
            made.unlink()
        raise click.ClickException(f"{file}: cannot be written: {error.strerror}") from error
    click.echo(f"Wrote {file}", err=True)


def _beside(file: Path) -> Path:
    """A file of ours in the folder that the page is to lie in, links followed."""
    real = file.resolve()
    return real.with_name(f".{real.name[:200]}.{os.getpid()}")


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
