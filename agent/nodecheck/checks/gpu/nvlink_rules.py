"""Judges the NVLinks of the cards and the fabric that NVSwitches make of them.

A link is down only where its product has it for certain: a bridge may not be fitted, a guest may
have got cards without their links, MIG switches them off.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu import products
from nodecheck.checks.gpu.count_rules import too_few
from nodecheck.checks.gpu.facts import Gpu, NvLink
from nodecheck.checks.gpu.presence_rules import lost_cards
from nodecheck.checks.gpu.wording import (
    FOREIGN_DRIVERS,
    NVIDIA,
    card_key,
    evidence,
    labels,
    ours,
    reset,
)
from nodecheck.checks.gpu.xid import NVLINK_CODES
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gb_per_second, listed

COMPLETED = "completed"
CUDA_NOT_READY = 802
"""CUDA's "system not yet initialized"."""

LINKS_NAMED = 6


def unready_cards(seen: Seen) -> list[Gpu]:
    """Cards whose fabric is not ready or ended in an error; MIG mode takes a card out of it."""
    if seen.facts.gpu.state != "ok":
        return []
    return [gpu for gpu in ours(seen) if gpu.fabric and not _is_ready(gpu) and not gpu.mig]


def _is_ready(gpu: Gpu) -> bool:
    fabric = gpu.fabric
    return fabric is not None and fabric.state == COMPLETED and fabric.error is None


def manager_is_missing(seen: Seen) -> bool:
    """NVSwitches without their manager, unless cards or CUDA show that the fabric works."""
    facts, cuda = seen.facts.gpu, seen.facts.cuda
    ready = any(_is_ready(gpu) for gpu in ours(seen))
    works = cuda.state == "ok" or (ready and cuda.error != CUDA_NOT_READY)
    missing = bool(facts.nvswitches) and facts.fabric_manager is False
    return facts.state == "ok" and missing and not works


def judge_fabric(seen: Seen) -> Iterator[Finding]:
    """A fabric that is not ready, has no manager, or is not healthy."""
    unready, missing = unready_cards(seen), manager_is_missing(seen)
    ill = [gpu for gpu in ours(seen) if gpu.fabric and gpu.fabric.problems and gpu not in unready]
    cards = unready or ([g for g in ours(seen) if g.vendor == NVIDIA] if missing else ill)
    if not (unready or missing or ill):
        return
    blocked = missing or any(not _runs_cuda(gpu, seen) for gpu in unready)
    starting = unready and not missing and not any(_failed(gpu) for gpu in unready)
    yield Finding(
        id="gpu.fabric_not_ready",
        severity=Severity.CRITICAL if blocked else Severity.WARNING,
        subject=labels(cards) or "NVSwitch fabric",
        summary="The fabric of NVLinks and NVSwitches is "
        + ("not ready" if unready or missing else "not healthy"),
        evidence=(*(_fabric(gpu) for gpu in (*unready, *ill)), *_manager(seen)),
        impact=_blocked(cards, seen)
        if blocked
        else f"Traffic between {count(len(cards), 'card')} and their peers is slower or fails",
        remedy=_start_manager(seen, just_booted=bool(starting)),
        owner=Owner.OPERATOR,
    )


def _blocked(cards: list[Gpu], seen: Seen) -> str:
    """What CUDA said where it was asked, what it will say where it was not."""
    if seen.facts.cuda.state is None:
        return f"Programs do not start on {count(len(cards), 'card')} until it is ready"
    return f"CUDA does not start on {count(len(cards), 'card')}"


def _runs_cuda(gpu: Gpu, seen: Seen) -> bool:
    cuda = seen.facts.cuda
    here = card_key(gpu.pci_address)
    return cuda.state == "ok" and here in {card_key(address) for address in cuda.devices}


def _failed(gpu: Gpu) -> bool:
    return gpu.fabric is not None and gpu.fabric.error is not None


def _fabric(gpu: Gpu) -> Evidence:
    fabric = gpu.fabric
    if fabric is None:
        return evidence(gpu, "no fabric")
    said = [f"fabric state {fabric.state}", fabric.error or "", *fabric.problems]
    return evidence(gpu, ", ".join(filter(None, said)), "completed, nothing unhealthy")


def _manager(seen: Seen) -> Iterator[Evidence]:
    facts, cuda = seen.facts.gpu, seen.facts.cuda
    if facts.fabric_manager is False and facts.nvswitches:
        version = f" of version {facts.driver_version}" if facts.driver_version else ""
        yield Evidence(
            value="nv-fabricmanager is not among the processes",
            source="/proc",
            expected=f"a fabric manager{version}",
            basis=f"NVSwitches on PCI: {facts.nvswitches}",
        )
    if cuda.error == CUDA_NOT_READY:
        yield Evidence(
            value=f"{cuda.call or 'cuInit'}: error {CUDA_NOT_READY}, system not yet initialised",
            source="libcuda",
            expected="success",
        )


def _start_manager(seen: Seen, *, just_booted: bool) -> Remedy:
    text = (
        "Start the fabric manager and read its log: its version has to be the driver's to the "
        "last digit"
    )
    if just_booted:
        text = (
            f"After a boot wait a minute or two and look again. Then: {text[0].lower()}{text[1:]}"
        )
    where = ""
    if seen.facts.virt.guest and not seen.facts.gpu.nvswitches:
        where = "  # on the host"
        text = f"{text}. This guest has no NVSwitches: the manager runs on its host"
    elif seen.facts.virt.container is not None:
        where = "  # on the host"
        text = f"{text}. It runs on the host, not in the container"
    if seen.facts.gpu.confidential_compute and seen.facts.cuda.error == CUDA_NOT_READY:
        text = (
            f"{text}. Confidential computing is on: CUDA also waits until the cards are set ready"
        )
    return Remedy(
        text=text,
        action=Action.CHANGE_SETTING,
        commands=(
            f"sudo systemctl enable --now nvidia-fabricmanager{where}",
            f"nv-fabricmanager --version{where}",
            f"sudo journalctl -u nvidia-fabricmanager -b{where}",
        ),
        cost="Programs on the cards start anew",
    )


def down_links(seen: Seen) -> list[tuple[Gpu, tuple[NvLink, ...]]]:
    """Cards with links that are down or went down by errors, and those links."""
    found = []
    short = _short_of_links(seen)
    for gpu in ours(seen):
        links = gpu.nvlinks or ()
        bad = {link.link for link in links if link.fatal_errors}
        if gpu in short:
            bad |= {link.link for link in links if link.active is False}
        if bad:
            found.append((gpu, tuple(link for link in links if link.link in bad)))
    return found


def down_keys(seen: Seen) -> set[str | None]:
    """The cards of `down_links`, by their key."""
    return {card_key(gpu.pci_address) for gpu, _ in down_links(seen)}


def _active(gpu: Gpu) -> int:
    return sum(bool(link.active) for link in gpu.nvlinks or ())


def _wired(gpu: Gpu) -> int | None:
    """The links that the card's board connects for certain."""
    product = products.find(gpu.pci_device_id, gpu.name, gpu.subsystem_id)
    return product.nvlinks if product else None


def _short_of_links(seen: Seen) -> list[Gpu]:
    """The cards of which an inactive link is one too many.

    A guest may have got a part of the node, with as many links as its partition has: there only a
    card of the same model with more of them shows that some are missing.
    """
    boards = [gpu for gpu in seen.facts.gpus if _wired(gpu) is not None]
    if not boards or any(gpu.driver in FOREIGN_DRIVERS for gpu in boards):
        return []
    switched = bool(seen.facts.gpu.nvswitches)
    if not switched and (any(g.mig for g in boards) or lost_cards(seen) or too_few(seen)):
        return []  # a peer that is gone takes its end of the links with it
    if manager_is_missing(seen):
        return []
    unready = unready_cards(seen)
    cut = [gpu for gpu in boards if not gpu.mig and gpu not in unready]
    if seen.facts.virt.guest is False or switched:
        return [gpu for gpu in cut if len(boards) > 1 and _active(gpu) < (_wired(gpu) or 0)]
    most: dict[str | None, int] = {}
    for gpu in boards:
        if not gpu.mig:
            most[gpu.name] = max(most.get(gpu.name, 0), _active(gpu))
    return [gpu for gpu in cut if _active(gpu) < most[gpu.name]]


def _slow_links(seen: Seen) -> list[tuple[Gpu, tuple[NvLink, ...], float]]:
    """Cards with links slower than the others of their model, and what those reach."""
    share = seen.policy.thresholds.nvlink_speed_share
    best: dict[tuple[str | None, str | None], float] = {}
    for gpu in ours(seen):
        for link in _running(gpu):
            kind = (gpu.name, link.remote)
            best[kind] = max(best.get(kind, 0.0), link.bytes_per_second or 0.0)
    found = []
    for gpu in ours(seen):
        slow = tuple(
            link
            for link in _running(gpu)
            if (link.bytes_per_second or 0.0) < share * best[gpu.name, link.remote]
        )
        if slow:
            found.append((gpu, slow, best[gpu.name, slow[0].remote]))
    return found


def _running(gpu: Gpu) -> list[NvLink]:
    return [link for link in gpu.nvlinks or () if link.active and link.bytes_per_second]


def judge_nvlink(seen: Seen) -> Iterator[Finding]:
    """Links that are down, or slower than their siblings."""
    down, slow = down_links(seen), _slow_links(seen)
    if not down and not slow:
        return
    cards = [gpu for gpu, _ in down] or [gpu for gpu, _, _ in slow]
    number = sum(len(links) for _, links in down) or sum(len(links) for _, links, _ in slow)
    verb = "is" if number == 1 else "are"
    yield Finding(
        id="gpu.nvlink_down",
        severity=Severity.CRITICAL if down else Severity.WARNING,
        subject=labels(cards),
        summary=f"{count(number, 'NVLink')} {verb} "
        + ("down or had fatal errors" if down else "slower than the others"),
        evidence=(
            *(_down(gpu, links) for gpu, links in down),
            *(_slow(gpu, links, best) for gpu, links, best in slow),
            *_events(seen),
        ),
        impact=_impact(cards, down) if down else "Traffic between cards waits for the slowest link",
        remedy=reset(
            cards,
            seen,
            "Read the log of the fabric manager, where there is one, then drain the cards and "
            "reset them. If a link stays away have the bridge, the board or the card reseated"
            + (_COUNT_STAYS if any(_failed_links(links) for _, links in down) else ""),
            cost="Work on the cards ends; seconds for the reset, the node is off for reseating",
        ),
        owner=Owner.HARDWARE,
    )


_COUNT_STAYS = (
    ". The count of fatal errors may outlive a reset: it begins at 0 when the driver is loaded anew"
)


def _failed_links(links: tuple[NvLink, ...]) -> list[NvLink]:
    return [link for link in links if link.fatal_errors]


def _down(gpu: Gpu, links: tuple[NvLink, ...]) -> Evidence:
    idle = [str(link.link) for link in links if link.active is False]
    failed = [f"{link.link} ({link.fatal_errors})" for link in _failed_links(links)]
    said = []
    if idle:
        said.append(f"inactive: link {listed(idle, LINKS_NAMED)}")
    if failed:
        said.append(f"fatal errors on link {listed(failed, LINKS_NAMED)}")
    wired = _wired(gpu)
    return evidence(
        gpu,
        "; ".join(said),
        f"{wired} active links" if wired and idle else "no fatal error",
        "links of this product" if wired and idle else "counted since the driver was loaded",
    )


def _slow(gpu: Gpu, links: tuple[NvLink, ...], best: float) -> Evidence:
    names = listed([str(link.link) for link in links], LINKS_NAMED)
    rate = min(link.bytes_per_second or 0.0 for link in links)
    return evidence(
        gpu,
        f"link {names}: {gb_per_second(rate)}",
        gb_per_second(best),
        "the fastest link of the same model",
    )


def _events(seen: Seen) -> Iterator[Evidence]:
    down = down_keys(seen)
    for event in seen.facts.kernel_log.xids:
        current = event.code in NVLINK_CODES and not event.recovered
        if current and card_key(event.pci_address) in down:
            yield Evidence(
                value=f"{event.pci_address}: Xid {event.code}, {event.text}"[:240],
                source=seen.facts.kernel_log.source or "kernel log",
            )


def _impact(cards: list[Gpu], down: list[tuple[Gpu, tuple[NvLink, ...]]]) -> str:
    """By the card with the fewest links; links that are up again may go down again."""
    gpu = min(cards, key=_active)
    if not any(link.active is False for _, links in down for link in links):
        errors = sum(link.fatal_errors or 0 for _, links in down for link in links)
        return (
            f"No link is down now: {count(errors, 'fatal error')} since the driver was loaded, and "
            "each may have stopped the programs that used the link"
        )
    active, wired = _active(gpu), _wired(gpu) or len(gpu.nvlinks or ())
    rate = max((link.bytes_per_second or 0.0 for link in _running(gpu)), default=0.0)
    if not active:
        return "Traffic between cards goes over PCIe, many times slower, or programs do not start"
    told = (
        f", {gb_per_second(active * rate)} of {gb_per_second(wired * rate)} one way" if rate else ""
    )
    return f"{active} of {wired} links carry traffic{told}; programs on several cards may fail"
