#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Public bug reports about attention, GEMM and autotuners of others, each as a check of swr on a GPU.

    PYTHONPATH=python SWR_LIBRARY=.../libswr.so.1 SWR_TUNE=.../swr-tune checks.py [NAME...]

A line each: PASS or FAIL, the name, what was found, where the report is. Ends with 1 when one failed, with 2
without a GPU. A fault of the GPU ends the process: name the others then.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

import swr

CUDA = "cuda"
E4M3 = torch.float8_e4m3fn
CHECKS = {}


def check(report, among=CHECKS):
    """Registers a function that returns what it found, or raises."""
    def register(function):
        among[function.__name__] = function, report
        return function
    return register


def attention(q, k, v, causal=False):
    """Of [batch, heads, rows, head_dim] in double precision, masked to the bottom right."""
    q, k, v = (t.double() for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1 + k.shape[2] - q.shape[2])
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1)) @ v


def error_of(found, right):
    assert found.shape == right.shape, f"{tuple(found.shape)} in place of {tuple(right.shape)}"
    assert bool(torch.isfinite(found).all()), "not finite"
    return float((found.double() - right).norm() / right.norm().clamp_min(1e-30))


def error_of_groups(found, a, b, ends):
    """The largest of groups of rows that end at `ends`, each times its matrix."""
    return max((error_of(found[begin:end], a[begin:end].double() @ b[i].double())
                for i, (begin, end) in enumerate(zip((0, *ends), ends)) if end > begin), default=0.0)


def near(limit, **pairs):
    """"dq 1e-03" of (found, right); raises beyond the limit."""
    errors = {name: error_of(*pair) for name, pair in pairs.items()}
    text = ", ".join(f"{name} {error:.0e}" for name, error in errors.items())
    assert max(errors.values()) <= limit, f"{text}; allowed {limit:.0e}"
    return text


def gradients(function, inputs, d_o):
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in inputs]
        return torch.autograd.grad(function(*leaves), leaves, d_o)


def near_gradients(inputs, d_o, causal=False, limit=1e-2):
    found = gradients(lambda *t: swr.sdpa(*t, causal=causal), inputs, d_o)
    right = gradients(lambda *t: attention(*t, causal), [t.double() for t in inputs], d_o.double())
    return near(limit, **{name: pair for name, *pair in zip(("dq", "dk", "dv"), found, right)})


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=CUDA, dtype=dtype)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32, device=CUDA)


def fp8(*shape):
    return torch.randn(*shape, device=CUDA).to(E4M3)


def positive(*shape):
    return torch.rand(*shape, device=CUDA) + 0.5


def refused(call, *words):
    """Nothing, or what is wrong: that there is a result, or an error that says none of the words."""
    try:
        call()
    except (swr.Error, ValueError, TypeError, NotImplementedError) as error:
        return "" if any(word in str(error) for word in words) else f"says {str(error)[:80]!r}"
    return "is taken"


def all_refused(**faults):
    wrong = {name: fault for name, fault in faults.items() if fault}
    assert not wrong, "; ".join(f"{name} {fault}" for name, fault in wrong.items())
    return f"{len(faults)} refused by name"


# Attention.

@check("Dao-AILab/flash-attention#355")
def gradients_of_strided_and_expanded_outputs():
    """dO that is a transposed view, a column of ones expanded, or a slice."""
    q, k, v = (normal(2, heads, 33, 128) for heads in (8, 2, 2))
    views = (normal(2, 33, 8, 128).transpose(1, 2), torch.ones(1, 1, 1, 1, device=CUDA, dtype=q.dtype).expand(2, 8, 33, 128),
             normal(2, 8, 33, 256)[..., 64:192], normal(2, 8, 33, 128).mT.contiguous().mT)
    return "; ".join(near_gradients((q, k, v), d_o, causal=True) for d_o in views)


@check("pytorch/pytorch#119500, Dao-AILab/flash-attention#2777")
def gradients_where_k_and_v_lie_differently():
    q, k, v = normal(2, 65, 4, 64).transpose(1, 2), normal(2, 4, 80, 64), normal(80, 2, 4, 64).permute(1, 2, 0, 3)
    return near_gradients((q, k, v), normal(2, 4, 65, 64)) + "; " + near_gradients((k, q, q), normal(2, 4, 80, 64))


@check("pytorch/pytorch#119320, #125674")
def gradients_of_huge_scores():
    """Scores up to 1e7: softmax picks one key, and no gradient is NaN."""
    q, k, v = normal(1, 4, 200, 64) * 300, normal(1, 4, 200, 64) * 300, normal(1, 4, 200, 64)
    found = gradients(swr.sdpa, (q, k, v), normal(1, 4, 200, 64))
    assert all(bool(torch.isfinite(t).all()) for t in found), "a gradient is not finite"
    return near(2e-2, o=(swr.sdpa(q, k, v), attention(q, k, v)))


@check("Dao-AILab/flash-attention#2709")
def lengths_beyond_the_page_table():
    """A sequence that claims more keys than its pages hold reads no entry that is not there."""
    pages, table = normal(12, 2, 16, 2, 64), torch.full((2, 64), 2 ** 30, dtype=torch.int32, device=CUDA)
    table[:, :3] = torch.tensor([[4, 0, 7], [1, 9, 2]])
    q = normal(2, 1, 4, 64)
    out = swr.flash_attn_with_kvcache(q, pages[:, 0], pages[:, 1], cache_seqlens=ints(1000, 40), page_table=table[:, :3])
    keys = [pages[table[i, :3].long()].transpose(0, 1).flatten(1, 2)[:, :n].transpose(1, 2) for i, n in ((0, 48), (1, 40))]
    right = torch.cat([attention(q[i:i + 1].transpose(1, 2), keys[i][:1], keys[i][1:]) for i in range(2)])
    return near(1e-2, o=(out.transpose(1, 2), right))


@check("ROCm/aiter#2517, flashinfer-ai/flashinfer#3136")
def pages_beyond_2_32_elements():
    """Keys in pages of one row whose places, and those of pages of 32 rows, take more than 32 bits."""
    texts = []
    for rows, count in ((1, 8_500_000), (32, 290_000)):
        cache = torch.empty(count, 2, rows, 4, 64, dtype=torch.bfloat16, device=CUDA)
        used = torch.tensor([count - 1, 3, count - 7, count // 2], device=CUDA)
        cache[used] = normal(4, 2, rows, 4, 64)
        plan = swr.plan_paged(ints(0, 2), ints(0, 4), used.int(), ints(rows), 8, 4, 64, rows, max_seqlen_q=2,
                              max_seqlen_k=4 * rows)
        q = normal(2, 8, 64)
        keys, values = cache[used].transpose(0, 1).flatten(1, 2).transpose(1, 2)
        out = swr.run_paged(plan, q, cache)
        texts.append(near(1e-2, o=(out.transpose(0, 1)[None], attention(q.transpose(0, 1)[None], keys[None], values[None]))))
        del cache, keys, values
        torch.cuda.empty_cache()
    return "; ".join(texts)


@check("sgl-project/sglang#26532")
def graphs_of_falling_batches_in_one_pool():
    """Graphs captured for batch 5 to 1 share a memory pool; all are replayed, the largest last."""
    pool, graphs = torch.cuda.graph_pool_handle(), {}
    k, v = normal(5, 512, 2, 64), normal(5, 512, 2, 64)
    for batch in (5, 4, 3, 2, 1):
        q, lengths = normal(batch, 4, 8, 64), ints(*[100 * (i + 1) for i in range(batch)])
        call = lambda: swr.flash_attn_with_kvcache(q, k[:batch], v[:batch], cache_seqlens=lengths, causal=True)
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            out = call()
        graphs[batch] = graph, out, q, lengths
    worst = []
    for batch in (1, 3, 2, 4, 5, 1, 5):
        graph, out, q, _ = graphs[batch]
        graph.replay()
        for i in range(batch):
            keys, values = (t[i:i + 1, :100 * (i + 1)].transpose(1, 2) for t in (k, v))
            worst.append(error_of(out[i:i + 1].transpose(1, 2), attention(q[i:i + 1].transpose(1, 2), keys, values, True)))
    assert max(worst) < 1e-2, f"{max(worst):.1e}"
    return f"o {max(worst):.0e}"


@check("Dao-AILab/flash-attention#1164, huggingface/transformers#45323")
def a_graph_replayed_with_other_lengths():
    """The bounds are those of the capture; every length below them must come out right."""
    q, k, v = normal(300, 8, 64), normal(2000, 2, 64), normal(2000, 2, 64)
    starts_q, starts_k = ints(0, 5, 10, 15), ints(0, 5, 10, 15)
    call = lambda: swr.flash_attn_varlen_func(q, k, v, starts_q, starts_k, 300, 2000, causal=True)
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    worst = 0.0
    for ends_q, ends_k in (((1, 2, 300), (1, 1999, 2000)), ((100, 100, 300), (700, 701, 2000)), ((0, 300, 300), (0, 2000, 2000)), ((3, 6, 9), (3, 6, 9))):
        starts_q[1:], starts_k[1:] = ints(*ends_q), ints(*ends_k)
        graph.replay()
        for i in range(3):
            rows = slice(*starts_q[i:i + 2].tolist())
            keys = slice(*starts_k[i:i + 2].tolist())
            if rows.start < rows.stop:
                part = (q[rows], k[keys], v[keys])
                worst = max(worst, error_of(out[rows].transpose(0, 1)[None], attention(*(t.transpose(0, 1)[None] for t in part), True)))
    assert worst < 1e-2, f"{worst:.1e}"
    return f"o {worst:.0e}"


@check("Dao-AILab/flash-attention#334, #41")
def gradients_of_one_key_and_of_equal_rows():
    """One query and one key of 16 numbers: dV is dO, dQ and dK are 0. Rows of 1000 alone: scores of 8e6, whose
    log-sum-exp fp32 has to a half, so gradients are finite there and right for rows of 10."""
    q, k, v, d_o = (normal(1, 1, 1, 16, dtype=torch.float16) * 3 for _ in range(4))
    d_q, d_k, d_v = gradients(swr.sdpa, (q, k, v), d_o)
    assert float(torch.stack((d_q, d_k)).abs().max()) < 1e-2, f"dq, dk of one key: {d_q.abs().max()}, {d_k.abs().max()}"
    text = near(2e-3, dv=(d_v, d_o))
    for value in (1000.0, 10.0):
        rows = torch.full((2, 8, 512, 64), value, dtype=torch.bfloat16, device=CUDA)
        found = gradients(swr.sdpa, (rows, rows, rows), torch.full_like(rows, 1e-3))
        assert all(bool(torch.isfinite(t).all()) for t in found), "a gradient is not finite"
        text += "; " + near(1e-2, o=(swr.sdpa(rows, rows, rows), rows))
    return text + "; " + near(1e-2, dv=(found[2], torch.full_like(rows, 1e-3)))


@check("openvinotoolkit/openvino#38034, EricLBuehler/mistral.rs#2094")
def windows_over_a_batch_of_lengths():
    """A windowed step over pages of 16: sequences whose lengths are multiples of a page beside others."""
    lengths, window, worst = (4096, 4081, 515, 512, 1, 17), 512, 0.0
    k, v = normal(len(lengths) * 256, 16, 2, 128), normal(len(lengths) * 256, 16, 2, 128)
    table = torch.randperm(len(lengths) * 256, device=CUDA).int().view(len(lengths), 256)
    q = normal(len(lengths), 1, 8, 128)
    for left in (window - 1, 15, 16, 0):
        out = swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=ints(*lengths), page_table=table, causal=True,
                                          window_size=(left, 0))
        for i, length in enumerate(lengths):
            first = max(0, length - 1 - left)
            keys, values = (t[table[i].long()].flatten(0, 1)[first:length].transpose(0, 1)[None] for t in (k, v))
            worst = max(worst, error_of(out[i:i + 1].transpose(1, 2), attention(q[i:i + 1].transpose(1, 2), keys, values)))
    assert worst < 1e-2, f"{worst:.1e}"
    return f"o {worst:.0e}"


@check("Dao-AILab/flash-attention#1417, meta-pytorch/gpt-fast#233")
def a_cache_far_longer_than_its_lengths():
    """The rows behind a length are NaN, and the same call on a slice of the cache agrees."""
    k, v = (torch.full((2, 131072, 2, 128), torch.nan, dtype=torch.bfloat16, device=CUDA) for _ in range(2))
    q, length = normal(2, 1, 8, 128), 40960
    k[:, :length], v[:, :length] = normal(2, length, 2, 128), normal(2, length, 2, 128)
    right = attention(*(t.transpose(1, 2) for t in (q, k[:, :length], v[:, :length])))
    calls = {"whole": swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=length),
             "slice": swr.flash_attn_with_kvcache(q, k[:, :length], v[:, :length]),
             "longer": swr.flash_attn_with_kvcache(q, k[:, :65536], v[:, :65536], cache_seqlens=ints(length, length))}
    return near(1e-2, **{name: (o.transpose(1, 2), right) for name, o in calls.items()})


@check("Dao-AILab/flash-attention#1569, #1402")
def steps_of_several_tokens_beside_the_whole():
    """Tokens that are appended 1 to 200 at a time give what the whole sequence gives at once."""
    q, k, v = normal(2, 300, 8, 64), normal(2, 300, 2, 64), normal(2, 300, 2, 64)
    right = attention(*(t.transpose(1, 2) for t in (q, k, v)), causal=True)
    caches, parts, at = [torch.zeros(2, 512, 2, 64, dtype=q.dtype, device=CUDA) for _ in range(2)], [], 0
    for count in (3, 1, 60, 2, 1, 200, 33):
        new = slice(at, at + count)
        parts.append(swr.flash_attn_with_kvcache(q[:, new], *caches, k[:, new], v[:, new], cache_seqlens=ints(at, at), causal=True))
        at += count
    return near(1e-2, o=(torch.cat(parts, 1).transpose(1, 2), right))


@check("thu-ml/SageAttention#372, pytorch/executorch#22426")
def few_queries_at_the_end_of_many_keys():
    """The mask of fewer queries than keys begins at the last key, also where scores are huge."""
    texts = []
    for rows, keys, scale in ((1, 16, 1), (2, 4, 1), (17, 1000, 1), (1, 131, 2000), (129, 130, 2000)):
        q, k, v = normal(1, 4, rows, 64) * scale, normal(1, 4, keys, 64), normal(1, 4, keys, 64)
        texts.append(near(2e-2, o=(swr.sdpa(q, k, v, causal=True), attention(q, k, v, True))))
    return "; ".join(texts)


# GEMM.

@check("torch/torch7#58, ROCm/aiter#5385")
def products_of_expanded_and_cut_factors():
    """Factors that are expanded (stride 0) are refused by name; those cut out of a wider tensor are right."""
    weight, batch = normal(3, 512, 640), normal(3, 64, 512)
    for name, a, b in (("a", normal(1, 512).expand(64, 512), weight[0]), ("b", batch, weight[1:2].expand(3, 512, 640)),
                       ("a", normal(1, 1, 512).expand(3, 64, 512), weight)):
        try:
            swr.matmul(a, b)
        except ValueError as error:
            assert f"{name} is expanded" in str(error), str(error)
        else:
            raise AssertionError(f"an expanded {name} was taken")
    cases = {"cut": (batch, weight[:, :, 64:192]), "turned": (batch, normal(3, 640, 512).mT), "every other": (batch[:, ::2], weight)}
    return near(1e-2, **{name: (swr.matmul(a, b), a.double() @ b.double()) for name, (a, b) in cases.items()})


@check("NVIDIA/cutlass#2674, #1593, NVIDIA/TransformerEngine#3066, AMD-AGI/Primus-Turbo#408")
def groups_without_rows():
    """Experts that got no row, all of them or the first and the last; rows behind the last stay as they were."""
    b, worst = normal(5, 256, 384), 0.0
    for ends in ((0, 0, 0, 0, 0), (0, 8, 8, 200, 200), (7, 7, 7, 7, 8), (300, 300, 300, 300, 300)):
        a = normal(300, 256)
        a[ends[-1]:] = torch.nan
        out = swr.grouped_mm(a, b, ints(*ends))
        worst = max(worst, error_of_groups(out, a, b, ends))
    assert worst < 1e-2, f"{worst:.1e}"
    return f"c {worst:.0e}"


@check("NVIDIA/cutlass#49, triton-lang/triton#1297")
def products_of_odd_sizes_and_rows():
    """Odd m, n and k, rows that begin at odd elements, and strides far longer than rows."""
    worst = 0.0
    for m, n, k in ((2, 4, 3), (1, 1, 1), (1024, 1953, 2048), (511, 77, 1001)):
        for dtype in (torch.float16, torch.bfloat16):
            a, b = normal(k, m, dtype=dtype).t(), normal(k, n * 3 + 1, dtype=dtype)[:, n + 1:2 * n + 1]
            for one, other in ((a, b), (a.contiguous(), b), (normal(m, k + 1, dtype=dtype)[:, 1:], normal(n, k, dtype=dtype).t())):
                worst = max(worst, error_of(swr.matmul(one, other), one.double() @ other.double()))
    assert worst < 1e-2, f"{worst:.1e}"
    return f"c {worst:.0e}"


# Tuners.

def tuned(source, parameters, *options, block="bx", outputs=("o",), **more):
    """States by key, the winner's key and the process of a run over `source`, which has o and n."""
    with tempfile.TemporaryDirectory() as folder:
        where = pathlib.Path(folder)
        (where / "k.cu").write_text(source, encoding="utf-8")
        arguments = [{"name": name, "type": "float*", "size": "n", "output": True} for name in outputs]
        (where / "k.json").write_text(json.dumps({
            "swr_kernel": 1, "name": "k", "source": "k.cu", "entry": "k", "problem": {"n": 100000},
            "parameters": parameters, "block": block, "grid": "div_ceil(n, bx)",
            "arguments": [*arguments, {"name": "n", "type": "int", "value": "n"}], **more}), encoding="utf-8")
        done = subprocess.run([os.environ["SWR_TUNE"], "kernel", where / "k.json", "--events", where / "events", "--db",
                               where / "t.db", "--quiet", "--no-counters", "--samples", "10", *options],
                              capture_output=True, text=True, timeout=300, check=False)
        events = [json.loads(line) for line in (where / "events").read_text().splitlines()] if (where / "events").exists() else []
    states = {e["key"].split("portable,")[-1]: e["state"] for e in events if e["event"] == "variant"}
    best = [e["best"] for e in events if e["event"] == "end"]
    assert states, f"nothing was tried: {(done.stderr or done.stdout).strip()[-300:]}"
    return states, (best or [None])[-1], done


def expect_states(expected, states, best, done):
    """`expected` maps texts of keys to states; all others are ok, and one of these wins."""
    wrong = {}
    for key, state in states.items():
        wanted = next((s for text, s in expected.items() if text in key), "ok")
        if state != wanted:
            wrong[key] = state
    assert not wrong, f"{wrong}; {done.stderr.strip()[-200:]}"
    assert done.returncode == 0 and best and not any(text in best for text in expected), f"best {best}, exit {done.returncode}; {done.stderr.strip()[-300:]}"
    return ", ".join(f"{n} {state}" for state, n in sorted(collections.Counter(states.values()).items()))


KERNEL = """extern "C" __global__ void k(float* o, int n) {
  int i = blockIdx.x * bx + threadIdx.x;
  %s
  if (i < n) o[i] = i + 1;
}
"""


@check("triton-lang/triton#6224")
def a_variant_that_faults():
    """The usual one, which is also the first that would say what is right."""
    return expect_states({"bx=32": "runtime"}, *tuned(
        KERNEL % "if (bx == 32) *(volatile int*)16 = 1;", {"bx": [32, 64, 128, 256]}))


@check("ROCm/rocMLIR#2430, pytorch/pytorch#123932, facebookresearch/TensorComprehensions#394")
def a_variant_that_hangs():
    return expect_states({"bx=32": "timeout"}, *tuned(
        KERNEL % "if (bx == 32) while (true) __nanosleep(100000);", {"bx": [32, 64, 128]}, deadline_s=4))


@check("triton-lang/triton#2596, intel/intel-xpu-backend-for-triton#5773")
def variants_that_do_not_fit():
    """Too much memory, too much shared memory, no compilation: all but one, in every way."""
    source = KERNEL % "extern __shared__ float s[]; s[threadIdx.x] = 0;\n#if bx == 96\n#error no\n#endif"
    arguments = [{"name": "o", "type": "float*", "size": "n if bx != 64 else 2**38", "output": True},
                 {"name": "n", "type": "int", "value": "n"}]
    states, best, done = tuned(source, {"bx": [32, 64, 96, 128]}, shared_bytes="300000 if bx == 32 else 4 * bx",
                               arguments=arguments)
    assert states.get("bx=128") == "ok" and list(states.values()).count("ok") == 1, f"{states}"
    assert done.returncode == 0 and best and "bx=128" in best, f"best {best}, exit {done.returncode}"
    return str(states)


@check("ROCm/MIOpen#1400, siboehm/SGEMM_CUDA#20")
def nan_is_no_right_answer():
    """A comparison with NaN is false either way, and must not pass."""
    return expect_states({"bx=256": "correctness", "bx=128": "correctness"}, *tuned(
        "extern \"C\" __global__ void k(float* o, int n) { int i = blockIdx.x * bx + threadIdx.x; if (i < n) "
        "o[i] = bx == 128 ? 0.f / (i - i) : bx == 256 && i == n - 1 ? 1.f / (i - i) : i + 1; }\n",
        {"bx": [32, 64, 128, 256]}))


@check("llnl/RAJAPerf#170")
def a_variant_that_does_nothing():
    return expect_states({"bx=256": "correctness"}, *tuned(KERNEL % "if (bx == 256) return;", {"bx": [32, 64, 256]}))


@check("KernelTuner/kernel_tuner#46")
def a_budget_and_few_samples():
    """--budget counts the default variant too, and one sample a variant is enough for a time."""
    states, best, done = tuned(KERNEL % "", {"bx": [32 * i for i in range(1, 33)]}, "--budget", "6", "--samples", "1")
    assert len(states) == 6 and "bx=32" in states and best and done.returncode == 0, f"{states}, best {best}"
    return f"{len(states)} measured"


@check("KernelTuner/kernel_tuner#314, #202")
def an_objective_that_is_to_be_large():
    """Variants that fail have no value that looks good, whichever way is up."""
    states, best, done = tuned(KERNEL % "if (bx == 32) *(volatile int*)16 = 1;", {"bx": [32, 64, 128, 256]},
                               objective="1 / time_us", objective_higher_is_better=True)
    return expect_states({"bx=32": "runtime"}, states, best, done)


@check("NTNU-HPC-Lab/BAT, in other words")
def outputs_that_a_parameter_chooses():
    """Of three outputs each variant writes the one that WHICH names; one variant writes its own wrongly."""
    source = ("extern \"C\" __global__ void k(float* a, float* b, float* c, int n) { int i = blockIdx.x * bx + threadIdx.x; "
              "float* to = WHICH == 0 ? a : WHICH == 1 ? b : c; if (i < n) to[i] = i + WHICH + (bx == 256 && WHICH == 2); }\n")
    return expect_states({"bx=256,WHICH=2": "correctness"}, *tuned(
        source, {"bx": [32, 64, 128, 256], "WHICH": [0, 1, 2]}, outputs=("a", "b", "c")))


def main(checks=None):
    if not torch.cuda.is_available():
        print("PyTorch finds no GPU")
        return 2
    failures = 0
    for name, (function, report) in (checks or CHECKS).items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(1)
        begin = time.time()
        try:
            with torch.no_grad():
                verdict, found = "PASS", function()
            torch.cuda.synchronize()
        except Exception as error:  # Every check is to run.
            verdict, found = "FAIL", f"{type(error).__name__}: {error}"
            failures += 1
        print(f"{verdict} {name}: {found[:400]} ({report}; {time.time() - begin:.1f} s)", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
