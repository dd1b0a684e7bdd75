"""Samples put into families and written down: bounded, each once, whatever the names hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nodecheck.words import without_controls

LABEL_CHARACTERS = 200
"""A label's value is cut here: longer ones are no names, and every scrape carries them."""

SAMPLES_MAX = 500
"""Samples of one name. Source: 16 cards that each copy to all others are 240; Prometheus keeps
every label set in memory, so that a broken driver must not make thousands."""


class Series(NamedTuple):
    """A series: its name (with its unit and suffix), what it says, its labels in order."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether it only grows, until a node or a driver starts anew."""
        return self.name.endswith("_total")


class Sample(NamedTuple):
    """One value of a series; `labels` are those that the series names, an empty one is none."""

    series: Series
    value: float
    labels: tuple[str, ...] = ()


LEFT_OUT = Series(
    "nodecheck_samples_left_out",
    f"Samples that were not written: more than {SAMPLES_MAX} of one name, or with equal labels.",
)


def written(samples: Iterable[Sample]) -> bytes:
    """The samples in text format 0.0.4, those of a name together and each label set once."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector

    kept, left_out = _bounded(samples)

    class Made(Collector):
        """What was made of one report."""

        def collect(self) -> Iterator[Metric]:
            for series, values in kept.items():
                made = CounterMetricFamily if series.is_counter else GaugeMetricFamily
                family = made(series.name, series.help, labels=series.labels)
                for labels, value in values.items():
                    family.add_metric(labels, value)
                yield family
            yield GaugeMetricFamily(LEFT_OUT.name, LEFT_OUT.help, value=left_out)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Made())
    return generate_latest(registry)


def _bounded(
    samples: Iterable[Sample],
) -> tuple[dict[Series, dict[tuple[str, ...], float]], int]:
    """The samples by series and labels, the first of each, and how many were left out."""
    kept: dict[Series, dict[tuple[str, ...], float]] = {}
    left_out = 0
    for sample in samples:
        values = kept.setdefault(sample.series, {})
        labels = tuple(label(each) for each in sample.labels)
        if labels in values or len(values) >= SAMPLES_MAX:
            left_out += 1
        else:
            values[labels] = float(sample.value)
    return kept, left_out


def label(value: str) -> str:
    """A value that UTF-8 can hold, without control characters, not longer than is useful."""
    clean = without_controls(value)
    return clean if len(clean) <= LABEL_CHARACTERS else clean[: LABEL_CHARACTERS - 1] + "…"
