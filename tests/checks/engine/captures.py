"""Files of /proc, written as the kernel writes them."""

from __future__ import annotations

from tests.trees import Tree


def stat(
    pid: int,
    name: str = "llama-server",
    *,
    state: str = "S",
    parent: int = 1,
    flags: int = 0x400040,
    faults: tuple[int, int] = (0, 0),
    ticks: tuple[int, int] = (0, 0),
    threads: int = 1,
    start: int = 5000,
    cpu: int = 0,
    reaped: int = 0,
    nice: int = 0,
) -> str:
    """/proc/PID/stat: `faults` are minor and major, `ticks` user's and the system's.

    `reaped` are the ticks of children that have ended.
    """
    minor, major = faults
    user, system = ticks
    return (
        f"{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 {flags} {minor} 0 {major} 0 "
        f"{user} {system} {reaped} 0 20 {nice} {threads} 0 {start} 5763072 280 "
        f"18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    )


def status(
    pid: int, *, cpus: str = "0-3", rss_kib: int = 1024, switches: tuple[int, int] = (0, 0)
) -> str:
    """/proc/PID/status, without what is not read; `switches` are voluntary and involuntary ones."""
    return (
        f"Name:\tllama-server\nState:\tS (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t1\n"
        f"VmLck:\t      64 kB\nVmRSS:\t{rss_kib:>8} kB\nVmSwap:\t       8 kB\nThreads:\t1\n"
        f"Cpus_allowed:\tf\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n"
        f"voluntary_ctxt_switches:\t{switches[0]}\nnonvoluntary_ctxt_switches:\t{switches[1]}\n"
    )


def io(read_bytes: int) -> str:
    """/proc/PID/io."""
    return (
        "rchar: 9999\nwchar: 0\nsyscr: 10\nsyscw: 0\n"
        f"read_bytes: {read_bytes}\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
    )


def thread(pid: int, tid: int, before: str | None, after: str | None) -> Tree:
    """A thread's schedstat at both ends, and its other files at the second."""
    place = f"proc/{pid}/task/{tid}"
    files: Tree = {f"{place}/stat.2": stat(tid, f"worker {tid}", cpu=tid % 4)}
    if before is not None:
        files |= {f"{place}/schedstat": before, f"{place}/status": status(pid, switches=(5, 7))}
    if after is not None:
        files |= {f"{place}/schedstat.2": after, f"{place}/status.2": status(pid, switches=(6, 9))}
    return files


def node(before: str, after: str, refaults: tuple[int, int] = (0, 0)) -> Tree:
    """/proc/stat of two CPUs, its sums as given, and /proc/vmstat."""
    lines = "cpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\nintr 5\nctxt 7\n"
    return {
        "proc/stat": f"cpu  {before}\n{lines}",
        "proc/stat.2": f"cpu  {after}\n{lines}",
        "proc/vmstat": f"nr_free_pages 9\nworkingset_refault_file {refaults[0]}\n",
        "proc/vmstat.2": f"nr_free_pages 9\nworkingset_refault_file {refaults[1]}\n",
    }
