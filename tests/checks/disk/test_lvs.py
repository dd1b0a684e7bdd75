"""Every set of columns that `lvs` may have been asked for."""

from __future__ import annotations

import pytest

from nodecheck.checks.disk.allocation import parse_lvs

HEADING = "  LV   VG  Attr       LSize   Pool Origin Data%  Meta%\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{HEADING}  data pve twi-aotz-- 794.30g             97.10  3.02", "pve/data"),
        ("  data pve twi-aotz-- <794.30g            97.10  3.02", "pve/data"),
        ("  data pve twi-aotz-- 794.30 GiB          97.10  3.02", "pve/data"),
        ("  LV   VG  Attr       Data%  Meta%\n  data pve twi-aotz-- 97.10  3.02", "pve/data"),
        ("  LV   Attr       Data%  Meta%\n  data twi-aotz-- 97.10  3.02", "data"),
        ("  [data] pve twi-aotz-- 794,30g           97,10  3,02", "pve/data"),
    ],
)  # fmt: skip
def test_a_full_pool_is_read(text: str, name: str) -> None:
    (pool,) = parse_lvs(text)
    assert pool.name == name
    assert (pool.data_share, pool.metadata_share) == pytest.approx((0.971, 0.0302))


def test_what_is_no_pool_is_none() -> None:
    assert parse_lvs("  root pve -wi-ao---- 96.00g\n  vm pve Vwi-a-tz-- 32g data 12.0\n") == ()
