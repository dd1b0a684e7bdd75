"""What bench-engines makes of its files and runs, without an engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.bench.engines import models, table
from tests.bench.engines.predict import Prediction
from tests.bench.engines.run import Decode

from nodecheck.model import RoundTrip
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf.header import read_header


def predicted(apart: float) -> Prediction:
    trips = (RoundTrip(cpus=(0, 1), seconds=apart),)
    return Prediction(expected=10, read=20e9, round_trips=trips, rates={})


NEAR = predicted(60e-9)
ALONE = Decode(tokens_per_second=9, cpu_share=0.99, others_busy=0.01)
RUN = table.Run(0, "avx2", "Q4_0", 2, before=NEAR, decode=ALONE, after=NEAR)


@pytest.mark.parametrize("model", [models.OURS, models.LLAMA_1B, models.QWEN_8B])
def test_the_header_that_is_written_is_read_back(tmp_path: Path, model: models.Model) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(models.header(model))
    with open_regular(file) as opened:
        tensors = read_header(opened).tensors
    assert [(t.name, t.shape) for t in tensors] == list(models.shapes(model))


def test_a_token_reads_no_embedding_and_the_rest_once(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(models.header(models.OURS))
    attention = 2 * 3072 * 3072 + 2 * 3072 * 1024
    weights = 16 * (attention + 3 * 3072 * 8192) + 3072 * 32000
    assert models.bytes_per_token(tmp_path / "model.gguf") == {"f16": 2 * weights}


def test_an_embedding_that_is_the_output_too_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(models.header(models.LLAMA_1B))
    read = models.bytes_per_token(tmp_path / "model.gguf")["f16"]
    assert read == pytest.approx(2 * 1_235_814_400, rel=1e-3)


@pytest.mark.parametrize(
    "dirty",
    [
        replace(RUN, decode=replace(ALONE, cpu_share=0.98)),
        replace(RUN, decode=replace(ALONE, others_busy=0.06)),
        replace(RUN, after=predicted(300e-9)),
    ],
    ids=["shared its CPU", "others were busy", "vCPUs were moved"],
)
def test_a_clean_run_is_better_than_a_fast_one(dirty: table.Run) -> None:
    faster = replace(dirty, decode=replace(dirty.decode, tokens_per_second=11.0))
    assert table.best([faster, RUN, faster]) == [RUN]


def test_of_clean_runs_the_fastest_stands_for_the_point() -> None:
    faster = replace(RUN, round=1, decode=replace(ALONE, tokens_per_second=11.0))
    other = replace(RUN, threads=1)
    assert table.best([RUN, faster, other]) == [faster, other]


def test_only_what_lies_between_the_markers_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "accuracy.md"
    page.write_text("# A\n<!-- engines -->\nold\n<!-- /engines -->\n## B\n")
    monkeypatch.setattr(table, "PAGE", page)
    table.publish("| new |")
    assert page.read_text() == "# A\n<!-- engines -->\n| new |\n<!-- /engines -->\n## B\n"
