"""What a command did to files and to other processes, as strace tells it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

WATCHED = (
    # it may neither write ...
    *("open", "openat", "openat2", "creat", "truncate", "ftruncate", "write", "writev", "pwrite64"),
    *("pwritev", "pwritev2", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir"),
    *("mkdirat", "rmdir", "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat", "chmod"),
    *("fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "utimensat", "setxattr"),
    *("mount", "copy_file_range", "sendfile", "fallocate"),
    # ... nor touch another process
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease"),
    *("pidfd_getfd", "pidfd_send_signal", "kill", "tkill", "tgkill", "rt_sigqueueinfo"),
    *("rt_tgsigqueueinfo", "setpriority", "sched_setaffinity", "sched_setscheduler"),
    *("sched_setparam", "sched_setattr", "ioprio_set", "prlimit64", "migrate_pages", "move_pages"),
    *("kcmp", "setns"),
)
STRACE = ("strace", "-f", "-y", "-s", "0", "-e", "signal=none", "-e", f"trace={','.join(WATCHED)}")

CALL = re.compile(r"^\d+ +(\w+)\((.*)$")
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
PATH = re.compile(r'"([^"]*)"')
TARGET = re.compile(r"^\d+<([^>]*)>")
NOT_FILES = ("pipe:", "socket:", "UNIX", "NETLINK", "anon_inode:", "/dev/null")
"""What may be written to: it keeps nothing."""

FORBIDDEN = {
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease"),
    *("pidfd_getfd", "migrate_pages", "kcmp", "setns", "mount"),
}
OF_A_PROCESS = {
    *("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sched_setaffinity"),
    *("sched_setscheduler", "sched_setparam", "sched_setattr", "prlimit64", "move_pages"),
    *("setpriority", "ioprio_set", "pidfd_send_signal"),
}


def trespasses(trace: str, engine: Sequence[int], own: str) -> Iterator[str]:
    """Calls that write outside the folder `own`, or touch the engine's processes."""
    for line in trace.splitlines():
        call = CALL.match(line)
        if call is not None and _trespasses(call[1], call[2], set(map(str, engine)), own):
            yield line


def _trespasses(name: str, arguments: str, engine: set[str], own: str) -> bool:
    if name in FORBIDDEN:
        return True
    if name in OF_A_PROCESS:
        first, second, third = (*arguments.split(", "), "", "")[:3]
        is_read = name == "prlimit64" and third == "NULL"
        return bool(engine & {first.lstrip("-"), second}) and not is_read
    if name in ("open", "openat", "openat2"):
        path = PATH.search(arguments)
        opened = path[1] if path else ""
        if re.fullmatch(r"/proc/\d+(/task/\d+)?/mem", opened):
            return True
        return bool(WRITES.search(arguments)) and not opened.startswith((own, "/dev/null"))
    target = TARGET.match(arguments)
    if target is not None:
        return not target[1].startswith((own, *NOT_FILES))
    return not all(path.startswith(own) for path in PATH.findall(arguments))
