from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.disk.mounts import (
    Mount,
    file_systems,
    holder,
    parse_mountinfo,
    parse_mounts,
    visible,
)
from tests.checks.disk.table import ROOT


def points(text: str) -> list[str]:
    return [mount.point for mount in visible(parse_mountinfo(text))]


def one(line: str) -> Mount:
    (mount,) = parse_mountinfo(line)
    return mount


def persistent(
    fstype: str, point: str = "/data", source: str = "/dev/sdb", number: str = "8:16"
) -> bool:
    return one(f"30 22 {number} / {point} rw - {fstype} {source} rw").persistent


def test_a_line_of_mountinfo() -> None:
    line = (
        r"900 838 0:56 /a\040b /mnt/with\040blank\134 rw,relatime shared:1 master:2 - "
        r"ext4 /dev/my\011disk rw,x=y"
    )
    assert one(line) == Mount(
        id=900,
        parent=838,
        device_number="0:56",
        point="/mnt/with blank\\",
        options=("rw", "relatime"),
        fstype="ext4",
        source="/dev/my\tdisk",
        super_options=("rw", "x=y"),
    )


@pytest.mark.parametrize("optional", ["", "shared:1 ", "master:1 propagate_from:2 unbindable "])
def test_optional_fields_may_be_none_or_many(optional: str) -> None:
    assert one(f"22 1 8:1 / / rw {optional}- ext4 /dev/sda1 rw").fstype == "ext4"


def test_a_mount_point_that_is_a_dash_does_not_end_the_options() -> None:
    assert one("22 1 8:1 - / rw - ext4 - rw").source == "-"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "22 1 8:1 / / rw",
        "22 1 8:1 / / rw -",
        "a b 8:1 / / rw - ext4 d rw",
        "- " * 11,
        "22 1 8:1 / / rw - ext4 /dev/sda1",
        "\0" * 50,
        "22 1 8:1 / /mnt rw shared:1 ext4 d rw",
    ],
)
def test_a_damaged_line_is_left_out(line: str) -> None:
    assert points(f"{ROOT}\n{line}\n") == ["/"]


@given(st.text(alphabet="0123456789 :/-\\,rwextfs\n", max_size=400))
def test_any_text_is_parsed(text: str) -> None:
    for mounts in (parse_mountinfo(text), parse_mounts(text)):
        shown = visible(mounts)
        assert set(shown) <= set(mounts)
        file_systems(shown)


@given(
    st.text(
        alphabet=st.characters(exclude_characters="\n\0\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
        min_size=1,
    )
)
def test_names_come_back_as_they_were(name: str) -> None:
    escaped = name
    for character in "\\ \t":
        escaped = escaped.replace(character, f"\\{ord(character):03o}")
    assert one(f"30 22 8:16 / /{escaped} rw - ext4 /dev/sdb rw").point == f"/{name}"


def test_the_last_mount_on_a_point_is_the_visible_one() -> None:
    text = (
        f"{ROOT}\n"
        "25 22 0:23 / /dev/shm rw - tmpfs first rw\n"
        "30 25 0:27 / /dev/shm rw - tmpfs second rw\n"
        "31 30 0:28 / /dev/shm rw - tmpfs third rw\n"
    )
    shown = visible(parse_mountinfo(text))
    assert [mount.source for mount in shown] == ["/dev/vda1", "third"]


def test_a_later_mount_above_hides_what_was_below() -> None:
    text = (
        f"{ROOT}\n"
        "30 22 8:16 / /data/a rw - ext4 /dev/sdb rw\n"
        "31 30 8:17 / /data/a/deep rw - ext4 /dev/sdc rw\n"
        "32 22 8:18 / /data rw - ext4 /dev/sdd rw\n"
        "33 32 8:19 / /data/a rw - ext4 /dev/sde rw\n"
        "34 22 8:20 / /database rw - ext4 /dev/sdf rw\n"
    )
    shown = visible(parse_mountinfo(text))
    assert [mount.source for mount in shown] == ["/dev/vda1", "/dev/sdd", "/dev/sde", "/dev/sdf"]


def test_a_mount_over_a_mount_hides_what_lay_on_it() -> None:
    text = (
        f"{ROOT}\n"
        "30 22 8:16 / /data rw - ext4 /dev/sdb rw\n"
        "31 30 8:17 / /data/x rw - ext4 /dev/sdc rw\n"
        "32 30 8:18 / /data rw - ext4 /dev/sdd rw\n"
    )
    assert [m.source for m in visible(parse_mountinfo(text))] == ["/dev/vda1", "/dev/sdd"]


def test_earlier_mounts_above_hide_nothing() -> None:
    """Also where an excerpt gives every mount the same parent."""
    text = f"{ROOT}\n30 22 8:16 / /var rw - ext4 a rw\n31 22 8:17 / /var/lib rw - ext4 b rw\n"
    assert points(text) == ["/", "/var", "/var/lib"]


def test_two_roots_of_a_container() -> None:
    text = (
        "500 400 0:50 / / rw - btrfs /dev/sdb rw\n"
        "510 500 0:60 / /proc rw - proc proc rw\n"
        "838 589 253:0 / / rw shared:1 master:1 - ext4 /dev/mapper/vg-root rw\n"
        "901 838 0:57 / /proc rw - proc proc rw\n"
    )
    assert [m.id for m in visible(parse_mountinfo(text))] == [838, 901]


def test_mounts_that_are_their_own_parents_end() -> None:
    text = "1 1 8:1 / / rw - ext4 a rw\n2 3 8:2 / /a rw - ext4 b rw\n3 2 8:3 / /b rw - ext4 c rw\n"
    assert points(text) == ["/", "/a", "/b"]


def test_proc_mounts_hides_by_order_but_not_by_the_root() -> None:
    text = (
        "rootfs / rootfs rw 0 0\n"
        "udev /dev tmpfs rw 0 0\n"
        "tmpfs /dev/shm tmpfs rw 0 0\n"
        "/dev/sda8 / ext3 rw,relatime 0 0\n"
        "/dev/sdb1 /data/a ext4 rw 0 0\n"
        "/dev/sdc1 /data ext4 rw 0 0\n"
        "broken\n"
    )
    shown = visible(parse_mounts(text))
    assert [m.point for m in shown] == ["/dev", "/dev/shm", "/", "/data"]
    assert shown[2].source == "/dev/sda8"


@pytest.mark.parametrize(
    ("fstype", "source", "number"),
    [
        *(
            (kind, "/dev/sdb", "8:16")
            for kind in ("ext2", "ext4", "xfs", "f2fs", "bcachefs", "ntfs3")
        ),
        ("btrfs", "/dev/sdb", "0:40"),
        ("zfs", "rpool/data", "0:41"),
        ("overlay", "overlay", "0:42"),
        ("fuse.fuse-overlayfs", "fuse-overlayfs", "0:42"),
        ("nfs4", "server:/x", "0:43"),
        ("cifs", "//server/x", "0:44"),
        ("ceph", "mon:/", "0:45"),
        ("lustre", "mds@tcp:/x", "0:46"),
        ("virtiofs", "tag", "0:47"),
        ("9p", "tag", "0:48"),
    ],
)
def test_where_a_model_can_be_kept(fstype: str, source: str, number: str) -> None:
    assert persistent(fstype, source=source, number=number)


@pytest.mark.parametrize(
    ("fstype", "source", "number"),
    [
        ("tmpfs", "tmpfs", "0:50"),
        ("ramfs", "none", "0:50"),
        ("devtmpfs", "udev", "0:6"),
        ("squashfs", "/dev/loop1", "7:1"),
        ("iso9660", "/dev/sr0", "11:0"),
        ("erofs", "/dev/loop1", "7:1"),
        ("vfat", "/dev/sda1", "8:1"),
        ("fuse.lxcfs", "lxcfs", "0:44"),
        ("fuse.gvfsd-fuse", "gvfsd-fuse", "0:45"),
        ("fuse.s3fs", "s3fs", "0:46"),
        ("fuse", "/dev/fuse", "0:47"),
        ("autofs", "/etc/auto.home", "0:48"),
        ("proc", "proc", "0:4"),
        ("cgroup2", "cgroup2", "0:29"),
    ],
)
def test_where_none_can(fstype: str, source: str, number: str) -> None:
    assert not persistent(fstype, source=source, number=number)


@pytest.mark.parametrize(
    "point", ["/boot", "/boot/efi", "/efi", "/snap/core/1", "/var/lib/snapd/x", "/etc/hosts"]
)
def test_places_that_are_for_something_else(point: str) -> None:
    assert not persistent("ext4", point)


def test_places_that_only_begin_alike_are_not_left_out() -> None:
    assert persistent("ext4", "/bootstrap")


@pytest.mark.parametrize(("options", "super_options"), [("ro", "ro"), ("ro", "rw")])
def test_a_read_only_mount_keeps_nothing_and_has_not_failed(
    options: str, super_options: str
) -> None:
    mount = one(f"30 22 8:16 / /data {options},relatime - ext4 /dev/sdb {super_options}")
    assert not mount.persistent
    assert not mount.failed


@pytest.mark.parametrize("super_options", ["ro", "rw,emergency_ro", "ro,errors=remount-ro"])
def test_a_file_system_that_refuses_writes_has_failed(super_options: str) -> None:
    mount = one(f"30 22 8:16 / /data rw - ext4 /dev/sdb {super_options}")
    assert mount.failed
    assert not mount.persistent


def test_options_are_words_not_substrings() -> None:
    assert not one("30 22 8:16 / /d rw - ext4 /dev/sdb rw,errors=remount-ro,prjquota").failed


def test_autofs_is_never_asked_and_servers_are_even_if_read_only() -> None:
    assert not one("30 22 0:48 / /net rw - autofs /etc/auto.net rw").asked
    assert one("30 22 0:48 / /models ro - nfs4 server:/models ro").asked
    assert one("30 22 0:48 / /models rw - fuse.juicefs x rw").asked
    assert not one("30 22 0:48 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw").asked


def test_one_entry_a_device_at_its_shortest_writable_mount() -> None:
    text = (
        "22 1 8:1 / /host/a/long/way rw - ext4 /dev/sda1 rw\n"
        "23 1 8:1 /etc/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
        "24 1 8:1 /x /x ro - ext4 /dev/sda1 rw\n"
        "25 1 8:1 /y /models rw - ext4 /dev/sda1 rw\n"
        "26 1 8:2 /y /other rw - ext4 /dev/sda1 rw\n"
    )
    groups = file_systems(visible(parse_mountinfo(text)))
    assert [group[0].point for group in groups] == ["/models", "/other"]
    assert len(groups[0]) == 4


def test_containers_roots_on_their_host_are_not_disks_of_their_own() -> None:
    text = f"{ROOT}\n" + "".join(
        f"{n} 22 0:{n} / /run/containerd/{n}/rootfs rw - overlay overlay rw,lowerdir=/l,"
        f"upperdir=/var/lib/containerd/{n}/fs,workdir=/w\n"
        for n in range(100, 600)
    )
    assert len(file_systems(visible(parse_mountinfo(text)))) == 1


def test_an_overlay_is_a_disk_where_its_layers_are_not_to_be_seen() -> None:
    text = (
        "22 1 0:60 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/docker/u,workdir=/w\n"
        "30 22 0:61 / /data rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/docker/v\n"
        "31 22 0:62 / /mnt rw - overlay overlay rw,lowerdir=l,upperdir=u\n"
    )
    assert len(file_systems(visible(parse_mountinfo(text)))) == 3


def test_what_a_path_lies_on() -> None:
    text = f"{ROOT}\n30 22 8:16 / /var/lib rw - ext4 /dev/sdb rw\n"
    mounts = visible(parse_mountinfo(text))
    for path, point in (("/var/lib/kubelet", "/var/lib"), ("/var/library", "/"), ("/", "/")):
        below = holder(mounts, path)
        assert below is not None
        assert below.point == point
    assert holder((), "/") is None


def test_thousands_of_mounts_are_cheap() -> None:
    text = f"{ROOT}\n" + "".join(
        f"{n} 22 0:{n} / /var/lib/kubelet/pods/{n}/volumes/x rw - tmpfs tmpfs rw\n"
        for n in range(100, 5100)
    )
    assert len(visible(parse_mountinfo(text))) == 5001
