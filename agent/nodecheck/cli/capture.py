"""`nodecheck capture DIR`: this node as a directory, for --root elsewhere."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("capture")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--kernels",
    type=click.Choice(["auto", "always", "never"]),
    help="Measure memory too (auto: unless the node is serving). CUDA is asked whether it starts, "
    "which wakes idle GPUs, unless this is never.",
)
@click.option(
    "--keep-identities",
    is_flag=True,
    help="Keep serial numbers, UUIDs, MAC addresses and host names.",
)
def command(directory: Path, kernels: str | None, keep_identities: bool) -> None:
    """Write what a diagnosis of this node looks at into DIR, which must be new or empty."""
    from nodecheck.collect import capture

    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise click.ClickException(f"{directory}: not empty; name a new directory")
        capture(directory, kernels=kernels, keep_identities=keep_identities)
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from error
    click.echo(f"Captured to {directory}; judge it with: nodecheck --root {directory}")
