from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.checks.disk.allocation import parse_btrfs_usage, parse_lvs
from nodecheck.checks.disk.facts import ThinPool
from nodecheck.checks.disk.probe import probe
from nodecheck.checks.seen import Facts
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from tests.checks.disk.examples import BTRFS, LVS, MAPPED, NFS, USAGE
from tests.checks.disk.table import GIB, HUNG, ROOT, Node, disk, sizes, tree
from tests.lab.hanging_mount import hanging_mount, is_possible
from tests.trees import Link, Tree, plant


def test_sizes_are_what_a_user_gets_and_shares_are_dfs(node: Node) -> None:
    facts, gaps = disk(node, tree([ROOT], {"/": sizes(232, 9.8, reserved=11.8)}))
    (root,) = facts.filesystems
    assert root.available_bytes == pytest.approx(9.8 * GIB, abs=4096)
    assert root.used_share == pytest.approx((232 - 9.8 - 11.8) / (232 - 11.8))
    assert (root.inodes_total, root.inodes_free) == (1000, 900)
    assert gaps == []


def test_a_mount_table_alone_leaves_one_gap(node: Node) -> None:
    facts, gaps = disk(node, tree([ROOT, NFS]))
    assert [system.available_bytes for system in facts.filesystems] == [None, None]
    assert [(gap.field, gap.reason) for gap in gaps] == [("filesystems", Reason.ABSENT)]


def test_no_mount_table_is_a_gap(node: Node) -> None:
    facts, gaps = disk(node, {"proc/x": ""})
    assert facts.filesystems == ()
    assert [gap.reason for gap in gaps] == [Reason.ABSENT]


@pytest.mark.parametrize("text", [b"\xff" * 5000, "", "\0", "a\n" * 10_000, "1 2 3 4 5 6 7 - 9"])
def test_mount_tables_of_garbage(text: str | bytes, node: Node) -> None:
    made: Tree = {"proc/self/mountinfo": text, "proc/mounts": text}
    facts, gaps = disk(node, made)
    assert facts.filesystems == ()
    assert gaps


def test_proc_mounts_serves_where_mountinfo_is_missing(node: Node) -> None:
    mounts = "rootfs / rootfs rw 0 0\n/dev/sda8 / ext3 rw 0 0\n/etc/auto /net autofs rw 0 0\n"
    made: Tree = {"proc/mounts": mounts, "statvfs.json": json.dumps({"/": sizes(100, 50)})}
    facts, gaps = disk(node, made)
    assert [(s.mount, s.available_bytes) for s in facts.filesystems] == [("/", 50 * GIB)]
    assert gaps == []


def test_a_hang_is_a_fact_and_a_gap(node: Node) -> None:
    facts, gaps = disk(node, tree([ROOT, NFS], {"/": sizes(9, 5), "/mnt/models": HUNG}))
    root, models = facts.filesystems
    assert not root.hung
    assert models.hung
    assert models.network
    assert models.available_bytes is None
    assert [(gap.reason, gap.detail[:11]) for gap in gaps] == [(Reason.TIMEOUT, "/mnt/models")]


def test_another_mount_of_the_device_answers_where_the_first_is_unknown(node: Node) -> None:
    lines = [f"{n} 1 8:1 / /mnt/{n} rw - ext4 /dev/sda1 rw" for n in range(20, 24)]
    facts, gaps = disk(node, tree(lines, {"/mnt/22": sizes(100, 50)}))
    assert [(s.mount, s.available_bytes) for s in facts.filesystems] == [("/mnt/22", 50 * GIB)]
    assert gaps == []


@pytest.mark.parametrize(
    "lie",
    [
        {"f_bfree": 1 << 60},
        {"f_bavail": 1 << 60},
        {"f_blocks": (1 << 64) - 1, "f_bavail": 0, "f_bfree": 0},
        {"f_frsize": 0},
        {"f_blocks": 0, "f_bfree": 0, "f_bavail": 0},
    ],
)
def test_figures_that_contradict_themselves_are_not_believed(
    lie: dict[str, int], node: Node
) -> None:
    facts, gaps = disk(node, tree([ROOT], {"/": sizes(100, 50) | lie}))
    assert facts.filesystems[0].available_bytes is None
    assert facts.filesystems[0].used_share is None
    assert [gap.reason for gap in gaps] == [Reason.UNSUPPORTED]


def test_inodes_that_contradict_themselves_are_not_believed(node: Node) -> None:
    facts, _ = disk(node, tree([ROOT], {"/": sizes(100, 50, inodes=(5, 6))}))
    assert facts.filesystems[0].inodes_total is None
    assert facts.filesystems[0].available_bytes == 50 * GIB


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree"]),
        st.one_of(st.integers(), st.none(), st.text(max_size=3), st.floats(allow_nan=False)),
    )
)
def test_no_lie_of_statvfs_crashes_or_escapes_the_report(lie: dict[str, object]) -> None:
    with TemporaryDirectory() as directory:
        host = plant(tree([ROOT], {"/": sizes(100, 50) | lie}), Path(directory))
        facts = probe(Reader(host, "disk"))
        assert msgspec.json.decode(msgspec.json.encode(Facts(disk=facts)), type=Facts).disk == facts
        for system in facts.filesystems:
            assert system.used_share is None or 0 <= system.used_share <= 1


@pytest.mark.parametrize(
    ("number", "source", "link"),
    [
        ("8:2", "/dev/sda2", None),
        ("253:0", "/dev/mapper/vg-root", Link("../../devices/virtual/block/dm-0")),
    ],
)
def test_errors_are_counted_by_the_kernels_device(
    number: str, source: str, link: Link | None, node: Node
) -> None:
    device = "dm-0" if link else "sda2"
    made = tree([f"22 1 {number} / / rw - ext4 {source} rw"])
    made[f"sys/fs/ext4/{device}/errors_count"] = "3\n"
    if link:
        made["sys/dev/block/253:0"] = link
        made["sys/devices/virtual/block/dm-0/size"] = "1"
    (root,) = disk(node, made)[0].filesystems
    assert (root.kernel_device, root.errors_count) == (device, 3)


@pytest.mark.parametrize("count", ["", "x", "-1", "9" * 400])
def test_an_error_count_that_is_none(count: str, node: Node) -> None:
    made = tree([ROOT]) | {"sys/fs/ext4/vda1/errors_count": count}
    assert disk(node, made)[0].filesystems[0].errors_count is None


def test_a_failure_is_seen_at_any_mount_of_the_device(node: Node) -> None:
    lines = [
        "30 22 8:1 / /a ro - ext4 /dev/sda1 ro",
        "31 22 8:1 / /deeper/b rw - ext4 /dev/sda1 ro",
        "32 22 7:1 / /snap/x rw - squashfs /dev/loop1 ro",
        "33 22 0:9 / /c rw - nfs4 server:/x ro",
    ]
    facts, _ = disk(node, tree(lines))
    assert [s.failed_mounts for s in facts.filesystems if s.failed_mounts] == [("/deeper/b",)]


KUBELET = {"var/lib/kubelet/config.yaml": ""}


@pytest.mark.parametrize(
    ("lines", "kubelet", "images"),
    [
        ([], ("/",), ()),
        (["30 22 8:1 / /var rw - xfs /dev/sda1 rw"], ("/var",), ()),
        (
            ["30 22 8:1 / /var/lib/containerd rw - xfs /dev/sda1 rw"],
            ("/", "/var/lib/containerd"),
            ("/var/lib/containerd",),
        ),
        (["30 22 0:80 / /var/lib/kubelet/pods/x rw - tmpfs tmpfs rw"], ("/",), ()),
    ],
)
def test_what_kubelet_watches(
    lines: list[str], kubelet: tuple[str, ...], images: tuple[str, ...], node: Node
) -> None:
    facts, _ = disk(node, tree([ROOT, *lines], {"/": sizes(10, 5)}) | KUBELET)
    assert facts.kubelet_mounts == kubelet
    assert facts.image_mounts == images


def test_a_kubelet_is_told_by_its_mounts_too(node: Node) -> None:
    pod = "30 22 0:80 / /var/lib/kubelet/pods/x rw - tmpfs tmpfs rw"
    assert disk(node, tree([ROOT, pod]))[0].kubelet_mounts == ("/",)


def test_images_without_a_kubelet_are_nothing_special(node: Node) -> None:
    facts, _ = disk(node, tree([ROOT]) | {"var/lib/docker/x": ""})
    assert facts.kubelet_mounts == ()


def test_a_mount_that_hangs_is_not_looked_into(node: Node) -> None:
    line = "30 22 0:50 / /var/lib rw - nfs4 server:/x rw"
    made = tree([ROOT, line], {"/": sizes(9, 5), "/var/lib": HUNG}) | KUBELET
    assert disk(node, made)[0].kubelet_mounts == ()


# --- btrfs and LVM


def sysfs(size_gib: float, data: float, metadata: tuple[float, float]) -> Tree:
    home = "sys/fs/btrfs/00000000-0000-0000-0000-000000000000"
    figures = {
        "data/disk_total": data,
        "metadata/disk_total": 2 * metadata[0],
        "system/disk_total": 0.0625,
        "metadata/total_bytes": metadata[0],
        "metadata/bytes_used": metadata[1],
    }
    made: Tree = {f"{home}/allocation/{n}": f"{round(f * GIB)}\n" for n, f in figures.items()}
    made[f"{home}/devices/sda2"] = Link("../../../../devices/sda2")
    made["sys/devices/sda2/size"] = f"{round(size_gib * GIB / 512)}\n"
    return made | {"sys/fs/btrfs/features/raid56": "0"}


def test_btrfs_by_sysfs(node: Node) -> None:
    facts, gaps = disk(node, tree([BTRFS]) | sysfs(465, 459.5, (2.5, 2.3)))
    (seen,) = facts.btrfs
    assert seen.mount == "/"
    assert seen.unallocated_bytes == pytest.approx(0.4375 * GIB, abs=1024)
    assert seen.metadata_used_share == pytest.approx(0.92)
    assert not [gap for gap in gaps if gap.field == "btrfs"]


@pytest.mark.parametrize(
    "lie",
    [
        {"metadata/total_bytes": "0"},
        {"metadata/bytes_used": "99999999999999"},
        {"metadata/bytes_used": "-1"},
        {"data/disk_total": "999999999999999999"},
        {"data/disk_total": "text"},
    ],
)
def test_btrfs_figures_that_make_no_sense_are_a_gap(lie: dict[str, str], node: Node) -> None:
    home = "sys/fs/btrfs/00000000-0000-0000-0000-000000000000/allocation"
    made = tree([BTRFS]) | sysfs(465, 400, (2.5, 2.3)) | {f"{home}/{n}": t for n, t in lie.items()}
    facts, gaps = disk(node, made)
    assert facts.btrfs == ()
    assert [gap.field for gap in gaps if "btrfs" in gap.detail] == ["btrfs"]


@pytest.mark.parametrize("name", ["btrfs_filesystem_usage", "btrfs_filesystem_usage__"])
def test_btrfs_by_the_program(name: str, node: Node) -> None:
    usage = USAGE.format(allocated="465.26GiB", unallocated="1.00MiB", metadata="2.00GiB (80.00%)")
    facts, _ = disk(node, tree([BTRFS]) | {f"cmd/{name}.txt": usage})
    assert [(b.unallocated_bytes, b.metadata_used_share) for b in facts.btrfs] == [(1 << 20, 0.8)]


def test_btrfs_without_an_input_is_a_gap_with_the_command(node: Node) -> None:
    _, gaps = disk(node, tree([BTRFS], {"/": sizes(10, 5)}))
    assert [gap.field for gap in gaps] == ["btrfs"]
    assert gaps[0].detail.endswith("run: sudo btrfs filesystem usage /")


@pytest.mark.parametrize(
    ("text", "unallocated"),
    [
        ("Device unallocated: 1073741824\nMetadata,single: Size:100, Used:50", GIB),
        (
            "  Device unallocated:\t 2.50TiB\nMetadata,RAID1: Size:1.00GiB, Used:0.00B",
            2.5 * 1024 * GIB,
        ),
    ],
)
def test_units_of_btrfs(text: str, unallocated: float) -> None:
    seen = parse_btrfs_usage(text, "/")
    assert seen is not None
    assert seen.unallocated_bytes == unallocated


def test_metadata_of_two_profiles_is_added_up() -> None:
    text = (
        "Device unallocated: 1GiB\nMetadata,single: Size:1GiB, Used:1GiB\n"
        "Metadata,RAID1: Size:3GiB, Used:1GiB\n"
    )
    seen = parse_btrfs_usage(text, "/")
    assert seen is not None
    assert seen.metadata_used_share == 0.5


@given(st.text(max_size=200))
def test_any_output_of_programs(text: str) -> None:
    assert parse_btrfs_usage(text, "/") is None
    assert isinstance(parse_lvs(text), tuple)


def test_thin_pools() -> None:
    table = LVS.format(data="12.29", meta="1.00") + "  [lvol0_pmspare] pve ewi------- 8.10g\n"
    assert parse_lvs(table) == (ThinPool(name="pve/data", data_share=0.1229, metadata_share=0.01),)


@pytest.mark.parametrize("share", ["-1", "101", "nan", "inf", "x"])
def test_thin_pools_that_lie(share: str) -> None:
    assert parse_lvs(LVS.format(data=share, meta="1.00")) == ()


def test_a_refusal_of_lvs_is_a_gap(node: Node) -> None:
    refused = (
        "  WARNING: Running as a non-root user. Functionality may be unavailable.\n"
        "  /run/lock/lvm/P_global:aux: open failed: Permission denied\n"
    )
    made = tree([MAPPED]) | {"cmd/lvs.txt": refused, "cmd/lvs.rc": "5"}
    facts, gaps = disk(node, made)
    assert facts.thin_pools == ()
    assert (gaps[-1].field, gaps[-1].reason) == ("thin_pools", Reason.DENIED)


def test_lvs_is_missed_only_where_volumes_are_mapped(node: Node) -> None:
    assert "thin_pools" not in {gap.field for gap in disk(node, tree([ROOT]))[1]}


def test_lvs_is_missed_where_a_volume_is_mapped(node: Node) -> None:
    assert "thin_pools" in {gap.field for gap in disk(node, tree([MAPPED]))[1]}


def test_lvs_is_missed_where_the_kernel_has_a_pool(node: Node) -> None:
    made = tree([ROOT]) | {"sys/block/dm-3/dm/uuid": "LVM-abc-tpool\n", "sys/block/sda/size": "1"}
    assert "thin_pools" in {gap.field for gap in disk(node, made)[1]}


# --- live


def test_the_live_node_agrees_with_df(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", f"{tmp_path}/history.db")
    reader = Reader(LiveHost(), "disk")
    facts = probe(reader)
    df = reader.command(("df", "-k", "--output=source,target,size"), None, 20.0)
    assert df is not None
    listed = {
        tuple(line.split()[1:3]) for line in df.text.splitlines()[1:] if len(line.split()) == 3
    }
    known = [s for s in facts.filesystems if s.total_bytes is not None]
    for system in known:
        assert (system.mount, str((system.total_bytes or 0) // 1024)) in listed


@pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse")
def test_a_mount_that_hangs_is_named_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "hung"
    monkeypatch.setenv("NODECHECK_HISTORY", f"{tmp_path}/state/history.db")
    healthy = probe(Reader(LiveHost(), "disk"))
    with hanging_mount(place):
        reader = Reader(LiveHost(), "disk")
        facts = probe(reader)
    assert [s.mount for s in facts.filesystems if s.hung] == [str(place)]
    known = {s.mount for s in facts.filesystems if s.available_bytes is not None}
    assert known == {s.mount for s in healthy.filesystems if s.available_bytes is not None}
    assert [gap.reason for gap in reader.gaps] == [Reason.TIMEOUT]
