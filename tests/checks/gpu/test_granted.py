"""What a card's file in /dev says: absent, refused by a cgroup, refused by its permissions."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu import granted
from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Severity
from tests.checks.gpu.judging import CONTAINER, seen, severities
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
INFO, CRITICAL = Severity.INFO, Severity.CRITICAL
CARD = Gpu(pci_address="0000:01:00.0", vendor="nvidia", driver="nvidia", seen_by=("pci",))
MINOR: Tree = {"proc/driver/nvidia/gpus/0000:01:00.0/information": "Device Minor: \t 3\n"}
BARE = VirtFacts(guest=False)


def with_file(node: Node, tree: Tree, card: Gpu = CARD) -> tuple[Gpu, str | None]:
    reader = Reader(node({"dev/null": "", **MINOR, **tree}), "gpu")
    (gpu,), denied = granted.with_files(reader, (card,), driver_hangs=False)
    return gpu, denied


@pytest.mark.parametrize("driver", ["nvidia", None])
@pytest.mark.parametrize(
    ("virt", "id_", "severity"),
    [(BARE, "gpu.driver_missing", CRITICAL), (CONTAINER, "gpu.not_granted", INFO)],
)
def test_a_file_that_is_not_there_is_another_containers_in_a_container_alone(
    driver: str | None, virt: VirtFacts, id_: str, severity: Severity, node: Node
) -> None:
    gpu, denied = with_file(node, {}, replace(CARD, driver=driver))
    assert (gpu.device_file, gpu.granted, denied) == (False, None, None)
    driver_side = GpuFacts(state="missing", message="nvidia-smi: not found")
    assert severities(seen(gpu, gpu=driver_side, virt=virt)) == {id_: severity}


@pytest.mark.parametrize("driver", ["amdgpu", "i915", "xe"])
def test_a_render_node_that_is_not_there_is_no_grant_and_no_refusal(
    driver: str, node: Node
) -> None:
    nodes: Tree = {"sys/bus/pci/devices/0000:01:00.0/drm/renderD128/dev": "226:128\n"}
    gpu, _ = with_file(node, nodes, replace(CARD, vendor="amd", driver=driver))
    assert (gpu.device_file, gpu.granted) == (False, None)


@pytest.mark.parametrize(
    ("number", "given", "denied"),
    [(errno.EPERM, False, None), (errno.EACCES, None, "/dev/nvidia3"), (None, True, None)],
)
def test_a_cgroup_refuses_and_permissions_deny(
    number: int | None,
    given: bool | None,
    denied: str | None,
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = CapturedHost.read

    def refused(host: CapturedHost, path: str) -> str:
        if number is not None and path == "/dev/nvidia3":
            raise UnreadableError.from_os(OSError(number, os.strerror(number)), path)
        return read(host, path)

    monkeypatch.setattr(CapturedHost, "read", refused)
    gpu, told = with_file(node, {"dev/nvidia3": ""})
    assert (gpu.device_file, gpu.granted, told) == (True, given, denied)
