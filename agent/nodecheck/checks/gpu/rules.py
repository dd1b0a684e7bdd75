"""The findings on accelerators and their driver, by what they look at."""

from __future__ import annotations

from nodecheck.checks.gpu import (
    clock_rules,
    driver_rules,
    health_rules,
    presence_rules,
    setting_rules,
    throttle_rules,
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
    Rule("gpu.unresponsive", "The driver does not answer", driver_rules.judge_unresponsive),
    Rule("gpu.driver_mismatch", "Library and module differ", driver_rules.judge_driver_mismatch),
    Rule(
        "gpu.container_lost_devices",
        "A container lost its GPUs",
        driver_rules.judge_container_lost_devices,
    ),
    Rule("gpu.nvml_failed", "The driver refuses to work", driver_rules.judge_nvml_failed),
    Rule("gpu.remap_failure", "GPU memory beyond repair", health_rules.judge_remap_failure),
    Rule("gpu.remap_pending", "GPU memory waits for a reset", health_rules.judge_remap_pending),
    Rule("gpu.xid", "Events of the NVIDIA driver", health_rules.judge_xid),
    Rule("gpu.ecc_uncorrectable", "Uncorrectable GPU memory errors", health_rules.judge_ecc),
    Rule("gpu.hw_power_brake_slowdown", "Power brake", throttle_rules.judge_power_brake),
    Rule("gpu.hw_thermal_slowdown", "Hardware thermal slowdown", throttle_rules.judge_hw_thermal),
    Rule("gpu.sw_thermal_slowdown", "Software thermal slowdown", throttle_rules.judge_sw_thermal),
    Rule("gpu.sw_power_cap", "At the power limit", throttle_rules.judge_power_cap),
    Rule("gpu.power_limit_lowered", "Power limit below default", throttle_rules.judge_power_limit),
    Rule("gpu.pstate_stuck", "Busy in an idle P-state", clock_rules.judge_pstate),
    Rule("gpu.clocks_low_under_load", "Low clock under load", clock_rules.judge_clocks),
    Rule("gpu.mig", "MIG is enabled", setting_rules.judge_mig),
    Rule("gpu.persistence_off", "Persistence mode is off", setting_rules.judge_persistence),
    Rule("gpu.unified_memory", "GPU without memory of its own", setting_rules.judge_unified_memory),
    Rule("gpu.memory_in_use", "GPU memory held by others", setting_rules.judge_memory_in_use),
)
