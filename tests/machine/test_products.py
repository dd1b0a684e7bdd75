"""Products of weights, loads that wait for one another, and a line between two CPUs."""

from __future__ import annotations

import errno
import os

import pytest

pytest.importorskip("nodecheck._native")

from nodecheck.machine import kernels
from nodecheck.machine.kernels import RESIDENT_BYTES, Arena, Kernel
from tests.machine.emulated import under_qemu

MIB = 1 << 20
LINE_BYTES = 64
CPUS = sorted(os.sched_getaffinity(0))
CPU = CPUS[0]
PRODUCTS = [kernel for kernel in kernels.decode_kernels() if kernel.usable]
WEIGHT_TYPES = {"q4_0", "q4_k", "q6_k", "q8_0", "f16", "bf16", "fp8_e4m3", "int4_g128"}
READ = next(k for k in kernels.stream_kernels() if k.operation == "read")
COLUMNS = 1024

two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def touched(cpus: list[int], destination: int, source: int = 2 * MIB) -> Arena:
    arena = Arena(cpus, source, destination)
    arena.touch()
    return arena


# --- decode ---


def test_each_weight_type_has_a_product_for_every_cpu() -> None:
    found = kernels.decode_kernels()
    baseline = found[-1].isa if found[-1].isa in ("sse2", "neon") else None
    assert {kernel.operation for kernel in PRODUCTS} == WEIGHT_TYPES
    assert {k.operation for k in found if k.isa == baseline} == WEIGHT_TYPES


@pytest.mark.parametrize("resident", [True, False], ids=["cache", "memory"])
@pytest.mark.parametrize("kernel", PRODUCTS, ids=lambda k: f"{k.operation} {k.isa} {k.variant}")
def test_a_product_runs_and_counts_its_weights(kernel: Kernel, resident: bool) -> None:
    arena = touched([CPU, CPU], 4 * MIB)
    group = arena.decode(kernel, COLUMNS, resident=resident).run(3)
    room = RESIDENT_BYTES if resident else 2 * MIB
    assert len(group.passes) == 3
    for each in group.passes:
        assert 0.5 * room < each.bytes / 2 <= room
        assert each.seconds > 0


def test_a_resident_product_is_repeated_and_counted_as_often() -> None:
    product = touched([CPU], 4 * MIB).decode(PRODUCTS[0], COLUMNS, resident=True)
    once = product.run(1).passes[0].bytes
    assert product.run(1, repeats=7).passes[0].bytes == 7 * once


def test_products_go_on_from_window_to_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "WINDOW_BYTES", MIB)
    product = touched([CPU], 4 * MIB, 8 * MIB).decode(PRODUCTS[0], COLUMNS, resident=False)
    for first in (0, 5, 1000):
        assert 0 < product.run(9, first_window=first).passes[0].bytes <= MIB


@pytest.mark.parametrize("columns", [0, 1000, 1 << 20])
def test_columns_that_do_not_fit_are_an_oserror(columns: int) -> None:
    with pytest.raises(OSError, match="run this kernel") as caught:
        touched([CPU], 4 * MIB).decode(PRODUCTS[0], columns, resident=True)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("destination", [0, 2 * MIB])
def test_memory_without_room_for_weights_is_an_oserror(destination: int) -> None:
    with pytest.raises(OSError, match="run this kernel") as caught:
        touched([CPU], destination).decode(PRODUCTS[0], COLUMNS, resident=True)
    assert caught.value.errno == errno.EINVAL


def test_an_unknown_product() -> None:
    unknown = Kernel(1000, "q4_0", "mmx", "q8_0", usable=True)
    with pytest.raises(OSError, match="run this kernel") as caught:
        touched([CPU], 4 * MIB).decode(unknown, COLUMNS, resident=True)
    assert caught.value.errno == errno.ENOTSUP


# --- latency ---


@pytest.mark.parametrize(("destination", "spread"), [(2, 2), (6, 4), (8, 8)])
def test_a_chain_is_one_cycle_through_a_power_of_two_of_lines(
    destination: int, spread: int
) -> None:
    chain = touched([CPU], destination * MIB).chain()
    assert chain.spread_bytes == spread * MIB
    lines = chain.spread_bytes // LINE_BYTES
    chain.follow(READ, loads=lines // 4, passes=1)  # and as many in the pass that is not counted
    assert chain._at[0] != 0
    chain.follow(READ, loads=lines // 4, passes=1)
    assert chain._at[0] == 0


def test_loads_wait_for_one_another() -> None:
    chain = touched([CPU], 64 * MIB).chain()
    group = chain.follow(READ, loads=20_000, passes=4)
    assert [each.bytes for each in group.passes] == [0] * 4
    # no memory answers within a nanosecond: loads that overlapped would take less
    assert min(each.seconds for each in group.passes) / 20_000 > 1e-9


@two_cpus
def test_others_read_meanwhile() -> None:
    chain = touched(CPUS[:2], 4 * MIB, 8 * MIB).chain()
    group = chain.follow(READ, loads=20_000, passes=3)
    assert all(each.bytes >= MIB for each in group.passes)


@pytest.mark.parametrize("operation", ["write", "unknown"])
def test_only_reading_loads_the_memory(operation: str) -> None:
    others = [k for k in kernels.stream_kernels() if k.operation == operation]
    reader = others[0] if others else Kernel(1000, "read", "mmx", "plain", usable=True)
    with pytest.raises(OSError, match="run this kernel") as caught:
        touched([CPU], 2 * MIB).chain().follow(reader, loads=1, passes=1)
    assert caught.value.errno == errno.ENOTSUP


def test_without_a_destination_there_is_no_chain() -> None:
    with pytest.raises(OSError, match="allocate memory"):
        touched([CPU], 0).chain()


# --- ping-pong ---


@two_cpus
def test_a_line_goes_to_and_fro() -> None:
    trips = kernels.ping_pong(CPUS[0], CPUS[1], passes=5)
    assert len(trips) == 5
    assert all(1e-9 < seconds < 1 for seconds in trips)


def test_one_cpu_is_not_two() -> None:
    with pytest.raises(OSError, match=f"tell two CPUs apart .CPU {CPU}."):
        kernels.ping_pong(CPU, CPU)


def test_a_line_to_a_cpu_that_cannot_be_had() -> None:
    with pytest.raises(OSError, match=r"pin a thread \(CPU 4095\)"):
        kernels.ping_pong(CPU, 4095)


# --- other CPUs, by emulation ---


@pytest.mark.parametrize(
    ("model", "best"), [("kvm64", "sse2"), ("Nehalem", "sse4.2"), ("Haswell", "avx2")]
)
def test_the_engines_choice_suits_the_emulated_cpu(model: str, best: str) -> None:
    usable = "[[k.operation, k.isa] for k in kernels.decode_kernels() if k.usable]"
    found = under_qemu(model, "kernels", usable)
    assert isinstance(found, list)
    first: dict[str, str] = {}
    for weights, isa in found:
        first.setdefault(weights, isa)
    assert first["q4_k"] == best
    assert set(first) == WEIGHT_TYPES


def test_products_are_right_on_an_emulated_cpu() -> None:
    made = (
        "[min(p.bytes for p in (a.touch(), a.decode(k, 1024, resident=True))[1].run(1).passes) "
        "for a in [kernels.Arena([min(__import__('os').sched_getaffinity(0))], 2 << 20, 4 << 20)] "
        "for k in kernels.decode_kernels() if k.usable]"
    )
    found = under_qemu("Haswell", "kernels", made)
    assert isinstance(found, list)
    assert len(found) > len(WEIGHT_TYPES)
    assert min(found) > 0
