"""How busy the node's cards are, and what the engine holds on them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence

from nodecheck.checks.engine.facts import CardUse
from nodecheck.checks.engine.tasks import parse_stat
from nodecheck.machine import nvml, pci
from nodecheck.machine.nvml_activity import LOOK_SECONDS, CardActivity
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason

_GPUS = "/proc/driver/nvidia/gpus"
_DRM = "/sys/class/drm"
_CARD = re.compile(r"card\d{1,3}")


def watch(reader: Reader, pids: Collection[int], seconds: float) -> tuple[CardUse, ...]:
    """The node's cards over so many seconds, or until none of these processes lives.

    None where no driver shows any, or in a capture.

    Gaps: cards, cards.memory_bytes, cards.utilisation_share.
    """
    if not reader.host.live:
        return ()

    def goes_on() -> bool:
        stats = (parse_stat(reader.text(f"/proc/{pid}/stat", None) or "") for pid in pids)
        return any(stat is not None and not stat.is_over for stat in stats)

    if not nvml.worth_trying(reader.host, nvidia_on_pci=False):
        return _amd(reader, seconds, goes_on)
    answer = nvml.watch(len(reader.names(_GPUS)), seconds, goes_on)
    if answer.message is not None:
        reason = Reason.TIMEOUT if answer.hung else Reason.FAILED
        reader.gap("cards", reason, answer.message)
    ours = reader.text("/proc/2/comm", None) == "kthreadd"
    uses = tuple(use_of(card, pids, names_ours=ours) for card in answer.cards)
    if any(use.memory_bytes is None for use in uses):
        detail = "NVML does not tell what this container's processes hold" if not ours else (
            "NVML does not tell what processes hold"
        )  # fmt: skip
        reader.gap("cards.memory_bytes", Reason.UNSUPPORTED, detail)
    if any(use.utilisation_share is None for use in uses):
        detail = "NVML tells no load of a card that is lost, or cut up by MIG"
        reader.gap("cards.utilisation_share", Reason.UNSUPPORTED, detail)
    return uses


def use_of(card: CardActivity, pids: Collection[int], *, names_ours: bool) -> CardUse:
    """What the processes `pids` have of a card.

    `names_ours` says that the driver's process ids are those that we see: in a container it lists
    those of the host, or none, so that a list without ours proves nothing.
    """
    share = sum(card.percents) / len(card.percents) / 100 if card.percents else None
    return CardUse(
        card=pci.normal_address(card.bus_id or "") or "unknown",
        memory_bytes=_memory(card, pids, names_ours=names_ours),
        utilisation_share=share,
        samples=len(card.percents),
    )


def _memory(card: CardActivity, pids: Collection[int], *, names_ours: bool) -> int | None:
    if card.processes is None:
        return None
    held = [process.memory for process in card.processes if process.pid in pids]
    if not held:
        return 0 if names_ours else None
    return None if None in held else sum(memory or 0 for memory in held)


def _amd(reader: Reader, seconds: float, goes_on: Callable[[], bool]) -> tuple[CardUse, ...]:
    """The load, which amdgpu tells; what a process holds on a card it does not."""
    folders = [f"{_DRM}/{name}/device" for name in reader.names(_DRM) if _CARD.fullmatch(name)]
    loads = {folder: [load] for folder in folders if (load := _load(reader, folder)) is not None}
    if not loads:
        return ()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and goes_on():
        time.sleep(min(left, LOOK_SECONDS))
        for folder, seen in loads.items():
            if (load := _load(reader, folder)) is not None:
                seen.append(load)
    reader.gap("cards.memory_bytes", Reason.UNSUPPORTED, "amdgpu does not tell what processes hold")
    return tuple(_amd_use(reader, folder, seen) for folder, seen in loads.items())


def _load(reader: Reader, folder: str) -> int | None:
    percent = reader.integer(f"{folder}/gpu_busy_percent", None)
    return percent if percent is not None and 0 <= percent <= 100 else None


def _amd_use(reader: Reader, folder: str, percents: Sequence[int]) -> CardUse:
    address = pci.normal_address(reader.host.real_path(folder).rpartition("/")[2])
    return CardUse(
        card=address or "unknown",
        utilisation_share=sum(percents) / len(percents) / 100,
        samples=len(percents),
    )
