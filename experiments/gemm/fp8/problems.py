# SPDX-License-Identifier: MIT
"""FP8 problems: quantised operands, what they stand for in fp64, and what PyTorch calls."""

import torch

LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
BLOCK = 128


def quantised(x, scaling, of_b, dtype=torch.float8_e4m3fn):
    """FP8 values and the fp32 scales that they are to be multiplied by, so that the largest of each
    group is the type's largest. Scales of a block recipe are [k / 128, m] of A, [n / 128, k / 128] of
    B; of row [m]; of tensor [1]."""
    rows, k = x.shape
    if scaling == "tensor":
        amax = x.abs().amax().reshape(1)
        each = amax
    elif scaling == "row":
        amax = x.abs().amax(1)
        each = amax[:, None]
    else:
        height = BLOCK if of_b else 1
        padded = torch.nn.functional.pad(x, (0, -k % BLOCK, 0, -rows % height))
        blocks = padded.view(padded.shape[0] // height, height, -1, BLOCK)
        amax = blocks.abs().amax((1, 3))
        each = amax.repeat_interleave(height, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :k]
    scale = (amax.clamp(min=1e-12) / LARGEST[dtype]).float()
    each = (each.clamp(min=1e-12) / LARGEST[dtype]).float()
    values = (x.float() / each).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)
    if of_b or scaling != "block":
        return values, scale
    # Rows of A's scales are padded to four; NaN stands where nobody may read.
    padded = torch.full((scale.shape[1], (rows + 3) // 4 * 4), float("nan"), device=x.device)
    padded[:, :rows] = scale.t()
    return values, padded


def expanded(scale, scaling, of_b, rows, k):
    """The scale of every element, in fp64."""
    scale = scale.double()
    if scaling == "tensor":
        return scale.reshape(1, 1).expand(rows, k)
    if scaling == "row":
        return scale[:, None].expand(rows, k)
    full = scale if of_b else scale.t()[:rows]
    if of_b:
        full = full.repeat_interleave(BLOCK, 0)[:rows]
    return full.repeat_interleave(BLOCK, 1)[:, :k]


class Problem:
    def __init__(self, m, n, k, scaling, dtype=torch.float8_e4m3fn, data="normal", seed=0, copies=1):
        draw = torch.Generator("cuda").manual_seed(seed)
        make = {"normal": lambda r: torch.randn(r, k, generator=draw, device="cuda"),
                "uniform": lambda r: torch.rand(r, k, generator=draw, device="cuda")}[data]
        self.m, self.n, self.k, self.scaling = m, n, k, scaling
        self.a, self.a_scales = quantised(make(m), scaling, False, dtype)
        self.bs = []
        for _ in range(copies):
            b, self.b_scales = quantised(make(n), scaling, True, dtype)
            self.bs.append(b)
        self.b = self.bs[0]


    def strides(self):
        return dict(a_scale_stride=self.a_scales.stride(0) if self.scaling == "block" else 0,
                    b_scale_stride=self.b_scales.stride(0) if self.scaling == "block" else 0)

    def reference(self):
        """The product and the sum of the magnitudes of its terms, in fp64."""
        a = self.a.double() * expanded(self.a_scales, self.scaling, False, self.m, self.k)
        b = self.b.double() * expanded(self.b_scales, self.scaling, True, self.n, self.k)
        return a @ b.t(), a.abs() @ b.abs().t()

    def torch_product(self, fast, out_dtype=torch.bfloat16, b=None):
        """A function that computes the product by torch._scaled_mm, i.e. cuBLASLt."""
        b = self.b if b is None else b
        if self.scaling == "tensor":
            scales = self.a_scales.reshape(()), self.b_scales.reshape(())
        elif self.scaling == "row":
            scales = self.a_scales[:, None], self.b_scales[None, :]
        else:
            # A's scale [m, k / 128] with strides (1, m padded to 4); B's [k / 128, n / 128], with
            # columns padded to 4.
            blocks, m = self.a_scales.shape
            of_a = torch.zeros(blocks, (m + 3) // 4 * 4, device="cuda")
            of_a[:, :m] = self.a_scales[:, :m]
            rows, columns = self.b_scales.shape
            of_b = torch.zeros(rows, (columns + 3) // 4 * 4, device="cuda")
            of_b[:, :columns] = self.b_scales
            scales = of_a.t()[:m], of_b.t()[:columns]
        return lambda: torch._scaled_mm(self.a, b.t(), scale_a=scales[0], scale_b=scales[1],
                                        out_dtype=out_dtype, use_fast_accum=fast)


def error_over_bound(found, expected, magnitude, k, interval, unit):
    """Largest error over what the accuracy class allows. Every wgmma of 32 elements drops what lies
    below 2^-13 of the sum so far from each of its terms, at most 6 2^-13 of the magnitudes in all
    that was measured; fp32 takes over after `interval` elements (0: never). The output is rounded."""
    parts = k / 128 * 2**-24
    allowed = magnitude * (6 * 2**-13 * max(1, min(k, interval or k) / 32) + parts)
    allowed = allowed + expected.abs() * unit + 1e-30
    return ((found.double() - expected).abs() / allowed).max().item()
