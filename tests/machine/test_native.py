"""What the CPU says of itself, what it executes, and the process's own bonds."""

import ctypes
import errno
import shutil
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nodecheck.machine import native
from tests.machine.emulated import X86_64, under_qemu
from tests.processes import children, descriptors, mapped_bytes

x86_64_only = pytest.mark.skipif(not X86_64, reason="CPUID is x86's")

WITNESSES = {
    "ssse3", "sse4_1", "sse4_2", "popcnt", "movbe", "aes", "pclmulqdq", "bmi1", "bmi2", "adx",
    "sha_ni",
}  # fmt: skip

# /proc/cpuinfo flag -> where CPUID has it: leaf, index into (eax, ebx, ecx, edx), bit
FLAG_BITS = {
    "sse2": ("1.0", 3, 26),
    "ssse3": ("1.0", 2, 9),
    "sse4_1": ("1.0", 2, 19),
    "sse4_2": ("1.0", 2, 20),
    "popcnt": ("1.0", 2, 23),
    "aes": ("1.0", 2, 25),
    "avx": ("1.0", 2, 28),
    "hypervisor": ("1.0", 2, 31),
    "bmi1": ("7.0", 1, 3),
    "avx2": ("7.0", 1, 5),
    "bmi2": ("7.0", 1, 8),
    "avx512f": ("7.0", 1, 16),
    "sha_ni": ("7.0", 1, 29),
    "lahf_lm": ("80000001.0", 2, 0),
}


def cpuinfo_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


# --- CPUID ---


@x86_64_only
def test_cpuid_agrees_with_cpuinfo() -> None:
    leaves = native.cpuid()
    assert leaves is not None
    flags = cpuinfo_flags()
    zeros = (0, 0, 0, 0)
    by_cpuid = {f for f, (key, i, bit) in FLAG_BITS.items() if leaves.get(key, zeros)[i] >> bit & 1}
    assert by_cpuid == flags & FLAG_BITS.keys()


@x86_64_only
def test_cpuid_reads_each_range_to_its_declared_end() -> None:
    leaves = native.cpuid()
    assert leaves is not None
    for base in (0, 0x80000000):
        highest = leaves[f"{base:x}.0"][0]
        assert f"{highest:x}.0" in leaves
        assert f"{highest + 1:x}.0" not in leaves


@x86_64_only
def test_cpuid_vendor_is_cpuinfos() -> None:
    leaves = native.cpuid()
    assert leaves is not None
    _, ebx, ecx, edx = leaves["0.0"]
    assert struct.pack("<3I", ebx, edx, ecx).decode() in Path("/proc/cpuinfo").read_text()


@x86_64_only
def test_cpuid_enumerates_subleaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_registers", intel_like)
    assert [i for i, _ in native._subleaves(4)] == [0, 1]
    assert [i for i, _ in native._subleaves(7)] == [0, 1, 2]
    assert [i for i, _ in native._subleaves(0xB)] == [0, 1]
    assert [i for i, _ in native._subleaves(0xD)] == [0, 1, 2, 8, 9]
    assert [i for i, _ in native._subleaves(0x1F)] == [0]
    assert [i for i, _ in native._subleaves(1)] == [0]
    assert len(list(native._subleaves(0x8000001D))) == 64  # one that never ends is bounded


def intel_like(leaf: int, subleaf: int = 0) -> native.Registers:
    if leaf == 0x8000001D:
        return (1, 0, 0, 0)
    answers = {
        (4, 0): (0x21, 0, 0, 0),
        (4, 1): (0x43, 0, 0, 0),
        (7, 0): (2, 0, 0, 0),
        (0xB, 0): (1, 2, 0x100, 0),
        (0xB, 1): (4, 8, 0x201, 0),
        (0xD, 0): (0x207, 0, 0, 0),
        (0xD, 1): (0xF, 0, 0x100, 0),
    }
    return answers.get((leaf, subleaf), (0, 0, 0, 0))


@x86_64_only
def test_a_missing_range_is_not_taken_for_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    # Past its end an Intel CPU answers with the highest basic leaf's values.
    monkeypatch.setattr(native, "_registers", lambda _leaf, _subleaf=0: (0x7FFEFBBF, 1, 2, 3))
    assert list(native._leaves(0x40000000)) == []
    assert list(native._leaves(0)) == []


@x86_64_only
def test_xcr0_has_the_state_of_the_listed_flags() -> None:
    xcr0 = native.xgetbv()
    flags = cpuinfo_flags()
    assert (xcr0 is not None) == ("xsave" in flags)
    if xcr0 is not None:
        assert xcr0 & 1
        assert ("avx" not in flags) or xcr0 & 6 == 6


def test_hwcaps_are_the_auxiliary_vectors() -> None:
    data = Path("/proc/self/auxv").read_bytes()
    pairs = dict(struct.iter_unpack("@LL", data))
    assert native.hwcaps() == (pairs.get(16, 0), pairs.get(26, 0))
    leaves = native.cpuid()
    if leaves is not None:  # on x86 the kernel puts CPUID 1's EDX there
        assert native.hwcaps()[0] == leaves["1.0"][3]


# --- witness ---


@x86_64_only
def test_witness_executes_all_that_cpuinfo_lists() -> None:
    outcomes = native.witness()
    assert outcomes is not None
    assert set(outcomes) == WITNESSES
    assert {outcomes[name] for name in WITNESSES & cpuinfo_flags()} == {"executed"}
    assert "wrong" not in outcomes.values()


@x86_64_only
def test_witness_leaves_nothing_behind() -> None:
    native.witness()
    before = descriptors(), mapped_bytes(), children()
    for _ in range(100):
        native.witness()
    assert (descriptors(), mapped_bytes(), children()) == before


@x86_64_only
def test_witness_works_from_a_thread_while_others_run() -> None:
    seen: list[dict[str, str] | None] = []
    threads = [threading.Thread(target=lambda: seen.append(native.witness())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [native.witness()] * 4


# --- clock and process ---


def test_clock_gettime_costs_something_and_is_soon_known() -> None:
    start = time.monotonic()
    cost = native.clock_gettime_seconds()
    assert 0 < cost < time.monotonic() - start
    assert cost < 1e-3


PREEMPTED = """
#include "%s"
static long now, calls;
int clock_gettime(clockid_t clock, struct timespec *told) {
    now += 20 + (++calls == %d ? 28 * 1000 * 1000 : 0) + 0 * clock;
    *told = (struct timespec){ now / 1000000000, now %% 1000000000 };
    return 0;
}
"""


@pytest.mark.parametrize("call", [2, 40, 400])
def test_who_takes_the_cpu_meanwhile_makes_no_clock_slow(tmp_path: Path, call: int) -> None:
    """A clock that costs 20 ns, and 28 ms once: another program ran then."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    csrc = Path(__file__).parents[2] / "csrc"
    (tmp_path / "clock.c").write_text(PREEMPTED % (csrc / "clock.c", call))
    library = tmp_path / "clock.so"
    command = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-Wl,-Bsymbolic",
               f"-I{csrc}", str(tmp_path / "clock.c"), "-o", str(library)]  # fmt: skip
    subprocess.run(command, check=True)
    seconds = ctypes.CDLL(str(library)).nc_clock_gettime_seconds
    seconds.restype = ctypes.c_double
    assert 19e-9 < seconds() < 21e-9


def test_set_mempolicy_default_leaves_the_callers_policy() -> None:
    before = Path("/proc/thread-self/numa_maps")
    policies = before.read_text() if before.exists() else ""
    assert native.set_mempolicy_default_errno() in (0, errno.EPERM, errno.ENOSYS)
    assert ("default" in policies) == ("default" in (before.read_text() if policies else ""))


def test_die_with_parent() -> None:
    child = "import time; from nodecheck.machine import native; native.die_with_parent()"
    child += "; print('armed', flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {child!r}], "
    parent += "stdout=subprocess.PIPE); p.stdout.readline(); print(p.pid)"
    done = subprocess.run(
        [sys.executable, "-c", parent], capture_output=True, text=True, check=True
    )
    status = Path(f"/proc/{int(done.stdout)}/stat")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and is_alive(status):
        time.sleep(0.05)
    assert not is_alive(status)


def is_alive(status: Path) -> bool:
    try:
        return status.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- the extension itself ---


def test_a_missing_extension_is_one_clean_exception() -> None:
    code = (
        "import sys; sys.modules['nodecheck._native'] = None\n"
        "try:\n    import nodecheck.machine.native\n"
        "except ImportError as error: print(type(error).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["NativeUnavailable"]


def test_the_extension_is_abi3() -> None:
    from nodecheck import _native

    assert str(_native.__file__).endswith(".abi3.so")


# --- other CPUs, by emulation ---


def test_kvm64_executes_no_hidden_instruction() -> None:
    assert under_qemu("kvm64", "native", "native.witness()") == dict.fromkeys(WITNESSES, "sigill")


def test_nehalem_executes_what_it_has() -> None:
    has = {"ssse3", "sse4_1", "sse4_2", "popcnt"}
    expected = {name: "executed" if name in has else "sigill" for name in WITNESSES}
    assert under_qemu("Nehalem", "native", "native.witness()") == expected


def test_kvm64_shows_in_cpuid_and_not_the_hosts_cpu() -> None:
    leaves = under_qemu("kvm64", "native", "native.cpuid()")
    assert isinstance(leaves, dict)
    brand = b"".join(struct.pack("<4I", *leaves[f"{0x80000002 + i:x}.0"]) for i in range(3))
    assert b"Common KVM processor" in brand
    assert leaves["7.0"] == [0, 0, 0, 0]
    assert under_qemu("kvm64", "native", "native.xgetbv()") is None
