"""The products of AMD and Intel by PCI id (`1002:74a1`), or by the name that sysfs leads to."""

from __future__ import annotations

from nodecheck.checks.gpu import amd_products, intel_products
from nodecheck.checks.gpu.products import Product

PRODUCTS = (*amd_products.PRODUCTS, *intel_products.PRODUCTS)

_BY_ID = {device: product for product in PRODUCTS for device in product.ids}
_BY_NAME = {f"AMD {name}": product for product in amd_products.PRODUCTS for name in product.names}


def find(pci_device_id: str | None, name: str | None) -> Product | None:
    """The product by its id, or else by its whole name: several share one id."""
    return _BY_ID.get(pci_device_id or "") or _BY_NAME.get(name or "")
