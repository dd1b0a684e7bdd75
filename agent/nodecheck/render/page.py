"""Pages that need nothing else: no script, no address, no font of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

import jinja2

from nodecheck.render.layout import printable

P = ParamSpec("P")


def page_maker(
    name: str, content: Callable[P, dict[str, Any]], **words: Callable[..., str]
) -> Callable[P, str]:
    """Load a template, so that a page is made at once when it is wanted.

    `content` gives what the template puts in, `words` are functions that it calls.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nodecheck.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=_finalize,
    )
    environment.globals.update(words)
    template = environment.get_template(name)

    def make(*args: P.args, **kwargs: P.kwargs) -> str:
        return template.render(content(*args, **kwargs))

    return make


def told_time(time: str) -> str:
    """A report's time as people read it: "2026-11-30 02:11:09Z"."""
    return time.replace("T", " ").replace("+00:00", "Z")


def _finalize(value: Any) -> Any:
    """Names may hold anything: what no page may hold is replaced in all that is put in."""
    return printable(value) if type(value) is str else value
