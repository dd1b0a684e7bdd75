"""Runs what a whole node needs: the probes that matter to accelerators, then their rules."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu, GpuFacts, GpuProbe, NvLink
from nodecheck.checks.gpu.probe import probe
from nodecheck.checks.gpu.rules import RULES
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.checks.pcie.probe import probe as probe_pcie
from nodecheck.checks.pcie.rules import RULES as PCIE_RULES
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.host import Host
from nodecheck.machine.reader import Reader
from nodecheck.model import Finding, Gap, Severity
from nodecheck.policy import Policy
from nodecheck.serving import Workload

GUEST = VirtFacts(guest=True, hypervisor="kvm", platform="proxmox")
CONTAINER = VirtFacts(container="docker")
ADDRESS = "0000:01:00.0"
CARD = Gpu(
    index=0,
    pci_address=ADDRESS,
    vendor="nvidia",
    name="NVIDIA L40",
    pci_device_id="10de:26b5",
    seen_by=("nvml", "pci"),
    granted=True,
    memory_bytes=46068 << 20,
    memory_used_bytes=5 << 20,
    sm_clock_mhz=2490,
    maximum_sm_clock_mhz=2490,
    performance_state=0,
    utilisation_share=0.97,
    power_watts=200.0,
    power_limit_watts=300.0,
    default_power_limit_watts=300.0,
    clocks_event_reasons=(),
    ecc_volatile_uncorrectable=0,
    remap_pending=False,
    remap_failure=False,
    link_generation=4,
    link_generation_max=4,
    link_width=16,
    link_width_max=16,
    mig=False,
    persistence=True,
)
H100 = replace(
    CARD,
    name="NVIDIA H100 80GB HBM3",
    pci_device_id="10de:2330",
    compute_capability="9.0",
    link_generation=5,
    link_generation_max=5,
    nvlinks=tuple(
        NvLink(link=n, active=True, bytes_per_second=26.562e9, remote="switch") for n in range(18)
    ),
)


def board(
    *cards: Gpu, nvswitches: int | None = 4, manager: bool | None = True, **more: object
) -> Seen:
    """A bare-metal node of these cards behind NVSwitches."""
    facts = GpuFacts(
        state="ok",
        source="nvml",
        driver_version="580.65.06",
        nvswitches=nvswitches,
        fabric_manager=manager,
    )
    return with_facts(seen(*cards, gpu=facts), **more)


def inactive(card: Gpu, *links: int, **changes: object) -> Gpu:
    """The card with these links down."""
    nvlinks = tuple(
        replace(link, active=False, bytes_per_second=None) if link.link in links else link
        for link in card.nvlinks or ()
    )
    return replace(card, nvlinks=nvlinks, **changes)


def seen(
    *gpus: Gpu,
    gpu: GpuFacts | None = None,
    virt: VirtFacts | None = None,
    xids: Sequence[Xid] = (),
    workload: Workload | None = None,
) -> Seen:
    """A live node with these cards."""
    facts = Facts(
        gpu=gpu or GpuFacts(state="ok", source="nvml"),
        gpus=gpus,
        virt=virt or VirtFacts(guest=False),
        kernel_log=KernelLogFacts(source="dmesg", xids=tuple(xids)),
    )
    return Seen(facts=facts, policy=Policy(), workload=workload, live=True)


def with_facts(node: Seen, **facts: object) -> Seen:
    """The node with facts of other subjects."""
    return replace(node, facts=replace(node.facts, **facts))


def numbered(card: Gpu, number: int, **changes: object) -> Gpu:
    """The card again, as the `number`-th of its node."""
    place = f"0000:{number + 1:02x}:00.0"
    return replace(card, index=number, pci_address=place, **changes)


def judge(node: Seen) -> dict[str, Finding]:
    """The findings of both subjects by id."""
    return {finding.id: finding for rule in (*RULES, *PCIE_RULES) for finding in rule.judge(node)}


def severities(node: Seen) -> dict[str, Severity]:
    """Id -> severity, without what is always told of a card that sleeps between programs."""
    return {id_: f.severity for id_, f in judge(node).items() if id_ != "gpu.persistence_off"}


def probed(host: Host) -> tuple[GpuProbe, list[Gap]]:
    """The gpu probe's facts and gaps."""
    reader = Reader(host, "gpu")
    return probe(reader), reader.gaps


def node_of(host: Host, virt: VirtFacts | None = None) -> Seen:
    """A captured node as the two subjects see it."""
    answer, _ = probed(host)
    facts = Facts(
        gpu=answer.gpu,
        gpus=answer.gpus,
        pcie=probe_pcie(Reader(host, "pcie")),
        virt=virt or VirtFacts(),
    )
    return Seen(facts=facts, policy=Policy())
