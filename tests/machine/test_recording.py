"""What a capture keeps, and what it must not."""

from __future__ import annotations

import pytest

from nodecheck.machine.recording import anonymous

NAME = "web01.corp.example"


@pytest.mark.parametrize(
    ("line", "kept", "gone"),
    [
        ("root=UUID=12345678-abcd-abcd-abcd-123456789abc ro", "ro", "123456789abc"),
        ("root=PARTUUID=1234abcd-01 quiet", "quiet", "1234abcd"),
        ("eth0: 52:54:00:12:34:56 link", "link", "12:34:56"),
        ("eth0: 52-54-00-ab-cd-ef", "eth0", "ab-cd-ef"),
        ("/docker/" + "a1" * 32, "/docker/", "a1a1"),
        ("[100 v1] Device Serial Number 48-b0-2d-ff-fe-a1-b2-c3", "100 v1", "b2-c3"),
        ("Serial Number : 0321654987", "Serial Number", "0321654987"),
        ("S/N: XK42", "S/N", "XK42"),
        ("<serial>1650922</serial>", "<serial>", "1650922"),
        ('  "asic_serial": "0x8E3A0D58",', '"asic_serial": "removed",', "8E3A0D58"),
        ("EXT4-fs on web01 mounted", "mounted", "web01"),
        ("/dev/mapper/web01--vg-root / ext4", "root", "web01"),
        ("location_id 33280\nunique_id 16141263498765432101\ndomain 0", "domain 0", "1614126"),
        ("kernel: web01.corp.example up", "up", "corp.example"),
        (
            "70 22 0:50 / /mnt rw - nfs4 nas01.corp.example:/export rw",
            "nfs4",
            "nas01",
        ),
        ("70 22 0:50 / /mnt rw - nfs4 10.1.2.3:/export rw,addr=10.1.2.3", ":/export", "10.1.2.3"),
        ("71 22 0:51 / /m rw - cifs //nas/share rw,username=alice,domain=CORP", "cifs", "alice"),
    ],
)
def test_identities_are_removed(line: str, kept: str, gone: str) -> None:
    cleaned = anonymous(line + "\n", NAME)
    assert kept in cleaned
    assert gone not in cleaned


@pytest.mark.parametrize(
    "line",
    [
        "22 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro",
        "NVRM: Xid (PCI:0000:0b:00): 79, pid=1234, GPU has fallen off the bus.",
        "flags\t\t: fpu vme sse2 avx2",
        "MemTotal:       149414062 kB",
        "    Bus Id                                         : 00000000:0C:00.0",
        "0::/kubepods.slice/pod1",
    ],
)
def test_facts_stay_as_they_are(line: str) -> None:
    assert anonymous(line + "\n", NAME) == line + "\n"
