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
CHECKS = {}


def check(report):
    """Registers a function that returns what it found, or raises."""
    def register(function):
        CHECKS[function.__name__] = function, report
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


# GEMM.

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
    assert done.returncode == 0 and best and not any(text in best for text in expected), f"best {best}, exit {done.returncode}"
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


def main():
    if not torch.cuda.is_available():
        print("PyTorch finds no GPU")
        return 2
    failures = 0
    for name, (function, report) in CHECKS.items():
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
