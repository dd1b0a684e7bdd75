"""What may be shown of a command and an environment, and the settings in them."""

from __future__ import annotations

import shlex

import pytest

from nodecheck.checks.engine.arguments import command, environment, settings
from nodecheck.checks.engine.forms import ENVIRONMENT, LEFT_OUT

SECRET = "hunter2-sk-9f8e7d"


def shown(line: str, engine: str | None = "llama.cpp", name: str = "program") -> str:
    return " ".join(command(name, shlex.split(line), engine))


def asked(line: str, engine: str = "llama.cpp", **names: str) -> dict[str, str]:
    return settings(shlex.split(line), names, engine)


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("llama-server -m /models/a b.gguf -t 8 -ngl 99 --mlock --no-mmap".replace(" b", "b"),
         "llama.cpp"),
        ("./llama-bench -m m.gguf -t 1,2,4 -mmp 0", "llama.cpp"),
        ("llama-server --numa --threads 4", "llama.cpp"),
        ("python3 koboldcpp.py --threads 6 --gpulayers 40 --usemlock", "llama.cpp"),
        ("python3 -m llama_cpp.server --model m.gguf --n_threads 4", "llama-cpp-python"),
        ("/usr/bin/ollama runner --model /blobs/sha256-1f --threads 8 --no-mmap", "ollama"),
        ("/venv/bin/python3 /venv/bin/vllm serve Qwen/Qwen3-8B -tp 2 --cpu-offload-gb 8", "vllm"),
        ("python3 -m sglang.launch_server --model-path q/q --tp 2 --device cpu", "sglang"),
        ("ollama serve", "ollama"),
    ],
)  # fmt: skip
def test_a_command_of_harmless_words_is_shown_whole(line: str, engine: str) -> None:
    assert shown(line, engine) == line


SPELLINGS = (
    "--api-key {}",
    "--api-key={}",
    "--api_key {}",
    "--api_key={}",
    "--API-KEY {}",
    "--hf-token {}",
    "-hft {}",
    "-hft={}",
    "--ssl-key-file {}",
    "--password {}",
    "--model-url https://user:{}@example.org/m.gguf",
    "-mu https://example.org/m.gguf?token={}",
    "--model https://user:{}@example.org/m.gguf",
    "--model=https://example.org/m.gguf?token={}",
    "-m user:{}@example.org",
    '--hf-overrides \'{{"token": "{}"}}\'',
    "--middleware {}",
    "-p {}",
    "--prompt {}",
    "--system-prompt '{}'",
    "{}",
    "-- {}",
    "=={}",
    "--={}",
    "-t 8 {}",
    "--mlock {} --no-mmap",
    "--threads '{} is my word'",
    "-t 'x\ny{}'",
    "'--threads 8 --api-key {}'",
    "--seed={}",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    ("start", "engine"),
    [
        ("llama-server", "llama.cpp"),
        ("python3 koboldcpp.py", "llama.cpp"),
        ("python3 -m llama_cpp.server", "llama-cpp-python"),
        ("ollama runner", "ollama"),
        ("python3 /venv/bin/vllm serve Qwen/Qwen3-8B", "vllm"),
        ("python3 -m sglang.launch_server", "sglang"),
        ("python3 own.py", "vllm"),
        ("program", None),
        ("python3 -c 'run(\"{}\")'", None),
    ],
)
def test_no_secret_is_shown(spelling: str, start: str, engine: str | None) -> None:
    line = f"{start.format(SECRET)} {spelling.format(SECRET)}"
    assert SECRET not in shown(line, engine)
    assert SECRET not in str(settings(shlex.split(line), {}, engine))


@pytest.mark.parametrize(
    "title",
    [f"python3 app.py --api-key {SECRET}", f"app: key={SECRET}", f"https://u:{SECRET}@example.org"],
)
def test_a_title_that_holds_a_whole_command(title: str) -> None:
    assert command("app", [title], None) == ("app",)


def test_the_rest_of_a_command_stays() -> None:
    line = f"llama-server --api-key {SECRET} -t 8 --threads 'a b' -ngl 0"
    assert shown(line) == f"llama-server -t 8 --threads {LEFT_OUT} -ngl 0"


def test_nothing_of_an_unknown_program_but_its_name() -> None:
    assert shown("/opt/tool --threads 8 --model m.gguf", None) == "/opt/tool"
    assert shown("python3 -u own/serve.py --threads 8", None) == "python3 own/serve.py"
    assert shown("python3 -c code", None) == "python3"
    assert command("kworker", [], None) == ()


def test_a_command_without_end() -> None:
    words = command("x", ["llama-server", *["-t", "8"] * 10_000], "llama.cpp")
    assert len(words) == 64


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("-t 8 -ngl 33", {"threads": "8", "gpu_layers": "33"}),
        ("--threads 8 --n-gpu-layers all", {"threads": "8", "gpu_layers": "all"}),
        ("--n_gpu_layers 0", {"gpu_layers": "0"}),
        ("-ngl -1", {"gpu_layers": "-1"}),
        ("--gpu-layers=0", {"gpu_layers": "0"}),
        ("-t 4 -t 6", {"threads": "6"}),
        ("-dev none", {"device": "none"}),
        ("--numa distribute", {"numa": "distribute"}),
        ("--numa -t 4", {"numa": "on", "threads": "4"}),
        ("--mlock", {"mlock": "on"}),
        ("--no-mmap", {"mmap": "off"}),
        ("-mmp 0", {"mmap": "off"}),
        ("--mmap 1", {"mmap": "on"}),
        ("--mmap", {"mmap": "on"}),
        ("-lm mlock", {"mmap": "off", "mlock": "on"}),
        ("--load-mode mmap+mlock", {"mmap": "on", "mlock": "on"}),
        ("--load-mode auto", {}),
        ("--cpu-moe", {"cpu_offload": "--cpu-moe"}),
        ("-ncmoe 20", {"cpu_offload": "-ncmoe 20"}),
        ("-ncmoe 0", {}),
        ("-ot 'blk\\.(1|2)\\.ffn_.*=CPU'", {"cpu_offload": "-ot ...=CPU"}),
        ("-ot exps=CUDA1", {}),
        ("--usemlock --usecpu --gpulayers 0", {"mlock": "on", "device": "cpu", "gpu_layers": "0"}),
        ("-m", {}),
        ("-t", {}),
        ("-td 3 -ngld 2", {}),
    ],
)
def test_settings_of_llama_cpp(flags: str, found: dict[str, str]) -> None:
    assert asked(f"llama-server {flags}") == found


@pytest.mark.parametrize(
    ("line", "engine", "found"),
    [
        (
            "python3 -m llama_cpp.server --n_threads 4 --use_mlock false --use_mmap True",
            "llama-cpp-python",
            {"threads": "4", "mlock": "off", "mmap": "on"},
        ),
        (
            "ollama runner --threads 8 --n-gpu-layers 33 --no-mmap --mlock",
            "ollama",
            {"threads": "8", "gpu_layers": "33", "mmap": "off", "mlock": "on"},
        ),
        ("vllm serve q --cpu-offload-gb 8.5", "vllm", {"cpu_offload": "--cpu-offload-gb 8.5"}),
        ("vllm serve q --cpu_offload_gb=0.0", "vllm", {}),
        ("python -m sglang.launch_server --device cpu", "sglang", {"device": "cpu"}),
    ],
)
def test_settings_of_others(line: str, engine: str, found: dict[str, str]) -> None:
    assert asked(line, engine) == found


def test_settings_of_the_environment() -> None:
    assert asked("llama-server", LLAMA_ARG_THREADS="6", LLAMA_ARG_MLOCK="1") == {
        "threads": "6",
        "mlock": "on",
    }
    assert asked("llama-server -t 4", LLAMA_ARG_THREADS="6") == {"threads": "4"}
    assert asked("llama-server", LLAMA_ARG_NO_MMAP="1") == {"mmap": "off"}
    assert asked("llama-server", LLAMA_ARG_MLOCK="0") == {"mlock": "off"}
    assert asked("llama-server", OMP_NUM_THREADS="2") == {}
    assert asked("vllm serve q", "vllm", OMP_NUM_THREADS="2") == {"threads": "2"}
    assert asked("python x", "sglang", SGLANG_USE_CPU_ENGINE="1") == {"device": "cpu"}
    assert asked("ollama serve", "ollama", OLLAMA_LLM_LIBRARY="cpu_avx2") == {"device": "cpu"}


def environ(**names: str) -> bytes:
    return b"".join(f"{name}={value}\0".encode() for name, value in names.items())


def test_an_environment() -> None:
    written = environ(
        PATH="/bin",
        OMP_NUM_THREADS="8",
        CUDA_VISIBLE_DEVICES="",
        HF_TOKEN=SECRET,
        OPENAI_API_KEY=SECRET,
        LLAMA_API_KEY=SECRET,
        LLAMA_ARG_API_KEY_FILE="/run/key",
        OLLAMA_HOST="10.0.0.1",
        GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2_Usable",
    )
    assert environment(written, "vllm") == {
        "OMP_NUM_THREADS": "8",
        "CUDA_VISIBLE_DEVICES": "",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable",
    }


@pytest.mark.parametrize(
    "value",
    [f"https://u:{SECRET}@example.org", f"u:{SECRET}@x", f"s3://{SECRET}", "x\x1b[2J", "y" * 201],
)
def test_a_value_that_is_not_what_it_should_be(value: str) -> None:
    assert environment(environ(GGML_BACKEND_PATH=value), "llama.cpp") == {}


@pytest.mark.parametrize(
    "written", [b"", b"\0\0", b"OMP_NUM_THREADS", b"=x\0", b"\xff\xfe=\xff\0", b"VLLM::Worker\0\0"]
)
def test_what_is_no_environment(written: bytes) -> None:
    assert environment(written, None) == {}


def test_names_that_only_one_engine_takes() -> None:
    assert environment(environ(N_THREADS="4"), "llama-cpp-python") == {"N_THREADS": "4"}
    assert environment(environ(N_THREADS="4"), "vllm") == {}


def test_no_name_is_of_a_secret() -> None:
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD", "URL", "HOST", "PROXY", "HEADER")
    allowed = {"TOKENIZERS_PARALLELISM", "GGML_CUDA_REGISTER_HOST", "LLAMA_ARG_NO_HOST"}
    assert {name for name in ENVIRONMENT if any(part in name for part in secret)} == allowed
