"""`nodecheck plan MODEL`: what each way to serve a model reaches on this node, and if it fits."""

from __future__ import annotations

from typing import Any

import click

from nodecheck.cli.options import node_options, serving_options, size_options


@click.command("plan")
@click.argument("model", metavar="[MODEL]", required=False)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the plan as JSON (docs/plan.schema.json)."
)
@click.option("--html", "page", metavar="FILE", help="Write a page with the curve too.")
@node_options
@size_options
@serving_options
@click.option(
    "--measured",
    multiple=True,
    metavar="FILE",
    help="Rows of a benchmark to set beside it: llama-bench -o json or jsonl, SGLang's and vLLM's "
    "benchmarks as JSON; - for standard input. May be given several times.",
)
def command(**options: Any) -> None:
    """Tell whether a model will run well on this node, before it is deployed.

    MODEL is a GGUF file, a safetensors file or its index, a checkpoint's folder or its config.json;
    without one, --weights and --layers name a model in numbers.
    """
    from nodecheck.cli.inputs import NodeOptions, read_node, read_policy, read_runs
    from nodecheck.cli.models import ModelOptions, read_model, read_serving, with_storage
    from nodecheck.cli.output import Output, shows_unicode
    from nodecheck.plan import make_plan
    from nodecheck.render.plan.terminal import render

    def page() -> str:
        from nodecheck.render.plan import html

        return html.page()(made)

    asked, model, serving = NodeOptions.of(options), ModelOptions.of(options), read_serving(options)
    if model.path is None and model.weights_bytes is None:
        raise click.UsageError("name a MODEL, or --weights and --layers")
    policy = read_policy(asked.policy)
    output = Output.of(options["page"], as_json=options["as_json"])
    runs = read_runs(options["measured"])
    work = read_model(model)
    assert work is not None
    if asked.is_live:
        work = with_storage(work, model, measures=asked.measures != "never")
    made = make_plan(read_node(asked, policy, work), policy, work, serving, runs)
    unicode, saved = shows_unicode(), asked.saved is not None
    output.write(made, lambda width: render(made, width, unicode=unicode, saved=saved), page)
