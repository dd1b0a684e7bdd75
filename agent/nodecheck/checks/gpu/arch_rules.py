"""Judges whether the engine's build has code for the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import AMD, labels, ours
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count

_CODE = re.compile(r"(sm|compute)_(\d{1,3})(\d)([af]?)")
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d)")


def runs(arch: str, capability: str) -> bool | None:
    """Whether code for `arch` (sm_90, compute_80, sm_100f) runs on a card of `capability` (9.0).

    A binary (sm) runs within its major number from its minor number on; PTX (compute) is compiled
    for all later cards. Code for one card alone (a) runs nowhere else, code for a family (f) as a
    binary does. Source: CUDA C++ Programming Guide, application compatibility. None: not of CUDA.
    """
    code, card = _CODE.fullmatch(arch), _CAPABILITY.fullmatch(capability)
    if code is None or card is None:
        return None
    target, have = (int(code[2]), int(code[3])), (int(card[1]), int(card[2]))
    if code[4] == "a":
        return target == have
    if code[1] == "sm" or code[4] == "f":
        return target[0] == have[0] and target[1] <= have[1]
    return target <= have


def _is_left_out(gpu: Gpu, archs: tuple[str, ...]) -> bool:
    """Whether none of a build's code is for the card."""
    if gpu.compute_capability is None:
        return False
    if gpu.vendor == AMD:
        return _is_left_out_by_rocm(gpu.compute_capability, archs)
    answers = [runs(arch, gpu.compute_capability) for arch in archs]
    known = [answer for answer in answers if answer is not None]
    return bool(known) and not any(known)


def _is_left_out_by_rocm(target: str, archs: tuple[str, ...]) -> bool:
    """ROCm has no code that is compiled later.

    Code for gfx1030 is made to run on gfx1031 by HSA_OVERRIDE_GFX_VERSION, and generic code is for
    a family: both are left alone.
    """
    names = [arch for arch in archs if arch.startswith("gfx")]
    if not names or not target.startswith("gfx") or any("generic" in name for name in names):
        return False
    kin = target[:-1] if target[3:4] == "1" else target
    return not any(name.startswith(kin) for name in names)


def judge_arch(seen: Seen) -> Iterator[Finding]:
    """Cards that torch in the named environment has no code for."""
    python = seen.facts.python
    archs = python.torch_archs or ()
    cards = [gpu for gpu in ours(seen) if _is_left_out(gpu, archs)]
    if not cards:
        return
    build = next((lib for lib in python.libraries if lib.name == "torch"), None)
    version = f" {build.version}" if build and build.version else ""
    yield Finding(
        id="gpu.arch_unsupported",
        severity=Severity.CRITICAL,
        subject=labels(cards),
        summary=f"Torch{version} has no code for {count(len(cards), 'card')}",
        evidence=tuple(
            Evidence(
                value=f"{gpu.label}: {_generation(gpu)}, code is there for {' '.join(archs)}",
                source=f"{python.interpreter}: torch.cuda.get_arch_list()",
                expected=_expected(gpu),
                basis="binaries run within their major number, PTX (compute) on later cards too",
            )
            for gpu in cards
        ),
        impact=f"An engine in this environment fails at its start on {count(len(cards), 'card')}",
        remedy=Remedy(
            text="Install a build for this generation of cards: a newer one for a new card, an "
            "older one for an old card",
            action=Action.CHANGE_SETTING,
            commands=(f"{python.interpreter} -m pip list",),
            cost="A reinstall of torch and what is built on it",
        ),
        owner=Owner.USER,
    )


def _generation(gpu: Gpu) -> str:
    capability = gpu.compute_capability or ""
    return capability if gpu.vendor == AMD else f"compute capability {capability}"


def _expected(gpu: Gpu) -> str:
    capability = gpu.compute_capability or ""
    if gpu.vendor == AMD:
        return capability
    return f"sm_{capability.replace('.', '')}, or PTX for it"
