"""`nodecheck explain ID`: the page of a finding."""

from __future__ import annotations

from importlib.resources import files

import click

PAGES = files("nodecheck") / "findings"


@click.command("explain")
@click.argument("finding", metavar="[ID]", default="")
def command(finding: str) -> None:
    """Print what a finding means, how it is known, what it costs and what to do.

    Without an ID: list the findings.
    """
    known = sorted(p.name.removesuffix(".md") for p in PAGES.iterdir() if p.name.endswith(".md"))
    if not finding:
        for name in known:
            click.echo(f"{name:32} {_meaning(_page(name))}")
    elif finding.lower() in known:
        click.echo(_page(finding.lower()), nl=False)
    else:
        raise click.ClickException(f"{finding}: no such finding; {_nearest(finding, known)}")


def _page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def _meaning(page: str) -> str:
    """The paragraph below the title, on one line."""
    return " ".join(page.partition("\n\n")[0].splitlines()[1:])


def _nearest(finding: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(finding.lower(), known, 3, 0.6)
    return f"did you mean {', '.join(near)}?" if near else "nodecheck explain lists them"
