"""Fuzz one target with atheris: python -m tests.fuzz.fuzz_workload TARGET [options of libFuzzer].

Inputs that break a promise are left where -artifact_prefix says.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

WORDS = {
    "gguf": ("GGUF", "general.architecture", "split.count", "llama.block_count"),
    "safetensors": ("dtype", "shape", "data_offsets", "__metadata__", "BF16", "weight_scale_inv"),
    "config": ("quantization_config", "text_config", "layer_types", "quant_method", "Infinity"),
    "quantised": ("quant_algo", "exclude_modules", "kv_cache_quant_algo", "config_groups"),
    "folder": ("weight_map", "metadata", "total_size", ".safetensors", "../", "model.layers.0."),
}
"""What no change of single bytes would find."""


def main(arguments: list[str]) -> None:
    """Run until libFuzzer's options say it is enough, or an input breaks a promise."""
    target, *options = arguments
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["nodecheck"]):
        from tests.fuzz import targets
    build = Path("build/fuzz") / target
    corpus, seeds = build / "corpus", build / "seeds"
    for folder in (corpus, seeds):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(targets.seeds(target)):
        (seeds / f"{number:03d}").write_bytes(seed)
    if target in WORDS:
        words = build / "words"
        words.write_text("".join(f'"{word}"\n' for word in WORDS[target]))
        options = [f"-dict={words}", *options]
    with targets.room() as room:
        atheris.Setup(
            [
                sys.argv[0],
                f"-artifact_prefix={build}/",
                "-max_len=65536",
                "-timeout=10",
                "-rss_limit_mb=1024",
                *options,
                str(corpus),
                str(seeds),
            ],
            lambda data: targets.run(target, data, room),
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
