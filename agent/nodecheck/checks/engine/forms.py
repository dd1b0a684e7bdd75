"""The forms of values that may be shown: what has not the form of its flag or variable is left out.

A key, a token or a password can come in any place and spelling. Numbers, known words, devices and
paths of plain parts cannot be one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

LEFT_OUT = "..."
"""Stands for a value that has not its form."""

Form = Callable[[str], str]
"""What may be shown of a value."""


def _like(form: str, longest: int = 200) -> Form:
    fits = re.compile(f"(?:{form})?", re.IGNORECASE | re.ASCII).fullmatch

    def show(value: str) -> str:
        return value if len(value) <= longest and fits(value.strip(" ")) else LEFT_OUT

    return show


def _listed(form: str) -> str:
    return f"(?:{form})(?:[,;/ ] ?(?:{form}))*"


_NUMBER = r"-?(?:\d{1,8}(?:\.\d{1,6})?|\.\d{1,6})[kmgt]?"
_NUMBERS = rf"{_NUMBER}(?:[,;:/+*x| -]{_NUMBER})*"
_SWITCH = "0|1|-1|on|off|true|false|yes|no|auto|none|enabled|disabled"
_DEVICE = (
    r"-1|none|auto|all|gpu|mps|npu|hpu|tpu|xla|blas|webgpu|gpuopencl|neuron|openvino|"
    r"(?:cpu|cuda|rocm|hip|vulkan|sycl|metal|mtl|cann|musa|xpu|opencl|htp|rpc|openvino):?\d{0,3}"
)
_CACHE = (
    r"auto|none|f16|f32|bf16|fp16|fp32|q[2-8]_(?:[01k]|k_[sml])|iq\d_(?:nl|xs|xxs|s|m)|"
    r"fp8(?:_(?:e4m3|e5m2|inc|ds_mla))?|fp4(?:_e2m1)?|int8|bfloat16|float16|nvfp4|\d{1,2}"
)
_QUANTISATION = (
    r"none|awq(?:_marlin)?|gptq(?:_marlin(?:_24)?)?|marlin|fp8|fbgemm_fp8|modelopt(?:_fp[48])?|gguf|"
    r"mxfp[48]|nvfp4|petit_nvfp4|w[48]a(?:8|16)_(?:int8|fp8)|bitsandbytes|compressed-tensors|hqq|"
    r"experts_int8|ipex|quark|moe_wna16|torchao|inc|rtn|qoq|auto-round|ptpc_fp8"
)
_LOAD_FORMAT = (
    r"auto|pt|safetensors|npcache|dummy|tensorizer|sharded_state|gguf|bitsandbytes|mistral|layered|"
    r"runai_streamer(?:_sharded)?|fastsafetensors|flash_rl|remote(?:_instance)?|jax"
)
_ATTENTION = (
    r"auto|flashinfer(?:_mla|_vllm_v1)?|fa[34]|triton(?:_mla|_attn)?(?:_vllm_v1)?|torch_(?:native|sdpa)|"
    r"flash_attn(?:_mla)?(?:_vllm_v1)?|flex_(?:flash_)?attention|flashmla|cutlass_mla|trtllm_m[lh]a|"
    r"aiter|wave|intel_(?:amx|xpu)|ascend|nsa|dual_chunk_flash_attn|xformers|cpu_attn|"
    r"rocm_(?:flash|attn|aiter_(?:fa|mla))"
)
_ISA = (
    r"default|all|auto|compatible|native|generic|neon|sve\d{0,4}|asimd|vsx|zvector|"
    r"sse(?:2|3|4_?[12])?|ssse3|avx(?:2|10|512)?(?:_?(?:e\d|mic|core|vnni|bf16|fp16|amx|int8|1|2|512))*"
)
_MICROARCHITECTURE = (
    r"generic|prescott|core2|penryn|dunnington|atom|nehalem|sandybridge|haswell|skylakex?|skx|knl|"
    r"cooperlake|sapphirerapids|athlon|opteron(?:_sse3)?|nano|barcelona|bobcat|bulldozer|piledriver|"
    r"steamroller|excavator|zen[2-5]?|armv[89](?:sve)?|cortex\w{1,4}|neoverse[nv][12]|thunderx\w{0,5}|"
    r"a64fx|firestorm|vortexm?\d?|power\d{1,2}|x86_64|intel64|amd64"
)
_BYTES = r"-?\d{1,15}(?:\.\d{1,3})? ?[kmgt]?i?b?"
_LASTS = r"-?(?:\d{1,6}(?:\.\d{1,3})?(?:ns|us|ms|s|m|h)){1,3}|-?\d{1,12}|infinite|infinity"
_MODE = r"auto|none|mmap|mlock|mmap\+mlock|dio|on|off|[01]"
_SPLIT = r"none|layer|row|tensor|graph|[0-3]"
_TYPE = r"auto|half|(?:b?float|b?f|fp|int)\d{1,2}|float|double"
_KMP = (
    r"verbose|noverbose|warnings|nowarnings|respect|norespect|reset|noreset|compact|scatter|balanced|"
    r"none|explicit|disabled|logical|physical|(?:granularity=)?(?:fine|thread|core|tile|die|socket|node|"
    r"group)|proclist=\[[{ ]*\d{1,4}(?:[{}, -]+\d{1,4})*[} ]*\]|\d{1,4}"
)
_BARRIER = "linear|tree|hyper|hierarchical|dist"
_CAPABILITY = (
    r"-?(?:(?:avx|sse|ssse|fma|bmi|xsave|erms|fsrm|rtm|lzcnt|movbe|popcnt)[0-9]{0,3}"
    r"(?:_?(?:[0-9]|usable|vl|bw|dq|cd|f|er|pf|ifma|vbmi|vnni)){0,3}|(?:prefer|fast|slow|avoid)_[a-z_]{1,30}|"
    r"x86-64-v[2-4])"
)
_TUNED = rf"\d{{1,12}}|0x[0-9a-f]{{1,8}}|{_listed(_CAPABILITY)}"
_TUNABLE = rf"glibc\.[a-z]{{1,10}}(?:\.[a-z0-9_]{{1,30}})?=(?:{_TUNED})"

NUMBERS = _like(f"{_NUMBERS}|auto|all|max|none", 64)
SWITCH = _like(_SWITCH)
DEVICES = _like(_listed(_DEVICE))
NUMA = _like(f"distribute|isolate|numactl|mirror|{_SWITCH}|{_NUMBERS}", 64)
MASK = _like(r"(?:0x)?(?:[0-9a-f]{1,8}|[0f]{1,64})")
MODE = _like(_listed(_MODE))
SPLIT = _like(_listed(_SPLIT))
CACHE_TYPE = _like(_listed(_CACHE))
NUMBER_TYPE = _like(_TYPE)
QUANTISATION = _like(_QUANTISATION)
LOAD_FORMAT = _like(_LOAD_FORMAT)
ATTENTION = _like(_ATTENTION)
EXECUTOR = _like("ray|mp|uni|external_launcher")
CUBLAS = _like("normal|lowvram|mmq|nommq|rowsplit|all|[0-9]")

_PLAIN = re.compile(r"(?!-)(?!.*//)[A-Za-z0-9._/+-]{1,200}")
_MODEL = re.compile(r".*/.*|.*\.(?:gguf|ggml|bin|safetensors|pth?)")
_TAG = re.compile(r":[A-Za-z0-9._-]{1,40}\Z")
_HASH = re.compile(r"(?<=/sha256-)[0-9a-f]{64}\Z|(?<=/snapshots/)[0-9a-f]{40}(?=/|\Z)")
"""What ollama and Hugging Face call the files that they keep."""

_KEY = re.compile(
    r"(?:\b|_)(?:hf_|[sprg]k[-_]|sk\.|gh[pousr]_|github_|glpat|gsk_|xox|nvapi|api[_-]?key|npm_|pypi-|dckr_|"
    r"ya29|bearer|r8_)|(?:\b|_)(?-i:A[KS]IA|eyJ|AIza)|"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    re.IGNORECASE,
)
_RUN = re.compile(r"[A-Za-z0-9]{12,}")
_CHANGE = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_LONG, _VERY_LONG, _MIXED_SHARE = 20, 32, 0.4
"""Parts of names are shorter than keys, and change less often between small, capital and digit."""


def looks_like_key(text: str) -> bool:
    """Whether a part of it may be a key: by how keys begin, or as a long mix of letters."""
    return bool(_KEY.search(text)) or any(map(_is_random, _RUN.findall(text)))


def _is_random(run: str) -> bool:
    is_mixed = not (run.isalpha() or run.isdigit())
    if len(run) >= (_LONG if is_mixed else _VERY_LONG):
        return True
    return len(_CHANGE.findall(run)) >= _MIXED_SHARE * (len(run) - 1)


def is_plain(word: str) -> bool:
    """Whether it is a name or a path of plain parts, none of which looks like a key."""
    return bool(_PLAIN.fullmatch(word)) and not looks_like_key(_HASH.sub("", word))


def path(value: str) -> str:
    """The path or repository of a model, as far as it is plain."""
    named = _TAG.sub("", value)
    fits = _MODEL.fullmatch(named) and is_plain(named) and not looks_like_key(value[len(named) :])
    return value if fits else LEFT_OUT


_OVERRIDE = re.compile(rf".*=({_DEVICE})", re.IGNORECASE | re.ASCII | re.DOTALL)


def overrides(value: str) -> str:
    """Of PATTERN=DEVICE,... the devices: a pattern can hold anything."""
    found = (_OVERRIDE.fullmatch(part) for part in re.split("[,;]", value))
    shown = (f"{LEFT_OUT}={each[1]}" if each else LEFT_OUT for each in found)
    return ",".join(dict.fromkeys(shown))


def _named(form: Form, *names: str) -> dict[str, Form]:
    return dict.fromkeys(names, form)


ENVIRONMENT: Mapping[str, Form] = {
    **_named(
        NUMBERS, "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_MAX_ACTIVE_LEVELS", "KMP_TPAUSE",
        "GOMP_CPU_AFFINITY", "MKL_NUM_THREADS", "MKL_DEBUG_CPU_TYPE", "OPENBLAS_NUM_THREADS",
        "GOTO_NUM_THREADS", "BLIS_NUM_THREADS", "GGML_OP_OFFLOAD_MIN_BATCH", "GGML_TOTAL_THREADS",
        "GGML_CUDA_DEVICES", "LLAMA_ARG_THREADS", "LLAMA_ARG_N_GPU_LAYERS", "LLAMA_ARG_N_CPU_MOE",
        "LLAMA_ARG_N_CPU_FFN", "LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_BATCH", "LLAMA_ARG_UBATCH",
        "LLAMA_ARG_N_PARALLEL", "LLAMA_ARG_TENSOR_SPLIT", "LLAMA_ARG_MAIN_GPU",
        "LLAMA_ARG_FIT_TARGET", "LLAMA_ARG_FIT_CTX", "LLAMA_ARG_PORT", "OLLAMA_NUM_PARALLEL",
        "OLLAMA_MAX_LOADED_MODELS", "OLLAMA_MAX_QUEUE", "OLLAMA_CONTEXT_LENGTH",
        "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU", "MALLOC_ARENA_MAX",
    ),
    **_named(
        SWITCH, "OMP_DYNAMIC", "OMP_NESTED", "MKL_DYNAMIC", "OPENBLAS_MAIN_FREE",
        "GOTOBLAS_MAIN_FREE", "GGML_CPU_DISABLE_FUSION", "GGML_CPU_TILED_MM",
        "GGML_CUDA_DISABLE_FUSION", "GGML_CUDA_DISABLE_GRAPHS", "GGML_CUDA_ENABLE_UNIFIED_MEMORY",
        "GGML_CUDA_FORCE_CUBLAS", "GGML_CUDA_FORCE_MMQ", "GGML_CUDA_NO_PINNED",
        "GGML_CUDA_REGISTER_HOST", "GGML_DISABLE_VULKAN", "GGML_KLEIDIAI_SME", "LLAMA_ARG_MLOCK",
        "LLAMA_ARG_MMAP", "LLAMA_ARG_NO_MMAP", "LLAMA_ARG_CPU_MOE", "LLAMA_ARG_FLASH_ATTN",
        "LLAMA_ARG_KV_OFFLOAD", "LLAMA_ARG_NO_KV_OFFLOAD", "LLAMA_ARG_REPACK",
        "LLAMA_ARG_NO_REPACK", "LLAMA_ARG_NO_HOST", "LLAMA_ARG_FIT", "OLLAMA_FLASH_ATTENTION",
        "OLLAMA_SCHED_SPREAD", "OLLAMA_INTEL_GPU", "OLLAMA_VULKAN", "OLLAMA_NEW_ENGINE",
        "VLLM_CPU_SGL_KERNEL", "VLLM_SLEEP_WHEN_IDLE", "SGLANG_USE_CPU_ENGINE",
        "SGLANG_SET_CPU_AFFINITY", "TOKENIZERS_PARALLELISM",
    ),
    **_named(
        _like(rf"{_NUMBERS}|none|all|void|NoDevFiles|{_listed('(?:GPU|MIG)-[0-9a-f-]{1,36}')}"),
        "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "GGML_VK_VISIBLE_DEVICES",
    ),
    **_named(DEVICES, "LLAMA_ARG_DEVICE", "VLLM_TARGET_DEVICE"),
    **_named(path, "GGML_BACKEND_PATH", "LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO", "OLLAMA_MODELS"),
    **_named(_like(_BYTES), "OMP_STACKSIZE", "GOMP_STACKSIZE", "OLLAMA_GPU_OVERHEAD",
             "OLLAMA_MAX_VRAM"),
    **_named(_like(_LASTS), "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OLLAMA_KEEP_ALIVE"),
    **_named(_like(_listed(_BARRIER)), "KMP_FORKJOIN_BARRIER_PATTERN", "KMP_PLAIN_BARRIER_PATTERN",
             "KMP_REDUCTION_BARRIER_PATTERN"),
    **_named(_like(_listed(f"{_ISA}|strict")), "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR",
             "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"),
    **_named(_like("no_hints|prefer_ymm"), "ONEDNN_CPU_ISA_HINTS", "DNNL_CPU_ISA_HINTS"),
    **_named(_like("strict|bf16|f16|tf32|any"), "ONEDNN_DEFAULT_FPMATH_MODE",
             "DNNL_DEFAULT_FPMATH_MODE"),
    **_named(_like(_MICROARCHITECTURE), "OPENBLAS_CORETYPE", "BLIS_ARCH_TYPE"),
    **_named(_like(f"auto|all|nobind|{_NUMBERS}"), "VLLM_CPU_OMP_THREADS_BIND",
             "SGLANG_CPU_OMP_THREADS_BIND"),
    **_named(MODE, "LLAMA_ARG_LOAD_MODE", "LLAMA_ARG_LAZY_MODE"),
    **_named(CACHE_TYPE, "LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_CACHE_TYPE_V",
             "OLLAMA_KV_CACHE_TYPE"),
    "LLAMA_ARG_NUMA": NUMA,
    "LLAMA_ARG_OVERRIDE_TENSOR": overrides,
    "LLAMA_ARG_SPLIT_MODE": SPLIT,
    "OMP_PROC_BIND": _like(_listed("true|false|spread|close|master|primary")),
    "OMP_PLACES": _like(
        r"(?:threads|cores|sockets|ll_caches|numa_domains)(?:\(\d{1,4}\))?|"
        r"[{! ]*\d{1,4}(?:[{},:! -]+\d{1,4})*[} ]*"
    ),
    "OMP_WAIT_POLICY": _like("active|passive"),
    "OMP_SCHEDULE": _like(
        r"(?:(?:non)?monotonic:)?(?:static|dynamic|guided|auto|runtime)(?:,\d{1,8})?"
    ),
    "KMP_AFFINITY": _like(_listed(_KMP)),
    "KMP_HW_SUBSET": _like(
        _listed(r":?\d{1,4}(?:socket|die|node|numa_domain|tile|core|thread|ll_cache|l\dcache|[sdnct])s?"
                r"(?:@\d{1,4})?")
    ),
    "KMP_DYNAMIC_MODE": _like("load_balance|thread_limit|random"),
    "MKL_DOMAIN_NUM_THREADS": _like(
        _listed(r"(?:MKL_(?:DOMAIN_)?)(?:ALL|BLAS|FFT|VML|PARDISO|LAPACK)[=: ]\d{1,4}")
    ),
    "MKL_THREADING_LAYER": _like("intel|gnu|tbb|sequential|pgi"),
    "CUDA_DEVICE_ORDER": _like("fastest_first|pci_bus_id"),
    "HSA_OVERRIDE_GFX_VERSION": _like(r"\d{1,2}\.\d{1,2}\.\d{1,2}"),
    "OLLAMA_LLM_LIBRARY": _like(
        r"cpu(?:_(?:avx2?|avx512|x64|haswell|skylakex|icelake|alderlake|sandybridge|sse42))?|"
        r"(?:cuda|rocm|oneapi|metal|vulkan|jetpack)(?:_?v\d{1,5})?(?:_avx2?)?"
    ),
    "VLLM_ATTENTION_BACKEND": ATTENTION,
    "VLLM_WORKER_MULTIPROC_METHOD": _like("spawn|fork|forkserver"),
    "GLIBC_TUNABLES": _like(f"{_TUNABLE}(?::{_TUNABLE})*"),
}  # fmt: skip
"""Names that are shown. None of them takes a key, a token or an address."""
