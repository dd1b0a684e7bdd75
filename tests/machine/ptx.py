"""A card's threads one after the other: as much of PTX as the kernel that reads memory is made of.

Meanings follow NVIDIA's PTX ISA reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

U32, U64 = (1 << 32) - 1, (1 << 64) - 1

_STATEMENT = re.compile(r"(?:@(%\w+)\s+)?([a-z][\w.]*)\s*(.*)", re.DOTALL)
_SPECIAL = {"%ctaid.x": "block", "%ntid.x": "threads", "%tid.x": "thread", "%nctaid.x": "blocks"}


class Kernel:
    """The statements of a kernel and its labels."""

    def __init__(self, text: str) -> None:
        body = text[text.index("{\n") + 2 : text.rindex("}")]
        self.labels: dict[str, int] = {}
        self.statements: list[tuple[str | None, str, list[str]]] = []
        for line in filter(None, map(str.strip, body.splitlines())):
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.statements)
                continue
            found = _STATEMENT.fullmatch(line.removesuffix(";"))
            if found and not line.startswith("."):
                operands = re.findall(r"\{[^}]*\}|\[[^]]*\]|[^\s,]+", found[3])
                self.statements.append((found[1], found[2], operands))

    def run(
        self,
        parameters: Mapping[str, int],
        place: Mapping[str, int],
        load: Callable[[int], tuple[int, int]],
        store: Callable[[int, int], None],
    ) -> None:
        """One thread, at its `place`; `load` gives the two words of 16 bytes at an address."""
        self._registers: dict[str, int] = {}
        self._outside = {f"[{name}]": value for name, value in parameters.items()}
        self._outside |= {name: place[key] for name, key in _SPECIAL.items()}
        at = 0
        while True:
            condition, operation, operands = self.statements[at]
            at += 1
            if condition and not self._registers[condition]:
                continue
            if operation == "ret":
                return
            if operation == "bra":
                at = self.labels[operands[0]]
            elif operation == "ld.global.v2.u64":
                low, high = operands[0].strip("{} ").split(", ")
                self._registers[low], self._registers[high] = load(self._value(operands[1]))
            elif operation == "st.global.u64":
                store(self._value(operands[0]), self._value(operands[1]))
            else:
                self._registers[operands[0]] = self._compute(operation, operands[1:])

    def _value(self, operand: str) -> int:
        if operand in self._outside:
            return self._outside[operand]
        name = operand.strip("[]")
        return self._registers[name] if name.startswith("%") else int(name)

    def _compute(self, operation: str, operands: list[str]) -> int:
        a, b, c = ([self._value(each) for each in operands] + [0, 0])[:3]
        if operation in ("ld.param.u64", "cvta.to.global.u64", "mov.u64", "mov.u32"):
            return a
        results = {
            "add.u64": (a + b) & U64,
            "mul.lo.u64": a * b & U64,
            "shl.b64": a << (b & 63) & U64,
            "mul.wide.u32": (a & U32) * (b & U32),
            "mad.lo.u32": (a * b + c) & U32,
            "setp.ge.u64": int(a >= b),
        }
        return results[operation]
