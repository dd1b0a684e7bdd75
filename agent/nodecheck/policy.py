"""Thresholds and waivers: each threshold has one home here, a name, a reason and a source.

A policy file (TOML) may set any of them. Reading the file is the caller's; this module is pure.
"""

from __future__ import annotations

import datetime
import re
import sys
import zlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nodecheck.model import Finding, Struct
from nodecheck.quantities import (
    LARGEST_SIZE,
    QuantityError,
    parse_link,
    parse_rate,
    parse_size,
    parse_span,
    write_rate,
    write_size,
    write_span,
)
from nodecheck.units import GIB, MIB
from nodecheck.words import near


class PolicyError(ValueError):
    """A policy that cannot be used; the message is one line."""


Bytes = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Words = Annotated[str, Meta(pattern=r"\S")]


class Thresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes (a policy file may write "10GiB"), shares 0 to 1."""

    model_min_bytes: Bytes = 10 * GIB
    """Less than this holds no useful model. Source: a 7B model at 4 bits with its tokenizer and a
    partial download."""
    headroom_info_bytes: Bytes = 100 * GIB
    """Below this the largest model that fits is worth telling. Source: a 70B model at 8 bits and
    its conversion."""
    headroom_copies: Amount = 2
    """Copies of a model that a disk should hold: a conversion keeps the source beside the result.
    Source: ollama#6628, no space with 64 GB free."""
    disk_full_share: Share = 0.99
    """A file system as full as this fails its writers. Source: as df prints it; the last percent
    goes within minutes."""
    disk_low_share: Share = 0.90
    """Used share from which a disk is low. Source: kubelet evicts at nodefs.available < 10 %."""
    disk_large_bytes: Bytes = 256 * GIB
    """A disk with this much available is not low, whatever its percentage. Source: several large
    models."""
    image_disk_low_share: Share = 0.85
    """Used share from which kubelet evicts by the image file system. Source: imagefs.available < 15
    %."""
    inodes_warning_share: Share = 0.95
    """Used share of inodes. Source: kubelet evicts at nodefs.inodesFree < 5 %."""
    inodes_critical_share: Share = 0.99
    """Used share of inodes at which files can hardly be made. Source: nodecheck's own judgement."""
    tmp_full_share: Share = 0.95
    """Used share of a tmpfs at /tmp from which downloads fail. Source: ollama#7012."""
    shm_min_bytes: Bytes = 256 * MIB
    """Smallest /dev/shm for one process that shares tensors. Source: NCCL and PyTorch workers fail
    at Docker's 64 MiB (vllm#1710)."""
    btrfs_unallocated_min_bytes: Bytes = GIB
    """btrfs allocates chunks of 1 GiB: below it, it may report no space. Source: Zygo/bees#292."""
    btrfs_metadata_share: Share = 0.80
    """Used share of allocated metadata from which a new chunk is soon needed. Source: nodecheck's
    own judgement."""
    thin_pool_warning_share: Share = 0.85
    """Used share of a thin pool's data or metadata to look at. Source: nodecheck's own
    judgement."""
    thin_pool_critical_share: Share = 0.95
    """Used share of a thin pool from which writes are about to fail. Source: nodecheck's own
    judgement."""
    throttled_critical_share: Share = 0.10
    """Share of scheduler periods throttled that shows a quota to bite. Source: 68 % cost 45x in
    ollama#17916."""
    throttled_periods_min: Count = 10
    """Fewest scheduler periods on a live node that tell a quota that bites from the start of this
    program. Source: 1 s of CPU demand at the kernel's period of 0.1 s."""
    refaults_per_second_min: Amount = 1000
    """Pages read again (4 MB/s) from which memory is too small for what runs: one container at its
    limit stays below. Source: weights that do not fit come back at 100 MB/s and more."""
    steal_warning_share: Share = 0.10
    """Steal between two samples that slows an engine measurably. Source: nodecheck's own
    judgement."""
    physical_cores_min: Count = 2
    """Fewest physical cores that an engine and its tokenizer can share. Source: vLLM
    documentation."""
    cores_beside_gpus: Count = 2
    """CPUs that an engine wants beside one a GPU. Source: vLLM documentation."""
    clock_gettime_max_seconds: Amount = 1e-6
    """A clock read through the vDSO takes tens of nanoseconds; above this it is a system call.
    Source: nodecheck's own judgement."""
    low_frequency_share: Share = 0.60
    """Current over maximum frequency under load below which something holds the clocks. Source:
    koboldcpp#318, 1.40 of 3.6 GHz."""
    busy_cpu_load: Amount = 0.5
    """Load per CPU from which frequencies are those under load. Source: nodecheck's own
    judgement."""
    odd_packages: Count = 8
    """As many packages of one core each are a hypervisor's default topology, not sockets. Source:
    nodecheck's own judgement."""
    memory_limit_share: Share = 0.95
    """A cgroup limit below this share of MemTotal is a limit. Source: nodecheck's own judgement."""
    swap_used_share: Share = 0.25
    """Used share of swap that shows memory to be short. Source: nodecheck's own judgement."""
    hugepages_idle_share: Share = 0.25
    """Share of MemTotal in free huge pages that MemAvailable does not count. Source:
    sglang#34972."""
    full_stall_share: Share = 0.10
    """PSI memory full avg10 that shows sustained thrashing. Source: nodecheck's own judgement."""
    correctable_errors_warning: Count = 10
    """Corrected memory errors that tell a failing DIMM from a stray bit. Source: nodecheck's own
    judgement."""
    bandwidth_gain_min: Amount = 0.10
    """Gain of the last thread step below which memory is saturated. Source: nodecheck's own
    judgement."""
    compute_bound_factor_min: Amount = 3
    """Times that memory delivers what decode can use up, from which instructions are what holds a
    node back. Source: 1.6 to 2.5 measured with AVX2 on one or two cores, 17 to 30 without SSSE3."""
    floor_known_fraction: Share = 0.5
    """Part of the floor below which low bandwidth is critical. Source: nodecheck's own
    judgement."""
    busy_gpu_share: Share = 0.50
    """Utilisation from which a GPU is busy. Source: nodecheck's own judgement."""
    loaded_gpu_share: Share = 0.90
    """Utilisation from which clocks must be near their maximum. Source: nodecheck's own
    judgement."""
    low_sm_clock_share: Share = 0.75
    """SM clock over its maximum below which a loaded GPU runs low. Source: nodecheck's own
    judgement."""
    power_limit_info_share: Share = 0.90
    """Power limit over its default that counts as lowered. Source: nodecheck's own judgement."""
    power_limit_warning_share: Share = 0.75
    """Power limit over its default that is a warning while the cap is active. Source: nodecheck's
    own judgement."""
    stuck_performance_state: Count = 5
    """A busy GPU in this P-state or a slower one is stuck. Source: P2 is normal for CUDA on
    GeForce, P8 is idle."""
    loaded_performance_state: Count = 4
    """Slowest P-state in which the link speed is that under load. Source: nodecheck's own
    judgement."""
    guest_width_min: Count = 8
    """Lanes that cloud guests get by design on T4, A10G, L4 and L40S. Source: DCGM minimum
    widths."""
    port_width_info_min: Count = 4
    """Lanes of a port from which a narrow slot is wiring and not worth a warning. Source: x4 and
    x16 decode alike on one card (exllama#164)."""
    wider_siblings_min: Count = 4
    """Cards of the same model with more lanes, and most of them all, from which a narrow slot is
    the odd one and not the board's design. Source: boards with mixed slots have up to four."""
    usable_tokens_per_second: Amount = 5.0
    """Decode rate that a reader does not wait for: about 250 words a minute. Source: nodecheck's
    own judgement."""
    vram_overhead_bytes: Bytes = GIB
    """VRAM that an engine takes beside weights and cache. Source: llama.cpp leaves 1 GiB a
    device."""
    context_tokens: Count = 8192
    """Context whose cache must fit beside the weights. Source: nodecheck's own judgement."""
    host_pool_tokens: Count = 10_000
    """Tokens whose return from a host cache pool is timed. Source: nodecheck's own judgement."""
    host_pool_reserve_bytes: Bytes = 10 * GIB
    """RAM that SGLang leaves free beside its host pool (hicache). Source: SGLang 0.5.23,
    mem_cache/pool_host/base.py."""
    host_pool_min_bytes_per_second: Amount = 1e9
    """Above this, fetching a prefix from RAM beats computing it again: 10k tokens of an 8B model
    take 1.5 s at 1 GB/s against 1.8 s of prefill. Source: nodecheck's own judgement."""
    power_at_limit_share: Share = 0.95
    """A GPU that draws this share of its power limit is held by it, whether or not the reason was
    read. Source: nodecheck's own judgement."""
    gpu_memory_idle_bytes: Bytes = GIB
    """GPU memory in use above this is another program's. Source: a CUDA context holds 200 to 600
    MB, a desktop some hundred."""
    busy_node_share: Share = 0.50
    """Busy share of all CPUs from which the node is serving and kernels are left out. Source:
    nodecheck's own judgement."""
    nvlink_speed_share: Share = 0.95
    """NVLinks slower than this share of the fastest of their model are slow. Source: links of one
    model run at one speed (H100 26.562, B200 53.125 GB/s)."""
    retired_pages_max: Count = 63
    """Retired pages at which a card before Ampere is replaced. Source: DCGM fails at 63; a card can
    retire 64."""
    low_memory_clock_share: Share = 0.75
    """Memory clock over its maximum below which a loaded GPU's memory runs low. Source: CUDA's P2
    takes 250 MHz off 9751, and 500 off 5005 on the oldest cards."""
    link_rate_share: Share = 0.70
    """Pinned copies over what the trained link carries after encoding, below which it is slow.
    Source: 0.78 to 0.88 on healthy Gen3 to Gen5 links (nvbandwidth, p2pBandwidth)."""
    shared_uplink_share: Share = 0.75
    """Rate of a card while all copy over its rate alone, below which they hold one another back.
    Source: nodecheck's own judgement."""
    vram_rate_share: Share = 0.55
    """Bytes read and written by copies on a card over its memory's rate, below which the memory is
    slow. Source: DCGM's minima are 0.57 to 0.66 of it; 0.77 to 0.91 were measured."""
    replays_per_minute_per_gts: Amount = 0.06
    """Errors that a healthy PCIe lane has a minute, for each GT/s that it runs at. Source: DCGM's
    expected replays, 0.96 for a lane of Gen4."""
    link_errors_chance: Share = 1e-6
    """Chance of as many errors on a healthy link, below which a link is not healthy. Source:
    nodecheck's own judgement: once in two years of a report a minute."""


class ReferenceWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that strategies are judged for where the user names none."""

    name: str = "27B dense, 4-bit"
    weights_bytes: Annotated[int, Meta(gt=0)] = round(16.3 * GIB)
    """Bytes of all weights. Source: a 27B model at Q4_K_XL."""
    layers: Annotated[int, Meta(gt=0)] = 64
    """Transformer blocks."""
    weight_type: Literal["q4_0", "q4_k", "q8_0", "f16"] = "q4_k"
    kv_bytes_per_token: Bytes = 65536
    """Attention cache of a token. Source: 16 attention layers x 4 heads x 2 x 256 x 2 bytes."""


class Waiver(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding to live with: on one subject or on any; to the end of a day (UTC) or for good."""

    id: str
    reason: Words
    subject: Words | None = None
    expires: datetime.date | None = None

    def holds(self, day: datetime.date) -> bool:
        """Whether it waives on that day still."""
        return self.expires is None or day <= self.expires

    def covers(self, finding: Finding) -> bool:
        """Whether it is of this finding, on its subject or on any."""
        return self.id == finding.id and self.subject in (None, finding.subject)


class Requirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node must have to pass the gate; what is None or empty is not asked for."""

    instruction_sets: tuple[str, ...] = ()
    """By the names of /proc/cpuinfo: avx2, fma, ..."""
    dram_read_bytes_per_second: Amount | None = None
    """Least that memory must deliver, read on as many threads as do it best."""
    disk_free_bytes: Bytes | None = None
    """Least that must be available on the roomiest file system that keeps files."""
    gpus: Count | None = None
    """Fewest GPUs that this node may use."""
    pcie: str | None = None
    """Least link of every GPU, as gen4x16: the generation that it can train to, its width now."""


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the history is kept: what exceeds either goes, the oldest first."""

    age_seconds: Annotated[int, Meta(gt=0)] = 400 * 86_400
    """Source: a year, and what is needed to compare with the same month of the last."""
    size_bytes: Annotated[int, Meta(ge=MIB)] = 2 * GIB
    """Source: a year of a snapshot a minute, at 4 KB each."""


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node is held against. Without a `required` subject the verdict is unknown."""

    name: Words = "default"
    required: tuple[str, ...] = ("cpu", "memory", "disk")
    requirements: Requirements = Requirements()
    thresholds: Thresholds = Thresholds()
    reference_workload: ReferenceWorkload = ReferenceWorkload()
    waivers: tuple[Waiver, ...] = ()
    retention: Retention = Retention()

    def singled_out(self, id_: str) -> frozenset[str]:
        """The subjects that waivers of a finding name: each gets a finding of its own."""
        return frozenset(w.subject for w in self.waivers if w.id == id_ and w.subject)

    @property
    def label(self) -> str:
        """Its name, and a checksum of all of it that bears on a report."""
        judging = (
            self.required,
            self.thresholds,
            self.reference_workload,
            self.waivers,
            self.requirements.gpus,
        )
        return f"{self.name} ({zlib.crc32(msgspec.json.encode(judging)):08x})"


def parse_policy(toml: str, name: str) -> Policy:
    """The policy of a TOML text; `name`, its file, is for messages. Raises PolicyError."""
    try:
        content = _load_toml(toml)
        content.setdefault("name", name)
        return msgspec.convert(_in_numbers(content), Policy)
    except RecursionError as error:
        raise PolicyError(f"{name}: nested too deeply") from error
    except msgspec.ValidationError as error:
        raise PolicyError(f"{name}: {_plainly(str(error))}") from error
    except PolicyError as error:
        raise PolicyError(f"{name}: {error}") from error


_TABLES: dict[str, type[Struct]] = {
    "": Policy,
    "requirements": Requirements,
    "thresholds": Thresholds,
    "reference_workload": ReferenceWorkload,
    "waivers": Waiver,
    "retention": Retention,
}


def _plainly(error: str) -> str:
    """What msgspec says of a member too many or missing, in the words of who wrote the file."""
    match = re.fullmatch(
        r"Object (contains unknown|missing required) field `(.*?)`"
        r"(?: - at `\$\.(\w+)(?:\[(\d+)\])?`)?",
        error,
    )
    if not match or (match[3] or "") not in _TABLES:
        return error
    kind, member, table, number = match.groups(default="")
    place = f"{table} {int(number) + 1}: " if number else f"{table}: " if table else ""
    if kind == "missing required":
        return f"{place}{member} is missing"
    known = _TABLES[table].__struct_fields__
    return f"{place}there is no member {member[:40]!r}{near(member, known)}"


def _load_toml(text: str) -> dict[str, object]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content: dict[str, object] = tomllib.loads(text)
    except ValueError as error:  # also a number of thousands of digits
        raise PolicyError(f"not TOML: {str(error)[:200]}") from error
    return content


_QUANTITIES: dict[str, tuple[Callable[[str], float], Callable[[Any], str]]] = {
    "_bytes_per_second": (parse_rate, write_rate),
    "_bytes": (parse_size, write_size),
    "_seconds": (parse_span, write_span),
}
"""How the text of a member is read and written, by the end of its name."""


def in_units(name: str, value: object) -> str:
    """A member's value as a policy file has it, without quotes: "10GiB", "400d", "0.9"."""
    for end, (_, write) in _QUANTITIES.items():
        if name.endswith(end) and isinstance(value, (int, float)) and value == round(value):
            return write(value)
    return str(value)


def _in_numbers(content: object) -> object:
    """A copy in which every member that is a quantity in text has become a number."""
    if isinstance(content, list):
        return [_in_numbers(item) for item in content]
    if not isinstance(content, dict):
        return content
    return {key: _member(key, value) for key, value in content.items()}


def _member(key: str, value: object) -> object:
    try:
        return _number(key, value) if isinstance(value, str) else _in_numbers(_sane(key, value))
    except QuantityError as error:
        raise PolicyError(f"{key}: {error}") from error


def _number(key: str, text: str) -> object:
    if key == "pcie":
        parse_link(text)
    if key == "expires":
        raise QuantityError(f"{text[:40]!r} is text; write the date without quotes: 2027-06-30")
    parse = next((parse for end, (parse, _) in _QUANTITIES.items() if key.endswith(end)), str)
    return parse(text)


def _sane(key: str, value: object) -> object:
    """The value, if it is one that arithmetic can take, and a date where one is due."""
    if isinstance(value, (int, float)) and not -LARGEST_SIZE <= value <= LARGEST_SIZE:
        raise QuantityError("is no number that can be meant")
    if key == "expires" and type(value) is not datetime.date:
        raise QuantityError("is no date; write it as 2027-06-30, without a time")
    return value
