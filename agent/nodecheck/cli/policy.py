"""`nodecheck policy`: make a policy from a node that is in order, or see what one holds."""

from __future__ import annotations

import datetime
from typing import Any

import click

from nodecheck.cli.options import source_options


@click.group("policy", no_args_is_help=False)
def command() -> None:
    """Make or check a policy: what a node must have, what is waived, which thresholds hold.

    docs/policy.md tells what can stand in it.
    """


@command.command("check")
@click.argument("file", metavar="[FILE]", required=False)
def check(file: str | None) -> None:
    """Read a policy as every command would and say what it holds.

    FILE may be the name of a shipped policy; without it, the one that applies here is read. Exits
    with 1 where it cannot be used; a waiver that has expired is told and no error.
    """
    from nodecheck.cli.inputs import read_policy
    from nodecheck.cli.output import print_lines
    from nodecheck.render.policy import render

    if file == "":
        raise click.UsageError("the file's name is empty")
    policy = read_policy(file)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    print_lines(lambda width: render(policy, today, width))


@command.command("init")
@source_options
@click.option("-o", "--output", metavar="FILE", help="Write it there, where there is no file yet.")
def init(output: str | None, **options: Any) -> None:
    """Make a policy from a node that is known to be in order, and print it.

    It asks of other nodes what this one has. What a finding puts in doubt, or could not be read, is
    left out: the file and standard error say why. It waives nothing.
    """
    from nodecheck.cli.inputs import NodeOptions, is_there, read_node
    from nodecheck.cli.output import progress, writable, write_whole
    from nodecheck.diagnose import diagnose
    from nodecheck.judge.known_good import known_good
    from nodecheck.policy import Policy
    from nodecheck.render.known_good import told, toml

    asked = NodeOptions.of(options)
    if output is not None and is_there(output):
        raise click.ClickException(f"{output}: it is there already: name another file")
    file = None if output is None else writable(output)
    report = diagnose(read_node(asked, Policy(), None), Policy())
    known = known_good(report)
    text = toml(known, report).encode()
    progress("")
    if file:
        write_whole(file, [text])
    else:
        click.echo(text, nl=False)
    for line in told(known, report):
        click.echo(line, err=True)
