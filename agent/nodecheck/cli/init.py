"""`nodecheck init NAME`: the files that plug nodecheck into systemd, Slurm, Prometheus, ..."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nodecheck.cli.integrations import File, Integration

FOLDER_MODE = 0o755


@click.command("init")
@click.argument("name", metavar="[NAME]", default="")
@click.argument("file", metavar="[FILE]", default="")
@click.option("--to", "directory", metavar="DIR", help="Write them below DIR; / is this system.")
def command(name: str, file: str, directory: str | None) -> None:
    """Print the files that plug nodecheck into a system, where they go and what to run next.

    Without a NAME: list the systems. With a FILE: that one alone, as it is to lie there. --to never
    writes over a file that differs.
    """
    from nodecheck.cli.integrations import about, names, read

    known = names()
    if not name:
        for each in known:
            click.echo(f"{each:12} {about(each)}")
        return
    if name not in known:
        raise click.ClickException(f"{name}: not known; there are {', '.join(known)}")
    if directory == "":
        raise click.UsageError("the directory's name is empty")
    integration, doubts = read(name)
    wanted = _named(integration, file) if file else integration.files
    if directory is not None:
        _write(wanted, Path(directory))
    elif file:
        click.echo(wanted[0].text, nl=False)
    else:
        _print(wanted)
    if not file:
        _tell_next(integration)
    for doubt in doubts:
        click.echo(f"Warning: {doubt}; install nodecheck elsewhere, e.g. in /opt", err=True)


def _named(integration: Integration, name: str) -> tuple[File, ...]:
    """The one file. Raises ClickException."""
    for file in integration.files:
        if name in (file.name, file.path, Path(file.path).name):
            return (file,)
    known = ", ".join(file.name for file in integration.files)
    raise click.ClickException(f"{name}: no file of {integration.name}; it has {known}")


def _print(files: tuple[File, ...]) -> None:
    for file in files:
        mode = f"  (mode {file.mode:o})" if file.mode != 0o644 else ""
        click.secho(f"# {file.path}{mode}", bold=True)
        click.echo(file.text)


def _tell_next(integration: Integration) -> None:
    click.secho("# next:", bold=True)
    for step in integration.next:
        click.echo(f"#   {step}")


def _write(files: tuple[File, ...], directory: Path) -> None:
    """All of them, or none where one is there and differs."""
    from nodecheck.cli.output import write_whole

    places = [(directory / file.path.lstrip("/"), file) for file in files]
    try:
        there = {place for place, file in places if _is_there(place, file.text.encode())}
        for place, file in places:
            if place not in there:
                _make_folder(place.parent)
                write_whole(place, [file.text.encode()], mode=file.mode)
                continue
            click.echo(f"{place}: there already", err=True)
            if place.stat().st_mode & 0o777 != file.mode:
                place.chmod(file.mode)
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from error


def _is_there(place: Path, content: bytes) -> bool:
    """Whether it lies there as it should. Raises ClickException where something else does."""
    try:
        place.lstat()
    except FileNotFoundError:
        return False
    if not _holds(place, content):
        raise click.ClickException(
            f"{place}: it is there and differs, so nothing was written: move it away first"
        )
    return True


def _holds(place: Path, content: bytes) -> bool:
    """Whether it is a file of this content. No more is read, and nothing that may have no end."""
    if not place.is_file():
        return False
    with place.open("rb") as there:
        return there.read(len(content) + 1) == content


def _make_folder(folder: Path) -> None:
    """With those above it that are missing; services can enter them, whatever the umask is."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(FOLDER_MODE)
