"""The figures that an answer on an engine rests on, each as a label and a sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from nodecheck.checks.cpu.isa import by_importance
from nodecheck.checks.engine.cpu_rules import cpus
from nodecheck.checks.engine.facts import CardUse, CpuLibrary, EngineFacts, ModelFile
from nodecheck.checks.engine.signs import known_sum, rate_words, read_per_second
from nodecheck.checks.seen import Facts
from nodecheck.units import count, gib, listed, percent, ranges

FILES_SHOWN, LIBRARIES_SHOWN, CARDS_SHOWN, OTHERS_SHOWN, SETS_SHOWN = 3, 3, 8, 4, 3
PATH_MOST = 56
"""Characters of a path that fit beside a label on 80 columns."""

Row = tuple[str, str]


def rows(facts: Facts) -> list[Row]:
    """What is known, each with its label; the first of several lines of a label has it."""
    flags = facts.cpu.usable_flags or ()
    libraries = tuple(_of_cpu(library, flags) for library in facts.engine.libraries)
    engine = replace(facts.engine, libraries=libraries)
    return [row for make in _ROWS for row in make(engine)]


def _of_cpu(library: CpuLibrary, flags: Collection[str]) -> CpuLibrary:
    """Without what it leaves out that this CPU has not either."""
    left_out = tuple(name for name in library.left_out or () if name in flags)
    return replace(library, left_out=left_out)


def _cpus(facts: EngineFacts) -> Iterator[Row]:
    if facts.cpus is None:
        return
    usable = facts.usable_cpus
    of = f" of {len(usable)} ({ranges(usable)})" if usable else ""
    yield "CPUs", "; ".join(filter(None, (f"{facts.cpus:.2f} used{of}", *_node_cpus(facts))))


def _node_cpus(facts: EngineFacts) -> Iterator[str]:
    if facts.busy_cpus is not None:
        yield f"{facts.busy_cpus:.2f} of the node's are busy"
    if facts.steal_share and percent(facts.steal_share) != percent(0):
        yield f"the hypervisor took {percent(facts.steal_share)}"


def _quota(facts: EngineFacts) -> Iterator[Row]:
    group = facts.cpu_group
    if group is None:
        return
    told = [cpus(group.quota_cpus)]
    if group.periods is not None and group.throttled_periods is not None:
        told.append(f"stopped in {group.throttled_periods} of {count(group.periods, 'period')}")
    if group.throttled_seconds:
        told.append(f"for {group.throttled_seconds:.1f} s in all")
    yield "quota", f"{', '.join(told)} ({short(group.source)})"


def _memory(facts: EngineFacts) -> Iterator[Row]:
    told = [
        f"{gib(size)} {words}"
        for member, words in (
            ("resident_bytes", "resident"),
            ("swapped_bytes", "in swap"),
            ("locked_bytes", "locked"),
        )
        if (size := known_sum(getattr(each, member) for each in facts.processes))
    ]
    if told:
        yield "memory", ", ".join(told)
    group = facts.memory_group
    if group is not None:
        used = f", {gib(group.current_bytes)} of it used" if group.current_bytes else ""
        hits = f", met {count(group.limit_hits, 'time')}" if group.limit_hits else ""
        yield "limit", f"{gib(group.limit_bytes)}{used}{hits} ({short(group.source)})"


def _disk(facts: EngineFacts) -> Iterator[Row]:
    faults = known_sum(each.major_faults for each in facts.processes)
    read, ever = read_per_second(facts), known_sum(p.read_total_bytes for p in facts.processes)
    told = [f"{count(faults, 'page fault')} waited for it"] if faults is not None else []
    told += [f"{rate_words(read)} read"] if read is not None else []
    told += [f"{gib(ever)} since it began"] if ever else []
    group = facts.memory_group
    again = group.file_refaults if group and group.file_refaults is not None else None
    told += [f"{count(again, 'page')} had been in memory before"] if again else []
    if told:
        yield "disk", ", ".join(told)


def _files(facts: EngineFacts) -> Iterator[Row]:
    files = sorted(facts.model_files, key=lambda each: -(each.size_bytes or 0))
    for number, file in enumerate(files[:FILES_SHOWN]):
        yield "" if number else "model", f"{short(file.path)}: {_file(file)}"
    if rest := files[FILES_SHOWN:]:
        size = known_sum(each.size_bytes for each in rest)
        known = f", {gib(size)}" if size else ""
        yield "", f"{count(len(rest), 'file')} more{known}"


def _file(file: ModelFile) -> str:
    size = "" if file.size_bytes is None else gib(file.size_bytes)
    what = " ".join(filter(None, (size, file.weight_type)))
    if not file.size_bytes or file.cached_bytes is None:
        return f"{what}, how much of it is in memory is not known".removeprefix(", ")
    return f"{what}, {percent(min(1.0, file.cached_bytes / file.size_bytes))} in memory"


def _libraries(facts: EngineFacts) -> Iterator[Row]:
    for number, library in enumerate(facts.libraries[:LIBRARIES_SHOWN]):
        yield "" if number else "library", _library(library)
    if (more := len(facts.libraries) - LIBRARIES_SHOWN) > 0:
        yield "", f"{more} more"


def _library(library: CpuLibrary) -> str:
    name = library.path.rpartition("/")[2]
    if library.compiled is None:
        return f"{name} ({library.family}), built for {library.variant or 'what the CPU has'}"
    built = _sets(library.compiled) or "no more than the least"
    without = f", without {_sets(library.left_out or ())}" if library.left_out else ""
    return f"{name} ({library.family}), built with {built}{without}"


def _sets(names: Sequence[str]) -> str:
    known, others = by_importance(names)
    return listed([*known, *others], SETS_SHOWN)


def _cards(facts: EngineFacts) -> Iterator[Row]:
    cards = sorted(facts.cards, key=lambda card: -(card.memory_bytes or 0))
    for number, card in enumerate(cards[:CARDS_SHOWN]):
        yield "" if number else "GPU", f"{card.card}: {_card(card)}"
    if (more := len(cards) - CARDS_SHOWN) > 0:
        yield "", f"{more} more: --json has them"


def _card(card: CardUse) -> str:
    held = "memory not told" if card.memory_bytes is None else f"{gib(card.memory_bytes)} held"
    busy = card.utilisation_share
    return f"{held}, {'load not told' if busy is None else f'{percent(busy)} busy'}"


def _numa(facts: EngineFacts) -> Iterator[Row]:
    sizes: dict[int, int] = {}
    for process in facts.processes:
        for node, size in (process.numa_bytes or {}).items():
            sizes[node] = sizes.get(node, 0) + size
    if len(sizes) > 1:
        told = ", ".join(f"{gib(size)} on node {node}" for node, size in sorted(sizes.items()))
        yield "NUMA", f"its memory: {told}"


def _others(facts: EngineFacts) -> Iterator[Row]:
    told = [f"{each.name} ({each.pid}) {each.cpus:.2f} CPUs" for each in facts.others]
    if told:
        yield "others", listed(told, OTHERS_SHOWN)


def _settings(facts: EngineFacts) -> Iterator[Row]:
    told = [f"{name.replace('_', ' ')} {value}" for name, value in facts.settings.items()]
    told += [f"{name}={value}" for name, value in facts.environment.items()]
    if told:
        yield "settings", ", ".join(told)


def short(path: str) -> str:
    """The end of a path that is too long for a line."""
    if len(path) <= PATH_MOST:
        return path
    end = path[3 - PATH_MOST :]
    return f"...{end[max(0, end.find('/')) :]}"


_ROWS: tuple[Callable[[EngineFacts], Iterator[Row]], ...] = (
    _cpus, _quota, _memory, _disk, _files, _libraries, _cards, _numa, _others, _settings,
)  # fmt: skip
