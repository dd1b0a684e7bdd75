"""Guessing tokens ahead, by the model's own MTP module or a draft model: what it gains.

A cycle guesses k tokens and checks them in one pass of the model. Source of the formulas: Leviathan
et al., Fast Inference from Transformers via Speculative Decoding.
"""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between
from nodecheck.judge.fits import room
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.rates.reads import experts_spread
from nodecheck.judge.ways.answers import TOKENS, refused, unknown
from nodecheck.judge.ways.levers import TWICE
from nodecheck.judge.ways.resident import gpu_resident
from nodecheck.model import Lever, Strategy, Viability
from nodecheck.serving import Kind, Workload
from nodecheck.units import count, gib

DRAFT_TOKENS = 3
"""Tokens guessed ahead unless said: the default of llama.cpp (--spec-draft-n-max) and of SGLang
(--speculative-num-steps)."""

ACCEPTANCE = (0.6, 0.85)
"""Share of guessed tokens that are right, where it is not said: prose to code. Source: 0.75 to 0.80
with the MTP module of a 27B model, from accepted lengths of 2.75 to 2.93 (reference)."""

CHECK_COST_PER_TOKEN = (0.32 / 3, 0.42 / 3)
"""What checking one more token adds to a pass, in passes of one token. Source: 39.1 tok/s became
70.9 with 3 guessed tokens on an L40, so that checking 4 tokens took 1.32 to 1.42 passes
(reference)."""


def accepted_length(acceptance: float, drafts: int) -> float:
    """Tokens that a cycle yields in the mean: (1 - p^(k+1)) / (1 - p)."""
    if acceptance >= 1:
        return drafts + 1
    return (1 - acceptance ** (drafts + 1)) / (1 - acceptance)


def check_cost(work: Workload, drafts: int) -> Range:
    """Passes of one token that checking k + 1 tokens takes: what is read, and what that adds.

    At best neighbouring tokens take the same experts, at worst each takes some at random.
    """
    low, high = CHECK_COST_PER_TOKEN
    return Range(1 + drafts * low, experts_read(work, drafts + 1) + drafts * high)


def experts_read(work: Workload, tokens: int) -> float:
    """Bytes that several tokens read together over those that one reads; 1 without experts."""
    whole = work.read_bytes_per_token_shipped
    if not (work.experts and work.experts_used and whole):
        return 1.0
    routed = sum(len(g.numbers) * w.read_bytes for g in work.layer_groups for w in g.weights
                 if w.kind is Kind.EXPERTS)  # fmt: skip
    return 1 + routed * (experts_spread(work, tokens) - 1) / whole


def draft_cost(seen: Seen, work: Workload) -> Range | None:
    """What guessing one token costs, in passes of the model: bytes over bytes. None if unknown.

    An MTP module is read with the output layer. One that weighs as much as the embedding and the
    output may have its own copies of them, or experts: then the output counts or does not.
    """
    read = work.read_bytes_per_token_shipped or work.weight_bytes_shipped or 1
    if seen.serving.draft_bytes:
        return Range(seen.serving.draft_bytes / read, seen.serving.draft_bytes / read)
    stored = room.kind_bytes(work, Kind.MTP)
    if not stored:
        return None
    layers = max(1, work.mtp_layers)
    module, head = _mtp_read(work) / layers, _read_outside(work, Kind.OUTPUT)
    tables = room.kind_bytes(work, Kind.EMBEDDING) + head
    alone = module if stored / layers >= tables else module + head
    return Range(alone / read, (module + head) / read)


def _mtp_read(work: Workload) -> int:
    """What one guess with each MTP layer reads of it."""
    inside = sum(
        len(g.numbers) * (w.read_bytes or w.bytes)
        for g in work.layer_groups
        for w in g.weights
        if w.kind is Kind.MTP
    )
    return inside + sum(w.read_bytes or w.bytes for w in work.outside if w.kind is Kind.MTP)


def _read_outside(work: Workload, kind: Kind) -> int:
    return sum(w.read_bytes for w in work.outside if w.kind is kind)


def speed_up(seen: Seen, work: Workload) -> Range | None:
    """Times as fast as without: L / (v + k * c), worst to best; None where nothing can guess."""
    cost = draft_cost(seen, work)
    if cost is None:
        return None
    drafts, (low, high) = drafts_of(seen), _acceptance(seen)
    check = check_cost(work, drafts)
    return Range(
        accepted_length(low, drafts) / (check.high + drafts * cost.high),
        accepted_length(high, drafts) / (check.floor + drafts * cost.floor),
    )


def drafts_of(seen: Seen) -> int:
    """Tokens that are guessed ahead: as asked, else the engines' default."""
    return seen.serving.draft_tokens or DRAFT_TOKENS


def _acceptance(seen: Seen) -> tuple[float, float]:
    said = seen.serving.acceptance
    return ACCEPTANCE if said is None else (said, said)


def speculative(seen: Seen, work: Workload, cards: node.Cards) -> Strategy | None:
    """Guessing on top of a model in VRAM; None where the model has nothing to guess with."""
    if not cards.gpus:
        return None
    gain = speed_up(seen, work)
    if gain is None:
        if not seen.serving.draft_tokens:
            return None
        return unknown("speculative", "it has no MTP module, and no draft model's size was given")
    guessing = replace(seen, serving=replace(seen.serving, draft_tokens=drafts_of(seen)))
    if refusal := _refusal(guessing, work, cards):
        return refusal
    alone = gpu_resident(seen, work, cards)
    if alone.high is None:
        return _without_a_rate(alone, gain)
    return replace(_answer(seen, work, alone, gain), levers=_faster(seen, work, cards, gain))


def _without_a_rate(alone: Strategy, gain: Range) -> Strategy:
    """As the model without guessing: it does not fit, or its rate is not known."""
    if alone.viability is Viability.NOT_VIABLE:
        return refused("speculative", alone.limit, alone.basis)
    why = f"{between(gain.floor, gain.high)} times gpu-resident, which is not known"
    return unknown("speculative", f"{why}: {alone.basis}")


def _answer(seen: Seen, work: Workload, alone: Strategy, gain: Range) -> Strategy:
    low = None if alone.low is None else alone.low * gain.floor
    high = (alone.high or 0.0) * gain.high
    return Strategy(
        strategy="speculative",
        viability=_viability(seen, gain, low, high),
        limit=f"acceptance of guesses, then {alone.limit}",
        low=low,
        high=high,
        unit=TOKENS,
        basis=_basis(seen, work, gain),
    )


def _viability(seen: Seen, gain: Range, low: float | None, high: float) -> Viability:
    """Not worth it where it gains nothing; else by the rate that a reader waits for."""
    usable = seen.policy.thresholds.usable_tokens_per_second
    if gain.high <= 1 or high < usable:
        return Viability.NOT_VIABLE
    if gain.floor < 1:
        return Viability.MARGINAL
    return Viability.VIABLE if low is not None and low >= usable else Viability.MARGINAL


def _basis(seen: Seen, work: Workload, gain: Range) -> str:
    drafts, (low, high) = drafts_of(seen), _acceptance(seen)
    lengths = accepted_length(low, drafts), accepted_length(high, drafts)
    share = f"{low:g}-{high:g} (reference)" if low != high else f"{low:g}"
    check, cost = check_cost(work, drafts), draft_cost(seen, work) or Range(0.0, 0.0)
    by = "a draft model" if seen.serving.draft_bytes else "MTP"
    return (
        f"{gain.floor:.1f}-{gain.high:.1f} x gpu-resident: {by}, {count(drafts, 'token')} ahead, "
        f"acceptance {share}, {between(*lengths)} tokens a cycle of "
        f"{check.floor:.2f}-{check.high:.2f} passes (reference) + {drafts} x {cost.high:.2f}"
        + ("; gains less with more requests at once" if seen.serving.requests > 1 else "")
    )


def _faster(seen: Seen, work: Workload, cards: node.Cards, gain: Range) -> tuple[Lever, ...]:
    """The same on cards of twice the rate: guessing multiplies what they give."""
    after = gpu_resident(seen, work, cards.times_as_fast(TWICE))
    if after.low is None or after.high is None:
        return ()
    low, high = after.low * gain.floor, after.high * gain.high
    return (Lever(resource="bandwidth", change="VRAM of twice the rate", low=low, high=high),)


def _refusal(seen: Seen, work: Workload, cards: node.Cards) -> Strategy | None:
    """Why the engines do not guess here."""
    if _is_staged(seen, work, cards):
        why = "the model takes cards in stages, across which SGLang and vLLM do not guess"
        return refused("speculative", "VRAM of each card", why)
    short = _shortage(seen, work, cards)
    return refused("speculative", "VRAM size", short) if short else None


def _is_staged(seen: Seen, work: Workload, cards: node.Cards) -> bool:
    """Whether every engine that reads the model hands tokens from card to card."""
    every = (room.demand(seen, work, engine, cards) for engine in room.engines_for(work))
    return all(found is not None and found.stages > 1 for found in every)


def _shortage(seen: Seen, work: Workload, cards: node.Cards) -> str | None:
    """What guessing lacks where the model alone has the room, in the first engine that reads it."""
    engine = room.engines_for(work)[0]
    plain = replace(seen, serving=replace(seen.serving, draft_tokens=None, draft_bytes=None))
    alone = room.demand(plain, work, engine, cards)
    with_it = room.demand(seen, work, engine, cards)
    if alone is None or with_it is None or alone.fits is not True or with_it.fits is not False:
        return None
    extra = gib(with_it.needed_bytes - alone.needed_bytes)
    there = f"{gib(with_it.free_bytes or 0)} free"
    return f"{engine} needs {gib(with_it.needed_bytes)}, {extra} of it to guess; {there}"
