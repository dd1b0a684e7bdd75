"""The Kubernetes manifests as they reach a cluster, and how strict a cluster is with them."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.gating import NODECHECK
from tests.lab.debian import NotHereError
from tests.lab.pypi import program

Manifest = dict[str, Any]

COMPONENTS = ("nfd", "history", "nvidia", "kernel-log")

_TO_JSON = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"


@functools.cache
def validator() -> Path:
    """kubernetes-validate, or the test is skipped."""
    try:
        return program("kubernetes-validate", "kubernetes-validate>=1.37")
    except NotHereError as error:
        pytest.skip(str(error))


def complaints(text: str, place: Path) -> str:
    """What kubernetes-validate has against manifests; nothing where they are valid."""
    file = place / "manifests.yaml"
    file.write_text(text)
    done = subprocess.run(
        [str(validator()), "--strict", str(file)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "passed" in said or done.returncode != 0, said
    return said if done.returncode != 0 else ""


def parsed(text: str) -> list[Manifest]:
    """The manifests of a YAML text; the validator's own environment has the parser."""
    python = validator().with_name("python")
    done = subprocess.run(
        [str(python), "-c", _TO_JSON], input=text, capture_output=True, text=True, check=True
    )
    found: list[Manifest] = json.loads(done.stdout)
    return found


def written(place: Path) -> Path:
    """The folder that `nodecheck init kubernetes` makes."""
    command = [*NODECHECK, "init", "kubernetes", "--to", str(place)]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    return place / "nodecheck"


def rendered(folder: Path, components: Sequence[str] = ()) -> str:
    """The folder as `kubectl apply -k` would send it, with components taken in as it says."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not here: it renders the manifests, and is in no Debian package")
    file = folder / "kustomization.yaml"
    wanted = [f"#  - {name} " for name in components]
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines):
        if (components and line == "#components:") or line.startswith(tuple(wanted)):
            lines[number] = line[1:]
    file.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def pods(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """The specs of all pods that these make."""
    for each in manifests:
        if each["kind"] == "Pod":
            yield each["spec"]
        elif each["kind"] in ("DaemonSet", "Job"):
            yield each["spec"]["template"]["spec"]


def containers(pod: Manifest) -> list[Manifest]:
    """Init containers too."""
    return [*pod.get("initContainers", []), *pod["containers"]]


def breaches(pod: Manifest) -> set[str]:
    """What the Pod Security Standard "restricted" refuses in a pod."""
    found = {name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)}
    allowed = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "downwardAPI"}
    for volume in pod.get("volumes", []):
        found |= set(volume) - {"name"} - allowed
    general = pod.get("securityContext", {})
    if general.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        found.add("seccompProfile")
    for each in containers(pod):
        own = {**general, **each.get("securityContext", {})}
        capabilities = own.get("capabilities", {})
        found |= set(capabilities.get("add", []))
        found |= {
            name
            for name, well in {
                "root": own.get("runAsNonRoot") is True and own.get("runAsUser") != 0,
                "privileged": not own.get("privileged"),
                "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
                "capabilities": capabilities.get("drop") == ["ALL"],
                "hostPort": not any("hostPort" in port for port in each.get("ports", [])),
            }.items()
            if not well
        }
    return found
