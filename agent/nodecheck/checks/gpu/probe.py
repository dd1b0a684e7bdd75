"""Reads the accelerators and their drivers: PCI, then NVML or nvidia-smi, sysfs, then /dev."""

from __future__ import annotations

import itertools
import re
import time

import msgspec

from nodecheck.checks.gpu import amd_smi, from_nvml, granted, merge, nvml_refusals, sysfs, twice
from nodecheck.checks.gpu.card_files import SECOND_SAMPLE_SECONDS, RefusalsByCard, place_of
from nodecheck.checks.gpu.facts import Gpu, GpuFacts, GpuProbe
from nodecheck.checks.gpu.gaps import note_gaps
from nodecheck.checks.gpu.wording import NVIDIA, is_told
from nodecheck.machine import nvidia_driver, nvml, pci, processes
from nodecheck.machine.nvml_codes import LIBRARY_NOT_FOUND
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

CAPTURED = "/nvml.json"
FABRIC_MANAGER = "nv-fabricmanager"
SECOND_LOOK_SECONDS = 3.0
"""For nvidia-smi once more: the driver has just answered it."""

_NO_NVML = (nvml.BINDING_MISSING, LIBRARY_NOT_FOUND)


def probe(reader: Reader) -> GpuProbe:
    """All accelerators of the node with whatever its sources tell of them."""
    bus = pci.read(reader)
    on_pci = tuple(merge.from_pci(device) for device in bus.accelerators())
    on_pci += _known_to_driver(reader, on_pci)
    facts, sources, refusals = _asked(reader, on_pci)
    sources.append([_lost_card(address) for address in facts.lost if pci.normal_address(address)])
    told = {g.pci_address for cards in sources for g in cards if is_told(g) or g.error}
    in_sysfs, untold = sysfs.read(reader, bus, [g for g in on_pci if g.pci_address not in told])
    sources += [in_sysfs, amd_smi.read(reader, on_pci, in_sysfs)]
    gpus = merge.together(sources, on_pci)
    hangs = facts.state == "unresponsive"
    if "null" in reader.names("/dev"):  # a capture holds device files seldom, and then not all
        gpus, denied = granted.with_files(reader, gpus, hangs)
        facts = msgspec.structs.replace(facts, denied_device=facts.denied_device or denied)
    note_gaps(reader, facts, gpus, {**refusals, **untold})
    facts = _with_switches(bus, _with_versions(reader, facts), live=reader.host.live)
    return GpuProbe(gpu=facts, gpus=gpus)


def _lost_card(address: str) -> Gpu:
    return Gpu(pci_address=address, vendor=NVIDIA, lost=True, seen_by=("nvidia-smi",))


def _asked(
    reader: Reader, on_pci: tuple[Gpu, ...]
) -> tuple[GpuFacts, list[list[Gpu]], RefusalsByCard]:
    """The driver's answer: its state, the cards a source, and what it does not tell."""
    if not reader.host.live:
        captured = _captured(reader)
        if captured is not None:
            return captured.gpu, [list(captured.gpus)], {}
        return _asked_smi(reader, on_pci)
    nvidia = [gpu for gpu in on_pci if gpu.vendor == NVIDIA and gpu.granted is not False]
    if not nvml.worth_trying(reader.host, nvidia_on_pci=bool(nvidia)):
        return GpuFacts(), [], {}
    answer = nvml.query(len(nvidia))
    if answer.error in _NO_NVML:
        facts, cards, refusals = _asked_smi(reader, on_pci)
        return _as_far_as_known(facts, answer), cards, refusals
    gpus = from_nvml.gpus_of(answer)
    refused = map(nvml_refusals.refusals, answer.devices)
    return from_nvml.facts_of(answer), [gpus], dict(zip(map(place_of, gpus), refused, strict=True))


def _as_far_as_known(facts: GpuFacts, answer: nvml.Answer) -> GpuFacts:
    """Without a driver that is called missing for a library that is there and was not loaded.

    There may have been no memory for it, no descriptor, no right to read it: all of it ours.
    """
    from nodecheck.checks.gpu.nvidia_smi import says_no_driver

    missing = facts.state == "missing" and not says_no_driver(facts.message or "")
    if not missing or not nvidia_driver.is_installed(nvml.LIBRARY):
        return facts
    unloaded = f"{nvml.LIBRARY} is there, but could not be loaded"
    why = unloaded if answer.error == LIBRARY_NOT_FOUND else answer.message
    return msgspec.structs.replace(facts, state=None, message=why, source="nvml")


def _asked_smi(
    reader: Reader, on_pci: tuple[Gpu, ...]
) -> tuple[GpuFacts, list[list[Gpu]], RefusalsByCard]:
    from nodecheck.checks.gpu import nvidia_smi  # its forms load an XML parser and many patterns
    from nodecheck.checks.gpu.nvidia_smi_fields import gpu_of, node_facts, unsupported

    said = nvidia_smi.ask(reader, nvidia_driver.may_take_seconds(len(on_pci)))
    records = [record for _, cards in said.records for record in cards]
    gpus = [[gpu_of(record) for record in cards] for _, cards in said.records]
    facts = GpuFacts(
        state=said.state,
        message=said.message,
        source=said.source,
        library_version=said.library_version,
        denied_device="/dev/nvidiactl" if said.denied else None,
        lost=tuple(said.lost),
        **node_facts(records),
    )
    refusals: RefusalsByCard = {}
    for record, gpu in zip(records, itertools.chain(*gpus), strict=True):
        lacking = dict.fromkeys(unsupported(record), (Reason.UNSUPPORTED, "N/A"))
        refusals.setdefault(place_of(gpu), {}).update(lacking)
    if reader.host.live and any(twice.is_doubtful(gpu) for cards in gpus for gpu in cards):
        time.sleep(SECOND_SAMPLE_SECONDS)
        again = nvidia_smi.ask(reader, SECOND_LOOK_SECONDS)
        later = {g.pci_address: g for _, cards in again.records for g in map(gpu_of, cards)}
        gpus = [[twice.settled(gpu, later.get(gpu.pci_address)) for gpu in cards] for cards in gpus]
    return facts, gpus, refusals


def _captured(reader: Reader) -> GpuProbe | None:
    """The facts that an earlier run saved; a file that is not ours is a gap."""
    try:
        text = reader.host.read(CAPTURED)
    except UnreadableError:
        return None
    try:
        return msgspec.json.decode(text, type=GpuProbe)
    except (msgspec.MsgspecError, RecursionError) as error:
        reader.gap("gpus", Reason.FAILED, f"{CAPTURED}: {error}")
        return None


def _known_to_driver(reader: Reader, on_pci: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Cards that the NVIDIA driver lists and PCI does not: a container may see the one alone."""
    known = {gpu.pci_address for gpu in on_pci}
    found: list[Gpu] = []
    for name in reader.names(granted.NVIDIA_CARDS):
        address = pci.normal_address(name)
        if address is None or address in known:
            continue
        text = reader.text(f"{granted.NVIDIA_CARDS}/{name}/information", None) or ""
        model = re.search(r"^Model:\s*(\S[^\n]{0,80}?)\s*$", text, re.MULTILINE)
        found.append(
            Gpu(
                pci_address=address,
                vendor=NVIDIA,
                name=model[1] if model else None,
                driver="nvidia",
                seen_by=("proc",),
            )
        )
    return tuple(found)


def _with_versions(reader: Reader, facts: GpuFacts) -> GpuFacts:
    """The loaded module's version, which is what counts where the library's differs."""
    text = reader.text("/proc/driver/nvidia/version", None) or ""
    match = re.search(r"NVRM version:.*?\s(\d{2,4}\.\d+(?:\.\d+)?)\s", text[:1024])
    if match is None:
        return facts
    return msgspec.structs.replace(
        facts, driver_version=facts.driver_version or match[1], module_version=match[1]
    )


def _with_switches(bus: pci.Bus, facts: GpuFacts, *, live: bool) -> GpuFacts:
    """How many NVSwitches PCI shows, and whether what manages them runs."""
    if facts.nvswitches is not None or not any(d.vendor == pci.NVIDIA for d in bus.accelerators()):
        return facts
    runs = processes.host_runs(FABRIC_MANAGER) if bus.nvswitches and live else None
    return msgspec.structs.replace(facts, nvswitches=bus.nvswitches, fabric_manager=runs)
