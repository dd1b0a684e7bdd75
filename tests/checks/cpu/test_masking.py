"""Masked, switched off, or never there: each told from the others."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from nodecheck.machine.host import CapturedHost
from nodecheck.model import Action, Finding, Owner, Severity
from tests.checks.cpu import cpus
from tests.checks.cpu.cpus import KVM64, QEMU, cpuinfo, dmi
from tests.checks.cpu.diagnosing import judge, seen
from tests.trees import Tree

Plant = Callable[[Tree], CapturedHost]
GOLD = "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"
VMWARE = dmi("VMware, Inc.", "VMware Virtual Platform")
ISA = {"cpu.hypervisor_masked", "cpu.no_avx", "cpu.no_avx2", "cpu.flags_disagree"}


def isa_findings(host: CapturedHost) -> dict[str, Finding]:
    return {id_: finding for id_, finding in judge(seen(host)).items() if id_ in ISA}


def only(host: CapturedHost, id_: str) -> Finding:
    found = isa_findings(host)
    assert set(found) == {id_}
    return found[id_]


def said(finding: Finding) -> str:
    return msgspec.json.encode(finding).decode()


def masked(host: CapturedHost) -> Finding:
    return only(host, "cpu.hypervisor_masked")


def test_kvm64(node: Plant) -> None:
    finding = masked(node(KVM64))
    assert finding.severity is Severity.CRITICAL
    assert finding.owner is Owner.HYPERVISOR
    assert finding.remedy.action is Action.RECONFIGURE_VM
    assert 'kvm64 ("Common KVM processor"), x86-64-v1' in finding.summary
    assert "17-19x" in finding.impact
    assert "NumPy >= 2.4" in finding.impact
    assert "RuntimeError" in finding.impact
    assert "SIGILL under" not in finding.impact
    assert "reboot inside the guest keeps" in (finding.remedy.cost or "")


def test_an_unknown_qemu_gets_the_words_of_three_platforms(node: Plant) -> None:
    commands = " ".join(masked(node(KVM64)).remedy.commands)
    assert "qm set" in commands
    assert "host-passthrough" in commands
    assert "openstack" in commands


def test_kvm64_takes_the_vendor_of_an_amd_host(node: Plant) -> None:
    text = cpuinfo(cpus.V1, "Common KVM processor", vendor="AuthenticAMD", ids=(15, 6, 1))
    masked(node({"proc/cpuinfo": text}))


def test_proxmox_v2_aes_is_half_a_repair(node: Plant) -> None:
    text = cpuinfo(f"{cpus.V2_AES} hypervisor", "QEMU Virtual CPU version 2.5+", ids=(15, 107, 1))
    finding = masked(node({"proc/cpuinfo": text, **QEMU}))
    assert finding.severity is Severity.CRITICAL
    assert "3.4-4.8x" in finding.impact
    assert "NumPy" not in finding.impact


def test_a_custom_type_with_avx2_but_no_ssse3(node: Plant) -> None:
    text = cpuinfo(f"{cpus.V1} xsave avx avx2 hypervisor", "Common KVM processor", ids=(15, 6, 1))
    finding = masked(node({"proc/cpuinfo": text, **QEMU}))
    assert finding.severity is Severity.WARNING
    assert "1.6-2.9x" in finding.impact


def test_family_15_model_6_with_all_flags_is_not_masked(node: Plant) -> None:
    text = cpuinfo(f"{cpus.V4} hypervisor", "Intel(R) Xeon(R) Gold 5120", ids=(15, 6, 1))
    assert not isa_findings(node({"proc/cpuinfo": text, **dmi("Nutanix", "AHV")}))


@pytest.mark.parametrize(
    "brand", ["Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel(R) Xeon(R) Platinum 8272CL CPU @ 2.60GHz"]
)
def test_hidden_vnni_or_a_hidden_sku_is_not_masked(node: Plant, brand: str) -> None:
    assert not isa_findings(node({"proc/cpuinfo": cpuinfo(f"{cpus.V4} hypervisor", brand)}))


def test_alder_lake_has_no_avx512(node: Plant) -> None:
    text = cpuinfo(cpus.V3, "12th Gen Intel(R) Core(TM) i9-12900K", ids=(6, 151, 2))
    assert not isa_findings(node({"proc/cpuinfo": text}))


def test_vmware_evc(node: Plant) -> None:
    text = cpuinfo(f"{cpus.V2_AES} hypervisor", GOLD)
    finding = masked(node({"proc/cpuinfo": text, **VMWARE}))
    assert "EVC" in finding.remedy.text
    assert "Cascade Lake" in finding.summary
    assert "AVX-512" in finding.remedy.text
    assert not {"qm", "virsh", "Proxmox"} & set(said(finding).split())
    assert "qm set" not in said(finding)


@pytest.mark.parametrize(
    ("vendor", "product", "words"),
    [
        ("Microsoft Corporation", "Virtual Machine", "CompatibilityForMigrationEnabled"),
        ("innotek GmbH", "VirtualBox", "Hyper-V off on the host"),
        ("Xen", "HVM domU", "xe vm-start"),
        ("Amazon EC2", "t2.micro", "instance type"),
        ("Google", "Google Compute Engine", "set-min-cpu-platform"),
        ("Alibaba Cloud", "Alibaba Cloud ECS", "instance type"),
        ("OpenStack Foundation", "OpenStack Nova", "trait:HW_CPU_X86_AVX2=required"),
        ("Nutanix", "AHV", "acli vm.update"),
        ("KubeVirt", "None", "virtctl restart"),
        ("oVirt", "oVirt Node", "Pass-Through Host CPU"),
        ("Apache Software Foundation", "CloudStack KVM Hypervisor", "guest.cpu.mode"),
    ],
)
def test_remedies_speak_the_words_of_the_platform(
    node: Plant, vendor: str, product: str, words: str
) -> None:
    text = cpuinfo(f"{cpus.V2_AES} hypervisor", GOLD)
    finding = masked(node({"proc/cpuinfo": text, **dmi(vendor, product)}))
    assert words in said(finding)
    assert "qm set" not in said(finding)


def test_proxmox_is_known_by_its_machine_version(node: Plant) -> None:
    machine = dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)", product_version="pc-q35-9.0+pve0")
    commands = masked(node({**KVM64, **machine})).remedy.commands
    assert commands[0].startswith("qm set")
    assert not any("virsh" in command for command in commands)


def test_in_a_container_the_change_is_the_virtual_machines(node: Plant) -> None:
    finding = masked(node({**KVM64, ".dockerenv": ""}))
    assert "not this container" in finding.remedy.text


def test_proof_by_execution(node: Plant) -> None:
    ran = '{"ssse3": "executed", "sse4_2": "executed", "bmi2": "executed", "sha_ni": "sigill"}'
    finding = masked(node({**KVM64, "witness.json": ran}))
    assert finding.evidence[0].value == (
        "PSHUFB, CRC32, PDEP and MULX execute although CPUID hides them: "
        "the silicon is of the AVX2 generation"
    )
    assert "AVX2 (x86-64-v3) at least" in finding.remedy.text


def test_sigill_proves_nothing(node: Plant) -> None:
    finding = masked(node({**KVM64, "witness.json": '{"bmi2": "sigill", "ssse3": "wrong"}'}))
    assert "execute although" not in said(finding)
    assert "look for avx2 in the host" in finding.remedy.text


def test_sse4_alone_does_not_prove_avx2(node: Plant) -> None:
    finding = masked(node({**KVM64, "witness.json": '{"ssse3": "executed", "bmi2": "sigill"}'}))
    assert finding.evidence[0].value == "PSHUFB execute although CPUID hides them"


def test_no_hypervisor_flag_but_sse4_hidden(node: Plant) -> None:
    text = cpuinfo(cpus.V1, "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", ids=(6, 60, 3))
    finding = masked(node({"proc/cpuinfo": text}))
    assert finding.severity is Severity.CRITICAL


def test_no_hypervisor_flag_but_a_virtualbox_display(node: Plant) -> None:
    text = cpuinfo(cpus.V2_AES, "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", ids=(6, 60, 3))
    devices = "0000\t80861237\t0\n0010\t80eebeef\t12\n"
    finding = masked(node({"proc/cpuinfo": text, "proc/bus/pci/devices": devices}))
    assert "VirtualBox" in finding.remedy.text


def test_virtual_names_of_qemu_in_a_guest(node: Plant) -> None:
    text = cpuinfo(f"{cpus.AVX} hypervisor", "Intel Xeon E312xx (Sandy Bridge)", ids=(6, 42, 1))
    assert masked(node({"proc/cpuinfo": text, **QEMU})).severity is Severity.WARNING


def no_avx(host: CapturedHost) -> Finding:
    return only(host, "cpu.no_avx")


@pytest.mark.parametrize(
    ("brand", "ids"),
    [
        ("Intel(R) Xeon(R) CPU           X5670  @ 2.93GHz", (6, 44, 2)),
        ("Intel(R) Pentium(R) CPU G4400 @ 3.30GHz", (6, 94, 3)),
        ("Intel(R) Celeron(R) CPU 3955U @ 2.00GHz", (6, 78, 3)),
        ("Intel(R) Celeron(R) N5105 @ 2.00GHz", (6, 156, 0)),
        ("Intel(R) Atom(TM) CPU C3758 @ 2.20GHz", (6, 95, 1)),
    ],
)
@pytest.mark.parametrize("guest", ["", " hypervisor"])
def test_silicon_without_avx(
    node: Plant, brand: str, ids: tuple[int, int, int], guest: str
) -> None:
    finding = no_avx(node({"proc/cpuinfo": cpuinfo(cpus.V2_AES + guest, brand, ids=ids)}))
    assert finding.severity is Severity.CRITICAL
    assert finding.owner is Owner.HARDWARE
    assert "no VM setting can help" in finding.remedy.text
    assert "type host" not in said(finding)


def test_xsave_hidden_by_a_provider(node: Plant) -> None:
    text = cpuinfo(f"{cpus.XSAVE_OFF} hypervisor", "Intel(R) Xeon(R) Platinum 8269CY CPU")
    finding = no_avx(node({"proc/cpuinfo": text, **dmi("Alibaba Cloud", "Alibaba Cloud ECS")}))
    assert finding.owner is Owner.HYPERVISOR
    assert "XSAVE" in finding.remedy.text


def test_noxsave_is_named(node: Plant) -> None:
    finding = no_avx(
        node(
            {
                "proc/cpuinfo": cpuinfo(cpus.XSAVE_OFF),
                "proc/cmdline": "root=/dev/sda1 noxsave secret=hunter2\n",
            }
        )
    )
    assert finding.remedy.action is Action.REBOOT
    assert "noxsave" in finding.remedy.text
    assert "hunter2" not in said(finding)


@pytest.mark.parametrize("guest", ["", " hypervisor"])
@pytest.mark.parametrize("option", ["clearcpuid=avx", "clearcpuid=156", "clearcpuid=514,156"])
def test_clearcpuid_is_the_cause_even_in_a_guest(node: Plant, guest: str, option: str) -> None:
    text = cpuinfo(f"{cpus.V2_AES} xsave f16c bmi1 bmi2{guest}", GOLD)
    finding = no_avx(node({"proc/cpuinfo": text, "proc/cmdline": f"ro {option}\n"}))
    assert option in finding.remedy.text


def test_avx_switched_off_for_gather_data_sampling(node: Plant) -> None:
    mitigation = "Mitigation: AVX disabled, no microcode\n"
    finding = no_avx(
        node(
            {
                "proc/cpuinfo": cpuinfo(f"{cpus.V2_AES} xsave f16c bmi1 bmi2"),
                f"{cpus.SYSFS}/vulnerabilities/gather_data_sampling": mitigation,
            }
        )
    )
    assert "microcode" in finding.remedy.text


def test_bare_silicon_that_has_it_is_switched_off(node: Plant) -> None:
    finding = no_avx(node({"proc/cpuinfo": cpuinfo(cpus.V2_AES)}))
    assert "switched off" in finding.summary
    assert finding.owner is Owner.OPERATOR


def test_cpuid_shows_avx_and_the_kernel_does_not(node: Plant) -> None:
    # leaf 1: avx, xsave and sse4 bits, but no OSXSAVE
    ecx = sum(1 << bit for bit in (0, 9, 13, 19, 20, 23, 26, 28))
    finding = no_avx(
        node(
            {
                "proc/cpuinfo": cpuinfo(f"{cpus.V2_AES} xsave hypervisor"),
                "cpuid.json": msgspec.json.encode(
                    {
                        "0.0": [1, 0, 0, 0],
                        "1.0": [0x50657, 0, ecx, 0x7FFFFFF],
                        "80000001.0": [0, 0, 1, 1 << 29 | 1 << 11],
                    }
                ),
            }
        )
    )
    assert "XCR0 does not enable" in said(finding)


@pytest.mark.parametrize(
    ("flags", "brand", "vendor", "ids"),
    [
        (cpus.AVX, "AMD Opteron(TM) Processor 6272", "AuthenticAMD", (21, 1, 2)),
        (f"{cpus.AVX} f16c fma", "AMD Opteron(tm) Processor 6328", "AuthenticAMD", (21, 2, 0)),
        (f"{cpus.AVX} f16c", "Intel(R) Xeon(R) CPU E5-2690 v2", "GenuineIntel", (6, 62, 4)),
        (f"{cpus.AVX} f16c", "AMD GX-424CC SOC", "AuthenticAMD", (22, 48, 1)),
        (f"{cpus.AVX} bmi2 f16c avx2", "VIA Eden X4", "CentaurHauls", (6, 15, 14)),
    ],
)
def test_no_avx2_in_silicon(
    node: Plant, flags: str, brand: str, vendor: str, ids: tuple[int, int, int]
) -> None:
    text = cpuinfo(flags, brand, vendor=vendor, ids=ids)
    finding = only(node({"proc/cpuinfo": text}), "cpu.no_avx2")
    assert finding.severity is Severity.WARNING


def test_sandy_bridge_type_on_a_real_name(node: Plant) -> None:
    text = cpuinfo(f"{cpus.AVX} hypervisor", GOLD)
    assert masked(node({"proc/cpuinfo": text, **VMWARE})).severity is Severity.WARNING


@pytest.mark.parametrize("text", ["", "\0\xff", "processor : 0\n", "flags :\n", "flags : lm\n" * 3])
def test_no_flags_no_accusation(node: Plant, text: str) -> None:
    assert "cpu.hypervisor_masked" not in isa_findings(node({"proc/cpuinfo": text}))


def test_no_word_of_avx_on_arm(node: Plant) -> None:
    found = judge(seen(node({"proc/cpuinfo": cpus.arm("fp asimd asimddp")})))
    assert set(found) == {"cpu.no_i8mm"}
    assert "AVX" not in said(found["cpu.no_i8mm"]).upper()
