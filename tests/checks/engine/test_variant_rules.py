"""Code that leaves instructions of the CPU unused: a library's build, a variable's cap."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.engine.facts import CpuLibrary, EngineFacts
from nodecheck.model import Finding
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    AVX2_FLAGS,
    HEALTHY,
    IDLE,
    ON_CARD,
    PARTLY_ON_CARD,
    SET_APART,
    SLOW,
    engine,
    ggml,
    gpu,
    ids,
    judged,
    model,
    node,
    threads,
    use,
    with_process,
)

TORCH = CpuLibrary(path="/venv/torch/lib/libtorch_cpu.so", family="torch")
OPENBLAS = CpuLibrary(path="/usr/lib/libopenblas.so.0", family="openblas")
BLAS = CpuLibrary(path="/opt/llama/libggml-blas.so", family="ggml", variant="blas")


def only(made: EngineFacts, **facts: Any) -> Finding:
    [found] = judged(node(made, **facts))
    return found


def test_a_build_for_sse2_on_a_cpu_with_avx2() -> None:
    found = only(SLOW)
    assert found.id == "engine.slow_variant"
    assert (
        found.summary == "It computes with code for SSE2 on a CPU that has AVX, AVX2, F16C and FMA"
    )
    assert found.headline == "Its CPU code leaves AVX2 unused and is up to 19.5x slower"
    assert found.evidence[0].value == "built without avx avx2 f16c fma, variant x64"
    assert found.evidence[0].source == "/opt/llama/libggml-cpu-x64.so"
    assert "up to 19.5x slower than with AVX2" in found.impact
    assert "GGML_CPU_ALL_VARIANTS=ON" in found.remedy.commands[1]


@pytest.mark.parametrize(
    ("kind", "left_out", "said"),
    [
        ("Q4_0", SET_APART, "17x"),
        ("q8_0", SET_APART, "2.4x"),
        ("F16", SET_APART, "11x"),
        ("Q6_K", SET_APART, "19.5x"),
        ("Q4_0", SET_APART[1:], "3.4x"),
        ("Q4_0", SET_APART[2:], "2.9x"),
        ("IQ4_XS", SET_APART, "2.4x to 19.5x, by the weights' type,"),
        (None, SET_APART, "2.4x to 19.5x, by the weights' type,"),
    ],
)
def test_what_it_costs_by_type_and_code(
    kind: str | None, left_out: tuple[str, ...], said: str
) -> None:
    file = replace(model(), weight_type=kind)
    found = only(replace(SLOW, libraries=(ggml(*left_out),), model_files=(file,)))
    assert f"up to {said} slower" in found.impact


def test_the_largest_file_has_the_weights() -> None:
    files = (model(GIB, kind="F16"), model(8 * GIB, kind="Q8_0"))
    assert "2.4x" in only(replace(SLOW, model_files=files)).impact


@pytest.mark.parametrize(
    ("flags", "left_out"),
    [
        (AVX2_FLAGS, ()),
        (AVX2_FLAGS, ("avx512f", "avx_vnni", "bmi2")),  # gains nothing in decode
        (("sse2", "ssse3"), ("avx", "avx2", "fma", "f16c")),  # as good as the CPU
        (("sse2", "ssse3", "avx"), ("avx2", "fma", "f16c")),
        (("asimd", "i8mm"), ("sve", "i8mm")),  # another architecture
        (None, SET_APART),
    ],
)
def test_code_as_good_as_the_cpu(flags: tuple[str, ...] | None, left_out: tuple[str, ...]) -> None:
    made = replace(SLOW, libraries=(ggml(*left_out),))
    assert ids(node(made, cpu=CpuFacts(usable_flags=flags))) == []


@pytest.mark.parametrize(
    "made",
    [
        HEALTHY,
        replace(SLOW, libraries=()),
        replace(SLOW, libraries=(replace(ggml(*SET_APART), left_out=None),)),  # not readable
        replace(SLOW, libraries=(ggml(*SET_APART), ggml())),  # the better one computes
        replace(IDLE, libraries=SLOW.libraries),
        replace(ON_CARD, libraries=SLOW.libraries),  # one thread waits for the card
        with_process(replace(SLOW, cards=(use(None, 0.9),)), gpu_files=("/dev/nvidia0",)),
        replace(SLOW, threads=(), processes=(replace(SLOW.processes[0], cpu_seconds=2.4),)),
    ],
)
def test_what_looks_like_it(made: EngineFacts) -> None:
    assert ids(node(made)) == []


def test_layers_left_to_the_cpu_count() -> None:
    made = replace(PARTLY_ON_CARD, libraries=SLOW.libraries)
    assert ids(node(made, gpu())) == ["gpu_starved", "slow_variant"]


def test_it_stands_beside_another_cause() -> None:
    made = replace(engine(threads(8, 0.5, 0.45), usable=4), libraries=SLOW.libraries)
    assert ids(node(made)) == ["oversubscribed", "slow_variant"]


def test_ollama_may_have_been_told_to() -> None:
    told = {"OLLAMA_LLM_LIBRARY": "cpu"}
    found = only(replace(SLOW, engine="ollama", environment=told))
    assert any(piece.value == "OLLAMA_LLM_LIBRARY=cpu" for piece in found.evidence)
    assert "unset OLLAMA_LLM_LIBRARY" in found.remedy.text


@pytest.mark.parametrize(
    ("name", "value", "library", "said"),
    [
        ("ATEN_CPU_CAPABILITY", "default", TORCH, "at SSE2"),
        ("ONEDNN_MAX_CPU_ISA", "SSE41", TORCH, "at SSE4"),
        ("DNNL_MAX_CPU_ISA", "AVX", CpuLibrary(path="libdnnl.so.3", family="onednn"), "at AVX"),
        ("MKL_ENABLE_INSTRUCTIONS", "SSE4_2", TORCH, "at SSE4"),
        ("OPENBLAS_CORETYPE", "Nehalem", OPENBLAS, "at SSE4"),
        ("OPENBLAS_CORETYPE", "SANDYBRIDGE", OPENBLAS, "at AVX"),
    ],
)
def test_a_variable_caps_a_library(name: str, value: str, library: CpuLibrary, said: str) -> None:
    libraries = (library, BLAS) if library is OPENBLAS else (library,)
    made = replace(HEALTHY, engine="vllm", environment={name: value}, libraries=libraries)
    found = only(made)
    assert found.id == "engine.slow_variant"
    assert said in found.summary
    assert str(found.headline).startswith(f"{name} keeps it from AVX2")
    assert found.evidence[0].value == f"{name}={value}"
    assert found.remedy.commands == (f"unset {name}",)


@pytest.mark.parametrize(
    ("name", "value", "libraries", "vendor"),
    [
        ("OPENBLAS_CORETYPE", "Haswell", (OPENBLAS, BLAS), None),
        ("OPENBLAS_CORETYPE", "Nehalem", (OPENBLAS, ggml()), None),  # nothing computes with it
        ("OPENBLAS_CORETYPE", "Nehalem", (TORCH,), None),
        ("ONEDNN_MAX_CPU_ISA", "AVX2", (TORCH,), None),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", (TORCH,), None),
        ("ONEDNN_MAX_CPU_ISA", "SSE41", (ggml(),), None),
        ("ATEN_CPU_CAPABILITY", "avx2", (TORCH,), None),
        ("MKL_ENABLE_INSTRUCTIONS", "SSE4_2", (TORCH,), "AuthenticAMD"),  # heeded on Intel alone
    ],
)
def test_a_variable_without_an_effect(
    name: str, value: str, libraries: tuple[CpuLibrary, ...], vendor: str | None
) -> None:
    cpu = CpuFacts(usable_flags=AVX2_FLAGS, vendor=vendor or "GenuineIntel")
    made = replace(HEALTHY, environment={name: value}, libraries=libraries)
    assert ids(node(made, cpu=cpu)) == []
