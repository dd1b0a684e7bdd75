from __future__ import annotations

import pytest

from nodecheck.checks.disk.facts import Btrfs, DiskFacts, Filesystem, ThinPool
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.model import Action
from nodecheck.policy import Policy
from nodecheck.serving import Workload
from nodecheck.thresholds import Thresholds
from nodecheck.workload.numbers import from_numbers
from tests.checks.disk.examples import HEALTHY, RAISES
from tests.checks.disk.table import GIB, ROOT, Node, disk, findings, raised, seen, sizes, tree
from tests.trees import Tree


def system(
    mount: str, total: float, free: float, used: float | None = None, **more: object
) -> Filesystem:
    share = 1 - free / total if used is None else used
    return Filesystem(
        mount=mount,
        fstype=str(more.pop("fstype", "ext4")),
        device=str(more.pop("device", "/dev/vda1")),
        device_number="8:1",
        persistent=bool(more.pop("persistent", True)),
        total_bytes=round(total * GIB),
        available_bytes=round(free * GIB),
        used_share=share,
        **more,  # type: ignore[arg-type]
    )


def disks(*systems: Filesystem, **more: object) -> DiskFacts:
    return DiskFacts(filesystems=systems, **more)  # type: ignore[arg-type]


def model(gib: float) -> Workload:
    return from_numbers(
        "a model", round(gib * GIB), layers=32, weight_type="q4_k", kv_bytes_per_token=1
    )


@pytest.mark.parametrize("id_", sorted(RAISES))
def test_the_examples_raise_what_they_say_and_little_else(id_: str, node: Node) -> None:
    example = RAISES[id_]
    assert isinstance(example, dict)
    assert set(raised(seen(disk(node, example)[0]))) == {id_}


def test_a_healthy_node_raises_nothing(node: Node) -> None:
    assert raised(seen(disk(node, HEALTHY)[0])) == {}


def test_nothing_known_raises_nothing() -> None:
    unknown = Filesystem(
        mount="/", fstype="ext4", device="/dev/vda1", device_number="8:1", persistent=True
    )
    for facts in (DiskFacts(), disks(unknown)):
        assert raised(seen(facts)) == {}
        assert raised(seen(facts, workload=model(10), gpus=2)) == {}


# --- disk.low


def test_the_headline(node: Node) -> None:
    facts, _ = disk(node, tree([ROOT], {"/": sizes(950, 57)}))
    low = findings(seen(facts))["disk.low"]
    assert low.summary == "57 GiB free of 950 GiB (94 % used) on /"
    assert low.severity.value == "warning"
    assert "57 GiB" in low.impact
    assert low.evidence[0].source == "statvfs /"
    assert low.evidence[0].expected == "under 90 % used"


def test_free_and_used_add_up_where_much_is_reserved() -> None:
    reserved = system("/", 252, 78, used=0.23, free_bytes=228 * GIB)
    policy = Policy(thresholds=Thresholds(disk_low_share=0.2))
    low = findings(Seen(facts=Facts(disk=disks(reserved)), policy=policy))
    text = "78 GiB free of 252 GiB (23 % used, 150 GiB are reserved) on /"
    assert low["disk.low"].summary == text
    assert low["disk.low"].evidence[0].value == "f_bavail 78 GiB, used 24 GiB of 252 GiB"


def test_what_is_reserved_on_ext4_by_default_is_too_little_to_tell() -> None:
    usual = system("/", 100, 3, free_bytes=8 * GIB)
    assert "reserved" not in findings(seen(disks(usual)))["disk.low"].summary


def test_too_little_for_a_model_says_how_much_that_is() -> None:
    low = findings(seen(disks(system("/", 100, 9))))["disk.low"]
    assert "less than 10 GiB, the least that a useful model takes" in low.summary
    assert "about 3 times its size" in low.impact


def test_the_headline_counts_models() -> None:
    low = findings(seen(disks(system("/", 950, 57)), workload=model(16.3)))["disk.low"]
    assert low.impact == "It holds this model three times over"


@pytest.mark.parametrize(
    ("gib", "words"),
    [
        (60, "does not hold this model"),
        (57, "holds this model once"),
        (20, "holds this model twice"),
        (10, "holds this model 5 times over"),
    ],
)
def test_how_often_a_model_fits(gib: float, words: str) -> None:
    low = findings(seen(disks(system("/", 950, 57)), workload=model(gib)))["disk.low"]
    assert words in low.impact


def test_units_are_told_where_they_differ() -> None:
    low = findings(seen(disks(system("/", 8, 0.5))))["disk.low"]
    assert low.summary.startswith("512 MiB free of 8 GiB (94 % used) on /")


def test_the_reserve_is_not_free_and_percent_is_dfs(node: Node) -> None:
    facts, _ = disk(node, tree([ROOT], {"/": sizes(231.5, 9.8, reserved=11.8)}))
    low = findings(seen(facts))["disk.low"]
    assert low.severity.value == "critical"
    assert "(96 % used)" in low.summary


@pytest.mark.parametrize(
    ("total", "free", "severity"),
    [
        (8, 4, "critical"),  # no useful model fits, at any percentage
        (100, 10, "warning"),
        (100, 11, None),
        (1000, 99, "warning"),
        (4000, 255, "warning"),
        (4000, 257, None),  # a large disk is not low
        (40_000, 399, "critical"),  # but full is full
        (274, 64, None),
    ],
)
def test_when_a_disk_is_low(total: float, free: float, severity: str | None) -> None:
    assert raised(seen(disks(system("/", total, free)))).get("disk.low") == severity


def test_one_roomy_disk_is_enough_for_models() -> None:
    facts = disks(system("/", 16, 8), system("/models", 4000, 3000))
    assert raised(seen(facts)) == {}


def test_what_cannot_keep_a_model_is_not_judged() -> None:
    facts = disks(system("/boot", 1, 0.001, persistent=False), system("/", 1000, 500))
    assert raised(seen(facts)) == {}


def test_several_low_disks_are_one_finding_with_the_worst_severity() -> None:
    facts = disks(*(system(f"/d{n}", 100, 9 + n / 10) for n in range(9)), system("/full", 100, 0.1))
    low = findings(seen(facts))["disk.low"]
    assert low.severity.value == "critical"
    assert len(low.evidence) == 7
    assert low.evidence[0].source == "statvfs /full"
    assert low.evidence[-1].value == "and 4 more"


@pytest.mark.parametrize(
    ("kubelet", "images", "used", "severity"),
    [
        ((), (), 0.91, None),
        (("/",), (), 0.91, "warning"),
        (("/",), (), 0.87, None),
        (("/", "/img"), ("/img",), 0.87, "warning"),
        (("/", "/img"), ("/img",), 0.84, None),
    ],
)
def test_kubelet_evicts_whatever_the_size(
    kubelet: tuple[str, ...], images: tuple[str, ...], used: float, severity: str | None
) -> None:
    mount = images[0] if images else "/"
    facts = disks(
        system(mount, 10_000, 10_000 * (1 - used)),
        system("/other", 1000, 900),
        kubelet_mounts=kubelet,
        image_mounts=images,
    )
    found = findings(seen(facts))
    assert {f.severity.value for f in found.values()} == ({severity} if severity else set())
    if severity:
        assert "ubelet" in found["disk.low"].impact


def test_the_remedy_speaks_the_platforms_words() -> None:
    facts = disks(system("/", 950, 57))
    remedies = [findings(seen(facts, platform=p))["disk.low"].remedy for p in ("proxmox", "ec2")]
    assert remedies[0].commands[1].startswith("qm disk resize")
    assert remedies[1].commands[1].startswith("aws ec2 modify-volume")
    assert remedies[0].commands[2] == "sudo resize2fs /dev/vda1"


def test_a_guests_disk_is_not_grown_where_a_server_holds_the_files() -> None:
    facts = disks(system("/models", 950, 57, fstype="nfs4", network=True))
    remedy = findings(seen(facts, platform="proxmox"))["disk.low"].remedy
    assert "server" in remedy.text
    assert len(remedy.commands) == 1


# --- disk.headroom


@pytest.mark.parametrize(("free", "raises"), [(64, True), (10, True), (99, True), (101, False)])
def test_without_a_model_headroom_is_information(free: float, *, raises: bool) -> None:
    found = raised(seen(disks(system("/", free * 4, free))))
    assert found == ({"disk.headroom": "info"} if raises else {})


def test_a_low_disk_is_told_once() -> None:
    assert raised(seen(disks(system("/", 950, 57)))) == {"disk.low": "warning"}


@pytest.mark.parametrize(
    ("gib", "severity"),
    [(20, None), (32, None), (32.1, "warning"), (64, "warning"), (65, "critical")],
)
def test_with_a_model_headroom_is_a_judgement(gib: float, severity: str | None) -> None:
    found = raised(seen(disks(system("/", 274, 64)), workload=model(gib)))
    assert found == ({"disk.headroom": severity} if severity else {})


def test_the_largest_disk_counts() -> None:
    facts = disks(system("/", 100, 20), system("/models", 4000, 2000))
    assert raised(seen(facts, workload=model(900))) == {}


# --- disk.inodes


@pytest.mark.parametrize(
    ("total", "free", "severity"),
    [
        (64, 0, "critical"),
        (1000, 10, "critical"),
        (1000, 50, "warning"),
        (1000, 51, None),
        (0, 0, None),
    ],
)
def test_inodes(total: int, free: int, severity: str | None) -> None:
    facts = disks(system("/", 1000, 500, inodes_total=total, inodes_free=free))
    assert raised(seen(facts)) == ({"disk.inodes": severity} if severity else {})


def test_inodes_name_the_emptiest() -> None:
    facts = disks(
        system("/a", 1000, 500, inodes_total=100, inodes_free=4),
        system("/b", 1000, 500, inodes_total=100, inodes_free=0),
    )
    found = findings(seen(facts))["disk.inodes"]
    assert found.summary == "0 of 100 inodes free on /b"
    assert found.subject == "/b, /a"
    assert "500 GiB free" in found.impact


# --- read-only, hung


def readonly(node: Node, log: tuple[str, ...] = ()) -> Seen:
    lines = ["22 1 7:2 / / rw,relatime - ext4 /dev/loop2 rw,emergency_ro"]
    made: Tree = tree(lines) | {"sys/fs/ext4/loop2/errors_count": "1\n"}
    return seen(disk(node, made)[0], log=KernelLogFacts(source="dmesg", filesystem_errors=log))


def test_a_read_only_file_system_is_proved_three_ways(node: Node) -> None:
    log = (
        "EXT4-fs error (device loop2): ext4_find_entry:1463: comm cat: x",
        "Aborting journal on device loop2-8.",
        "EXT4-fs (loop2): Remounting filesystem read-only",
        "EXT4-fs error (device loop22): comm (loop2): not this device",
    )
    found = findings(readonly(node, log))["disk.readonly_after_error"]
    assert found.severity.value == "critical"
    values = [piece.value for piece in found.evidence]
    assert values[0] == "/ is mounted rw, its file system is emergency_ro"
    assert values[1] == "1 error since the last check"
    assert values[2:] == list(log[:3])


def test_an_error_count_or_a_message_alone_is_no_finding(node: Node) -> None:
    made = tree([ROOT], {"/": sizes(950, 500)}) | {"sys/fs/ext4/vda1/errors_count": "5"}
    log = KernelLogFacts(source="dmesg", filesystem_errors=("EXT4-fs error (device vda1): x",))
    assert raised(seen(disk(node, made)[0], log=log)) == {}


@pytest.mark.parametrize(("mount", "severity"), [("/", "critical"), ("/mnt/models", "warning")])
def test_a_hung_root_is_critical(mount: str, severity: str) -> None:
    hung = Filesystem(
        mount=mount, fstype="nfs4", device="192.0.2.1:/x", device_number="0:9", hung=True
    )
    found = findings(seen(disks(hung)))["disk.unresponsive"]
    assert found.severity.value == severity
    assert mount in found.summary
    assert found.remedy.commands == (f"sudo umount -l {mount}", "rpcinfo -t 192.0.2.1 nfs")


def test_many_hung_mounts_are_one_finding() -> None:
    hung = [
        Filesystem(mount=f"/m{n}", fstype="fuse.x", device="x", device_number=f"0:{n}", hung=True)
        for n in range(40)
    ]
    found = findings(seen(disks(*hung)))["disk.unresponsive"]
    assert found.subject == "/m0, /m1, /m2 and 37 more"
    assert len(found.evidence) == 6


# --- in memory


@pytest.mark.parametrize(
    ("gpus", "severity"), [(0, "warning"), (1, "warning"), (2, "critical"), (8, "critical")]
)
def test_small_shared_memory(gpus: int, severity: str) -> None:
    shm = system("/dev/shm", 0.0625, 0.04, fstype="tmpfs", persistent=False)
    found = findings(seen(disks(shm), gpus=gpus))["disk.shm_small"]
    assert found.severity.value == severity
    assert found.summary.startswith("/dev/shm holds 64 MiB in all")
    assert found.remedy.action is Action.RESTART_CONTAINER


def test_gpus_of_others_do_not_share_our_memory() -> None:
    shm = system("/dev/shm", 0.0625, 0.04, fstype="tmpfs", persistent=False)
    gpus = (Gpu(index=0, granted=True), Gpu(index=1, granted=False))
    what = Seen(facts=Facts(disk=disks(shm), gpus=gpus), policy=Policy())
    assert raised(what) == {"disk.shm_small": "warning"}


@pytest.mark.parametrize("total", [0.25, 60])
def test_shared_memory_that_is_used_is_not_small(total: float) -> None:
    shm = system("/dev/shm", total, 0, fstype="tmpfs", persistent=False)
    assert raised(seen(disks(shm), gpus=8)) == {}


@pytest.mark.parametrize(
    ("mount", "used", "raises"),
    [("/tmp", 0.95, True), ("/var/tmp", 1.0, True), ("/tmp", 0.94, False), ("/run", 1.0, False)],
)
def test_a_full_tmpfs(mount: str, used: float, *, raises: bool) -> None:
    tmp = system(mount, 8, 8 * (1 - used), used, fstype="tmpfs", persistent=False)
    assert raised(seen(disks(tmp))) == ({"disk.tmp_full": "warning"} if raises else {})


# --- btrfs, LVM


@pytest.mark.parametrize(
    ("unallocated", "metadata", "raises"),
    [(0, 0.8, True), (GIB - 1, 0.99, True), (GIB, 0.99, False), (0, 0.79, False)],
)
def test_btrfs_without_chunks(unallocated: int, metadata: float, *, raises: bool) -> None:
    pool = Btrfs(mount="/data", unallocated_bytes=unallocated, metadata_used_share=metadata)
    found = findings(seen(DiskFacts(btrfs=(pool,))))
    assert {f.severity.value for f in found.values()} == ({"critical"} if raises else set())
    if raises:
        assert found["disk.btrfs_unallocated"].remedy.commands[0].endswith("-dusage=0 /data")


@pytest.mark.parametrize(
    ("data", "metadata", "severity"),
    [
        (0.84, 0.1, None),
        (0.85, 0.1, "warning"),
        (0.1, 0.9, "warning"),
        (0.95, 0.1, "critical"),
        (0.1, 0.99, "critical"),
    ],
)
def test_thin_pools(data: float, metadata: float, severity: str | None) -> None:
    pool = ThinPool(name="pve/data", data_share=data, metadata_share=metadata)
    found = findings(seen(DiskFacts(thin_pools=(pool,))))
    assert {f.severity.value for f in found.values()} == ({severity} if severity else set())
    if severity and metadata > data:
        assert found["disk.thin_pool_full"].summary.startswith("The metadata of thin pool pve/data")


# --- every finding


def test_thresholds_are_the_policys() -> None:
    facts = disks(system("/", 950, 57), system("/dev/shm", 1, 1, fstype="tmpfs", persistent=False))
    policy = Policy(
        thresholds=Thresholds(
            disk_large_bytes=GIB, headroom_info_bytes=20 * GIB, shm_min_bytes=2 * GIB
        )
    )
    what = Seen(facts=Facts(disk=facts), policy=policy)
    assert raised(what) == {"disk.shm_small": "warning"}


@pytest.mark.parametrize("id_", sorted(RAISES))
def test_every_finding_says_what_it_costs_and_what_helps(id_: str, node: Node) -> None:
    example = RAISES[id_]
    assert isinstance(example, dict)
    found = findings(seen(disk(node, example)[0]))[id_]
    assert found.evidence
    assert all(piece.source for piece in found.evidence)
    assert found.impact
    assert found.remedy.text
    assert found.subject.startswith(("/", "pve/"))
