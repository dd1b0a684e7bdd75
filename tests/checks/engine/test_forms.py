"""No value that may be secret is shown, wherever it stands; ordinary ones are."""

from __future__ import annotations

import shlex
import string
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.engine.arguments import FLAGS, command, environment, settings
from nodecheck.checks.engine.engines import ENGINES
from nodecheck.checks.engine.forms import ENVIRONMENT, LEFT_OUT, is_plain, path
from nodecheck.checks.engine.held import hold
from nodecheck.checks.seen import Facts
from nodecheck.machine.reader import Reader
from nodecheck.model import pretty_json
from nodecheck.policy import Policy
from nodecheck.render.attach.terminal import render
from nodecheck.render.layout import plain
from nodecheck.report import HostInfo, Report
from tests.checks.engine import captures
from tests.checks.engine.engines import HEALTHY
from tests.trees import plant

LETTERS = string.ascii_letters + string.digits
KEYS = st.one_of(
    *(
        st.text(LETTERS, min_size=8, max_size=40).map(start.__add__)
        for start in ("hf_", "sk-", "sk-proj-", "ghp_", "github_pat_", "xoxb-", "AKIA", "eyJ")
    ),
    st.text("0123456789abcdef", min_size=32, max_size=64),
    st.text(LETTERS, min_size=40, max_size=64),
    st.uuids().map(str),
).filter(lambda key: set(key.lower()) - set("0f"))  # a mask of CPUs
WORDS = st.sampled_from(["hunter2", "correcthorse", "Tr0ub4dor&3", "p4ss", "letmein!", "S3CR"])


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
def test_no_flag_shows_a_key(engine: str, data: st.DataObject) -> None:
    known = FLAGS[engine]
    flag = data.draw(st.sampled_from(sorted(known)))
    secret = data.draw(KEYS if known[flag] is path else KEYS | WORDS)
    for words in ([flag, secret], [f"{flag}={secret}"], ["--password", flag, secret]):
        for argv in (["llama-server", *words], ["python3", "-m", "x", *words]):
            assert secret not in str(command("x", argv, engine))
            assert secret not in str(settings(argv, {}, engine))


@given(st.sampled_from(sorted(ENVIRONMENT)), st.sampled_from(ENGINES), KEYS)
def test_no_variable_shows_a_key(name: str, engine: str, secret: str) -> None:
    for value in (secret, f"/m?token={secret}", f"8,{secret}", f"/models/{secret}/m.gguf"):
        assert environment(f"{name}={value}".encode(), engine) == {}


@pytest.mark.parametrize(
    "form",
    [
        "x.gguf --api-key {}", "/m/x.gguf?sig={}", "//u:{}/x", "//u:PW/x?token={}", "u:{}@h/x.gguf",
        "/m/{}/x.gguf", "/m/x-{}.gguf", "o/m:{}", "s3:/{}/x", "/m/x.gguf;{}", "/m/k={}/x.gguf",
    ],
)  # fmt: skip
@given(secret=KEYS)
def test_no_path_shows_a_key(form: str, secret: str) -> None:
    assert path(form.format(secret)) == LEFT_OUT


def test_no_path_shows_a_key_with_slashes() -> None:
    assert path("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY") == LEFT_OUT


@pytest.mark.parametrize(
    "line",
    [
        "python3 run.py serve {}", "{} -t 8", "/opt/{}/llama-server -t 8", "python3 {}.py",
        "python3 -m {}", "vllm serve {}", "vllm serve x?token={}", "python3 vllm serve {}",
    ],
)  # fmt: skip
@given(secret=KEYS)
def test_no_word_of_the_program_shows_a_key(line: str, secret: str) -> None:
    for engine in (*ENGINES, None):
        assert secret not in str(command("app", shlex.split(line.format(secret)), engine))


def test_no_name_shows_a_key() -> None:
    assert command("hf_a1B2c3D4e5F6", ["hf_a1B2c3D4e5F6 x"], None) == (LEFT_OUT,)


def test_a_plain_word_after_the_command_of_another_is_not_shown() -> None:
    for engine in (*ENGINES, None):
        shown = command("x", ["python3", "run.py", "serve", "hunter2/pass"], engine)
        assert shown == ("python3", "run.py", "serve")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("blk\\.(1|2)\\.ffn_.*=CPU", "...=CPU"),
        ("x=CPU,token=hunter2", "...=CPU,..."),
        ("hunter2", "..."),
        ("a=CPU,b=CPU,c=CUDA0", "...=CPU,...=CUDA0"),
    ],
)
def test_a_pattern_is_not_shown_and_its_device_is(value: str, shown: str) -> None:
    assert command("x", ["llama-server", "-ot", value], "llama.cpp")[-1] == shown


@pytest.mark.parametrize(
    "words",
    [
        "-m /models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "-hf unsl/Qwen3-30B-A3B-GGUF:Q4_K_M",
        "-m /mnt/DeepSeek-R1-Distill-Qwen-32B-Q5_K_M-00001-of-00002.gguf",
        "-m /root/.ollama/models/blobs/sha256-" + "1f" * 32, "-t 1-8+2", "-dev CUDA0,Vulkan1",
        "-m /hub/models--o--m/snapshots/" + "0a" * 20 + "/model.gguf", "-ts 3,1", "-sm row",
        "-C 0xff", "-C ff00ff00", "-C " + "f" * 64, "-Cr 0-15", "-ctk q8_0", "-fa on", "-fa",
        "--numa isolate", "-lm mmap+mlock", "--port 8080", "-ngl all", "--usecublas lowvram",
    ],
)  # fmt: skip
def test_ordinary_values_are_shown(words: str) -> None:
    assert command("x", ["llama-server", *words.split()], "llama.cpp")[1:] == tuple(words.split())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMP_NUM_THREADS", "8,4"), ("OMP_PLACES", "{0:4}:2:4"), ("OMP_PLACES", "cores(8)"),
        ("OMP_PROC_BIND", "close"), ("OMP_SCHEDULE", "dynamic,4"), ("OMP_STACKSIZE", "64M"),
        ("GOMP_CPU_AFFINITY", "0-3 8-11"), ("KMP_AFFINITY", "granularity=fine,compact,1,0"),
        ("KMP_BLOCKTIME", "infinite"), ("KMP_HW_SUBSET", "1s,4c,2t"), ("MKL_CBWR", "AVX2,STRICT"),
        ("MKL_DOMAIN_NUM_THREADS", "MKL_DOMAIN_ALL=1, MKL_DOMAIN_BLAS=4"),
        ("MKL_ENABLE_INSTRUCTIONS", "AVX512_E1"), ("OPENBLAS_CORETYPE", "SkylakeX"),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_AMX"), ("ATEN_CPU_CAPABILITY", "default"),
        ("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"),
        ("CUDA_VISIBLE_DEVICES", ""), ("CUDA_VISIBLE_DEVICES", "NoDevFiles"),
        ("HSA_OVERRIDE_GFX_VERSION", "10.3.0"), ("OLLAMA_KEEP_ALIVE", "1h30m"),
        ("OLLAMA_LLM_LIBRARY", "cpu_avx2"), ("OLLAMA_LLM_LIBRARY", "cuda_v12"),
        ("OLLAMA_GPU_OVERHEAD", "536870912"), ("OLLAMA_MODELS", "/srv/ollama/models"),
        ("VLLM_CPU_OMP_THREADS_BIND", "0-31|32-63"), ("VLLM_ATTENTION_BACKEND", "FLASH_ATTN"),
        ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2_Usable,-AVX512F:glibc.malloc.arena_max=2"),
        ("LLAMA_ARG_MODEL", "/models/a.gguf"), ("LLAMA_ARG_DEVICE", "none"),
    ],
)  # fmt: skip
def test_ordinary_variables_are_shown(name: str, value: str) -> None:
    assert environment(f"{name}={value}".encode(), None) == {name: value}


@pytest.mark.parametrize(
    "name", ["q", "ollama", "/venv/bin/python3.12", "./build/bin/llama-server"]
)
def test_ordinary_programs_are_shown(name: str) -> None:
    assert is_plain(name)


@given(KEYS)
def test_neither_the_facts_nor_the_text_hold_it(secret: str) -> None:
    argv = ["llama-server", "-t", secret, "-m", f"/m?k={secret}", "--password", "-dev", secret]
    argv += ["-ot", f"{secret}=CPU", "-hf", secret, "--numa", secret, f"--port={secret}", secret]
    names = "".join(f"{name}={secret}\0" for name in ENVIRONMENT)
    with tempfile.TemporaryDirectory() as place:
        tree = {
            "proc/7/stat": captures.stat(7),
            "proc/7/cmdline": "\0".join(argv) + "\0",
            "proc/7/environ": names,
            "proc/7/maps": "",
        }
        held = hold(Reader(plant(dict(tree), Path(place) / "node"), "engine"), (7,))
    assert held.command[1:3] == ("-t", LEFT_OUT)
    assert secret.encode() not in msgspec.json.encode(held)
    facts = replace(
        HEALTHY, command=held.command, settings=held.settings, environment=held.environment
    )
    report = Report(
        nodecheck_version="0",
        time="2026-12-01T02:14:09+00:00",
        host=HostInfo(source="live", holds=()),
        facts=Facts(engine=facts),
    )
    assert secret not in plain(render(report, 100, Policy()))
    assert secret.encode() not in b"".join([pretty_json(report)])


def test_long_values_take_no_time() -> None:
    begun = time.process_time()
    for word in (
        "1-" * 99,
        "a=" * 60_000,
        "avx512_" * 28,
        "/" * 100_000,
        "x/" * 100,
        ":a" * 50_000,
    ):
        for engine in ENGINES:
            for flag in FLAGS[engine]:
                command("x", ["llama-server", f"{flag}={word}"], engine)
        for name in ENVIRONMENT:
            environment(f"{name}={word}".encode(), None)
    assert time.process_time() - begun < 5
