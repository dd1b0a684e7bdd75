"""What commands write: progress that can be taken back, JSON, lines for a terminal or a pipe."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from nodecheck.model import Struct, pretty_json
from nodecheck.render.layout import Line, Span, plain, printable

PIPE_WIDTH = 100
ANSWER_SECONDS = 10.0


class Form(NamedTuple):
    """What a file of ours starts with, in small letters, and is called."""

    starts: bytes
    name: str


PAGE = Form(b"<!doctype html", "HTML page")
METRICS = Form(b"# help nodecheck_", "metrics of nodecheck")

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Nothing that others have put there is opened."""


def progress(doing: str) -> None:
    """One line on a terminal that can take it back; an empty one takes back the last."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(f"\r\033[K{doing} ..." if doing else "\r\033[K")
        sys.stderr.flush()


class Output(NamedTuple):
    """The forms that a result is wanted in: JSON or lines, and a page too."""

    as_json: bool
    page: Path | None

    @classmethod
    def of(cls, page: str | None, *, as_json: bool) -> Output:
        """By --html and --json. Raises ClickException where the page cannot be written."""
        return cls(as_json, None if page is None else writable(page))

    def write(
        self, made: Struct, lines: Callable[[int], list[Line]], page: Callable[[], str]
    ) -> None:
        """Write it: `lines` makes those of a width, `page` the page, each where it is wanted."""
        if self.as_json:
            progress("")
            print_stream([pretty_json(made)])
        else:
            print_lines(lines)
        if self.page:
            write_whole(self.page, [page().encode(errors="replace")])


def print_stream(chunks: Iterable[bytes]) -> None:
    """As it comes."""
    sys.stdout.buffer.writelines(chunks)
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


def can_redraw() -> bool:
    """Whether standard output is a screen on which lines can be put over others."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def draw(render: Callable[[int], list[Line]], *, first: bool) -> None:
    """As print_lines, from the top of the screen, as much as it holds.

    The first time, what stood there is scrolled away first: it stays to be read above.
    """
    rows = shutil.get_terminal_size((PIPE_WIDTH, 24)).lines
    room = max(2, rows - 1)  # progress needs a line below

    def cut(width: int) -> list[Line]:
        lines = render(width)
        if len(lines) <= room:
            return lines
        more = Span(f"{len(lines) - room + 1} lines more: without --watch", "dim")
        return [*lines[: room - 1], (more,)]

    sys.stdout.write("\n" * rows * first + "\033[H\033[J")
    print_lines(cut)


def shows_unicode() -> bool:
    """Whether standard output takes more than ASCII."""
    return "utf" in (sys.stdout.encoding or "").lower()


@contextlib.contextmanager
def _ended_by_exception() -> Iterator[None]:
    """Signals that end us raise as Ctrl-C does: our own file goes before we do."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    ours = {number: was for number, was in before.items() if was is signal.SIG_DFL}
    for number in ours:
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    try:
        yield
    finally:
        for number, was in ours.items():
            signal.signal(number, was)


def writable(name: str, form: Form = PAGE) -> Path:
    """The file to write to, if that can be done: found out before time is spent."""
    from nodecheck.machine.asking import why_silent

    if not name:
        raise click.UsageError("the name of the file to write is empty")
    if name.startswith("-"):
        raise click.UsageError(f"{name} is no name of a file to write; if it is one: ./{name}")
    file = Path(name)
    if why := why_silent(name, lambda: _try(file, form), ANSWER_SECONDS):
        raise click.ClickException(f"{name}: cannot be written: {why}")
    return file


def _try(file: Path, form: Form) -> None:
    """Raise OSError where nothing can be put there, or what is not of the form would be lost."""
    if file.exists():
        if not file.is_file():
            raise OSError(errno.EINVAL, "it is no regular file")
        with file.open("rb") as earlier:
            start = earlier.read(len(form.starts))
        if start and start.lower() != form.starts:
            raise OSError(errno.EEXIST, f"it is there and holds no {form.name}")
    made = _beside(_real(file))
    os.close(os.open(made, _NEW, 0o600))
    made.unlink()


def write_whole(
    file: Path,
    chunks: Iterable[bytes],
    holds: Callable[[], str] | None = None,
    mode: int | None = None,
) -> None:
    """Write it as put_whole does, and say so. `holds` says then what it is."""
    put_whole(file, chunks, mode)
    what = f" ({holds()})" if holds else ""
    click.echo(f"Wrote {printable(str(file))}{what}", err=True)


def put_whole(file: Path, chunks: Iterable[bytes], mode: int | None = None) -> None:
    """All of it at once, over what was there: never half of it.

    Its mode is `mode`, else that of what was there.
    """
    with _ended_by_exception():
        try:
            real = _real(file)
            if mode is None and real.exists():
                mode = real.stat().st_mode & 0o777
            _put(real, chunks, mode)
        except OSError as error:
            message = f"{file}: cannot be written: {error.strerror}"
            raise click.ClickException(message) from error


def _put(real: Path, chunks: Iterable[bytes], mode: int | None) -> None:
    made = _beside(real)
    try:
        with os.fdopen(os.open(made, _NEW, 0o666 if mode is None else mode), "wb") as out:
            out.writelines(chunks)
            if mode is not None:  # the umask may have taken from it
                os.fchmod(out.fileno(), mode)
        made.replace(real)
    except BaseException:
        with contextlib.suppress(OSError):
            made.unlink()
        raise


def _real(file: Path) -> Path:
    """Where it is to lie, links followed. Raises OSError.

    A link of another user's may lead anywhere. To resolve(), a/.. is a folder where a is a file.
    """
    file.parent.stat()
    real, here = file.resolve(), file.parent.resolve() / file.name
    if real != here and not (here.is_symlink() and here.lstat().st_uid in (0, os.geteuid())):
        raise OSError(errno.EPERM, "it is another user's link")
    return real


def _beside(real: Path) -> Path:
    """A name in its folder that nobody can foresee, and that who reads the folder passes over."""
    return real.with_name(f".nodecheck-{os.urandom(8).hex()}")


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
        text = Text.assemble(*((span.text, span.style) for span in line))
        text.rstrip()
        console.print(text)
