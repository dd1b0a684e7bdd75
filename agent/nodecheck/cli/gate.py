"""`nodecheck gate`: may this node serve the model? One line and an exit status for monitoring."""

from __future__ import annotations

import math
from typing import Any

import click

from nodecheck.cli.options import node_options, serving_options, size_options
from nodecheck.serving import STRATEGIES

EXIT_STATUSES = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
"""Source: the guidelines of the Monitoring Plugins."""

WITHOUT_A_RATE = ("host-kv-pool", "model-load")
"""Those that are told in seconds."""


@click.command("gate")
@click.option("--model", metavar="FILE", help="The model, as nodecheck plan takes it.")
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    metavar="NAME",
    help=f"How it is to be served ({', '.join(STRATEGIES)}); unless said, in the best way.",
)
@click.option(
    "--min-tokens-per-second",
    "minimum",
    type=click.FloatRange(0),
    metavar="N",
    help="Decode rate that the whole range must reach; unless said, the verdict counts.",
)
@click.option(
    "--unknown",
    type=click.Choice(["fail", "ok"]),
    default="fail",
    show_default=True,
    help="What to exit with where it cannot be told: 3, or 0.",
)
@node_options
@size_options
@serving_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Exit with 0 where this node may serve the model, 1 warning, 2 critical, 3 unknown.

    The first line says why; the node's own findings count too. Wrong usage and failures of
    nodecheck exit with 3.
    """
    from nodecheck.cli.inputs import NodeOptions, read_node, read_policy
    from nodecheck.cli.models import ModelOptions, read_model, read_serving, with_storage
    from nodecheck.cli.output import progress
    from nodecheck.diagnose import diagnose
    from nodecheck.plan import make_plan
    from nodecheck.render.gate import gate

    asked, serving, minimum = NodeOptions.of(options), read_serving(options), options["minimum"]
    if minimum is not None and not math.isfinite(minimum):
        raise click.BadParameter("not a number", param_hint="--min-tokens-per-second")
    if minimum is not None and options["strategy"] in WITHOUT_A_RATE:
        raise click.UsageError(f"{options['strategy']} is not told in tokens a second")
    policy = read_policy(asked.policy)
    model = ModelOptions.of(options)
    work = read_model(model)
    if work is None:
        raise click.UsageError("name a model: --model FILE, or --weights and --layers")
    if asked.is_live:
        timed = options["strategy"] == "model-load" and asked.measures != "never"
        work = with_storage(work, model, measures=timed)
    seen = read_node(asked, policy, work)
    made = make_plan(seen, policy, work, serving, ())
    told = gate(made, diagnose(seen, policy, work), options["strategy"], minimum)
    progress("")
    click.echo("\n".join((told.line, *told.details)))
    lenient = told.status.value == "unknown" and options["unknown"] == "ok"
    ctx.exit(0 if lenient else EXIT_STATUSES[told.status.value])
