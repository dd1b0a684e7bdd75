"""Errors that devices counted: both spellings, two samples, live and captured, and nonsense."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.pcie import aer
from nodecheck.checks.pcie.facts import Errors, PcieFacts
from nodecheck.checks.pcie.probe import probe
from nodecheck.machine import pci, pci_details
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.machine.recording import RecordingHost
from nodecheck.model import Reason
from tests.checks.gpu.inputs import device, port
from tests.checks.live_tree import live_tree, while_sleeping
from tests.checks.pcie.inputs import CARD, ROOT, counted, counters
from tests.machine.config_space import SERIAL, space
from tests.trees import Tree, plant

Node = Callable[[Tree], CapturedHost]
CARD_PLACE = f"{ROOT}/{CARD}"
SLOT: Tree = {**port(ROOT), **device(CARD, ROOT)}
QUIET = counters()

LONG = {
    "aer_dev_correctable": "Receiver Error 2\nBad TLP 0\nBad DLLP 1\nRELAY_NUM Rollover 0\n"
    "Replay Timer Timeout 4\nAdvisory Non-Fatal 5\nCorrected Internal Error 0\n"
    "Header Log Overflow 0\nTOTAL_ERR_COR 11\n",
    "aer_dev_nonfatal": "Undefined 0\nData Link Protocol 0\nSurprise Down Error 0\n"
    "Poisoned TLP 0\nFlow Control Protocol 0\nCompletion Timeout 3\nCompleter Abort 0\n"
    "Unexpected Completion 0\nReceiver Overflow 0\nMalformed TLP 0\nECRC 0\n"
    "Unsupported Request 7\nACS Violation 0\nUncorrectable Internal Error 0\n"
    "TOTAL_ERR_NONFATAL 10\n",
    "aer_dev_fatal": "Undefined 0\nMalformed TLP 1\nTOTAL_ERR_FATAL 1\n",
}


def errors(files: dict[str, str], node: Node) -> Errors | None:
    facts = probe(Reader(node({**SLOT, **counted(CARD_PLACE, files)}), "pcie"))
    return facts.paths[0].hops[0].aer


def test_short_names(node: Node) -> None:
    files = counters({"RxErr": 3, "BadTLP": 1}, {"UnsupReq": 2}, {"DLP": 1})
    assert errors(files, node) == Errors(
        correctable=4,
        nonfatal=2,
        fatal=1,
        correctable_names={"RxErr": 3, "BadTLP": 1},
        nonfatal_names={"UnsupReq": 2},
        fatal_names={"DLP": 1},
    )


def test_long_names_become_short_ones(node: Node) -> None:
    found = errors(LONG, node)
    assert found is not None
    assert (found.correctable, found.nonfatal, found.fatal) == (11, 10, 1)
    assert found.correctable_names == {"RxErr": 2, "BadDLLP": 1, "Timeout": 4, "NonFatalErr": 5}
    assert found.nonfatal_names == {"CmpltTO": 3, "UnsupReq": 7}
    assert found.fatal_names == {"MalfTLP": 1}
    assert (found.of_link, found.uncorrected, found.refused) == (6, 4, 7)


def test_bits_without_a_name_are_no_fault_of_the_link(node: Node) -> None:
    files = QUIET | {"aer_dev_correctable": "RxErr 1\ndev_cor_errs_bit[3] 9\nTOTAL_ERR_COR 10\n"}
    found = errors(files, node)
    assert found is not None
    assert found.correctable_names == {"RxErr": 1, "dev_cor_errs_bit[3]": 9}
    assert found.of_link == 1


def test_a_total_may_differ_from_the_sum(node: Node) -> None:
    files = QUIET | {"aer_dev_correctable": "RxErr 10\nBadTLP 10\nTOTAL_ERR_COR 10\n"}
    found = errors(files, node)
    assert found is not None
    assert (found.correctable, found.of_link) == (10, 10)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {name: text for name, text in QUIET.items() if name != "aer_dev_fatal"},
        QUIET | {"aer_dev_fatal": "Undefined 0\n"},
        QUIET | {"aer_dev_fatal": ""},
        QUIET | {"aer_dev_correctable": "TOTAL_ERR_COR -4\n"},
        QUIET | {"aer_dev_correctable": f"TOTAL_ERR_COR {'9' * 30}\n"},
        QUIET | {"aer_dev_correctable": "TOTAL_ERR_COR \u0663\n"},
        QUIET | {"aer_dev_correctable": "TOTAL_ERR_COR\n"},
    ],
)
def test_errors_are_known_where_all_totals_are_told(files: dict[str, str], node: Node) -> None:
    assert errors(files, node) is None


def test_a_node_without_counters_is_a_gap(node: Node) -> None:
    reader = Reader(node(SLOT), "pcie")
    probe(reader)
    (gap,) = [gap for gap in reader.gaps if gap.field == "paths.hops.aer"]
    assert gap.reason is Reason.ABSENT


def test_a_file_without_end_is_cut_off(node: Node) -> None:
    endless = "".join(f"Name{n} 1\n" for n in range(5000))
    found = errors(QUIET | {"aer_dev_correctable": "TOTAL_ERR_COR 1\n" + endless}, node)
    assert found is not None
    assert len(found.correctable_names) < 70


@given(st.text(max_size=200))
def test_any_text_is_survived(text: str) -> None:
    for name, count in aer._lines(text):
        assert name
        assert count >= 0


BEFORE = counters({"RxErr": 5}, {"UnsupReq": 1})
AFTER = counters({"RxErr": 25, "BadTLP": 2}, {"UnsupReq": 1, "CmpltTO": 1})
ROSE = Errors(
    correctable=22,
    nonfatal=1,
    fatal=0,
    correctable_names={"RxErr": 20, "BadTLP": 2},
    nonfatal_names={"CmpltTO": 1},
)
NOTHING = Errors(correctable=0, nonfatal=0, fatal=0)


def rises(facts: PcieFacts) -> list[Errors | None]:
    return [hop.aer_rise for hop in facts.paths[0].hops]


def test_a_live_node_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {**SLOT, **counted(CARD_PLACE, BEFORE), **counted(ROOT, QUIET)}
    later = counted(CARD_PLACE, AFTER)
    slept = while_sleeping(monkeypatch, "nodecheck.checks.pcie.aer", tmp_path, later)
    facts = probe(Reader(live_tree(tree, tmp_path), "pcie"))
    assert rises(facts) == [ROSE, NOTHING]
    assert facts.paths[0].hops[0].aer == Errors(
        correctable=5,
        nonfatal=1,
        fatal=0,
        correctable_names={"RxErr": 5},
        nonfatal_names={"UnsupReq": 1},
    )
    assert facts.window_seconds == 1.0
    assert len(slept) == 1
    assert 0.5 < slept[0] <= 1.0


def test_a_node_without_counters_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = while_sleeping(monkeypatch, "nodecheck.checks.pcie.aer", tmp_path, {})
    facts = probe(Reader(live_tree(SLOT, tmp_path), "pcie"))
    assert slept == []
    assert (rises(facts), facts.window_seconds) == ([None, None], None)


def test_all_that_a_device_counts_after_its_reset_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counters({"RxErr": 5000})
    tree = {**SLOT, **counted(CARD_PLACE, before), **counted(ROOT, QUIET)}
    later = counted(CARD_PLACE, counters({"RxErr": 3}, None, {"DLP": 2}))
    while_sleeping(monkeypatch, "nodecheck.checks.pcie.aer", tmp_path, later)
    rise = Errors(
        correctable=3,
        nonfatal=0,
        fatal=2,
        correctable_names={"RxErr": 3},
        fatal_names={"DLP": 2},
    )
    assert rises(probe(Reader(live_tree(tree, tmp_path), "pcie"))) == [rise, NOTHING]


def test_a_large_count_is_kept(node: Node) -> None:
    found = errors(QUIET | {"aer_dev_fatal": f"DLP {10**17}\nTOTAL_ERR_FATAL {10**17}\n"}, node)
    assert found is not None
    assert (found.fatal, found.fatal_names) == (10**17, {"DLP": 10**17})


@pytest.mark.parametrize("name", ["DLP", "TOTAL_ERR_FATAL"])
def test_a_count_that_cannot_be_is_a_gap_of_its_device(name: str, node: Node) -> None:
    files = QUIET | {"aer_dev_fatal": f"{name} {(1 << 64) - 1}\nTOTAL_ERR_FATAL 0\n"}
    tree = {**SLOT, **counted(CARD_PLACE, files), **counted(ROOT, QUIET)}
    reader = Reader(node(tree), "pcie")
    facts = probe(reader)
    assert [hop.aer is None for hop in facts.paths[0].hops] == [True, False]
    (gap,) = [gap for gap in reader.gaps if gap.field == "paths.hops.aer"]
    assert gap.reason is Reason.FAILED
    assert gap.detail == f"{CARD}: {name} is {(1 << 64) - 1}, which cannot be"


def test_a_capture_holds_the_second_sample(node: Node) -> None:
    tree = {**SLOT, **counted(CARD_PLACE, BEFORE), **counted(CARD_PLACE, AFTER, ".2")}
    facts = probe(Reader(node(tree), "pcie"))
    assert (rises(facts), facts.window_seconds) == ([ROSE, None], 1.0)


@pytest.mark.parametrize(
    ("clocks", "seconds"),
    [
        (("100.10 7.00", "101.65 8.00"), 1.55),
        (("100.10 7.00", "100.20 8.00"), 1.0),
        (("100.10 7.00", "9.00 8.00"), 1.0),
        (("100.10 7.00", "yesterday"), 1.0),
        (("\u0661.10 7", "3.10 8"), 1.0),
    ],
)
def test_a_capture_holds_the_clock(clocks: tuple[str, str], seconds: float, node: Node) -> None:
    clock: Tree = {"proc/uptime": f"{clocks[0]}\n", "proc/uptime.2": f"{clocks[1]}\n"}
    samples = {**counted(CARD_PLACE, BEFORE), **counted(CARD_PLACE, AFTER, ".2")}
    assert probe(Reader(node({**SLOT, **samples, **clock}), "pcie")).window_seconds == seconds


def test_a_capture_with_one_sample_has_no_rise(node: Node) -> None:
    facts = probe(Reader(node({**SLOT, **counted(CARD_PLACE, AFTER)}), "pcie"))
    assert (rises(facts), facts.window_seconds) == ([None, None], None)


def test_what_is_captured_tells_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder keeps both samples, the clock and the registers, without the serial number."""
    live, kept = tmp_path / "live", tmp_path / "kept"
    serial = bytes(range(1, 9))
    tree: Tree = {
        **SLOT,
        **counted(CARD_PLACE, BEFORE),
        **counted(ROOT, QUIET),
        f"sys/devices/pci0000:00/{CARD_PLACE}/config": space(extended={SERIAL: serial}),
    }
    plant(tree, live)
    while_sleeping(monkeypatch, "nodecheck.checks.pcie.aer", live, counted(CARD_PLACE, AFTER))
    with monkeypatch.context() as patched:
        for module in (pci, pci_details, aer):
            patched.setattr(module, "SYSFS", f"{live}/sys/bus/pci/devices")
        recorded = probe(Reader(RecordingHost(kept), "pcie"))
    assert rises(recorded) == [ROSE, NOTHING]
    assert recorded.paths[0].hops[0].target_gts == 16.0
    replayed_root = tmp_path / "replayed"
    shutil.copytree(kept / live.relative_to("/"), replayed_root, symlinks=True)
    shutil.copytree(kept / "proc", replayed_root / "proc")
    assert {file.name for file in (kept / "proc").iterdir()} == {"uptime", "uptime.2"}
    replayed = probe(Reader(CapturedHost(replayed_root), "pcie"))
    assert replayed.paths == recorded.paths
    assert replayed.window_seconds == recorded.window_seconds
    config = next(replayed_root.rglob("config")).read_bytes()
    assert len(config) == 4096
    assert serial not in config
