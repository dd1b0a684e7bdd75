"""One engine that raises each finding, and one that does not: facts, as only live nodes have."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from tests.checks.engine.engines import (
    CROWDED,
    FALLEN_BACK,
    HEALTHY,
    LOADING,
    ON_CARD,
    PAGING,
    PARTLY_ON_CARD,
    REMOTE,
    SLOW,
    THROTTLED,
    gpu,
    node,
    two_nodes,
)
from tests.trees import Tree

RAISES: dict[str, Tree | Seen] = {
    "engine.cpu_fallback": node(FALLEN_BACK, gpu()),
    "engine.paging": node(PAGING),
    "engine.throttled_quota": node(THROTTLED),
    "engine.oversubscribed": node(CROWDED),
    "engine.gpu_starved": node(PARTLY_ON_CARD, gpu(memory_used_bytes=13 << 30)),
    "engine.slow_variant": node(SLOW),
    "engine.remote_memory": node(REMOTE, numa=two_nodes()),
}

SILENT: dict[str, Tree | Seen] = {
    "engine.cpu_fallback": node(ON_CARD, gpu()),
    "engine.paging": node(LOADING),
    "engine.throttled_quota": node(HEALTHY),
    "engine.oversubscribed": node(HEALTHY),
    "engine.gpu_starved": node(ON_CARD, gpu()),
    "engine.slow_variant": node(HEALTHY),
    "engine.remote_memory": node(HEALTHY, numa=two_nodes()),
}
