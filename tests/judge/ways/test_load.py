"""Seconds until a model is loaded, and room on the disk."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.disk.facts import DiskFacts, Filesystem
from nodecheck.checks.seen import Seen
from nodecheck.judge.ways.load import conversion_bytes, load_seconds, model_load, slow_to_map
from nodecheck.model import Viability
from nodecheck.serving import Storage, Workload
from nodecheck.units import GB, GIB
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b
from tests.nodes import root, three_l40

SIZE = 16 * GB


def stored(
    fstype: str = "ext4",
    rate: float | None = 2e9,
    cached: int = 0,
    size: int = SIZE,
    allocated: int | None = None,
) -> Workload:
    storage = Storage(
        path="/srv/m.gguf",
        fstype=fstype,
        mount="/srv",
        size_bytes=size,
        allocated_bytes=allocated,
        cached_bytes=cached,
        sequential_bytes_per_second=rate,
    )
    return replace(qwen_27b(SIZE), storage=storage)


def mounted(available: int, *, network: bool = False) -> Seen:
    """A node with a second file system on /srv."""
    srv = Filesystem(
        mount="/srv",
        fstype="ext4",
        device="/dev/vdb",
        device_number="252:16",
        persistent=True,
        network=network,
        total_bytes=950 * GIB,
        available_bytes=available,
    )
    seen = three_l40()
    disk = DiskFacts(filesystems=(root(57 * GIB, 950 * GIB), srv))
    return replace(seen, facts=replace(seen.facts, disk=disk))


def test_the_disk_takes_its_time_and_the_link_at_most_as_much_again() -> None:
    """16 GB at 2 GB/s, and over a link of 31.5 GB/s at half of that beside it."""
    found = model_load(three_l40(), stored())
    assert found.low == pytest.approx(8.0)
    assert found.high == pytest.approx(8.0 + 16 / (31.5 * 0.5), rel=0.01)
    assert found.limit == "disk, 2 GB/s"
    assert found.viability is Viability.VIABLE


def test_what_lies_in_the_page_cache_comes_from_memory() -> None:
    half = load_seconds(three_l40(), stored(cached=SIZE // 2))
    assert half is not None
    assert half.low == pytest.approx(4.0 + 8 / 11.7)
    warm = model_load(three_l40(), stored(cached=SIZE))
    assert warm.limit == "page cache"
    assert warm.low == pytest.approx(16 / 11.7)


def test_a_warm_cache_and_a_faster_disk_move_it() -> None:
    found = model_load(three_l40(), stored())
    ram, disk = found.levers
    assert (ram.resource, disk.resource) == ("ram", "disk")
    assert ram.low is not None
    assert disk.low is not None
    assert ram.low < disk.low == pytest.approx(4.0)


@pytest.mark.parametrize("work", [stored(rate=None), qwen_27b()])
def test_without_a_rate_it_is_not_known(work: Workload) -> None:
    found = model_load(three_l40(), work)
    assert found.viability is Viability.UNKNOWN
    assert found.high is None
    assert found.basis.startswith("disk read not measured; this model fits 3 times")


def test_the_reason_is_told() -> None:
    work = stored(rate=None)
    assert work.storage is not None
    work = replace(work, storage=replace(work.storage, detail="the file is not readable"))
    assert "the file is not readable" in model_load(three_l40(), work).basis


@pytest.mark.parametrize(
    ("fstype", "slow"),
    [("ext4", False), ("xfs", False), ("nfs4", True), ("fuse.sshfs", True), ("overlay", True),
     ("9p", True), ("virtiofs", True), ("cifs", True), ("lustre", True), ("tmpfs", False)],
)  # fmt: skip
def test_file_systems_on_which_mapping_is_slow(fstype: str, slow: bool) -> None:
    assert slow_to_map(three_l40(), stored(fstype)) == (fstype if slow else None)
    assert ("--load-mode none" in model_load(three_l40(), stored(fstype)).basis) is slow


def test_what_a_server_answers_for_is_slow_whatever_its_name() -> None:
    assert slow_to_map(mounted(GIB, network=True), stored("newfs")) == "newfs"


@pytest.mark.parametrize(("form", "flag"), [
    ("gguf", "llama.cpp --load-mode none"),
    ("safetensors", "SGLang --weight-loader-disable-mmap, vLLM --safetensors-load-strategy eager"),
])  # fmt: skip
def test_the_flag_is_that_of_the_engine_that_reads_it(form: str, flag: str) -> None:
    work = replace(stored("nfs4"), format=form)
    assert flag in model_load(three_l40(), work).basis


def test_a_model_that_fits_no_disk_is_refused() -> None:
    found = model_load(three_l40(), from_numbers("m", 200 * GIB, 80, "q4_k"))
    assert found.viability is Viability.NOT_VIABLE
    assert found.limit == "disk space"
    assert found.levers[0].resource == "disk"


def test_a_model_that_is_here_needs_no_more_room() -> None:
    found = model_load(mounted(GIB), stored())
    assert found.viability is Viability.VIABLE
    assert "fits 0 times more on /srv" in found.basis


def test_a_configuration_alone_brings_no_weights() -> None:
    work = replace(stored(), format="config", weight_bytes_shipped=40 * GB)
    assert model_load(mounted(GIB), work).limit == "disk space"


@pytest.mark.parametrize(
    ("form", "needed"),
    [
        ("gguf", None),
        ("numbers", None),
        ("safetensors", 54_000_000_000),
        ("config", 54_000_000_000),
    ],
)
def test_a_conversion_is_a_second_copy_of_16_bits(form: str, needed: int | None) -> None:
    work = replace(qwen_27b(), format=form, weight_bytes_bf16=54_000_000_000)
    assert conversion_bytes(work) == needed


def test_a_disk_may_hold_a_model_and_not_its_conversion() -> None:
    work = replace(stored(), format="safetensors", weight_bytes_bf16=54 * GB)
    assert "which it has not" in model_load(mounted(20 * GIB), work).basis
    assert "which it has;" in model_load(mounted(200 * GIB), work).basis + ";"


def test_a_file_with_holes_is_told() -> None:
    found = model_load(three_l40(), stored(allocated=SIZE // 4))
    assert "only 25 % of the file is on the disk" in found.basis
    assert "holes" not in model_load(three_l40(), stored(allocated=SIZE)).basis


def test_a_file_system_that_tells_no_blocks_tells_of_no_holes() -> None:
    assert "holes" not in model_load(three_l40(), stored("fuse.sshfs", allocated=0)).basis
    assert "only 0 % of the file" in model_load(three_l40(), stored(allocated=0)).basis


def test_a_file_may_be_compressed() -> None:
    assert "or is compressed" in model_load(three_l40(), stored("btrfs", allocated=SIZE // 2)).basis
