"""`nodecheck gate`: may this node go on? One line and an exit status for scripts and monitoring."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from nodecheck.cli.exit_status import DEFAULT_STYLE, EXIT_STATUSES, STYLE_OPTION, print_answer
from nodecheck.cli.options import Quantity, node_options, serving_options, size_options
from nodecheck.quantities import QuantityError, parse_link, parse_rate, parse_size
from nodecheck.serving import STRATEGIES

if TYPE_CHECKING:
    from nodecheck.judge.gate.gate import Gate
    from nodecheck.plan import Plan
    from nodecheck.policy import Policy
    from nodecheck.report import Report

LENIENCE = ("fail", "ok")

WITHOUT_A_RATE = ("host-kv-pool", "model-load")
"""Those that are told in seconds."""

OF_A_MODEL = ("strategy", "minimum", "weight_type", "context", "requests", "kv_type",
              "hicache_ratio", "hicache_size", "draft_tokens", "acceptance")  # fmt: skip
"""Options that ask nothing where no model is named."""


def _names(text: str) -> tuple[str, ...]:
    """Instruction sets, each of which is one. Raises ClickException."""
    from nodecheck.cli.inputs import check_instruction_sets

    names = tuple(name.strip() for name in text.split(","))
    check_instruction_sets("--require", names)
    return names


def _room(text: str) -> int:
    if text.strip()[-1:].isdigit():
        raise QuantityError(f"{text[:40]!r} has no unit; write it as 200GB or 10GiB")
    return parse_size(text)


def _link(text: str) -> str:
    parse_link(text)
    return text


@click.command("gate")
@click.option(
    "--require",
    "instruction_sets",
    type=Quantity("names", _names),
    metavar="NAMES",
    help="Instruction sets that it must have, as /proc/cpuinfo names them: avx2,fma.",
)
@click.option(
    "--min-dram-read",
    "dram_read_bytes_per_second",
    type=Quantity("rate", parse_rate),
    metavar="RATE",
    help="Rate that memory must be read at, e.g. 40GB/s.",
)
@click.option(
    "--min-disk-free",
    "disk_free_bytes",
    type=Quantity("size", _room),
    metavar="SIZE",
    help="Room that a file system of its own must have, e.g. 200GB.",
)
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="GPUs that it must have.")
@click.option(
    "--pcie",
    type=Quantity("link", _link),
    metavar="LINK",
    help="Link that every GPU must have, e.g. gen4x16.",
)
@node_options
@click.option("--model", metavar="FILE", help="A model to serve, as nodecheck plan takes it.")
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
@size_options
@serving_options
@click.option(
    STYLE_OPTION,
    "style",
    type=click.Choice(list(EXIT_STATUSES)),
    default=DEFAULT_STYLE,
    show_default=True,
    help="nagios: 0 ok, 1 warning, 2 critical, 3 unknown, and figures behind a bar; npd "
    "(node-problem-detector): 0 ok, 1 not ok, 2 unknown; posix: 0 ok, 1 anything else.",
)
@click.option(
    "--warning",
    type=click.Choice(LENIENCE),
    default="fail",
    show_default=True,
    help="Whether a warning fails the gate.",
)
@click.option(
    "--unknown",
    type=click.Choice(LENIENCE),
    default="fail",
    show_default=True,
    help="Whether what cannot be told fails the gate.",
)
@click.option(
    "--slurm",
    is_flag=True,
    help="As Slurm's health check: drain this node where the gate fails, resume it where nodecheck "
    "had drained it; in a prolog or epilog only exit with 1. As --quick, and with --warning ok and "
    "--unknown ok unless they are given.",
)
@click.option("-v", "--verbose", is_flag=True, help="Tell the grounds below the first line.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Exit with 0 where this node may go on, by its findings and by what is asked for here.

    The policy may ask too, and name findings to live with. The first line says why. Wrong usage and
    failures of nodecheck count as unknown.
    """
    from nodecheck.cli.output import progress
    from nodecheck.render.gate import figures, grounds, headline

    if options["slurm"]:
        from nodecheck.cli import slurm

        options = slurm.begin(ctx, options)
    told, report, policy, plan = _judged(ctx, options)
    style = options["style"]
    excused = options.get(told.status.value) == "ok"  # --warning, --unknown
    status = 0 if excused else EXIT_STATUSES[style][told.status.value]
    line = headline(told)
    if options["slurm"]:
        did, status = slurm.act(told, report, policy, passes=status == 0)
        line += f"; {did}" if did else ""
    bars = style != "nagios"
    lines = [line if bars else f"{line} | {figures(told, report)}"]
    if options["verbose"]:
        lines += grounds(told, report, policy, plan, options["strategy"], bars=bars)
    progress("")
    print_answer("\n".join(lines))
    ctx.exit(status)


def _judged(
    ctx: click.Context, options: dict[str, Any]
) -> tuple[Gate, Report, Policy, Plan | None]:
    """The answer to what is asked, and what it rests on; a plan where a model was named."""
    from nodecheck.cli.inputs import NodeOptions, read_node, read_policy
    from nodecheck.cli.models import ModelOptions, read_model, read_serving, with_storage
    from nodecheck.diagnose import diagnose
    from nodecheck.judge.gate.gate import gate
    from nodecheck.judge.gate.serving import serving
    from nodecheck.plan import make_plan

    asked, model, served = NodeOptions.of(options), ModelOptions.of(options), read_serving(options)
    strategy, minimum = options["strategy"], options["minimum"]
    _check(ctx, strategy, minimum)
    policy = _with_requirements(read_policy(asked.policy), options)
    if options["slurm"]:
        from nodecheck.cli.slurm import without_kernels

        policy = without_kernels(policy)
    work, plan, answer = read_model(model), None, None
    if work and asked.is_live:
        timed = strategy == "model-load" and asked.measures != "never"
        work = with_storage(work, model, measures=timed)
    seen = read_node(asked, policy, work)
    if work:
        plan = make_plan(seen, policy, work, served)
        answer = serving(plan.strategies, plan.fits, seen.gaps, strategy, minimum)
    report = diagnose(seen, policy, work)
    return gate(report, policy, answer), report, policy, plan


def _check(ctx: click.Context, strategy: str | None, minimum: float | None) -> None:
    """Raise UsageError where options ask for what is not told, or nothing at all."""
    if minimum is not None and not math.isfinite(minimum):
        raise click.BadParameter("not a number", param_hint="--min-tokens-per-second")
    if minimum is not None and strategy in WITHOUT_A_RATE:
        raise click.UsageError(f"{strategy} is not told in tokens a second")
    if any(ctx.params[name] is not None for name in ("model", "weights", "layers")):
        return
    for option in ctx.command.params:
        given = (
            ctx.get_parameter_source(option.name or "") is not click.core.ParameterSource.DEFAULT
        )
        if option.name in OF_A_MODEL and given:
            raise click.UsageError(
                f"{option.opts[0]} is of a model: name it, by --model or --weights and --layers"
            )


def _with_requirements(policy: Policy, options: dict[str, Any]) -> Policy:
    """The policy with what the options ask for in the place of what it asks for."""
    from msgspec.structs import replace

    members = policy.requirements.__struct_fields__
    given = {name: options[name] for name in members if options[name] is not None}
    return replace(policy, requirements=replace(policy.requirements, **given))
