"""`nodecheck daemon`: check this node at intervals and serve the last report."""

from __future__ import annotations

from typing import Any

import click

from nodecheck.cli.options import Quantity


def _listen(text: str) -> str:
    from nodecheck.daemon.settings import parse_listen

    parse_listen(text)
    return text


def _interval(text: str) -> str:
    from nodecheck.daemon.settings import parse_interval

    parse_interval(text)
    return text


def _take_signals() -> None:
    """Until the daemon has handlers of its own: told to end it does, told to read anew it will."""
    import os
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))  # nothing has begun
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@click.command("daemon")
@click.option(
    "--listen",
    type=Quantity("address", _listen),
    metavar="ADDRESS:PORT",
    help="Where requests are answered.  [default: 127.0.0.1:9742]",
)
@click.option(
    "--interval",
    type=Quantity("span", _interval),
    metavar="SPAN",
    help="Between two light passes, e.g. 60s or 5m; 10s at least.  [default: 60s]",
)
@click.option(
    "--config",
    metavar="FILE",
    help="Its settings (TOML).  [default: /etc/nodecheck/daemon.toml, if it is there]",
)
@click.option(
    "--policy",
    metavar="FILE",
    help="What the node is held against (TOML): a file, or the name of a shipped policy.",
)
def command(**options: Any) -> None:
    """Check this node at intervals and serve the last report: /metrics, the API, a page.

    It looks often, wakes no GPU by that, and measures rarely, while the node is idle. No request
    starts a measurement. SIGHUP reads configuration and policy again. docs/daemon.md has the rest.
    """
    import asyncio

    _take_signals()
    try:
        from nodecheck.daemon.loaded import Request
        from nodecheck.daemon.service import StartError, serve
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"the daemon needs {error.name}, which is not installed: "
            "pip install 'nodecheck[daemon]'"
        ) from error
    for name, value in options.items():
        if value == "":
            raise click.UsageError(f"--{name} is empty")
    try:
        asyncio.run(serve(Request(**options)))
    except StartError as error:
        raise click.ClickException(str(error)) from error
