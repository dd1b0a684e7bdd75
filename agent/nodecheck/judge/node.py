"""What a node brings to serving a model, drawn from its facts; None is not known."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.judge.rates import weight_types
from nodecheck.judge.rates.ceilings import Range
from nodecheck.links import GTS, encoded_bytes_per_second
from nodecheck.model import Measurement, Struct
from nodecheck.serving import Kind, Workload


def cores(seen: Seen) -> Range | None:
    """Physical cores that an engine may use.

    A guest's topology does not show SMT: half of its vCPUs may be siblings, so the range spans
    vCPUs / 2 to vCPUs.
    """
    cpu, limits = seen.facts.cpu, seen.facts.limits
    usable = len(limits.usable_cpus) if limits.usable_cpus else cpu.logical_cpus
    if not usable:
        return None
    budget = limits.thread_budget or usable
    physical = cpu.physical_cores
    hidden = seen.facts.virt.guest is not False and (physical is None or physical >= usable)
    low = usable / 2 if physical is None or hidden else min(physical, usable)
    high = usable if physical is None or hidden else min(physical, usable)
    return Range(max(1.0, min(low, budget)), max(1.0, min(high, budget)))


def best_read(measurements: tuple[Measurement, ...]) -> Measurement | None:
    """The best read figure over the thread counts, clean ones first."""
    reads = (
        m
        for m in measurements
        if m.name == "dram_read" and m.memory_node is None and m.median_bytes_per_second > 0
    )
    return max(
        reads, key=lambda m: ("contended" not in m.flags, m.median_bytes_per_second), default=None
    )


def read_rate(measurements: tuple[Measurement, ...]) -> Measurement | None:
    """Memory read on most threads; None if disturbed."""
    return _widest_clean(measurements, "dram_read")


def decode_rate(measurements: tuple[Measurement, ...], weight_type: str) -> Measurement | None:
    """Weights of one type used up from the cores' own caches on most threads; None if disturbed."""
    return _widest_clean(measurements, f"decode_{weight_type}")


def decode_rate_from_memory(
    measurements: tuple[Measurement, ...], weight_type: str
) -> Measurement | None:
    """The same with the weights in memory."""
    return _widest_clean(measurements, f"decode_dram_{weight_type}")


def measurable_types(work: Workload) -> tuple[str, ...]:
    """The weight types to measure from memory for a model: most of what it reads, most first.

    One without a kernel of its own is stood for by the one that it is like.
    """
    read: dict[str, int] = {} if work.layer_groups or work.outside else {work.weight_type: 1}
    alike = ((group.weights, len(group.numbers)) for group in work.layer_groups)
    for weights, times in (*alike, (work.outside, 1)):
        for each in weights:
            if each.kind not in (Kind.MTP, Kind.OTHER):
                read[each.type] = read.get(each.type, 0) + times * each.read_bytes
    return weight_types.measurable(read)


def _widest_clean(measurements: tuple[Measurement, ...], name: str) -> Measurement | None:
    """Fewer threads do not stand for all of them where those were disturbed."""
    found = [
        m
        for m in measurements
        if m.name == name and m.memory_node is None and m.median_bytes_per_second > 0
    ]
    widest = max(found, key=lambda m: m.threads, default=None)
    return widest if widest and "contended" not in widest.flags else None


def free_ram_bytes(seen: Seen) -> int | None:
    """Memory that a new process can take: MemAvailable, and what the cgroups leave."""
    sizes = (seen.facts.memory.available_bytes, seen.facts.limits.memory_headroom_bytes)
    return None if sizes[0] is None else min(size for size in sizes if size is not None)


class Cards(Struct, frozen=True):
    """The granted GPUs that can hold a model.

    Up to `idle_bytes` in use on a card are its driver's own; more is another program's.
    """

    gpus: tuple[Gpu, ...]
    idle_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """VRAM of all cards."""
        return sum(g.memory_bytes or 0 for g in self.gpus)

    @property
    def share_memory(self) -> bool:
        """Whether one has no memory of its own, but the system's."""
        return any(gpu.unified_memory and not gpu.memory_bytes for gpu in self.gpus)

    def free_bytes(self, gpu: Gpu) -> int:
        """VRAM of a card less what other programs use of it."""
        used = gpu.memory_used_bytes or 0
        return max(0, (gpu.memory_bytes or 0) - (used if used > self.idle_bytes else 0))

    @property
    def all_free_bytes(self) -> int:
        """Of all cards together."""
        return sum(map(self.free_bytes, self.gpus))

    def roomiest(self, number: int) -> tuple[Gpu, ...]:
        """The cards with most free VRAM, so many; of equal ones those that come first."""
        return tuple(sorted(self.gpus, key=self.free_bytes, reverse=True)[:number])

    def times_as_fast(self, factor: float) -> Cards:
        """The same with VRAM of so many times the rate."""
        return replace(self, gpus=tuple(_sped_up(gpu, factor) for gpu in self.gpus))

    @property
    def slowest_rate(self) -> float | None:
        """VRAM bytes a second of the slowest card, None where one is not known or cut up by MIG."""
        rates = [None if g.mig else g.vram_bytes_per_second for g in self.gpus]
        return min((r for r in rates if r), default=None) if all(rates) else None

    @property
    def split_rate(self) -> float | None:
        """Bytes a second of a token that goes from card to card, each read in turn.

        Each card holds layers by its free VRAM. None where the slowest card's rate is not known.
        """
        if self.slowest_rate is None:
            return None
        seconds = sum(self.free_bytes(g) / (g.vram_bytes_per_second or 1) for g in self.gpus)
        return self.all_free_bytes / seconds if seconds else self.slowest_rate

    @property
    def name(self) -> str:
        """The card's name without the vendor."""
        names = {(g.name or "GPU").removeprefix("NVIDIA ") for g in self.gpus}
        return " + ".join(sorted(names))


def _sped_up(gpu: Gpu, factor: float) -> Gpu:
    rate = gpu.vram_bytes_per_second
    return replace(gpu, vram_bytes_per_second=rate * factor if rate else None)


def cards(seen: Seen) -> Cards:
    """The GPUs that this process may use, less those lost."""
    usable = (g for g in seen.facts.gpus if seen.facts.grants(g) and not g.lost)
    idle = seen.policy.thresholds.gpu_memory_idle_bytes
    return Cards(tuple(g for g in usable if g.memory_bytes or g.unified_memory), idle)


def unusable(seen: Seen) -> str | None:
    """Why none of the GPUs that there are can be judged; None where one can, or where none is."""
    made = [gpu for gpu in seen.facts.gpus if gpu.vendor == "nvidia" or gpu.lost]
    if not made or cards(seen).gpus:
        return None
    if all(gpu.lost for gpu in made):
        return "the driver has lost the GPU"
    if not any(map(seen.facts.grants, made)):
        return "the GPU is not granted to this process"
    return "the size of the GPU's memory is not known: its driver did not tell"


def host_link(seen: Seen, gpus: Cards) -> float | None:
    """Bytes a second after encoding of the narrowest link from the host to one of the cards."""
    rates = [_link_rate(seen, gpu) for gpu in gpus.gpus]
    return min((r for r in rates if r), default=None)


def measured_link(seen: Seen, gpus: Cards) -> float | None:
    """Bytes a second that copies from the host to each of the cards reached, of the slowest."""
    rates = {
        each.card: each.median_bytes_per_second
        for each in seen.transfers
        if each.name == "host_to_device" and each.cards == 1 and not each.flags
    }
    found = [rates.get(gpu.pci_address or "") for gpu in gpus.gpus]
    return min((r for r in found if r), default=None) if all(found) else None


def _link_rate(seen: Seen, gpu: Gpu) -> float | None:
    """None for a card that reaches the host's memory by another way: its PCIe link says nothing."""
    if gpu.chip_to_chip:
        return None
    gts, width = GTS.get(gpu.link_generation_max or gpu.link_generation or 0), gpu.link_width
    path = seen.facts.pcie.path_of(gpu.pci_address)
    hops = [h for h in path.outside if not h.emulated] if path else []
    speeds = [h.maximum_gts or h.current_gts for h in hops]
    widths = [h.current_width for h in hops if h.current_width]
    if gts is None and all(speeds):
        gts = min((s for s in speeds if s), default=None)
    if width is None or (widths and min(widths) < width):
        width = min(widths, default=None) if widths else width
    return encoded_bytes_per_second(gts, width)
