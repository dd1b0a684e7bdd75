"""How a quantisation stores one matrix, and which matrices of a model it takes. Pure."""

from __future__ import annotations

from msgspec import field

from nodecheck.model import Struct
from nodecheck.serving import Kind
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.quantisation.module_names import Named

ROUTERS = frozenset(("gate", "router", "shared_expert_gate", "wg", "weights_proj"))
"""Last names of what picks experts, or tokens to attend to: schemes leave it in float."""

MTP_FLOATS = frozenset(("eh_proj", "fc", "input_proj", "head", "lm_head", "embed_tokens"))
"""Last names of an MTP module's own copies and of what joins it: left in float as well."""


class Coding(Struct, frozen=True, kw_only=True):
    """How a matrix of some rows (outputs) and columns (inputs) is stored.

    Each number takes `bits`, packed along a row into words of `word_bits`. One scale of
    `scale_bytes` serves `scale_rows` x `scale_columns` numbers, None is all of that side; with it
    goes a zero point of `zero_bits`, packed down the rows into words of 32 bits. `column_bytes` are
    there once a column, `matrix_bytes` once. `flat` forgets rows; of its scales, `nested_scales`
    share another of four bytes.
    """

    type: str
    bits: int
    word_bits: int = 8
    scale_rows: int | None = None
    scale_columns: int | None = None
    scale_bytes: int = 0
    zero_bits: int = 0
    column_bytes: int = 0
    matrix_bytes: int = 0
    flat: bool = False
    nested_scales: int = 0

    def size_bytes(self, rows: int, columns: int) -> int:
        """Bytes of one such matrix, scales and zero points included."""
        if self.flat:
            rows, columns = 1, rows * columns
        words = _up(columns * self.bits, self.word_bits) * self.word_bits // 8
        groups = _up(columns, self.scale_columns or columns)
        scales = groups * _up(rows, self.scale_rows or rows)
        nested = 4 * _up(scales, self.nested_scales) if self.nested_scales else 0
        zeros = 4 * groups * _up(rows * self.zero_bits, 32)
        return (
            rows * words
            + scales * self.scale_bytes
            + nested
            + zeros
            + columns * self.column_bytes
            + self.matrix_bytes
        )


class Scheme(Struct, frozen=True, kw_only=True):
    """A quantisation: `named` modules are stored as they are named, others as `default`.

    `skips` stay in float, whatever else names them. `takes` are kinds that `default` takes although
    others leave them in float; where `experts_only`, it takes nothing else than experts, where
    `layers_only` nothing outside of layers. `routers` says that it takes those, `whole_groups` that
    it leaves what its groups do not fill. `kv_scale_bytes` are stored for the K and for the V of
    each layer. `kv_type` is the cache that the checkpoint asks for.
    """

    method: str
    default: Coding | None
    skips: Named[bool]
    named: Named[Coding] = field(default_factory=Named)
    takes: frozenset[Kind] = frozenset()
    experts_only: bool = False
    layers_only: bool = False
    routers: bool = False
    whole_groups: bool = False
    kv_type: str | None = None
    kv_scale_bytes: int = 0
    notes: tuple[str, ...] = ()

    def coding(self, matrix: Matrix) -> Coding | None:
        """How a matrix is stored; None where it stays in the checkpoint's float type."""
        if not matrix.linear and matrix.kind not in self.takes & {Kind.EMBEDDING}:
            return None
        if self.skips.find(matrix.module):
            return None
        found = self.named.find(matrix.module) or (self.default if self._takes(matrix) else None)
        if self.whole_groups and found and matrix.columns % (found.scale_columns or 1):
            return None
        return found

    def _takes(self, matrix: Matrix) -> bool:
        words = matrix.module.split(".")
        if matrix.kind in (Kind.EMBEDDING, Kind.OUTPUT) and matrix.kind not in self.takes:
            return False
        if not self.routers and (words[-1] in ROUTERS or "router" in words):
            return False
        if matrix.kind is Kind.MTP and words[-1] in MTP_FLOATS:
            return False
        if self.experts_only and not (matrix.kind is Kind.EXPERTS or "experts" in words):
            return False
        return not (self.layers_only and matrix.layer is None)


def _up(number: int, unit: int) -> int:
    """How many whole units hold so many."""
    return -(-number // unit)


def integer_type(bits: int, group: int | None) -> str:
    """The name of an integer type, and of its groups that share a scale: int4_g128, int8."""
    return f"int{bits}" if group is None else f"int{bits}_g{group}"
