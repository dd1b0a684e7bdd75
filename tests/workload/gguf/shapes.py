"""Real models as a converter lays them out in GGUF: keys and tensors, in bf16, without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.workload.gguf.files import Tensor, Value

Pairs = Iterator[tuple[str, tuple[int, ...]]]


class Shape(NamedTuple):
    keys: dict[str, Value]
    tensors: list[Tensor]


def keyed(architecture: str, **keys: Value) -> dict[str, Value]:
    """`__` stands for the dot in a key."""
    named = {f"{architecture}.{key.replace('__', '.')}": value for key, value in keys.items()}
    return {"general.architecture": architecture, **named}


def tensors(pairs: Iterator[tuple[str, tuple[int, ...]]]) -> list[Tensor]:
    return [Tensor(name, shape, "bf16") for name, shape in pairs]


def ends(vocabulary: int, hidden: int, *, tied: bool) -> Pairs:
    yield "token_embd.weight", (hidden, vocabulary)
    yield "output_norm.weight", (hidden,)
    if not tied:
        yield "output.weight", (hidden, vocabulary)


def attention(
    hidden: int, heads: int, kv_heads: int, length: int, *, bias: bool = False,
    qk_norm: bool = False, gated: bool = False,
) -> Pairs:  # fmt: skip
    q, kv = heads * length, kv_heads * length
    yield "attn_q.weight", (hidden, 2 * q if gated else q)
    yield "attn_k.weight", (hidden, kv)
    yield "attn_v.weight", (hidden, kv)
    yield "attn_output.weight", (q, hidden)
    if bias:
        for name, size in (("q", q), ("k", kv), ("v", kv)):
            yield f"attn_{name}.bias", (size,)
    if qk_norm:
        yield "attn_q_norm.weight", (length,)
        yield "attn_k_norm.weight", (length,)


def norms(hidden: int, *names: str) -> Pairs:
    for name in names:
        yield f"{name}.weight", (hidden,)


def ffn(hidden: int, width: int, suffix: str = "", *, gated: bool = True) -> Pairs:
    if gated:
        yield f"ffn_gate{suffix}.weight", (hidden, width)
    yield f"ffn_up{suffix}.weight", (hidden, width)
    yield f"ffn_down{suffix}.weight", (width, hidden)


def experts(hidden: int, width: int, count: int) -> Pairs:
    yield "ffn_gate_inp.weight", (hidden, count)
    yield "ffn_gate_exps.weight", (hidden, width, count)
    yield "ffn_up_exps.weight", (hidden, width, count)
    yield "ffn_down_exps.weight", (width, hidden, count)


def mamba2(hidden: int, inner: int, groups: int, width: int, heads: int, kernel: int) -> Pairs:
    conv = inner + 2 * groups * width
    yield "ssm_in.weight", (hidden, inner + conv + heads)
    yield "ssm_conv1d.weight", (kernel, conv)
    yield "ssm_conv1d.bias", (conv,)
    yield "ssm_dt.bias", (heads,)
    yield "ssm_a", (1, heads)
    yield "ssm_d", (1, heads)
    yield "ssm_norm.weight", (inner // groups, groups)
    yield "ssm_out.weight", (inner, hidden)


def delta_net(hidden: int, kernel: int, keys: tuple[int, int], values: tuple[int, int]) -> Pairs:
    """`keys` and `values` are heads and elements of a head."""
    key, value = keys[0] * keys[1], values[0] * values[1]
    yield "attn_qkv.weight", (hidden, 2 * key + value)
    yield "attn_gate.weight", (hidden, value)
    yield "ssm_alpha.weight", (hidden, values[0])
    yield "ssm_beta.weight", (hidden, values[0])
    yield "ssm_conv1d.weight", (kernel, 2 * key + value)
    yield "ssm_dt.bias", (values[0],)
    yield "ssm_a", (values[0],)
    yield "ssm_norm.weight", (values[1],)
    yield "ssm_out.weight", (value, hidden)


def blocks(count: int, one: Callable[[int], Pairs]) -> Pairs:
    for number in range(count):
        for name, shape in one(number):
            yield f"blk.{number}.{name}", shape


class Width(NamedTuple):
    """Sizes of a transformer of like layers."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int


def dense(
    architecture: str,
    width: Width,
    *norm: str,
    tied: bool = False,
    bias: bool = False,
    qk_norm: bool = False,
    window: int | None = None,
) -> Shape:
    """A transformer of like layers."""

    def block(_: int) -> Pairs:
        yield from attention(
            width.hidden, width.heads, width.kv_heads, width.head, bias=bias, qk_norm=qk_norm
        )
        yield from norms(width.hidden, *norm or ("attn_norm", "ffn_norm"))
        yield from ffn(width.hidden, width.ffn)

    said = keyed(architecture, block_count=width.layers, embedding_length=width.hidden,
                 context_length=131072, attention__head_count=width.heads,
                 attention__head_count_kv=width.kv_heads, attention__key_length=width.head,
                 attention__value_length=width.head)  # fmt: skip
    if window is not None:
        said[f"{architecture}.attention.sliding_window"] = window
    parts = [*ends(width.vocabulary, width.hidden, tied=tied), *blocks(width.layers, block)]
    return Shape(said, tensors(iter(parts)))


def llama_3_1_8b() -> Shape:
    """Its head lengths follow from the rest."""
    shape = dense("llama", Width(32, 4096, 32, 8, 128, 14336, 128256))
    del shape.keys["llama.attention.key_length"], shape.keys["llama.attention.value_length"]
    return shape


def llama_3_2_1b() -> Shape:
    return dense("llama", Width(16, 2048, 32, 8, 64, 8192, 128256), tied=True)


def qwen2_5_7b() -> Shape:
    return dense("qwen2", Width(28, 3584, 28, 4, 128, 18944, 152064), bias=True)


def qwen3_8b() -> Shape:
    return dense("qwen3", Width(36, 4096, 32, 8, 128, 12288, 151936), qk_norm=True)


def mistral_7b() -> Shape:
    return dense("llama", Width(32, 4096, 32, 8, 128, 14336, 32000), window=4096)


def gemma_2_9b() -> Shape:
    width = Width(42, 3584, 16, 8, 256, 14336, 256000)
    norm = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    return dense("gemma2", width, *norm, tied=True, window=4096)


def command_r() -> Shape:
    return dense("command-r", Width(40, 8192, 64, 64, 128, 22528, 256000), "attn_norm", tied=True)


def phi_3_mini() -> Shape:
    def block(_: int) -> Pairs:
        yield "attn_qkv.weight", (3072, 3 * 3072)
        yield "attn_output.weight", (3072, 3072)
        yield from norms(3072, "attn_norm", "ffn_norm")
        yield "ffn_up.weight", (3072, 2 * 8192)
        yield "ffn_down.weight", (8192, 3072)

    keys = keyed("phi3", block_count=32, embedding_length=3072, attention__head_count=32,
                 attention__head_count_kv=32, attention__sliding_window=2047)  # fmt: skip
    parts = [*ends(32064, 3072, tied=False), *blocks(32, block)]
    return Shape(keys, tensors(iter(parts)))


def qwen3_30b_a3b() -> Shape:
    def block(_: int) -> Pairs:
        yield from attention(2048, 32, 4, 128, qk_norm=True)
        yield from norms(2048, "attn_norm", "ffn_norm")
        yield from experts(2048, 768, 128)

    keys = keyed("qwen3moe", block_count=48, embedding_length=2048, attention__head_count=32,
                 attention__head_count_kv=4, attention__key_length=128,
                 attention__value_length=128, expert_count=128, expert_used_count=8)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(151936, 2048, tied=False), *blocks(48, block)])))


def mixtral_8x7b(*, merged: bool = True) -> Shape:
    """Older files hold each expert on its own."""

    def block(_: int) -> Pairs:
        yield from attention(4096, 32, 8, 128)
        yield from norms(4096, "attn_norm", "ffn_norm")
        if merged:
            yield from experts(4096, 14336, 8)
            return
        yield "ffn_gate_inp.weight", (4096, 8)
        for expert in range(8):
            yield from ffn(4096, 14336, f".{expert}")

    keys = keyed("llama", block_count=32, embedding_length=4096, attention__head_count=32,
                 attention__head_count_kv=8, expert_count=8, expert_used_count=2)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(32000, 4096, tied=False), *blocks(32, block)])))


def gpt_oss_20b() -> Shape:
    def block(_: int) -> Pairs:
        yield from attention(2880, 64, 8, 64, bias=True)
        yield "attn_output.bias", (2880,)
        yield "attn_sinks.weight", (64,)
        yield from norms(2880, "attn_norm", "post_attention_norm")
        yield from experts(2880, 2880, 32)
        yield "ffn_gate_inp.bias", (32,)
        for name in ("gate", "up", "down"):
            yield f"ffn_{name}_exps.bias", (2880, 32)

    keys = keyed("gpt-oss", block_count=24, embedding_length=2880, attention__head_count=64,
                 attention__head_count_kv=8, attention__key_length=64, attention__value_length=64,
                 attention__sliding_window=128, expert_count=32, expert_used_count=4)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(201088, 2880, tied=False), *blocks(24, block)])))


def latent(hidden: int, heads: int, query_rank: int | None) -> Pairs:
    """DeepSeek's attention: rank 512, 128 and 64 rotated elements, values of 128."""
    query = heads * 192
    if query_rank is None:
        yield "attn_q.weight", (hidden, query)
    else:
        yield "attn_q_a.weight", (hidden, query_rank)
        yield "attn_q_a_norm.weight", (query_rank,)
        yield "attn_q_b.weight", (query_rank, query)
    yield "attn_kv_a_mqa.weight", (hidden, 576)
    yield "attn_kv_a_norm.weight", (512,)
    yield "attn_k_b.weight", (128, 512, heads)
    yield "attn_v_b.weight", (512, 128, heads)
    yield "attn_output.weight", (heads * 128, hidden)


LATENT: dict[str, Value] = {
    "attention__head_count_kv": 1,
    "attention__key_length": 576,
    "attention__value_length": 512,
    "attention__key_length_mla": 192,
    "attention__value_length_mla": 128,
    "attention__kv_lora_rank": 512,
}


def deepseek_v2_lite() -> Shape:
    def block(number: int) -> Pairs:
        yield from latent(2048, 16, None)
        yield from norms(2048, "attn_norm", "ffn_norm")
        if number:
            yield from experts(2048, 1408, 64)
            yield from ffn(2048, 2 * 1408, "_shexp")
        else:
            yield from ffn(2048, 10944)

    keys = keyed("deepseek2", block_count=27, embedding_length=2048, attention__head_count=16,
                 expert_count=64, expert_used_count=6, **LATENT)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(102400, 2048, tied=False), *blocks(27, block)])))


def deepseek_v3() -> Shape:
    def block(number: int) -> Pairs:
        yield from latent(7168, 128, 1536)
        yield from norms(7168, "attn_norm", "ffn_norm")
        if number >= 3:
            yield from experts(7168, 2048, 256)
            yield "exp_probs_b.bias", (256,)
            yield from ffn(7168, 2048, "_shexp")
        else:
            yield from ffn(7168, 18432)

    keys = keyed("deepseek2", block_count=61, embedding_length=7168, attention__head_count=128,
                 expert_count=256, expert_used_count=8, **LATENT)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(129280, 7168, tied=False), *blocks(61, block)])))


def glm_4_5_air() -> Shape:
    def block(number: int) -> Pairs:
        yield from attention(4096, 96, 8, 128, bias=True)
        yield from norms(4096, "attn_norm", "post_attention_norm")
        if number:
            yield from experts(4096, 1408, 128)
            yield "exp_probs_b.bias", (128,)
            yield from ffn(4096, 1408, "_shexp")
        else:
            yield from ffn(4096, 10944)
        if number == 46:
            yield "nextn.eh_proj.weight", (2 * 4096, 4096)
            yield "nextn.embed_tokens.weight", (4096, 151552)
            yield "nextn.shared_head_head.weight", (4096, 151552)
            yield from norms(4096, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")

    keys = keyed("glm4moe", block_count=47, nextn_predict_layers=1, embedding_length=4096,
                 attention__head_count=96, attention__head_count_kv=8, attention__key_length=128,
                 attention__value_length=128, expert_count=128, expert_used_count=8)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(151552, 4096, tied=False), *blocks(47, block)])))


SSM_QWEN: dict[str, Value] = {
    "ssm__conv_kernel": 4,
    "ssm__state_size": 128,
    "ssm__group_count": 16,
}


def qwen3_5_27b() -> Shape:
    def block(number: int) -> Pairs:
        if number == 64 or number % 4 == 3:
            yield from attention(5120, 24, 4, 256, qk_norm=True, gated=True)
        else:
            yield from delta_net(5120, 4, (16, 128), (48, 128))
        yield from norms(5120, "attn_norm", "post_attention_norm")
        yield from ffn(5120, 17408)
        if number == 64:
            yield "nextn.eh_proj.weight", (2 * 5120, 5120)
            yield from norms(5120, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")

    keys = keyed("qwen35", block_count=65, nextn_predict_layers=1, embedding_length=5120,
                 attention__head_count=24, attention__head_count_kv=4, attention__key_length=256,
                 attention__value_length=256, ssm__inner_size=6144, ssm__time_step_rank=48,
                 full_attention_interval=4, **SSM_QWEN)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(248320, 5120, tied=False), *blocks(65, block)])))


def qwen3_next_80b() -> Shape:
    def block(number: int) -> Pairs:
        if number % 4 == 3:
            yield from attention(2048, 16, 2, 256, qk_norm=True, gated=True)
        else:
            yield from delta_net(2048, 4, (16, 128), (32, 128))
        yield from norms(2048, "attn_norm", "post_attention_norm")
        yield from experts(2048, 512, 512)
        yield from ffn(2048, 512, "_shexp")
        yield "ffn_gate_inp_shexp.weight", (2048,)

    keys = keyed("qwen3next", block_count=48, embedding_length=2048, attention__head_count=16,
                 attention__head_count_kv=2, attention__key_length=256,
                 attention__value_length=256, expert_count=512, expert_used_count=10,
                 ssm__inner_size=4096, ssm__time_step_rank=32, **SSM_QWEN)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(151936, 2048, tied=False), *blocks(48, block)])))


def nemotron_h_8b() -> Shape:
    pattern = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"

    def block(number: int) -> Pairs:
        yield from norms(4096, "attn_norm")
        if pattern[number] == "M":
            yield from mamba2(4096, 8192, 8, 128, 128, 4)
        elif pattern[number] == "*":
            yield from attention(4096, 32, 8, 128)
        else:
            yield from ffn(4096, 21504, gated=False)

    heads = [8 if letter == "*" else 0 for letter in pattern]
    keys = keyed("nemotron_h", block_count=52, embedding_length=4096, attention__head_count=32,
                 attention__head_count_kv=heads, attention__key_length=128,
                 attention__value_length=128, ssm__conv_kernel=4, ssm__inner_size=8192,
                 ssm__state_size=128, ssm__group_count=8, ssm__time_step_rank=128)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(131072, 4096, tied=False), *blocks(52, block)])))


def granite_4_h_small() -> Shape:
    attending = {5, 15, 25, 35}

    def block(number: int) -> Pairs:
        if number in attending:
            yield from attention(4096, 32, 8, 128)
        else:
            yield from mamba2(4096, 8192, 1, 128, 128, 4)
        yield from norms(4096, "attn_norm", "ffn_norm")
        yield from experts(4096, 768, 72)
        yield from ffn(4096, 1536, "_shexp")

    heads = [8 if number in attending else 0 for number in range(40)]
    keys = keyed("granitehybrid", block_count=40, embedding_length=4096, attention__head_count=32,
                 attention__head_count_kv=heads, expert_count=72, expert_used_count=10,
                 ssm__conv_kernel=4, ssm__inner_size=8192, ssm__state_size=128,
                 ssm__group_count=1, ssm__time_step_rank=128)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(100352, 4096, tied=True), *blocks(40, block)])))


def falcon_h1_7b() -> Shape:
    def block(_: int) -> Pairs:
        yield from attention(3072, 12, 2, 128)
        yield from mamba2(3072, 3072, 1, 256, 24, 4)
        yield from norms(3072, "attn_norm", "ffn_norm")
        yield from ffn(3072, 12288)

    keys = keyed("falcon-h1", block_count=44, embedding_length=3072, attention__head_count=12,
                 attention__head_count_kv=2, attention__key_length=128,
                 attention__value_length=128, ssm__conv_kernel=4, ssm__inner_size=3072,
                 ssm__state_size=256, ssm__group_count=1, ssm__time_step_rank=24)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(130048, 3072, tied=False), *blocks(44, block)])))


def lfm2_1_2b() -> Shape:
    attending = {2, 5, 8, 10, 12, 14}

    def block(number: int) -> Pairs:
        if number in attending:
            yield from attention(2048, 32, 8, 64, qk_norm=True)
        else:
            yield "shortconv.in_proj.weight", (2048, 3 * 2048)
            yield "shortconv.conv.weight", (3, 2048)
            yield "shortconv.out_proj.weight", (2048, 2048)
        yield from norms(2048, "attn_norm", "ffn_norm")
        yield from ffn(2048, 8192)

    heads = [8 if number in attending else 0 for number in range(16)]
    keys = keyed("lfm2", block_count=16, embedding_length=2048, attention__head_count=32,
                 attention__head_count_kv=heads, shortconv__l_cache=3)  # fmt: skip
    parts = [*ends(65536, 2048, tied=True), *blocks(16, block)]
    return Shape(keys, tensors(iter(parts)))


def minimax_text_01() -> Shape:
    def block(number: int) -> Pairs:
        if number % 8 == 7:
            yield from attention(6144, 64, 8, 128)
        else:
            yield "attn_qkv.weight", (6144, 3 * 8192)
            yield "attn_gate.weight", (6144, 8192)
            yield "attn_output.weight", (8192, 6144)
            yield "attn_norm_2.weight", (8192,)
        yield from norms(6144, "attn_norm", "ffn_norm")
        yield from experts(6144, 9216, 32)

    keys = keyed("minimax-01", block_count=80, embedding_length=6144, attention__head_count=64,
                 attention__head_count_kv=8, attention__key_length=128,
                 attention__value_length=128, expert_count=32, expert_used_count=2)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(200064, 6144, tied=False), *blocks(80, block)])))


def falcon_mamba_7b() -> Shape:
    def block(_: int) -> Pairs:
        yield "ssm_in.weight", (4096, 2 * 8192)
        yield "ssm_conv1d.weight", (4, 8192)
        yield "ssm_conv1d.bias", (8192,)
        yield "ssm_x.weight", (8192, 256 + 2 * 16)
        yield "ssm_dt.weight", (256, 8192)
        yield "ssm_dt.bias", (8192,)
        yield "ssm_a", (16, 8192)
        yield "ssm_d", (8192,)
        yield "ssm_out.weight", (8192, 4096)
        yield from norms(4096, "attn_norm")

    keys = keyed("mamba", block_count=64, embedding_length=4096, attention__head_count=0,
                 ssm__conv_kernel=4, ssm__inner_size=8192, ssm__state_size=16,
                 ssm__time_step_rank=256)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(65024, 4096, tied=False), *blocks(64, block)])))


def mamba2_2_7b() -> Shape:
    def block(_: int) -> Pairs:
        yield from mamba2(2560, 5120, 1, 128, 80, 4)
        yield from norms(2560, "attn_norm")

    keys = keyed("mamba2", block_count=64, embedding_length=2560, attention__head_count=0,
                 ssm__conv_kernel=4, ssm__inner_size=5120, ssm__state_size=128,
                 ssm__group_count=1, ssm__time_step_rank=80)  # fmt: skip
    return Shape(keys, tensors(iter([*ends(50288, 2560, tied=True), *blocks(64, block)])))


def gemma_3n_e4b() -> Shape:
    def block(_: int) -> Pairs:
        yield from attention(2048, 8, 2, 256, qk_norm=True)
        yield from ffn(2048, 16384)
        yield "inp_gate.weight", (2048, 256)
        yield "proj.weight", (256, 2048)
        yield "laurel_l.weight", (2048, 64)
        yield "laurel_r.weight", (64, 2048)
        yield "altup_correct_coef.weight", (4, 4)
        yield "altup_correct_scale.weight", (2048,)
        yield "altup_predict_coef.weight", (4, 16)
        yield "altup_router.weight", (2048, 4)
        yield from norms(
            2048, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm",
            "laurel_post_norm", "altup_router_norm",
        )  # fmt: skip

    def outside() -> Pairs:
        yield "per_layer_token_embd.weight", (35 * 256, 262144)
        yield "per_layer_model_proj.weight", (2048, 35 * 256)
        yield "per_layer_proj_norm.weight", (256,)
        yield "altup_proj.weight", (2048, 2048, 3)
        yield "altup_unembd_proj.weight", (2048, 2048, 3)

    keys = keyed("gemma3n", block_count=35, embedding_length=2048, attention__head_count=8,
                 attention__head_count_kv=2, attention__key_length=256,
                 attention__value_length=256, attention__sliding_window=512,
                 attention__shared_kv_layers=15)  # fmt: skip
    parts = [*ends(262400, 2048, tied=True), *outside(), *blocks(35, block)]
    return Shape(keys, tensors(iter(parts)))
