"""What node-problem-detector makes of the configuration of a custom plugin and of its runs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

MEMBERS = {
    "": {"plugin", "pluginConfig", "source", "conditions", "rules", "metricsReporting"},
    "pluginConfig": {
        "invoke_interval", "timeout", "max_output_length", "concurrency",
        "enable_message_change_based_condition_update", "skip_initial_status",
    },
    "conditions": {"type", "reason", "message"},
    "rules": {"type", "condition", "reason", "path", "args", "timeout", "invoke_interval"},
}  # fmt: skip
"""What it reads; the rest it passes over. Source: its pkg/custompluginmonitor/types."""

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}

STATUSES = {0: "False", 1: "True"}
"""Exit status of a permanent rule -> the condition's; anything else is Unknown."""


class ConfigError(Exception):
    """It would not start with this, or would not do what is written there."""


class Shown(NamedTuple):
    """A condition as the API server has it."""

    status: str
    reason: str
    message: str


def seconds(text: str) -> float:
    """A duration as Go writes it."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ConfigError(f"{text!r} is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def read(text: str) -> dict[str, Any]:
    """The configuration, checked as it is when node-problem-detector starts."""
    config: dict[str, Any] = json.loads(text)
    _known("", config)
    _known("pluginConfig", config["pluginConfig"])
    for member in ("conditions", "rules"):
        for each in config[member]:
            _known(member, each)
    if config["plugin"] != "custom":
        raise ConfigError("no custom plugin")
    general = config["pluginConfig"]
    if seconds(general["invoke_interval"]) <= 0:
        raise ConfigError("the interval is not above 0")
    for rule in config["rules"]:
        _check_rule(rule, general, {each["type"] for each in config["conditions"]})
    return config


def _known(member: str, content: dict[str, Any]) -> None:
    if wrong := set(content) - MEMBERS[member]:
        raise ConfigError(f"passed over: {', '.join(sorted(wrong))}")


def _check_rule(rule: dict[str, Any], general: dict[str, Any], conditions: set[str]) -> None:
    if seconds(rule.get("timeout", "0s")) > seconds(general["timeout"]):
        raise ConfigError("the rule's timeout is above the general one")
    if not Path(rule["path"]).exists():
        raise ConfigError(f"{rule['path']} does not exist")
    if rule["type"] == "permanent" and rule.get("condition") not in conditions:
        raise ConfigError(f"{rule.get('condition')} has no default condition")


def run(config: dict[str, Any], *more: str) -> Shown:
    """The condition after one run of the only rule; `more` are arguments of the test's own."""
    (rule,), (default,) = config["rules"], config["conditions"]
    done = subprocess.run(
        [rule["path"], *rule["args"], *more],
        capture_output=True,
        text=True,
        timeout=seconds(rule["timeout"]),
        check=False,
    )
    status = STATUSES.get(done.returncode, "Unknown")
    message = done.stdout.strip().encode()[: config["pluginConfig"]["max_output_length"]].decode()
    if status == "False":
        return Shown(status, default["reason"], default["message"])
    return Shown(status, rule["reason"] if status == "True" else default["reason"], message)
