"""A workload from safetensors headers and a configuration. Pure.

Where the two differ the headers count: they are what an engine loads. The configuration says what
they do not: how much is remembered, how many experts a token takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nodecheck.serving import Kind, Workload
from nodecheck.workload.assemble import BF16_BYTES, NOT_TEXT, assemble
from nodecheck.workload.config import Description, describe
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.quantisation.method import scheme
from nodecheck.workload.config.quantisation.scheme import Scheme
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from nodecheck.workload.hf.packed import Packed
from nodecheck.workload.hf.weights import Held, Inventory, Said, held

PARAMETER_TOLERANCE = 0.01
"""By how much the parameters of headers and configuration may differ unnoticed."""

_SETTLED = re.compile(r"tie_(?:word_)?embeddings?|that tower is not counted|hold an MTP layer")
"""Notes on assumptions that the headers settle."""

Config = Mapping[str, Any]


def workload(
    inventory: Inventory,
    config: Config | None,
    hf_quant: Config | None,
    name: str,
    notes: Sequence[str] = (),
) -> Workload:
    """The model that these tensors are. Without a configuration nothing is said of its caches."""
    known, unknown = _described(config)
    quantised, quant_notes = _scheme(config, hf_quant)
    found = held(inventory, _said(known, quantised))
    _refuse_missing_layers(known, found)
    members = known.members() if known else {}
    members |= {
        "layers": found.layers,
        "mtp_layers": found.mtp_layers,
        "vocabulary": found.vocabulary or members.get("vocabulary"),
        "hidden_size": members.get("hidden_size") or found.hidden_size,
        "experts": found.experts or members.get("experts"),
    }
    kept = [note for note in (known.notes if known else ()) if not _SETTLED.search(note)]
    notes = (*notes, *unknown, *kept, *quant_notes, *_contradictions(known, found))
    caches = known.caches if known else None
    work = assemble(found.placed, caches, name=name, format="safetensors", notes=notes, **members)
    return _with_parameters(work, known, found)


def _described(config: Config | None) -> tuple[Description | None, list[str]]:
    """What the configuration says; a note where it does not say what is remembered."""
    if config is None:
        return None, ["there is no config.json: what a token takes in the cache is not known"]
    try:
        return describe(config), []
    except NotEnoughMetadata as error:
        why = str(error).removeprefix("not enough metadata: ")
        return None, [f"config.json: {why}: what a token takes in the cache is not known"]
    except WorkloadError as error:
        raise WorkloadError(f"config.json: {error}") from error


def _scheme(config: Config | None, hf_quant: Config | None) -> tuple[Scheme | None, list[str]]:
    """The quantisation that is said; the headers tell most of it anyway."""
    try:
        found = scheme(config or {}, hf_quant)
    except NotEnoughMetadata:
        return None, []
    except WorkloadError as error:
        return None, [f"the quantisation's configuration is not used: {error}"]
    if found is None or found.kv_type is None:
        return found, []
    return found, [f"the checkpoint asks for a KV cache of {found.kv_type}"]


def _said(known: Description | None, quantised: Scheme | None) -> Said:
    def packed(module: str, layer: int | None, kind: Kind) -> Packed | None:
        if quantised is None:
            return None
        coding = quantised.coding(
            Matrix(module=module, layer=layer, kind=kind, rows=1, columns=0, linear=True)
        )
        return None if coding is None else Packed(coding.type, coding.bits)

    if known is None:
        return Said(packed=packed)
    return Said(
        layers=known.layers - known.mtp_layers or None,
        caches=known.caches,
        experts=known.experts,
        experts_used=known.experts_used,
        packed=packed,
    )


def _refuse_missing_layers(known: Description | None, found: Held) -> None:
    """An engine would not load them either."""
    wanted = known.layers - known.mtp_layers if known else 0
    there = found.layers - found.mtp_layers
    if there < wanted:
        raise WorkloadError(f"layers are missing: {there} are there, config.json says {wanted}")


def _contradictions(known: Description | None, found: Held) -> Iterable[str]:
    """What the configuration says and the headers do not, or say otherwise."""
    if known is None:
        if found.experts:
            yield "how many experts a token takes is not known: all are counted as read"
        return
    output = [m for m in known.matrices or () if m.kind is Kind.OUTPUT and "bias" not in m.module]
    if output and output[0].stored == found.tied:
        says, holds = ("not tied", "no") if found.tied else ("tied", "an")
        yield f"config.json says that embedding and output are {says}, but there is {holds} output"
    if known.experts and found.experts and known.experts != found.experts:
        yield f"{found.experts} experts a layer, where config.json says {known.experts}"
    if found.experts and not known.experts_used:
        yield "how many experts a token takes is not known: all are counted as read"
    if found.mtp_layers > known.mtp_layers:
        more = found.mtp_layers - known.mtp_layers
        yield f"{more} MTP modules that config.json does not announce"
    if known.vocabulary and found.vocabulary and known.vocabulary != found.vocabulary:
        yield f"{found.vocabulary} rows of embedding, where config.json says {known.vocabulary}"


def _with_parameters(work: Workload, known: Description | None, found: Held) -> Workload:
    """The parameters, from the configuration where packed tensors do not tell."""
    matrices = known.matrices if known else None
    if found.parameters_known:
        return _compared(work, matrices)
    if matrices is None:
        note = "how many parameters the packed tensors hold is not known"
        return replace(
            work,
            parameters=None,
            weight_bytes_bf16=None,
            read_parameters_per_token=None,
            notes=(*work.notes, note),
        )
    text = [m for m in matrices if m.kind not in NOT_TEXT]
    return replace(
        work,
        parameters=sum(m.parameters for m in text),
        weight_bytes_bf16=BF16_BYTES * sum(m.parameters for m in matrices),
        read_parameters_per_token=sum(m.read_parameters for m in text),
        notes=(*work.notes, "parameters are the configuration's: packed tensors do not tell"),
    )


def _compared(work: Workload, matrices: Sequence[Matrix] | None) -> Workload:
    """With a note where the configuration implies clearly more or fewer parameters."""
    implied = sum(m.parameters for m in matrices or () if m.kind not in NOT_TEXT)
    there = work.parameters or 0
    if not implied or abs(implied - there) <= PARAMETER_TOLERANCE * implied:
        return work
    note = f"{there:,} parameters in the headers, where config.json implies {implied:,}"
    return replace(work, notes=(*work.notes, note))
