"""Thresholds of all rules: each has one home here, a name, a reason and a source."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from nodecheck.model import Struct
from nodecheck.units import GIB, MIB

Bytes = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]


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
    engine_idle_cpus: Amount = 0.05
    """CPUs below which a watched engine does nothing that can be judged. Source: nodecheck's
    own judgement; servers without a request use a hundredth of one, unless they spin."""
    engine_idle_card_share: Share = 0.05
    """Load below which a card does nothing. Source: nodecheck's own judgement; desktops and
    monitoring leave a trace."""
    engine_burning_cpus: Amount = 0.5
    """CPUs from which an engine computes there. Source: nodecheck's own judgement; an API server
    without a burst uses less."""
    engine_computing_share: Share = 0.25
    """Part of the window for which a thread runs or wants to, from which it computes. Source:
    nodecheck's own judgement; threads that serve requests or wait for a lock stay below."""
    engine_waited_share: Share = 0.15
    """Part of the window for which a computing thread waited for a CPU, from which too many want
    one. Source: nodecheck's own judgement, 1.2x; kernel threads take a few percent."""
    engine_throttled_share: Share = 0.20
    """Share of the window's periods in which a quota stopped an engine. Source: 68 % cost 45x in
    ollama#17916; a burst of a prompt stays below."""
    engine_stalled_share: Share = 0.90
    """Part of the time that its threads wanted a CPU and had none, from which an engine makes next
    to no progress. Source: nodecheck's own judgement, a tenth of the speed at best."""
    engine_token_seconds_max: Amount = 10
    """Seconds of reading from disk for each pass over the weights, from which an engine makes next
    to no progress. Source: nodecheck's own judgement; nobody waits so long for a word."""
    engine_major_faults_per_second_min: Amount = 10
    """Page faults that waited for the disk, from which an engine waits for it whatever it maps.
    Source: nodecheck's own judgement; read-ahead hides most, 1 a second was left at 109 MB/s."""
    engine_read_bytes_per_second_min: Amount = 4e6
    """Bytes from storage from which an engine waits for weights. Source: as many as
    refaults_per_second_min; the slowest disk gives more."""
    engine_refault_share: Share = 0.5
    """Part of what it reads that was in memory before, from which the reads are the same again.
    Source: 1.04 with a file of twice its control group's memory, 0.00 when it was read first."""
    engine_reread_factor: Amount = 1.3
    """Times the size of its model files that an engine has read, from which it does not load them
    any more, and, where the kernel tells no refaults, reads them again. Source: a load reads them
    once, and libraries."""
    engine_swapped_share: Share = 0.10
    """Part of an engine's memory in swap from which its disk reads are that. Source: nodecheck's
    own judgement; libraries that were never used are a few percent."""
    engine_remote_share: Share = 0.5
    """Part of a process's memory on NUMA nodes where it does not run, from which the memory is
    remote. Source: memory interleaved over two nodes has half there on purpose."""
    engine_remote_bytes_min: Bytes = GIB
    """Memory below which it does not matter where it lies. Source: nodecheck's own judgement; no
    model is smaller."""
    engine_context_share: Share = 0.10
    """GPU memory over the model's size below which a process has a context there and no weights.
    Source: a CUDA context holds 200 to 600 MB."""
    engine_resident_share: Share = 0.90
    """GPU memory over the model's size from which its weights lie there. Source: cache and context
    come on top of them; the embedding stays in RAM."""
    engine_card_bytes_min: Bytes = 4 * GIB
    """A smaller card is not missed by an engine that computes on the CPU. Source: nodecheck's own
    judgement; display adapters have 2 GB."""
    engine_starved_wait_share: Share = 0.20
    """Part of the window for which the thread that feeds a card waited for a CPU. Source:
    nodecheck's own judgement; a quarter more time for each token."""
