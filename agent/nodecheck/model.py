"""The vocabulary of a report: severities, findings with evidence and remedy, gaps, measurements."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec


class Struct(msgspec.Struct, frozen=True):
    """Base of everything that a report holds: immutable. Subclasses take named members only."""


def pretty_json(made: object) -> bytes:
    """One JSON object, indented, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


class Severity(str, Enum):
    """What the operator must do: nothing (info), look (warning), stop the deployment (critical)."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warning, 2 for critical."""
        return list(Severity).index(self)


class Status(str, Enum):
    """The worst severity on a node, or unknown where a required subject was not judged."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class Owner(str, Enum):
    """Who can act on a finding."""

    USER = "user"
    OPERATOR = "operator"
    HYPERVISOR = "hypervisor"
    HARDWARE = "hardware"


class Action(str, Enum):
    """What a remedy does, for machines to act on."""

    RECONFIGURE_VM = "reconfigure_vm"
    COLD_RESTART = "cold_restart"
    REBOOT = "reboot"
    RELOAD_DRIVER = "reload_driver"
    RESET_GPU = "reset_gpu"
    RESEAT = "reseat"
    REPLACE = "replace"
    INSPECT_HARDWARE = "inspect_hardware"
    FREE_DISK = "free_disk"
    RESTART_CONTAINER = "restart_container"
    RESTART_ENGINE = "restart_engine"
    CHANGE_SETTING = "change_setting"
    NONE = "none"


class Reason(str, Enum):
    """Why something is not known."""

    ABSENT = "absent"
    UNSUPPORTED = "unsupported"
    DENIED = "denied"
    TIMEOUT = "timeout"
    FAILED = "failed"


NOT_ASKED = "not asked for (--quick)"
"""Why what wakes or loads the node was left out."""

UNANSWERED = (Reason.FAILED, Reason.TIMEOUT)
"""What should have answered and did not: the rest is not there, or not for us to read."""


class Gap(Struct, frozen=True, kw_only=True):
    """A fact that could not be read. `field` names the member, `*` all of the check's facts."""

    check: str
    field: str
    reason: Reason
    detail: str


class Evidence(Struct, frozen=True, kw_only=True):
    """A value that was seen, where it was read, what was expected and where that comes from."""

    value: str
    source: str
    expected: str | None = None
    basis: str | None = None


class Remedy(Struct, frozen=True, kw_only=True):
    """What to change: prose, commands of the detected platform, what it costs."""

    text: str
    action: Action
    commands: tuple[str, ...] = ()
    cost: str | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """One fault, told once: `id` is `subject.problem` and part of the product's contract.

    `subject` names what is affected (a device, a mount, the CPU). `impact` is a number wherever one
    can be had. `headline` says it shorter than the summary, where that is long. `waived` is the
    reason that a policy gives for living with it.
    """

    id: str
    severity: Severity
    subject: str
    summary: str
    evidence: tuple[Evidence, ...]
    impact: str
    remedy: Remedy
    owner: Owner
    headline: str | None = None
    waived: str | None = None


def faults(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that count, in their order: warning or worse."""
    return tuple(finding for finding in findings if finding.severity is not Severity.INFO)


class Load(Struct, frozen=True, kw_only=True):
    """What else ran while a measurement was taken. Shares are 0 to 1.

    `run_delay_share` is the time that its threads were runnable and did not run, of all their time;
    `pressure_share` the time in which some task of the node waited for a CPU.
    """

    other_cpus_busy_share: float | None = None
    steal_share: float | None = None
    thread_cpu_share_min: float | None = None
    run_delay_share: float | None = None
    pressure_share: float | None = None


class Measurement(Struct, frozen=True, kw_only=True):
    """A rate that was measured, in bytes a second (GB is 10^9 bytes).

    `name` is `dram_` and read, write, copy or triad; `decode_` and a weight type, where the weights
    lie in the cores' own caches; or `decode_dram_` and a weight type, where they come from memory.
    `convention` says which bytes are counted. `flags` holds `contended`, `unsteady`, `bimodal` or
    `undersized`; a figure with any of them is not used for a critical finding.
    `round_trip_seconds` is the slowest that a cache line took between two of its CPUs and back,
    before and after. `cpu_node` and `memory_node` are set where NUMA nodes were told apart.
    """

    name: str
    kernel: str
    threads: int
    median_bytes_per_second: float
    p10_bytes_per_second: float | None = None
    p90_bytes_per_second: float | None = None
    max_bytes_per_second: float | None = None
    passes: int = 0
    convention: str = ""
    flags: tuple[str, ...] = ()
    load: Load | None = None
    round_trip_seconds: tuple[float, float] | None = None
    cpu_node: int | None = None
    memory_node: int | None = None


class Latency(Struct, frozen=True, kw_only=True):
    """How long a load that waits for the one before it takes from memory, in seconds.

    `other_threads` read meanwhile, at `read_bytes_per_second`. The loads are spread at random over
    `spread_bytes`. `flags` are those of a measurement.
    """

    name: str
    other_threads: int
    median_seconds: float
    p10_seconds: float
    p90_seconds: float
    passes: int
    spread_bytes: int
    read_bytes_per_second: float | None = None
    convention: str = ""
    flags: tuple[str, ...] = ()
    load: Load | None = None


class RoundTrip(Struct, frozen=True, kw_only=True):
    """How long a cache line takes from one CPU to another and back: the best of some passes."""

    cpus: tuple[int, int]
    seconds: float


class Transfer(Struct, frozen=True, kw_only=True):
    """A rate at which a GPU's engines copied, in bytes a second (GB is 10^9 bytes).

    `name` is host_to_device or device_to_host (through pinned memory), the same with _pageable,
    peer_to_peer, device_copy (bytes read and bytes written both count) or device_read. `card` and
    `peer` are PCI addresses; a peer copy goes from `card` to `peer`. `cards` is how many copied so
    at once; the rate is this card's own. `link_gts` and `link_width` are those seen meanwhile,
    `replays` what the card counted over all its copies, within `replay_seconds`. `intact` says
    whether the data arrived unchanged, `direct` whether a peer copy went from card to card, or
    through the host's memory. `flags` holds `busy` (other programs used the card) or `unsteady`.
    """

    name: str
    card: str
    peer: str | None = None
    cards: int = 1
    median_bytes_per_second: float
    p10_bytes_per_second: float | None = None
    p90_bytes_per_second: float | None = None
    passes: int = 0
    buffer_bytes: int | None = None
    link_gts: float | None = None
    link_width: int | None = None
    replays: int | None = None
    replay_seconds: float | None = None
    intact: bool | None = None
    direct: bool | None = None
    flags: tuple[str, ...] = ()


class Viability(str, Enum):
    """Whether a way to serve a model is worth trying on this node."""

    VIABLE = "viable"
    MARGINAL = "marginal"
    NOT_VIABLE = "not_viable"
    UNKNOWN = "unknown"


class Point(Struct, frozen=True, kw_only=True):
    """One setting on the curve of a strategy, e.g. `-ngl 50`, with its range.

    `cpu_layers` and `cpu_bytes` are what the setting leaves to the CPU; `fits` says whether the
    VRAM holds the rest.
    """

    setting: str
    low: float | None
    high: float
    cpu_layers: int | None = None
    cpu_bytes: int | None = None
    fits: bool | None = None


class Lever(Struct, frozen=True, kw_only=True):
    """What would move a strategy, and to where.

    `resource` is instruction_set, bandwidth, link, vram, ram, disk or quantisation.
    """

    resource: str
    change: str
    low: float | None = None
    high: float | None = None


class Strategy(Struct, frozen=True, kw_only=True):
    """One way to serve the workload: what it can reach, what limits it, how that was got.

    `low` is None where only a ceiling is known, both where nothing is. `cpu_seconds_per_gb` is what
    each GB of weights on the CPU adds to a token, fastest and slowest. `levers` are what would move
    it, the largest first.
    """

    strategy: str
    viability: Viability
    limit: str
    basis: str
    unit: str
    low: float | None = None
    high: float | None = None
    points: tuple[Point, ...] = ()
    cpu_seconds_per_gb: tuple[float, float] | None = None
    levers: tuple[Lever, ...] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer: a status, one sentence, what is fine, and why the rest is not known."""

    status: Status
    headline: str
    ruled_out: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
