"""Flags to start with, each with a reason, and engines that are not for a model or a node."""

from __future__ import annotations

import shlex

import pytest
from msgspec.structs import replace

from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.python.facts import Library, PythonFacts
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.rates.reads import reads, together
from nodecheck.judge.start.engines import engines
from nodecheck.judge.start.llama_cpp import layers_by_card
from nodecheck.judge.start.servers import utilisation
from nodecheck.judge.strategies import strategies
from nodecheck.judge.ways.speculative import speculative
from nodecheck.serving import EngineStart, Serving, Storage, Workload
from nodecheck.units import GB, GIB
from tests.judge.models import qwen_27b, qwen_30b_a3b, small_mix
from tests.nodes import AVX2, SSE2, three_l40


def started(seen: Seen, work: Workload) -> dict[str, EngineStart]:
    seen = replace(seen, workload=work)
    ways = list(strategies(seen))
    if not any(s.strategy == "speculative" for s in ways):
        ways += [s for s in [speculative(seen, work, node.cards(seen))] if s]
    return {each.engine: each for each in engines(seen, work, ways)}


def flags(start: EngineStart) -> list[str]:
    return [flag.flag for flag in start.flags]


def with_vram(seen: Seen, *sizes: int) -> Seen:
    cards = tuple(
        replace(seen.facts.gpus[0], index=n, memory_bytes=size) for n, size in enumerate(sizes)
    )
    return replace(seen, facts=replace(seen.facts, gpus=cards))


def serving(**members: object) -> Seen:
    return replace(three_l40(AVX2), serving=Serving(**members))  # type: ignore[arg-type]


def checkpoint(weight_bytes: int = 16 * GIB, *, mtp: bool = False) -> Workload:
    return replace(qwen_27b(weight_bytes, mtp=mtp), format="safetensors")


def plain_checkpoint() -> Workload:
    return replace(small_mix(), format="safetensors")


def test_every_flag_has_a_reason_and_stands_in_the_command() -> None:
    for work in (qwen_27b(mtp=True), checkpoint(mtp=True), qwen_30b_a3b(), plain_checkpoint()):
        for start in started(three_l40(AVX2), work).values():
            assert (start.command is None) == bool(start.not_for)
            assert all(flag.why and flag.flag in (start.command or "") for flag in start.flags)


def test_a_gguf_file_is_for_llama_cpp() -> None:
    found = started(three_l40(AVX2), qwen_27b())
    assert list(found) == ["llama.cpp", "SGLang", "vLLM"]
    assert found["llama.cpp"].command == "llama-server -m MODEL.gguf -ngl 65 -sm none -c 8192 -np 1"
    assert "--load-format gguf" in (found["SGLang"].not_for or "")
    assert "no GGUF" in (found["vLLM"].not_for or "")


def test_a_checkpoint_is_for_the_others() -> None:
    found = started(three_l40(AVX2), checkpoint())
    assert list(found) == ["SGLang", "vLLM", "llama.cpp"]
    assert (found["SGLang"].command or "").startswith(
        "python3 -m sglang.launch_server --model-path"
    )
    assert (found["vLLM"].command or "").startswith("vllm serve")
    assert "GGUF" in (found["llama.cpp"].not_for or "")


def test_a_path_with_blanks_is_quoted() -> None:
    work = replace(qwen_27b(), storage=Storage(path="/srv/my models/m.gguf"))
    command = started(three_l40(AVX2), work)["llama.cpp"].command
    assert command is not None
    assert shlex.split(command)[:3] == ["llama-server", "-m", "/srv/my models/m.gguf"]


def test_mtp_blocks_count_as_layers() -> None:
    found = flags(started(three_l40(AVX2), qwen_27b(mtp=True))["llama.cpp"])
    assert "-ngl 66" in found
    assert "--spec-type draft-mtp" in found


def test_guessing_needs_a_gain() -> None:
    seen = serving(draft_tokens=3, acceptance=0.1)
    assert "--spec-type draft-mtp" not in flags(started(seen, qwen_27b(mtp=True))["llama.cpp"])


@pytest.mark.parametrize(("vram", "expected"), [(12, "--n-cpu-moe 19"), (24, "-ngl 49")])
def test_experts_go_to_the_cpu_where_vram_is_short(vram: int, expected: str) -> None:
    found = flags(started(with_vram(three_l40(AVX2), vram * GIB), qwen_30b_a3b())["llama.cpp"])
    assert expected in found
    assert ("-t 8" in found) is (vram == 12)


def test_layers_go_to_the_cpu_where_vram_is_short() -> None:
    start = started(with_vram(three_l40(AVX2), 12 * GIB), qwen_27b())["llama.cpp"]
    ngl = next(flag for flag in start.flags if flag.flag.startswith("-ngl"))
    number = int(ngl.flag.split()[1])
    assert 0 < number < 65
    assert f"leaves {65 - number} layers on the CPU" in ngl.why


def test_a_context_is_of_all_requests_together() -> None:
    found = flags(started(serving(context_tokens=4096, requests=4), qwen_27b())["llama.cpp"])
    assert "-c 16384" in found
    assert "-np 4" in found


def test_a_context_is_the_models_own_at_most() -> None:
    work = replace(qwen_27b(), context_length=4096)
    assert "-c 4096" in flags(started(three_l40(AVX2), work)["llama.cpp"])
    asked = started(serving(context_tokens=8192), work)["llama.cpp"]
    assert any("more than the model's own" in risk for risk in asked.risks)


@pytest.mark.parametrize(
    ("instructions", "kv_type", "expected"),
    [
        (SSE2, "bf16", "-ctk q8_0 -ctv q8_0"),
        (AVX2, "bf16", None),
        (AVX2, "q4_0", "-ctk q4_0 -ctv q4_0"),
        (AVX2, "fp8", "-ctk q8_0 -ctv q8_0"),
    ],
)
def test_a_cpu_without_f16c_reads_q8_0_faster(
    instructions: tuple[str, ...], kv_type: str, expected: str | None
) -> None:
    seen = replace(three_l40(instructions), serving=Serving(kv_type=kv_type))
    bare = replace(seen, facts=replace(seen.facts, gpus=()))
    found = [f for f in flags(started(bare, small_mix())["llama.cpp"]) if f.startswith("-ctk")]
    assert found == ([expected] if expected else [])


def test_a_quota_bounds_the_threads() -> None:
    seen = three_l40(AVX2)
    seen = replace(seen, facts=replace(seen.facts, limits=LimitsFacts(thread_budget=3)))
    start = started(seen, qwen_27b())["llama.cpp"]
    assert "-t 3" in flags(start)
    assert any("quota" in flag.why for flag in start.flags)


@pytest.mark.parametrize(
    ("fstype", "form", "engine", "flag"),
    [
        ("nfs4", "gguf", "llama.cpp", "--load-mode none"),
        ("nfs4", "safetensors", "SGLang", "--weight-loader-disable-mmap"),
        ("nfs4", "safetensors", "vLLM", "--safetensors-load-strategy eager"),
        ("fuse.s3fs", "gguf", "llama.cpp", "--load-mode none"),
    ],
)
def test_files_are_not_mapped_over_a_wire(fstype: str, form: str, engine: str, flag: str) -> None:
    def of(kind: str) -> list[str]:
        storage = Storage(path="/m", fstype=kind, mount="/m")
        work = replace(qwen_27b(), format=form, storage=storage)
        return flags(started(three_l40(AVX2), work)[engine])

    assert flag in of(fstype)
    assert flag not in of("ext4")


def test_weights_in_ram_are_locked_where_there_is_swap() -> None:
    seen = three_l40(AVX2)
    memory = replace(seen.facts.memory, swap_total_bytes=8 * GB)
    facts = replace(seen.facts, gpus=(), memory=memory, limits=LimitsFacts(nofile=1024))
    assert "--load-mode mmap+mlock" in flags(
        started(replace(seen, facts=facts), qwen_27b())["llama.cpp"]
    )
    limited = replace(facts, limits=LimitsFacts(nofile=1024, memlock_bytes=8 << 20))
    assert "--load-mode mmap+mlock" not in flags(
        started(replace(seen, facts=limited), qwen_27b())["llama.cpp"]
    )


def test_no_cache_of_prompts_where_ram_is_short() -> None:
    seen = three_l40(AVX2)
    memory = MemoryFacts(total_bytes=32 * GB, available_bytes=22 * GB)
    short = replace(seen, facts=replace(seen.facts, gpus=(), memory=memory))
    assert "--cache-ram 0" in flags(started(short, qwen_27b())["llama.cpp"])
    roomy = replace(seen, facts=replace(seen.facts, gpus=()))
    assert "--cache-ram 0" not in flags(started(roomy, qwen_27b())["llama.cpp"])


def test_a_hopeless_way_is_told_as_one() -> None:
    seen = three_l40(SSE2)
    start = started(replace(seen, facts=replace(seen.facts, gpus=())), qwen_27b())["llama.cpp"]
    assert any(risk.startswith("not viable here: cpu-only gives") for risk in start.risks)


def test_a_model_that_fits_nowhere_has_no_command() -> None:
    start = started(three_l40(AVX2), qwen_27b(400 * GIB))["llama.cpp"]
    assert start.command is None
    assert "VRAM size" in (start.not_for or "")


@pytest.mark.parametrize("engine", ["SGLang", "vLLM"])
def test_an_old_cpu_is_a_risk_to_servers(engine: str) -> None:
    """numpy 2.4 dies on x86-64-v1."""
    old, new = (started(three_l40(flags), checkpoint())[engine] for flags in (SSE2, AVX2))
    assert any("numpy below 2.4" in risk for risk in old.risks)
    assert not any("numpy" in risk for risk in new.risks)


def test_a_library_that_died_here_is_told() -> None:
    seen = three_l40(AVX2)
    died = Library(name="torch", version="2.9.0", outcome="illegal_instruction")
    python = PythonFacts(interpreter="/venv/bin/python", libraries=(died,))
    seen = replace(seen, facts=replace(seen.facts, python=python))
    assert any("torch 2.9.0 died" in risk for risk in started(seen, checkpoint())["vLLM"].risks)


def test_servers_need_a_gpu() -> None:
    seen = three_l40(SSE2)
    found = started(replace(seen, facts=replace(seen.facts, gpus=())), checkpoint())
    assert found["SGLang"].command is None
    assert "needs AVX2: this CPU has not" in (found["vLLM"].not_for or "")


def test_tensor_parallel_where_one_card_is_too_small() -> None:
    found = started(three_l40(AVX2), checkpoint(54 * GB))
    assert "--tp 2" in flags(found["SGLang"])
    assert "--tensor-parallel-size 2" in flags(found["vLLM"])


def test_stages_where_two_cards_are_too_small() -> None:
    """Neither engine guesses ahead across stages."""
    found = started(three_l40(AVX2), checkpoint(100 * GIB, mtp=True))["vLLM"]
    assert "--pipeline-parallel-size 3" in flags(found)
    assert not any("speculative" in flag for flag in flags(found))


def test_a_pool_smaller_than_the_cards_is_left_out() -> None:
    seen = three_l40(AVX2)
    memory = MemoryFacts(total_bytes=32 * GB, available_bytes=22 * GB)
    short = replace(seen, facts=replace(seen.facts, memory=memory))
    assert "--enable-hierarchical-cache" not in flags(started(short, plain_checkpoint())["SGLang"])


def test_the_static_share_is_sglangs_own() -> None:
    assert "--mem-fraction-static 0.844" in flags(started(three_l40(AVX2), checkpoint())["SGLang"])


def test_a_context_that_does_not_fit_is_cut_and_told() -> None:
    seen = replace(serving(context_tokens=262_144, requests=8), workload=None)
    start = started(with_vram(seen, 46 * GIB), checkpoint())["SGLang"]
    length = next(f for f in flags(start) if f.startswith("--context-length"))
    assert 1024 < int(length.split()[1]) < 262_144
    assert any("262,144 tokens does not fit with 8 requests" in risk for risk in start.risks)


def test_weights_that_do_not_fit_have_no_command() -> None:
    start = started(with_vram(three_l40(AVX2), 12 * GIB), checkpoint())["vLLM"]
    assert start.command is None
    assert "too much" in (start.not_for or "")


def test_the_pool_is_left_out_for_hybrids_unless_asked() -> None:
    plain, hybrid = (
        started(three_l40(AVX2), work)["SGLang"] for work in (plain_checkpoint(), checkpoint())
    )
    asked = started(serving(hicache_ratio=2.0), checkpoint())["SGLang"]
    assert "--enable-hierarchical-cache" in flags(plain)
    assert "--enable-hierarchical-cache" not in flags(hybrid)
    assert any("sglang#39830" in risk for risk in hybrid.risks)
    assert "--hicache-ratio 2" in flags(asked)
    assert not any("hybrids" in risk for risk in plain.risks)


def test_a_pool_that_is_refused_is_made_smaller() -> None:
    found = flags(started(serving(hicache_size_bytes=500 * GB), plain_checkpoint())["SGLang"])
    assert "--hicache-size 124" in found


@pytest.mark.parametrize(("kept", "slots"), [(46, 40), (33, 24)])
def test_hybrids_get_slots_for_their_states(kept: int, slots: int) -> None:
    """Five for each of 8 requests, three where there is no more room."""
    seen = with_vram(serving(requests=8), kept * GIB)
    assert f"--max-mamba-cache-size {slots}" in flags(started(seen, checkpoint())["SGLang"])


def test_mtp_of_the_servers() -> None:
    found = started(three_l40(AVX2), checkpoint(mtp=True))
    drafts = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    assert drafts in flags(found["SGLang"])
    method = '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 3}\''
    assert method in flags(found["vLLM"])


def test_vllm_asks_for_no_more_than_is_free() -> None:
    """It refuses to start where less of a card is free than it is told to take."""
    seen = three_l40(AVX2)
    assert utilisation(seen) == pytest.approx(0.90)
    used = tuple(replace(gpu, memory_used_bytes=10 * GIB) for gpu in seen.facts.gpus)
    busy = replace(seen, facts=replace(seen.facts, gpus=used))
    assert utilisation(busy) < 1 - 10 / 45
    flag = next(f for f in started(busy, checkpoint())["vLLM"].flags if "utilization" in f.flag)
    assert "refuses to start" in flag.why


def test_servers_are_shown_the_cards_with_room() -> None:
    """They take the first cards unasked, and here another program fills that one."""
    seen = three_l40(AVX2)
    first = replace(seen.facts.gpus[0], memory_used_bytes=40 * GIB)
    seen = replace(seen, facts=replace(seen.facts, gpus=(first, *seen.facts.gpus[1:])))
    found = started(seen, checkpoint())
    for engine in ("SGLang", "vLLM"):
        command = found[engine].command or ""
        assert command.startswith("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 ")
    assert "--gpu-memory-utilization 0.90" in flags(found["vLLM"])
    assert "CUDA_VISIBLE_DEVICES" not in (
        started(three_l40(AVX2), checkpoint())["vLLM"].command or ""
    )


def test_the_card_is_the_one_that_the_speed_is_told_of() -> None:
    seen = three_l40(AVX2)
    large, fast = seen.facts.gpus[0], replace(seen.facts.gpus[1], memory_bytes=32 * GIB, index=7)
    fast = replace(fast, name="NVIDIA fast", vram_bytes_per_second=1792e9)
    seen = replace(seen, facts=replace(seen.facts, gpus=(large, fast)))
    assert "-mg 1" in flags(started(seen, qwen_27b())["llama.cpp"])


def test_cards_share_experts_by_their_bytes() -> None:
    """The first layers leave theirs on the CPU: by their number the last card would hold most."""
    seen = with_vram(three_l40(AVX2), 7 * GIB, 7 * GIB)
    found = flags(started(seen, qwen_30b_a3b())["llama.cpp"])
    first, second = (int(n) for n in next(f for f in found if f.startswith("-ts"))[4:].split(","))
    assert first + second == 49
    assert first > second
    cut = int(next(f for f in found if f.startswith("--n-cpu-moe")).split()[1])
    parts = reads(replace(seen, workload=qwen_30b_a3b()), qwen_30b_a3b())
    layers = [*parts.blocks[:cut], *parts.both[cut:], parts.output]
    for card in (layers[:first], layers[first:]):
        assert together(card).room_bytes <= 6 * GIB


@pytest.mark.parametrize(
    ("sizes", "free", "counts"),
    [([1.0] * 9, [3, 3, 3], [3, 3, 3]), ([0.1] * 10 + [1.0] * 9, [5, 5], [14, 5]),
     ([1.0] * 4, [0, 0], [4, 0]), ([1.0] * 4, [1, 3], [1, 3])],
)  # fmt: skip
def test_layers_by_card(sizes: list[float], free: list[float], counts: list[int]) -> None:
    assert layers_by_card(sizes, free) == counts


def test_a_pool_is_of_whole_gigabytes() -> None:
    start = started(serving(hicache_size_bytes=40_899_133_440), plain_checkpoint())["SGLang"]
    flag = next(f for f in start.flags if "hicache-size" in f.flag)
    assert flag.flag == "--hicache-size 40"
    tokens = 40 * GB // (16 * 2 * 8 * 128 * 2) + 1
    assert f"{tokens:,} tokens" in flag.why


def test_experts_on_the_cpu_leave_the_cache_on_the_card() -> None:
    """An f16 cache is slow without F16C where the CPU reads it, and nowhere else."""
    found = flags(started(with_vram(three_l40(SSE2), 12 * GIB), qwen_30b_a3b())["llama.cpp"])
    assert any(flag.startswith("--n-cpu-moe") for flag in found)
    assert not any(flag.startswith("-ctk") for flag in found)


def test_an_instance_is_not_given_the_share_of_a_whole_card() -> None:
    seen = three_l40(AVX2)
    cut = tuple(replace(gpu, mig=True) for gpu in seen.facts.gpus[:1])
    found = started(replace(seen, facts=replace(seen.facts, gpus=cut)), checkpoint())
    assert not any("--mem-fraction-static" in flag for flag in flags(found["SGLang"]))
    assert all("MIG" in found[engine].risks[0] for engine in ("SGLang", "vLLM"))


@pytest.mark.parametrize("arch", ["aarch64", None])
def test_avx2_is_asked_of_x86_alone(arch: str | None) -> None:
    seen = three_l40(SSE2)
    cpu = replace(seen.facts.cpu, arch=arch)
    bare = replace(seen, facts=replace(seen.facts, cpu=cpu, gpus=()))
    why = started(bare, checkpoint())["vLLM"].not_for or ""
    assert "no GPU was seen here" in why
    assert "AVX2" not in why


@pytest.mark.parametrize(("requests", "told"), [(1, False), (4, True)])
def test_slots_that_guess_may_mix_answers(requests: int, told: bool) -> None:
    start = started(serving(requests=requests), qwen_27b(mtp=True))["llama.cpp"]
    assert "--spec-type draft-mtp" in flags(start)
    assert any("llama.cpp#28286" in risk for risk in start.risks) is told
