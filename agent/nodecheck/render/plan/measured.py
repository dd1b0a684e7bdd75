"""What was measured with an engine beside what the node allows."""

from __future__ import annotations

from nodecheck.judge.figures import between, figure
from nodecheck.plan import Plan
from nodecheck.render.layout import Column, Line, Span, hanging, table
from nodecheck.serving import Comparison, Run
from nodecheck.units import percent

FIGURES = (
    Column("measured", 14),
    Column("predicted", 10),
    Column("ceiling", 8),
    Column("share", 6),
)
BY = "explained by"
RUN, ROOM_FOR_BY = 26, 24


def run_words(run: Run) -> str:
    """How a run was made: the settings that matter, else the tool."""
    parts = (
        f"ngl {run.gpu_layers}" if run.gpu_layers is not None else None,
        f"n-cpu-moe {run.cpu_expert_layers}" if run.cpu_expert_layers else None,
        f"tp {run.tensor_parallel}" if run.tensor_parallel and run.tensor_parallel > 1 else None,
        f"{run.concurrency:.0f} at once" if run.concurrency and run.concurrency > 1 else None,
        f"{run.threads} threads" if run.threads and run.gpu_layers is None else None,
    )
    settings = ", ".join(filter(None, parts))
    tool = "not told how" if run.tool == "unknown" else run.tool
    return settings or run.model or ", ".join(run.remarks) or tool


def rate_words(run: Run) -> str:
    """Tokens a second with their spread, or what prompts were read with."""
    if run.tokens_per_second is None:
        read = run.prompt_tokens_per_second
        return "-" if read is None else f"{figure(read)} of prompt"
    digits = 2 if run.tokens_per_second < 99.5 else 0
    spread = f" ±{run.spread:.{digits}f}" if run.spread is not None else ""
    return f"{run.tokens_per_second:.{digits}f}{spread}"


def cells(row: Comparison) -> tuple[str, ...]:
    """Run, measured, predicted, ceiling, share of it, what explains it."""
    return (
        run_words(row.run),
        rate_words(row.run),
        _predicted(row),
        figure(row.ceiling) if row.ceiling is not None else "-",
        percent(row.share) if row.share is not None else "-",
        row.explained_by or "not explained",
    )


def _predicted(row: Comparison) -> str:
    if row.high is None:
        return "-"
    return f"<= {figure(row.high)}" if row.low is None else between(row.low, row.high)


def measured_lines(plan: Plan, width: int, *, unicode: bool) -> list[Line]:
    """Each run with its ceiling and the sentence on it, then what all of them say together."""
    if not plan.comparisons:
        return [line for text in plan.conclusions for line in _concluded(text, width)]
    taken = sum(column.width + 2 for column in FIGURES)
    columns: tuple[Column, ...] = (Column("run", min(RUN, width - taken - 2)), *FIGURES)
    room = width - taken - RUN - 4
    wide = room >= ROOM_FOR_BY
    columns = (*columns, Column(BY, room)) if wide else columns
    lines: list[Line] = [(), (Span("MEASURED", "bold"), Span("   tok/s", "dim"))]
    lines += table(columns, [], {})
    for row in plan.comparisons:
        texts = tuple(text if unicode else text.replace("±", "+-") for text in cells(row))
        lines += table(columns, [texts[: len(columns)]], {"not explained": "yellow"})[1:]
        lines += _said(row, texts[-1], width, wide=wide)
    return lines + [line for text in plan.conclusions for line in _concluded(text, width)]


def _said(row: Comparison, explained: str, width: int, *, wide: bool) -> list[Line]:
    by = "" if wide else f"{explained[:1].upper()}{explained[1:]}. "
    remarks = "; ".join(row.run.remarks)
    circumstances = "" if remarks in ("", run_words(row.run)) else f"The row says: {remarks}."
    text = " ".join(filter(None, (f"{by}{row.says}", circumstances)))
    lines = hanging(Span(""), Span(text, "dim"), 3, width)
    if row.look_at:
        looked = Span("; ".join(row.look_at))
        lines += hanging(Span("   look at: ", "yellow"), looked, 12, width)
    return lines


def _concluded(text: str, width: int) -> list[Line]:
    return hanging(Span(" =>", "bold"), Span(text), 4, width)
