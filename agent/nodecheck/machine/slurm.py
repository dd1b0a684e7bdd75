"""Asks and tells slurmctld about this node, by scontrol."""

from __future__ import annotations

import os
import pwd
import re

from nodecheck.machine import command
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

ANSWER_SECONDS = 13.0
"""How long one call may take: longer than MessageTimeout of Slurm, 10 s unless it is set, so that
scontrol says itself what does not answer; two such calls fit into the limit of the health check."""

NODE_VARIABLE = "SLURMD_NODENAME"

_PREFIX = re.compile(r"^scontrol: (error|fatal): ")


def node_name() -> str:
    """This node's name: as slurmd tells its health check, else as slurmd would find it."""
    return os.environ.get(NODE_VARIABLE) or os.uname().nodename.partition(".")[0]


def user() -> str:
    """Who we are to Slurm, as scontrol names it. Source: uid_to_string of Slurm."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name if number else "root"
    except KeyError:
        return str(number)


def node_text(name: str) -> str:
    """What `scontrol show node` tells of a node. Raises UnreadableError."""
    return _scontrol("show", "node", name)


def drain(name: str, reason: str) -> None:
    """Let no more jobs start on a node; of one that is drained the reason is renewed.

    Raises UnreadableError.
    """
    _scontrol("update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")


def undrain(name: str) -> None:
    """Take the drain from a node. Raises UnreadableError.

    Not State=RESUME: should the node have gone DOWN or be rebooting by now, that would end it too.
    """
    _scontrol("update", f"NodeName={name}", "State=UNDRAIN")


def _scontrol(*arguments: str) -> str:
    done = command.run(("scontrol", *arguments), ANSWER_SECONDS)
    if done.status != 0:
        lines = [line for line in done.text.splitlines() if line.strip()]
        said = _PREFIX.sub("", lines[-1].strip()) if lines else f"exit status {done.status}"
        raise UnreadableError(Reason.FAILED, f"scontrol {arguments[0]}: {said[:200]}")
    return done.text
