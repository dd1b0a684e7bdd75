"""Copies and answers of CUDA, from a library that answers as described."""

from __future__ import annotations

import errno
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nodecheck.machine import child, cuda, nvidia_driver, stuck
from nodecheck.machine.child import Outcome
from nodecheck.machine.cuda import Answer, Card, Copied, Copy
from tests.checks.live_tree import LiveTree
from tests.fake_cuda.build import FakeCuda, fake_cuda, left, log
from tests.fake_cuda.profiles import GIB, H200, L40, RTX_4090, T4, node
from tests.trees import plant

__all__ = ["fake_cuda"]

MIB = 1 << 20

RATES = {
    "host_to_device": 55.2e9,
    "device_to_host": 53.1e9,
    "host_to_device_pageable": 14e9,
    "device_to_host_pageable": 11e9,
    "peer_to_peer": 390e9,
    "device_copy": 2 * 2150e9,
    "device_read": 4250e9,
}
"""Those of an H200 of the profiles."""


def step(name: str, *cards: int, **changes: Any) -> Copy:
    peers = tuple(1 - card for card in cards) if name == "peer_to_peer" else ()
    values = {"buffer_bytes": MIB, "seconds": 0.04, "peers": peers, **changes}
    return Copy(name=name, cards=cards, **values)


def median(copied: Copied) -> float:
    assert copied.error is None, copied
    assert len(copied.rates) >= 3
    return statistics.median(copied.rates)


# --- what CUDA answers ---


def test_it_counts_the_cards_and_names_their_addresses(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    cards = [*node(H200, 1), *node(T4, 1, 0xE2)]
    answer = fake_cuda.query(fake_cuda.environment(cards, tmp_path, version=12080))
    assert answer == Answer(
        version=12080,
        cards=(
            Card(position=0, pci_address="0000:17:00.0"),
            Card(position=1, pci_address="0000:e2:00.0"),
        ),
    )


def test_addresses_are_written_as_sysfs_writes_them(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    cards = [{**T4, "pci_address": "00000000:0A:00.0"}, {**T4, "pci_address": "0001:00:00.0"}]
    answer = fake_cuda.query(fake_cuda.environment(cards, tmp_path))
    assert [c.pci_address for c in answer.cards] == ["0000:0a:00.0", "0001:00:00.0"]


@pytest.mark.parametrize("hidden", ["", "1", "1,0"])
def test_no_card_is_hidden_and_they_come_by_address(
    hidden: str, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(L40, 3), tmp_path)
    answer = fake_cuda.query({**environment, "CUDA_VISIBLE_DEVICES": hidden})
    assert [c.pci_address for c in answer.cards] == [
        "0000:17:00.0", "0000:18:00.0", "0000:19:00.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "CUDA_ERROR_NOT_INITIALIZED: initialization error"),
        (100, "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized"),
        (999, "CUDA_ERROR_UNKNOWN: unknown error"),
        (555, "CUDA error 555"),
    ],
)
def test_what_does_not_start_has_its_number_and_words(
    code: int, words: str, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    answer = fake_cuda.query(fake_cuda.environment(node(L40, 1), tmp_path, cuInit=f"!{code}"))
    assert answer == Answer(error=code, call="cuInit", message=words, version=13000)


def test_without_cards_there_is_no_device(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    assert fake_cuda.query(fake_cuda.environment([], tmp_path)).error == 100


def test_a_card_that_does_not_answer_leaves_the_others(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    cards = [*node(L40, 1), {**L40, "cuDeviceGetPCIBusId": "!999"}, {**L40}]
    answer = fake_cuda.query(fake_cuda.environment(cards, tmp_path))
    assert (answer.error, answer.call) == (999, "cuDeviceGetPCIBusId")
    assert [c.pci_address for c in answer.cards] == ["0000:17:00.0"]


def test_a_library_that_cannot_be_loaded_is_an_answer(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    environment = fake_cuda.environment([], tmp_path)
    answer = fake_cuda.query({**environment, "LD_LIBRARY_PATH": str(tmp_path)})
    assert (answer.error, answer.call) == (cuda.LIBRARY_MISSING, "dlopen")
    assert "libcuda.so.1" in (answer.message or "")


def test_a_function_that_the_library_lacks_is_named(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path, missing=("cuDeviceGetCount",))
    answer = fake_cuda.query(environment)
    assert answer.error == cuda.SYMBOL_MISSING
    assert answer.call == "cuDeviceGetCount"
    assert answer.message == "libcuda.so.1 has no cuDeviceGetCount"


def test_errors_have_a_number_where_the_library_has_no_words(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    missing = ("cuGetErrorName", "cuGetErrorString")
    environment = fake_cuda.environment(node(L40, 1), tmp_path, missing=missing, cuInit="!100")
    assert fake_cuda.query(environment).message == "CUDA error 100"


@pytest.mark.parametrize("call", ["cuInit", "cuDeviceGetPCIBusId"])
def test_a_hang_names_the_function_and_keeps_what_was_known(
    call: str, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    system: dict[str, Any] = {call: "hang"}
    environment = fake_cuda.environment(node(L40, 2), tmp_path, **system)
    start = time.monotonic()
    answer = fake_cuda.query(environment, deadline_seconds=2.0)
    assert time.monotonic() - start < 8
    assert answer == Answer(
        hung=True,
        call=call,
        message="no answer within 2 s",
        version=13000,
    )


def test_a_crash_is_told_with_its_place(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    answer = fake_cuda.query(fake_cuda.environment(node(L40, 1), tmp_path, cuInit="crash"))
    assert (answer.error, answer.call) == (cuda.CHILD_DIED, "cuInit")
    assert answer.message == "died by SIGSEGV"


def test_who_is_killed_from_outside_says_nothing_of_cuda(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    """By the kernel that runs out of memory, which is told to choose this child."""
    answer = fake_cuda.query(fake_cuda.environment(node(L40, 1), tmp_path, cuInit="killed"))
    assert answer.error == cuda.SYSTEM_REFUSED
    assert answer.message == "died by SIGKILL"


def test_a_process_that_cannot_be_had_says_nothing_of_cuda(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    told = "no process could be started: Resource temporarily unavailable"
    assert cuda.query(1) == Answer(error=cuda.SYSTEM_REFUSED, message=told)
    copies = cuda.copy([step("device_copy", 0)], 1, lambda _: (None, None))
    assert copies == cuda.Copies(error=cuda.SYSTEM_REFUSED, message=told)


def test_the_server_of_another_user_is_left_alone(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path, mps="serving")
    environment["CUDA_MPS_PIPE_DIRECTORY"] = str(tmp_path)
    answer = fake_cuda.query(environment, deadline_seconds=5.0)
    assert (answer.hung, len(answer.cards)) == (False, 1)


def test_the_child_is_the_first_to_die_where_memory_runs_out() -> None:
    from nodecheck.machine import cuda_child

    score = Path("/proc/self/oom_score_adj")
    assert cuda_child._in_child(lambda: int(score.read_text()), int, 5.0).value == 1000


def test_what_is_wrong_with_ourselves_is_not_told_as_a_missing_extension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("nodecheck.machine.cuda_child", raising=False)
    monkeypatch.setitem(sys.modules, "nodecheck.machine.cuda_child", None)
    with pytest.raises(ImportError):
        cuda.query(1)


def test_an_extension_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "nodecheck.machine.native", raising=False)
    monkeypatch.delattr("nodecheck.machine.native", raising=False)
    monkeypatch.setitem(sys.modules, "nodecheck._native", None)
    monkeypatch.delattr("nodecheck._native", raising=False)
    answer = cuda.query(1)
    assert answer.error == cuda.NATIVE_MISSING
    assert (answer.message or "").startswith("the C extension cannot be loaded: ")
    assert cuda.copy([], 1, lambda _: (None, None)).error == cuda.NATIVE_MISSING


def test_what_still_hangs_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "history.db"))
    ours = os.getpid()
    stuck.stuck_pid(cuda.STUCK_MARKER)  # looks in a child whether the directory answers

    def cannot_be_killed(*_: object) -> Outcome[bool]:
        child.abandon(ours)
        return Outcome(error="no answer", hung=True, stuck_pid=ours)

    monkeypatch.setattr(child, "call", cannot_be_killed)
    assert cuda.query(1).hung
    monkeypatch.undo()
    child.reap_abandoned()
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "history.db"))
    told = f"not tried: process {ours} still hangs in CUDA"
    assert cuda.query(1) == Answer(hung=True, message=told)
    assert cuda.copy([], 1, lambda _: (None, None)) == cuda.Copies(hung=True, message=told)


def test_what_hangs_as_the_user_ends_it_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Outcome[bool]:
        child.abandon(os.getpid())
        raise KeyboardInterrupt

    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "history.db"))
    stuck.stuck_pid(cuda.STUCK_MARKER)  # as above
    monkeypatch.setattr(child, "call", interrupted)
    copies = cuda.copy([step("device_copy", 0)], 1, lambda _: (None, None))
    assert copies == cuda.Copies(interrupted=True)
    child.reap_abandoned()
    assert cuda.copy([], 1, lambda _: (None, None)).hung


def test_copies_wait_for_the_driver_as_long_as_it_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def call(_work: object, _kind: object, deadline_seconds: float, _watch: object) -> Outcome[int]:
        waited.append(deadline_seconds)
        return Outcome(error="no answer", hung=True)

    monkeypatch.setattr(child, "call", call)
    cuda.copy([step("device_copy", 0)], 8, lambda _: (None, None))
    assert waited == [nvidia_driver.may_take_seconds(8)]


def test_a_driver_or_its_library_is_worth_a_try(
    fake_cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant({"proc/driver/nvidia/version": "NVRM version"}, tmp_path / "driver")
    plant({"proc/version": "Linux"}, tmp_path / "none")
    without = LiveTree(tmp_path / "none")
    monkeypatch.setattr(nvidia_driver, "CONTROL_DEVICE", str(tmp_path / "nvidiactl"))
    monkeypatch.setattr(nvidia_driver, "_LIBRARY_DIRECTORIES", ())
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert not cuda.worth_trying(without)
    assert cuda.worth_trying(LiveTree(tmp_path / "driver"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_cuda.directory()))
    assert cuda.worth_trying(without)


# --- copies ---


def test_rates_are_those_of_the_card_and_the_data_arrives(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(H200, 2), tmp_path)
    copies = fake_cuda.copy(environment, [step(name, 0) for name in RATES])
    assert (copies.hung, copies.error, copies.message) == (False, None, None)
    assert [c.step for c in copies.copied] == list(range(len(RATES)))
    for name, copied in zip(RATES, copies.copied, strict=True):
        assert median(copied) == pytest.approx(RATES[name], rel=0.02), name
        assert copied.intact is True, name
        assert copied.seen == (32.0, 0x17), name
        assert copied.buffer_bytes == MIB
        assert copied.direct is (True if name == "peer_to_peer" else None)
    assert left(tmp_path) == {}


def test_samples_are_taken_as_long_as_told_and_are_many(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path)
    slow = {**L40, "h2d": 0.01, "pci_address": "0000:18:00.0"}
    start = time.monotonic()
    copied = fake_cuda.copy(environment, [step("host_to_device", 0, seconds=1.0)]).copied[0]
    assert time.monotonic() - start > 1.0
    assert 20 <= len(copied.rates) <= 64
    environment = fake_cuda.environment([slow], tmp_path)
    copied = fake_cuda.copy(environment, [step("host_to_device", 0, seconds=0.01)]).copied[0]
    assert len(copied.rates) == 3
    assert median(copied) == pytest.approx(0.01e9, rel=0.02)


def test_samples_show_how_rates_vary(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1, jitter=0.3), tmp_path)
    copied = fake_cuda.copy(environment, [step("host_to_device", 0, seconds=0.2)]).copied[0]
    assert min(copied.rates) < 0.85 * 26.2e9
    assert max(copied.rates) > 1.15 * 26.2e9


def test_events_that_keep_no_time_give_no_rate(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1, h2d="inf"), tmp_path)
    copied = fake_cuda.copy(environment, [step("host_to_device", 0)]).copied[0]
    assert (copied.rates, copied.error) == ((), cuda.SYSTEM_REFUSED)
    assert copied.message == "no time passed between CUDA's events"


def test_a_buffer_is_whole_blocks(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path)
    plan = [
        step("host_to_device", 0, buffer_bytes=size)
        for size in (0, 10_000, 40 * MIB + 5)  # the last is more than fills a card in one piece
    ]
    plan.append(step("device_copy", 0, buffer_bytes=40 * MIB + 5))
    copied = fake_cuda.copy(environment, plan).copied
    assert [c.buffer_bytes for c in copied] == [4096, 8192, 40 * MIB, 40 * MIB]
    assert all(c.intact for c in copied)


def test_cards_on_one_uplink_share_it_when_they_copy_at_once(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    cards = [*node(L40, 2, uplink="left"), *node(L40, 1, 0xC1)]
    environment = fake_cuda.environment(cards, tmp_path, uplink_left=30)
    plan = [
        *(step("host_to_device", card) for card in range(3)),
        step("host_to_device", 0, 1, 2, seconds=0.2),
        step("device_to_host", 0, 1, 2, seconds=0.2),
    ]
    copies = fake_cuda.copy(environment, plan)
    rates = [(c.step, c.card, round(median(c) / 1e9, 1)) for c in copies.copied]
    assert rates == [
        (0, 0, 26.2), (1, 1, 26.2), (2, 2, 26.2),
        (3, 0, 15.0), (3, 1, 15.0), (3, 2, 26.2),
        (4, 0, 15.0), (4, 1, 15.0), (4, 2, 26.4),
    ]  # fmt: skip
    assert [c.seen[1] for c in copies.copied[3:6]] == [0x17, 0x18, 0xC1]
    assert all(c.intact for c in copies.copied)
    assert left(tmp_path) == {}


def test_a_link_that_wakes_up_is_given_time(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1, ramp=0.15), tmp_path)
    plan = [step("host_to_device", 0)]
    early = fake_cuda.copy(environment, plan).copied[0]
    assert median(early) == pytest.approx(26.2e9 / 4, rel=0.02)
    late = fake_cuda.copy(environment, plan, warm_up_seconds=cuda.WARM_UP_SECONDS).copied[0]
    assert min(late.rates) == pytest.approx(26.2e9, rel=0.02)


@pytest.mark.parametrize("from_copy", [1, 20])
def test_data_that_arrives_changed_is_seen(
    from_copy: int, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(L40, 2, corrupt=from_copy), tmp_path)
    copies = fake_cuda.copy(environment, [step(name, 0) for name in RATES])
    assert [c.intact for c in copies.copied] == [False] * len(RATES)
    assert all(c.rates for c in copies.copied)


@pytest.mark.parametrize("name", RATES)
def test_copies_that_do_nothing_are_seen(name: str, fake_cuda: FakeCuda, tmp_path: Path) -> None:
    """Not in the second step either, whose memory comes as the first left it."""
    size = 128 * MIB if name == "device_read" else MIB  # sums of so many words may well be equal
    environment = fake_cuda.environment(node(L40, 2, lost=2), tmp_path)
    made, lost = fake_cuda.copy(environment, 2 * [step(name, 0, buffer_bytes=size)]).copied
    assert (made.intact, lost.intact) == (True, False)
    assert lost.error is None
    environment = fake_cuda.environment(node(L40, 2, lost=1), tmp_path)
    (lost,) = fake_cuda.copy(environment, [step(name, 0)]).copied
    assert lost.intact is False


@pytest.mark.parametrize("name", [name for name in RATES if "device_to_host" not in name])
def test_what_cannot_be_read_back_has_rates_and_an_error(
    name: str, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(L40, 2, cuMemcpyDtoH_v2="!214"), tmp_path)
    copied = fake_cuda.copy(environment, [step(name, 0)]).copied[0]
    assert len(copied.rates) >= 3
    assert (copied.error, copied.call, copied.intact) == (214, "cuMemcpyDtoH_v2", None)
    assert copied.message == "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered"
    assert left(tmp_path) == {}


def test_the_last_memory_of_a_card_is_left_to_others(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1, free=258 * MIB), tmp_path)
    plan = [step("host_to_device", 0, buffer_bytes=size * MIB) for size in (2, 3)]
    plan.append(step("device_copy", 0, buffer_bytes=2 * MIB))
    fits, *do_not = fake_cuda.copy(environment, plan).copied
    assert fits.error is None
    assert {(c.error, c.call) for c in do_not} == {(cuda.TOO_LITTLE_MEMORY, "cuMemGetInfo_v2")}
    assert do_not[0].message == (
        "too little free memory on the card: 258 MiB, and 3 MiB beside 256 MiB that others may "
        "want are needed"
    )
    assert left(tmp_path) == {}


def test_what_fails_ends_that_step_alone(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 2, cuModuleLoadData="!221"), tmp_path)
    plan = [step("device_read", 0), step("device_copy", 0), step("host_to_device", 7)]
    read, copied, absent = fake_cuda.copy(environment, plan).copied
    assert (read.error, read.call, read.rates) == (221, "cuModuleLoadData", ())
    assert read.message == "CUDA_ERROR_JIT_COMPILER_NOT_FOUND: PTX JIT compiler library not found"
    assert copied.intact
    assert (absent.error, absent.call) == (101, "cuDeviceGet")
    assert left(tmp_path) == {}


def test_a_card_that_fails_leaves_the_others_of_its_step(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    cards = [*node(L40, 2), {**L40, "pci_address": "0000:c1:00.0", "cuMemHostAlloc": "!2"}]
    environment = fake_cuda.environment(cards, tmp_path)
    first, second, third = fake_cuda.copy(environment, [step("host_to_device", 0, 1, 2)]).copied
    assert median(first) == median(second) == pytest.approx(26.2e9, rel=0.02)
    assert (third.error, third.call, third.rates) == (2, "cuMemHostAlloc", ())
    assert left(tmp_path) == {}


def test_after_an_error_that_may_be_the_whole_processs_no_other_card_is_tried(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    bad = {**L40, "pci_address": "0000:16:00.0", "cuEventSynchronize": "!719"}
    environment = fake_cuda.environment([bad, *node(L40, 1)], tmp_path)
    plan = [step("host_to_device", 0), step("device_copy", 0), step("host_to_device", 1)]
    copies = fake_cuda.copy(environment, plan)
    assert [(c.card, c.error) for c in copies.copied] == [(0, 719), (0, 719)]
    assert (copies.begun, copies.error, copies.message) == (2, None, None)
    assert left(tmp_path) == {}


def test_steps_that_go_on_have_all_the_time_that_they_take(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path)
    plan = [step("host_to_device", 0, seconds=0.5)] * 4
    copies = fake_cuda.copy(environment, plan, deadline_seconds=1.5)
    assert (copies.begun, copies.hung, copies.message) == (4, False, None)


def test_a_card_whose_context_is_refused_is_told(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    cards = [
        *node(L40, 1),
        {**L40, "pci_address": "0000:c1:00.0", "cuDevicePrimaryCtxRetain": "!46"},
    ]
    environment = fake_cuda.environment(cards, tmp_path)
    plan = [step("host_to_device", 0, 1), step("peer_to_peer", 0)]
    copied, refused, peer = fake_cuda.copy(environment, plan).copied
    assert copied.intact
    assert (refused.error, refused.call) == (46, "cuDevicePrimaryCtxRetain")
    assert (peer.error, peer.call) == (46, "cuDevicePrimaryCtxRetain")
    assert left(tmp_path) == {}


@pytest.mark.parametrize(
    ("card", "direct", "rate"),
    [
        (L40, True, 22e9),
        (RTX_4090, False, 11e9),
        ({**RTX_4090, "peer_access": "yes", "cuCtxEnablePeerAccess": "!217"}, False, 11e9),
    ],
)
def test_peer_copies_say_whether_they_go_past_the_host(
    card: dict[str, Any], direct: bool, rate: float, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(card, 2), tmp_path)
    plan = [step("peer_to_peer", 0), step("peer_to_peer", 0, 1), step("peer_to_peer", 1)]
    copies = fake_cuda.copy(environment, plan)
    assert [(c.step, c.card) for c in copies.copied] == [(0, 0), (1, 0), (1, 1), (2, 1)]
    for copied in copies.copied:
        assert median(copied) == pytest.approx(rate, rel=0.02)
        assert (copied.direct, copied.intact) == (direct, True)
    assert left(tmp_path) == {}


def test_host_memory_is_touched_on_the_cpus_that_are_given(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    ours = sorted(os.sched_getaffinity(0))
    environment = fake_cuda.environment(node(L40, 2), tmp_path)
    absent = 8191
    plan = [
        step("host_to_device", 0, cpus=((ours[0],),)),
        step("device_copy", 0),
        step("host_to_device", 0, 1, cpus=((ours[-1], absent), (absent,))),
    ]
    copies = fake_cuda.copy(environment, plan)
    pinned = [words[4] for words in log(tmp_path) if words[0] == "+pinned"]
    assert pinned == ["1", str(len(ours)), "1"]
    refused = copies.copied[3]
    assert (refused.error, refused.call) == (cuda.SYSTEM_REFUSED, "sched_setaffinity")
    assert refused.message == "Invalid argument"
    assert copies.copied[2].intact
    assert left(tmp_path) == {}


def test_pageable_memory_is_not_the_drivers(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path)
    fake_cuda.copy(environment, [step("host_to_device_pageable", 0)])
    assert not [words for words in log(tmp_path) if words[0] == "+pinned"]


def test_what_was_copied_before_a_hang_is_told(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    bad = {**L40, "pci_address": "0000:c1:00.0", "cuEventSynchronize": "hang@5"}
    environment = fake_cuda.environment([*node(L40, 2), bad], tmp_path)
    plan = [step("host_to_device", 0), step("host_to_device", 1, 2), step("device_copy", 0)]
    start = time.monotonic()
    copies = fake_cuda.copy(environment, plan, deadline_seconds=2.5)
    assert time.monotonic() - start < 9
    assert copies.hung
    assert copies.error is None
    assert copies.message == "no answer within 2.5 s"
    first, beside, hung = copies.copied
    assert first.intact
    assert beside.intact
    assert (hung.step, hung.card, hung.rates) == (1, 2, ())
    assert (hung.error, hung.call) == (cuda.UNFINISHED, "cuEventSynchronize")
    assert hung.message == "no answer within 2.5 s"


@pytest.mark.parametrize("call", ["cuMemFree_v2", "cuDevicePrimaryCtxRelease_v2"])
def test_a_hang_while_all_is_given_back_costs_no_rates(
    call: str, fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment([{**L40, call: "hang"}], tmp_path)
    copies = fake_cuda.copy(environment, [step("host_to_device", 0)], deadline_seconds=3.0)
    assert copies.hung
    assert copies.message == "no answer within 3 s"
    (copied,) = copies.copied
    assert (len(copied.rates) >= 3, copied.intact, copied.error) == (True, True, None)


def test_a_failure_is_told_beside_a_hang_that_follows(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    cards = node(L40, 1, cuEventSynchronize="!719@4", cuStreamDestroy_v2="hang")
    environment = fake_cuda.environment(cards, tmp_path)
    copies = fake_cuda.copy(environment, [step("host_to_device", 0)], deadline_seconds=3.0)
    assert copies.hung
    assert copies.message == "no answer within 3 s"
    assert (copies.copied[0].error, copies.copied[0].call) == (719, "cuEventSynchronize")


def test_a_hang_between_calls_is_blamed_on_none(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path)
    environment["FAKE_LOOK_SECONDS"] = "20"
    copies = fake_cuda.copy(environment, [step("host_to_device", 0)], deadline_seconds=3.0)
    assert copies.hung
    assert copies.message == "outside CUDA's functions: no answer within 3 s"
    assert copies.copied[0].intact


def test_who_waits_for_a_hung_card_is_not_blamed(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    bad = {**L40, "pci_address": "0000:c1:00.0", "cuMemHostAlloc": "hang"}
    environment = fake_cuda.environment([*node(L40, 1), bad], tmp_path)
    copies = fake_cuda.copy(environment, [step("host_to_device", 0, 1)], deadline_seconds=2.5)
    assert [(c.error, c.call) for c in copies.copied] == [
        (cuda.UNFINISHED, None),
        (cuda.UNFINISHED, "cuMemHostAlloc"),
    ]


def test_what_was_copied_before_a_crash_is_told(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1, cuMemcpyDtoDAsync_v2="crash"), tmp_path)
    copies = fake_cuda.copy(environment, [step("host_to_device", 0), step("device_copy", 0)])
    assert (copies.hung, copies.error) == (False, cuda.CHILD_DIED)
    first, crashed = copies.copied
    assert first.intact
    assert (crashed.error, crashed.call) == (cuda.UNFINISHED, "cuMemcpyDtoDAsync_v2")
    told = "died by SIGSEGV"
    assert (crashed.message, copies.message) == (told, told)


def test_what_does_not_start_copies_nothing(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path, cuInit="!803")
    copies = fake_cuda.copy(environment, [step("host_to_device", 0)])
    assert (copies.copied, copies.error) == ((), 803)
    assert (copies.message or "").startswith("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: ")


def test_steps_that_the_deadline_leaves_no_time_for_are_not_begun(
    fake_cuda: FakeCuda, tmp_path: Path
) -> None:
    environment = fake_cuda.environment(node(L40, 1), tmp_path)
    plan = [step("host_to_device", 0), *(step("device_copy", 0, seconds=20.0) for _ in "ab")]
    copies = fake_cuda.copy(environment, plan, seconds=15.0)
    assert [c.step for c in copies.copied] == [0]
    assert (copies.hung, copies.error, copies.begun) == (False, None, 1)
    assert copies.message == "15 s left no time for the last 2 steps"
    assert left(tmp_path) == {}


def test_old_drivers_have_what_is_used(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    missing = ("cuDevicePrimaryCtxRelease_v2",)
    environment = fake_cuda.environment(node(T4, 1), tmp_path, missing=missing)
    assert fake_cuda.copy(environment, [step("device_copy", 0)]).copied[0].intact
    assert left(tmp_path) == {}


def test_a_plan_that_cannot_be_is_the_callers_fault() -> None:
    with pytest.raises(KeyError):
        cuda.copy([step("sideways", 0)], 1, lambda _: (None, None))
    with pytest.raises(ValueError, match="zip"):
        cuda.copy([step("device_copy", 0, 1, cpus=((0,),))], 1, lambda _: (None, None))


def test_a_large_node_is_copied_from_all_at_once(fake_cuda: FakeCuda, tmp_path: Path) -> None:
    environment = fake_cuda.environment(node(H200, 8, free=GIB), tmp_path)
    copies = fake_cuda.copy(environment, [step("device_to_host", *range(8), seconds=0.2)])
    assert [c.card for c in copies.copied] == list(range(8))
    for copied in copies.copied:
        assert median(copied) == pytest.approx(53.1e9, rel=0.02)
        assert copied.intact
    assert left(tmp_path) == {}


def test_whatever_fails_all_that_was_made_is_freed(fake_cuda: FakeCuda) -> None:
    """Each function fails in turn, the first, second and third time that it is called."""
    driver = fake_cuda.directory() / "copies_driver"  # it looks for the library beside itself
    root = Path(__file__).parents[2]
    sources = [*sorted((root / "csrc").glob("gpu_*.c")), root / "csrc" / "clock.c"]
    subprocess.run(
        (fake_cuda.compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-pthread", f"-I{root / 'csrc'}",
         *map(str, sources), str(root / "tests" / "machine" / "copies_driver.c"),
         "-ldl", "-o", str(driver)),
        check=True,
    )  # fmt: skip
    done = subprocess.run([driver], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "copies: ok\n"), done.stderr
