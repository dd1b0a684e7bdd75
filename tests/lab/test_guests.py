"""The real program in real guests: what CPU types hide, as an ordinary user sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodecheck.model import Finding, Severity, Status
from nodecheck.report import Report, from_json
from tests.lab.debian import NotHereError
from tests.lab.guest_image import Image, prepare
from tests.lab.guests import Guest, Told, boot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

PROXMOX_V2_AES = "qemu64,+aes,+popcnt,+pni,+sse4.1,+sse4.2,+ssse3"
"""What Proxmox passes for its CPU type x86-64-v2-AES."""

ACCELERATOR, PORT = "0000:01:00.0", "0000:00:10.0"
PCIE_DEVICES = (
    # a disk that says it is a 3D controller, in a port that says it has 16 lanes at 16 GT/s
    "-device", "pcie-root-port,id=wide,chassis=1,addr=10.0,x-speed=16,x-width=16",
    "-blockdev", "null-co,node-name=nothing",
    "-device", "virtio-blk-pci,bus=wide,class=0x0302,drive=nothing",
    "-device", "pcie-root-port,id=plain,chassis=2,addr=11.0",
    "-device", "x3130-upstream,id=switch,bus=plain",
    "-device", "xio3130-downstream,id=down1,bus=switch,chassis=3",
    "-device", "xio3130-downstream,id=down2,bus=switch,chassis=4",
    "-device", "e1000e,bus=down1,romfile=",
    "-device", "VGA",
)  # fmt: skip


@pytest.fixture(scope="module")
def image() -> Image:
    try:
        return prepare()
    except NotHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def kvm64(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return boot(image, Guest("kvm64", capture=True), tmp_path_factory.mktemp("kvm64"))


def named(report: Report, *prefixes: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.id.startswith(prefixes)]


def is_masked(report: Report, level: int) -> None:
    """It says that the hypervisor hides instructions, and nothing beside or beyond that."""
    cpu = report.facts.cpu
    assert cpu.x86_64_level == level
    assert cpu.hypervisor == "qemu"
    masked, *others = named(report, "cpu.hypervisor_masked", "cpu.no_", "cpu.flags_")
    assert others == []
    assert (masked.id, masked.severity) == ("cpu.hypervisor_masked", Severity.CRITICAL)
    assert report.verdict.status is Status.CRITICAL
    claims_no_silicon(report, masked)


def claims_no_silicon(report: Report, masked: Finding) -> None:
    """What is hidden faults in this emulator, whatever the silicon has: that proves nothing."""
    cpu = report.facts.cpu
    hidden = set(cpu.witness or {}) - set(cpu.usable_flags or ())
    assert hidden >= {"bmi2"}
    assert {(cpu.witness or {})[name] for name in hidden} == {"sigill"}
    assert not [e for e in masked.evidence if "execut" in e.value + e.source]
    assert "would give" not in masked.remedy.text


def test_kvm64_is_masked(kvm64: Told) -> None:
    is_masked(kvm64.report, level=1)
    assert kvm64.report.facts.cpu.brand == "Common KVM processor"


@pytest.mark.parametrize(
    ("guest", "level"),
    [
        pytest.param(Guest("qemu64"), 1, id="qemu64"),
        pytest.param(Guest(PROXMOX_V2_AES, machine="pc"), 2, id="Proxmox-x86-64-v2-AES"),
        pytest.param(Guest("Westmere"), 2, id="Westmere"),
    ],
)
def test_a_generic_type_is_masked(image: Image, tmp_path: Path, guest: Guest, level: int) -> None:
    is_masked(boot(image, guest, tmp_path).report, level)


def test_haswell_is_sound_and_so_are_emulated_links(image: Image, tmp_path: Path) -> None:
    report = boot(image, Guest("Haswell", devices=PCIE_DEVICES), tmp_path).report
    assert report.facts.cpu.x86_64_level == 3
    assert named(report, "cpu.hypervisor_masked", "cpu.no_", "cpu.flags_") == []
    [way] = report.facts.pcie.paths
    assert [hop.address for hop in way.hops] == [ACCELERATOR, PORT]
    port = way.hops[1]
    assert (port.current_gts, port.current_width) == (2.5, 1)
    assert (port.maximum_gts, port.maximum_width) == (16.0, 16)
    links = [(f.id, f.severity, f.subject) for f in named(report, "pcie.")]
    assert links == [("pcie.virtual_port", Severity.INFO, PORT)]
    assert report.verdict.status is not Status.CRITICAL


def test_two_threads_are_one_core(image: Image, tmp_path: Path) -> None:
    guest = Guest("Haswell", topology="2,sockets=1,cores=1,threads=2")
    report = boot(image, guest, tmp_path).report
    cpu = report.facts.cpu
    assert (cpu.logical_cpus, cpu.physical_cores, cpu.sockets) == (2, 1, 1)
    assert [f.id for f in named(report, "cpu.")] == ["cpu.few_cores"]


def judged(*arguments: str | Path) -> Report:
    """The report that this checkout makes, outside of any guest."""
    command = [sys.executable, "-m", "nodecheck", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return from_json(done.stdout, " ".join(map(str, arguments)))


def test_a_tree_captured_in_a_guest_is_judged_alike_elsewhere(kvm64: Told) -> None:
    assert kvm64.text("capture.status") == "0"
    captured = judged("--root", kvm64.folder / "tree")
    assert captured.findings == judged("--from", kvm64.folder / "report.json").findings
    assert captured.verdict.status is kvm64.report.verdict.status
    assert [f.id for f in captured.findings] == [f.id for f in kvm64.report.findings]
