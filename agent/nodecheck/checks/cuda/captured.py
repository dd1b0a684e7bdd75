"""What a capture holds of CUDA: whether it started (`cuda.json`)."""

from __future__ import annotations

import msgspec

from nodecheck.checks.cuda.facts import CudaFacts, CudaProbe
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason

PATH = "/cuda.json"


def read(reader: Reader) -> CudaProbe:
    """The facts that an earlier run saved; a file that is not ours is a gap."""
    try:
        text = reader.host.read(PATH)
    except UnreadableError:
        return CudaProbe()
    try:
        return CudaProbe(facts=msgspec.json.decode(text, type=CudaFacts))
    except (msgspec.MsgspecError, RecursionError) as error:
        reader.gap("state", Reason.FAILED, f"{PATH}: {error}")
        return CudaProbe()
