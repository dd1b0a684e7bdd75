"""What was measured of the node's memory, or why it was not."""

from __future__ import annotations

from nodecheck.model import Latency, Measurement, RoundTrip, Struct


class DramFacts(Struct, frozen=True, kw_only=True):
    """`skipped` says why no kernel ran; the figures themselves are the report's measurements.

    `kernel`, `buffer_bytes_per_thread` and `huge_page_share` (0 to 1) are those of the
    measurement with most threads. `llc_bytes` is the last level cache of all usable CPUs,
    in `llc_count` caches.
    `round_trips` are those between pairs of usable CPUs, `pairs` how many pairs there are.
    `interrupted` says that the user ended the measurement.
    """

    skipped: str | None = None
    kernel: str | None = None
    buffer_bytes_per_thread: int | None = None
    huge_page_share: float | None = None
    llc_bytes: int | None = None
    llc_count: int | None = None
    round_trips: tuple[RoundTrip, ...] = ()
    pairs: int = 0
    warnings: tuple[str, ...] = ()
    interrupted: bool | None = None


class DramProbe(Struct, frozen=True, kw_only=True):
    """What the dram probe hands on: the report keeps them apart.

    `model_bytes` is the size of the model that a capture names as the one to be served.
    """

    facts: DramFacts = DramFacts()
    measurements: tuple[Measurement, ...] = ()
    latencies: tuple[Latency, ...] = ()
    model_bytes: int | None = None
