"""An engine's arguments and environment: what may be shown of them, and the settings that matter.

Only flags that stand here and names of forms.ENVIRONMENT are shown, with values of their form
(forms.py). Sources: llama.cpp
(common/arg.cpp, tools/llama-bench), llama-cpp-python (llama_cpp/server/settings.py), koboldcpp.py,
ollama (llm/server.go, llm/llama_server.go), vLLM (engine/arg_utils.py, envs.py), SGLang
(srt/server_args.py, srt/utils).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nodecheck.checks.engine import engines, forms
from nodecheck.checks.engine.engines import LLAMA_CPP, LLAMA_CPP_PYTHON, OLLAMA, SGLANG, VLLM
from nodecheck.checks.engine.forms import (
    ENVIRONMENT,
    LEFT_OUT,
    NUMBERS,
    SWITCH,
    Form,
    is_plain,
    looks_like_key,
)

MOST_WORDS = 64
"""Of a command that is shown."""

_Flags = Mapping[str, Form | None]
"""What follows a flag: a value, or nothing."""


def _flags(form: Form | None, *names: str) -> dict[str, Form | None]:
    return dict.fromkeys(names, form)


_OF_LLAMA: _Flags = {
    **_flags(forms.path, "-m", "--model", "-hf", "-hfr", "--hf-repo", "-md", "--model-draft"),
    **_flags(forms.overrides, "-ot", "--override-tensor"),
    **_flags(
        NUMBERS, "-t", "--threads", "-tb", "--threads-batch", "-td", "--threads-draft", "-ngl",
        "--gpu-layers", "--n-gpu-layers", "-ngld", "--gpu-layers-draft", "-ncmoe", "--n-cpu-moe",
        "-ncffn", "--n-cpu-ffn", "-c", "--ctx-size", "-b", "--batch-size", "-ub", "--ubatch-size",
        "-np", "--parallel", "-Cr", "--cpu-range", "--cpu-strict", "--prio", "--poll", "-ts",
        "--tensor-split", "-mg", "--main-gpu", "--port",
    ),
    **_flags(forms.DEVICES, "-dev", "--device"),
    **_flags(forms.MODE, "-lm", "--load-mode", "-lzm", "--lazy-mode"),
    **_flags(forms.MASK, "-C", "--cpu-mask"),
    **_flags(forms.SPLIT, "-sm", "--split-mode"),
    **_flags(forms.CACHE_TYPE, "-ctk", "--cache-type-k", "-ctv", "--cache-type-v",
             "--kv-cache-type"),
    **_flags(SWITCH, "-fit", "--fit", "-fa", "--flash-attn", "-mmp", "--mmap", "-nkvo",
             "--no-kv-offload", "--repack", "--no-host"),
    **_flags(forms.NUMA, "--numa"),
    **_flags(None, "--mlock", "--no-mmap", "-cmoe", "--cpu-moe", "-nr", "--no-repack",
             "-cb", "--cont-batching", "--embedding", "--multiuser-cache", "-dio", "--direct-io"),
}  # fmt: skip
_OF_KOBOLD: _Flags = {
    **_flags(NUMBERS, "--gpulayers", "--contextsize", "--blasthreads", "--blasbatchsize",
             "--tensor-split", "--maingpu", "--quantkv", "--moecpu", "--usevulkan"),
    **_flags(forms.CUBLAS, "--usecublas", "--usecuda"),
    **_flags(SWITCH, "--flashattention"),
    **_flags(None, "--usemlock", "--usemmap", "--nommap", "--usecpu", "--noavx2", "--failsafe"),
}  # fmt: skip
_OF_LLAMA_CPP_PYTHON: _Flags = {
    **_flags(forms.path, "--model"),
    **_flags(
        NUMBERS, "--n-threads", "--n-threads-batch", "--n-gpu-layers", "--n-ctx", "--n-batch",
        "--n-ubatch", "--main-gpu", "--tensor-split", "--type-k", "--type-v", "--port",
    ),
    **_flags(SWITCH, "--use-mmap", "--use-mlock", "--offload-kqv", "--flash-attn"),
    **_flags(forms.NUMA, "--numa"),
    **_flags(forms.SPLIT, "--split-mode"),
}  # fmt: skip
_OF_BOTH: _Flags = {
    **_flags(
        NUMBERS, "--cpu-offload-gb", "--tensor-parallel-size", "--pipeline-parallel-size",
        "--data-parallel-size", "--port",
    ),
    **_flags(forms.DEVICES, "--device"),
    **_flags(forms.NUMBER_TYPE, "--dtype"),
    **_flags(forms.CACHE_TYPE, "--kv-cache-dtype"),
    **_flags(forms.QUANTISATION, "--quantization"),
    **_flags(forms.LOAD_FORMAT, "--load-format"),
    **_flags(forms.path, "--model"),
}  # fmt: skip
_OF_VLLM: _Flags = {
    **_OF_BOTH,
    **_flags(
        NUMBERS, "-tp", "-pp", "-dp", "--gpu-memory-utilization", "--max-model-len",
        "--max-num-seqs", "--max-num-batched-tokens", "--swap-space", "--block-size",
        "--kv-offloading-size",
    ),
    **_flags(forms.QUANTISATION, "-q"),
    **_flags(forms.EXECUTOR, "--distributed-executor-backend"),
    **_flags(None, "--enforce-eager", "--enable-prefix-caching", "--no-enable-prefix-caching",
             "--enable-expert-parallel", "--numa-bind", "--async-scheduling"),
}  # fmt: skip
_OF_SGLANG: _Flags = {
    **_OF_BOTH,
    **_flags(forms.path, "--model-path"),
    **_flags(
        NUMBERS, "--tp", "--tp-size", "--dp", "--dp-size", "--pp", "--pp-size",
        "--mem-fraction-static", "--context-length", "--max-running-requests", "--max-total-tokens",
        "--chunked-prefill-size", "--hicache-ratio", "--hicache-size",
    ),
    **_flags(forms.NUMA, "--numa-node"),
    **_flags(forms.ATTENTION, "--attention-backend"),
    **_flags(None, "--disable-cuda-graph", "--disable-radix-cache", "--disable-overlap-schedule",
             "--enable-hierarchical-cache", "--enable-torch-compile"),
}  # fmt: skip
FLAGS: Mapping[str | None, _Flags] = {
    LLAMA_CPP: {**_OF_LLAMA, **_OF_KOBOLD},
    OLLAMA: _OF_LLAMA,
    LLAMA_CPP_PYTHON: _OF_LLAMA_CPP_PYTHON,
    VLLM: _OF_VLLM,
    SGLANG: _OF_SGLANG,
}

_MAY_TAKE = frozenset(
    ["--numa", "-fa", "--flash-attn", "-mmp", "--mmap", "-nkvo", "--no-kv-offload", "--repack",
     "--no-host", "--moecpu", "--usevulkan", "--usecublas", "--usecuda", "--flashattention"]
)  # fmt: skip
"""Flags that can also stand alone: what follows is theirs where it has their form."""

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


def environment(written: bytes, engine: str | None) -> dict[str, str]:
    """What may be shown of /proc/PID/environ."""
    found: dict[str, str] = {}
    for entry in written.split(b"\0"):
        name, equals, value = entry.decode(errors="replace").partition("=")
        form = _form_of(name, engine)
        if equals and form and (shown := form(value)) != LEFT_OUT:
            found[name] = shown
    return found


def _form_of(name: str, engine: str | None) -> Form | None:
    """Of a variable that is known; of one that only this engine takes, it is that of its flag."""
    flag = _ENVIRONMENT_FLAGS.get(engine, {}).get(name)
    return ENVIRONMENT.get(name) or (FLAGS[engine].get(flag) if flag else None)


def command(name: str, argv: Sequence[str], engine: str | None) -> tuple[str, ...]:
    """The program, and those of its arguments that are known to be harmless."""
    if not argv:
        return ()
    words = [*_program(name, argv), *_shown(argv, engine)]
    return tuple(words[:MOST_WORDS])


def _program(name: str, argv: Sequence[str]) -> Iterator[str]:
    """The program, the script that it runs and the command of that, where they are plain names."""
    program, rest = argv[0], argv[1:]
    yield program if is_plain(program) else LEFT_OUT if looks_like_key(name) else name
    if engines.is_python(program):
        place = engines.script_place(rest)
        if place is None or not is_plain(rest[place]):
            return
        if place and rest[place - 1] == "-m":
            yield "-m"
        program, rest = rest[place], rest[place + 1 :]
        yield program
    if rest and rest[0] in ("serve", "start", "runner", "bench", "run-batch"):
        yield rest[0]
        is_vllm = program.rpartition("/")[2] == "vllm"
        if is_vllm and rest[0] == "serve" and rest[1:] and not rest[1].startswith("-"):
            yield forms.path(rest[1])


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
    known = FLAGS.get(engine, {})
    place = 0
    while place < len(words):
        typed, equals, joined = words[place].partition("=")
        place += 1
        flag = typed.replace("_", "-") if typed.startswith("--") else typed
        if flag not in known:
            continue
        form, value = known[flag], joined if equals else None
        if not equals and place < len(words) and _takes(flag, form, words[place]):
            value = words[place]
            place += 1
        yield typed, flag, value and (form(value) if form else LEFT_OUT)


def _takes(flag: str, form: Form | None, following: str) -> bool:
    if form is None:
        return False
    return flag not in _MAY_TAKE or form(following) != LEFT_OUT


def _shown(argv: Sequence[str], engine: str | None) -> Iterator[str]:
    for typed, _, value in _parsed(argv[1:], engine):
        yield typed
        if value is not None:
            yield value
