"""Numbers and names as reports print them."""

from __future__ import annotations

import pytest

from nodecheck.units import count, listed, times


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 nodes"), (1, "1 node"), (3, "3 nodes"), (10_000, "10,000 nodes")]
)
def test_a_count_has_its_noun(number: int, words: str) -> None:
    assert count(number, "node") == words


@pytest.mark.parametrize(
    ("names", "most", "words"),
    [
        ([], None, ""),
        (["a"], None, "a"),
        (["a", "b"], None, "a and b"),
        (["a", "b", "c", "d"], None, "a, b, c and d"),
        (["a", "b", "c"], 3, "a, b and c"),
        (["a", "b", "c", "d"], 3, "a, b, c and 1 more"),
        (["a"] * 1235, 1, "a and 1,234 more"),
    ],
)
def test_names_are_listed_and_the_rest_counted(
    names: list[str], most: int | None, words: str
) -> None:
    assert listed(names, most) == words


def test_the_last_word_may_be_another() -> None:
    assert listed(["a", "b", "c"], last="nor") == "a, b nor c"


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.0, "1.00x"), (2.512, "2.51x"), (0.4, "0.40x"), (99.99, "99.99x"), (1234.5, "1234x"),
     (0.0021, "0.0021x"), (0.0, "0.00x")],
)  # fmt: skip
def test_ratios_in_words(ratio: float, words: str) -> None:
    assert times(ratio) == words
