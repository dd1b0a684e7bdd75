"""What a product is known to have: its memory's rate by PCI device id or by its exact name.

Sources: device queries and vendor data sheets, per product. The rate is
2 x maximum memory clock (MHz) x bus width (bits) / 8 unless a row gives the vendor's own figure,
where the driver's clock or width does not lead to it.
"""

from __future__ import annotations

from typing import NamedTuple

from nodecheck.units import GB, MHZ


class Product(NamedTuple):
    """One row: `ids` are PCI device ids of vendor 10de, `names` as the driver prints them.

    An id with a subsystem after a slash goes before the bare one. Two products with one name have
    none here. `rate_gb_per_second` overrides clock and width; a row without either has no rate.
    `nvlinks` are those that its board connects to switches or to its other cards in equal parts:
    a bridge may be absent, and a mesh leaves links unused where cards are given away.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    bits: int
    mhz: int
    rate_gb_per_second: float | None = None
    lanes: int | None = None
    unified_memory: bool = False
    chip_to_chip: bool = False
    nvlinks: int | None = None

    @property
    def one_name(self) -> str | None:
        """The name, where all that it is called are spellings of one."""
        return self.names[0] if self.names and self.names[0].endswith(self.names[-1]) else None

    @property
    def bytes_per_second(self) -> float | None:
        """The memory's peak rate."""
        if self.rate_gb_per_second is not None:
            return self.rate_gb_per_second * GB
        return formula(self.mhz, self.bits) or None


def formula(mhz: int, bits: int) -> float:
    """Peak rate in bytes a second: two transfers a clock of `mhz` MHz over `bits` bits."""
    return 2 * mhz * MHZ * bits / 8


PRODUCTS = (
    Product(("1b38",), ("Tesla P40", "P40"), 384, 3615),
    Product(("15f8", "15f9"), ("Tesla P100-PCIE-16GB", "Tesla P100-SXM2-16GB"), 4096, 715),
    Product(("15f7",), ("Tesla P100-PCIE-12GB",), 3072, 715),
    Product(
        ("1db1", "1db4", "1db5", "1db6"),
        (
            "Tesla V100-SXM2-16GB",
            "Tesla V100-SXM2-32GB",
            "Tesla V100-PCIE-16GB",
            "Tesla V100-PCIE-32GB",
        ),
        4096,
        877,
    ),
    Product(("1df6",), ("Tesla V100S-PCIE-32GB",), 4096, 1107),
    Product(("1eb8",), ("Tesla T4", "T4"), 256, 5001),
    Product((), ("GeForce RTX 2080 SUPER",), 256, 7751),
    Product(("1e04", "1e07"), ("GeForce RTX 2080 Ti",), 352, 7000),
    Product(("20f1",), ("A100-PCIE-40GB",), 5120, 1215),
    Product(("20b0",), ("A100-SXM4-40GB",), 5120, 1215, nvlinks=12),
    Product(("20b5",), ("A100 80GB PCIe", "A100-PCIE-80GB"), 5120, 1512),
    Product(("20b2",), ("A100-SXM4-80GB",), 5120, 1593, nvlinks=12),
    Product(("20b7",), ("A30",), 3072, 1215),
    Product(("2235",), ("A40",), 384, 7251),
    Product(("2236", "2237"), ("A10", "A10G"), 384, 6251),
    Product(("25b6",), ("A2",), 128, 6251, lanes=8),
    Product(("25b6/10de:14a9",), ("A16",), 128, 6251, lanes=4),
    Product(("24b0",), ("RTX A4000",), 256, 7001),
    Product(("2231",), ("RTX A5000",), 384, 8001),
    Product(("2230",), ("RTX A6000",), 384, 8001),
    Product(("2503", "2504", "2487", "2544"), (), 192, 7501),
    Product(("2486", "2489", "2414", "24c9"), (), 256, 7001),
    Product(("2206", "2216"), (), 320, 9501),
    Product(("2204",), ("GeForce RTX 3090",), 384, 9751),
    Product(("2203",), ("GeForce RTX 3090 Ti",), 384, 10501),
    Product(("27b8",), ("L4",), 192, 6251),
    Product(("26b5",), ("L40",), 384, 9001),
    Product(("26b9",), ("L40S",), 384, 9001),
    Product((), ("GeForce RTX 4060 Laptop GPU",), 128, 8001),
    Product(("2788", "2803", "2805"), ("GeForce RTX 4060 Ti",), 128, 9001, lanes=8),
    Product(("2704",), ("GeForce RTX 4080",), 256, 11201),
    Product(("2702",), ("GeForce RTX 4080 SUPER",), 256, 11501),
    Product(("2684", "2685"), ("GeForce RTX 4090", "GeForce RTX 4090 D"), 384, 10501),
    Product(("27b0",), ("RTX 4000 SFF Ada Generation",), 160, 7001),
    Product(("27b2",), ("RTX 4000 Ada Generation",), 160, 9001),
    Product(("26b2",), ("RTX 5000 Ada Generation",), 256, 9001),
    Product(("26b1",), ("RTX 6000 Ada Generation",), 384, 10001),
    Product(("2331",), ("H100 PCIe",), 5120, 1593),
    Product(("2330",), ("H100 80GB HBM3",), 5120, 2619, nvlinks=18),
    Product(("2321",), ("H100 NVL",), 6016, 2619),
    Product(("2342",), ("GH200 120GB", "GH200 480GB"), 6144, 2619, chip_to_chip=True),
    Product(("2343", "2345", "2348"), (), 0, 0, chip_to_chip=True),
    Product(("2335",), ("H200",), 6144, 3201, 4800, nvlinks=18),
    Product(("233b",), ("H200 NVL",), 6144, 3201, 4800),
    Product(("2901",), ("B200",), 7680, 3996, nvlinks=18),
    Product(("2941",), ("GB200",), 7936, 3996, chip_to_chip=True, nvlinks=18),
    Product(("3182",), ("B300",), 8192, 0, 8000, nvlinks=18),
    Product(("31c2",), ("GB300",), 8192, 0, 8000, chip_to_chip=True, nvlinks=18),
    Product(("2d04",), ("GeForce RTX 5060 Ti",), 128, 14001, lanes=8),
    Product(("2f04",), ("GeForce RTX 5070",), 192, 14001),
    Product(("2c05",), ("GeForce RTX 5070 Ti",), 256, 14001),
    Product(("2c02",), ("GeForce RTX 5080",), 256, 15001),
    Product(("2b85", "2b87", "2b8c"), ("GeForce RTX 5090", "GeForce RTX 5090 D"), 512, 14001),
    Product(("2c34",), ("RTX PRO 4000 Blackwell",), 192, 14001),
    Product(("2c31",), ("RTX PRO 4500 Blackwell",), 256, 14001),
    Product(("2bb3",), ("RTX PRO 5000 Blackwell",), 384, 14001),
    Product(
        ("2bb1", "2bb4"),
        (
            "RTX PRO 6000 Blackwell Workstation Edition",
            "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        ),
        512,
        14001,
    ),
    Product(("2bb5",), ("RTX PRO 6000 Blackwell Server Edition",), 512, 14001, 1597),
    Product(("2e12",), ("GB10",), 256, 8533, 273, unified_memory=True, chip_to_chip=True),
)

_BY_ID = {device: product for product in PRODUCTS for device in product.ids}
_BY_NAME = {name.casefold(): product for product in PRODUCTS for name in product.names}


def find(
    pci_device_id: str | None, name: str | None, subsystem_id: str | None = None
) -> Product | None:
    """The product by its PCI id (`10de:26b5`), or else by its whole name.

    Never by a part of the name: "L40" is also in L40S, "A100" in A100X.
    """
    vendor, _, device = (pci_device_id or "").partition(":")
    if vendor == "10de":
        product = _BY_ID.get(f"{device}/{subsystem_id}") or _BY_ID.get(device)
        if product is not None:
            return product
    return _BY_NAME.get(_bare(name)) if name is not None else None


def _bare(name: str) -> str:
    """The driver's name without the maker, which some branches print and others do not."""
    return " ".join(name.casefold().removeprefix("nvidia").split())
