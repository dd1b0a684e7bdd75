"""Memory rates: the formula, where it fails, and how a product is found."""

from __future__ import annotations

import pytest

from nodecheck.checks.gpu import products
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.merge import finished


@pytest.mark.parametrize(
    ("device", "rate"),
    [
        ("26b5", 864.1), ("26b9", 864.1), ("2bb1", 1792.1), ("2bb5", 1597.0), ("2b85", 1792.1),
        ("2e12", 273.0), ("2335", 4800.0), ("2901", 7672.3), ("2330", 3352.3), ("2331", 2039.0),
        ("20b0", 1555.2), ("20b2", 2039.0), ("1eb8", 320.1), ("2684", 1008.1), ("2204", 936.1),
        ("25b6", 200.0), ("31c2", 8000.0),
    ],
)  # fmt: skip
def test_by_device_id(device: str, rate: float) -> None:
    product = products.find(f"10de:{device}", None)
    assert product is not None
    assert product.bytes_per_second is not None
    assert product.bytes_per_second / 1e9 == pytest.approx(rate, abs=0.06)


@pytest.mark.parametrize(
    ("name", "device"),
    [("NVIDIA L40", "26b5"), ("NVIDIA L40S", "26b9"), ("L4", "27b8"), ("nvidia h200", "2335")],
)
def test_by_the_whole_name(name: str, device: str) -> None:
    assert products.find(None, name) == products.find(f"10de:{device}", None)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A100X",
        "NVIDIA L40G",
        "GH200",
        "RTX 4000",
        "NVIDIA GeForce RTX 3060",
        "NVIDIA A1",
        "H2",
        "",
    ],
)
def test_never_by_a_part_of_the_name(name: str) -> None:
    assert products.find(None, name) is None


def test_an_id_goes_before_a_name_and_only_nvidias_counts() -> None:
    by_id = products.find("10de:26b9", "NVIDIA L40")
    assert by_id == products.find("10de:26b9", None)
    assert products.find("1002:26b5", None) is None


def test_ids_are_unique() -> None:
    ids = [device for product in products.PRODUCTS for device in product.ids]
    names = [name.casefold() for product in products.PRODUCTS for name in product.names]
    assert len(ids) == len(set(ids))
    assert len(names) == len(set(names))


def test_two_products_with_one_id_are_told_apart_by_the_subsystem() -> None:
    assert products.find("10de:25b6", None, "10de:14a9") == products.find(None, "NVIDIA A16")
    assert products.find("10de:25b6", None, "10de:157e") == products.find(None, "NVIDIA A2")


@pytest.mark.parametrize(
    ("device", "mhz", "bits", "rate"),
    [
        ("26b5", 9001, 384, 864.096),
        ("2204", 10151, 384, 936.1),  # a user's offset on the clock
        ("2e12", 8533, 256, 273.0),  # the clock is the data rate already
        ("2335", 3201, 6144, 4800.0),
        ("2901", 3996, 8192, 7672.3),  # older drivers' width
        ("2503", 7501, 128, 240.0),  # a narrower variant
        ("ffff", 1000, 256, 64.0),  # not in the table
    ],
)
def test_the_smaller_of_formula_and_table_counts(
    device: str, mhz: int, bits: int, rate: float
) -> None:
    gpu = Gpu(pci_device_id=f"10de:{device}", maximum_memory_clock_mhz=mhz, memory_bus_bits=bits)
    assert finished(gpu).vram_bytes_per_second == pytest.approx(rate * 1e9, rel=1e-3)


@pytest.mark.parametrize("device", ["2342", "2343", "2345", "2348", "2941", "31c2", "2e12"])
def test_cards_whose_pcie_link_says_nothing(device: str) -> None:
    assert finished(Gpu(pci_device_id=f"10de:{device}")).chip_to_chip


def test_the_driver_knows_chip_to_chip_links_of_cards_that_have_no_row() -> None:
    assert finished(Gpu(pci_device_id="10de:ffff", chip_to_chip=True)).chip_to_chip
    assert not finished(Gpu(pci_device_id="10de:ffff")).chip_to_chip


def test_what_is_not_known_has_no_rate() -> None:
    gpu = finished(Gpu(name="NVIDIA Unheard Of", maximum_memory_clock_mhz=9001))
    assert gpu.vram_bytes_per_second is None
    assert gpu.vram_rate_source is None


@pytest.mark.parametrize(
    ("vendor", "ids", "name"),
    [
        ("nvidia", "10de:26b5", "NVIDIA L40"),
        ("nvidia", "10de:1b38", "NVIDIA Tesla P40"),
        ("nvidia", "10de:20b0", "NVIDIA A100-SXM4-40GB"),
        ("nvidia", "10de:1db1", "NVIDIA device 1db1"),  # several products
        ("nvidia", "10de:ffff", "NVIDIA device ffff"),
        ("amd", "1002:ffff", "AMD device ffff"),
        ("1fff", "1fff:1060", "1fff device 1060"),
        ("nvidia", None, None),
    ],
)
def test_a_card_without_a_driver_is_named_by_its_id(
    vendor: str, ids: str | None, name: str | None
) -> None:
    assert finished(Gpu(vendor=vendor, pci_device_id=ids)).name == name


def test_the_drivers_name_counts() -> None:
    assert finished(Gpu(name="NVIDIA L40-8Q", pci_device_id="10de:26b5")).name == "NVIDIA L40-8Q"


@pytest.mark.parametrize(
    ("device", "links"),
    [("20b0", 12), ("20b2", 12), ("2330", 18), ("2335", 18), ("2901", 18), ("2941", 18)],
)
def test_boards_that_connect_all_links(device: str, links: int) -> None:
    product = products.find(f"10de:{device}", None)
    assert product is not None
    assert product.nvlinks == links


@pytest.mark.parametrize(
    "device", ["20b7", "2235", "2230", "2331", "2321", "233b", "20f1", "20b5", "2684", "1db1"]
)
def test_bridges_and_meshes_promise_no_link(device: str) -> None:
    product = products.find(f"10de:{device}", None)
    assert product is not None
    assert product.nvlinks is None
