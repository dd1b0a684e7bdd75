"""Every fact of NVML from a source that is healthy, faulty, refused, missing or hangs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodecheck.checks.gpu.facts import Fabric, Gpu, GpuFacts, MigInstance, NvLink, RetiredPages
from nodecheck.checks.gpu.facts import Thermal as ThermalFacts
from nodecheck.checks.gpu.nvml_refusals import MEMBERS
from tests.checks.gpu.nvml_rows import BASE, NOT_OF_NVML, ROWS, SYSTEM, SYSTEM_ROWS, Row
from tests.checks.gpu.queried import queried
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import Card, description

__all__ = ["fake_nvml"]

AT_ONCE = 60
NESTED: dict[str, type[msgspec.Struct]] = {
    "thermal": ThermalFacts,
    "retired_pages": RetiredPages,
    "fabric": Fabric,
    "nvlinks.1": NvLink,
    "mig_instances.0": MigInstance,
}


def test_every_member_has_a_row() -> None:
    told = {row.member for row in ROWS}
    members = set(Gpu.__struct_fields__) - NOT_OF_NVML
    assert members - {member.partition(".")[0] for member in told} == set()
    for prefix, kind in NESTED.items():
        wanted = {f"{prefix}.{name}" for name in kind.__struct_fields__} - {"nvlinks.1.link"}
        assert wanted - told == set()


def test_every_member_has_its_refusal() -> None:
    """But for ids of PCI, which have other sources, and what is no where it is not told."""
    without = {"pci_address", "pci_device_id", "subsystem_id", "mig_instances", "chip_to_chip"}
    members = {member.partition(".")[0] for member in MEMBERS}
    assert members == set(Gpu.__struct_fields__) - NOT_OF_NVML - without


def test_every_member_of_the_driver_has_a_row() -> None:
    others = {
        "state", "message", "source", "denied_device", "lost", "module_version", "nvswitches",
        "fabric_manager",
    }  # fmt: skip
    assert {row.member for row in SYSTEM_ROWS} == set(GpuFacts.__struct_fields__) - others


def cards(fake: FakeNvml, place: Path, changed: Iterable[Card]) -> list[dict[str, Any]]:
    """The facts of one card a change, and why members of it are not told."""
    every = list(changed)
    texts = [
        description([{**BASE, **card} for card in every[first : first + AT_ONCE]], **SYSTEM)
        for first in range(0, len(every), AT_ONCE)
    ]
    answers = queried(fake, place, texts)
    assert [answer["gpu"]["state"] for answer in answers] == ["ok"] * len(texts)
    return [gpu for answer in answers for gpu in answer["gpus"]]


def at(told: Any, path: str) -> Any:
    """The value at the end of a path; None where the way ends before."""
    for step in path.split("."):
        if isinstance(told, list):
            told = told[int(step)] if int(step) < len(told) else None
        elif told is not None:
            told = told.get(step)
    return told


def check(rows: Iterable[Row], gpus: list[dict[str, Any]], wanted: Iterable[object]) -> None:
    for row, gpu, value in zip(rows, gpus, wanted, strict=True):
        found = at(gpu, row.member)
        expected = pytest.approx(value) if isinstance(value, float) else value
        assert found == expected, (row.member, row.faulty)
        assert type(found) is type(value), (row.member, row.faulty)


def test_healthy(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    gpus = cards(fake_nvml, tmp_path, [row.base for row in ROWS])
    check(ROWS, gpus, [row.healthy for row in ROWS])
    for gpu in gpus:
        assert (gpu["lost"], gpu["error"], gpu["granted"]) == (False, None, True)


def test_faulty(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    gpus = cards(fake_nvml, tmp_path, [{**row.base, **row.faulty} for row in ROWS])
    check(ROWS, gpus, [row.told for row in ROWS])


def refusing(rows: Iterable[Row], error: str) -> list[Card]:
    return [{**row.base, **dict.fromkeys(row.faulty, error)} for row in rows]


@pytest.mark.parametrize("error", ["!3", "!13", "!2"])
def test_not_supported(error: str, fake_nvml: FakeNvml, tmp_path: Path) -> None:
    gpus = cards(fake_nvml, tmp_path, refusing(ROWS, error))
    check(ROWS, gpus, [row.refused for row in ROWS])
    assert [gpu["error"] for gpu in gpus] == [None] * len(gpus)
    assert [gpu["lost"] for gpu in gpus] == [False] * len(gpus)


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        ("!3", "unsupported", "Not Supported"),
        ("!4", "denied", "Insufficient Permissions"),
        ("!999", "failed", "Unknown Error"),
        ("!28", "failed", "NVML error 28"),
    ],
)
def test_refusals_are_kept(
    error: str, reason: str, words: str, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    """One card refuses all that it tells; of NVLinks it still tells the count."""
    keys = {key for row in ROWS for key in row.faulty if not key.startswith(("mig ", "nvlink"))}
    refused = {key: error for key in keys if key not in ("nvlinks", "bus_id")}
    text = description([{**BASE, **refused, "utilisation": 5}], **SYSTEM)
    (answer,) = queried(fake_nvml, tmp_path, [text])
    (told,) = answer["refusals"]
    apart = {"nvlinks", "utilisation_share"}
    assert {member: tuple(why) for member, why in told.items() if member not in apart} == (
        dict.fromkeys(set(MEMBERS) - apart, (reason, words))
    )


FALLBACKS = {
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetTemperatureV", "nvmlDeviceGetGpuFabricInfoV",
}  # fmt: skip
"""Functions in whose place an older one tells the same."""

LEAN_ON: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetNvLinkState": ("nvlinks.1.",),
    "nvmlDeviceGetFieldValues": ("nvlinks.1.",),
    "nvmlDeviceGetComputeRunningProcesses_v3": ("processes.",),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": ("processes.",),
    "nvmlDeviceGetUtilizationRates": ("pcie_sent", "pcie_received"),
    "nvmlSystemGetDriverVersion": (
        "clock_event_seconds.sw_thermal",
        "clock_event_seconds.hw_",
    ),
}
"""A function -> facts of others that are not told without it either."""


def test_functions_that_a_driver_lacks(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """Without a function what it alone tells is not known, and all the rest is."""
    names = sorted({row.function for row in (*ROWS, *SYSTEM_ROWS)})
    texts = [description([BASE], **SYSTEM)]
    texts += [description([BASE], **{**SYSTEM, f"missing {name}": 1}) for name in names]
    whole, *answers = queried(fake_nvml, tmp_path, texts)
    for name, answer in zip(names, answers, strict=True):
        assert answer["gpu"]["state"] == "ok", name
        (gpu,), (base,) = answer["gpus"], whole["gpus"]
        for row in [row for row in ROWS if not row.base]:
            lacks = row.function == name and name not in FALLBACKS
            in_part = row.member == "nvlinks" or (row.member == "processes" and not lacks)
            if in_part or row.member.startswith(LEAN_ON.get(name, ())):
                continue
            expected = row.refused if lacks else at(base, row.member)
            assert at(gpu, row.member) == expected, (name, row.member)
        for row in SYSTEM_ROWS:
            expected = None if row.function == name else at(whole["gpu"], row.member)
            assert answer["gpu"][row.member] == expected, (name, row.member)


def test_system(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    changes: list[Mapping[str, str | int]] = [{}, *(row.faulty for row in SYSTEM_ROWS)]
    changes += [dict.fromkeys(row.faulty, "!3") for row in SYSTEM_ROWS]
    answers = queried(
        fake_nvml, tmp_path, [description([BASE], **{**SYSTEM, **change}) for change in changes]
    )
    healthy, *others = [answer["gpu"] for answer in answers]
    faulty, refused = others[: len(SYSTEM_ROWS)], others[len(SYSTEM_ROWS) :]
    for row, told, without in zip(SYSTEM_ROWS, faulty, refused, strict=True):
        assert (healthy[row.member], told[row.member], without[row.member]) == (
            row.healthy,
            row.told,
            None,
        )


def test_hanging(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    """Each names what it hung in, and what was read of other cards before is not lost."""
    rows = {(row.asked, next(iter(row.faulty))): row for row in ROWS if row.asked}
    wanted = [f"for the {asked} of card 1" for asked, _ in rows]
    texts = [
        description([BASE, {**BASE, **row.base, key: "hang"}], **SYSTEM)
        for (_, key), row in rows.items()
    ]
    wanted += [f"for the {row.asked}" for row in SYSTEM_ROWS] + ["to start"]
    keys = [*(next(iter(row.faulty)) for row in SYSTEM_ROWS), "init"]
    texts += [description([BASE], **{**SYSTEM, key: "hang"}) for key in keys]
    answers = queried(fake_nvml, tmp_path, texts, hang_seconds=4)
    assert [answer["asked"] for answer in answers] == wanted
    for answer, asked in zip(answers, wanted, strict=True):
        assert answer["gpu"]["state"] == "unresponsive"
        message = answer["gpu"]["message"]
        assert message.startswith("NVML: no answer within 4 s")
        assert message.endswith(f"; it was asked {asked}")
    for answer in answers[: len(rows)]:
        assert [gpu["uuid"] for gpu in answer["gpus"]] == [BASE["uuid"]]
        assert answer["gpu"]["driver_version"] == "580.95.05"
