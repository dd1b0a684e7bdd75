"""Run the probes: each in a child of its own, all at once, each under its deadline."""

from __future__ import annotations

import datetime
import importlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from nodecheck import __version__
from nodecheck.checks import CHECKS
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.cuda.facts import CudaProbe
from nodecheck.checks.disk.facts import DiskFacts
from nodecheck.checks.dram.facts import DramProbe
from nodecheck.checks.dram.skipped import skipped
from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.gpu.facts import GpuProbe
from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.numa.facts import NumaFacts
from nodecheck.checks.pcie.facts import PcieFacts
from nodecheck.checks.python.facts import PythonFacts
from nodecheck.checks.seen import Facts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine import child
from nodecheck.machine.child import Outcome
from nodecheck.machine.host import Host
from nodecheck.machine.reader import Reader
from nodecheck.model import Gap, Reason, Struct, Transfer
from nodecheck.policy import ReferenceWorkload
from nodecheck.ranges import absurd, without_absurd
from nodecheck.report import HostInfo, Report
from nodecheck.serving import Workload
from nodecheck.thresholds import Thresholds
from nodecheck.workload.numbers import from_numbers

if TYPE_CHECKING:
    from nodecheck.checks.cuda.bench import Wish

FACTS: dict[str, type[Struct]] = {
    "cpu": CpuFacts,
    "virt": VirtFacts,
    "limits": LimitsFacts,
    "memory": MemoryFacts,
    "numa": NumaFacts,
    "disk": DiskFacts,
    "pcie": PcieFacts,
    "gpu": GpuProbe,
    "cuda": CudaProbe,
    "kernel_log": KernelLogFacts,
    "engine": EngineFacts,
    "python": PythonFacts,
    "dram": DramProbe,
}
"""What each check's probe answers with."""

PRIMARY_INPUTS = {
    "cpu": ("/proc/cpuinfo",),
    "memory": ("/proc/meminfo",),
    "numa": ("/sys/devices/system/node",),
    "disk": ("/statvfs.json",),
    "pcie": ("/sys/bus/pci/devices", "/cmd/lspci_-vvv.txt"),
    "gpu": (
        "/nvml.json",
        "/cmd/nvidia-smi_-q_-x.txt",
        "/cmd/nvidia-smi_-q.txt",
        "/cmd/nvidia-smi_--query-gpu.csv",
        "/cmd/nvidia-smi.txt",
        "/cmd/amd-smi_static_--json.txt",
    ),
    "cuda": ("/cuda.json",),
    "kernel_log": ("/cmd/dmesg.txt",),
    "dram": ("/measurements.json",),
}
"""Without any of these a captured tree does not hold the subject."""

SHIPPED = Thresholds()
GPU = "gpu"
"""The part of `bench` that measures cards."""

PROBES = ("gpu", "dram", "cuda")
"""Checks whose probes hand on more than facts."""

LAST = ("engine", "python", "dram")
"""Checks that run when the others are done: they load the node, or need the others' facts."""


class _Answer(Struct, frozen=True, kw_only=True):
    facts: msgspec.Raw
    gaps: tuple[Gap, ...]


def collect(
    host: Host,
    *,
    kernels: str = "auto",
    python: str | None = None,
    thresholds: Thresholds = SHIPPED,
    weight_types: tuple[str, ...] = (ReferenceWorkload().weight_type,),
    progress: Callable[[str], None] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Report:
    """A report with facts, measurements and gaps, not yet judged.

    `kernels` is auto, always or never (`thresholds` tell auto when a node is serving); `python` is
    an interpreter whose libraries are to be tried; `weight_types` those of the model in question,
    most of what it reads first. `progress` is told, in a few words, what takes long; `meanwhile` is
    called while the probes run.
    """
    started = datetime.datetime.now(datetime.timezone.utc)
    run = _Run(host)
    measures = host.live and kernels != "never"
    tasks = {name: run.task(name) for name in CHECKS if name not in LAST}
    tasks["cuda"] = run.task("cuda", kernels)
    if not measures:
        tasks["dram"] = run.task("dram", Facts(), kernels)
    run.side_by_side(tasks, meanwhile)
    if python is not None:
        progress(f"trying the libraries of {python}")
        run.alone("python", python)
    if measures:
        progress("measuring memory")
        run.alone("dram", run.facts(), kernels, thresholds, weight_types)
    dram = cast("DramProbe", run.probed["dram"])
    cuda = cast("CudaProbe", run.probed["cuda"])
    elapsed = datetime.datetime.now(datetime.timezone.utc) - started
    return Report(
        nodecheck_version=__version__,
        time=started.isoformat(timespec="seconds"),
        host=_host_info(host),
        facts=run.facts(),
        measurements=dram.measurements,
        latencies=dram.latencies,
        transfers=cuda.transfers,
        workload=_named_model(dram.model_bytes),
        gaps=tuple(run.gaps),
        elapsed_seconds=round(elapsed.total_seconds(), 2),
    )


def watch(host: Host, report: Report, pid: int, seconds: float) -> Report:
    """The report with what an engine's processes do now, in the place of what it tells of any.

    Its time is now. Nothing else of the node is looked at again.
    """
    started = datetime.datetime.now(datetime.timezone.utc)
    run = _Run(host)
    run.alone("engine", pid, seconds)
    elapsed = datetime.datetime.now(datetime.timezone.utc) - started
    return msgspec.structs.replace(
        report,
        time=started.isoformat(timespec="seconds"),
        facts=msgspec.structs.replace(report.facts, engine=run.facts().engine),
        gaps=_with_gaps(report, "engine", run.gaps),
        elapsed_seconds=round((report.elapsed_seconds or 0.0) + elapsed.total_seconds(), 2),
    )


def bench(
    host: Host,
    what: Sequence[str],
    *,
    max_seconds: float | None = None,
    force: bool = False,
    thresholds: Thresholds = SHIPPED,
    progress: Callable[[str, float | None], None] = lambda _doing, _left: None,
) -> Report:
    """A report of this machine with all that `nodecheck bench` measures; not yet judged.

    `force` measures GPUs that `thresholds` call busy too. `progress` is told what is being measured
    and how many seconds are left. On KeyboardInterrupt the report holds what was measured until
    then, and a warning that says so.
    """
    from nodecheck.checks.cuda.bench import Wish, wanted_seconds
    from nodecheck.checks.cuda.subjects import granted

    started = datetime.datetime.now(datetime.timezone.utc)
    looked = time.monotonic()
    report = collect(host, kernels="never")
    memory = [part for part in what if part != GPU]
    wish = Wish(thresholds=thresholds, force=force, max_seconds=max_seconds)
    copying = wanted_seconds(report.facts, wish) if GPU in what else 0.0
    if max_seconds is not None and memory and copying:
        copying = min(copying, max_seconds / 2)
        wish = msgspec.structs.replace(wish, max_seconds=copying)
        max_seconds -= copying
    report = _memory(host, report, memory, max_seconds, progress)
    if not memory:
        report = _cards(host, report, wish, progress, looked)
    elif GPU in what and granted(report.facts) and not report.facts.dram.interrupted:
        report = _cards(host, report, wish, progress, None)
    elapsed = datetime.datetime.now(datetime.timezone.utc) - started
    return msgspec.structs.replace(report, elapsed_seconds=round(elapsed.total_seconds(), 2))


def _memory(
    host: Host,
    report: Report,
    what: Sequence[str],
    max_seconds: float | None,
    progress: Callable[[str, float | None], None],
) -> Report:
    """The report with what the node's memory and CPUs reach."""
    reader = Reader(host, "dram")
    if not what:
        probed = skipped(reader, "not asked for")
    else:
        try:
            from nodecheck.checks.dram import bench as measuring
        except Exception as error:  # noqa: BLE001 - without the extension its error cannot be imported
            probed = skipped(reader, str(error), Reason.UNSUPPORTED)
        else:
            probed = measuring.run(
                reader, report.facts, what, max_seconds=max_seconds, progress=progress
            )
    return msgspec.structs.replace(
        report,
        facts=msgspec.structs.replace(report.facts, dram=probed.facts),
        measurements=probed.measurements,
        latencies=probed.latencies,
        gaps=_with_gaps(report, "dram", reader.gaps),
    )


def _cards(
    host: Host,
    report: Report,
    wish: Wish,
    progress: Callable[[str, float | None], None],
    looked: float | None,
) -> Report:
    """The report with what copies to, from and on the GPUs reach.

    `looked` is when the report's facts of the cards were read, by the monotonic clock; None where
    that is so long ago that their counters and what they are busy with have to be read again.
    """
    from nodecheck.checks.cuda import bench as copying
    from nodecheck.checks.cuda.figures import with_later

    reader = Reader(host, "cuda")
    facts, probed = report.facts, CudaProbe()
    transfers: tuple[Transfer, ...] = ()
    try:
        if looked is None:
            looked = time.monotonic()
            facts = _with_cards(host, facts)
        probed = copying.run(reader, facts, wish, progress)
        transfers = probed.transfers
        if transfers:
            between = time.monotonic() - looked
            transfers = with_later(transfers, facts.gpus, _with_cards(host, facts).gpus, between)
    except KeyboardInterrupt:
        warnings = (*probed.facts.warnings, "interrupted while the cards were looked at")
        cuda = msgspec.structs.replace(probed.facts, warnings=warnings, interrupted=True)
        probed = msgspec.structs.replace(probed, facts=cuda)
    return msgspec.structs.replace(
        report,
        facts=msgspec.structs.replace(report.facts, cuda=probed.facts),
        transfers=transfers,
        gaps=_with_gaps(report, "cuda", reader.gaps),
    )


def _with_cards(host: Host, facts: Facts) -> Facts:
    """The facts with the cards as they are now."""
    again = _Run(host)
    again.alone("gpu")
    now = again.facts()
    return msgspec.structs.replace(facts, gpu=now.gpu, gpus=now.gpus)


def _with_gaps(report: Report, check: str, gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Those of one check in the place of what it told before."""
    return (*(gap for gap in report.gaps if gap.check != check), *gaps)


def capture(directory: Path, *, kernels: str | None, keep_identities: bool) -> None:
    """Probe this machine and keep in `directory` what the probes were told. Raises OSError.

    `kernels` is as collect's; None measures no memory, and starts CUDA all the same: its answer is
    part of a diagnosis.
    """
    from nodecheck.machine.recording import RecordingHost

    host = RecordingHost(directory, keep_identities=keep_identities)
    report = collect(host, kernels=kernels or "never")
    gpus = GpuProbe(gpu=report.facts.gpu, gpus=report.facts.gpus)
    host.keep_facts("nvml.json", gpus if gpus != GpuProbe() else None)
    cuda = report.facts.cuda
    if kernels is None:
        asking = _Run(host)
        asking.alone("cuda", "auto")
        cuda = asking.facts().cuda
    host.keep_facts("cuda.json", cuda if cuda.state else None)
    measured = {"measurements": report.measurements}
    host.keep_facts("measurements.json", measured if report.measurements else None)


class _Run:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.probed: dict[str, Struct] = {}
        self.gaps: list[Gap] = []

    def side_by_side(
        self, tasks: dict[str, Callable[[], _Answer]], meanwhile: Callable[[], None]
    ) -> None:
        deadlines = {name: _deadline_seconds(name) for name in tasks}
        for name, outcome in child.gather(tasks, _Answer, deadlines, meanwhile).items():
            self._take(name, outcome)

    def alone(self, name: str, *arguments: object) -> None:
        task, deadline = self.task(name, *arguments), _deadline_seconds(name)
        self._take(name, child.call(task, _Answer, deadline))

    def task(self, name: str, *arguments: object) -> Callable[[], _Answer]:
        """What a probe's child does; it imports the probe itself, side by side with the others."""

        def work() -> _Answer:
            reader = Reader(self.host, name)
            probe = importlib.import_module(f"nodecheck.checks.{name}.probe").probe
            facts = probe(reader, *arguments)
            return _Answer(facts=msgspec.Raw(msgspec.json.encode(facts)), gaps=tuple(reader.gaps))

        return work

    def _take(self, name: str, outcome: Outcome[_Answer]) -> None:
        if outcome.value is None:
            reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
            self._without(name, reason, f"the {name} probe: {outcome.error}")
            return
        facts = msgspec.json.decode(outcome.value.facts, type=FACTS[name])
        self.gaps.extend(outcome.value.gaps)
        if isinstance(facts, GpuProbe):
            facts = self._believable(facts)
        if wrong := absurd(facts):
            self._without(name, Reason.FAILED, f"the {name} probe: {wrong[:200]}, which cannot be")
            return
        self.probed[name] = facts

    def _believable(self, probed: GpuProbe) -> GpuProbe:
        """The cards without what cannot be: one absurd number hides no other card's fault."""
        cards = []
        for gpu in probed.gpus:
            card, wrong = without_absurd(gpu)
            cards.append(card)
            for member, words in wrong.items():
                detail = f"{card.label}: {words[:200]}, which cannot be"
                self.gaps.append(
                    Gap(check=GPU, field=f"gpus.{member}", reason=Reason.FAILED, detail=detail)
                )
        return msgspec.structs.replace(probed, gpus=tuple(cards))

    def _without(self, name: str, reason: Reason, detail: str) -> None:
        self.gaps.append(Gap(check=name, field="*", reason=reason, detail=detail))
        self.probed[name] = FACTS[name]()

    def facts(self) -> Facts:
        """The facts of the probes that have run."""
        members: dict[str, Any] = {n: f for n, f in self.probed.items() if n not in PROBES}
        if isinstance(gpu := self.probed.get("gpu"), GpuProbe):
            members |= {"gpu": gpu.gpu, "gpus": gpu.gpus}
        if isinstance(dram := self.probed.get("dram"), DramProbe):
            members["dram"] = dram.facts
        if isinstance(cuda := self.probed.get("cuda"), CudaProbe):
            members["cuda"] = cuda.facts
        return Facts(**members)


def _deadline_seconds(name: str) -> float:
    seconds: float = importlib.import_module(f"nodecheck.checks.{name}").DEADLINE_SECONDS
    return seconds


def _named_model(weights_bytes: int | None) -> Workload | None:
    """The model that a capture was taken for, of which nothing but its size is known."""
    if weights_bytes is None:
        return None
    like = ReferenceWorkload()
    return from_numbers("captured", weights_bytes, like.layers, like.weight_type)


def _host_info(host: Host) -> HostInfo:
    reader = Reader(host, "host")
    held = tuple(n for n, paths in PRIMARY_INPUTS.items() if any(map(host.exists, paths)))
    return HostInfo(
        source="live" if host.live else "captured",
        holds=CHECKS if host.live else held,
        name=reader.text("/proc/sys/kernel/hostname", None),
        kernel=reader.text("/proc/sys/kernel/osrelease", None),
    )
