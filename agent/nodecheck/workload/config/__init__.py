"""What a Hugging Face configuration implies: tensors, caches, stored bytes. Pure.

A config.json is read in this order: `text_model` finds the text model in it, `families` says how
such models are built, `layers` which tensors and caches follow, `quantisation` what these weigh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodecheck.serving import Workload
from nodecheck.workload.assemble import assemble
from nodecheck.workload.config.describe import Description, describe
from nodecheck.workload.config.parsing import parse
from nodecheck.workload.config.quantisation.method import float_type, scheme
from nodecheck.workload.config.quantisation.stored import stored
from nodecheck.workload.errors import NotEnoughMetadata

__all__ = ["Description", "describe", "from_config", "parse"]


def from_config(
    config: Mapping[str, Any], hf_quant: Mapping[str, Any] | None, name: str
) -> Workload:
    """The workload of a parsed config.json; `hf_quant` is what hf_quant_config.json holds.

    NotEnoughMetadata names what is missing, or an architecture that is not known; WorkloadError a
    key that makes no sense.
    """
    described = describe(config)
    if described.matrices is None:
        raise NotEnoughMetadata(described.unknown or "unknown architecture")
    kept_as, float_notes = float_type(config)
    placed, stored_notes = stored(described.matrices, scheme(config, hf_quant), kept_as)
    return assemble(
        placed,
        described.caches,
        name=name,
        format="config",
        notes=(*described.notes, *float_notes, *stored_notes),
        **described.members(),
    )
