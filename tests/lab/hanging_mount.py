"""A FUSE file system that mounts well and never answers: hanging_mount.py DIR SECONDS OPCODE.

It speaks the kernel's protocol (linux/fuse.h) on /dev/fuse itself, so that it needs no library. It
prints "mounted" when it serves, and ends after SECONDS, when its standard input is closed or when
it is killed; whoever waits for an answer then gets an error.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS = 90.0
"""No mount outlives this, whatever becomes of the test."""

LOOKUP, INIT, STATFS, FORGET, BATCH_FORGET, INTERRUPT = 1, 26, 17, 2, 42, 36
MNT_DETACH = 2
IN_HEADER = struct.Struct("=IIQQIIII")
OUT_HEADER = struct.Struct("=IiQ")
INIT_OUT = struct.Struct("=IIIIHHIIHHI7I")


def is_possible() -> bool:
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)


@contextlib.contextmanager
def hanging_mount(directory: Path, opcode: int = STATFS) -> Iterator[subprocess.Popen[bytes]]:
    """Mount one at `directory`; the daemon that serves it ends with the block, if not before.

    `opcode` is what it never answers: STATFS, or LOOKUP of what lies in it.
    """
    directory.mkdir(exist_ok=True)
    daemon = subprocess.Popen(
        [sys.executable, __file__, str(directory), str(SECONDS), str(opcode)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    try:
        assert daemon.stdout.readline() == b"mounted\n"
        yield daemon
    finally:
        daemon.stdin.close()
        daemon.stdout.close()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(10)
        unmount(str(directory))


def mount(directory: str, fuse: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    kind = b"fuse.hanging"
    if libc.mount(b"hanging", directory.encode(), kind, 6, options) != 0:  # MS_NODEV | MS_NOSUID
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), directory)


def unmount(directory: str) -> None:
    ctypes.CDLL(None).umount2(directory.encode(), MNT_DETACH)


def serve(fuse: int, seconds: float, hangs: int) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([fuse, 0], [], [], left)
        if 0 in ready and not os.read(0, 1):
            return
        if fuse in ready:
            answer(fuse, os.read(fuse, 1 << 20), hangs)


def answer(fuse: int, request: bytes, hangs: int) -> None:
    _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
    if opcode in (hangs, FORGET, BATCH_FORGET, INTERRUPT):  # taken, and not answered
        return
    if opcode == INIT:
        body = INIT_OUT.pack(7, 31, 0, 0, 12, 10, 1 << 17, 1, 32, 0, *[0] * 8)
        os.write(fuse, OUT_HEADER.pack(OUT_HEADER.size + len(body), 0, unique) + body)
    else:
        os.write(fuse, OUT_HEADER.pack(OUT_HEADER.size, -errno.ENOSYS, unique))


def main() -> None:
    directory, seconds, hangs = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    fuse = os.open("/dev/fuse", os.O_RDWR)
    mount(directory, fuse)
    try:
        os.write(1, b"mounted\n")
        serve(fuse, seconds, hangs)
    finally:
        unmount(directory)


if __name__ == "__main__":
    main()
