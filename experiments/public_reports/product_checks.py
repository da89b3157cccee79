#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Public reports about GEMM and autotuners, called as checks.py is."""

import ctypes
import functools
import sys

import torch

import checks
import swr
from checks import (CUDA, E4M3, KERNEL, all_refused, attention, error_of, error_of_groups, expect_states, fp8,
                    gradients, ints, near, normal, positive, refused, tuned)
from swr import _library, _torch, deep_gemm

PRODUCTS = {}
check = functools.partial(checks.check, among=PRODUCTS)


def blocks_of(matrix, scales):
    """In double precision; a scale for each 1 x 128 or 128 x 128 elements."""
    rows = scales if scales.shape[0] == matrix.shape[0] else scales.repeat_interleave(128,
                                                                                      0)[:matrix.shape[0]]
    return matrix.double() * rows.double().repeat_interleave(128, 1)[:, :matrix.shape[1]]


# GEMM.

@check("pytorch/executorch#22192, ModelTC/LightLLM#1467")
def linear_of_turned_and_cut_inputs():
    """Rows that are no rows in memory, and scores of sinks that are a column of a matrix."""
    weight, bias = normal(80, 96), normal(80)
    cases = {"turned": normal(96, 192).t(), "every_other": normal(192, 192)[:, ::2],
             "cut": normal(4, 100, 96)[:, 2:50],
             "expanded": normal(1, 96).expand(192, 96), "columns": normal(192, 97)[:, 1:],
             "vector": normal(96, 2)[:, 0]}
    pairs = {name: (swr.linear(x, weight, bias), x.double() @ weight.double().t() + bias.double()) for name,
             x in cases.items()}
    q, sinks = normal(1, 40, 8, 64), normal(8, 2) * 3
    pairs["sinks"] = (swr.flash_attn_func(q, q, q, s_aux=sinks[:, 0]),
                      swr.flash_attn_func(q, q, q, s_aux=sinks[:, 0].contiguous()).double())
    return near(1e-2, **pairs)


@check("pytorch/pytorch#42082, thunlp/OpenKE#388, bytedance/xpu-perf#188")
def linear_of_no_columns_and_of_no_rows():
    bias, residual, one = normal(48), normal(5, 48), positive(1)
    o = swr.linear(normal(5, 0), normal(48, 0), bias, activation="silu", residual=residual)
    right = torch.nn.functional.silu(bias.double()) + residual.double()
    for x, w in ((normal(0, 32), normal(48, 32)), (normal(2, 0, 32), normal(48, 32)),
                 (normal(5, 32), normal(0, 32)), (normal(0, 0), normal(48, 0))):
        assert swr.linear(x, w).shape == (*x.shape[:-1], w.shape[0]), f"{tuple(x.shape)}, {tuple(w.shape)}"
    c = swr.scaled_mm(fp8(5, 0), fp8(48, 0).t(), one, one, bias)
    assert swr.scaled_mm(fp8(0, 64), fp8(48, 64).t(), one, one).shape == (0, 48)
    return near(1e-2, linear=(o, right), scaled_mm=(c, bias.double().expand(5, 48)))


@check("pytorch/ao#2286, bitsandbytes-foundation/bitsandbytes#1521")
def kernels_under_another_default_type():
    """torch.set_default_dtype(bfloat16), as loaders of models do, and set_default_device."""
    m, n, k = 130, 256, 512
    a, b, of_a, of_b = fp8(m, k), fp8(n, k), positive(m, 4), positive(2, 4)
    right, q, starts = blocks_of(a, of_a) @ blocks_of(b, of_b).t(), normal(130, 4, 64), ints(0, 30, 130)
    d = torch.empty(m, n, dtype=torch.bfloat16, device=CUDA)
    whole = attention(*(q.transpose(0, 1)[None],) * 3)
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device(CUDA)
    try:
        c = swr.scaled_mm(a, b.t(), of_a.t().contiguous().t(), of_b.contiguous().t())
        deep_gemm.fp8_gemm_nt((a, of_a), (b, of_b), d)
        o, lse = swr.sdpa(*(q.transpose(0, 1)[None],) * 3, return_lse=True)
        swr.flash_attn_varlen_func(q, q, q, starts, starts, 100, 100, causal=True)
        plan = swr.plan_paged(*(torch.tensor(t, dtype=torch.int32, device="cpu") for t in ([0, 130], [0, 9],
                                                                                           [*range(9)], [2])),
                              4, 4, 64, 16, device=CUDA)
        pages = torch.cat([q, q[:14]]).view(9, 16, 4, 64)
        paged = swr.run_paged(plan, q, (pages, pages))
        dq, = gradients(lambda t: swr.sdpa(t, t, t), (q.transpose(0, 1)[None],), q.transpose(0, 1)[None])
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert lse.dtype == torch.float32 and dq.dtype == torch.bfloat16
    return near(1e-2, scaled_mm=(c, right), deep_gemm=(d, right), sdpa=(o, whole),
                paged=(paged.transpose(0, 1)[None], whole))


@check("pytorch/pytorch#194497, NVIDIA/Fuser#682, pytorch/pytorch#141749")
def bias_and_scales_at_odd_addresses():
    """A bias that begins at an odd element of a larger one, and scales of a vector of all layers."""
    x, w, g = normal(64, 256), normal(96, 256), normal(192, 256)
    a, b = fp8(64, 256), fp8(96, 256)
    bias, wide, scales = normal(97)[1:], normal(193)[1:], positive(9)
    rows, columns = positive(65)[1:], positive(97)[1:]
    of_a, of_b = positive(64 * 2 + 1)[1:].view(64, 2), positive(1 * 2 + 1)[1:].view(1, 2)
    d = torch.empty(64, 96, dtype=torch.bfloat16, device=CUDA)
    plain, gated = x.double() @ w.double().t() + bias.double(), x.double() @ g.double().t() + wide.double()
    exact, silu = a.double() @ b.double().t(), torch.nn.functional.silu
    deep_gemm.fp8_gemm_nt((a, of_a), (b, of_b), d)
    return near(1e-2, linear=(swr.linear(x, w, bias), plain),
                gated=(swr.linear(x, g, wide, activation="silu", gated=True),
                       silu(gated[:, :96]) * gated[:, 96:]),
                tensor=(swr.scaled_mm(a, b.t(), scales[3], scales[5], bias),
                        exact * scales[3].double() * scales[5].double() + bias.double()),
                rows=(swr.scaled_mm(a, b.t(), rows[:, None], columns[None]),
                      exact * rows.double()[:, None] * columns.double()),
                experts=(swr.scaled_grouped_mm(a, b.t()[None], rows, columns[None], ints(64)),
                         exact * rows.double()[:, None] * columns.double()),
                blocks=(d, blocks_of(a, of_a) @ blocks_of(b, of_b).t()))


@check("flashinfer-ai/flashinfer#4055, Comfy-Org/comfy-kitchen#72, NVIDIA/TensorRT-LLM#18750")
def scales_that_are_no_scales():
    """A scale of the result with two elements or of another type is refused."""
    a, b, one = fp8(64, 256), fp8(96, 256), positive(1)

    def call(scale):
        return refused(lambda: swr.scaled_mm(a, b.t(), one, one, scale_result=scale, out_dtype=E4M3),
                       "scale_result")
    return all_refused(two=call(positive(2)), half=call(normal(1)), double=call(positive(1).double()),
                       none=call(None))


@check("Comfy-Org/comfy-kitchen#72, NVIDIA/cudnn-frontend#619")
def vectors_on_the_host():
    """Small tensors that were left on the CPU are refused, and the GPU goes on."""
    a, b, one, q, x = fp8(64, 256), fp8(96, 256), positive(1), normal(2, 1, 8, 64), normal(64, 256)
    caches, new = [normal(2, 128, 2, 64) for _ in range(2)], normal(2, 1, 2, 64)
    turn = {"rotary_cos": normal(256, 32), "rotary_sin": normal(256, 32)}

    def append(**more):
        rows = {"k": new, "v": new, "cache_seqlens": ints(5, 60), **turn, **more}
        return refused(lambda: swr.flash_attn_with_kvcache(q, *caches, **rows), "CUDA")
    faults = all_refused(
        scale_a=refused(lambda: swr.scaled_mm(a, b.t(), one.cpu(), one), "CUDA"),
        scale_result=refused(lambda: swr.scaled_mm(a, b.t(), one, one, scale_result=one.cpu(),
                                                   out_dtype=E4M3), "CUDA"),
        bias=refused(lambda: swr.linear(x, normal(96, 256), normal(96).cpu()), "CUDA"),
        s_aux=refused(lambda: swr.flash_attn_func(q, q, q, s_aux=normal(8).cpu()), "CUDA"),
        offs=refused(lambda: swr.grouped_mm(x, normal(1, 256, 96), ints(64).cpu()), "CUDA"),
        cache_seqlens=append(cache_seqlens=ints(5, 60).cpu()), k=append(k=new.cpu(), v=new.cpu()),
        rotary_cos=append(rotary_cos=turn["rotary_cos"].cpu()),
        rotary_seqlens=append(rotary_seqlens=ints(1, 2).cpu()),
        d=refused(lambda: deep_gemm.fp8_gemm_nt((a, positive(64, 2)), (b, positive(1, 2)),
                                                torch.empty(64, 96, dtype=torch.bfloat16)), "CUDA"))
    torch.cuda.synchronize()
    return faults


@check("uxlfoundation/oneDNN#5626, jax-ml/ml_dtypes#400")
def outputs_of_fp8_saturate():
    """Beyond 448 is 448, NaN stays NaN, and scale_result multiplies."""
    a, b, one, by = fp8(128, 256), fp8(128, 256), positive(1), torch.tensor(37.0, device=CUDA)
    a[5, 7] = torch.nan
    c = swr.scaled_mm(a, b.t(), one, one, scale_result=by, out_dtype=E4M3).float()
    right = (a.double() @ b.double().t() * one.double() ** 2 * by.double()).clamp(-448, 448)
    assert bool(c[5].isnan().all()) and int(c.isnan().sum()) == 128, "NaN is not in its row alone"
    rest = torch.arange(128, device=CUDA) != 5
    return f"{int((c.abs() == 448).sum())} of 448; " + near(5e-2, c=(c[rest], right[rest]))


@check("torch-spyre/torch-spyre#4305, pytorch/pytorch#190449")
def scales_of_0_infinity_and_nan():
    """Each reaches its own row or column alone; the smallest and the largest numbers stay what they are."""
    for call, shape in ((lambda r, c: swr.scaled_mm(a, b.t(), r[:, None], c[None], out_dtype=torch.float32),
                         (96, 80)),
                        (lambda r, c: swr.scaled_grouped_mm(a, b.t()[None], r, c[None], ints(96),
                                                            out_dtype=torch.float32), (96, 80))):
        a, b, rows, columns = fp8(96, 256), fp8(80, 256), positive(96), positive(80)
        rows[[3, 9, 11, 20, 21]] = torch.tensor([0.0, torch.inf, torch.nan, 1e-30, 1e30], device=CUDA)
        columns[7] = 0.0
        found = call(rows, columns)
        right = a.double() @ b.double().t() * rows.double()[:, None] * columns.double()
        assert torch.equal(found.isnan(), right.float().isnan()), "NaN elsewhere"
        kept = right.float().isfinite()
        errors = (found - right).abs() / right.abs().clamp_min(1e-38)
        worst = float(errors[kept & (right != 0)].quantile(0.99))
        assert bool((found[right == 0] == 0).all()) and worst < 2e-2, f"{worst:.1e}"
    return f"c {worst:.0e}"


@check("pytorch/pytorch#133334")
def rows_of_fp8_at_the_end_of_memory():
    """8352 rows, no multiple of 256, whose scales end with their allocation."""
    a, b, rows, columns = fp8(8352, 1024), fp8(1536, 1024), positive(8352, 1), positive(1, 1536)
    right = a.double() @ b.double().t() * rows.double() * columns.double()
    return near(1e-2, fast=(swr.scaled_mm(a, b.t(), rows, columns, use_fast_accum=True), right),
                exact=(swr.scaled_mm(a, b.t(), rows, columns), right))


@check("deepseek-ai/DeepGEMM#268, #15, #34, #20")
def masked_and_padded_experts():
    """Few rows a group, groups of none, counts beyond the rows, and padding of whole tiles."""
    worst = 0.0
    for most in (1, 8, 16, 40):
        a, b, d = normal(4, most, 256), normal(4, 192, 256), torch.full((6, most, 192), 7.0,
                                                                        dtype=torch.bfloat16, device=CUDA)
        counts = (most, 0, most // 2, most + 9)
        deep_gemm.m_grouped_bf16_gemm_nt_masked(a, b, d[1:5], ints(*counts), max(1, most // 2))
        assert bool((d[0] == 7).all() and (d[5] == 7).all()), "written beside the result"
        for i, count in enumerate(counts):
            if count:
                count = min(count, most)
                worst = max(worst, error_of(d[1 + i, :count], a[i, :count].double() @ b[i].double().t()))
    a, d, rows = normal(512, 256), torch.full((512, 192), 7.0, dtype=torch.bfloat16, device=CUDA), [-1] * 512
    rows[128:228], rows[384:512] = [2] * 100, [0] * 128
    deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, b, d, ints(*rows))
    assert bool((d[:128] == 7).all() and (d[256:384] == 7).all()), "tiles of padding are written"
    worst = max(worst, error_of(d[128:228], a[128:228].double() @ b[2].double().t()),
                error_of(d[384:], a[384:].double() @ b[0].double().t()))
    assert worst < 1e-2, f"{worst:.1e}"
    return f"d {worst:.0e}"


@check("ml-explore/mlx#1051, #3822, lablup/mlxcel#648")
def products_of_16_million_rows():
    """2^24 rows, and a C of 2^31 elements; one row more is refused by a message that names m."""
    x, w = normal(131072, 128, 32), normal(32, 128)
    c = swr.matmul(x, w)
    worst = max(error_of(c[at], x[at].double() @ w.double()) for at in (slice(0, 3), slice(65530, 65540),
                                                                        slice(131069, None)))
    assert worst < 1e-2, f"{worst:.1e}"
    fault = refused(lambda: swr.matmul(normal(2 ** 24 + 1, 16), w[:16]), "m must be")
    assert fault in ("", "is taken"), fault
    return f"c {worst:.0e}"


@check("NVIDIA/cutlass#2363, pytorch/helion#908")
def groups_at_odd_addresses():
    """A, B and offsets that begin at odd elements, odd k and n, and groups of odd rows."""
    worst = 0.0
    for k, n in ((64, 96), (77, 51), (130, 33)):
        a = normal(100 * k + 1)[1:].view(100, k)
        ends = (7, 7, 40, 99)
        for b in (normal(4 * k * n + 1)[1:].view(4, k, n), normal(4 * k * n + 1)[1:].view(4, n, k).mT):
            out = swr.grouped_mm(a, b, ints(1, *ends)[1:])
            worst = max(worst, error_of_groups(out, a, b, ends))
    assert worst < 1e-2, f"{worst:.1e}"
    return f"c {worst:.0e}"


@check("microsoft/onnxruntime#27003, warpfront/hipfire#383")
def products_and_decoding_repeat_to_the_bit():
    """A split k and split keys, 30 times beside work on another stream."""
    x, w, a, b, one = normal(16, 16384), normal(64, 16384), fp8(16, 16384), fp8(64, 16384), positive(1)
    q, k, v = normal(2, 1, 8, 128), normal(2, 30000, 2, 128), normal(2, 30000, 2, 128)
    other, load = torch.cuda.Stream(), normal(2048, 2048)
    calls = {"matmul": lambda: swr.matmul(x, w.t()), "linear": lambda: swr.linear(x, w),
             "fp8": lambda: swr.scaled_mm(a, b.t(), one, one),
             "decode": lambda: swr.flash_attn_with_kvcache(q, k, v, cache_seqlens=29999)}
    first = {name: call() for name, call in calls.items()}
    for i in range(30):
        with torch.cuda.stream(other):
            load @ load
        for name, call in calls.items():
            assert torch.equal(call(), first[name]), f"{name} of round {i} has other bits"
    return "30 rounds alike"


@check("pytorch/pytorch#98975, mratsim/tattletale#53, tenstorrent/tt-metal#48923")
def epilogues_of_odd_sizes():
    """Bias, activation, gate and residual where n and k are odd; FP8 of n beside 16 and k beside 128."""
    gelu, silu, worst = torch.nn.functional.gelu, torch.nn.functional.silu, 0.0
    for m, n, k in ((1, 77, 64), (33, 51, 100), (128, 129, 1001), (2, 1, 8)):
        x, w, g, bias, wide = normal(m, k), normal(n, k), normal(2 * n, k), normal(n), normal(2 * n)
        plain = x.double() @ w.double().t() + bias.double()
        gated, more = x.double() @ g.double().t() + wide.double(), normal(m, n)
        worst = max(worst, error_of(swr.linear(x, w, bias, activation="gelu", residual=more),
                                    gelu(plain) + more.double()),
                    error_of(swr.linear(x, g, wide, activation="silu", gated=True, residual=more),
                             silu(gated[:, :n]) * gated[:, n:] + more.double()))
    for m, n, k in ((1, 78, 64), (33, 50, 208), (130, 130, 272), (16, 16, 16)):
        a, b, bias, one = fp8(m, k), fp8(n, k), normal(n), positive(1)
        rows, columns, d = positive(m, 1), positive(1, n), normal(m, n)
        exact, blocks = a.double() @ b.double().t(), -(-k // 128)
        of_a, of_b = positive(m, blocks), positive(-(-n // 128), blocks)
        deep_gemm.fp8_gemm_nt((a, of_a), (b, of_b), d)
        worst = max(worst, error_of(swr.scaled_mm(a, b.t(), one, one, bias),
                                    exact * one.double() ** 2 + bias.double()),
                    error_of(swr.scaled_mm(a, b.t(), rows, columns, bias),
                             exact * rows.double() * columns.double() + bias.double()),
                    error_of(d, blocks_of(a, of_a) @ blocks_of(b, of_b).t()))
    assert worst < 1e-2, f"{worst:.1e}"
    fault = refused(lambda: swr.scaled_mm(a, fp8(77, 16).t(), one, one), "multiples of 4 bytes")
    assert not fault, f"FP8 with rows of 77 {fault}"
    return f"c {worst:.0e}; FP8 with odd rows of C is refused"


@check("ROCm/FlyDSL#1107, leimao/CUDA-GEMM-Optimization#2, mratsim/tattletale#54")
def rows_of_c_with_gaps():
    """C lies in a wider matrix: nothing between its rows changes. Factors of NaN and infinity. From C."""
    worst, kinds = 0.0, {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}
    for m, n, k, first in ((70, 50, 96, 8), (33, 47, 19, 5), (128, 256, 192, 64), (16, 40, 8192, 8)):
        for kind in (torch.bfloat16, torch.float32) if k % 2 == 0 else (torch.bfloat16,):
            for alpha, beta in ((1.0, 0.0), (1.5, 1.0), (-1.0, 0.5), (torch.nan, 0.0), (1.0, torch.nan),
                                (torch.inf, 0.0)):
                a, b = normal(m, k), normal(n, k)
                wide = torch.full((m + 2, n + 2 * first), 7.0, dtype=kind, device=CUDA)
                c = wide[1:-1, first:first + n]
                c.copy_(normal(m, n))
                right = alpha * (a.double() @ b.double().t()) + (beta * c.double() if beta else 0)
                strides = [_library.MatrixStrides(0, t.stride(0)) for t in (a, b, c)]
                call = _library.Gemm(None, None, None, *strides, m, n, k, 1, 1, kinds[kind], 0, alpha, beta)
                _torch.launch(_library.library.swr_runtime_gemm_at, 0, ctypes.addressof(call), a.data_ptr(),
                              b.data_ptr(), c.data_ptr())
                where = f"{(m, n, k)}, {kind}, alpha {alpha}, beta {beta}"
                if bool(right.isfinite().all()):
                    worst = max(worst, error_of(c, right))
                else:
                    assert torch.equal(c.isnan(), right.isnan()), where
                c.fill_(7.0)
                assert bool((wide == 7).all()), f"written between rows of C: {where}"
    assert worst < 1e-2, f"{worst:.1e}"
    return f"c {worst:.0e}"


# Tuners.

@check("triton-lang/triton#1143, ggml-org/llama.cpp#4556, deepseek-ai/DeepEP#542")
def variants_that_print_trap_and_assert():
    """What a kernel prints is no message of the tuner's."""
    return expect_states({"bx=32": "runtime", "bx=128": "runtime"}, *tuned(
        KERNEL % 'if (bx == 32) __trap(); if (bx == 128) assert(n < 0); '
                 'if (bx == 64 && i % 1000 == 0) printf("{\\"event\\": \\"variant\\"}\\n");', {"bx": [32, 64,
                                                                                                      128,
                                                                                                      256]}))


@check("facebookresearch/TensorComprehensions#207, #271")
def variants_that_write_beside_their_vector():
    return expect_states({"bx=256": "correctness", "bx=128": "correctness"}, *tuned(
        KERNEL % "if (bx == 256 && i == n) o[i] = 0; if (bx == 128 && i == 0) o[-1] = 0;", {"bx": [32, 64,
                                                                                                   128,
                                                                                                   256]}))


@check("triton-lang/triton#781, pytorch/helion#2042")
def a_variant_that_spoils_its_inputs():
    """The others still get what the spec says; the one is right the first time, and is told so or not."""
    source = ("extern \"C\" __global__ void k(float* x, float* o, int n) { int i = blockIdx.x * bx + "
              "threadIdx.x; if (i < n) { o[i] = 2 * x[i]; if (bx == 32) x[i] = 5; } }\n")
    arguments = [{"name": "x", "type": "float*", "size": "n", "fill": "random"},
                 {"name": "o", "type": "float*", "size": "n", "output": True},
                 {"name": "n", "type": "int", "value": "n"}]
    states, best, done = tuned(source, {"bx": [32, 64, 128, 256]}, arguments=arguments)
    others = [state for key, state in states.items() if "bx=32" not in key]
    assert set(others) == {"ok"} and best and done.returncode == 0, f"{states}"
    return f"{states}"


@check("ROCm/aiter#4494, in other words")
def a_variant_that_is_right_at_first():
    """It counts its launches in a global variable, and is wrong from the fourth on."""
    source = "__device__ int calls;\n" + KERNEL % (
        "if (bx == 256 && calls > 3) return; if (i == 0) calls = calls + 1;")
    return expect_states({"bx=256": "correctness"}, *tuned(source, {"bx": [32, 64, 256]}))


@check("pytorch/helion#1092, #2039, apache/tvm#3058")
def no_variant_works():
    """All trap; or none satisfies the constraints. One message that says so, and no winner."""
    texts = []
    for source, more in (("__trap();", {}), ("", {"constraints": ["bx > 4096"]})):
        try:
            states, best, _ = tuned(KERNEL % source, {"bx": [32, 64]}, **more)
        except AssertionError as error:  # What swr-tune says where nothing was tried.
            texts.append(str(error))
        else:
            raise AssertionError(f"{states}, best {best}")
    assert "bx=32" in texts[0] and "ended" in texts[0] and "bx > 4096" in texts[1], f"{texts}"
    return texts[1][-150:]


@check("cupy/cupy#2118, pytorch/pytorch#162328, NVIDIA/numba-cuda-mlir#148")
def much_shared_memory():
    """48 KiB beside static memory, and more: asked for by itself."""
    source = KERNEL % ("extern __shared__ float s[]; __shared__ float t[4]; s[threadIdx.x] = i; "
                       "t[i % 4] = 1; if (n < 0) o[0] = s[1] + t[2];")
    size = "48 * 1024 if bx == 32 else 100000 if bx == 64 else 49 * 1024"
    return expect_states({}, *tuned(source, {"bx": [32, 64, 128]}, shared_bytes=size))


if __name__ == "__main__":
    sys.exit(checks.main(PRODUCTS))
