"""What man pages tell that click does not know: exit statuses, environment and files."""

from __future__ import annotations

from dataclasses import dataclass

import click

Entry = tuple[frozenset[str], str, str]
"""Of which commands it is true, its tag, its text."""


@dataclass(frozen=True)
class Told:
    """What is true of a command: the words that an entry may ask for."""

    words: frozenset[str]

    @classmethod
    def of(cls, ctx: click.Context) -> Told:
        """Its path, its options, and whether it prints for people or is a gate."""
        options = {option for param in ctx.command.params for option in param.opts}
        path = ctx.command_path
        gates = {"gate"} if path == "nodecheck gate" else {"no gate"}
        return cls(frozenset({path, *options, *gates}))

    def pick(self, entries: list[Entry]) -> list[tuple[str, str]]:
        """Tag and text of those that hold for it."""
        return [(tag, text) for asked, tag, text in entries if asked & self.words]


def _of(*words: str) -> frozenset[str]:
    return frozenset(words)


_HISTORY = _of(
    "nodecheck", "nodecheck attach", "--from", "nodecheck snapshot", "nodecheck history",
    "nodecheck history export", "nodecheck compare", "nodecheck daemon",
)  # fmt: skip
_POLICY = _of("--policy", "nodecheck attach", "nodecheck policy check")
_PRINTS = _of(
    "nodecheck", "--html", "nodecheck attach", "nodecheck explain", "nodecheck policy check"
)

EXIT_STATUS: list[Entry] = [
    (_of("no gate"), "0", "The work was done, whatever a report says."),
    (_of("no gate"), "1", "It could not be done; one line on standard error says why."),
    (_of("no gate"), "2", "Wrong usage."),
    (_of("gate"), "0", "The node may go on: ok."),
    (
        _of("gate"),
        "1",
        (
            "A warning. With --exit-style npd: not ok, be it a warning or critical. With "
            "--exit-style posix, and with --slurm: anything that fails the gate."
        ),
    ),
    (_of("gate"), "2", "Critical. With --exit-style npd: unknown."),
    (
        _of("gate"),
        "3",
        (
            "Unknown, as are wrong usage and failures of nodecheck (with --exit-style npd 2, with "
            "--exit-style posix and with --slurm 1)."
        ),
    ),
]

ENVIRONMENT: list[Entry] = [
    (_HISTORY, "NODECHECK_HISTORY", "The file that holds the history of this node."),
    (
        _HISTORY,
        "XDG_STATE_HOME",
        (
            "Where an ordinary user's history lies unless NODECHECK_HISTORY is set: in "
            "nodecheck/history.db below it."
        ),
    ),
    (
        _POLICY,
        "NODECHECK_POLICY",
        "The policy where --policy is not given: a file, or the name of a shipped policy.",
    ),
    (_PRINTS, "NO_COLOR", "Print without colour where it is set."),
    (
        _of("nodecheck gate"),
        "SLURMD_NODENAME, SLURM_SCRIPT_CONTEXT",
        "Set by Slurm: the node's name, and whether --slurm is called by a prolog or an epilog.",
    ),
    (
        _of("nodecheck daemon"),
        "NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID",
        "Set by systemd: where readiness, status and signs of life are sent, and how often.",
    ),
]

FILES: list[Entry] = [
    (_of("nodecheck daemon"), "/etc/nodecheck/daemon.toml", "Settings, where none are named."),
    (_POLICY, "/etc/nodecheck/policy.toml", "The node's policy, where none is named."),
    (_HISTORY, "/var/lib/nodecheck/history.db", "The history, for root."),
    (_HISTORY, "~/.local/state/nodecheck/history.db", "The history, for others."),
]
