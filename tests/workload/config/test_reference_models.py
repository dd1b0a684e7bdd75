from __future__ import annotations

import pytest

from nodecheck.serving import Workload
from nodecheck.workload.config import from_config
from tests.workload.config.reference_models import REFERENCE_MODELS, Reference

ALL = pytest.mark.parametrize("model", REFERENCE_MODELS, ids=lambda m: m.name)


def work(model: Reference) -> Workload:
    return from_config(model.config, None, model.name)


@ALL
def test_parameters_are_exact(model: Reference) -> None:
    """Figures: transformers 5.24, the module tree on the meta device, and a formula a kind."""
    read = work(model)
    assert read.parameters == model.parameters
    assert read.weight_bytes_bf16 == model.bf16_bytes
    assert read.read_parameters_per_token == model.read_parameters


@ALL
def test_caches_are_exact(model: Reference) -> None:
    """Figures: cache shapes of transformers 5.24, and what llama.cpp printed."""
    read = work(model)
    cache = read.kv_bytes_per_token
    assert cache is not None
    assert (cache.bf16, read.layers_with_kv) == (model.kv_bytes, model.kv_layers)
    assert cache.fp8 * 2 == model.kv_bytes
    assert cache.q8_0 * 32 == model.kv_bytes // 2 * 34


@ALL
def test_states_are_exact(model: Reference) -> None:
    """Figures: SGLang 0.5.23, Mamba2StateShape, and llama.cpp, n_embd_r and n_embd_s."""
    state = work(model).state_bytes_per_sequence
    if model.state_llama_cpp is None:
        assert state is None
        return
    assert state is not None
    assert (state.sglang, state.llama_cpp) == (model.state_sglang, model.state_llama_cpp)


@pytest.mark.parametrize(
    "model", [m for m in REFERENCE_MODELS if m.window_only], ids=lambda m: m.name
)
def test_windows_save_what_they_save(model: Reference) -> None:
    context = work(model).kv_bytes_at_131072
    assert context is not None
    assert (context.window_only, context.llama_cpp) == (model.window_only, model.pool)


def by_name(name: str) -> Workload:
    return work(next(m for m in REFERENCE_MODELS if m.name == name))


def test_kinds_add_up_by_layer() -> None:
    """An 8B Llama: 32 alike layers, the embedding and the head outside of them."""
    read = by_name("llama-3.1-8b")
    (layers,) = read.layer_groups
    sizes = {w.kind.value: w.bytes * len(layers.numbers) for w in layers.weights}
    assert sizes["attention"] == 2_684_354_560
    assert sizes["ffn"] == 11_274_289_152
    assert {w.kind.value: w.bytes for w in read.outside} == {
        "embedding": 1_050_673_152,
        "output": 1_050_673_152,
        "norm": 8192,
    }


def test_experts_are_read_in_part() -> None:
    read = by_name("mixtral-8x7b")
    (layers,) = read.layer_groups
    experts = next(w for w in layers.weights if w.kind.value == "experts")
    assert experts.read_parameters * 4 == experts.parameters
    assert (read.experts, read.experts_used) == (8, 2)


def test_llama_cpp_counts_modules_that_guess_ahead_as_layers() -> None:
    read = by_name("deepseek-v3")
    assert (read.layers, read.mtp_layers) == (62, 1)


@pytest.mark.parametrize(
    ("name", "tokens"), [("command-r-v01", 131072), ("gemma-2-9b", 8192), ("mamba2-2.7b", None)]
)
def test_context_is_the_largest_that_the_family_names(name: str, tokens: int | None) -> None:
    assert by_name(name).context_length == tokens


@pytest.mark.parametrize(
    ("name", "windows"),
    [("mistral-7b-v0.1", False), ("phi-3-mini-4k", False), ("gemma-2-9b", True)],
)
def test_llama_cpp_keeps_every_token_of_some_windowed_models(name: str, *, windows: bool) -> None:
    assert by_name(name).llama_cpp_windows is windows


def test_a_tied_head_is_read_but_not_stored() -> None:
    read = by_name("llama-3.2-1b")
    head = next(w for w in read.outside if w.kind.value == "output")
    assert (head.bytes, head.parameters, head.read_parameters) == (0, 0, 262_668_288)


def test_a_family_value_is_named() -> None:
    assert "tie_word_embeddings is absent: tied, as gemma2 defines" in by_name("gemma-2-9b").notes


def test_library_values_of_mamba_ssm_are_named() -> None:
    notes = by_name("mamba2-2.7b").notes
    assert any("headdim" in n and "mamba_ssm's own values" in n for n in notes)
