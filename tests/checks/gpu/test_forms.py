"""The forms of nvidia-smi: one card, one set of facts, whichever form it was captured in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from nodecheck.checks.gpu.facts import Gpu, Thermal
from nodecheck.checks.gpu.nvidia_smi import FORMS
from nodecheck.checks.gpu.nvidia_smi_fields import gpu_of
from tests.checks.gpu.expected import CARDS, HEALTHY, PARENT
from tests.checks.gpu.inputs import IDLE_4090, L40, Values, card, running
from tests.checks.gpu.printed import FAILING, xml
from tests.checks.gpu.printed_text import csv, table, text

OLD, NEW, TEXT, CSV, TABLE = "xml 12", "xml 13", "text", "csv", "table"
PRINTED: dict[str, tuple[int, Callable[[Sequence[Values]], str]]] = {
    OLD: (0, lambda cards: xml(cards, 12)),
    NEW: (0, xml),
    TEXT: (1, text),
    CSV: (2, csv),
    TABLE: (3, table),
}
"""A form -> its number in FORMS and what prints it."""

XML = frozenset({OLD, NEW})
LONG = XML | {TEXT}
LATE = frozenset({NEW, TEXT})
QUERIES = LONG | {CSV}
ALL = QUERIES | {TABLE}
NOWHERE = frozenset[str]()

HELD = {
    "index": ALL,
    "pci_address": ALL,
    "vendor": ALL,
    "name": ALL,
    "pci_device_id": QUERIES,
    "seen_by": ALL,
    "granted": ALL,
    "driver": NOWHERE,
    "lost": ALL,
    "memory_bytes": ALL,
    "memory_used_bytes": ALL,
    "unified_memory": ALL,
    "memory_bus_bits": NOWHERE,
    "memory_clock_mhz": QUERIES,
    "maximum_memory_clock_mhz": QUERIES,
    "sm_clock_mhz": QUERIES,
    "maximum_sm_clock_mhz": QUERIES,
    "vram_bytes_per_second": NOWHERE,
    "vram_rate_source": NOWHERE,
    "performance_state": ALL,
    "utilisation_share": ALL,
    "temperature_celsius": ALL,
    "power_watts": ALL,
    "power_limit_watts": ALL,
    "default_power_limit_watts": QUERIES,
    "clocks_event_reasons": QUERIES,
    "ecc_volatile_uncorrectable": ALL,
    "ecc_volatile_correctable": QUERIES,
    "remap_pending": QUERIES,
    "remap_failure": QUERIES,
    "remapped_rows_uncorrectable": QUERIES,
    "link_generation": QUERIES,
    "link_generation_max": QUERIES,
    "link_generation_device_max": QUERIES,
    "link_generation_host_max": QUERIES,
    "link_width": QUERIES,
    "link_width_max": QUERIES,
    "pcie_replays": LONG,
    "mig": ALL,
    "persistence": ALL,
    "numa_node": NOWHERE,
    "subsystem_id": QUERIES,
    "virtualisation": LONG,
    "device_file": NOWHERE,
    "error": ALL,
    "chip_to_chip": NOWHERE,
    "product_lanes": NOWHERE,
    "uuid": QUERIES,
    "serial": QUERIES,
    "vbios_version": QUERIES,
    "compute_capability": frozenset({CSV}),
    "compute_mode": ALL,
    "display_active": ALL,
    "bar1_bytes": LONG,
    "processes": LONG | {TABLE},
    "clock_event_seconds": LATE | {CSV},
    "memory_temperature_celsius": QUERIES,
    "thermal": QUERIES,
    "requested_power_limit_watts": QUERIES,
    "minimum_power_limit_watts": QUERIES,
    "maximum_power_limit_watts": QUERIES,
    "performance_level": NOWHERE,
    "ecc_enabled": ALL,
    "ecc_pending": QUERIES,
    "ecc_aggregate_uncorrectable": QUERIES,
    "ecc_aggregate_correctable": QUERIES,
    "sram_threshold_exceeded": LATE | {CSV},
    "remapped_rows_correctable": QUERIES,
    "remap_banks": QUERIES,
    "retired_pages": QUERIES,
    "recovery_action": LATE | {CSV},
    "pcie_replay_rollovers": LONG,
    "pcie_errors": NOWHERE,
    "pcie_sent_bytes_per_second": LONG,
    "pcie_received_bytes_per_second": LONG,
    "mig_pending": QUERIES,
    "mig_instances": LONG | {TABLE},
    "nvlinks": NOWHERE,
    "fabric": QUERIES,
    "uncorrectable_by_block": NOWHERE,
    "partition_mode": NOWHERE,
}
"""A member of Gpu -> the forms that print it; what the others leave out stays unknown there."""


def read(form: str, *cards: Values) -> list[Gpu]:
    """The cards as this form tells of them."""
    number, prints = PRINTED[form]
    return [gpu_of(record) for record in FORMS[number][1](prints(cards))]


def in_part(form: str, gpu: Gpu) -> Gpu:
    """What a form holds of members that are made of several."""
    changes: dict[str, object] = {}
    if form == CSV and gpu.thermal is not None:
        margin = gpu.thermal.margin_celsius
        changes["thermal"] = None if margin is None else Thermal(margin_celsius=margin)
    if form in (OLD, CSV) and gpu.fabric is not None:
        changes["fabric"] = msgspec.structs.replace(gpu.fabric, problems=())
    if form == TABLE and gpu.mig:  # its place is taken by the mode
        changes["ecc_volatile_uncorrectable"] = None
    return msgspec.structs.replace(gpu, **changes)


def test_it_is_decided_of_every_member_which_forms_hold_it() -> None:
    assert list(HELD) == list(Gpu.__struct_fields__)


@pytest.mark.parametrize("form", PRINTED)
@pytest.mark.parametrize("kind", CARDS)
def test_every_form_tells_the_same_facts(kind: str, form: str) -> None:
    values, whole = CARDS[kind]
    (got,) = read(form, values)
    wanted = in_part(form, whole)
    for member, forms in HELD.items():
        expected = getattr(wanted if form in forms else Gpu(), member)
        assert getattr(got, member) == expected, member


@pytest.mark.parametrize("form", PRINTED)
def test_several_cards_are_told_apart(form: str) -> None:
    cards = (
        HEALTHY,
        card(PARENT, bus="41"),
        card(IDLE_4090, bus="C1", processes=running((7, "C", "1 MiB", "last"))),
    )
    gpus = read(form, *cards)
    assert [gpu.index for gpu in gpus] == [0, 1, 2]
    assert [gpu.pci_address for gpu in gpus] == ["0000:01:00.0", "0000:41:00.0", "0000:c1:00.0"]
    if form != CSV:
        assert [len(gpu.mig_instances) for gpu in gpus] == [0, 2, 0]
        assert [[p.pid for p in gpu.processes or ()] for gpu in gpus] == [
            [2165, 2496, 31007, 31008], [], [7],
        ]  # fmt: skip


STRUCTURE = {
    "name", "bus", "device", "subsystem", "virtualisation", "processes", "instances", "banks",
    "health",
}  # fmt: skip
"""Values that no word stands for here: what says which card it is, and lists."""


@pytest.mark.parametrize("form", PRINTED)
@pytest.mark.parametrize("word", FAILING)
def test_a_word_in_place_of_a_value_is_unknown_and_not_zero(word: str, form: str) -> None:
    values = {**L40, **dict.fromkeys(set(L40) - STRUCTURE, word), "banks": " ".join(["-"] * 5)}
    (gpu,) = read(form, values)
    known = {
        "index", "pci_address", "vendor", "name", "pci_device_id", "seen_by", "granted",
        "subsystem_id", "virtualisation", "processes", "mig", "mig_pending", "unified_memory",
        "error",
    }  # fmt: skip
    unknown = {member for member in Gpu.__struct_fields__ if member not in known}
    assert {m: getattr(gpu, m) for m in unknown} == {m: getattr(Gpu(), m) for m in unknown}
    nothing = word in ("N/A", "Not Supported")
    assert gpu.mig is (False if nothing else None)
    assert gpu.unified_memory is nothing
    if form != TABLE:  # where ERR! stands for any failure
        assert gpu.error == ("GPU requires reset" if word == "GPU requires reset" else None)
