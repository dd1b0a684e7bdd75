"""What can be told of the manifests and the image without a program that knows them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from nodecheck import __version__
from nodecheck.machine import state

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "agent" / "nodecheck" / "integrations" / "kubernetes"
CONTAINERFILE = (FOLDER / "Containerfile").read_text()
FILES = sorted(file for file in FOLDER.rglob("*") if file.suffix in (".yaml", ".toml"))
DAEMONSET = (FOLDER / "base" / "daemonset.yaml").read_text()


def test_init_writes_every_file_but_the_image_s() -> None:
    said = tomllib.loads((FOLDER / "init.toml").read_text())
    names = {each["name"] for each in said["files"]}
    assert names == {str(file.relative_to(FOLDER)) for file in FILES} - {"init.toml"}
    assert {each["path"] for each in said["files"]} == {f"nodecheck/{name}" for name in names}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_no_path_of_the_machine_that_printed_it_is_in_a_cluster(file: Path) -> None:
    assert "@NODECHECK@" not in file.read_text()


def test_versions_are_of_this_nodecheck() -> None:
    tags = re.findall(r"(?:nodecheck:|newTag: )(\d\S*)", "".join(f.read_text() for f in FILES))
    assert len(tags) == 3
    assert set(tags) == {__version__}
    assert f"nodecheck:{__version__} " in CONTAINERFILE


def test_the_image_is_built_of_what_there_is() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINERFILE, re.MULTILINE)
    sources = [ROOT / name for line in copied for name in line.split()]
    assert sources
    assert all(source.exists() for source in sources)
    for link in (ROOT / "agent").rglob("*"):  # what a link leads to must be copied too
        if link.is_symlink() and "__pycache__" not in link.parts:
            assert any(source in link.resolve().parents or source == link.resolve()
                       for source in sources), link  # fmt: skip


def test_the_image_runs_as_the_user_and_with_the_state_of_the_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (user,) = re.findall(r"^USER (\d+):\1$", CONTAINERFILE, re.MULTILINE)
    assert f"runAsUser: {user}\n" in DAEMONSET
    assert f"fsGroup: {user}\n" in DAEMONSET
    (history,) = re.findall(r"^ENV NODECHECK_HISTORY=(\S+)$", CONTAINERFILE, re.MULTILINE)
    monkeypatch.setenv("NODECHECK_HISTORY", history)
    assert f"mountPath: {state.directory()}\n" in DAEMONSET


def test_the_image_starts_the_program_that_it_holds() -> None:
    (link,) = re.findall(r"ln -s (\S+) (\S+)", CONTAINERFILE)
    assert f'ENTRYPOINT ["{link[1]}"]' in CONTAINERFILE
    assert f"COPY --from=build {Path(link[0]).parents[1]} " in CONTAINERFILE
