# SPDX-License-Identifier: MIT
"""First calls of shapes that a seed draws: how long each takes, and whether it is right.

  first_calls.py SEED COUNT CACHE_DIR no_compiler|NVRTC"""

import math
import os
import random
import sys
import time

import torch
import swr

seed, count = int(sys.argv[1]), int(sys.argv[2])
draw = random.Random(seed)
torch.manual_seed(seed)
BF16 = torch.bfloat16


def octaves(low, high, step=1):
    return max(low, int(low * 2 ** (draw.random() * math.log2(high / low))) // step * step)


def heads():
    kv = draw.choice([1, 2, 4, 8, 16])
    return kv * draw.choice([1, 1, 2, 4, 8]), kv


def rand(*shape):
    return torch.randn(*shape, device="cuda", dtype=BF16)


def timed(call):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = call()
    torch.cuda.synchronize()
    return result, 1e3 * (time.perf_counter() - begin)


def scores(q, k, causal):
    s = q.float() @ k.float().T / math.sqrt(q.shape[-1])
    if causal:
        rows, keys = s.shape
        hidden = torch.ones(rows, keys, device="cuda", dtype=torch.bool).triu(keys - rows + 1)
        s.masked_fill_(hidden, -math.inf)
    return s.softmax(-1).nan_to_num()


def off(x, reference):
    return ((x.float() - reference).norm() / reference.norm().clamp_min(1e-20)).item()


def attention_shape(most):
    head_dim, causal = draw.choice([64, 128]), draw.random() < 0.5
    h, hk = heads()
    length = draw.choice([octaves(16, 8192), octaves(1, 4096)])
    keys = draw.choice([length, length, octaves(16, 8192)])
    batch = draw.choice([1, 2, 4, 8, 16])
    while batch > 1 and batch * h * max(length, keys) * head_dim > most:
        batch //= 2
    return batch, h, hk, length, keys, head_dim, causal


def sdpa():
    b, h, hk, s, sk, d, causal = shape = attention_shape(1 << 27)
    q, k, v = rand(b, h, s, d), rand(b, hk, sk, d), rand(b, hk, sk, d)
    o, ms = timed(lambda: swr.sdpa(q, k, v, causal=causal))
    return shape, ms, off(o[0, 0], scores(q[0, 0], k[0, 0], causal) @ v[0, 0].float())


def backward():
    b, h, hk, s, sk, d, causal = shape = attention_shape(1 << 26)
    q, k, v = (rand(*x).requires_grad_() for x in ((b, h, s, d), (b, hk, sk, d), (b, hk, sk, d)))
    o, forward_ms = timed(lambda: swr.sdpa(q, k, v, causal=causal))
    g = rand(*o.shape)
    _, ms = timed(lambda: o.backward(g))
    ref = [t.detach()[0, 0].float().requires_grad_() for t in (q, k, v)]
    (scores(ref[0], ref[1], causal) @ ref[2]).backward(g[0, 0].float())
    return (*shape, round(forward_ms, 1)), ms, off(q.grad[0, 0], ref[0].grad)


def kvcache():
    d, b = draw.choice([64, 128]), draw.choice([1, 2, 4, 8, 16, 32])
    h, hk = heads()
    s = draw.choice([1, 1, 1, draw.randint(2, 16), octaves(16, 2048)])
    rows = octaves(max(64, s), 16384, 64)
    rows = max(64, min(rows, (1 << 25) // (b * hk * d) // 64 * 64))
    s = min(s, rows)
    page = draw.choice([0, 16, 64])
    used = torch.randint(s, rows + 1, (b,), device="cuda", dtype=torch.int32)
    q = rand(b, s, h, d)
    if page:
        pages = b * rows // page
        table = torch.randperm(pages, device="cuda", dtype=torch.int32).view(b, rows // page)
        k, v = rand(pages, page, hk, d), rand(pages, page, hk, d)
        k0, v0 = (x[table[0].long()].reshape(rows, hk, d)[:, 0] for x in (k, v))
        call = lambda: swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=used, page_table=table,
                                                   causal=True)
    else:
        k, v = rand(b, rows, hk, d), rand(b, rows, hk, d)
        k0, v0 = k[0, :, 0], v[0, :, 0]
        call = lambda: swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=used, causal=True)
    o, ms = timed(call)
    n = int(used[0])
    reference = scores(q[0, :, 0], k0[:n], True) @ v0[:n].float()
    return (b, h, hk, s, rows, d, page), ms, off(o[0, :, 0], reference)


def matmul():
    m = draw.choice([octaves(1, 64), octaves(1, 16384)])
    n, k = octaves(1024, 16384, 128), octaves(1024, 16384, 128)
    a, w = rand(m, k), rand(n, k)
    c, ms = timed(lambda: swr.matmul(a, w.T))
    return (m, n, k), ms, off(c[:64], a[:64].float() @ w.float().T)


torch.cuda.synchronize()
rand(64, 64) @ rand(64, 64)  # PyTorch's own start.
print("device", torch.cuda.get_device_name(), "torch", torch.__version__)
options = {"cache_dir": sys.argv[3]}
if sys.argv[4] == "no_compiler":
    options |= {"may_compile": False, "nvrtc": "/nonexistent/libnvrtc.so"}
else:
    options |= {"nvrtc": sys.argv[4]}
_, ms = timed(lambda: swr.configure(**options))
print(f"configure {ms:.1f} ms")
worst, failed, all_ms = 0.0, 0, []
for i in range(count):
    kind = (sdpa, kvcache, matmul, backward)[i % 4]
    try:
        shape, ms, error = kind()
    except Exception as failure:  # Counted, and the others go on.
        failed += 1
        print("FAILED", kind.__name__, str(failure)[:300])
        continue
    torch.cuda.empty_cache()
    all_ms.append(ms)
    worst = max(worst, error)
    print(f"{kind.__name__} {shape} {ms:.1f} ms, off by {error:.1e}" + ("  SLOW" if ms > 60 else "")
          + ("  WRONG" if not error < 0.02 else ""), flush=True)
all_ms.sort()
print(f"{len(all_ms)} first calls: median {all_ms[len(all_ms) // 2]:.1f} ms, most {all_ms[-1]:.1f}, "
      f"over 60 ms: {sum(x > 60 for x in all_ms)}, failed {failed}, worst error {worst:.1e}")
print("cubins in the cache:", sum(len(f) for _, _, f in os.walk(sys.argv[3])))
