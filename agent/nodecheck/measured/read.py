"""A file of figures to rows. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.measured import captured, llama_bench, serving
from nodecheck.measured.fields import Fields, MeasuredError
from nodecheck.measured.rows import read_rows
from nodecheck.serving import Run
from nodecheck.workload.errors import shown

READ = (
    "read are llama-bench -o json or jsonl; SGLang bench_serving, bench_one_batch(_server) and "
    "bench_offline_throughput; vLLM bench serve, latency and throughput"
)

ROWS_MOST = 1000
"""More rows than anybody compares by eye; each is judged with every other."""

CUT = "the file ends within a row: the benchmark was cut off"


def parse(text: bytes, name: str) -> tuple[Run, ...]:
    """Rows of one file, each named by `name` and its number. Raises MeasuredError, one line.

    Rows of several tools may lie in one file. Where it ends early, the last whole row says so.
    """
    rows, cut = read_rows(text)
    if not rows:
        raise MeasuredError(f"holds no row; {READ}")
    if len(rows) > ROWS_MOST:
        raise MeasuredError(f"holds {len(rows)} rows; up to {ROWS_MOST} are compared")
    runs: list[Run] = []
    for number, row in enumerate(rows, 1):
        source = shown(name) if len(rows) == 1 else f"{shown(name)} row {number}"
        runs += _runs(Fields(row, f"row {number}"), source)
        if len(runs) > ROWS_MOST:
            raise MeasuredError(f"holds more than {ROWS_MOST} rows, as many as are compared")
    if cut:
        runs[-1] = replace(runs[-1], remarks=(*runs[-1].remarks, CUT))
    return tuple(runs)


def _runs(row: Fields, source: str) -> list[Run]:
    if captured.is_row(row):
        return captured.read(row, source)
    if llama_bench.is_row(row):
        return [llama_bench.read(row, source)]
    if serving.is_row(row):
        return [serving.read(row, source)]
    keys = ", ".join(shown(key) for key in list(row.row)[:3]) or "nothing"
    raise row.error(f"not known (it holds {keys}); {READ}")
