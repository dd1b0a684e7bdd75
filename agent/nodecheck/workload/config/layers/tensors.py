"""A list of tensors in the making. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.serving import Kind
from nodecheck.workload.config.matrix import Matrix


class Tensors:
    """The tensors of one layer, or of what lies outside of all; `root` begins their names.

    `only` is the kind that all of them take, whatever they do (an MTP module's).
    """

    def __init__(self, root: str, layer: int | None = None, only: Kind | None = None) -> None:
        """Nothing yet."""
        self.root = root
        self.layer = layer
        self.only = only
        self.all: list[Matrix] = []

    def add(
        self, name: str, kind: Kind, rows: int, columns: int = 1, **more: int | bool | str | None
    ) -> None:
        """One tensor, or `copies` alike; `more` are further members of Matrix."""
        module = f"{self.root}.{name}" if self.root else name
        self.all.append(
            Matrix(
                module=module,
                layer=self.layer,
                kind=self.only or kind,
                rows=rows,
                columns=columns,
                **more,  # type: ignore[arg-type]
            )
        )

    def linear(self, name: str, kind: Kind, rows: int, columns: int, *, bias: bool = False) -> None:
        """The weight of a Linear of `columns` inputs and `rows` outputs, and its bias."""
        self.add(name, kind, rows, columns, linear=True)
        if bias:
            self.add(f"{name}.bias", kind, rows)

    def norm(self, name: str, size: int, *, bias: bool = False) -> None:
        """A norm's weight, and its bias."""
        self.add(name, Kind.NORM, size)
        if bias:
            self.add(f"{name}.bias", Kind.NORM, size)

    def conv(self, name: str, channels: int, kernel: int, *, bias: bool = False) -> None:
        """A convolution of each channel by itself."""
        self.add(name, Kind.RECURRENT, channels, kernel)
        if bias:
            self.add(f"{name}.bias", Kind.RECURRENT, channels)

    def take(self, others: Tensors, number: int) -> None:
        """Those of another list, of one of several modules that are alike (self_attn.0, mlps.0)."""
        for matrix in others.all:
            module, rest = matrix.module.removeprefix(f"{self.root}.").split(".", 1)
            module = "mlps" if module == "mlp" else module
            renamed = f"{self.root}.{module}.{number}.{rest}"
            self.all.append(replace(matrix, module=renamed))

    def unstored(self) -> list[Matrix]:
        """All of them, read though they are stored elsewhere."""
        return [replace(matrix, stored=False) for matrix in self.all]
