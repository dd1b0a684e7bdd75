"""Who set a control group's limits, and how that one raises them."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Owner, Struct


class Setter(Struct, frozen=True):
    """One maker of groups: `where` ends the sentence "raise the limit ...".

    {cpus}, {percent} and {memory} in the commands are the caller's to fill; `action` is what makes
    a changed limit count.
    """

    where: str
    action: Action
    owner: Owner
    cpu_command: str | None = None
    memory_command: str | None = None
    cost: str = "Nothing, it counts at once"


_KUBERNETES = Setter(
    where="in the pod's resources.limits",
    action=Action.RESTART_CONTAINER,
    owner=Owner.OPERATOR,
    cpu_command="kubectl set resources deployment/<NAME> --limits=cpu={cpus}",
    memory_command="kubectl set resources deployment/<NAME> --limits=memory={memory}",
    cost="One restart of the pod",
)
_DOCKER = Setter(
    where="on the container",
    action=Action.CHANGE_SETTING,
    owner=Owner.OPERATOR,
    cpu_command="docker update --cpus={cpus} <CONTAINER>",
    memory_command="docker update --memory={memory} --memory-swap={memory} <CONTAINER>",
)
_PODMAN = Setter(
    where="on the container",
    action=Action.CHANGE_SETTING,
    owner=Owner.OPERATOR,
    cpu_command="podman update --cpus={cpus} <CONTAINER>",
    memory_command="podman update --memory={memory} <CONTAINER>",
)
_PROXMOX_CONTAINER = Setter(
    where="on the container, on the host",
    action=Action.CHANGE_SETTING,
    owner=Owner.OPERATOR,
    cpu_command="pct set <CTID> --cpulimit {cpus}  # Proxmox, on its host",
    memory_command="pct set <CTID> --memory <MIB>  # Proxmox, on its host",
)
_LXC = Setter(
    where="on the container, on the host",
    action=Action.CHANGE_SETTING,
    owner=Owner.OPERATOR,
    cpu_command="lxc config set <CONTAINER> limits.cpu.allowance {percent}%  # on the host",
    memory_command="lxc config set <CONTAINER> limits.memory {memory}  # on the host",
)
_SLURM = Setter(
    where="in the job's request",
    action=Action.RESTART_ENGINE,
    owner=Owner.USER,
    cpu_command="sbatch --cpus-per-task={cpus} <JOB>",
    memory_command="sbatch --mem={memory} <JOB>",
    cost="The job is submitted again",
)
_SYSTEMD = Setter(
    where="on the unit",
    action=Action.CHANGE_SETTING,
    owner=Owner.OPERATOR,
    cpu_command="sudo systemctl set-property <UNIT> CPUQuota={percent}%",
    memory_command="sudo systemctl set-property <UNIT> MemoryMax={memory}",
)
_UNKNOWN = Setter(
    where="where the control group is made", action=Action.CHANGE_SETTING, owner=Owner.OPERATOR
)

# the first part of a group's path that names its maker; inner makers before the systemd around them
_BY_PATH = (
    ("kubepods", _KUBERNETES),
    ("libpod", _PODMAN),
    ("docker", _DOCKER),
    ("slurm", _SLURM),
    ("lxc", _LXC),
    (".service", _SYSTEMD),
    (".scope", _SYSTEMD),
    (".slice", _SYSTEMD),
)
_BY_CONTAINER = {
    "kubernetes": _KUBERNETES,
    "docker": _DOCKER,
    "podman": _PODMAN,
    "lxc": _LXC,
}


def setter(seen: Seen, source: str | None) -> Setter:
    """Who set the limit read at `source`: by the group's path, else by the kind of container."""
    path = f"{seen.facts.limits.cgroup_path or ''} {source or ''}".lower()
    found = next((maker for part, maker in _BY_PATH if part in path), None)
    found = found or _BY_CONTAINER.get(seen.facts.virt.container or "", _UNKNOWN)
    if found is _LXC and seen.facts.virt.platform == "proxmox":
        return _PROXMOX_CONTAINER
    return found
