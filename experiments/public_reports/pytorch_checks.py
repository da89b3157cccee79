#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Public reports about derivatives, graphs, streams and compilers, called as checks.py is."""

import functools
import pickle
import subprocess
import sys
import threading

import torch
from torch.autograd import forward_ad

import checks
import swr
from checks import (CUDA, E4M3, all_refused, attention, error_of, fp8, gradients, ints, near, normal,
                    positive,
                    refused)
from swr import deep_gemm

PYTORCH = {}
check = functools.partial(checks.check, among=PYTORCH)


@swr.kernel(source="""extern "C" __global__ void twice(float* y, const float* x, int n) {
  const int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
""", parameters={"block_size_x": [64, 128]}, block="block_size_x", grid="div_ceil(n, block_size_x)")
def twice(y=swr.array("float32", "n", output=True), x=swr.array("float32", "n"), n=swr.size(1000)):
    """Of a user."""


# Derivatives.

@check("Dao-AILab/flash-attention#1973, #2102, #141")
def gradients_that_nobody_computes():
    """What needs a gradient and would get none is refused, whichever argument it is."""
    def need(*shape, dtype=torch.bfloat16):
        return normal(*shape, dtype=dtype).requires_grad_()
    x, w, q, a, b = normal(32, 64), normal(48, 64), normal(1, 16, 4, 64), fp8(32, 64), fp8(48, 64)
    one = positive(1)
    rows, columns, cache = positive(32), positive(1, 48), normal(1, 32, 4, 64)
    calls = {
        "bias": lambda: swr.linear(x, w, need(48)),
        "residual": lambda: swr.linear(x, w, residual=need(32, 48)),
        "s_aux": lambda: swr.flash_attn_func(q, q, q, s_aux=need(4)),
        "v of merge_states": lambda: swr.merge_states(need(5, 2, 4, 64), positive(5, 2, 4))[0],
        "s of merge_states": lambda: swr.merge_states(normal(5, 2, 4, 64),
                                                      need(5, 2, 4, dtype=torch.float32))[0],
        "bias of scaled_mm": lambda: swr.scaled_mm(a, b.t(), one, one, need(48)),
        "scale_a": lambda: swr.scaled_mm(a, b.t(), positive(1).requires_grad_(), one),
        "a of scaled_mm": lambda: swr.scaled_mm(fp8(32, 64).requires_grad_(), b.t(), one, one),
        "scale_b of experts": lambda: swr.scaled_grouped_mm(a, b.t()[None], rows,
                                                            positive(1, 48).requires_grad_(), ints(32)),
        "a of experts": lambda: swr.grouped_mm(need(32, 64), w.t()[None], ints(32)),
        "appended": lambda: swr.flash_attn_with_kvcache(q, cache, cache.clone(), need(1, 16, 4, 64),
                                                        normal(1, 16, 4, 64), cache_seqlens=0)}
    with torch.enable_grad():
        return all_refused(**{name: refused(call, "backward", "gradient") for name, call in calls.items()})


@check("pytorch/pytorch#187284, #165517, #154226")
def tangents_of_forward_mode():
    """A tangent is not dropped: the call is refused."""
    q, x, w = normal(1, 4, 32, 64), normal(32, 64), normal(48, 64)
    one, a, b = positive(1), fp8(32, 64), fp8(48, 64)
    with forward_ad.dual_level():
        def dual(t):
            return forward_ad.make_dual(t, torch.ones_like(t))
        calls = {"sdpa": lambda: swr.sdpa(dual(q), q, q), "matmul": lambda: swr.matmul(dual(x), w.t()),
                 "linear": lambda: swr.linear(x, w, dual(normal(48))),
                 "func": lambda: swr.flash_attn_func(q, dual(q), q),
                 "experts": lambda: swr.grouped_mm(dual(x), w.t()[None], ints(32)),
                 "scaled_mm": lambda: swr.scaled_mm(a, b.t(), dual(one), one)}
        return all_refused(**{name: refused(call, "forward") for name, call in calls.items()})


@check("pytorch/pytorch#122706, pytorch/functorch#105, #1019")
def transforms_of_functions():
    """vmap gives what a loop gives, or an error that names it; grad of torch.func one that says so."""
    q, k, v = (normal(3, 2, 4, 64, 64) for _ in range(3))
    x, w = normal(3, 32, 64), normal(48, 64)
    texts = []
    for name, call, inputs in (("sdpa", lambda *t: swr.sdpa(*t, causal=True), (q, k, v)),
                               ("matmul", lambda t: swr.matmul(t, w.t()), (x,)),
                               ("linear", lambda t: swr.linear(t, w), (x,)),
                               ("func", lambda *t: swr.flash_attn_func(*t), (q, k, v))):
        right = torch.stack([call(*[t[i] for t in inputs]) for i in range(3)])
        found = []
        fault = refused(lambda: found.append(torch.func.vmap(call)(*inputs)), "vmap", "transform")
        assert fault in ("", "is taken"), f"vmap of {name} {fault}"
        assert not found or error_of(found[0], right.double()) < 1e-2, f"vmap of {name} is wrong"
        texts.append(f"{name} {'right' if found else 'refused'}")
    with torch.enable_grad():
        of = {"sdpa": (lambda t: swr.sdpa(t, k[0], v[0]), q[0]),
              "matmul": (lambda t: swr.matmul(t, w.t()), x[0])}
        faults = {name: refused(lambda: torch.func.grad(lambda t: call(t).float().sum())(t), "torch.func",
                                "backward")
                  for name, (call, t) in of.items()}
    return "vmap of " + ", ".join(texts) + "; grad: " + all_refused(**faults)


@check("pytorch/pytorch#116350, SHI-Labs/NATTEN#191")
def gradients_of_gradients():
    """A second derivative is refused, not 0."""
    q, k, v = (normal(1, 2, 32, 64).requires_grad_() for _ in range(3))
    with torch.enable_grad():
        first = torch.autograd.grad(swr.sdpa(q, k, v).sum(), q, create_graph=True)[0]
        try:
            second = torch.autograd.grad(first.float().square().sum(), k, allow_unused=True)
        except RuntimeError as error:
            return f"refused: {str(error)[:80]}"
    raise AssertionError(f"a second derivative: {second}")


@check("pytorch/pytorch#56058, flagos-ai/Torch-FL#211")
def views_with_the_negative_bit():
    """x.conj().imag is a view that negates what it reads: right, or refused."""
    q, x = torch.randn(2, 1, 4, 48, 64, device=CUDA), torch.randn(2, 32, 64, device=CUDA)
    w = normal(48, 64, dtype=torch.float16)
    q, x = (torch.complex(*t).to(torch.complex32).conj().imag for t in (q, x))
    y = swr.linear(x, w)
    return near(1e-2, linear=(y, x.double() @ w.double().t())) + "; " + all_refused(
        sdpa=refused(lambda: swr.sdpa(q, q, q), "contiguous"),
        matmul=refused(lambda: swr.matmul(x, w.t()), "contiguous"),
        func=refused(lambda: swr.flash_attn_func(q, q, q), "contiguous"))


# Graphs, streams and compilers.

@check("pytorch/pytorch#193402, ROCm/aiter#3516, #4494")
def graphs_beside_eager_calls():
    """Graphs of one stream and eager calls on two others at once; one graph is dropped meanwhile."""
    x, w = normal(16, 16384), normal(64, 16384)
    q, k, v = normal(2, 1, 8, 128), normal(2, 30000, 2, 128), normal(2, 30000, 2, 128)

    def call():
        return swr.matmul(x, w.t()), swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=29000)
    right, stream, streams = call(), torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    graphs = []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            graphs.append((graph, call()))
    for i in range(20):
        if i == 5:
            graphs[0][0].reset()
            del graphs[0]
        for graph, _ in graphs:
            graph.replay()
        eager = []
        for one in streams:
            with torch.cuda.stream(one):
                eager.append(call())
        torch.cuda.synchronize()
        for found in (*eager, *[out for _, out in graphs]):
            assert all(torch.equal(t, r) for t, r in zip(found, right)), f"other bits in round {i}"
    return "20 rounds alike"


@check("vllm-project/vllm#53818, flashinfer-ai/flashinfer#5138, paiml/entrenar#325")
def first_calls_inside_a_capture():
    """Shapes that nobody called before, captured at once on a stream that is new."""
    x, w, a, b, one = normal(24, 12288), normal(72, 12288), fp8(24, 12288), fp8(72, 12288), positive(1)
    q, k, v = normal(3, 2, 12, 128), normal(3, 20000, 3, 128), normal(3, 20000, 3, 128)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        c, o = swr.matmul(x, w.t()), swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=19000, causal=True)
        d = swr.scaled_mm(a, b.t(), one, one)
    graph.replay()
    return near(1e-2, c=(c, x.double() @ w.double().t()), d=(d,
                                                             a.double() @ b.double().t() * one.double() ** 2),
                o=(o.transpose(1, 2), attention(q.transpose(1, 2), *(t[:, :19000].transpose(1,
                                                                                            2) for t in (k,
                                                                                                         v)),
                                                True)))


@check("Dao-AILab/flash-attention#1277, ggml-org/llama.cpp#22107, #22585")
def a_thousand_lengths_hold_no_memory():
    """Calls of growing lengths, forward and backward, leave the memory of the device where it was."""
    def round_of(lengths):
        for n in lengths:
            q, k = normal(n, 8, 64), normal(n, 2, 64)
            swr.flash_attn_varlen_func(q, k, k, ints(0, n // 3, n), ints(0, n // 3, n), n, n, causal=True)
            swr.flash_attn_with_kvcache(q[None, :1], k[None], k[None])
            if n % 10 == 0:
                swr.matmul(q[:, 0], k[:, 0].t())
                dense = [t[:100].transpose(0, 1)[None] for t in (q, k, k)]
                gradients(swr.sdpa, dense, dense[0])
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]
    round_of((3, 1000, 2000))
    before = round_of(range(200, 300))
    after = round_of(range(300, 1300))
    assert before - after < 64 << 20, f"{(before - after) >> 20} MiB less"
    return f"{(before - after) >> 20} MiB less"


@check("pytorch/pytorch#112430, pytorch/ao#4624, Dao-AILab/flash-attention#2013")
def compiled_linear_and_fp8():
    """torch.compile of a function with them gives what it gives without."""
    x, w, bias, a, b, one = normal(32, 64), normal(48, 64), normal(48), fp8(32, 64), fp8(48, 64), positive(1)
    v, s = normal(5, 2, 4, 64), positive(5, 2, 4)

    def model(x, a):
        y = swr.linear(x * 0.5, w, bias, activation="silu", residual=x[:, :48]) + 1.0
        d = torch.empty(32, 48, device=CUDA, dtype=x.dtype)
        deep_gemm.fp8_gemm_nt((a, rows), (b, one[None]), d)
        twice(z := torch.empty_like(one.expand(1000) * 1), one.expand(1000) * 2, 1000)
        return y + swr.scaled_mm(a, b.t(), one, one, bias), swr.merge_states(v * 2, s)[0] + 1, d * 2, z + 1
    rows, names = positive(32, 1), ("y", "o", "d", "z")
    found, right = torch.compile(model)(x, a), model(x, a)
    return near(1e-2, **{name: (f, r.double()) for name, f, r in zip(names, found, right)})


@check("python/cpython#79492, #103061, uqfoundation/multiprocess#33")
def errors_cross_processes():
    """An error of a worker of a pool arrives, where one that cannot be unpickled hangs the pool."""
    error = pickle.loads(pickle.dumps(swr.Error("not_found", "no such kernel")))
    assert (error.code, str(error)) == ("not_found", "no such kernel"), f"{error.code}, {error}"
    return repr(error)


@check("NVIDIA/TransformerEngine#872, vllm-project/vllm#14910")
def importing_leaves_cuda_alone():
    """A program that forks afterwards must not have a context."""
    source = ("import torch, swr; swr.sdpa, swr.matmul, swr.linear, swr.grouped_mm, swr.run_paged, "
              "swr.flash_attn_func; import swr.deep_gemm; swr.Lookup; print(torch.cuda.is_initialized())")
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=100,
                          check=False)
    assert done.stdout.strip() == "False", f"{done.stdout} {done.stderr[-200:]}"
    return "no context"


@check("huggingface/diffusers#14104, huggingface/transformers#35945")
def types_under_autocast():
    """Q and K that a norm left in float32: right, or an error that names the types."""
    q, k, v = normal(1, 4, 32, 64).float(), normal(1, 4, 32, 64).float(), normal(1, 4, 32, 64)
    with torch.autocast(CUDA, dtype=torch.bfloat16):
        return all_refused(sdpa=refused(lambda: swr.sdpa(q, k, v), "float32"),
                           matmul=refused(lambda: swr.matmul(q, k.mT), "float32", "takes b"),
                           func=refused(lambda: swr.flash_attn_func(v, k, v), "float32"),
                           linear=refused(lambda: swr.linear(q, q[0, 0]), "float32"))


@check("pytorch/pytorch#157363, flashinfer-ai/flashinfer#541, #482")
def compiled_with_graphs_and_other_shapes():
    """torch.compile with mode reduce-overhead, and dynamic shapes: called with other numbers and sizes."""
    w, bias = normal(64, 64), normal(64)

    def model(x, k):
        q = swr.linear(x, w, bias).view(1, -1, 1, 64)
        rows = k.transpose(1, 2)
        return swr.flash_attn_func(q, rows, rows, causal=True), swr.matmul(swr.sdpa(q.transpose(1, 2), k,
                                                                                    k)[0, 0], w) * 2
    for options in ({"mode": "reduce-overhead"}, {"dynamic": True}):
        torch._dynamo.reset()
        compiled, worst = torch.compile(model, **options), 0.0
        for rows in (40, 40, 40, 56, 56, 56, 72):
            x, k = normal(rows, 64), normal(1, 1, rows + 8, 64)
            torch.compiler.cudagraph_mark_step_begin()
            found = [t.clone() for t in compiled(x, k)]
            worst = max(worst, *(error_of(f, r.double()) for f, r in zip(found, model(x, k))))
        assert worst < 1e-2, f"{options}: {worst:.1e}"
    return f"o {worst:.0e}"


@check("flagos-ai/Torch-FL#383, pytorch/pytorch#77174, #196523")
def functions_under_modes():
    """What a mode or a tracer is to see goes through the dispatcher: make_fx, export, a mode that counts."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        names = set()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.add(function.name().split(".")[0])
            return function(*args, **(kwargs or {}))
    x, other, w, q = normal(32, 64), normal(32, 64), normal(64, 64), normal(1, 2, 32, 64)

    class Model(torch.nn.Module):
        def forward(self, x):
            y = swr.linear(x, w).view(1, 1, 32, 64)
            return swr.sdpa(y, q[:, :1], q[:, :1]), swr.flash_attn_func(y, y, y), swr.matmul(x, w)
    model = Model()
    right = model(other)
    traced, exported = make_fx(model)(x), torch.export.export(model, (x,)).module()
    for name, found in (("make_fx", traced(other)), ("export", exported(other))):
        assert all(torch.equal(f, r) for f, r in zip(found, right)), f"{name} gives something else"
    with Counter():
        model(x)
    missing = {"swr::linear", "swr::sdpa", "swr::serving_attention", "swr::matmul"} - Counter.names
    assert not missing, f"not seen: {missing}"
    return "traced, exported and seen"


@check("microsoft/onnxruntime#21413, flashinfer-ai/flashinfer#4481")
def threads_with_streams_of_their_own():
    """Six threads, each on its stream: split k, split keys, experts and gradients, as alone."""
    x, w, q, k = normal(16, 16384), normal(64, 16384), normal(2, 1, 8, 128), normal(2, 30000, 2, 128)
    dense, b, offs = [normal(1, 4, 130, 64) for _ in range(3)], normal(3, 64, 96), ints(40, 41, 130)

    def calls():
        return (swr.matmul(x, w.t()), swr.linear(x, w),
                swr.flash_attn_with_kvcache(q, k, k, cache_seqlens=29000),
                swr.grouped_mm(dense[0][0, 0], b, offs), swr.sdpa(*dense),
                gradients(swr.sdpa, dense, dense[0])[2])
    right, wrong = calls(), []
    torch.cuda.synchronize()

    def work(number):
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(15):
                    found = calls()
                    torch.cuda.current_stream().synchronize()
                    wrong.extend(i for i, pair in enumerate(zip(found, right))
                                 if not torch.allclose(*pair, atol=1e-2, rtol=1e-2))
        except Exception as error:  # Reported by the check.
            wrong.append(f"{type(error).__name__}: {error}")
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"{wrong[:5]}"
    return "6 threads alike"


@check("cupy/cupy#7189, NVIDIA/cudnn-frontend#483, sgl-project/sglang#36572")
def launches_on_the_current_stream():
    """Inputs that a busy side stream has yet to write are read after that; a kernel of a user in a graph."""
    right, stream = normal(64, 64), torch.cuda.Stream()
    x = torch.zeros_like(right)
    one, vector = positive(1), torch.zeros(1000, device=CUDA)
    calls = {"matmul": lambda: swr.matmul(x, right), "linear": lambda: swr.linear(x, right),
             "sdpa": lambda: swr.sdpa(*(x.view(1, 1, 64, 64),) * 3),
             "func": lambda: swr.flash_attn_func(*(x.view(1, 64, 1, 64),) * 3),
             "experts": lambda: swr.grouped_mm(x, right[None], ints(64)),
             "fp8": lambda: swr.scaled_mm(x.to(E4M3), x.to(E4M3).t(), one, one),
             "merge": lambda: swr.merge_states(x.view(1, 1, 64, 64), torch.zeros(1, 1, 64, device=CUDA))[0],
             "kernel": lambda: (twice(y := torch.empty_like(vector), vector, 1000), y)[1]}
    expected = {}
    for begin in (True, False):
        for name, call in calls.items():
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                x.zero_(), vector.zero_()
                stream.synchronize()
                torch.cuda._sleep(0 if begin else 20_000_000)
                x.copy_(right), vector.fill_(3.0)
                found = call()
            torch.cuda.synchronize()
            if begin:
                expected[name] = found
            assert torch.equal(found,
                               expected[name]) and found.float().abs().sum() > 0, f"{name} read too early"
    graph, y = torch.cuda.CUDAGraph(), torch.zeros(1000, device=CUDA)
    with torch.cuda.graph(graph):
        twice(y, vector, 1000)
    vector.fill_(5.0)
    graph.replay()
    assert bool((y == 10).all()), "the graph has no launch of the kernel"
    return f"{len(calls)} wait for their stream"


@check("facebookresearch/xformers#456, meta-pytorch/MSLK#467")
def one_leaf_for_all_inputs():
    """Q, K and V of one leaf, K expanded from one, a graph that is kept, a checkpoint that is reentrant."""
    from torch.utils.checkpoint import checkpoint
    x, other, d_o = normal(2, 6, 70, 64), normal(2, 6, 70, 64), normal(2, 6, 70, 64)
    alone = gradients(lambda t: swr.sdpa(t, t, t, causal=True), (x,), d_o)[0]
    right = gradients(lambda t: attention(t, t, t, True), (x.double(),), d_o.double())[0]
    k = normal(2, 1, 70, 64)
    of_k = gradients(lambda t: swr.sdpa(x, t.expand(2, 6, 70, 64), t.expand(2, 6, 70, 64)), (k,), d_o)[0]
    right_k = gradients(lambda t: attention(x, t, t), (k.double(),), d_o.double())[0]
    with torch.enable_grad():
        leaf = x.clone().requires_grad_()
        o = swr.sdpa(leaf, leaf, leaf, causal=True)
        for _ in range(2):
            o.backward(d_o, retain_graph=True)
        kept = leaf.grad / 2
        leaf.grad = None
        checkpoint(lambda t: swr.sdpa(t, t, t, causal=True), leaf, use_reentrant=True).backward(d_o)
        frozen = x.clone().requires_grad_()
        swr.sdpa(frozen, other, other, causal=True).backward(d_o)
    keys = other.double()
    right_q = gradients(lambda t: attention(t, keys, keys, True), (x.double(),), d_o.double())[0]
    return near(1e-2, one=(alone, right), expanded=(of_k, right_k), kept=(kept, right),
                checkpoint=(leaf.grad, right), q=(frozen.grad, right_q))


if __name__ == "__main__":
    sys.exit(checks.main(PYTORCH))
