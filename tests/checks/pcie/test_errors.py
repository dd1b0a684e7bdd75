"""The rule on errors: what is lost, what is more than chance, and what is software's."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.error_rules import judge_errors, normal_per_minute
from nodecheck.checks.pcie.facts import Errors, Hop, Path, PcieFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.links import is_normal
from nodecheck.model import Action, Finding, Owner, Severity, Transfer
from nodecheck.policy import Policy
from nodecheck.thresholds import Thresholds

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
A, B, ROOT = "0000:01:00.0", "0000:02:00.0", "0000:00:01.0"
LIMITS = Thresholds()


def rise(
    correctable: dict[str, int] | None = None,
    nonfatal: dict[str, int] | None = None,
    fatal: dict[str, int] | None = None,
) -> Errors:
    parts = [part or {} for part in (correctable, nonfatal, fatal)]
    return Errors(
        correctable=sum(parts[0].values()),
        nonfatal=sum(parts[1].values()),
        fatal=sum(parts[2].values()),
        correctable_names=parts[0],
        nonfatal_names=parts[1],
        fatal_names=parts[2],
    )


def several(corrected: dict[str, int], lost: dict[str, int], **events: int) -> Errors:
    """Events that set several bits each; `lost` are names of non-fatal errors."""
    none = {"correctable": 0, "nonfatal": 0}
    return msgspec.structs.replace(rise(corrected, lost), **(none | events))


def hop(address: str, rose: Errors | None, gts: float = 16.0, width: int = 16) -> Hop:
    return Hop(
        address=address,
        current_gts=gts,
        maximum_gts=gts,
        current_width=width,
        maximum_width=width,
        aer=rose,
        aer_rise=rose,
    )


def node(
    *paths: Path,
    seconds: float | None = 1.0,
    transfers: tuple[Transfer, ...] = (),
    guest: bool = False,
    gpus: tuple[Gpu, ...] = (),
) -> Seen:
    facts = Facts(
        pcie=PcieFacts(paths=paths, source="sysfs", window_seconds=seconds),
        virt=VirtFacts(guest=guest),
        gpus=gpus,
    )
    return Seen(facts=facts, policy=Policy(), transfers=transfers)


def judge(seen: Seen) -> list[Finding]:
    return list(judge_errors(seen))


def one(rose: Errors, *, gts: float = 16.0, width: int = 16, seconds: float = 1.0) -> Finding:
    path = Path(accelerator=A, hops=(hop(A, rose, gts, width), hop(ROOT, None, gts, width)))
    (finding,) = judge(node(path, seconds=seconds))
    return finding


def severity(rose: Errors, **link: float) -> Severity | None:
    path = Path(accelerator=A, hops=(hop(A, rose, **link), hop(ROOT, None, **link)))  # type: ignore[arg-type]
    found = judge(node(path))
    return found[0].severity if found else None


@pytest.mark.parametrize(
    ("gts", "lanes", "normal"),
    [(2.5, 1, 1), (2.5, 16, 3), (5.0, 1, 1), (8.0, 16, 8), (16.0, 16, 16), (16.0, 1, 1),
     (32.0, 16, 31), (64.0, 16, 62), (2.5, 20, 3), (50.0, 1, 3)],
)  # fmt: skip
def test_normal_errors_grow_with_speed_and_lanes(gts: float, lanes: int, normal: int) -> None:
    assert normal_per_minute(gts, lanes, LIMITS) == normal


def test_of_an_unknown_link_nothing_is_normal() -> None:
    assert normal_per_minute(None, 16, LIMITS) is None
    assert normal_per_minute(16.0, None, LIMITS) is None


def poisson_tail(errors: int, expected: float) -> float:
    below = math.fsum(
        math.exp(n * math.log(expected) - expected - math.lgamma(n + 1)) for n in range(errors)
    )
    return 1 - below


@pytest.mark.parametrize("expected", [0.017, 0.05, 0.27, 0.52, 1.0, 16.0, 120.0])
def test_chance_is_reached_once_in_a_million(expected: float) -> None:
    """Against the sum itself: the bound is never below it, and at most a little above."""
    usual = [k for k in range(1, 400) if is_normal(k, expected, 1e-6)]
    assert usual == list(range(1, len(usual) + 1))
    most = len(usual)
    assert poisson_tail(most + 1, expected) <= 1e-6 + 1e-12
    assert poisson_tail(most, expected) > 0.5e-6


@given(st.integers(0, 10**18), st.floats(0, 1e18), st.floats(0, 1))
def test_any_numbers_can_be_judged(errors: int, expected: float, chance: float) -> None:
    assert is_normal(errors, expected, chance) in (True, False)
    assert is_normal(0, expected, chance)


@pytest.mark.parametrize(
    ("rose", "expected"),
    [
        (rise(), None),
        (rise({"RxErr": 1}), INFO),
        (rise({"RxErr": 5}), INFO),
        (rise({"RxErr": 6}), WARNING),
        (rise({"BadTLP": 3, "Timeout": 3, "Rollover": 1, "BadDLLP": 1}), WARNING),
        (rise({"NonFatalErr": 500}, {"UnsupReq": 500}), INFO),
        (rise({"CorrIntErr": 500}), INFO),
        (rise({"HeaderOF": 500}), INFO),
        (rise({"RxErr": 6, "NonFatalErr": 500}), WARNING),
        (rise({}, {"UnsupReq": 500}), INFO),
        (rise({}, {"ACSViol": 3}), INFO),
        (rise({}, {"CmpltTO": 1}), CRITICAL),
        (rise({}, {"CmpltTO": 1, "UnsupReq": 7}), CRITICAL),
        (rise({"RxErr": 1}, {}, {"DLP": 1}), CRITICAL),
        (rise({}, {}, {"MalfTLP": 1}), CRITICAL),
        (rise({}, {}, {"UncorrIntErr": 1}), CRITICAL),
        (Errors(correctable=6, nonfatal=0, fatal=0), WARNING),
        (Errors(correctable=0, nonfatal=1, fatal=0), CRITICAL),
        (several({}, {"UnsupReq": 1, "ACSViol": 1, "CmpltTO": 1}, nonfatal=2), CRITICAL),
        (several({}, {"UnsupReq": 1, "ACSViol": 1}, nonfatal=1), INFO),
        (several({}, {"UnsupReq": 2}, nonfatal=2, fatal=1), CRITICAL),
        (several({"RxErr": 6, "NonFatalErr": 6}, {}, correctable=6), WARNING),
    ],
)
def test_severity(rose: Errors, expected: Severity | None) -> None:
    assert severity(rose) is expected


@pytest.mark.parametrize(
    ("gts", "width", "most"), [(2.5, 1, 2), (8.0, 16, 4), (16.0, 16, 5), (32.0, 16, 7)]
)
def test_a_faster_link_has_more_errors(gts: float, width: int, most: int) -> None:
    assert severity(rise({"RxErr": most}), gts=gts, width=width) is INFO
    assert severity(rise({"RxErr": most + 1}), gts=gts, width=width) is WARNING


def test_a_longer_window_allows_for_more() -> None:
    assert one(rise({"RxErr": 12}), seconds=1.0).severity is WARNING
    assert one(rise({"RxErr": 12}), seconds=60.0).severity is INFO


def test_an_idle_link_is_judged_by_its_full_speed() -> None:
    """It may speed up within the window."""
    slow = msgspec.structs.replace(hop(A, rise({"RxErr": 5})), current_gts=2.5)
    path = Path(accelerator=A, hops=(slow, hop(ROOT, None)))
    assert [f.severity for f in judge(node(path))] == [INFO]


def test_on_an_unknown_link_corrected_errors_are_no_warning_and_not_called_healthy() -> None:
    path = Path(accelerator=A, hops=(Hop(address=A, aer_rise=rise({"RxErr": 900})),))
    (finding,) = judge(node(path))
    assert finding.severity is INFO
    assert "not judged" in finding.summary
    assert finding.impact.startswith("Not known")
    refused = Path(accelerator=A, hops=(Hop(address=A, aer_rise=rise({}, {"UnsupReq": 9})),))
    assert "not judged" not in judge(node(refused))[0].summary


def test_both_ends_of_a_link_are_one_finding_as_bad_as_the_worse() -> None:
    ends = (hop(A, rise({"RxErr": 50})), hop(ROOT, rise({"BadTLP": 1})))
    (finding,) = judge(node(Path(accelerator=A, hops=ends), transfers=(copied(A, 1),)))
    assert finding.severity is WARNING
    assert len(finding.evidence) == 3
    assert finding.impact.startswith("3000 errors a minute")
    lost = (hop(A, rise({"RxErr": 900})), hop(ROOT, rise({}, {}, {"DLP": 1})))
    (finding,) = judge(node(Path(accelerator=A, hops=lost)))
    assert (finding.severity, len(finding.evidence)) == (CRITICAL, 2)
    assert finding.impact.startswith("1 transfer lost")


def test_errors_of_another_tenants_card_are_not_ours() -> None:
    path = Path(accelerator=A, hops=(hop(A, rise({}, {}, {"DLP": 1})),))
    inside = VirtFacts(container="docker")
    theirs = Gpu(pci_address=A, granted=False)
    found = node(path, gpus=(theirs,))
    assert [f.severity for f in judge(found)] == [CRITICAL]
    boxed = msgspec.structs.replace(found.facts, virt=inside)
    assert judge(msgspec.structs.replace(found, facts=boxed)) == []


def test_each_end_counts_and_a_switch_counts_once() -> None:
    up = (hop("0000:03:00.0", rise({"RxErr": 50})), hop(ROOT, rise({"BadTLP": 70})))
    paths = [
        Path(accelerator=card, hops=(hop(card, None), hop(f"0000:04:0{n}.0", None), *up))
        for n, card in enumerate((A, B))
    ]
    (finding,) = judge(node(*paths))
    assert [e.value.split(":")[1] for e in finding.evidence] == ["03", "00"]
    assert "4200 errors a minute" in finding.impact


def test_each_severity_is_a_finding_of_its_own() -> None:
    paths = (
        Path(accelerator=A, hops=(hop(A, rise({"RxErr": 1})), hop(ROOT, None))),
        Path(accelerator=B, hops=(hop(B, rise({}, {}, {"DLP": 1})), hop("0000:00:02.0", None))),
    )
    found = judge(node(*paths))
    assert [(f.severity, f.subject) for f in found] == [(CRITICAL, B), (INFO, A)]
    assert {f.id for f in found} == {"pcie.aer"}


def test_evidence_names_the_errors_and_what_is_normal() -> None:
    finding = one(rise({"RxErr": 20, "BadTLP": 2}))
    (evidence,) = finding.evidence
    assert evidence.value == f"{A}: 22 corrected errors in 1.0 s (BadTLP 2, RxErr 20)"
    assert evidence.expected == "16 a minute, 0.27 in that time"
    assert finding.impact.startswith("1320 errors a minute, 82 times what is normal")


def test_on_bare_metal_the_card_is_reseated_and_the_price_is_told() -> None:
    for rose in (rise({"RxErr": 20}), rise({}, {}, {"DLP": 1})):
        finding = one(rose)
        assert (finding.remedy.action, finding.owner) == (Action.RESEAT, Owner.HARDWARE)
        assert finding.remedy.cost
        assert A in finding.remedy.commands[0]


def test_in_a_guest_nobody_is_sent_to_the_slot() -> None:
    path = Path(accelerator=A, hops=(hop(A, rise({"RxErr": 20})), hop(ROOT, None)))
    (finding,) = judge(node(path, guest=True))
    assert (finding.remedy.action, finding.owner) == (Action.NONE, Owner.HYPERVISOR)


def test_what_is_normal_asks_for_nothing() -> None:
    assert one(rise({"RxErr": 1})).remedy.action is Action.NONE


def test_emulated_ports_and_chip_to_chip_cards_do_not_count() -> None:
    fiction = msgspec.structs.replace(hop(ROOT, rise({}, {}, {"DLP": 1})), emulated=True)
    assert judge(node(Path(accelerator=A, hops=(hop(A, rise()), fiction)))) == []
    path = Path(accelerator=A, hops=(hop(A, rise({"RxErr": 900})),))
    beside = Gpu(pci_address=A, chip_to_chip=True)
    assert judge(node(path, gpus=(beside,))) == []


def test_errors_since_boot_prove_nothing() -> None:
    old = msgspec.structs.replace(hop(A, None), aer=rise({"RxErr": 10**9}, {"CmpltTO": 5}))
    assert judge(node(Path(accelerator=A, hops=(old,)), seconds=None)) == []


def copied(
    card: str, replays: int | None, seconds: float | None = 60.0, **changes: object
) -> Transfer:
    base = Transfer(
        name="host_to_device",
        card=card,
        median_bytes_per_second=25e9,
        link_gts=16.0,
        link_width=16,
        replays=replays,
        replay_seconds=seconds,
    )
    return msgspec.structs.replace(base, **changes)


@pytest.mark.parametrize(
    ("replays", "seconds", "expected"),
    [
        (0, 60.0, []),
        (None, 60.0, []),
        (40, None, []),
        (1, 60.0, [INFO]),
        (16, 60.0, [INFO]),
        (38, 60.0, [INFO]),
        (39, 60.0, [WARNING]),
        (5, 1.0, [INFO]),
        (6, 1.0, [WARNING]),
    ],
)
def test_replays_while_copies_ran(
    replays: int | None, seconds: float | None, expected: list[Severity]
) -> None:
    found = judge(node(transfers=(copied(A, replays, seconds),)))
    assert [f.severity for f in found] == expected


def test_a_card_has_one_count_for_all_its_copies() -> None:
    both = (copied(A, 30), copied(A, 30, name="device_to_host"))
    (finding,) = judge(node(transfers=both))
    assert finding.severity is INFO
    assert len(finding.evidence) == 1
    aside = (copied(B, 300, name="peer_to_peer", link_gts=None), copied(B, 300))
    (finding,) = judge(node(transfers=aside))
    assert finding.severity is WARNING
    assert finding.evidence[0].value == f"{B}: 300 replays in 60 s of copies, Gen4 x16"


def test_replays_and_counted_errors_of_a_card_are_one_finding() -> None:
    path = Path(accelerator=A, hops=(hop(A, rise({"RxErr": 50})), hop(ROOT, None)))
    (finding,) = judge(node(path, transfers=(copied(A, 500),)))
    assert finding.subject == A
    assert len(finding.evidence) == 2


def test_a_policy_may_set_what_is_normal() -> None:
    path = Path(accelerator=A, hops=(hop(A, rise({"RxErr": 50})), hop(ROOT, None)))
    lax = Policy(thresholds=Thresholds(replays_per_minute_per_gts=60))
    assert judge(msgspec.structs.replace(node(path), policy=lax))[0].severity is INFO
    never = Policy(thresholds=Thresholds(link_errors_chance=0))
    assert judge(msgspec.structs.replace(node(path), policy=never))[0].severity is INFO


names = st.dictionaries(
    st.sampled_from(["RxErr", "UnsupReq", "NonFatalErr", "X"]), st.integers(1, 10**17), max_size=3
)
counts = st.none() | st.builds(
    Errors,
    correctable=st.integers(0, 10**17),
    nonfatal=st.integers(0, 10**17),
    fatal=st.integers(0, 3),
    correctable_names=names,
    nonfatal_names=names,
    fatal_names=names,
)


@given(
    st.lists(
        st.builds(
            Hop,
            address=st.sampled_from([A, B, ROOT]),
            aer_rise=counts,
            maximum_gts=st.none() | st.floats(0.1, 256),
            current_width=st.none() | st.integers(1, 32),
            emulated=st.booleans(),
        ),
        max_size=5,
    ),
    st.none() | st.floats(0, 1e9),
    st.booleans(),
)
def test_any_rise_can_be_judged(hops: list[Hop], seconds: float | None, guest: bool) -> None:
    for finding in judge(node(Path(accelerator=A, hops=tuple(hops)), seconds=seconds, guest=guest)):
        assert finding.evidence
        assert finding.impact
        assert finding.remedy.text
