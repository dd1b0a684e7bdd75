"""The rules on RAM: capacity, pressure, modules."""

from __future__ import annotations

from nodecheck.checks.memory import capacity, hardware, pressure
from nodecheck.checks.seen import Rule

RULES: tuple[Rule, ...] = (
    Rule("mem.insufficient", "The named model does not fit into memory", capacity.insufficient),
    Rule("mem.hugepages_reserved", "Idle huge pages hold memory", capacity.hugepages_reserved),
    Rule("mem.cache_thrash", "Files are read from disk again and again", pressure.cache_thrash),
    Rule("mem.swap_active", "Memory is swapped", pressure.swap_active),
    Rule("mem.thp", "No free block is as large as a huge page", pressure.thp),
    Rule("mem.ecc_correctable", "Memory errors were corrected", hardware.ecc_correctable),
    Rule("mem.ecc_uncorrectable", "Memory errors lost data", hardware.ecc_uncorrectable),
    Rule("mem.channels", "A memory channel holds no module", hardware.channels),
    Rule("mem.side_cache", "DRAM is a cache before slower memory", hardware.side_cache),
)
