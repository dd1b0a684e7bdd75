"""Options that several commands take. Part of the start-up path: it imports click alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

KV_TYPES = ("bf16", "f16", "fp8", "q8_0", "q4_0")
TOKENS_MOST = 1_000_000_000

SMALLEST_BYTES = 1 << 20
"""Fewer bytes than any model or pool has: a number without its unit."""


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.3 on
    """What a function reads from text; where it is none it raises ValueError of one line."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """What the function makes of it. Fails as wrong usage."""
        try:
            return self._read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _tokens(text: str) -> int:
    """A number of tokens; "32k" is 32,768."""
    number, factor = (text[:-1], 1024) if text.lower().endswith("k") else (text, 1)
    if not number.isascii() or not number.isdigit() or len(number) > 12:
        raise ValueError(f"{text!r} is no number of tokens; write it as 32768 or 32k")
    tokens = int(number) * factor
    if not 1 <= tokens <= TOKENS_MOST:
        raise ValueError(f"{text!r} is not between 1 and {TOKENS_MOST:,} tokens")
    return tokens


def _model_size(text: str) -> int:
    """Bytes of a model or of a pool for one."""
    from nodecheck.quantities import parse_size

    size = parse_size(text)
    if size < SMALLEST_BYTES:
        raise ValueError(f"{text!r} is {size} bytes, too little to be meant; write it as 16.3GiB")
    return size


def _together(*options: Decorator[Any]) -> Decorator[Any]:
    """One decorator that adds these in the order in which the help lists them."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


source_options = _together(
    click.option(
        "--quick",
        is_flag=True,
        help="Measure no memory and do not ask CUDA, which wakes idle GPUs: as --kernels never.",
    ),
    click.option(
        "--kernels",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Measure memory, which auto leaves out on a node that is serving, and ask CUDA "
        "whether it starts; never does neither.",
    ),
    click.option(
        "--from",
        "saved",
        metavar="FILE",
        help="Judge a saved report again; - for standard input, @-1 for the last snapshot.",
    ),
    click.option("--root", metavar="DIR", help="Judge a captured tree instead of this machine."),
)
"""Which node, and what may be measured on it."""

policy_option = click.option(
    "--policy",
    metavar="FILE",
    help="What it is held against (TOML): a file, or the name of a shipped policy.",
)

node_options = _together(source_options, policy_option)
"""Which node, and by which policy."""

size_options = _together(
    click.option(
        "--weights",
        type=Quantity("size", _model_size),
        metavar="SIZE",
        help="Size of the model, e.g. 16.3GiB: with --layers instead of a file, with a file as if "
        "it had that size.",
    ),
    click.option(
        "--layers",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="Transformer blocks of a model without a file.",
    ),
    click.option(
        "--weight-type",
        metavar="TYPE",
        help="Storage type of the weights, e.g. q4_k, q8_0, bf16, fp8_e4m3: of a model without a "
        "file (q4_k unless said), with a file as if it were stored so.",
    ),
)
"""A model in numbers, or a file as if it were another."""

serving_options = _together(
    click.option(
        "--context",
        type=Quantity("tokens", _tokens),
        metavar="N",
        help="Tokens of context of a request, e.g. 32768 or 32k.",
    ),
    click.option(
        "--requests",
        type=click.IntRange(1, 1_000_000),
        default=1,
        show_default=True,
        metavar="N",
        help="Requests at once.",
    ),
    click.option(
        "--kv-type",
        type=click.Choice(KV_TYPES),
        default="bf16",
        show_default=True,
        help="Type of the attention cache.",
    ),
    click.option(
        "--hicache-ratio",
        type=click.FloatRange(0, 1000, min_open=True),
        metavar="R",
        help="SGLang's host pool as a multiple of the one on the GPU.",
    ),
    click.option(
        "--hicache-size",
        type=Quantity("size", _model_size),
        metavar="SIZE",
        help="SGLang's host pool of one rank, e.g. 40GB.",
    ),
    click.option(
        "--draft-tokens",
        type=click.IntRange(1, 64),
        metavar="K",
        help="Tokens that speculative decoding guesses ahead.",
    ),
    click.option(
        "--acceptance",
        type=click.FloatRange(0, 1),
        metavar="P",
        help="Share of guessed tokens that are accepted.",
    ),
)
"""How the model is to be served."""
