"""The styles that all pages share: readable in the light, in the dark, and without colour."""

from __future__ import annotations

import re

import pytest

from nodecheck.render.page import told_time
from tests.render.pages import CSS, PALETTES, contrast


def test_contrast_is_computed_as_defined() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("mode", sorted(PALETTES))
def test_texts_and_curves_stand_out(mode: str) -> None:
    colours = PALETTES[mode]
    assert colours.keys() == PALETTES["light"].keys()
    on_paper = ("ink", "muted", "ok", "warning", "critical", "unknown")
    pairs = [(name, "paper") for name in on_paper]
    pairs += [("ink", f"band-{n}") for n in range(4)] + [("ink", "head"), ("muted", "head")]
    pairs += [(f"series-{n}", "paper") for n in range(4)]
    for text, behind in pairs:
        assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)


def test_every_colour_is_of_the_palette() -> None:
    rules = CSS[CSS.index("* {") :]
    assert not re.search(r"#[0-9a-f]{3}", rules)
    assert set(re.findall(r"var\(--([\w-]+)\)", rules)) <= PALETTES["light"].keys()


def test_series_differ_without_colour() -> None:
    assert len(set(re.findall(r"\.color-\d \.line \{ stroke-dasharray: ([\d ]+);", CSS))) == 3


def test_a_time_reads_as_a_date_and_a_time_of_day() -> None:
    assert told_time("2026-11-30T02:11:09+00:00") == "2026-11-30 02:11:09Z"
    assert told_time("2026-11-30T01:11:09+02:00") == "2026-11-30 01:11:09+02:00"
