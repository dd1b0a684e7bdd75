"""What tests of cards that sysfs tells of have in common."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.checks.gpu.card_files import Told
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.machine.child import Outcome
from nodecheck.machine.host import CapturedHost
from nodecheck.model import Gap
from tests.checks.gpu.judging import probed


def card(host: CapturedHost) -> Gpu:
    """The only card of a node."""
    (gpu,) = probed(host)[0].gpus
    return gpu


def gaps_of(host: CapturedHost) -> dict[str, Gap]:
    return {gap.field: gap for gap in probed(host)[1]}


def in_turn(
    tasks: dict[str, Callable[[], Told]], *_: object, **__: object
) -> dict[str, Outcome[Told]]:
    """As child.gather, without children: what they would do is looked at."""
    return {name: Outcome(value=task()) for name, task in tasks.items()}
