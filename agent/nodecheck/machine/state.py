"""Where nodecheck keeps what outlives a run: history, lock and markers of stuck probes."""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM = Path("/var/lib/nodecheck")


def directory() -> Path:
    """The directory of the history database; it need not exist."""
    if history := os.environ.get("NODECHECK_HISTORY"):
        return Path(history).parent
    if os.geteuid() == 0:
        return SYSTEM
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state) / "nodecheck"
    try:
        return Path.home() / ".local" / "state" / "nodecheck"
    except RuntimeError:  # a user without a home, as containers run them
        return SYSTEM


def history() -> Path:
    """The history database; it need not exist."""
    named = os.environ.get("NODECHECK_HISTORY")
    return Path(named) if named else directory() / "history.db"
