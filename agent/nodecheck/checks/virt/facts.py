"""Whether this is a guest or a container, and whose."""

from __future__ import annotations

from nodecheck.model import Struct


class VirtFacts(Struct, frozen=True, kw_only=True):
    """The guest's side and the container's side.

    `hypervisor` is named as systemd-detect-virt prints it, `platform` is whose words a remedy uses:
    proxmox, libvirt, vmware, hyperv, xen, nutanix, openstack, kubevirt, ovirt, virtualbox,
    parallels, firecracker, ec2, gce, azure, alibaba, ... None where it was not recognised.
    Evidence reads `source: value`. `emulated` is true for full emulation (TCG), false where it is
    known not to be.
    """

    guest: bool | None = None
    hypervisor: str | None = None
    platform: str | None = None
    machine_type: str | None = None
    emulated: bool | None = None
    guest_evidence: tuple[str, ...] = ()
    container: str | None = None
    container_evidence: tuple[str, ...] = ()
    sys_vendor: str | None = None
    product_name: str | None = None
    bios_vendor: str | None = None
