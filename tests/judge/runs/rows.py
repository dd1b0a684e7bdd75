"""Rows of benchmarks, with the figures of the node with three L40."""

from __future__ import annotations

from typing import Any

from nodecheck.serving import Run

L40 = "NVIDIA L40"
PRO_6000 = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"


def ngl(layers: int, rate: float, **members: Any) -> Run:
    """A row of llama-bench's tg128 on the node with three L40."""
    return Run(**{
        "source": f"bench.json ngl {layers}",
        "tool": "llama-bench",
        "tokens_per_second": rate,
        "prompt_tokens": 0,
        "generated_tokens": 128,
        "context_tokens": 0,
        "gpu_layers": layers,
        "concurrency": 1,
        "split_mode": "layer",
        "gpus": (L40,) * 3,
        **members,
    })  # fmt: skip


def served(rate: float, *gpus: str, **members: Any) -> Run:
    """A row of one request at a time to a server."""
    return Run(**{
        "source": "serve.jsonl",
        "tool": "sglang",
        "tokens_per_second": rate,
        "prompt_tokens": 128,
        "context_tokens": 128,
        "generated_tokens": 256,
        "concurrency": 1,
        "tensor_parallel": len(gpus) if len(gpus) > 1 else None,
        "gpus": gpus,
        **members,
    })  # fmt: skip


LAYERS = (ngl(99, 38.0), ngl(96, 37.99), ngl(50, 3.72), ngl(0, 0.07))

TWO_L40 = served(27.2, L40, L40, remarks=("live traffic",), build="0.5.10")
ONE_PRO_6000 = served(46.7, PRO_6000, build="0.5.23")
ONE_L40 = served(39.1, L40, build="0.5.23")
WITH_MTP = tuple(
    served(70.9, L40, build="0.5.23", accepted_tokens=length, remarks=("MTP",))
    for length in (2.75, 2.93)
)
EVERY = (*LAYERS, TWO_L40, ONE_PRO_6000, ONE_L40, *WITH_MTP)
