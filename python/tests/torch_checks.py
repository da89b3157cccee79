# SPDX-License-Identifier: MIT
"""swr.sdpa against PyTorch's math SDPA, and swr.matmul against torch.matmul in fp32, on a GPU: random
shapes and strides, log-sum-exp, torch.compile, CUDA graphs, streams, threads, empty and large sizes, and
the overhead per call. Prints what it finds; ends with 1 when a check fails.

    PYTHONPATH=python SWR_LIBRARY=.../libswr.so python python/tests/torch_checks.py [CHECK...]
"""

import contextlib
import ctypes
import itertools
import math
import os
import random
import sys
import threading
import time

import torch
import torch.nn.functional as F

import swr
from swr import _library, _torch

TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2}


def math_sdpa(q, k, v, causal, scale=None):
    """O and the log-sum-exp in fp32, with the mask aligned to the bottom right; rows that see no key
    give zeros and -inf."""
    groups = q.shape[1] // k.shape[1]
    q, k, v = q.float(), k.float().repeat_interleave(groups, 1), v.float().repeat_interleave(groups, 1)
    scores = (q @ k.transpose(-1, -2)) * (scale if scale else q.shape[-1] ** -0.5)
    if causal:
        rows = torch.arange(q.shape[2], device=q.device)[:, None]
        keys = torch.arange(k.shape[2], device=q.device)[None, :]
        scores = scores.masked_fill(keys > rows + k.shape[2] - q.shape[2], float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)) @ v, scores.logsumexp(-1)


def relative_error(out, reference):
    return ((out.float() - reference).norm() / reference.norm().clamp_min(1e-30)).item()


def random_tensor(generator, batch, heads, length, head_dim, dtype):
    """A tensor with strides of one of the usual kinds; head_dim stays contiguous."""
    def normal(*shape):
        return torch.randn(*shape, device="cuda", dtype=dtype)
    kind = generator.randrange(6)
    if kind == 0:
        return normal(batch, heads, length, head_dim)
    if kind == 1:
        return normal(batch, length, heads, head_dim).transpose(1, 2)
    if kind == 2:
        return normal(length, batch, heads, head_dim).permute(1, 2, 0, 3)
    if kind == 3:
        return normal(batch, heads, length + 3, 2 * head_dim)[:, :, 3:, head_dim:]
    if kind == 4:  # Rows at odd multiples of 2 bytes.
        return normal(batch, heads, length, head_dim + 1)[..., :head_dim]
    packed = normal(batch, length, 3 * heads * head_dim)
    return packed.view(batch, length, 3, heads, head_dim)[:, :, 1].transpose(1, 2)


def check_random_shapes(count=200):
    generator = random.Random(1)
    torch.manual_seed(1)
    worst = {dtype: 0.0 for dtype in TOLERANCE}
    for _ in range(count):
        kv_heads = generator.choice([1, 2, 3])
        heads = kv_heads * generator.choice([1, 2, 4])
        batch = generator.choice([1, 2, 3])
        head_dim = generator.choice([64, 64, 128, 128, 96, 80, 256])
        length, kv_length = generator.randint(1, 700), generator.randint(1, 700)
        dtype = generator.choice(list(TOLERANCE))
        causal = generator.random() < 0.5
        q = random_tensor(generator, batch, heads, length, head_dim, dtype)
        k = random_tensor(generator, batch, kv_heads, kv_length, head_dim, dtype)
        v = random_tensor(generator, batch, kv_heads, kv_length, head_dim, dtype)
        reference, reference_lse = math_sdpa(q, k, v, causal)
        out, lse = swr.sdpa(q, k, v, causal=causal, return_lse=True)
        error = relative_error(out, reference)
        torch.testing.assert_close(lse, reference_lse, rtol=1e-3, atol=1e-3)
        worst[dtype] = max(worst[dtype], error)
        assert error <= TOLERANCE[dtype], (error, q.shape, q.stride(), k.shape, k.stride(), causal)
    print(f"{count} random shapes of sdpa, log-sum-exp right: worst relative L2 error",
          ", ".join(f"{dtype}: {error:.2e}" for dtype, error in worst.items()))


def leaves(*tensors):
    return [tensor.detach().requires_grad_() for tensor in tensors]


def gradients(function, inputs, d_o):
    with torch.enable_grad():
        return torch.autograd.grad(function(*inputs), inputs, d_o)


@contextlib.contextmanager
def deterministic(wanted=True):
    torch.use_deterministic_algorithms(wanted)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def check_random_gradients(count=100):
    generator = random.Random(4)
    torch.manual_seed(4)
    worst = {dtype: 0.0 for dtype in TOLERANCE}
    for number in range(count):
        kv_heads = generator.choice([1, 2])
        heads = kv_heads * generator.choice([1, 2, 4])
        head_dim = generator.choice([64, 128, 96, 256])
        length, kv_length = generator.randint(2, 400), generator.randint(2, 400)
        dtype = generator.choice(list(TOLERANCE))
        causal = generator.random() < 0.5
        q = random_tensor(generator, 2, heads, length, head_dim, dtype)
        k = random_tensor(generator, 2, kv_heads, kv_length, head_dim, dtype)
        v = random_tensor(generator, 2, kv_heads, kv_length, head_dim, dtype)
        d_o = random_tensor(generator, 2, heads, length, head_dim, dtype)
        with deterministic(number % 2 == 0):
            found = gradients(lambda *t: swr.sdpa(*t, causal=causal), leaves(q, k, v), d_o)
        exact = gradients(lambda *t: math_sdpa(*t, causal)[0],
                          leaves(q.float(), k.float(), v.float()), d_o.float())
        error = max(relative_error(a, b) for a, b in zip(found, exact))
        worst[dtype] = max(worst[dtype], error)
        assert error <= 2 * TOLERANCE[dtype], (error, q.shape, q.stride(), k.shape, causal, dtype)
    print(f"{count} random gradients: worst relative L2 error",
          ", ".join(f"{dtype}: {error:.2e}" for dtype, error in worst.items()))


def gradients_of_both(attention, inputs, d_o, d_lse, with_o):
    """Of a loss of the log-sum-exps, which V takes no part in, or of both results."""
    with torch.enable_grad():
        out, lse = attention(*inputs)
        results = ((out, d_o.to(out.dtype)), (lse, d_lse)) if with_o else ((lse, d_lse),)
        return torch.autograd.grad([one for one, _ in results], inputs[:3 if with_o else 2],
                                   [gradient for _, gradient in results])


def check_gradients_of_lse():
    """Here and on a thread that never touched CUDA."""
    worst = 0.0
    for head_dim, causal, dtype, with_o in itertools.product(
            (64, 128, 256), (False, True), TOLERANCE, (False, True)):
        q, k, v, d_o = [torch.randn(2, heads, length, head_dim, device="cuda", dtype=dtype)
                        for heads, length in ((4, 200), (2, 300), (2, 300), (4, 200))]
        d_lse = torch.randn(2, 4, 200, device="cuda")

        def of(attention, *inputs):
            return gradients_of_both(attention, leaves(*inputs), d_o, d_lse, with_o)
        exact = of(lambda *t: math_sdpa(*t, causal), q.float(), k.float(), v.float())
        for run in (in_new_thread, lambda action: action()):
            found = run(lambda: of(lambda *t: swr.sdpa(*t, causal=causal, return_lse=True), q, k, v))
            error = max(relative_error(a, b) for a, b in zip(found, exact))
            assert error <= 2 * TOLERANCE[dtype], (error, head_dim, causal, dtype, with_o)
            worst = max(worst, error)
    print(f"gradients through log-sum-exps: worst relative L2 error {worst:.1e}")


def check_backward_modes():
    """Compiled, checkpointed, captured, and repeated where that is promised."""
    from torch.utils.checkpoint import checkpoint
    q, k, v = leaves(*some_tensors())
    d_o = torch.randn_like(q)

    def model(q, k, v):
        return swr.sdpa(q * 0.5, k, v, causal=True)
    with deterministic():
        expected = gradients(model, (q, k, v), d_o)
        for name, function in (
                ("again", model), ("compiled", torch.compile(model, fullgraph=True)),
                ("checkpointed", lambda *t: checkpoint(model, *t, use_reentrant=False))):
            found = gradients(function, (q, k, v), d_o)
            assert all(torch.equal(a, b) for a, b in zip(expected, found)), name
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = gradients(model, (q, k, v), d_o)
    for gradient in captured:
        gradient.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(expected, captured)), "captured"
    print("backward: compiled, checkpointed and captured equal to eager")


def random_matrix(generator, batch, rows, columns, dtype):
    """Rows or columns contiguous; [rows, columns] for no batch."""
    shape = () if batch is None else (batch,)
    kind = generator.randrange(4)
    if kind == 0:
        return torch.randn(*shape, rows, columns, device="cuda", dtype=dtype)
    if kind == 1:
        return torch.randn(*shape, columns, rows, device="cuda", dtype=dtype).mT
    if kind == 2:  # Rows at odd multiples of 2 bytes.
        wide = torch.randn(*shape, rows, 2 * columns + 1, device="cuda", dtype=dtype)
        return wide[..., :columns]
    return torch.randn(*shape, rows + 3, columns + 8, device="cuda", dtype=dtype)[..., 3:, 8:]


def check_random_products(count=200):
    generator = random.Random(3)
    torch.manual_seed(3)
    outputs = {torch.float16: 1e-3, torch.bfloat16: 6e-3, torch.float32: 1e-4}
    worst = {dtype: 0.0 for dtype in outputs}
    refused = 0
    for _ in range(count):
        m, n, k = (generator.choice([1, 8, generator.randint(1, 300), 8 * generator.randint(1, 200)])
                   for _ in range(3))
        batch = generator.choice([None, None, 1, 3])
        dtype, out_dtype = generator.choice(list(TOLERANCE)), generator.choice(list(outputs))
        a = random_matrix(generator, batch, m, k, dtype)
        b = random_matrix(generator, batch, k, n, dtype)
        try:
            out = swr.matmul(a, b, out_dtype=out_dtype)
        except swr.Error as error:
            # No kernel with a float32 result takes rows at odd multiples of 2 bytes.
            assert out_dtype is torch.float32 and "multiples of 4 bytes" in str(error), error
            refused += 1
            continue
        error = relative_error(out, (a.double() @ b.double()).float())
        worst[out_dtype] = max(worst[out_dtype], error)
        assert error <= outputs[out_dtype], (error, out_dtype, a.shape, a.stride(), b.shape, b.stride())
    print(f"{count} random products, {refused} of them refused for their alignment: worst relative L2 "
          "error by type of the result",
          ", ".join(f"{dtype}: {error:.2e}" for dtype, error in worst.items()))


def some_tensors(length=512, heads=8, head_dim=128, dtype=torch.float16):
    torch.manual_seed(2)
    return [torch.randn(2, length, heads, head_dim, device="cuda", dtype=dtype).transpose(1, 2)
            for _ in range(3)]


def check_compile():
    def model(q, k, v):
        return swr.sdpa(q * 0.5, k, v, causal=True).transpose(1, 2).reshape(2, -1, 1024) + 1.0
    q, k, v = some_tensors()
    compiled = torch.compile(model, fullgraph=True)
    assert torch.equal(compiled(q, k, v), model(q, k, v))
    torch.library.opcheck(torch.ops.swr.sdpa.default, (q, k, v, True, 0.1))
    torch.library.opcheck(torch.ops.swr.sdpa_lse.default, (q, k, v, True, 0.1))
    print("torch.compile(fullgraph=True): equal to eager; opcheck passed")


def check_matmul_compile():
    def model(x, weight, other):
        return swr.matmul(swr.matmul(x * 0.5, weight.T), other, out_dtype=torch.float32) + 1.0
    x, weight, other = (torch.randn(*shape, device="cuda", dtype=torch.float16)
                        for shape in ((2, 40, 64), (96, 64), (96, 48)))
    compiled = torch.compile(model, fullgraph=True)
    assert torch.equal(compiled(x, weight, other), model(x, weight, other))
    columns = torch.randn(32, 96, device="cuda", dtype=torch.float16).mT
    for arguments in ((x, weight.T, torch.float16), (other.mT, columns, torch.float32)):
        torch.library.opcheck(torch.ops.swr.matmul.default, arguments)
    print("torch.compile(fullgraph=True) of matmul: equal to eager; opcheck passed")


def check_matmul_graph(replays=1000):
    x, weight = (torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    expected = swr.matmul(x, weight.T)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        elsewhere = swr.matmul(x, weight.T)
    stream.synchronize()
    assert torch.equal(elsewhere, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = swr.matmul(x, weight.T)
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
    print(f"matmul on another stream and in a CUDA graph, {replays} replays: equal")


def expected_groups(a, b, counts):
    """Rows that belong to no group are zeros."""
    parts = a[:sum(counts)].float().split(counts)
    out = torch.zeros(a.shape[0], b.shape[2], device="cuda")
    out[:sum(counts)] = torch.cat([part @ b[group].float() for group, part in enumerate(parts)])
    return out


def check_grouped(trials=40):
    """Random counts, also in a graph that is replayed with others, and in a compiled function."""
    draw = random.Random(4)
    for _ in range(trials):
        groups, n, k = draw.choice((1, 2, 8, 130)), draw.choice((8, 264, 1024)), draw.choice((16, 200, 1024))
        dtype = draw.choice((torch.float16, torch.bfloat16))
        counts = [draw.choice((0, 1, 63, 64, 65, draw.randint(0, 200))) for _ in range(groups)]
        b = torch.randn(groups, n, k, device="cuda", dtype=dtype)
        b = draw.choice((b, b.mT.contiguous().mT)).mT
        a = torch.randn(sum(counts) + 5, k, device="cuda", dtype=dtype)
        offs = torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32)
        swr.grouped_mm(a, b, offs)
        replayed = torch.zeros_like(offs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = swr.grouped_mm(a, b, replayed)
        replayed.copy_(offs)
        out.zero_()
        graph.replay()
        expected = expected_groups(a, b, counts)
        if sum(counts):
            assert relative_error(out, expected) < 4e-3, (counts, n, k)
        assert bool((out[sum(counts):] == 0).all()), (counts, n, k)
    compiled = torch.compile(lambda a, b, offs: swr.grouped_mm(a * 0.5, b, offs) + 1.0, fullgraph=True)
    assert torch.equal(compiled(a, b, offs)[:sum(counts)], (swr.grouped_mm(a * 0.5, b, offs) + 1.0)[:sum(counts)])
    print(f"{trials} random grouped products, in graphs that follow the offsets: right, and compiled")


def check_graph(replays=1000):
    q, k, v = some_tensors()
    expected = swr.sdpa(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = swr.sdpa(q, k, v, causal=True)
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
    print(f"CUDA graph: {replays} replays give the same output")


def check_streams():
    q, k, v = some_tensors()
    expected = swr.sdpa(q, k, v)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        out = swr.sdpa(q, k, v)
    stream.synchronize()
    assert torch.equal(out, expected)
    print("another stream: equal")


def in_new_thread(action):
    """What it gives on a thread that never touched CUDA."""
    found = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    return found[0]


@swr.kernel(source="""extern "C" __global__ void twice(float* y, const float* x, int n) {
  const int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
""", parameters={"block_size_x": [64, 128]}, block="block_size_x", grid="div_ceil(n, block_size_x)")
def twice(y=swr.array("float32", "n", output=True), x=swr.array("float32", "n"), n=swr.size(1000)):
    pass


def check_threads():
    q, k, v = some_tensors(length=100, heads=4, head_dim=64)
    rows = [t.transpose(1, 2) for t in (q, k, v)]
    tokens = [t[0].contiguous() for t in rows]
    starts = torch.tensor([0, 40, 100], dtype=torch.int32, device="cuda")
    cache = torch.randn(8, 2, 16, 4, 64, device="cuda", dtype=torch.float16)
    plan = swr.plan_paged(starts, *[torch.tensor(t, dtype=torch.int32, device="cuda")
                                    for t in ([0, 3, 7], [4, 2, 0, 1, 3, 5, 6], [9, 2])],
                          4, 4, 64, 16, max_seqlen_q=60, max_seqlen_k=64)
    part_lse = torch.randn(100, 2, 4, device="cuda")
    parts = torch.randn(100, 2, 4, 64, device="cuda", dtype=torch.float16)
    x, y = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")

    def append():
        caches = torch.zeros(2, 2, 128, 4, 64, device="cuda", dtype=torch.float16)
        return swr.flash_attn_with_kvcache(rows[0], *caches, k=rows[1], v=rows[2], cache_seqlens=3, causal=True)

    def backward():
        return torch.cat(gradients(lambda *t: swr.sdpa(*t, causal=True), leaves(q, k, v), torch.ones_like(q)))

    def users_kernel():
        twice(y, x, 1000)
        return y
    functions = {"sdpa": lambda: swr.sdpa(q, k, v), "gradients": backward,
                 "matmul": lambda: swr.matmul(q[0, 0], k[0, 0].T),
                 "flash_attn_func": lambda: swr.flash_attn_func(*rows, causal=True),
                 "flash_attn_varlen_func": lambda: swr.flash_attn_varlen_func(
                     *tokens, starts, starts, 60, 60, causal=True),
                 "flash_attn_with_kvcache": append, "run_paged": lambda: swr.run_paged(plan, tokens[0], cache),
                 "merge_states": lambda: swr.merge_states(parts, part_lse)[0], "kernel": users_kernel}
    for name, function in functions.items():
        # In a thread first: there everything is yet to be loaded.
        in_thread = in_new_thread(lambda: (function(), torch.cuda.synchronize())[0])
        assert torch.equal(in_thread, function()), name
    print(f"threads that never touched CUDA: {', '.join(functions)}")


def check_fork():
    q, k, v = some_tensors(length=64, heads=1, head_dim=64)
    swr.sdpa(q, k, v)
    plan = next(iter(swr._sdpa._plans._plans.values()))
    child = os.fork()
    if child == 0:  # Nothing of PyTorch's CUDA works here either.
        status = _library.library.swr_runtime_attention_at(
            _torch._handle(), plan.address, *[256] * 4, None, None)
        told = status != 0 and "forked" in str(_library.library.error(status))
        os._exit(0 if told else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the forked process ended with {status}"
    print("after a fork: told what to do")


def check_empty():
    q, k, v = some_tensors(length=70, heads=4, head_dim=64)
    empty = slice(0, 0)
    out, lse = swr.sdpa(q, k[:, :, empty], v[:, :, empty], return_lse=True)
    assert not out.any() and (lse == -math.inf).all(), "no key"
    assert swr.sdpa(q[empty], k[empty], v[empty]).shape == q[empty].shape, "no batch"
    rows = [t.transpose(1, 2) for t in (q, k, v)]
    sinks = torch.randn(4, device="cuda")
    for causal in (False, True):
        out, lse = swr.flash_attn_func(rows[0], rows[1][:, empty], rows[2][:, empty], causal=causal,
                                       s_aux=sinks, return_attn_probs=True)
        assert not out.any() and torch.allclose(lse, sinks[:, None]), "no key but a sink"
    assert swr.flash_attn_func(*[t[empty] for t in rows]).numel() == 0, "no batch"
    assert swr.flash_attn_func(rows[0][:, empty], rows[1], rows[2]).numel() == 0, "no query"
    for queries, keys in ((70, 0), (0, 70)):
        inputs = leaves(q[:, :, :queries], k[:, :, :keys], v[:, :, :keys])
        for gradient, tensor in zip(gradients(swr.sdpa, inputs, torch.ones_like(inputs[0])), inputs):
            assert gradient.shape == tensor.shape and not gradient.any()
    print("empty batches, queries and keys: zeros, -inf or the sink")


def check_large_batches(batch=70001):
    q, k, v = [torch.randn(batch, 3, 2, 64, device="cuda", dtype=torch.float16) for _ in range(3)]
    d_o = torch.randn_like(q)
    out = swr.flash_attn_func(q, k, v)
    heads = [t.transpose(1, 2) for t in (q, k, v)]
    worst = relative_error(out.transpose(1, 2), math_sdpa(*heads, False)[0])
    assert worst < TOLERANCE[torch.float16], f"serving: {worst:.1e}"
    d_o = d_o.transpose(1, 2)
    found = gradients(lambda *t: swr.sdpa(*t, causal=True), leaves(*heads), d_o)
    right = gradients(lambda *t: math_sdpa(*t, True)[0], leaves(*[t.float() for t in heads]), d_o.float())
    for name, one, other in zip(("dq", "dk", "dv"), found, right):
        assert relative_error(one, other) < 2 * TOLERANCE[torch.float16], name
    print(f"batch {batch}: O {worst:.1e}, gradients as well")


def product_at(a, b, c, layout, alpha, beta, k):
    """C = alpha A B + beta C by the C function; a and b may be None. Of A and B the rows are k or m, n long."""
    m, n = c.shape
    a_row, b_row = (m if layout == 2 else k), (k if layout == 0 else n)
    types = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}
    call = _library.Gemm(None, None, None, _library.MatrixStrides(0, max(a_row, 1)),
                         _library.MatrixStrides(0, max(b_row, 1)), _library.MatrixStrides(0, c.stride(0)), m, n, k, 1,
                         1, types[c.dtype], layout, alpha, beta)
    pointer = [None if t is None else t.data_ptr() for t in (a, b)]
    _torch.launch(_library.library.swr_runtime_gemm_at, 0, ctypes.addressof(call), *pointer, c.data_ptr())


def check_alpha_zero():
    count = 0
    for m, n, k in ((128, 256, 192), (70, 96, 64), (33, 47, 19), (1, 512, 4096)):  # Either family.
        nan = torch.full((max(m, n) * k + 64,), math.nan, device="cuda", dtype=torch.bfloat16)
        for layout in range(3):
            # A C of float32 asks for factors whose rows lie at multiples of 4 bytes.
            for dtype in (torch.bfloat16, torch.float32) if k % 2 == 0 else (torch.bfloat16,):
                for inputs, inner in ((nan, k), (None, k), (None, 0)):
                    c = torch.full((m, n), math.nan, device="cuda", dtype=dtype)
                    product_at(inputs, inputs, c, layout, 0.0 if inner else 2.0, 0.0, inner)
                    assert not c.any(), (m, n, k, layout, dtype)
                    c = torch.randn(m, n, device="cuda").to(dtype)
                    expected = -2 * c
                    product_at(inputs, inputs, c, layout, 0.0 if inner else 2.0, -2.0, inner)
                    assert torch.equal(c, expected), (m, n, k, layout, dtype)
                    count += 2
    print(f"alpha 0 and k 0: {count} products without a read of A and B")


def check_few_keys():
    """With one key dQ and dK are differences of equal numbers, which fp32 leaves a rounding of."""
    worst = 0.0
    for dtype in (torch.float16, torch.bfloat16):
        for head_dim in (32, 64, 128, 256):
            q, k, v = [torch.randn(2, 8, rows, head_dim, device="cuda", dtype=dtype) for rows in (146, 1, 1)]
            dq, dk, _ = gradients(swr.sdpa, leaves(q, k, v), torch.randn_like(q))
            scale = head_dim ** 0.5 * torch.finfo(torch.float32).eps
            bound = 64 * scale * max(1.0, k.abs().max().item())
            assert dq.abs().max().item() <= bound, (dtype, head_dim, dq.abs().max().item(), bound)
            worst = max(worst, dq.abs().max().item() / bound, dk.abs().max().item() / (146 * bound))
    assert worst <= 1, worst
    print(f"one key: dQ and dK within {worst:.2f} of what rounding allows")


def raises(kind, action):
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def check_refusals():
    q, k, v = some_tensors()
    assert "contiguous" in raises(ValueError, lambda: swr.sdpa(q[..., ::2], k[..., ::2], v[..., ::2]))
    assert "CUDA" in raises(ValueError, lambda: swr.sdpa(q.cpu(), k.cpu(), v.cpu()))
    raises(TypeError, lambda: swr.sdpa(q.float(), k.float(), v.float()))
    raises(ValueError, lambda: swr.sdpa(q, k[:, :3], v[:, :3]))
    raises(ValueError, lambda: swr.sdpa(q, k, v, scale=-1.0))
    a = q[0, 0]
    assert "CUDA" in raises(ValueError, lambda: swr.matmul(a.cpu(), a.T.cpu()))
    assert "rows or the columns" in raises(ValueError, lambda: swr.matmul(a[:, ::2], a.T[:64]))
    with torch.enable_grad():
        raises(swr.Error, lambda: swr.matmul(a.detach().requires_grad_(), a.T))
        wide = torch.randn(1, 1, 8, 144, device="cuda", dtype=torch.float16, requires_grad=True)
        assert "multiple of 32" in raises(ValueError, lambda: swr.sdpa(wide, wide, wide))
    print("refusals: as documented")


def host_us(call, calls=64, rounds=200):
    """Median microseconds that a call takes the CPU, with the queue never full."""
    samples = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - start) / calls * 1e6)
    return sorted(samples)[rounds // 2]


def measure_overhead():
    q, k, v = [torch.randn(1, 1, 64, 64, device="cuda", dtype=torch.float16) for _ in range(3)]
    print(f"host time per call: swr.sdpa {host_us(lambda: swr.sdpa(q, k, v)):.2f} us, with lse "
          f"{host_us(lambda: swr.sdpa(q, k, v, return_lse=True)):.2f} us, through the operator "
          f"{host_us(lambda: torch.ops.swr.sdpa(q, k, v, False, 0.125)):.2f} us, torch "
          f"{host_us(lambda: F.scaled_dot_product_attention(q, k, v)):.2f} us")
    a, b = q[0, 0], k[0, 0]
    print(f"swr.matmul {host_us(lambda: swr.matmul(a, b)):.2f} us, through the operator "
          f"{host_us(lambda: torch.ops.swr.matmul(a, b, torch.float16)):.2f} us, torch "
          f"{host_us(lambda: torch.matmul(a, b)):.2f} us")


def main():
    print("torch", torch.__version__, "on", torch.cuda.get_device_name())
    failures = 0
    checks = (check_threads, check_random_shapes, check_random_gradients, check_gradients_of_lse,
              check_random_products, check_streams, check_graph, check_matmul_graph, check_grouped,
              check_refusals, check_compile, check_backward_modes, check_matmul_compile, check_empty, check_large_batches, check_alpha_zero, check_few_keys, check_fork,
              measure_overhead)
    for check in [one for one in checks if not sys.argv[1:] or one.__name__ in sys.argv[1:]]:
        try:
            with torch.no_grad():
                check()
        except Exception as error:  # Every check is to run.
            failures += 1
            print(f"FAILED {check.__name__}: {type(error).__name__}: {error}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
