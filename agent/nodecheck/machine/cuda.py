"""CUDA's driver through libcuda.so.1 alone: whether it starts, and how fast its cards copy.

The library and the driver under it can hang in a call for ever, so all of it runs in a child with
a deadline (cuda_child.py). What it had found before it hung or died is still told, and the function
that it was in. Rates are bytes a second by CUDA's own events, which are queued before and behind
several copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nodecheck.machine import nvidia_driver, stuck
from nodecheck.machine.host import Host
from nodecheck.model import Struct

LIBRARY = "libcuda.so.1"
STUCK_MARKER = "cuda"

WARM_UP_SECONDS = 0.3
"""A link that idled at its first generation and clocks that idled come up within this."""

STEP_COST_SECONDS = WARM_UP_SECONDS + 0.2
CONTEXT_SECONDS = 0.6
"""What a step and the first step of a card cost beside their samples."""

STALL_SECONDS = 15.0
"""No sample takes so long, and nothing before or behind all of them: a link at x1 fills and reads
back the 1 GiB of a copy on the card in 10 s."""

LIBRARY_MISSING, SYMBOL_MISSING, CHILD_DIED = -1, -2, -3
TOO_LITTLE_MEMORY, SYSTEM_REFUSED = -4, -5
UNFINISHED, NATIVE_MISSING = -6, -7
"""Errors beside CUDA's own. LIBRARY_MISSING: it is not there, or cannot be loaded. CHILD_DIED: the
library crashed. SYSTEM_REFUSED: we got no process, or it was killed. UNFINISHED: the child hung or
died in this card's step."""


class Card(Struct, frozen=True, kw_only=True):
    """One device; `position` is CUDA's number for it in the order of PCI addresses."""

    position: int
    pci_address: str | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """What CUDA said. `error` is the code of the call that ended it, `message` its words.

    `version` is CUDA's number: 13000 is 13.0. What came before an error or a hang is there.
    """

    error: int | None = None
    call: str | None = None
    message: str | None = None
    hung: bool = False
    version: int | None = None
    cards: tuple[Card, ...] = ()


class Copy(Struct, frozen=True, kw_only=True):
    """One step of a plan: all `cards` (positions) copy at once, `name` is as Transfer's.

    Samples are taken until `seconds` are over, and at least 3. `peers` are the positions that
    peer_to_peer copies to, `cpus` those near each card, where its copies are issued and the host
    memory is touched; none: anywhere.
    """

    name: str
    cards: tuple[int, ...]
    peers: tuple[int, ...] = ()
    buffer_bytes: int
    seconds: float
    cpus: tuple[tuple[int, ...], ...] = ()


class Copied(Struct, frozen=True, kw_only=True):
    """What came of one card's part in step `step` of the plan.

    `rates` are bytes a second, one a sample, in order; device_copy counts bytes read and written.
    `seen` is what `look` said meanwhile. `direct` says whether a peer copy went from card to card,
    or through the host's memory. `error` is what went wrong, `call` the function. Where that was
    after copies, as they were read back, there are rates, and `intact` is None.
    """

    step: int
    card: int
    rates: tuple[float, ...] = ()
    buffer_bytes: int = 0
    intact: bool | None = None
    direct: bool | None = None
    seen: tuple[float | None, int | None] = (None, None)
    error: int | None = None
    call: str | None = None
    message: str | None = None


class Copies(Struct, frozen=True, kw_only=True):
    """All that was copied; `begun` steps were, and why no more where that is not the plan's end.

    It is `hung`, `error` or `interrupted`, by KeyboardInterrupt, with the function that it was in
    (`call`) and the reason (`message`); a `message` alone: there was no time; none of them: a card
    failed in a way that may be the whole process's, and the next step is of other cards. These may
    be tried in another call.
    """

    copied: tuple[Copied, ...] = ()
    begun: int = 0
    hung: bool = False
    interrupted: bool = False
    error: int | None = None
    call: str | None = None
    message: str | None = None


Look = Callable[[str], tuple[float | None, int | None]]
Begun = Callable[[int], None]


def worth_trying(host: Host) -> bool:
    """Whether there is any sign of NVIDIA's driver."""
    return nvidia_driver.has_library(LIBRARY) or nvidia_driver.is_loaded(host)


def query(cards_expected: int) -> Answer:
    """Start CUDA in a child, unless an earlier one still hangs in it. Wakes idle cards."""
    if refused := _kept_from_asking():
        return refused
    from nodecheck.machine import cuda_child

    return cuda_child.query(nvidia_driver.may_take_seconds(cards_expected))


def copy(
    plan: Sequence[Copy],
    cards_expected: int,
    look: Look,
    *,
    seconds: float = math.inf,
    begun: Begun = lambda _step: None,
) -> Copies:
    """Copy as planned, step by step, in one child.

    `look` is called there with a card's PCI address while it copies: GT/s and lanes of its link.
    `begun` is called here with the number of each step as it begins. A step takes STEP_COST_SECONDS
    besides its `seconds`, and CONTEXT_SECONDS for each card that is new; one that does not fit into
    the `seconds` of this call is not begun. Where nothing moves for STALL_SECONDS the child is
    killed. KeyError and ValueError are the plan's fault; KeyboardInterrupt is answered with what
    was copied.
    """
    if refused := _kept_from_asking():
        return Copies(hung=refused.hung, error=refused.error, message=refused.message)
    from nodecheck.machine import cuda_child

    start_seconds = nvidia_driver.may_take_seconds(cards_expected)
    work = cuda_child.Work(plan, start_seconds, seconds, begun)
    return work.copies(look)


def _kept_from_asking() -> Answer | None:
    """Why there is no child to ask CUDA in, as an answer; None where there may be one."""
    if pid := stuck.stuck_pid(STUCK_MARKER):
        return Answer(hung=True, message=f"not tried: process {pid} still hangs in CUDA")
    try:
        from nodecheck.machine import native  # noqa: F401 - whether it is there
    except ImportError as absent:
        return Answer(error=NATIVE_MISSING, message=str(absent))
    return None
