"""Judges what the CPU makes of the weights that its memory delivers."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Measurement, Owner, Remedy, Severity
from nodecheck.units import count, gb_per_second

_READ = "dram_read"


def _decode_compute_bound(seen: Seen) -> Iterator[Finding]:
    """Where memory would deliver several times the weights that the instructions can use up."""
    work = seen.workload
    weights = work.weight_type if work else seen.policy.reference_workload.weight_type
    pair = _widest_pair(seen, f"decode_{weights}")
    if pair is None:
        return
    read, decode = pair
    factor = read.median_bytes_per_second / decode.median_bytes_per_second
    least = seen.policy.thresholds.compute_bound_factor_min
    if factor < least:
        return
    yield Finding(
        id="cpu.decode_compute_bound",
        severity=Severity.INFO,
        subject="CPU",
        summary=f"Decode of {weights} weights on the CPU is held by its instructions: memory would "
        f"allow {factor:.1f} times as much",
        evidence=(
            Evidence(
                value=f"{_reading(decode)} of {weights} weights used up from the cores' own caches",
                source=f"{decode.kernel} kernel, median of {decode.passes} clean passes",
                expected=f"at least 1/{least:g} of what memory delivers",
                basis="policy compute_bound_factor_min",
            ),
            Evidence(
                value=f"{_reading(read)} read from memory", source=f"read kernel {read.kernel}"
            ),
        ),
        impact=f"Decode of weights on the CPU is {factor:.1f} times slower than memory allows; "
        "weights on the GPUs are not affected",
        remedy=_remedy(decode),
        owner=Owner.HYPERVISOR if seen.facts.virt.guest else Owner.USER,
    )


def _widest_pair(seen: Seen, name: str) -> tuple[Measurement, Measurement] | None:
    """The undisturbed read and decode figures on most threads that both were measured on."""
    found = {
        (each.name, each.threads): each
        for each in seen.measurements
        if each.name in (_READ, name)
        and each.memory_node is None
        and "contended" not in each.flags
        and each.median_bytes_per_second > 0
    }
    both = [threads for kind, threads in found if kind == _READ and (name, threads) in found]
    if not both:
        return None
    most = max(both)
    return found[_READ, most], found[name, most]


def _reading(each: Measurement) -> str:
    rate = gb_per_second(each.median_bytes_per_second)
    return f"{count(each.threads, 'thread')}: {rate}"


def _remedy(decode: Measurement) -> Remedy:
    if decode.kernel in ("sse2", "sse4.2", "avx"):
        return Remedy(
            text="See whether the silicon has AVX2 that is hidden or switched off (other findings "
            "say so). Else keep weights on the GPUs; of the quantisations, take the one with the "
            "highest rate a weight in `nodecheck bench decode`",
            action=Action.NONE,
        )
    return Remedy(
        text="Keep weights on the GPUs, or decode with more threads where there are more cores: "
        "memory has room for them",
        action=Action.NONE,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "cpu.decode_compute_bound",
        "Instructions hold decode on the CPU back more than memory does",
        _decode_compute_bound,
    ),
)
