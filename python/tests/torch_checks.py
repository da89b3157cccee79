# SPDX-License-Identifier: MIT
"""swr.sdpa against PyTorch's math SDPA, and swr.matmul against torch.matmul in fp32, on a GPU: random
shapes and strides, log-sum-exp, torch.compile, CUDA graphs, streams, and the overhead per call. Prints what it finds; ends with 1 when a check fails.

    PYTHONPATH=python SWR_LIBRARY=.../libswr.so python python/tests/torch_checks.py
"""

import contextlib
import random
import sys
import time

import torch
import torch.nn.functional as F

import swr

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
    for check in (check_random_shapes, check_random_gradients, check_random_products, check_streams, check_graph,
                  check_matmul_graph, check_refusals, check_compile, check_backward_modes, check_matmul_compile,
                  measure_overhead):
        try:
            with torch.no_grad():
                check()
        except Exception as error:  # Every check is to run.
            failures += 1
            print(f"FAILED {check.__name__}: {type(error).__name__}: {error}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
