"""Run by a Python that has llama-cpp-python: it decodes until it is ended, or quantises a model.

Its settings have the names that `python -m llama_cpp.server` gives them.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import time
from typing import Any

CONTEXT = 128
"""Tokens, after which it begins anew: each costs about as much as the last."""

llama: Any = importlib.import_module("llama_cpp.llama_cpp")


def quantise(source: str, target: str) -> None:
    """F16 to Q4_0."""
    wanted = llama.llama_model_quantize_default_params()
    wanted.ftype = llama.LLAMA_FTYPE_MOSTLY_Q4_0
    wanted.nthread = os.cpu_count()
    if llama.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(wanted)):
        raise SystemExit(f"{source} could not be quantised")


def context(model_path: str, threads: int, *, is_repacked: bool) -> Any:
    """A loaded model's context."""
    of_model = llama.llama_model_default_params()
    of_model.use_extra_bufts = is_repacked
    model = llama.llama_model_load_from_file(model_path.encode(), of_model)
    of_context = llama.llama_context_default_params()
    of_context.n_ctx = of_context.n_batch = CONTEXT
    of_context.n_threads = of_context.n_threads_batch = threads
    return llama.llama_init_from_model(model, of_context)


def decode(made: Any, times_path: str) -> None:
    """One token after another; a line each in the file: when it was done, monotonic."""
    token = (llama.llama_token * 1)(1)
    memory = llama.llama_get_memory(made)
    with open(times_path, "w", buffering=1) as times:  # noqa: PTH123
        while True:
            llama.llama_memory_clear(memory, False)
            for _ in range(CONTEXT):
                if llama.llama_decode(made, llama.llama_batch_get_one(token, 1)):
                    raise SystemExit("it did not decode")
                times.write(f"{time.monotonic()}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--n_threads", type=int, default=1)
    parser.add_argument("--no-repack", action="store_true")
    parser.add_argument("--idle", action="store_true", help="load, and wait")
    parser.add_argument("--quantise", metavar="TARGET")
    parser.add_argument("--times", metavar="FILE")
    asked = parser.parse_args()
    llama.llama_backend_init()
    if asked.quantise:
        quantise(asked.model, asked.quantise)
        return
    made = context(asked.model, asked.n_threads, is_repacked=not asked.no_repack)
    if asked.idle:
        time.sleep(3600)
    decode(made, asked.times)


if __name__ == "__main__":
    main()
