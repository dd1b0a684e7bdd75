"""What was read or measured and is fine. Absent data rules nothing out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nodecheck.checks.gpu.facts import HOLDING
from nodecheck.checks.pcie.facts import Path
from nodecheck.judge.engine.answer import Doing, answer
from nodecheck.judge.engine.answer import name as engine_name
from nodecheck.judge.node import best_read
from nodecheck.links import GENERATIONS
from nodecheck.model import Severity
from nodecheck.report import Report
from nodecheck.units import count, gb_per_second, gib, listed, percent


def ruled_out(report: Report) -> tuple[str, ...]:
    """Short statements, each of a subject that was seen and has no warning or critical finding."""
    faulty = {
        f.id.split(".")[0] for f in report.findings if f.severity is not Severity.INFO or f.waived
    }
    return tuple(
        said for subject, say in _STATEMENTS if subject not in faulty and (said := say(report))
    )


def _cpu(report: Report) -> str | None:
    cpu = report.facts.cpu
    if cpu.x86_64_level is not None and cpu.x86_64_level >= 3:
        return f"CPU: x86-64-v{cpu.x86_64_level}"
    return (
        "CPU: AArch64 with dot product"
        if cpu.arch == "aarch64" and "asimddp" in (cpu.flags or ())
        else None
    )


def _limits(report: Report) -> str | None:
    limits = report.facts.limits
    unread = any((g.check, g.field) == ("limits", "cpu_quota") for g in report.gaps)
    none_set = limits.cgroup_path is not None and limits.cpu_quota is None and not unread
    return "limits: no CPU quota" if none_set else None


def _steal(report: Report) -> str | None:
    share = report.facts.cpu.steal_share
    limit = any(f.id == "cpu.steal" for f in report.findings)
    return f"steal: {percent(share)}" if share is not None and not limit else None


def _memory(report: Report) -> str | None:
    available = report.facts.memory.available_bytes
    if any(strategy.limit == "RAM size" for strategy in report.strategies):
        return None
    return f"RAM: {gib(available)} available" if available is not None else None


def _bandwidth(report: Report) -> str | None:
    best = best_read(report.measurements)
    if best is None or "contended" in best.flags:
        return None
    rate = gb_per_second(best.median_bytes_per_second)
    return f"DRAM read: {rate} on {count(best.threads, 'thread')}"


def _disk(report: Report) -> str | None:
    sizes = [f.available_bytes for f in report.facts.disk.filesystems if f.persistent]
    known = [size for size in sizes if size is not None]
    told = any(f.id.startswith("disk.") for f in report.findings)
    return f"disk: {gib(max(known))} available" if known and not told else None


def _pcie(report: Report) -> str | None:
    """Width and generation as the links run now; of links that idle lower only the width."""
    if any(f.id == "pcie.virtual_port" for f in report.findings):
        return None
    idle = any(f.id in ("pcie.idle_downshift", "pcie.unknown_link") for f in report.findings)
    other_way = {gpu.pci_address for gpu in report.facts.gpus if gpu.chip_to_chip}
    paths = [path for path in report.facts.pcie.paths if path.accelerator not in other_way]
    links = Counter(filter(None, (_link(path, idle) for path in paths)))
    if not links or sum(links.values()) < len(paths):
        return None
    said = ", ".join(f"{number}x {link}" for link, number in links.items())
    return f"PCIe width: {said}" if idle else f"PCIe: {said}"


def _link(path: Path, width_only: bool) -> str | None:
    real = [hop for hop in path.outside if not hop.emulated]
    widths = [hop.current_width for hop in real if hop.current_width]
    speeds = [hop.current_gts for hop in real if hop.current_gts]
    generation = GENERATIONS.get(min(speeds)) if speeds else None
    if not widths or (generation is None and not width_only):
        return None
    return f"x{min(widths)}" if width_only else f"Gen{generation} x{min(widths)}"


def _gpu(report: Report) -> str | None:
    gpus = [g for g in report.facts.gpus if report.facts.grants(g)]
    if not gpus or any(g.clocks_event_reasons is None for g in gpus):
        return None
    if any(reason in HOLDING for g in gpus for reason in g.clocks_event_reasons or ()):
        return None
    states = sorted({f"P{g.performance_state}" for g in gpus if g.performance_state is not None})
    return f"GPUs: {', '.join(states)}, no slowdown" if states else "GPUs: no slowdown"


def _gpu_memory(report: Report) -> str | None:
    """No error, and no repair that waits; of cards that count none, as GeForce, nothing is said."""
    gpus = [g for g in report.facts.gpus if report.facts.grants(g)]
    if not gpus or any(g.ecc_volatile_uncorrectable != 0 or g.remap_pending for g in gpus):
        return None
    return "GPU memory: no uncorrectable error"


def _nvlinks(report: Report) -> str | None:
    """Where every card has all up that it knows of."""
    links = [g.nvlinks or () for g in report.facts.gpus if report.facts.grants(g)]
    if len(links) < 2 or not all(each and all(link.active for link in each) for each in links):
        return None
    numbers = [str(number) for number in sorted(set(map(len, links)))]
    return f"NVLink: {len(links)}x {listed(numbers)} up"


def _python(report: Report) -> str | None:
    libraries = report.facts.python.libraries
    fine = [f"{x.name} {x.version or ''}".strip() for x in libraries if x.outcome == "ok"]
    if not fine or len(fine) < len(libraries):
        return None
    return f"Python: {listed(fine, 4)} can be imported"


def _engine(report: Report) -> str | None:
    if answer(report).doing is not Doing.WELL:
        return None
    return f"engine: nothing slows {engine_name(report.facts.engine)}"


_STATEMENTS: tuple[tuple[str, Callable[[Report], str | None]], ...] = (
    ("pcie", _pcie),
    ("gpu", _gpu),
    ("gpu", _gpu_memory),
    ("gpu", _nvlinks),
    ("cpu", _cpu),
    ("cpu", _limits),
    ("", _steal),
    ("mem", _memory),
    ("mem", _bandwidth),
    ("disk", _disk),
    ("engine", _engine),
    ("python", _python),
)
