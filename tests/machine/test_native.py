import errno
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nodecheck.machine import native
from tests.processes import children

MIB = 1 << 20
X86_64 = platform.machine() == "x86_64"
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

KERNELS = [k for k in ("sse2", "avx2", "avx512", "vector") if native.usable_kernel(k)]


def cpuinfo_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def cpu() -> int:
    return min(os.sched_getaffinity(0))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def tasks() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def mapped_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


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


# --- read kernels ---


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_sums_every_word(kernel: str) -> None:
    size = native.kernel_bytes_per_iteration(kernel)
    words = [(i * 0x9E3779B97F4A7C15 + 1) & (1 << 64) - 1 for i in range(3 * size // 8)]
    whole = native.read_sum(kernel, struct.pack(f"<{len(words)}Q", *words))
    assert whole == sum(words) & (1 << 64) - 1
    for i in range(len(words)):
        without = [*words[:i], 0, *words[i + 1 :]]
        data = struct.pack(f"<{len(words)}Q", *without)
        assert native.read_sum(kernel, data) == (whole - words[i]) & (1 << 64) - 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_refuses_a_part_of_an_iteration(kernel: str) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        native.read_sum(kernel, bytes(native.kernel_bytes_per_iteration(kernel) + 8))


@x86_64_only
def test_the_default_kernel_is_avx2_where_the_cpu_has_it() -> None:
    assert native.usable_kernel() == ("avx2" if "avx2" in cpuinfo_flags() else "sse2")


def test_an_unknown_kernel() -> None:
    assert native.usable_kernel("mmx") is None
    assert native.kernel_bytes_per_iteration("mmx") == 0
    with pytest.raises(OSError, match="run this kernel") as caught:
        native.dram_read([cpu()], 2 * MIB, 0.1, kernel="mmx")
    assert caught.value.errno == errno.ENOTSUP


# --- DRAM read ---


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_dram_read_accounts_for_its_bytes(kernel: str, threads: int) -> None:
    cpus = (sorted(os.sched_getaffinity(0)) * 2)[:threads]
    read = native.dram_read(cpus, 9 * MIB, 0.3, kernel=kernel)
    assert (read.kernel, read.threads) == (kernel, threads)
    assert read.buffer_bytes_per_thread == 8 * MIB
    assert -1 <= read.huge_page_bytes <= threads * (8 + 2) * MIB
    assert 5 <= len(read.passes) <= 64
    for each in read.passes:
        assert each.bytes == threads * 8 * MIB
        assert 0 < each.cpu_share <= 1
        assert 1e6 < each.bytes / each.seconds < 1e13


@pytest.mark.parametrize("omit_bytes", [4096, 256])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_short_read_is_caught(kernel: str, omit_bytes: int) -> None:
    with pytest.raises(OSError, match="read every word") as caught:
        native.dram_read([cpu()], 4 * MIB, 0.1, kernel=kernel, omit_bytes=omit_bytes)
    assert caught.value.errno == errno.EIO


def test_dram_read_fills_its_budget_and_keeps_to_it() -> None:
    start = time.monotonic()
    read = native.dram_read([cpu()], 4 * MIB, 0.6)
    took = time.monotonic() - start
    assert len(read.passes) == 64
    assert 0.4 < took < 1.2  # 64 passes of 4 MiB alone take a tenth of it


def test_five_passes_are_made_on_no_budget_at_all() -> None:
    assert len(native.dram_read([cpu()], 4 * MIB, 0.0).passes) == 5


def test_huge_pages_are_counted_where_the_kernel_gives_them() -> None:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("transparent huge pages are off here")
    read = native.dram_read([cpu()], 64 * MIB, 0.1)
    if read.huge_page_bytes == 0:
        pytest.skip("the kernel had no huge page to give")
    assert read.huge_page_bytes % (2 * MIB) == 0
    assert read.huge_page_bytes <= 64 * MIB


def test_a_busy_neighbour_shows_in_the_cpu_share() -> None:
    hog = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{cpu()}}})\nwhile 1: pass"]
    with subprocess.Popen(hog) as process:
        try:
            read = native.dram_read([cpu()], 128 * MIB, 1.0)
        finally:
            process.kill()
    assert min(each.cpu_share for each in read.passes) < 0.9


def test_an_impossible_cpu_is_an_oserror() -> None:
    for cpus in ([4095], [cpu(), 4095], [4095, cpu()]):
        with pytest.raises(OSError, match=r"pin a thread \(CPU 4095\)") as caught:
            native.dram_read(cpus, 2 * MIB, 0.1)
        assert caught.value.errno == errno.EINVAL


def test_a_buffer_that_cannot_be_had_is_an_oserror() -> None:
    with pytest.raises(OSError, match="map a buffer") as caught:
        native.dram_read([cpu(), cpu()], 1 << 60, 0.1)
    assert caught.value.errno == errno.ENOMEM


@pytest.mark.parametrize(
    ("cpus", "bytes_per_thread", "omit_bytes"),
    [([], 4 * MIB, 0), ([-1], 4 * MIB, 0), ([0], MIB, 0), ([0], 4 * MIB, 3 * MIB)],
)
def test_wrong_use_is_a_valueerror(cpus: list[int], bytes_per_thread: int, omit_bytes: int) -> None:
    with pytest.raises(ValueError, match="must"):
        native.dram_read(cpus, bytes_per_thread, 0.1, omit_bytes=omit_bytes)


def test_dram_read_leaves_nothing_behind() -> None:
    def read_and_fail() -> None:
        native.dram_read([cpu()] * 2, 2 * MIB, 0.0)
        with pytest.raises(OSError, match="pin"):
            native.dram_read([cpu(), 4095], 2 * MIB, 0.0)

    for _ in range(5):
        read_and_fail()
    before = descriptors(), tasks()
    mapped_before = mapped_bytes()
    for _ in range(50):
        read_and_fail()
    assert (descriptors(), tasks()) == before
    assert mapped_bytes() - mapped_before < 50 * 2 * MIB


def test_the_caller_stays_unpinned_and_python_goes_on_meanwhile() -> None:
    affinity = os.sched_getaffinity(0)
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    native.dram_read([cpu()], 4 * MIB, 0.5)
    done.set()
    ticker.join()
    assert os.sched_getaffinity(0) == affinity
    assert ticks > 5


# --- the extension itself ---


def test_a_missing_extension_is_one_clean_exception() -> None:
    code = (
        "import sys; sys.modules['nodecheck._native'] = None\n"
        "try:\n    import nodecheck.machine.native\n"
        "except Exception as error: print(type(error).__name__, isinstance(error, ImportError))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["NativeUnavailable", "False"]


def test_the_extension_is_abi3() -> None:
    from nodecheck import _native

    assert str(_native.__file__).endswith(".abi3.so")


# --- other CPUs, by emulation ---


def under_qemu(model: str, expression: str) -> object:
    """Evaluate an expression of native in this Python on an emulated CPU."""
    qemu = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if not X86_64 or qemu is None:
        pytest.skip("qemu-x86_64 (Debian's qemu-user) is not installed, or this is no x86-64")
    code = f"import json; from nodecheck.machine import native; print(json.dumps({expression}))"
    # -0 keeps the virtual environment's own path as argv[0]; QEMU needs the real file.
    command = [qemu, "-cpu", model, "-0", sys.executable, os.path.realpath(sys.executable)]
    done = subprocess.run(
        [*command, "-c", code], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kvm64_executes_no_hidden_instruction() -> None:
    assert under_qemu("kvm64", "native.witness()") == dict.fromkeys(WITNESSES, "sigill")


def test_nehalem_executes_what_it_has() -> None:
    has = {"ssse3", "sse4_1", "sse4_2", "popcnt"}
    expected = {name: "executed" if name in has else "sigill" for name in WITNESSES}
    assert under_qemu("Nehalem", "native.witness()") == expected


def test_kvm64_shows_in_cpuid_and_not_the_hosts_cpu() -> None:
    leaves = under_qemu("kvm64", "native.cpuid()")
    assert isinstance(leaves, dict)
    brand = b"".join(struct.pack("<4I", *leaves[f"{0x80000002 + i:x}.0"]) for i in range(3))
    assert b"Common KVM processor" in brand
    assert leaves["7.0"] == [0, 0, 0, 0]
    assert under_qemu("kvm64", "native.xgetbv()") is None


@pytest.mark.parametrize(("model", "kernel"), [("kvm64", "sse2"), ("Haswell", "avx2")])
def test_the_kernel_suits_the_emulated_cpu(model: str, kernel: str) -> None:
    cpus = "list(native.os.sched_getaffinity(0))[:1]"
    read = f"native.dram_read({cpus}, {4 * MIB}, 0.1)"
    seen = under_qemu(model, f"[(r.kernel, len(r.passes)) for r in [{read}]]")
    assert isinstance(seen, list)
    assert seen[0][0] == kernel
    assert seen[0][1] >= 5


def test_kvm64_refuses_the_wide_kernels() -> None:
    asked = "[native.usable_kernel(k) for k in ('avx2', 'avx512', 'sse2')]"
    assert under_qemu("kvm64", asked) == [None, None, "sse2"]
