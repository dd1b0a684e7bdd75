"""Any value in any place of a real configuration ends in a workload or in one line."""

from __future__ import annotations

import copy
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nodecheck.workload.config import from_config
from nodecheck.workload.errors import WorkloadError
from tests.workload.config.dense_models import DENSE_MODELS
from tests.workload.config.hybrid_models import HYBRID_MODELS
from tests.workload.config.published_models import PUBLISHED_MODELS
from tests.workload.config.reference_models import REFERENCE_MODELS
from tests.workload.config.sparse_models import SPARSE_MODELS

CONFIGS: list[dict[str, Any]] = [
    m.config
    for m in (*REFERENCE_MODELS, *DENSE_MODELS, *SPARSE_MODELS, *HYBRID_MODELS, *PUBLISHED_MODELS)
]

VALUES = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 2, 3, 7, 32.0, 0.5, 1e300, float("inf"), float("nan"), "32",
        "", "\x1b[31m", [], [1], [-1], ["x"], [None], {}, {"a": 1}, 2**31 - 1, 2**31, 2**63,
        10**400, 511, 512, 513,
    ]
)  # fmt: skip


def spoilt(config: dict[str, Any], draw: st.DataObject) -> dict[str, Any]:
    config = copy.deepcopy(config)
    inner = config
    while nested := [k for k in inner if isinstance(inner[k], dict) and inner[k]]:
        if not draw.draw(st.booleans()):
            break
        inner = inner[draw.draw(st.sampled_from(nested))]
    key = draw.draw(st.sampled_from(sorted(inner)))
    value = draw.draw(VALUES)
    if isinstance(inner[key], list) and inner[key] and draw.draw(st.booleans()):
        inner[key][draw.draw(st.integers(0, len(inner[key]) - 1))] = value
    elif draw.draw(st.integers(0, 9)):
        inner[key] = value
    else:
        del inner[key]
    return config


@settings(max_examples=1500, deadline=None)
@given(config=st.sampled_from(CONFIGS), draw=st.data())
def test_a_spoilt_configuration_ends_in_one_line(
    config: dict[str, Any], draw: st.DataObject
) -> None:
    for _ in range(draw.draw(st.integers(1, 3))):
        config = spoilt(config, draw)
    before = time.monotonic()
    try:
        from_config(config, None, "x")
    except WorkloadError as error:
        said = str(error)
        assert "\n" not in said
        assert "\x1b" not in said
        assert len(said) < 400
    assert time.monotonic() - before < 5
