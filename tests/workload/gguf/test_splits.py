from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.files import open_regular
from nodecheck.workload.gguf import splits
from nodecheck.workload.gguf.header import Header, read_header
from nodecheck.workload.gguf.model import workload
from tests.workload.gguf.files import I32, U16, Keys, Tensor, Typed, Value, write
from tests.workload.gguf.shapes import Shape, Width, dense

SMALL = Width(2, 64, 4, 2, 16, 128, 256)


def part(number: int, count: int) -> str:
    return f"m-{number:05d}-of-{count:05d}.gguf"


def split_keys(number: int, count: int, total: int) -> dict[str, Value]:
    return {
        "split.no": Typed(U16, number),
        "split.count": Typed(U16, count),
        "split.tensors.count": Typed(I32, total),
    }


def written(folder: Path, shape: Shape, count: int = 3) -> list[Path]:
    """A model in `count` files: its keys in the first, tensors in turn."""
    paths = []
    for number in range(count):
        keys = split_keys(number, count, len(shape.tensors))
        if not number:
            keys = {**shape.keys, **keys}
        path = folder / part(number + 1, count)
        paths.append(write(path, keys, shape.tensors[number::count]))
    return paths


def headers(paths: list[Path]) -> list[Header]:
    found = []
    for path in paths:
        with open_regular(path) as file:
            found.append(read_header(file))
    return found


def test_parts_together_are_the_model_in_one_file(tmp_path: Path) -> None:
    shape = dense("llama", SMALL)
    found = headers(written(tmp_path, shape))
    splits.check(found)
    whole = headers([write(tmp_path / "whole.gguf", shape.keys, shape.tensors)])
    assert workload(found, "m") == workload(whole, "m")


@pytest.mark.parametrize("given", [1, 2, 3])
def test_any_part_leads_to_all(given: int) -> None:
    listing = {part(number, 3) for number in (1, 2, 3)} | {"other.gguf", part(1, 4)}
    named = Path("/models") / part(given, 3)
    found = splits.parts(named, listing)
    assert found == tuple(Path("/models") / part(number, 3) for number in (1, 2, 3))
    note = splits.note(named, found)
    assert (note is None) == (given == 1)
    if note is not None:
        assert (
            note
            == f"{part(given, 3)} is a later part: a model is loaded by its first, {part(1, 3)}"
        )


@pytest.mark.parametrize("name", ["model.gguf", "m-1-of-2.gguf", "m-00001-of-00002.gguf.part", "m"])
def test_another_name_is_a_whole_model(name: str) -> None:
    assert splits.parts(Path(name), ()) == (Path(name),)
    assert splits.note(Path(name), [Path(name)]) is None


@pytest.mark.parametrize(
    ("given", "there", "says"),
    [
        (part(1, 3), {part(1, 3), part(3, 3)}, "1 of 3 parts are missing .*: m-00002-of"),
        (part(2, 2), {part(2, 2)}, "1 of 2 parts .* in this folder: m-00001-of"),
        (part(1, 65535), {part(1, 65535)}, "65534 of 65535 .*m-00006-of-65535.gguf and 65,529"),
        (part(0, 3), set(), "part 0 of 3 by its name, which cannot be"),
        (part(4, 3), set(), "part 4 of 3 by its name"),
        (part(0, 0), set(), "part 0 of 0 by its name"),
    ],
)  # fmt: skip
def test_missing_parts_are_named(given: str, there: set[str], says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        splits.parts(Path(given), there)


@pytest.mark.parametrize("prefix", ["..", "m-00001-of-00002.gguf", "a\nb", "%s", "-"])
def test_a_hostile_name_stays_in_its_folder(prefix: str) -> None:
    names = [f"{prefix}-0000{number}-of-00002.gguf" for number in (1, 2)]
    found = splits.parts(Path("/models") / names[1], names)
    assert found == tuple(Path("/models") / name for name in names)
    assert str(splits.note(Path("/models") / names[1], found)).isprintable()


def changed(header: Header, metadata: Mapping[str, str | int | None]) -> Header:
    keys = dict(header.metadata)
    for key, value in metadata.items():
        if value is None:
            del keys[key]
        else:
            keys[key] = value
    return Header(
        version=3,
        metadata=keys,
        tensors=header.tensors,
        data_offset=0,
        missing_bytes=0,
    )


@pytest.mark.parametrize(
    ("which", "keys", "says"),
    [
        (1, {"split.no": 2}, "part 2 says split.no 2, where 1 was expected"),
        (1, {"split.no": None}, "part 2 says split.no None, where 1 was expected"),
        (1, {"split.no": True}, "part 2 says split.no True, where 1 was expected"),
        (2, {"split.count": 2}, "part 3 says split.count 2, where 3 was expected"),
        (0, {"split.count": "3"}, "split.count is 3, not a whole number"),
        (0, {"split.tensors.count": 9}, "split.tensors.count is 9, but the parts hold 21"),
        (1, {"general.architecture": "qwen3"}, "part 2 is of architecture qwen3, part 1 of llama"),
    ],
)  # fmt: skip
def test_parts_that_do_not_belong_together(
    tmp_path: Path, which: int, keys: dict[str, str | int | None], says: str
) -> None:
    found = headers(written(tmp_path, dense("llama", SMALL)))
    found[which] = changed(found[which], keys)
    with pytest.raises(WorkloadError, match=says):
        splits.check(found)


def test_a_tensor_is_in_one_part(tmp_path: Path) -> None:
    first, second, third = headers(written(tmp_path, dense("llama", SMALL)))
    twice = Header(
        version=3,
        metadata=third.metadata,
        tensors=second.tensors,
        data_offset=0,
        missing_bytes=0,
    )
    with pytest.raises(
        WorkloadError, match=r"tensor 'output_norm.weight' is in part 2 and in part 3"
    ):
        splits.check([first, second, twice])


def test_a_part_under_another_name_is_said_to_be_one(tmp_path: Path) -> None:
    alone = headers(written(tmp_path, dense("llama", SMALL)))[1:2]
    with pytest.raises(
        WorkloadError, match=r"part 2 of 3 by split.count, but not by its name: name"
    ):
        splits.check(alone)


def test_a_whole_model_needs_no_split_keys(tmp_path: Path) -> None:
    keys: Keys = {"split.count": Typed(U16, 1)}
    splits.check(headers([write(tmp_path / "m.gguf", keys, [Tensor("a", [32])])]))
    splits.check(headers([write(tmp_path / "m.gguf", (), [Tensor("a", [32])])]))


def test_the_part_that_was_cut_off_is_named(tmp_path: Path) -> None:
    paths = written(tmp_path, dense("llama", SMALL))
    with paths[1].open("r+b") as file:
        file.truncate(paths[1].stat().st_size - 5)
    notes = workload(headers(paths), "m", ["said before"]).notes
    assert notes == ("said before", "part 2: truncated by 5 bytes: it will not load")
