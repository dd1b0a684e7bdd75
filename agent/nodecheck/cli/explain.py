"""`nodecheck explain ID`: the page of a finding."""

from __future__ import annotations

from importlib.resources import files

import click

PAGES = files("nodecheck") / "findings"


@click.command("explain")
@click.argument("finding", metavar="ID")
def command(finding: str) -> None:
    """Print what a finding means, how it is known, what it costs and what to do."""
    known = sorted(
        page.name.removesuffix(".md") for page in PAGES.iterdir() if page.name.endswith(".md")
    )
    if finding not in known:
        raise click.ClickException(f"{finding}: no such finding; {_nearest(finding, known)}")
    click.echo((PAGES / f"{finding}.md").read_text(encoding="utf-8"), nl=False)


def _nearest(finding: str, known: list[str]) -> str:
    from difflib import get_close_matches

    subject = finding.partition(".")[0]
    near = get_close_matches(finding, known, 5, 0.5) or [
        k for k in known if k.startswith(subject + ".")
    ]
    return f"did you mean {', '.join(near)}?" if near else f"the ids are {', '.join(known)}"
