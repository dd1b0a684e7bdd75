"""A guest before and after its CPU type was changed: the comparison says what that did."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest

from nodecheck.records.compare.comparison import Comparison, Outcome, StrategyPair
from tests.lab.debian import NotHereError
from tests.lab.guest_image import Image, prepare
from tests.lab.guests import Guest, boot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

NODE = Guest(
    "",
    machine="q35,memory-backend=ram",
    memory="24G",
    devices=("-object", "memory-backend-ram,id=ram,size=24G,reserve=off"),
    told=("nvml=three_l40",),
)
"""Three L40, one vCPU, and room for the reference model, of which the guest touches little."""


@pytest.fixture(scope="module")
def image() -> Image:
    try:
        return prepare()
    except NotHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def reports(image: Image, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The same virtual machine with two CPU types."""
    guests = {cpu: replace(NODE, cpu=cpu) for cpu in ("kvm64", "Haswell")}
    told = [boot(image, guest, tmp_path_factory.mktemp(cpu)) for cpu, guest in guests.items()]
    return [str(each.folder / "report.json") for each in told]


def compared(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "nodecheck", "compare", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def made(reports: list[str]) -> Comparison:
    return msgspec.json.decode(compared(*reports, "--json"), type=Comparison)


def strategy(made: Comparison, name: str) -> StrategyPair:
    [found] = [each for each in made.strategies if each.strategy == name]
    return found


def test_the_cpu_type_changed_and_what_it_showed(made: Comparison) -> None:
    values = {t.name: (t.before, t.after) for t in made.traits}
    assert values["CPU"] == ("Common KVM processor", "Intel Core Processor (Haswell)")
    assert values["x86-64 level"] == ("v1", "v3")
    [flags] = [t for t in made.traits if t.name == "CPU flags"]
    assert {"avx", "avx2", "fma", "f16c", "bmi2", "ssse3", "sse4_2", "movbe"} <= set(flags.gained)
    assert {"GPU", "GPU driver", "VRAM", "RAM", "kernel", "machine type"} <= set(made.unchanged)


def test_the_mask_is_cleared_and_no_other_finding_moved(made: Comparison) -> None:
    moved = {f.id: f.outcome for f in made.findings if f.outcome is not Outcome.SAME}
    assert moved == {"cpu.hypervisor_masked": Outcome.CLEARED}


@pytest.mark.parametrize("name", ["cpu-only", "partial-offload"])
def test_what_runs_on_the_cpu_moved_with_its_limit(made: Comparison, name: str) -> None:
    pair = strategy(made, name)
    assert pair.moved
    assert pair.before is not None
    assert pair.after is not None
    assert pair.before.limit.startswith("CPU instruction set (SSE2)")
    assert pair.after.limit.startswith("CPU cores")
    assert (pair.after.high or 0) > 5 * (pair.before.high or 0)


def test_what_runs_on_the_cards_alone_is_not_blamed_on_the_cpu(made: Comparison) -> None:
    pair = strategy(made, "gpu-resident")
    assert not pair.moved
    assert pair.before == pair.after
    assert made.headline.startswith("CPU type changed: AVX2, FMA, F16C and 6 more gained; ")
    assert made.headline.endswith(" gpu-resident is unchanged, 34-42 tok/s.")


def test_it_is_told_at_a_terminal(reports: list[str]) -> None:
    said = " ".join(compared(*reports).decode().split())
    assert "cleared x cpu.hypervisor_masked VM CPU type kvm64" in said
    assert "A: CPU instruction set (SSE2)" in said
    assert "strategies: gpu-resident (34-42 tok/s, viable)" in said
