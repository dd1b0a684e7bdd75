"""The families of models whose tensors are known, by model type and by class. Data."""

from __future__ import annotations

from nodecheck.workload.config.families.dense import DENSE
from nodecheck.workload.config.families.dense_other import DENSE_OTHER
from nodecheck.workload.config.families.gemma import GEMMA
from nodecheck.workload.config.families.hybrid import HYBRID
from nodecheck.workload.config.families.latent import LATENT
from nodecheck.workload.config.families.older import OLDER
from nodecheck.workload.config.families.recurrent import RECURRENT
from nodecheck.workload.config.families.sparse import SPARSE
from nodecheck.workload.config.families.sparse_shared import SPARSE_SHARED
from nodecheck.workload.config.family import Family

FAMILIES: tuple[Family, ...] = (
    *DENSE,
    *DENSE_OTHER,
    *GEMMA,
    *SPARSE,
    *SPARSE_SHARED,
    *LATENT,
    *HYBRID,
    *RECURRENT,
    *OLDER,
)
"""All of them."""

BY_TYPE = {name: family for family in FAMILIES for name in family.types}
BY_ARCHITECTURE = {name: family for family in FAMILIES for name in family.architectures}
