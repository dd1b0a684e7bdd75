"""Rules about libraries that this processor cannot run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nodecheck.checks.python.facts import Library
from nodecheck.checks.python.libraries import NEEDS, PINS
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity

OF_THE_PROCESSOR = ("illegal_instruction", "refused")

CPU_TYPE = {
    "proxmox": (
        "qm set <VMID> --cpu host  # Proxmox, on its host",
        "qm shutdown <VMID> && qm start <VMID>  # Proxmox, on its host",
    ),
    "libvirt": (
        "virsh edit <domain>  # libvirt, on its host: <cpu mode='host-passthrough'/>",
        "virsh shutdown <domain> && virsh start <domain>  # libvirt, on its host",
    ),
}
"""How a guest is given the instructions of its host, in the words of its platform."""


def illegal_instruction(seen: Seen) -> Iterator[Finding]:
    """python.illegal_instruction: libraries whose machine code this processor does not run."""
    python = seen.facts.python
    dead = [lib for lib in python.libraries if lib.outcome in OF_THE_PROCESSOR]
    if not dead:
        return
    names = ", ".join(f"{lib.name} {lib.version}" if lib.version else lib.name for lib in dead)
    alive = sum(lib.outcome == "ok" for lib in python.libraries)
    yield Finding(
        id="python.illegal_instruction",
        severity=Severity.CRITICAL,
        subject=python.interpreter or "python",
        summary=f"This processor{_level(seen)} cannot run {names}",
        evidence=tuple(_evidence(lib, seen) for lib in dead),
        impact=(
            f"An engine in this environment that imports {dead[0].name} dies at its start; "
            f"{len(dead)} of {len(python.libraries)} libraries tried fail so, {alive} import"
        ),
        remedy=_remedy(dead, seen),
        owner=Owner.USER,
    )


def _level(seen: Seen) -> str:
    level = seen.facts.cpu.x86_64_level
    return f" (x86-64-v{level})" if level is not None else ""


def _evidence(lib: Library, seen: Seen) -> Evidence:
    died = lib.outcome == "illegal_instruction"
    said = f": {lib.detail}" if lib.detail else ""
    version = f" {lib.version}" if lib.version else ""
    needs = NEEDS.get(lib.name)
    return Evidence(
        value=f"{lib.name}{version} {'died by SIGILL (signal 4)' if died else 'refuses'}{said}",
        source=f"{seen.facts.python.interpreter} -c 'import {lib.name}'",
        expected="imports",
        basis=f"its published builds need {needs}" if needs else _beyond(seen),
    )


def _beyond(seen: Seen) -> str:
    level = seen.facts.cpu.x86_64_level
    shown = f"x86-64-v{level}, which" if level is not None else "those that"
    return f"it, or a library that it imports, needs instructions beyond {shown} this CPU shows"


def _remedy(dead: list[Library], seen: Seen) -> Remedy:
    virt = seen.facts.virt
    pip = f"{shlex.quote(seen.facts.python.interpreter or 'python')} -m "
    pins = tuple(pip + PINS[lib.name] for lib in dead if lib.name in PINS)
    text = (
        "Install builds that ask for less, or run the environment on a CPU that has the "
        "instructions"
    )
    commands: tuple[str, ...] = pins
    if virt.guest:
        text = (
            "Give the guest the instructions of its host, where the host has them: then every "
            "build runs. Else install builds that ask for less"
        )
        commands = (*CPU_TYPE.get(virt.platform or "", ()), *pins)
    return Remedy(
        text=text,
        action=Action.RECONFIGURE_VM if virt.guest else Action.CHANGE_SETTING,
        commands=commands,
        cost="A cold stop and start of the guest; a reinstall of these libraries otherwise"
        if virt.guest
        else "A reinstall of these libraries",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "python.illegal_instruction",
        "A library uses instructions that this processor does not run",
        illegal_instruction,
    ),
)
