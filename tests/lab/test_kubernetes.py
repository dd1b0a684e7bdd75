"""What goes to a cluster is valid, asks for no more than the documents say, and works."""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodecheck.policy import Policy
from nodecheck.render.nfd import NAMESPACE, labels
from tests.cli.gating import NODECHECK
from tests.hosts import HEALTHY, THREE_L40
from tests.lab.manifests import (
    COMPONENTS,
    Manifest,
    breaches,
    complaints,
    containers,
    parsed,
    pods,
    rendered,
    written,
)
from tests.render.reports import of_tree
from tests.trees import plant

DOCUMENT = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text()
PATIENCE_SECONDS = 30.0
TOKEN = "0123456789abcdef0123456789abcdef"

CHOICES = [(), *((name,) for name in COMPONENTS), COMPONENTS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "init")


@pytest.mark.parametrize("components", CHOICES, ids="+".join)
def test_what_kubectl_sends_is_strictly_valid(
    folder: Path, tmp_path: Path, components: tuple[str, ...]
) -> None:
    text = rendered(folder, components)
    assert complaints(text, tmp_path) == ""
    kinds = [each["kind"] for each in parsed(text)]
    assert kinds.count("DaemonSet") == (2 if "nfd" in components else 1)


@pytest.mark.parametrize("name", ["job", "pod"])
def test_the_files_for_pre_flight_are_strictly_valid(
    folder: Path, tmp_path: Path, name: str
) -> None:
    assert complaints((folder / "preflight" / f"{name}.yaml").read_text(), tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("readOnlyRootFilesystem", "readOnlyRootFileSystem"),
        ("tolerations", "toleration"),
        ("periodSeconds: 20", "periodSeconds: soon"),
        ("automountServiceAccountToken", "automountServiceAccountTokens"),
    ],
)
def test_a_misspelt_field_is_caught(folder: Path, tmp_path: Path, right: str, wrong: str) -> None:
    text = rendered(folder)
    assert right in text
    assert re.search(
        r"not allowed|not of type|not valid", complaints(text.replace(right, wrong), tmp_path)
    )


def test_the_base_keeps_to_the_strictest_standard(folder: Path) -> None:
    manifests = parsed(rendered(folder))
    (namespace,) = (each for each in manifests if each["kind"] == "Namespace")
    labels = namespace["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert [breaches(pod) for pod in pods(manifests)] == [set()]


@pytest.mark.parametrize(
    ("component", "asks"),
    [
        ("nfd", {"hostPath", "root"}),
        ("history", {"hostPath"}),
        ("nvidia", set()),
        ("kernel-log", {"root", "SYSLOG"}),
    ],
)
def test_a_component_asks_for_what_the_documents_say(
    folder: Path, component: str, asks: set[str]
) -> None:
    manifests = parsed(rendered(folder, (component,)))
    assert set().union(*map(breaches, pods(manifests))) == asks
    (namespace,) = (each for each in manifests if each["kind"] == "Namespace")
    enforced = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == ("privileged" if asks else "restricted")
    rows = [row for row in DOCUMENT.splitlines() if row.startswith(f"| `{component}` | ")]
    for what in asks:
        assert any(what in row for row in rows), what


def test_every_mount_and_privilege_is_in_the_table(folder: Path) -> None:
    asked: set[str] = set()
    for pod in pods(parsed(rendered(folder, COMPONENTS))):
        asked |= {mount["mountPath"] for each in containers(pod) for mount in each["volumeMounts"]}
        asked |= {v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
        asked |= breaches(pod) - {"hostPath"}
    for what in asked:
        assert re.search(rf"^\| .*`?{re.escape(what)}`?", DOCUMENT, re.MULTILINE), what


@pytest.mark.parametrize("components", CHOICES, ids="+".join)
def test_no_container_is_given_what_nodecheck_would_take_for_the_nodes(
    folder: Path, components: tuple[str, ...]
) -> None:
    for pod in pods(parsed(rendered(folder, components))):
        for each in containers(pod):
            assert "limits" not in each["resources"]
            assert each["resources"]["requests"]
            assert each["securityContext"]["readOnlyRootFilesystem"] is True
            assert "/dev/shm" in [mount["mountPath"] for mount in each["volumeMounts"]]
        assert pod["automountServiceAccountToken"] is False


def test_cards_are_seen_by_all_and_taken_by_none(folder: Path) -> None:
    text = rendered(folder, COMPONENTS)
    assert "nvidia.com/gpu" not in text
    for pod in pods(parsed(text)):
        assert pod["runtimeClassName"] == "nvidia"
        names = [each["name"] for each in pod["containers"][0]["env"]]
        assert {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"} <= set(names)


def test_an_init_container_sees_what_the_engine_gets(folder: Path) -> None:
    (pod,) = pods(parsed((folder / "preflight/pod.yaml").read_text()))
    (gate,), (engine,) = pod["initContainers"], pod["containers"]
    assert gate["resources"] == engine["resources"]
    assert gate["volumeMounts"] == engine["volumeMounts"]


@pytest.mark.parametrize("name", ["job", "pod"])
def test_pre_flight_lets_a_good_node_pass_and_no_bad_one(
    folder: Path, tmp_path: Path, name: str
) -> None:
    (pod,) = pods(parsed((folder / f"preflight/{name}.yaml").read_text()))
    arguments = containers(pod)[0]["args"]
    ended = []
    for number, tree in enumerate((HEALTHY, THREE_L40)):
        plant(tree, tmp_path / str(number))
        command = [*NODECHECK, *arguments, "--root", str(tmp_path / str(number))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr == ""
        ended.append(done.returncode)
        assert len(done.stdout) < 2048  # what a termination message holds of the log
    assert ended == [0, 1]


def test_the_labels_come_into_the_folder_that_is_mounted(folder: Path, tmp_path: Path) -> None:
    (pod,) = (
        each for each in pods(parsed(rendered(folder, ("nfd",)))) if "hostPath" in json.dumps(each)
    )
    (container,) = pod["containers"]
    (shell, option, script) = container["command"]
    features = tmp_path / "features.d"
    features.mkdir()
    script = script.replace("nodecheck export", " ".join([*NODECHECK, "export"]))
    script = script.replace("/features.d/", f"{features}/")
    loop = subprocess.Popen([shell, option, script], start_new_session=True)
    try:
        wait_for((features / "nodecheck").exists)
    finally:
        os.killpg(loop.pid, signal.SIGKILL)
        loop.wait()
    assert (features / "nodecheck").read_text().startswith("# nodecheck ")


def wait_for(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < end, "not seen in time"
        time.sleep(0.1)


def test_the_daemon_answers_kubelet_and_prometheus_as_it_is_told_to(
    folder: Path, tmp_path: Path
) -> None:
    (pod,) = pods(parsed(rendered(folder)))
    (container,) = pod["containers"]
    with daemon(container, folder, tmp_path) as port:
        for probe in ("livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            wait_for(functools.partial(is_well, port, path))
        assert status(port, "/metrics") == 401
        assert status(port, "/metrics", TOKEN) == 200


@contextmanager
def daemon(container: Manifest, folder: Path, place: Path) -> Iterator[int]:
    """The container's command with its configuration, on loopback instead of the pod's address."""
    token, config = place / "token", place / "daemon.toml"
    token.write_text(TOKEN + "\n")
    token.chmod(0o440)
    told = (folder / "base/daemon.toml").read_text()
    assert "/run/secrets/nodecheck/token" in told
    config.write_text(told.replace("/run/secrets/nodecheck/token", str(token)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    listen = f"--listen=[127.0.0.1]:{port}"
    swaps = {"--config=/etc/nodecheck/daemon.toml": f"--config={config}",
             "--listen=[$(POD_IP)]:9742": listen}  # fmt: skip
    arguments = [swaps.pop(word, word) for word in container["args"]]
    assert swaps == {}
    environment = {**os.environ, "NODECHECK_HISTORY": str(place / "state" / "history.db")}
    running = subprocess.Popen([*NODECHECK, *arguments], env=environment)
    try:
        wait_for(lambda: status(port, "/healthz") is not None)
        yield port
    finally:
        running.terminate()
        try:
            ended = running.wait(5)
        except subprocess.TimeoutExpired:
            running.kill()
            ended = running.wait()
    assert ended == 0


def status(port: int, path: str, token: str | None = None) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        return connection.getresponse().status
    except ConnectionError:
        return None
    finally:
        connection.close()


def is_well(port: int, path: str) -> bool:
    return status(port, path) == 200


def in_documents(start: str) -> Manifest:
    """The block of the page that begins so."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    (found,) = parsed(next(block for block in blocks if block.startswith(start)))
    return found


def test_the_affinity_in_the_documents_is_valid_and_of_labels_that_there_are(
    folder: Path, tmp_path: Path
) -> None:
    (pod,) = parsed((folder / "preflight/pod.yaml").read_text())
    affinity = in_documents("affinity:")
    pod["spec"].update(affinity)
    assert complaints(json.dumps(pod), tmp_path) == ""
    keys = re.findall(rf"{re.escape(NAMESPACE)}/([a-z-]+)", json.dumps(affinity))
    assert {"status", "gpus"} == set(keys) <= set(labels(of_tree("three-l40"), Policy()))


def test_the_pod_monitor_in_the_documents_asks_what_there_is(folder: Path) -> None:
    (pod,) = pods(parsed(rendered(folder)))
    monitor = in_documents("apiVersion: monitoring")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in pod["containers"][0]["ports"]]
    secrets = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v]
    (main,) = (each for each in parsed(rendered(folder)) if each["kind"] == "DaemonSet")
    labels = main["spec"]["template"]["metadata"]["labels"]
    assert labels[monitor["spec"]["jobLabel"]] == "nodecheck"  # as NodecheckDown asks
    assert endpoint["authorization"]["credentials"] == {"name": secrets[0], "key": "token"}


def test_ports_and_names_fit_together(folder: Path) -> None:
    manifests = parsed(rendered(folder, COMPONENTS))
    by_kind = {kind: list(each) for kind, each in itertools.groupby(manifests, lambda m: m["kind"])}
    (policy,) = by_kind["NetworkPolicy"]
    (account,) = by_kind["ServiceAccount"]
    for each in by_kind["DaemonSet"]:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        assert each["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]
    (main,) = (each for each in by_kind["DaemonSet"] if each["metadata"]["name"] == "nodecheck")
    (port,) = main["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert f"[$(POD_IP)]:{port['containerPort']}" in json.dumps(main)
    assert policy["spec"]["ingress"][0]["ports"] == [{"port": port["name"]}]
