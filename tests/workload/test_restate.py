"""The same model in another type, or of another size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodecheck.serving import Kind, LayerCache, Storage, Weights, Workload
from nodecheck.workload.assemble import PlacedWeights, assemble
from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.numbers import from_numbers
from nodecheck.workload.restate import BITS_PER_WEIGHT, MIXTURES, restated

GIB = 1 << 30


def part(
    kind: Kind, numbers: int, kind_of: str = "bf16", *, stored: bool = True, read: int | None = None
) -> Weights:
    size = {"bf16": 2, "f32": 4}[kind_of]
    read = numbers if read is None else read
    return Weights(
        kind=kind,
        type=kind_of,
        parameters=numbers if stored else 0,
        bytes=numbers * size if stored else 0,
        read_parameters=read,
        read_bytes=read * size,
    )


def model(layers: int = 4, *, tied: bool = False, outside: bool = True) -> Workload:
    placed: list[PlacedWeights] = []
    if outside:
        placed.append((None, part(Kind.EMBEDDING, 32_000 * 1024, read=1024)))
        placed.append((None, part(Kind.OUTPUT, 32_000 * 1024, stored=not tied)))
        placed.append((None, part(Kind.OTHER, 5000)))
    for layer in range(layers):
        placed.append((layer, part(Kind.ATTENTION, 4 * 1024 * 1024)))
        placed.append((layer, part(Kind.ATTENTION, 3 * 1024, "f32")))
        placed.append((layer, part(Kind.FFN, 3 * 1024 * 4096)))
        placed.append((layer, part(Kind.NORM, 2048)))
    placed.append((layers, part(Kind.MTP, 2 * 1024 * 1024)))
    caches = {n: LayerCache(key_elements=256, value_elements=256) for n in range(layers)}
    return assemble(placed, caches, name="model", layers=layers + 1)


def every(work: Workload) -> Iterator[Weights]:
    yield from work.outside
    for group in work.layer_groups:
        for _ in group.numbers:
            yield from group.weights


def is_consistent(work: Workload) -> bool:
    read = sum(w.read_bytes for w in every(work) if w.kind not in (Kind.MTP, Kind.OTHER))
    return (
        sum(w.bytes for w in every(work)) == work.weight_bytes_shipped
        and read == work.read_bytes_per_token_shipped
    )


def test_nothing_asked_changes_nothing() -> None:
    assert restated(model(), None, None) == model()


@pytest.mark.parametrize(
    ("weight_type", "bits"),
    [
        ("q4_k", 4.5), ("Q4_0", 4.5), ("q8_0", 8.5), ("q6_k", 6.5625), ("iq4_xs", 4.25),
        ("f16", 16), ("bf16", 16), ("f32", 32), ("fp8_e4m3", 8), ("int4_g128", 4.15625),
        ("mxfp4", 4.25), ("nvfp4", 4.5),
    ],
)  # fmt: skip
def test_every_matrix_takes_the_bits_of_the_type(weight_type: str, bits: float) -> None:
    work = restated(model(), weight_type, None)
    matrices = 2 * 32_000 * 1024 + 4 * (4 * 1024 * 1024 + 3 * 1024 * 4096) + 2 * 1024 * 1024
    vectors = 4 * (3 * 1024 * 4 + 2 * 2048) + 2 * 5000
    assert work.weight_bytes_shipped == matrices * bits / 8 + vectors
    assert is_consistent(work)
    assert work.name == f"model as {weight_type.lower()}"
    assert work.weight_type == weight_type.lower()
    assert work.parameters == model().parameters
    assert work.kv_bytes_per_token == model().kv_bytes_per_token
    assert {w.type for w in every(work) if w.kind is Kind.NORM} == {"bf16"}


def test_what_a_token_reads_follows() -> None:
    work = restated(model(tied=True), "q4_k", None)
    output = next(w for w in work.outside if w.kind is Kind.OUTPUT)
    assert (output.bytes, output.read_bytes) == (0, 32_000 * 1024 * 9 // 16)
    embedding = next(w for w in work.outside if w.kind is Kind.EMBEDDING)
    assert embedding.read_bytes == 1024 * 9 // 16


@pytest.mark.parametrize("said", MIXTURES)
def test_a_mixture_is_its_main_type_and_says_so(said: str) -> None:
    mixed, pure = restated(model(), said, None), restated(model(), MIXTURES[said], None)
    assert mixed.weight_bytes_shipped == pure.weight_bytes_shipped
    assert mixed.weight_type == MIXTURES[said]
    assert mixed.name == f"model as {said}"
    assert any("mixture" in note and "--weights" in note for note in mixed.notes)
    assert not any("mixture" in note for note in pure.notes)
    sized = restated(model(), said, GIB // 8)
    assert not any("mixture" in note for note in sized.notes)


def test_a_type_nobody_knows_lists_those_that_are() -> None:
    with pytest.raises(WorkloadError) as caught:
        restated(model(), "q4_z\n", None)
    assert "'q4_z?'" in str(caught.value)
    assert all(name in str(caught.value) for name in (*BITS_PER_WEIGHT, *MIXTURES))


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("weight_type", [None, "q4_k"])
def test_a_size_is_met_to_the_byte(weight_type: str | None, *, outside: bool) -> None:
    wanted = 123_456_789
    work = restated(model(outside=outside), weight_type, wanted)
    assert work.weight_bytes_shipped == wanted
    assert is_consistent(work)
    assert sorted(n for g in work.layer_groups for n in g.numbers) == [0, 1, 2, 3, 4]
    kept = sum(w.bytes for w in every(model(outside=outside)) if w.kind is Kind.NORM)
    assert sum(w.bytes for w in every(work) if w.kind is Kind.NORM) == kept
    expected = "model as q4_k" if weight_type else "model at 0.1 GB"
    assert work.name == expected


def test_a_size_alone_keeps_the_type() -> None:
    work = restated(model(), None, model().weight_bytes_shipped // 2)
    assert work.weight_type == "bf16"
    before = model().read_bytes_per_token_shipped
    assert before is not None
    assert work.read_bytes_per_token_shipped == pytest.approx(before / 2, rel=0.01)


@pytest.mark.parametrize("wanted", [-1, 0, 1000])
def test_a_size_that_norms_alone_exceed_is_refused(wanted: int) -> None:
    with pytest.raises(WorkloadError, match="bytes of weights"):
        restated(model(), None, wanted)


def test_numbers_alone_have_their_total_scaled() -> None:
    work = from_numbers("27B", 16 * GIB, 64, "q4_k", 65_536)
    assert restated(work, "q8_0", None).weight_bytes_shipped == 32_450_864_015
    sized = restated(work, "q8_0", 30 * GIB)
    assert (sized.weight_bytes_shipped, sized.weight_type) == (30 * GIB, "q8_0")
    assert restated(work, None, 20 * GIB).weight_bytes_shipped == 20 * GIB
    assert sized.kv_bytes_per_token == work.kv_bytes_per_token
    with pytest.raises(WorkloadError):
        restated(work, None, 0)


def test_numbers_of_a_type_that_is_not_known_need_a_size() -> None:
    work = from_numbers("27B", 16 * GIB, 64, "exl2")
    with pytest.raises(WorkloadError, match="--weights"):
        restated(work, "q4_k", None)
    assert restated(work, "q4_k", GIB).weight_bytes_shipped == GIB


def test_numbers_with_parameters_need_no_type() -> None:
    work = Workload(
        name="8B",
        weight_bytes_shipped=16 * 10**9,
        layers=32,
        weight_type="exl2",
        parameters=8 * 10**9,
        read_bytes_per_token_shipped=15 * 10**9,
    )
    found = restated(work, "q8_0", None)
    assert found.weight_bytes_shipped == 8_500_000_000
    assert found.read_bytes_per_token_shipped == round(15 * 10**9 * 8.5 / 16)


def test_the_files_that_were_read_are_no_longer_those_meant() -> None:
    storage = Storage(path="/m", mount="/", size_bytes=10, allocated_bytes=9, cached_bytes=8)
    work = from_numbers("27B", 16 * GIB, 64, "q4_k")
    work = Workload(**{f: getattr(work, f) for f in work.__struct_fields__} | {"storage": storage})
    found = restated(work, "q8_0", None).storage
    assert found == Storage(path="/m", mount="/")


@settings(max_examples=80, deadline=None)
@given(
    layers=st.integers(1, 40),
    outside=st.booleans(),
    tied=st.booleans(),
    weight_type=st.sampled_from([None, *BITS_PER_WEIGHT]),
    wanted=st.integers(5_000_000, 10**12),
)
def test_sums_hold_whatever_is_asked(
    layers: int, outside: bool, tied: bool, weight_type: str | None, wanted: int
) -> None:
    work = model(layers, tied=tied, outside=outside)
    assert is_consistent(restated(work, weight_type, None))
    sized = restated(work, weight_type, wanted)
    assert sized.weight_bytes_shipped == wanted
    assert is_consistent(sized)
    assert min(w.bytes for w in every(sized)) >= 0


@settings(max_examples=60, deadline=None)
@given(low=st.sampled_from(list(BITS_PER_WEIGHT)), high=st.sampled_from(list(BITS_PER_WEIGHT)))
def test_more_bits_weigh_more(low: str, high: str) -> None:
    if BITS_PER_WEIGHT[low] > BITS_PER_WEIGHT[high]:
        low, high = high, low
    small, large = (restated(model(2), name, None) for name in (low, high))
    assert small.weight_bytes_shipped <= large.weight_bytes_shipped
