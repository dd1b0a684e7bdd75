"""How long the driver is waited for, and that probes which wait for it may take longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodecheck.checks import cuda, gpu
from nodecheck.machine import nvidia_driver
from nodecheck.machine.nvidia_driver import is_installed, may_take_seconds

SLOWEST_START_SECONDS = 3.0
"""Of one card without persistence mode."""


def test_eight_cards_that_start_slowly_one_after_the_other_have_time() -> None:
    assert may_take_seconds(8) > 8 * SLOWEST_START_SECONDS
    assert may_take_seconds(0) < may_take_seconds(1) < may_take_seconds(8)


def test_there_is_an_end_and_the_probes_outlive_it() -> None:
    longest = may_take_seconds(1000)
    assert longest == nvidia_driver.LIMIT_SECONDS
    assert longest < min(cuda.DEADLINE_SECONDS, gpu.DEADLINE_SECONDS)


def test_a_library_is_installed_where_the_loader_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of ldconfig's, as long as it is there: a cache may be older than the folder."""
    library, cache = tmp_path / "libthat.so.1", tmp_path / "ld.so.cache"
    monkeypatch.setattr(nvidia_driver, "LOADERS_CACHE", str(cache))
    assert not is_installed("libthat.so.1")
    cache.write_bytes(b"glibc-ld.so.cache1.1\x03\0\xff\0libthat.so.1\0%b\0\xff" % bytes(library))
    assert not is_installed("libthat.so.1")
    library.touch()
    assert is_installed("libthat.so.1")
    assert not is_installed("that.so.1")
    cache.unlink()
    assert not is_installed("libthat.so.1")


def test_the_loaders_cache_of_this_machine_is_read() -> None:
    if not Path(nvidia_driver.LOADERS_CACHE).exists():
        pytest.skip("no ldconfig here")
    assert any(map(os.path.exists, nvidia_driver._in_loaders_cache("libc.so.6")))


def test_whether_there_is_a_driver_is_asked_without_nvml() -> None:
    """Importing all of NVML takes longer than the rest of a look at a node without a card."""
    script = (
        "import sys; from nodecheck.machine import cuda; from nodecheck.machine.host import "
        "LiveHost; cuda.worth_trying(LiveHost()); print([m for m in sys.modules if 'nvml' in m])"
    )
    command = (sys.executable, "-c", script)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
