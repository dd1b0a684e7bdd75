from __future__ import annotations

import pytest

from nodecheck.workload.config import describe, from_config
from nodecheck.workload.config.families import BY_ARCHITECTURE, BY_TYPE, FAMILIES
from tests.workload.config.dense_models import DENSE_MODELS
from tests.workload.config.dense_other_models import DENSE_OTHER_MODELS
from tests.workload.config.hybrid_models import HYBRID_MODELS
from tests.workload.config.known import Known
from tests.workload.config.published_models import PUBLISHED_MODELS
from tests.workload.config.sparse_models import SPARSE_MODELS

TREES = (*DENSE_MODELS, *DENSE_OTHER_MODELS, *SPARSE_MODELS, *HYBRID_MODELS)
ALL = pytest.mark.parametrize("model", TREES, ids=lambda m: m.name)


@ALL
def test_parameters_are_those_of_the_module_tree(model: Known) -> None:
    """Figures: transformers 5.24, the module tree of each configuration on the meta device.

    Three of its differences are taken out. Vectors that steer a router and scales of layers are
    buffers there and tensors in a checkpoint: counted. Gemma 4's layers that share a cache have no
    key and value matrices there, and a checkpoint has: counted. LongCat-Flash's experts that do
    nothing have matrices there: not counted.
    """
    assert from_config(model.config, None, model.name).parameters == model.parameters


@ALL
def test_caches_are_those_of_the_module_tree(model: Known) -> None:
    """Figures: shapes of transformers' cache after a forward pass on the meta device.

    Falcon's are those of its 8 heads, which transformers copies to all. DBRX, LongCat-Flash and
    GLM-4.1V do not run there: by formula.
    """
    work = from_config(model.config, None, model.name)
    assert work.kv_bytes_per_token is not None
    assert work.kv_bytes_per_token.bf16 == 2 * model.kv_elements
    assert work.layers_with_kv == model.kv_layers


@pytest.mark.parametrize("model", PUBLISHED_MODELS, ids=lambda m: m.name)
def test_families_without_a_tree_come_to_published_totals(model: Known) -> None:
    """Figures: the element counts of the published checkpoints; caches by formula.

    Of InternLM-7B, MiniCPM-MoE, Hunyuan-Large and Kimi K3 7.3, 13.6, 389 and 2,800 billion were
    published: the rest by formula.
    """
    work = from_config(model.config, None, model.name)
    assert work.parameters == model.parameters
    assert work.kv_bytes_per_token is not None
    assert work.kv_bytes_per_token.bf16 == 2 * model.kv_elements
    assert work.layers_with_kv == model.kv_layers


def test_no_name_belongs_to_two_families() -> None:
    assert len(BY_TYPE) == sum(len(f.types) for f in FAMILIES)
    assert len(BY_ARCHITECTURE) == sum(len(f.architectures) for f in FAMILIES)


def test_every_family_is_shown_by_a_model() -> None:
    from tests.workload.config.reference_models import REFERENCE_MODELS

    shown = {
        BY_TYPE[name].types[0]
        for model in (*TREES, *PUBLISHED_MODELS, *REFERENCE_MODELS)
        if (name := str(model.config.get("model_type"))) in BY_TYPE
    }
    assert {f.types[0] for f in FAMILIES} - shown == {"orion", "mimo"}


@pytest.mark.parametrize(
    ("name", "conv", "state"),
    [
        ("jamba-1.5-mini", 28 * 3 * 8192, 28 * 8192 * 16),
        ("bamba-9b", 29 * 3 * (8192 + 256), 29 * 8192 * 128),
        ("zamba2-2.7b", 54 * 3 * (5120 + 128), 54 * 5120 * 64),
        ("lfm2-8b-a1b", 18 * 2 * 2048, 0),
        ("olmo-hybrid-7b", 24 * 3 * (2 * 2880 + 5760), 24 * 5760 * 96),
        ("qwen3.5-35b-a3b", 30 * 3 * 8192, 30 * 32 * 128 * 128),
        ("nemotron-3-nano", 23 * 3 * (4096 + 2048), 23 * 4096 * 128),
        ("kimi-linear-48b", 20 * 3 * 3 * 4096, 20 * 32 * 128 * 128),
        ("rwkv7-0.1b", 12 * 2 * 768, 12 * 768 * 64),
        ("granite-4.0-micro", 0, 0),
    ],
)
def test_states_follow_the_mixers(name: str, conv: int, state: int) -> None:
    """Formulas: llama.cpp, src/llama-hparams.cpp, n_embd_r and n_embd_s; kernels less one."""
    model = next(m for m in (*HYBRID_MODELS, *PUBLISHED_MODELS) if m.name == name)
    caches = describe(model.config).caches
    assert caches is not None
    assert sum(c.conv_elements for c in caches.values()) == conv
    assert sum(c.state_elements for c in caches.values()) == state


@pytest.mark.parametrize(
    ("name", "window", "layers"),
    [
        ("qwen2-windowed", 4096, 7),
        ("gemma-3-1b", 512, 22),
        ("command-r7b", 4096, 24),
        ("exaone4-32b", 4096, 48),
        ("exaone4-1.2b", None, 0),
        ("olmo3-32b", 4096, 48),
        ("gpt-oss-120b", 128, 18),
        ("llama-4-scout", 8192, 36),
        ("mimo-v2-flash", 128, 39),
        ("gemma-4-e2b", 512, 12),
        ("phi-4-mini", 262144, 32),
        ("phi-4", None, 0),
        ("qwen2-7b", None, 0),
    ],
)
def test_windows_are_where_the_family_has_them(name: str, window: int | None, layers: int) -> None:
    caches = describe(next(m for m in TREES if m.name == name).config).caches
    assert caches is not None
    windows = [c.window for c in caches.values() if c.window is not None]
    assert len(windows) == layers
    assert set(windows) == ({window} if window else set())


def test_gemma_4_has_heads_of_two_kinds() -> None:
    """Sliding layers 16 heads of 256, full ones 4 of 512: values are the projection of keys."""
    caches = describe(next(m for m in TREES if m.name == "gemma-4-31b").config).caches
    assert caches is not None
    assert (caches[0].key_elements, caches[0].window) == (16 * 256, 1024)
    assert (caches[5].key_elements, caches[5].value_elements) == (4 * 512, 4 * 512)


def test_layers_of_one_model_share_a_cache_of_the_layer_before() -> None:
    """Hunyuan-Large's use_cla: every second layer has neither keys nor values."""
    large = next(m for m in PUBLISHED_MODELS if m.name == "hunyuan-large").config
    caches = describe(large).caches
    assert caches is not None
    assert [n for n, c in caches.items() if c.key_elements][:3] == [0, 2, 4]
    whole = from_config({**large, "use_cla": False}, None, "x")
    assert whole.layers_with_kv == 64


def test_an_index_is_said_and_not_counted() -> None:
    model = next(m for m in SPARSE_MODELS if m.name == "deepseek-v3.2")
    assert any("indexer" in note for note in describe(model.config).notes)
