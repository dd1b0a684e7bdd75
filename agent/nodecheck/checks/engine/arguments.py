"""An engine's arguments and environment: what may be shown of them, and the settings that matter.

Only flags and names that stand here are shown, with values that look like what they take: a key, a
token or a password can come in any spelling, as a harmless one cannot. Sources: llama.cpp
(common/arg.cpp, tools/llama-bench), llama-cpp-python (llama_cpp/server/settings.py), koboldcpp.py,
ollama (llm/server.go, llm/llama_server.go), vLLM (engine/arg_utils.py, envs.py), SGLang
(srt/server_args.py, srt/utils).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nodecheck.checks.engine import engines
from nodecheck.checks.engine.engines import LLAMA_CPP, LLAMA_CPP_PYTHON, OLLAMA, SGLANG, VLLM

MOST_WORDS = 64
"""Of a command that is shown."""

LEFT_OUT = "..."
"""Stands for the value of a flag that is known and looks like something else."""

_WORD = re.compile(r"[\w.,:;/+*=|~-]{0,100}")
_TEXT = re.compile(r"[^\x00-\x1f\x7f@]{1,300}")
_URL = re.compile(r"\w{2,}://")
_NAME = re.compile(r"[\w.+/-]{1,200}")
_ENVIRONMENT_VALUE = re.compile(r"[^\x00-\x1f\x7f@]{0,200}")

_SWITCH, _TAKES, _TAKES_TEXT, _MAY_TAKE = "switch", "takes", "takes text", "may take"
"""What follows a flag: nothing, a word, a path or the like, a word that is no flag."""


def _flags(kind: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, kind)


_OF_LLAMA = {
    **_flags(_TAKES_TEXT, "-m", "--model", "-hf", "-hfr", "--hf-repo", "-md", "--model-draft",
             "-ot", "--override-tensor"),
    **_flags(
        _TAKES, "-t", "--threads", "-tb", "--threads-batch", "-td", "--threads-draft", "-ngl",
        "--gpu-layers", "--n-gpu-layers", "-ngld", "--gpu-layers-draft", "-dev", "--device", "-lm",
        "--load-mode", "-ncmoe", "--n-cpu-moe", "-ncffn", "--n-cpu-ffn",
        "-c", "--ctx-size", "-b", "--batch-size", "-ub", "--ubatch-size", "-np", "--parallel", "-C",
        "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "--prio", "--poll", "-sm",
        "--split-mode", "-ts", "--tensor-split", "-mg", "--main-gpu", "-ctk", "--cache-type-k",
        "-ctv", "--cache-type-v", "-fit", "--fit", "-lzm", "--lazy-mode", "--port",
        "--kv-cache-type",
    ),
    **_flags(_MAY_TAKE, "--numa", "-fa", "--flash-attn", "-mmp", "--mmap", "-nkvo",
             "--no-kv-offload", "--repack", "--no-host"),
    **_flags(_SWITCH, "--mlock", "--no-mmap", "-cmoe", "--cpu-moe", "-nr", "--no-repack",
             "-cb", "--cont-batching", "--embedding", "--multiuser-cache", "-dio", "--direct-io"),
}  # fmt: skip
_OF_KOBOLD = {
    **_flags(_TAKES, "--gpulayers", "--contextsize", "--blasthreads", "--blasbatchsize",
             "--tensor-split", "--maingpu", "--quantkv"),
    **_flags(_MAY_TAKE, "--moecpu", "--usevulkan", "--usecublas", "--usecuda", "--flashattention"),
    **_flags(_SWITCH, "--usemlock", "--usemmap", "--nommap", "--usecpu", "--noavx2", "--failsafe"),
}  # fmt: skip
_OF_LLAMA_CPP_PYTHON = {
    **_flags(_TAKES_TEXT, "--model"),
    **_flags(
        _TAKES, "--n-threads", "--n-threads-batch", "--n-gpu-layers", "--use-mmap", "--use-mlock",
        "--numa", "--n-ctx", "--n-batch", "--n-ubatch", "--split-mode", "--main-gpu",
        "--tensor-split", "--offload-kqv", "--flash-attn", "--type-k", "--type-v", "--port",
    ),
}  # fmt: skip
_OF_VLLM = {
    **_flags(_TAKES_TEXT, "--model"),
    **_flags(
        _TAKES, "--device", "--cpu-offload-gb", "--dtype", "-tp", "--tensor-parallel-size", "-pp",
        "--pipeline-parallel-size", "-dp", "--data-parallel-size", "--gpu-memory-utilization",
        "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--kv-cache-dtype", "-q",
        "--quantization", "--swap-space", "--load-format", "--block-size", "--kv-offloading-size",
        "--port", "--distributed-executor-backend",
    ),
    **_flags(_SWITCH, "--enforce-eager", "--enable-prefix-caching", "--no-enable-prefix-caching",
             "--enable-expert-parallel", "--numa-bind", "--async-scheduling"),
}  # fmt: skip
_OF_SGLANG = {
    **_flags(_TAKES_TEXT, "--model-path", "--model"),
    **_flags(
        _TAKES, "--device", "--cpu-offload-gb", "--numa-node", "--dtype", "--tp", "--tp-size",
        "--tensor-parallel-size", "--dp", "--dp-size", "--data-parallel-size", "--pp", "--pp-size",
        "--pipeline-parallel-size", "--mem-fraction-static", "--context-length",
        "--max-running-requests", "--max-total-tokens", "--chunked-prefill-size", "--quantization",
        "--kv-cache-dtype", "--attention-backend", "--hicache-ratio", "--hicache-size", "--port",
        "--load-format",
    ),
    **_flags(_SWITCH, "--disable-cuda-graph", "--disable-radix-cache", "--disable-overlap-schedule",
             "--enable-hierarchical-cache", "--enable-torch-compile"),
}  # fmt: skip
_FLAGS: Mapping[str | None, Mapping[str, str]] = {
    LLAMA_CPP: {**_OF_LLAMA, **_OF_KOBOLD},
    OLLAMA: _OF_LLAMA,
    LLAMA_CPP_PYTHON: _OF_LLAMA_CPP_PYTHON,
    VLLM: _OF_VLLM,
    SGLANG: _OF_SGLANG,
}

_SETTINGS = {
    **dict.fromkeys(("-t", "--threads", "--n-threads"), "threads"),
    **dict.fromkeys(("-ngl", "--gpu-layers", "--n-gpu-layers", "--gpulayers"), "gpu_layers"),
    **dict.fromkeys(("-dev", "--device"), "device"),
    **dict.fromkeys(("--numa", "--numa-node", "--numa-bind"), "numa"),
}
"""Flags whose value is the setting."""

_MAY_STAND_ALONE = ("--numa", "--numa-bind")

_SWITCHED = {
    **dict.fromkeys(("--mlock", "--usemlock", "--use-mlock"), "mlock"),
    **dict.fromkeys(("--mmap", "-mmp", "--usemmap", "--use-mmap"), "mmap"),
}
"""Flags that are on, or what follows says."""

_FIXED = {
    "--no-mmap": {"mmap": "off"},
    "--nommap": {"mmap": "off"},
    "--usecpu": {"device": "cpu"},
}
_LOAD = ("-lm", "--load-mode")
_LOAD_MODES = {
    "none": {"mmap": "off", "mlock": "off"},
    "mmap": {"mmap": "on", "mlock": "off"},
    "mlock": {"mmap": "off", "mlock": "on"},
    "mmap+mlock": {"mmap": "on", "mlock": "on"},
    "dio": {"mmap": "off", "mlock": "off"},
}
_OFFLOAD = (
    "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe", "-ncffn", "--n-cpu-ffn", "--moecpu",
    "--cpu-offload-gb",
)  # fmt: skip
_OVERRIDES = ("-ot", "--override-tensor")
_OFF = ("0", "off", "false", "no", "disabled")

_ENVIRONMENT_FLAGS: Mapping[str | None, Mapping[str, str]] = {
    LLAMA_CPP: {
        "LLAMA_ARG_THREADS": "--threads",
        "LLAMA_ARG_N_GPU_LAYERS": "--gpu-layers",
        "LLAMA_ARG_DEVICE": "--device",
        "LLAMA_ARG_NUMA": "--numa",
        "LLAMA_ARG_MLOCK": "--mlock",
        "LLAMA_ARG_MMAP": "--mmap",
        "LLAMA_ARG_NO_MMAP": "--no-mmap",
        "LLAMA_ARG_LOAD_MODE": "--load-mode",
        "LLAMA_ARG_N_CPU_MOE": "--n-cpu-moe",
        "LLAMA_ARG_CPU_MOE": "--cpu-moe",
        "LLAMA_ARG_N_CPU_FFN": "--n-cpu-ffn",
        "LLAMA_ARG_OVERRIDE_TENSOR": "--override-tensor",
    },
    LLAMA_CPP_PYTHON: {
        "N_THREADS": "--n-threads",
        "N_GPU_LAYERS": "--n-gpu-layers",
        "USE_MMAP": "--use-mmap",
        "USE_MLOCK": "--use-mlock",
        "NUMA": "--numa",
    },
    VLLM: {"OMP_NUM_THREADS": "--threads"},
    SGLANG: {"OMP_NUM_THREADS": "--threads"},
}
"""Names that stand for a flag; the flag itself comes before them."""

ENVIRONMENT = frozenset(
    [
        "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC", "OMP_WAIT_POLICY",
        "OMP_THREAD_LIMIT", "OMP_SCHEDULE", "OMP_MAX_ACTIVE_LEVELS", "OMP_NESTED", "OMP_STACKSIZE",
        "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "GOMP_STACKSIZE", "KMP_AFFINITY", "KMP_BLOCKTIME",
        "KMP_HW_SUBSET", "KMP_TPAUSE", "KMP_DYNAMIC_MODE", "KMP_FORKJOIN_BARRIER_PATTERN",
        "KMP_PLAIN_BARRIER_PATTERN", "KMP_REDUCTION_BARRIER_PATTERN", "MKL_NUM_THREADS",
        "MKL_DOMAIN_NUM_THREADS", "MKL_DYNAMIC", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR",
        "MKL_DEBUG_CPU_TYPE", "MKL_THREADING_LAYER", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE",
        "OPENBLAS_MAIN_FREE", "GOTO_NUM_THREADS", "GOTOBLAS_MAIN_FREE", "BLIS_NUM_THREADS",
        "BLIS_ARCH_TYPE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS",
        "DNNL_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE",
        "ATEN_CPU_CAPABILITY", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION", "GGML_BACKEND_PATH",
        "GGML_CPU_DISABLE_FUSION", "GGML_CPU_TILED_MM", "GGML_CUDA_DEVICES",
        "GGML_CUDA_DISABLE_FUSION", "GGML_CUDA_DISABLE_GRAPHS", "GGML_CUDA_ENABLE_UNIFIED_MEMORY",
        "GGML_CUDA_FORCE_CUBLAS", "GGML_CUDA_FORCE_MMQ", "GGML_CUDA_NO_PINNED",
        "GGML_CUDA_REGISTER_HOST", "GGML_DISABLE_VULKAN", "GGML_KLEIDIAI_SME",
        "GGML_OP_OFFLOAD_MIN_BATCH", "GGML_TOTAL_THREADS", "GGML_VK_VISIBLE_DEVICES",
        "LLAMA_ARG_THREADS", "LLAMA_ARG_N_GPU_LAYERS", "LLAMA_ARG_DEVICE", "LLAMA_ARG_NUMA",
        "LLAMA_ARG_MLOCK", "LLAMA_ARG_MMAP", "LLAMA_ARG_NO_MMAP", "LLAMA_ARG_LOAD_MODE",
        "LLAMA_ARG_LAZY_MODE", "LLAMA_ARG_CPU_MOE", "LLAMA_ARG_N_CPU_MOE", "LLAMA_ARG_N_CPU_FFN",
        "LLAMA_ARG_OVERRIDE_TENSOR", "LLAMA_ARG_MODEL", "LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_BATCH",
        "LLAMA_ARG_UBATCH", "LLAMA_ARG_N_PARALLEL", "LLAMA_ARG_FLASH_ATTN", "LLAMA_ARG_KV_OFFLOAD",
        "LLAMA_ARG_NO_KV_OFFLOAD", "LLAMA_ARG_REPACK", "LLAMA_ARG_NO_REPACK", "LLAMA_ARG_NO_HOST",
        "LLAMA_ARG_SPLIT_MODE", "LLAMA_ARG_TENSOR_SPLIT", "LLAMA_ARG_MAIN_GPU",
        "LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_CACHE_TYPE_V", "LLAMA_ARG_FIT", "LLAMA_ARG_FIT_TARGET",
        "LLAMA_ARG_FIT_CTX", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_PORT", "OLLAMA_NUM_PARALLEL",
        "OLLAMA_MAX_LOADED_MODELS", "OLLAMA_MAX_QUEUE", "OLLAMA_KEEP_ALIVE", "OLLAMA_LLM_LIBRARY",
        "OLLAMA_FLASH_ATTENTION", "OLLAMA_KV_CACHE_TYPE", "OLLAMA_GPU_OVERHEAD",
        "OLLAMA_SCHED_SPREAD", "OLLAMA_CONTEXT_LENGTH", "OLLAMA_MODELS", "OLLAMA_MAX_VRAM",
        "OLLAMA_INTEL_GPU", "OLLAMA_VULKAN", "OLLAMA_NEW_ENGINE", "VLLM_CPU_OMP_THREADS_BIND",
        "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU", "VLLM_CPU_SGL_KERNEL",
        "VLLM_TARGET_DEVICE", "VLLM_ATTENTION_BACKEND", "VLLM_SLEEP_WHEN_IDLE",
        "VLLM_WORKER_MULTIPROC_METHOD", "SGLANG_USE_CPU_ENGINE", "SGLANG_CPU_OMP_THREADS_BIND",
        "SGLANG_SET_CPU_AFFINITY", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "TOKENIZERS_PARALLELISM",
    ]
)  # fmt: skip
"""Names that are shown. None of them takes a key, a token or an address."""


def environment(written: bytes, engine: str | None) -> dict[str, str]:
    """What may be shown of /proc/PID/environ."""
    found: dict[str, str] = {}
    names = ENVIRONMENT | _ENVIRONMENT_FLAGS.get(engine, {}).keys()
    for entry in written.split(b"\0"):
        name, equals, value = entry.decode(errors="replace").partition("=")
        if not equals or name not in names:
            continue
        if _ENVIRONMENT_VALUE.fullmatch(value) and not _URL.search(value):
            found[name] = value
    return found


def command(name: str, argv: Sequence[str], engine: str | None) -> tuple[str, ...]:
    """The program, and those of its arguments that are known to be harmless."""
    if not argv:
        return ()
    words = [*_program(name, argv), *_shown(argv, engine)]
    return tuple(words[:MOST_WORDS])


def _program(name: str, argv: Sequence[str]) -> Iterator[str]:
    """The program, the script that it runs and the command of that, where they are plain names."""
    yield argv[0] if _NAME.fullmatch(argv[0]) else name
    rest = argv[1:]
    if engines.is_python(argv[0]):
        place = engines.script_place(rest)
        if place is None or not _NAME.fullmatch(rest[place]):
            return
        if place and rest[place - 1] == "-m":
            yield "-m"
        yield rest[place]
        rest = rest[place + 1 :]
    if rest and rest[0] in ("serve", "start", "runner", "bench", "run-batch"):
        yield rest[0]
        if rest[0] == "serve" and len(rest) > 1 and _is_model(rest[1]):
            yield rest[1]


def _is_model(word: str) -> bool:
    """Of `vllm serve MODEL`."""
    return bool(_NAME.fullmatch(word)) and not word.startswith("-")


def settings(argv: Sequence[str], told: Mapping[str, str], engine: str | None) -> dict[str, str]:
    """Settings that were asked for, by one name for all engines; `told` is the environment."""
    found: dict[str, str] = {}
    if engine == SGLANG and told.get("SGLANG_USE_CPU_ENGINE") == "1":
        found["device"] = "cpu"
    if engine == OLLAMA and told.get("OLLAMA_LLM_LIBRARY", "").startswith("cpu"):
        found["device"] = "cpu"
    for name, flag in _ENVIRONMENT_FLAGS.get(engine, {}).items():
        if name in told:
            found |= _set(flag, told[name])
    for _, flag, value in _parsed(argv[1:], engine):
        found |= _set(flag, value)
    return found


def _set(flag: str, value: str | None) -> dict[str, str]:
    """The settings that a flag stands for."""
    if value == LEFT_OUT:
        return {}
    if flag in _SETTINGS:
        told = value or ("on" if flag in _MAY_STAND_ALONE else None)
        return {_SETTINGS[flag]: told} if told else {}
    if flag in _SWITCHED:
        return {_SWITCHED[flag]: "off" if value and value.casefold() in _OFF else "on"}
    if flag in _LOAD:
        return _LOAD_MODES.get(value or "", {})
    if _leaves_weights(flag, value):
        return {"cpu_offload": " ".join(filter(None, (flag, value)))}
    return _FIXED.get(flag, {})


def _leaves_weights(flag: str, value: str | None) -> bool:
    """Whether it leaves weights in RAM, by a flag of which 0 is none."""
    if flag in _OVERRIDES:
        return "=CPU" in (value or "")
    is_none = value is not None and (value.casefold() in _OFF or not value.strip("0."))
    return flag in _OFFLOAD and not is_none


def _parsed(words: Sequence[str], engine: str | None) -> Iterator[tuple[str, str, str | None]]:
    """The flags that are known, as typed and in one spelling, with their values.

    All else is passed over.
    """
    known = _FLAGS.get(engine, {})
    place = 0
    while place < len(words):
        typed, equals, joined = words[place].partition("=")
        place += 1
        flag = typed.replace("_", "-") if typed.startswith("--") else typed
        kind = known.get(flag)
        if kind is None:
            continue
        value = joined if equals else None
        if not equals and place < len(words) and _takes(kind, words[place]):
            value = words[place]
            place += 1
        yield typed, flag, _harmless(kind, value)


def _takes(kind: str, following: str) -> bool:
    if kind == _MAY_TAKE:
        return bool(re.fullmatch(r"\w{1,20}", following))
    return kind != _SWITCH


def _harmless(kind: str, value: str | None) -> str | None:
    if value is None:
        return None
    form = _TEXT if kind == _TAKES_TEXT else _WORD
    return value if form.fullmatch(value) and not _URL.search(value) else LEFT_OUT


def _shown(argv: Sequence[str], engine: str | None) -> Iterator[str]:
    for typed, _, value in _parsed(argv[1:], engine):
        yield typed
        if value is not None:
            yield value
