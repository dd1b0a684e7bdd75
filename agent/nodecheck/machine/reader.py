"""What a probe reads through: a value, or None and a gap that says why."""

from __future__ import annotations

from nodecheck.machine.command import Output
from nodecheck.machine.host import Host
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Gap, Reason

INTEGER_LIMIT = 1 << 63
"""Files of the kernel hold no larger number; reports hold 64 bits."""

CPU_LIMIT = 8192
"""Largest CPU or node number that is believed (the kernel's NR_CPUS maximum on x86-64)."""


def parse_list(text: str) -> tuple[int, ...]:
    """The kernel's list format, e.g. `0-3,8` -> (0, 1, 2, 3, 8). Raises ValueError."""
    numbers: set[int] = set()
    for part in text.strip().strip("\0").split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high <= CPU_LIMIT:
            raise ValueError(f"{part.strip()!r} is no range of CPU numbers")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def _integer(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -INTEGER_LIMIT <= number < INTEGER_LIMIT else None


class Reader:
    """A Host as one check's probe sees it. Nothing here raises; what is missing becomes a gap."""

    def __init__(self, host: Host, check: str) -> None:
        self.host = host
        self.check = check
        self.gaps: list[Gap] = []

    def gap(self, field: str, reason: Reason, detail: str) -> None:
        """Note that `field` is not known."""
        self.gaps.append(Gap(check=self.check, field=field, reason=reason, detail=detail))

    def missed(self, field: str, error: UnreadableError) -> None:
        """Note that reading `field` failed."""
        self.gap(field, error.reason, error.detail)

    def text(self, path: str, field: str | None) -> str | None:
        """A file's text without surrounding blanks and NULs. No gap where `field` is None."""
        try:
            return self.host.read(path).strip().strip("\0").strip()
        except UnreadableError as error:
            if field is not None:
                self.missed(field, error)
            return None

    def binary(self, path: str, field: str | None) -> bytes | None:
        """A file that is no text. No gap where `field` is None."""
        try:
            return self.host.read_bytes(path)
        except UnreadableError as error:
            if field is not None:
                self.missed(field, error)
            return None

    def integer(self, path: str, field: str | None) -> int | None:
        """A file that holds one decimal number."""
        text = self.text(path, field)
        if text is None:
            return None
        number = _integer(text)
        if number is None and field is not None:
            self.gap(field, Reason.FAILED, f"{path}: {text[:40]!r} is no number")
        return number

    def numbers(self, path: str, field: str | None) -> tuple[int, ...] | None:
        """A file in the kernel's list format; an empty list is ()."""
        text = self.text(path, field)
        if text is None:
            return None
        try:
            return parse_list(text)
        except ValueError:
            if field is not None:
                self.gap(field, Reason.FAILED, f"{path}: {text[:40]!r} is no list of numbers")
            return None

    def names(self, path: str, field: str | None = None) -> tuple[str, ...]:
        """The names in a directory, () where it cannot be listed."""
        try:
            return self.host.names(path)
        except UnreadableError as error:
            if field is not None:
                self.missed(field, error)
            return ()

    def command(
        self, argv: tuple[str, ...], field: str | None, deadline_seconds: float = 2.0
    ) -> Output | None:
        """What a command prints, whatever its exit status."""
        try:
            return self.host.run(argv, deadline_seconds)
        except UnreadableError as error:
            if field is not None:
                self.missed(field, error)
            return None


def counters(text: str) -> dict[str, int]:
    """The lines `name number` of /proc/vmstat or a cgroup's statistics; others are passed over."""
    pairs = (line.split() for line in text.splitlines())
    return {
        pair[0]: int(pair[1])
        for pair in pairs
        if len(pair) == 2 and pair[1].isascii() and pair[1].isdigit() and len(pair[1]) <= 20
    }
