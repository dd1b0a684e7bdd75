"""Judges whether CUDA starts where the driver answers."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cuda import remedies
from nodecheck.checks.cuda.causes import WITHOUT_UVM, cause_of, is_left_out
from nodecheck.checks.cuda.fail_rules import hung_in, judge_failing, names_of
from nodecheck.checks.cuda.remedies import NOT_READY, UNAVAILABLE, Cause
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, listed

_LOG_LINES = 3
_IN_ORDER = "completed"


def judge_unavailable(seen: Seen) -> Iterator[Finding]:
    """CUDA that does not start, starts without a card that the driver has, or fails copies."""
    cards = [g for g in seen.facts.gpus if g.vendor == "nvidia" and seen.facts.grants(g)]
    if seen.facts.gpu.state != "ok" or not cards or _has_other_cause(seen, cards):
        return
    state = seen.facts.cuda.state
    if state == "ok":
        missing = _not_in_cuda(seen, cards)
        if missing:
            yield _without_cards(seen, missing)
    elif state is not None:
        yield _dead(seen, cards, cause_of(seen))
    if state in ("ok", "unresponsive"):
        yield from judge_failing(seen)


def _has_other_cause(seen: Seen, cards: list[Gpu]) -> bool:
    """A finding of its own says it, or it is no fault: another program holds the whole card."""
    cuda = seen.facts.cuda
    if any(gpu.lost or gpu.error is not None for gpu in cards) or seen.facts.gpu.lost:
        return True
    if cuda.error == NOT_READY and _fabric_says_it(seen, cards):
        return True
    return cuda.error == UNAVAILABLE and any(gpu.compute_mode != "default" for gpu in cards)


def _fabric_says_it(seen: Seen, cards: list[Gpu]) -> bool:
    driver = seen.facts.gpu
    fabrics = [gpu.fabric for gpu in cards if gpu.fabric and not gpu.mig]
    unready = any(fabric.state != _IN_ORDER or fabric.error for fabric in fabrics)
    return unready or (bool(driver.nvswitches) and driver.fabric_manager is False)


def _dead(seen: Seen, cards: list[Gpu], cause: Cause) -> Finding:
    summary = cause.summary
    hung, copies = hung_in(seen)
    if hung and cause is remedies.HANGS_IN_COPY:
        basis = f"CUDA started; {copies} did not end"
        cards, summary = hung, f"CUDA hangs in {copies}: {names_of(hung) or hung[0].label}"
    else:
        basis = f"NVML answers for {count(len(cards), 'card')}: the driver is there"
    cuda, log = seen.facts.cuda, seen.facts.kernel_log
    number = "" if cuda.error is None else f" (error {cuda.error})"
    told = cuda.message or cuda.state or "no answer"
    evidence = [
        Evidence(
            value=f"{cuda.call or 'libcuda.so.1'}: {told}{number}",
            source="libcuda.so.1",
            expected="success",
            basis=basis,
        )
    ]
    if cuda.uvm is False and cuda.error in WITHOUT_UVM:
        evidence.append(
            Evidence(value="No file nvidia-uvm", source="/dev", expected="/dev/nvidia-uvm")
        )
    if is_left_out(seen):
        evidence.append(_started_without(cuda.capabilities or ()))
    evidence += [
        Evidence(value=f"Xid {event.code}: {event.text}"[:200], source=log.source or "kernel log")
        for event in log.xids[-_LOG_LINES:]
        if not event.recovered
    ]
    return Finding(
        id="gpu.cuda_unavailable",
        severity=cause.severity,
        subject=listed([gpu.label for gpu in cards]),
        summary=summary,
        evidence=tuple(evidence),
        impact=cause.impact.format(cards=count(len(cards), "card")),
        remedy=cause.remedy_of(seen),
        owner=Owner.OPERATOR,
    )


def _started_without(capabilities: tuple[str, ...]) -> Evidence:
    return Evidence(
        value=f"NVIDIA_DRIVER_CAPABILITIES: {', '.join(capabilities) or 'no known word'}",
        source="nodecheck's own environment",
        expected="compute, or all, among them",
        basis="what the container's runtime brings into it of the driver",
    )


def _not_in_cuda(seen: Seen, cards: list[Gpu]) -> list[Gpu]:
    """Cards that the driver has and CUDA has not. With MIG it lists one instance alone."""
    known = seen.facts.cuda.devices
    if not known or any(gpu.mig for gpu in cards):
        return []
    told = [gpu for gpu in cards if gpu.pci_address and {"nvml", "nvidia-smi"} & set(gpu.seen_by)]
    return [g for g in told if g.pci_address not in known and g.compute_mode != "prohibited"]


def _without_cards(seen: Seen, missing: list[Gpu]) -> Finding:
    addresses = ",".join(gpu.pci_address or "" for gpu in missing)
    return Finding(
        id="gpu.cuda_unavailable",
        severity=Severity.CRITICAL,
        subject=listed([gpu.label for gpu in missing]),
        summary=f"CUDA does not have {count(len(missing), 'card')} that the driver lists",
        evidence=tuple(
            Evidence(
                value=f"{gpu.label}: not among {count(len(seen.facts.cuda.devices), 'device')}",
                source="libcuda.so.1, cuDeviceGetPCIBusId",
                expected="every card that NVML lists",
                basis="asked without CUDA_VISIBLE_DEVICES",
            )
            for gpu in missing
        ),
        impact=f"{count(len(missing), 'card')} of no use to an engine",
        remedy=Remedy(
            text="Read the driver's log for these cards, then reset them once nothing uses them",
            action=Action.RESET_GPU,
            commands=(
                "sudo dmesg | grep -E 'NVRM|Xid'",
                f"sudo nvidia-smi --gpu-reset -i {addresses}",
            ),
            cost="Work on these cards ends; seconds",
        ),
        owner=Owner.OPERATOR,
    )
