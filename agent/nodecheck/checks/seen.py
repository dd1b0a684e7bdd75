"""What a rule sees: facts of all checks, measurements, policy and the named workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.disk.facts import DiskFacts
from nodecheck.checks.dram.facts import DramFacts
from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.numa.facts import NumaFacts
from nodecheck.checks.pcie.facts import PcieFacts
from nodecheck.checks.python.facts import PythonFacts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Finding, Measurement, Struct, Transfer
from nodecheck.policy import Policy
from nodecheck.serving import Serving, Workload


class Facts(Struct, frozen=True, kw_only=True):
    """The facts of all checks; one that failed leaves empty facts here, and a gap in the report."""

    cpu: CpuFacts = CpuFacts()
    virt: VirtFacts = VirtFacts()
    limits: LimitsFacts = LimitsFacts()
    memory: MemoryFacts = MemoryFacts()
    numa: NumaFacts = NumaFacts()
    disk: DiskFacts = DiskFacts()
    pcie: PcieFacts = PcieFacts()
    gpu: GpuFacts = GpuFacts()
    gpus: tuple[Gpu, ...] = ()
    kernel_log: KernelLogFacts = KernelLogFacts()
    engine: EngineFacts = EngineFacts()
    python: PythonFacts = PythonFacts()
    dram: DramFacts = DramFacts()
    cuda: CudaFacts = CudaFacts()

    def grants(self, gpu: Gpu) -> bool:
        """Whether the card was given to this process: not another container's, job's or guest's."""
        absent = gpu.device_file is False and self.virt.container is not None
        return gpu.granted is not False and not absent


class Tried(Struct, frozen=True, kw_only=True):
    """A fault that was fixed once: this finding was here, and then it was gone.

    `where` is a PCI address in the finding's subject, or the whole subject where it has none.
    `gone` is when the fault was first seen to be gone: UTC, ISO 8601.
    """

    id: str
    where: str
    gone: str


class Past(Struct, frozen=True, kw_only=True):
    """What the history of this node tells of it.

    `accelerators` are the PCI addresses in the snapshot of the last week that had most, `time` is
    that snapshot's: UTC, ISO 8601. It is None where no snapshot could look.
    """

    time: str
    accelerators: tuple[str, ...] | None = None
    tried: tuple[Tried, ...] = ()


class Seen(Struct, frozen=True, kw_only=True):
    """Everything that a rule may look at.

    `workload` is None unless the user named one; `serving` is how it is to be served. `past` is
    None where there is no history, or nobody looked.
    """

    facts: Facts
    policy: Policy
    measurements: tuple[Measurement, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    past: Past | None = None
    workload: Workload | None = None
    serving: Serving = Serving()
    live: bool = False


class Rule(Struct, frozen=True):
    """One finding id, one line of what it says, and the function that raises it."""

    id: str
    title: str
    judge: Callable[[Seen], Iterator[Finding]]
