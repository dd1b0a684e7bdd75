"""One stored tensor of a model, as its configuration implies it."""

from __future__ import annotations

from nodecheck.model import Struct
from nodecheck.serving import Kind


class Matrix(Struct, frozen=True, kw_only=True):
    """`copies` tensors of `rows` (outputs) x `columns` (inputs), of which a token reads `used`.

    `module` is the dotted name of what holds it in a checkpoint, without ".weight", e.g.
    "model.layers.3.mlp.gate": skip lists of quantisations name it. `linear` says that a
    quantisation may take it: the weight of a Linear, no norm, bias or convolution. `read_rows` is
    set where a token reads only so many rows (an embedding). `float_type` is set where a checkpoint
    keeps it in another type than the rest (f32). `stored` is false for what is used but is no
    tensor of its own (a tied output).
    """

    module: str
    layer: int | None
    kind: Kind
    rows: int
    columns: int = 1
    copies: int = 1
    used: int | None = None
    linear: bool = False
    read_rows: int | None = None
    float_type: str | None = None
    stored: bool = True

    @property
    def parameters(self) -> int:
        """Of all copies; none where it is not stored."""
        return self.rows * self.columns * self.copies if self.stored else 0

    @property
    def read_parameters(self) -> int:
        """What a token of one sequence reads."""
        rows = self.rows if self.read_rows is None else self.read_rows
        return rows * self.columns * (self.copies if self.used is None else self.used)
