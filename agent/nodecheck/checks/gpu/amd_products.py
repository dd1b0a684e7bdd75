"""What products of AMD have: the rate of their memory, by PCI device id.

The rate is the vendor's own figure: the clock and the width that the driver tells do not lead to it
(of HBM3 they give a quarter, of GDDR6 an eighth). MI250 and MI250X show one PCI device for each of
their two halves, and the figure is a half's. Sources: AMD's data sheets; names and ids from
libdrm's amdgpu.ids.
"""

from __future__ import annotations

from nodecheck.checks.gpu.products import Product


def _amd(rate_gb_per_second: float, name: str, *ids: str) -> Product:
    return Product(tuple(f"1002:{id_}" for id_ in ids), (name,), 0, 0, rate_gb_per_second)


PRODUCTS = (
    _amd(1228.8, "Instinct MI100", "738c", "738e"),
    _amd(1638.4, "Instinct MI250X", "7408"),
    _amd(1638.4, "Instinct MI250X / MI250", "740c"),
    _amd(1638.4, "Instinct MI210", "740f"),
    _amd(5300, "Instinct MI300A", "74a0"),
    _amd(5300, "Instinct MI300X", "74a1", "74a9"),
    _amd(5300, "Instinct MI300X VF", "74b5", "74bd"),
    _amd(6000, "Instinct MI325X", "74a5"),
    _amd(8000, "Instinct MI350X", "75a0"),
    _amd(8000, "Instinct MI350X VF", "75b0"),
    _amd(8000, "Instinct MI355X", "75a3"),
    _amd(8000, "Instinct MI355X VF", "75b3"),
    _amd(1024, "Radeon Instinct MI50/MI60", "66a0", "66a1"),
    _amd(1024, "Radeon VII", "66af"),
    _amd(512, "Radeon Pro V620", "73a1", "73ae"),
    _amd(512, "Radeon Pro W6800", "73a3"),
    _amd(576, "Radeon RX 6950 XT", "73a5"),
    _amd(512, "Radeon RX 6800/6900", "73af", "73bf"),
    _amd(864, "Radeon Pro W7900", "7448", "744a", "744b"),
    _amd(864, "Radeon Pro W7800 48GB", "7449"),
    _amd(576, "Radeon Pro W7800", "745e"),
    _amd(448, "Radeon Pro V710", "7460", "7461"),
    _amd(576, "Radeon Pro W7700", "7470"),
    _amd(960, "Radeon RX 7900 XTX"),
    _amd(800, "Radeon RX 7900 XT"),
    _amd(576, "Radeon RX 7900 GRE"),
    _amd(624, "Radeon RX 7800 XT"),
    _amd(432, "Radeon RX 7700 XT"),
    _amd(288, "Radeon RX 7600"),
    _amd(288, "Radeon RX 7600 XT"),
    _amd(384, "Radeon RX 6700 XT"),
    _amd(432, "Radeon RX 6750 XT"),
    _amd(640, "Radeon RX 9070"),
    _amd(640, "Radeon RX 9070 XT"),
    _amd(640, "Radeon AI PRO R9700"),
    _amd(320, "Radeon RX 9060 XT"),
)

BY_REVISION = {
    "744c/c8": "Radeon RX 7900 XTX",
    "744c/cc": "Radeon RX 7900 XT",
    "744c/ce": "Radeon RX 7900 GRE",
    "747e/c8": "Radeon RX 7800 XT",
    "747e/ff": "Radeon RX 7700 XT",
    "7480/cf": "Radeon RX 7600",
    "7480/c0": "Radeon RX 7600 XT",
    "73df/c1": "Radeon RX 6700 XT",
    "73df/c0": "Radeon RX 6750 XT",
    "7550/c0": "Radeon RX 9070 XT",
    "7550/c3": "Radeon RX 9070",
    "7551/c0": "Radeon AI PRO R9700",
    "7590/c0": "Radeon RX 9060 XT",
}
"""Device id and revision of products that share an id."""
