"""What a pass of the collector is told, and hands to the daemon: all that it serves."""

from __future__ import annotations

import msgspec

from nodecheck.model import Status, Struct

LIGHT, FULL = "light", "full"
"""Kinds of a pass: reads alone, or also measures memory and asks CUDA."""


class Task(Struct, frozen=True, kw_only=True):
    """What a pass starts from, msgpack on its standard input; with nothing there it reads a policy.

    `policy` is the policy as `reading` read it, `measured` and `sources` what an earlier pass
    handed on; all are opaque to the daemon. What was measured longer than `measured_seconds` ago
    holds no more; without it there are no full passes. `unmeasured` is why the last full pass did
    not measure, by check.
    """

    policy: bytes | None = None
    measured: bytes | None = None
    measured_seconds: float | None = None
    sources: bytes | None = None
    unmeasured: dict[str, str] = msgspec.field(default_factory=dict)


class Pass(Struct, frozen=True, kw_only=True):
    """One report, judged and written in every form that the daemon serves at once.

    `report` and `findings` are JSON, `metrics` is Prometheus text. A light pass is judged with what
    the last full pass measured: `measured` is that, for the passes that follow (opaque to the
    daemon; None where there is none, or what there was is outdated). `confirm` says that a fault
    rests on it, so that measuring again soon is worth its cost; `skipped` why a full pass did not
    measure, where it may later. `sources` are the checks that its faults rest on, which are not
    known to be gone where those fall silent (opaque too). `unmeasured` is why the last full pass
    did not measure, by check. `not_stored` tells why the history could not take the snapshot.
    """

    time: str
    status: Status
    headline: str
    report: bytes
    findings: bytes
    metrics: bytes
    measured: bytes | None = None
    confirm: bool = False
    skipped: str | None = None
    not_stored: str | None = None
    sources: bytes | None = None
    unmeasured: dict[str, str] = msgspec.field(default_factory=dict)
