"""Reads the accelerators and their driver: PCI, then NVML or nvidia-smi, then /dev."""

from __future__ import annotations

import re

import msgspec

from nodecheck.checks.gpu import from_nvml, granted, merge
from nodecheck.checks.gpu.facts import Gpu, GpuFacts, GpuProbe
from nodecheck.checks.gpu.gaps import Refusals, note_gaps
from nodecheck.checks.gpu.wording import AMD, NVIDIA
from nodecheck.machine import nvml, pci
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

CAPTURED = "/nvml.json"
_NO_NVML = (nvml.BINDING_MISSING, nvml.LIBRARY_NOT_FOUND)


def probe(reader: Reader) -> GpuProbe:
    """All accelerators of the node with whatever its sources tell of them."""
    bus = pci.read(reader)
    on_pci = tuple(merge.from_pci(device) for device in bus.accelerators())
    on_pci += _known_to_driver(reader, on_pci)
    facts, sources, refusals = _asked(reader, on_pci)
    sources.append([_lost_card(address) for address in facts.lost if pci.normal_address(address)])
    gpus = merge.together(sources, on_pci)
    gpus = tuple(_amd_memory(reader, gpu) for gpu in gpus)
    hangs = facts.state == "unresponsive"
    if "null" in reader.names("/dev"):  # a capture holds device files seldom, and then not all
        gpus, denied = granted.with_files(reader, gpus, hangs)
        facts = msgspec.structs.replace(facts, denied_device=facts.denied_device or denied)
    note_gaps(reader, facts, gpus, refusals)
    return GpuProbe(gpu=_with_versions(reader, facts), gpus=gpus)


def _lost_card(address: str) -> Gpu:
    return Gpu(pci_address=address, vendor=NVIDIA, lost=True, seen_by=("nvidia-smi",))


def _asked(reader: Reader, on_pci: tuple[Gpu, ...]) -> tuple[GpuFacts, list[list[Gpu]], Refusals]:
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
        return _asked_smi(reader, on_pci)
    denied = answer.error == nvml.NO_PERMISSION
    gpus = [from_nvml.gpu_of(device) for device in answer.devices]
    facts = GpuFacts(
        state=from_nvml.state_of(answer),
        message=from_nvml.message_of(answer),
        source="nvml",
        driver_version=answer.driver_version,
        cuda_version=from_nvml.cuda_version(answer.cuda_version),
        denied_device="/dev/nvidiactl" if denied else None,
    )
    return facts, [gpus], from_nvml.refusals(answer.devices)


def _asked_smi(
    reader: Reader, on_pci: tuple[Gpu, ...]
) -> tuple[GpuFacts, list[list[Gpu]], Refusals]:
    from nodecheck.checks.gpu import nvidia_smi  # its forms load an XML parser and many patterns
    from nodecheck.checks.gpu.nvidia_smi_fields import gpu_of, unsupported

    said = nvidia_smi.ask(reader, nvml.deadline_seconds(len(on_pci)))
    first = said.records[0][1][0] if said.records else {}
    facts = GpuFacts(
        state=said.state,
        message=said.message,
        source=said.source,
        driver_version=first.get("driver_version") or None,
        library_version=said.library_version,
        cuda_version=first.get("cuda_version") or None,
        denied_device="/dev/nvidiactl" if said.denied else None,
        lost=tuple(said.lost),
    )
    records = [record for _, cards in said.records for record in cards]
    lacking = {member for record in records for member in unsupported(record)}
    refusals = dict.fromkeys(lacking, (Reason.UNSUPPORTED, "N/A"))
    return facts, [[gpu_of(record) for record in cards] for _, cards in said.records], refusals


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
    return msgspec.structs.replace(facts, driver_version=facts.driver_version or match[1])


def _amd_memory(reader: Reader, gpu: Gpu) -> Gpu:
    """What amdgpu tells in sysfs."""
    if gpu.vendor != AMD or gpu.pci_address is None:
        return gpu
    here = f"{pci.SYSFS}/{gpu.pci_address}"
    busy = reader.integer(f"{here}/gpu_busy_percent", None)
    total = reader.integer(f"{here}/mem_info_vram_total", None)
    used = reader.integer(f"{here}/mem_info_vram_used", None)
    return msgspec.structs.replace(
        gpu,
        memory_bytes=gpu.memory_bytes or (total if total and total > 0 else None),
        memory_used_bytes=used if used is not None and used >= 0 else gpu.memory_used_bytes,
        utilisation_share=busy / 100 if busy is not None and 0 <= busy <= 100 else None,
    )
