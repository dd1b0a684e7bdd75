"""Why a model's files cannot be used. Each message is one line."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck import units
from nodecheck.words import without_controls

_LONGEST = 80
_MOST_NAMES = 5


class WorkloadError(ValueError):
    """Files that hold no model that can be read; the message is one line."""


class NotEnoughMetadata(WorkloadError):
    """A sound file that does not say what is needed of the model."""

    def __init__(self, missing: str) -> None:
        """Name what is missing."""
        super().__init__(f"not enough metadata: {missing}")


def shown(text: object) -> str:
    """Text of a file as it may stand in a message."""
    plain = without_controls(str(text)[: _LONGEST + 1])
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST] + "..."


def listed(names: Sequence[str]) -> str:
    """Names of a file as they may stand in a message: the first five, and how many more."""
    return units.listed([shown(name) for name in names], _MOST_NAMES)
