"""The findings on accelerators and their driver, by what they look at."""

from __future__ import annotations

from nodecheck.checks.gpu import (
    arch_rules,
    clock_rules,
    count_rules,
    driver_rules,
    likeness_rules,
    memory_rules,
    nvlink_rules,
    presence_rules,
    setting_rules,
    throttle_rules,
    xid_rules,
)
from nodecheck.checks.seen import Rule

RULES: tuple[Rule, ...] = (
    Rule("gpu.lost", "A GPU fell off the bus", presence_rules.judge_lost),
    Rule(
        "gpu.driver_missing", "NVIDIA cards without a driver", presence_rules.judge_driver_missing
    ),
    Rule(
        "gpu.not_granted", "A card of another container or guest", presence_rules.judge_not_granted
    ),
    Rule(
        "gpu.device_denied", "This user may not open the cards", presence_rules.judge_device_denied
    ),
    Rule("gpu.count_low", "Fewer cards than there should be", count_rules.judge_count),
    Rule("gpu.unresponsive", "The driver does not answer", driver_rules.judge_unresponsive),
    Rule("gpu.driver_mismatch", "Library and module differ", driver_rules.judge_driver_mismatch),
    Rule(
        "gpu.container_lost_devices",
        "A container lost its GPUs",
        driver_rules.judge_container_lost_devices,
    ),
    Rule("gpu.nvml_failed", "The driver refuses to work", driver_rules.judge_nvml_failed),
    Rule("gpu.fabric_not_ready", "The NVSwitch fabric is not ready", nvlink_rules.judge_fabric),
    Rule("gpu.nvlink_down", "An NVLink is down", nvlink_rules.judge_nvlink),
    Rule("gpu.remap_failure", "GPU memory beyond repair", memory_rules.judge_remap_failure),
    Rule("gpu.remap_pending", "GPU memory waits for a reset", memory_rules.judge_remap_pending),
    Rule("gpu.xid", "Events of the NVIDIA driver", xid_rules.judge_xid),
    Rule("gpu.ecc_uncorrectable", "Uncorrectable GPU memory errors", memory_rules.judge_ecc),
    Rule("gpu.hw_power_brake_slowdown", "Power brake", throttle_rules.judge_power_brake),
    Rule("gpu.hw_thermal_slowdown", "Hardware thermal slowdown", throttle_rules.judge_hw_thermal),
    Rule("gpu.sw_thermal_slowdown", "Software thermal slowdown", throttle_rules.judge_sw_thermal),
    Rule("gpu.sw_power_cap", "At the power limit", throttle_rules.judge_power_cap),
    Rule("gpu.power_limit_lowered", "Power limit below default", throttle_rules.judge_power_limit),
    Rule("gpu.pstate_stuck", "Busy in an idle P-state", clock_rules.judge_pstate),
    Rule("gpu.clocks_low_under_load", "Low clock under load", clock_rules.judge_clocks),
    Rule("gpu.arch_unsupported", "No code for the card's generation", arch_rules.judge_arch),
    Rule("gpu.cards_differ", "Cards of one model that differ", likeness_rules.judge_likeness),
    Rule("gpu.mig", "MIG is enabled", setting_rules.judge_mig),
    Rule("gpu.persistence_off", "Persistence mode is off", setting_rules.judge_persistence),
    Rule("gpu.unified_memory", "GPU without memory of its own", setting_rules.judge_unified_memory),
    Rule("gpu.memory_in_use", "GPU memory held by others", setting_rules.judge_memory_in_use),
)
