"""What a child would have measured, made up."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.checks.dram.figures import Result
from nodecheck.checks.dram.plan import Block
from nodecheck.checks.dram.session import Chase, Series, Stretch, _Task
from nodecheck.machine.kernels import Pass
from nodecheck.model import Load, RoundTrip
from nodecheck.units import GB, MIB

CALM = Load(other_cpus_busy_share=0.0, steal_share=0.0, pressure_share=0.0)
BYTES = 64 * MIB


def series(
    rates: Sequence[float],
    *,
    name: str = "dram_read",
    kernel: str = "avx2",
    cpu_share: float = 1.0,
    run_delay_seconds: float | None = 0.0,
) -> Series:
    """Passes at so many GB/s."""
    passes = tuple(Pass(BYTES / (rate * GB), BYTES, cpu_share) for rate in rates)
    return Series(name, kernel, passes, run_delay_seconds)


def round_trips(nanoseconds: Sequence[float]) -> tuple[RoundTrip, ...]:
    return tuple(
        RoundTrip(cpus=(0, other), seconds=time * 1e-9) for other, time in enumerate(nanoseconds, 1)
    )


def stretch(
    *found: Series,
    chase: Chase | None = None,
    before: Sequence[float] = (),
    after: Sequence[float] = (),
    source_bytes: int = 256 * MIB,
    huge_page_share: float | None = 1.0,
    touch_rate: float = 6.0 * GB,
    load: Load = CALM,
) -> Stretch:
    return Stretch(
        series=found,
        chase=chase,
        round_trips=(round_trips(before), round_trips(after)),
        source_bytes=source_bytes,
        huge_page_share=huge_page_share,
        touch_bytes_per_second=touch_rate,
        load=load,
    )


def block(cpus: int = 2, **more: object) -> Block:
    return Block(
        cpus=tuple(range(cpus)),
        seconds=1.0,
        source_bytes=256 * MIB,
        least_bytes=64 * MIB,
        streams=("read",),
        **more,  # type: ignore[arg-type]
    )


def result(
    *found: Series,
    of: Block | None = None,
    load: Load = CALM,
    throttled: bool = False,
    chase: Chase | None = None,
    before: Sequence[float] = (),
    after: Sequence[float] = (),
    source_bytes: int = 256 * MIB,
) -> Result:
    made = stretch(*found, chase=chase, before=before, after=after, source_bytes=source_bytes)
    return Result(of or block(), made, load, throttled)


def each_once(tasks: Sequence[_Task], _end: float) -> None:
    """Stands in for session._spend: a group of every kernel, however slow the machine."""
    for task in tasks:
        task.make_group()
