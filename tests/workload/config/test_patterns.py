"""Names of modules, as skip lists write them."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodecheck.workload.config.quantisation.module_names import MOST_SUBSTRINGS, Named
from nodecheck.workload.config.quantisation.patterns import Name, expression
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError

MODULES = [
    f"model.layers.{layer}.{name}"
    for layer in (0, 1, 9, 10, 31, 60)
    for name in ("self_attn.q_proj", "mlp.gate", "mlp.gate_proj", "mlp.experts.0.up_proj")
] + ["lm_head", "model.embed_tokens", ""]

REAL = [
    r".*self_attn.*",
    r".*mlp\.(gate|up|gate_up|down)_proj.*",
    r".*layers\.([1-9]|[12]\d|30)\..*(w[1-3]|gate_proj|up_proj|down_proj)$",
    r".*layers\.3[1-9]\..*",
    r"^model\.layers\.(?:0|1|60)\.",
    r"lm_head",
    r"model\.layers\.\d{2,}\..*\Z",
    r"(?:x|m)odel.layers.[^1-5]+?\.s",
    r"model.layers.1{0,1}0\.mlp\.gate$",
    r"",
    r"$",
]


def found(pattern: str, name: str) -> bool:
    return expression(pattern)(Name(name, lambda _: None), 1) != 0


@pytest.mark.parametrize("pattern", REAL)
def test_patterns_of_real_lists_match_what_python_matches(pattern: str) -> None:
    for module in MODULES:
        assert found(pattern, module) is bool(re.match(pattern, module)), module


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "[0-9a-]", "^", "$"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "*?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(pattern=PATTERNS, name=st.text("ab1.-", max_size=8))
def test_any_pattern_matches_what_python_matches(pattern: str, name: str) -> None:
    assert found(pattern, name) is bool(re.match(pattern, name))


MANY = [f"model.layers.{n // 12}.mlp.experts.{n % 12}.up_proj" for n in range(732)]


@pytest.mark.parametrize(
    "pattern",
    [
        "re:" + "(a|a)" * 30 + "x",
        "re:" + "(.*.*)*" * 5 + "x",
        "re:((((((a?){99}){99}){99}){99}){99}){99}",
        "re:((((((){99}){99}){99}){99}){99}){99}",
        "re:" + "(" * 500 + ")" * 500,
        "re:" + ".*" * 9000,
        "re:" + "(.|.)*" * 3000,
        "re:" + ".*(mlp|up|p)+" * 8 + "x",
        "*a" * 6000,
        "?" * 30_000 + "*",
    ],
)
def test_hostile_patterns_cost_no_time(pattern: str) -> None:
    names: Named[bool] = Named()
    started = time.process_time()
    with contextlib.suppress(WorkloadError):
        names.add(pattern, value=True)
        for module in MANY:
            names.find(module)
    assert time.process_time() - started < 2


def test_many_hostile_patterns_cost_no_time() -> None:
    names: Named[bool] = Named()
    started = time.process_time()
    with contextlib.suppress(WorkloadError):
        for number in range(5000):
            names.add(f"*{number}*x", value=True)
        for module in MANY:
            names.find(module)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "pattern", ["(?=a)", r"\1", "*", "a**", "[a", "(a", "a)", "a{1", "a{2,1}", r"\b", "a{999}"]
)
def test_what_is_not_understood_is_not_guessed(pattern: str) -> None:
    with pytest.raises(NotEnoughMetadata, match="give the safetensors files"):
        found(pattern, "a")


@pytest.mark.parametrize(
    ("name", "module", "is_named"),
    [
        ("lm_head", "lm_head", True),
        ("language_model.lm_head", "lm_head", True),
        ("gate", "model.layers.3.mlp.gate", True),
        ("gate", "model.layers.3.mlp.gate_proj", False),
        ("mlp.gate", "model.layers.3.mlp.gate_proj", False),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1", "model.layers.11.mlp.up_proj", False),
        ("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_proj", True),
        ("model.language_model.layers.1.mlp", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1.mlp", "model.language_model.layers.1.mlp.up_proj", True),
        ("backbone.layers.4.mixer.in_proj", "backbone.layers.4.mixer.in_proj", True),
        ("visual", "model.layers.1.mlp.up_proj", False),
        ("model.layers.1*", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1*", "model.layers.11.mlp.up_proj", True),
        ("model.layers.1.*", "model.layers.11.mlp.up_proj", False),
        ("model.layers.*.self_attn", "model.layers.7.self_attn.q_proj", True),
        ("model.layers.*.self_attn", "model.layers.7.self_attention.q_proj", False),
        ("model.layers.?.mlp", "model.layers.7.mlp.up_proj", True),
        ("*.shared_experts.*", "model.layers.7.mlp.shared_experts.up_proj", True),
        ("layers.3.mlp.experts", "model.layers.3.mlp.experts.*.up_proj", True),
        ("layers.3.mlp.experts.gate_up_proj", "model.layers.3.mlp.experts.gate_up_proj", True),
        ("re:.*\\.experts\\.\\d+\\.up_proj", "model.layers.3.mlp.experts.*.up_proj", True),
        ("layers.3.mlp.experts.0.up_proj", "model.layers.3.mlp.experts.*.up_proj", True),
        ("layers.3.mlp.switch_mlp.up_proj", "model.layers.3.mlp.experts.*.up_proj", True),
        ("re:.*mlp\\.up_proj", "model.layers.3.mlp.experts.*.up_proj", False),
        ("re:model\\.layers\\.3", "layers.3.mlp.up_proj", True),
    ],
)
def test_a_name_stands_for(name: str, module: str, *, is_named: bool) -> None:
    names: Named[bool] = Named()
    names.add(name, value=True)
    assert bool(names.find(module)) is is_named


def test_the_longest_name_wins_and_plain_names_before_patterns() -> None:
    names: Named[str] = Named()
    names.add("model.layers.0", "layer")
    names.add("model.layers.0.mlp.up_proj", "matrix")
    names.add("*", "any")
    assert names.find("model.layers.0.mlp.up_proj") == "matrix"
    assert names.find("model.layers.0.mlp.down_proj") == "layer"
    assert names.find("model.layers.1.mlp.down_proj") == "any"


def test_a_long_list_of_plain_names_costs_no_time() -> None:
    names: Named[bool] = Named()
    for layer in range(60):
        for expert in range(400):
            names.add(f"model.layers.{layer}.mlp.experts.{expert}.up_proj", value=True)
    started = time.perf_counter()
    assert all(names.find(f"model.layers.{n}.mlp.experts.*.up_proj") for n in range(60))
    assert time.perf_counter() - started < 1


def test_parts_of_names_are_limited() -> None:
    names: Named[bool] = Named()
    names.add_substring("", value=True)
    assert names.find("lm_head") is None
    for number in range(MOST_SUBSTRINGS):
        names.add_substring(f"{number}.", value=True)
    with pytest.raises(WorkloadError, match="parts of names"):
        names.add_substring("one more", value=True)
