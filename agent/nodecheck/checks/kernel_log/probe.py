"""Reads the kernel's log and keeps the lines that other checks judge by."""

from __future__ import annotations

from nodecheck.checks.kernel_log.errors import FileSystems, Memory
from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.checks.kernel_log.lines import messages
from nodecheck.checks.kernel_log.nvidia import Driver
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

COMMAND_SECONDS = 1.5

NEWEST_CHARACTERS = 2 << 20
"""The kernel's buffer is 1 MiB at most unless log_buf_len= enlarges it; more takes too long."""

BOOTS = ("Linux version ", "-- Reboot --", "-- Boot ")
"""The kernel's first message, and what a journal writes between two boots."""

JOURNAL = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic", "-n", "50000")
"""Who may not read the ring buffer may still be allowed to read the journal."""

AS_ROOT = "run: sudo nodecheck"


def probe(reader: Reader) -> KernelLogFacts:
    """The log of this boot: dmesg, or the journal where that is denied."""
    source, text = _log(reader)
    if source is None:
        return KernelLogFacts()
    driver, systems, memory = Driver(), FileSystems(), Memory()
    if len(text) > NEWEST_CHARACTERS:
        reader.gap("older_lines", Reason.UNSUPPORTED, "of a long log only the newest are judged")
    for message in messages(text[-NEWEST_CHARACTERS:]):
        if message.startswith(BOOTS):
            driver.boot()
            systems, memory = FileSystems(), Memory()
        driver.take(message)
        systems.take(message)
        memory.take(message)
    return KernelLogFacts(
        source=source,
        xids=driver.xids(),
        gpus_lost=driver.lost(),
        driver_errors=driver.errors(),
        filesystem_errors=systems.lines(),
        memory_errors=memory.lines(),
        dimm_errors=memory.dimms(),
    )


def _log(reader: Reader) -> tuple[str | None, str]:
    try:
        output = reader.host.run(("dmesg",), COMMAND_SECONDS)
        if output.status == 0 and not _is_refusal(output.text):
            return "dmesg", output.text
        said = (output.text.strip().splitlines() or ["dmesg printed nothing"])[-1][:200]
        reason, detail = _reason(said), f"{said}; {AS_ROOT}"
    except UnreadableError as error:
        reason, detail = error.reason, error.detail
    journal = reader.command(JOURNAL, None, COMMAND_SECONDS)
    if journal is not None and journal.status == 0 and " kernel: " in journal.text[:4096]:
        return "journal", journal.text
    reader.gap("source", reason, detail)
    return None, ""


def _is_refusal(text: str) -> bool:
    return text.startswith("dmesg: ") and len(text) < 400


def _reason(said: str) -> Reason:
    denied = "not permitted" in said or "ermission denied" in said
    return Reason.DENIED if denied else Reason.FAILED
