"""CUDA that does not start: told by its error, and only where nothing else says it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.cuda.start_rules import judge_unavailable
from nodecheck.checks.gpu.facts import Fabric, Gpu, GpuFacts
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.checks.seen import Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.diagnose import rules
from nodecheck.model import Action, Finding, Severity
from tests.checks.cuda.nodes import address, card, failed, node

DOCKER = VirtFacts(guest=False, container="docker")
HUNG = CudaFacts(state="unresponsive", call="cuInit", message="no answer within 5 s")
ABSENT = "libcuda.so.1: cannot open shared object file: No such file or directory"
MISSING = CudaFacts(state="missing", call="dlopen", message=ABSENT)
UTILITY = replace(MISSING, capabilities=("utility",))


def judged(seen: Seen) -> list[Finding]:
    return list(judge_unavailable(seen))


def only(seen: Seen) -> Finding:
    (finding,) = judged(seen)
    assert finding.severity is Severity.CRITICAL
    assert finding.remedy.cost
    return finding


@pytest.mark.parametrize(
    ("cuda", "words", "action"),
    [
        (HUNG, "CUDA does not answer", Action.REBOOT),
        (replace(HUNG, devices=(address(0),)), "CUDA does not answer", Action.REBOOT),
        (replace(HUNG, call=None), "CUDA does not answer", Action.REBOOT),
        (replace(HUNG, call="cuEventSynchronize"), "CUDA hangs in a copy", Action.REBOOT),
        (replace(HUNG, call="a copy"), "CUDA hangs in a copy", Action.REBOOT),
        (MISSING, "libcuda.so.1 is not there", Action.CHANGE_SETTING),
        (replace(MISSING, message=None), "libcuda.so.1 is not there", Action.CHANGE_SETTING),
        (failed(999, uvm=False), "/dev/nvidia-uvm is not there", Action.CHANGE_SETTING),
        (failed(100, uvm=False), "/dev/nvidia-uvm is not there", Action.CHANGE_SETTING),
        (failed(101, uvm=False), "/dev/nvidia-uvm is not there", Action.CHANGE_SETTING),
        (failed(999, uvm=True), "the driver refuses", Action.RELOAD_DRIVER),
        (failed(100, uvm=None), "the driver refuses", Action.RELOAD_DRIVER),
        (failed(3), "the driver refuses", Action.RELOAD_DRIVER),
        (failed(46), "the driver refuses", Action.RELOAD_DRIVER),
        (failed(34), "the toolkit's stub", Action.CHANGE_SETTING),
        (failed(802), "the fabric between the cards is not ready", Action.CHANGE_SETTING),
        (failed(803), "different versions", Action.RELOAD_DRIVER),
        (failed(804), "forward-compatibility", Action.CHANGE_SETTING),
        (failed(805), "the MPS server", Action.RESTART_ENGINE),
        (failed(12345), "the driver refuses", Action.RELOAD_DRIVER),
        (failed(None, "the child died by SIGSEGV"), "the driver refuses", Action.RELOAD_DRIVER),
    ],
)
def test_the_error_tells_the_cause(cuda: CudaFacts, words: str, action: Action) -> None:
    finding = only(node(cuda=cuda))
    assert words in finding.summary
    assert finding.remedy.action is action
    assert finding.subject == "GPU 0 (NVIDIA L40, 0000:17:00.0)"
    assert (cuda.message or "") in finding.evidence[0].value


@pytest.mark.parametrize(
    ("cuda", "words"),
    [
        (MISSING, "NVIDIA_DRIVER_CAPABILITIES"),
        (failed(999, uvm=False), "nvidia-uvm on the host"),
        (failed(803), "Restart the container"),
        (failed(805), "IPC namespace"),
    ],
)
def test_in_a_container_the_fix_is_the_containers(cuda: CudaFacts, words: str) -> None:
    remedy = only(node(cuda=cuda, virt=DOCKER)).remedy
    assert words in remedy.text
    assert remedy.text != only(node(cuda=cuda)).remedy.text


@pytest.mark.parametrize(
    "words",
    [
        "libcuda.so.1: wrong ELF class: ELFCLASS32",
        "libcuda.so.1: file too short",
        "libnvidia-gpucomp.so.580.65.06: cannot open shared object file: No such file or directory",
    ],
)
@pytest.mark.parametrize("virt", [DOCKER, VirtFacts(guest=False)], ids=["docker", "bare"])
def test_a_library_that_cannot_be_loaded_is_not_called_absent(words: str, virt: VirtFacts) -> None:
    finding = only(node(cuda=replace(MISSING, message=words), virt=virt))
    assert finding.summary.endswith("its library libcuda.so.1 cannot be loaded")
    assert words in finding.evidence[0].value
    assert "not there, one for another processor" in finding.remedy.text


@pytest.mark.parametrize(
    "cuda",
    [
        UTILITY,
        replace(UTILITY, capabilities=()),
        replace(UTILITY, capabilities=("graphics", "utility", "video")),
        replace(UTILITY, message="libcuda.so.1: file too short"),
        failed(999, uvm=False, capabilities=("utility",)),
    ],
    ids=["utility", "no known word", "three", "a stump mounted", "a libcuda of the image's own"],
)
def test_a_container_that_was_started_without_cuda_is_told_not_blamed(cuda: CudaFacts) -> None:
    (finding,) = judged(node(cuda=cuda, virt=DOCKER))
    assert finding.severity is Severity.INFO
    assert finding.summary == "CUDA is not in this container: it was started without"
    assert finding.impact == "Programs in this container cannot compute on 1 card"
    assert finding.remedy.action is Action.NONE
    assert any("NVIDIA_DRIVER_CAPABILITIES" in each.value for each in finding.evidence)


@pytest.mark.parametrize(
    ("cuda", "virt"),
    [
        (MISSING, DOCKER),
        (replace(MISSING, capabilities=("compute", "utility")), DOCKER),
        (replace(MISSING, capabilities=("all",)), DOCKER),
        (UTILITY, VirtFacts(guest=False)),
        (failed(999, uvm=True, capabilities=("utility",)), DOCKER),
        (failed(803, uvm=False, capabilities=("utility",)), DOCKER),
        (replace(HUNG, capabilities=("utility",)), DOCKER),
    ],
    ids=["not told", "compute", "all", "no container", "refused", "mismatch", "hangs"],
)
def test_what_was_not_left_out_on_purpose_stays_a_fault(cuda: CudaFacts, virt: VirtFacts) -> None:
    only(node(cuda=cuda, virt=virt))


def test_too_little_memory_of_the_node_is_a_warning() -> None:
    (finding,) = judged(node(cuda=failed(2, "CUDA_ERROR_OUT_OF_MEMORY: out of memory")))
    assert finding.severity is Severity.WARNING
    assert "does not get the node's memory" in finding.summary
    assert "ulimit -v" in finding.remedy.commands
    assert "1 card" in finding.impact


def test_confidential_cards_that_are_not_set_ready_are_no_matter_of_the_fabric() -> None:
    driver = GpuFacts(state="ok", source="nvml", confidential_compute=True)
    finding = only(node(cuda=failed(802), driver=driver))
    assert "confidential computing" in finding.summary
    assert "sudo nvidia-smi conf-compute -srs 1" in finding.remedy.commands


def test_mig_without_instances_is_said() -> None:
    assert "MIG is on" in only(node((card(0, mig=True),), cuda=failed(100))).summary


def test_cards_that_were_asleep_may_only_be_slow() -> None:
    (finding,) = judged(node((card(0, persistence=False),), cuda=HUNG))
    assert finding.severity is Severity.WARNING
    assert "persistence" in finding.remedy.text
    assert judged(
        node((card(0, persistence=False),), cuda=replace(HUNG, devices=(address(0),)))
    ) == [finding]
    hanging = replace(HUNG, call="cuMemcpyHtoDAsync_v2", devices=(address(0),))
    assert "hangs in a copy" in only(node((card(0, persistence=False),), cuda=hanging)).summary


def test_a_number_of_ours_is_not_told_as_cudas() -> None:
    assert "error" not in only(node(cuda=failed(None, "died"))).evidence[0].value
    assert "(error 999)" in only(node(cuda=failed(999))).evidence[0].value


def test_the_drivers_events_are_evidence() -> None:
    log = KernelLogFacts(
        source="dmesg",
        xids=(
            Xid(code=119, pci_address=address(0), text="Timeout waiting for RPC from GSP"),
            Xid(code=13, pci_address=address(0), text="old", recovered=True),
        ),
    )
    values = [e.value for e in only(node(cuda=failed(999), kernel_log=log)).evidence]
    assert any(value.startswith("Xid 119: Timeout") for value in values)
    assert not any("old" in value for value in values)


def test_a_missing_device_file_is_evidence_where_it_can_be_the_reason() -> None:
    sources = [e.source for e in only(node(cuda=failed(803, uvm=False))).evidence]
    assert "/dev" not in sources
    assert "/dev" in [e.source for e in only(node(cuda=failed(999, uvm=False))).evidence]


UNREADY = card(0, fabric=Fabric(state="in_progress"))
SWITCHES = GpuFacts(state="ok", source="nvml", nvswitches=4, fabric_manager=False)


@pytest.mark.parametrize(
    "seen",
    [
        node(cuda=CudaFacts()),
        node(cuda=CudaFacts(message="the C extension is not there")),
        node((card(0, compute_mode="exclusive_process"),), cuda=failed(46)),
        node((card(0, compute_mode=None),), cuda=failed(46)),
        node((UNREADY,), cuda=failed(802)),
        node(cuda=failed(802), driver=SWITCHES),
        node((card(0, lost=True), card(1)), cuda=failed(999)),
        node((card(0, error="GPU requires reset"), card(1)), cuda=failed(999)),
        node((card(0, granted=False),), cuda=failed(999)),
        node((card(0, device_file=False),), cuda=failed(999), virt=DOCKER),
        node((card(0, vendor="amd"),), cuda=failed(100)),
        node((), cuda=failed(100)),
        node(cuda=failed(999), driver=GpuFacts(state="mismatch", source="nvml")),
        node(cuda=HUNG, driver=GpuFacts(state="unresponsive", source="nvml")),
        node(cuda=failed(100), driver=GpuFacts(state="missing", source="nvml")),
    ],
    ids=[
        "not asked", "not to be asked", "exclusive", "mode not known",
        "fabric", "no fabric manager", "lost", "needs a reset", "not granted",
        "another container's", "not NVIDIA", "no card", "mismatch", "driver hangs", "no driver",
    ],
)  # fmt: skip
def test_what_is_no_fault_of_its_own_raises_nothing(seen: Seen) -> None:
    assert judged(seen) == []


def test_a_card_in_mig_mode_takes_no_part_in_the_fabric() -> None:
    mig = card(0, mig=True, fabric=Fabric(state="not_started"))
    assert "fabric" in only(node((mig,), cuda=failed(802))).summary


def test_a_fault_of_the_fabric_is_told_once() -> None:
    found = [f.id for rule in rules() for f in rule.judge(node((UNREADY,), cuda=failed(802)))]
    assert found.count("gpu.fabric_not_ready") == 1
    assert "gpu.cuda_unavailable" not in found


def with_devices(cards: tuple[Gpu, ...], *numbers: int) -> Seen:
    known = tuple(address(number) for number in numbers)
    return node(cards, cuda=CudaFacts(state="ok", devices=known))


def test_a_card_that_cuda_lacks_is_named() -> None:
    finding = only(with_devices((card(0), card(1), card(2)), 0, 2))
    assert finding.subject == "GPU 1 (NVIDIA L40, 0000:27:00.0)"
    assert "sudo nvidia-smi --gpu-reset -i 0000:27:00.0" in finding.remedy.commands


@pytest.mark.parametrize(
    "seen",
    [
        with_devices((card(0), card(1)), 0, 1),
        with_devices((card(0), card(1)), 1, 0),
        with_devices((card(0),)),
        with_devices((card(0, mig=True), card(1)), 0),
        with_devices((card(0), card(1, granted=False)), 0),
        with_devices((card(0), card(1, compute_mode="prohibited")), 0),
        with_devices((card(0), card(1, seen_by=("pci",))), 0),
        with_devices((card(0), card(1, lost=True)), 0),
    ],
    ids=[
        "all",
        "other order",
        "none told",
        "MIG",
        "not granted",
        "prohibited",
        "PCI alone",
        "lost",
    ],
)
def test_cards_that_cuda_need_not_have(seen: Seen) -> None:
    assert judged(seen) == []
