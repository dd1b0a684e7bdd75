"""Containers, and what is said of guests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.checks.virt.probe import probe
from nodecheck.checks.virt.rules import RULES
from nodecheck.machine.host import CapturedHost, LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Finding, Gap, Severity
from nodecheck.policy import Policy
from tests.checks.cpu.cpus import KVM64, XEON, dmi
from tests.checks.virt.examples import LXC, ON_DISK, RAISES, SILENT
from tests.trees import Tree

Plant = Callable[[Tree], CapturedHost]


def probed(host: CapturedHost) -> tuple[VirtFacts, list[Gap]]:
    reader = Reader(host, "virt")
    return probe(reader), reader.gaps


def judge(facts: VirtFacts) -> dict[str, Finding]:
    what = Seen(facts=Facts(virt=facts), policy=Policy())
    return {finding.id: finding for rule in RULES for finding in rule.judge(what)}


@pytest.mark.parametrize("id_", sorted(RAISES))
def test_raised(node: Plant, id_: str) -> None:
    example = RAISES[id_]
    assert not isinstance(example, Seen)
    finding = judge(probed(node(example))[0])[id_]
    assert finding.severity is Severity.INFO
    assert all(item.value and item.source for item in finding.evidence)


@pytest.mark.parametrize("id_", sorted(SILENT))
def test_silent(node: Plant, id_: str) -> None:
    example = SILENT[id_]
    assert not isinstance(example, Seen)
    assert id_ not in judge(probed(node(example))[0])


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"proc/1/environ": "PATH=/bin\0container=lxc\0TERM=linux\0"}, "lxc"),
        ({"proc/1/environ": b"container=podman\0"}, "podman"),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        (
            {"proc/self/mountinfo": "500 400 0:50 / / rw shared:1 - overlay overlay rw\n"},
            "container",
        ),
        (LXC, "lxc"),
        ({"proc/1/environ": "mycontainer=lxc\0", "proc/self/mountinfo": ON_DISK}, None),
        ({"proc/self/mountinfo": ON_DISK + "9 27 0:5 / /mnt rw - overlay overlay rw\n"}, None),
        ({"proc/self/mountinfo": "garbage\n\0\n - \n1 2 3 - overlay\n"}, None),
    ],
)
def test_containers(node: Plant, files: Tree, name: str | None) -> None:
    facts, _ = probed(node(files))
    assert facts.container == name


def test_the_root_that_lies_on_top_counts(node: Plant) -> None:
    text = "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / / rw - ext4 /dev/vda rw\n"
    assert probed(node({"proc/self/mountinfo": text}))[0].container is None


def test_under_lxcfs_a_limit_counts_once(node: Plant) -> None:
    finding = judge(probed(node(LXC))[0])["virt.container"]
    assert "counts once" in finding.impact


def test_what_cannot_be_looked_at_is_unknown(node: Plant) -> None:
    facts, gaps = probed(node({"proc/version": "Linux"}))
    assert facts == VirtFacts()
    assert {gap.field for gap in gaps} == {"guest", "container"}


def test_a_bare_machine_is_known_to_be_none(node: Plant) -> None:
    facts, _ = probed(node({**XEON, **dmi("Dell Inc.", "PowerEdge R740")}))
    assert facts.guest is False
    assert facts.product_name == "PowerEdge R740"


def test_a_guest_names_its_machine_type(node: Plant) -> None:
    facts, _ = probed(node(KVM64))
    assert (facts.guest, facts.hypervisor, facts.machine_type) == (True, "kvm", "Q35")
    assert facts.guest_evidence[0] == "DMI sys_vendor: QEMU"


def test_the_live_node() -> None:
    assert isinstance(probe(Reader(LiveHost(), "virt")), VirtFacts)


@pytest.mark.parametrize(
    ("hypervisor", "platform", "told"),
    [
        ("vm-other", None, "(hypervisor not recognised)"),
        (None, None, "(hypervisor not recognised)"),
        ("kvm", "proxmox", "(KVM, Proxmox)"),
        ("amazon", "ec2", "(Amazon EC2)"),
        ("sre", None, "(sre)"),
    ],
)
def test_a_guest_is_named_in_words(hypervisor: str | None, platform: str | None, told: str) -> None:
    facts = VirtFacts(guest=True, hypervisor=hypervisor, platform=platform)
    assert judge(facts)["virt.guest"].summary == f"This is a virtual machine {told}"


@pytest.mark.parametrize(("kind", "told"), [("container", ""), ("docker", " (Docker)")])
def test_a_container_without_a_name_has_none(kind: str, told: str) -> None:
    found = judge(VirtFacts(container=kind))["virt.container"]
    assert found.summary == f"This process runs in a container{told}"
