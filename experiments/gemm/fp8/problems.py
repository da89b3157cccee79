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


def spread_counts(case):
    """Rows of each group: even, drawn as DeepGEMM's tests draw them, half of them in one group, or in
    three groups alone."""
    groups, total = case.groups, case.groups * case.rows
    if case.spread == "even":
        return [case.rows] * groups
    if case.spread == "empty":
        return [{1: total // 4, 3: total // 4, groups - 1: total // 2}.get(i, 0) for i in range(groups)]
    if case.spread == "skewed":
        empty = groups // 4
        others = groups - empty - 1
        counts = [total // 2] + [(total - total // 2) // others] * others + [0] * empty
        counts[1] += total - sum(counts)
        return [counts[i * 5 % groups] for i in range(groups)]
    shares = 0.7 + 0.6 * torch.rand(groups, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    ends = torch.round(torch.cumsum(shares, 0) / shares.sum() * total).long().tolist()
    return [end - begin for begin, end in zip([0] + ends, ends)]


class Grouped:
    """Rows of experts. `case` has kind (bf16, row, block), form, groups, rows, n, k, spread."""

    RUN = 128  # Rows of a run of contiguous groups.

    def __init__(self, case, counts=None, seed=0, dtype=torch.float8_e4m3fn):
        self.case = case
        counts = counts or spread_counts(case)
        draw = torch.Generator("cuda").manual_seed(seed)
        normal = lambda *shape: torch.randn(*shape, generator=draw, device="cuda")
        items = []  # Of every row of A, or -1.
        if case.form == "masked":
            height = max(1, max(counts)) + (-max(counts) % 128 if case.rows >= 64 else 3)
            items = [group if row < count else -1 for group, count in enumerate(counts) for row in range(height)]
            numbers = counts
        elif case.form == "contiguous":
            for group, count in enumerate(counts):
                items += [group] * count + [-1] * (-count % self.RUN)
            items += [-1] * (self.RUN if not items else 0)
            numbers = items
        else:
            items = [group for group, count in enumerate(counts) for _ in range(count)] + [-1] * (
                0 if sum(counts) else 1)
            numbers = torch.tensor(counts).cumsum(0).tolist()
        self.items, self.owned = torch.tensor(items, device="cuda"), sum(counts)
        self.numbers = torch.tensor(numbers, dtype=torch.int32, device="cuda")
        matrices = case.groups if case.form == "masked" else 1
        rows = len(items) // matrices
        self.a, self.a_scales, self.wide_a = self._operand(normal, matrices, rows, False, dtype)
        self.b, self.b_scales, self.wide_b = self._operand(normal, case.groups, case.n, True, dtype)
        if case.form != "masked":
            self.a = self.a[0]
            self.a_scales = None if self.a_scales is None else self.a_scales[0]
        self._expected = None

    def _operand(self, normal, matrices, rows, of_b, dtype):
        """Values, scales, and what they stand for, as float32 [matrices, rows, k]."""
        k, kind = self.case.k, self.case.kind
        drawn = [normal(rows, k) for _ in range(matrices)]
        if kind == "bf16":
            values = torch.stack(drawn).bfloat16()
            return values, None, values.float()
        pairs = [quantised(x, kind, of_b, dtype) for x in drawn]
        wide = torch.stack([values.float() * expanded(scale, kind, of_b, rows, k).float()
                            for values, scale in pairs])
        return torch.stack([v for v, _ in pairs]), torch.stack([s for _, s in pairs]), wide

    def empty(self, dtype=torch.bfloat16):
        return torch.full((*self.a.shape[:-1], self.case.n), float("nan"), dtype=dtype, device="cuda")

    def launcher(self, kernels, config, c):
        strides = {}
        if self.case.kind == "block":
            strides = dict(a_scale_stride=self.a_scales.stride(-2), b_scale_stride=self.b_scales.stride(-2))
        return kernels.launcher(config, self.a, self.b, c, self.a_scales, self.b_scales,
                                groups=self.numbers, **strides)

    def products(self, dtype=torch.float64):
        """Of every row of A, and the sums of the magnitudes of their terms; zeros where no group owns it."""
        rows = self.wide_a.reshape(-1, self.case.k).to(dtype)
        product = torch.zeros(rows.shape[0], self.case.n, dtype=dtype, device="cuda")
        magnitude = torch.zeros_like(product)
        for group in range(self.case.groups):
            of_group = (self.items == group)[:, None]
            b = self.wide_b[group].to(dtype)
            product += torch.where(of_group, rows @ b.t(), 0.0)
            magnitude += torch.where(of_group, rows.abs() @ b.abs().t(), 0.0)
        return product, magnitude

    def error(self, c):
        """Of all owned rows together, relative."""
        if self._expected is None:
            found = []
            for group in range(self.case.groups):
                rows = self.wide_a.reshape(-1, self.case.k)[self.items == group]
                found.append(rows @ self.wide_b[group].t())
            self._expected = torch.cat(found)
        owned = torch.cat([c.reshape(-1, self.case.n)[self.items == group] for group in range(self.case.groups)])
        return ((owned.float() - self._expected).norm() / self._expected.norm()).item()


# Errors of one rounding to a type, and of the least normal number of e4m3.
UNITS = {"bf16": 2**-8, "fp16": 2**-11, "fp32": 2**-23}


def product_bound(magnitude, k, interval, fp8=True):
    """What the accuracy class allows. Every wgmma of 32 elements of FP8 drops what lies below 2^-13 of the sum
    so far from each of its terms, at most 6 2^-13 of the magnitudes in all that was measured; fp32 takes over
    after `interval` elements (0: never). Sums of 16-bit products keep fp32's bits, one rounding per 16."""
    if not fp8:
        return magnitude * (k / 16 + 8) * 2**-23
    return magnitude * (6 * 2**-13 * max(1, min(k, interval or k) / 32) + k / 128 * 2**-24)


def worst_over(found, expected, allowed):
    """Largest error over what is allowed, as a tensor; NaN where C has one."""
    return ((found.double() - expected).abs() / (allowed + 1e-30)).max()
