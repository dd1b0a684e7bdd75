"""The accelerators and their driver."""

from __future__ import annotations

from nodecheck.model import Struct


class Gpu(Struct, frozen=True, kw_only=True):
    """One accelerator, merged over its sources by PCI address.

    `seen_by` names the sources: pci, nvml, nvidia-smi, proc. `vendor` is nvidia, amd, intel or a
    PCI vendor id. Shares are 0 to 1. `clocks_event_reasons` are the names of the reasons that are
    active now (of two samples, where there were two): gpu_idle, applications_clocks_setting,
    sw_power_cap, hw_slowdown, sync_boost, sw_thermal_slowdown, hw_thermal_slowdown,
    hw_power_brake_slowdown, display_clocks_setting, or hex.

    `vram_bytes_per_second` is 2 x maximum memory clock x bus width / 8, or the product table where
    that fails. `granted` is False for a card of another container or guest; `device_file` says
    whether the card's file in /dev was there, `error` what the driver says where the card cannot be
    opened, `virtualisation` the driver's word for it (None, Pass-Through, VGPU, ...).
    `chip_to_chip` marks a GPU whose link to the CPU is NVLink-C2C, so that its PCIe link says
    nothing. `product_lanes` are the lanes that the product itself has where that is fewer than 16.
    """

    index: int | None = None
    pci_address: str | None = None
    vendor: str | None = None
    name: str | None = None
    pci_device_id: str | None = None
    seen_by: tuple[str, ...] = ()
    granted: bool | None = None
    driver: str | None = None
    lost: bool = False
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    unified_memory: bool = False
    memory_bus_bits: int | None = None
    memory_clock_mhz: int | None = None
    maximum_memory_clock_mhz: int | None = None
    sm_clock_mhz: int | None = None
    maximum_sm_clock_mhz: int | None = None
    vram_bytes_per_second: float | None = None
    vram_rate_source: str | None = None
    performance_state: int | None = None
    utilisation_share: float | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    default_power_limit_watts: float | None = None
    clocks_event_reasons: tuple[str, ...] | None = None
    ecc_volatile_uncorrectable: int | None = None
    ecc_volatile_correctable: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    remapped_rows_uncorrectable: int | None = None
    link_generation: int | None = None
    link_generation_max: int | None = None
    link_generation_device_max: int | None = None
    link_generation_host_max: int | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    pcie_replays: int | None = None
    mig: bool | None = None
    persistence: bool | None = None
    numa_node: int | None = None
    subsystem_id: str | None = None
    virtualisation: str | None = None
    device_file: bool | None = None
    error: str | None = None
    chip_to_chip: bool = False
    product_lanes: int | None = None


class GpuFacts(Struct, frozen=True, kw_only=True):
    """The driver's side.

    `state` is ok, missing, mismatch, failed, unresponsive, lost_devices (a container lost its
    devices) or None (not tried); `message` is the driver's own words. `lost` are addresses that the
    driver names but cannot open, `denied_device` a file that this user may not open.
    """

    state: str | None = None
    message: str | None = None
    source: str | None = None
    driver_version: str | None = None
    library_version: str | None = None
    cuda_version: str | None = None
    denied_device: str | None = None
    lost: tuple[str, ...] = ()


class GpuProbe(Struct, frozen=True, kw_only=True):
    """What the gpu probe hands on; a report holds the two as `facts.gpu` and `facts.gpus`."""

    gpu: GpuFacts = GpuFacts()
    gpus: tuple[Gpu, ...] = ()
