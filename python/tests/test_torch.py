# SPDX-License-Identifier: MIT
"""The operators on PyTorch tensors without a GPU: tensors of the CPU pass for tensors of a device,
and a computation on the CPU, which reads memory as the description says, for the kernels."""

import contextlib
import ctypes
import pathlib
import re
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    from swr import _fused, _grouped, _library, _matmul, _sdpa, _torch, deep_gemm

    DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2]


def tensor_at(address, shape, strides, dtype):
    """The elements at an address."""
    last = sum((size - 1) * stride for size, stride in zip(shape, strides))
    size_bytes = (last + 1) * torch.empty(0, dtype=dtype).element_size()
    memory = (ctypes.c_char * size_bytes).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).as_strided(shape, strides)


def product(runtime, description, a, b, c, stream):
    """What a GEMM kernel does, by the description alone."""
    g = _library.Gemm.from_address(description)
    a_shape = (g.k, g.m) if g.layout == 2 else (g.m, g.k)
    b_shape = (g.n, g.k) if g.layout == 0 else (g.k, g.n)

    def matrices(address, shape, strides, dtype):
        return tensor_at(address, (g.batch, *shape), (strides.batch, strides.row, 1), DTYPES[dtype])
    a = matrices(a, a_shape, g.a_strides, g.dtype).float()
    b = matrices(b, b_shape, g.b_strides, g.dtype).float()
    a = a.mT if g.layout == 2 else a
    b = b.mT if g.layout == 0 else b
    matrices(c, (g.m, g.n), g.c_strides, g.output).copy_(a @ b)
    return 0


def fused_product(runtime, description, extras, stream):
    """What a kernel with scales, bias, activation or gate does, by the descriptions alone."""
    g, e = _library.Gemm.from_address(description), _library.GemmExtras.from_address(extras)
    columns = 2 * g.n if e.gated else g.n
    assert not any((address or 0) % 8 for address in (e.a_scales, e.b_scales, e.bias, e.c_scales))
    blocks, column_blocks = -(-g.k // 128), -(-columns // 128)
    a, b = torch.zeros(g.m, 0), torch.zeros(columns, 0)
    if g.k:
        a = tensor_at(g.a, (g.m, g.k), (g.a_strides.row, 1), DTYPES[g.dtype]).float()
        b = tensor_at(g.b, (columns, g.k), (g.b_strides.row, 1), DTYPES[g.dtype]).float()

    def scales(address, shape, strides):
        return tensor_at(address, shape, strides, torch.float32)
    if e.scaling in (1, 2):
        a = a * scales(e.a_scales, (g.m if e.scaling == 2 else 1, 1), (1, 1))
        b = b * scales(e.b_scales, (columns if e.scaling == 2 else 1, 1), (1, 1))
    if e.scaling == 3:
        assert e.accuracy == 1 and e.a_scale_stride % 4 == 0 and e.a_scales % 16 == 0
        of_a = scales(e.a_scales, (g.m, blocks), (1, e.a_scale_stride))
        of_b = scales(e.b_scales, (column_blocks, blocks), (e.b_scale_stride, 1))
        a = a * of_a.repeat_interleave(128, 1)[:, :g.k]
        b = b * of_b.repeat_interleave(128, 0)[:columns].repeat_interleave(128, 1)[:, :g.k]
    out = DTYPES[g.output]
    x = g.alpha * (a @ b.T)
    if e.bias:
        x = x + tensor_at(e.bias, (columns,), (1,), torch.bfloat16 if g.output == 3 else out).float()
    activate = [lambda x: x, torch.nn.functional.gelu,
                lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
                torch.nn.functional.silu][e.activation]
    x = activate(x[:, :g.n]) * x[:, g.n:] if e.gated else activate(x)
    if g.beta:
        x = x + g.beta * tensor_at(e.addend or g.c, (g.m, g.n), (g.c_strides.row, 1), out).float()
    if e.output_scaling == 1:
        x = (x * scales(e.c_scales, (1,), (1,))).clamp(-448, 448)
    tensor_at(g.c, (g.m, g.n), (g.c_strides.row, 1), out).copy_(x)
    return 0


def grouped_product(runtime, description, a, b, c, numbers, stream):
    """What a grouped kernel does, by the description and the numbers."""
    d = _library.GroupedGemm.from_address(description)
    g = d.gemm
    count = g.m if d.groups == _grouped.CONTIGUOUS else g.batch
    numbers = tensor_at(numbers, (count,), (1,), torch.int32).tolist()
    masked = d.groups == _grouped.MASKED
    a, c = (tensor_at(address, (g.batch if masked else 1, g.m, columns),
                      (strides.batch, strides.row, 1), DTYPES[dtype])
            for address, columns, strides, dtype in ((a, g.k, g.a_strides, g.dtype),
                                                     (c, g.n, g.c_strides, g.output)))
    e, columns = d.extras, 2 * g.n if d.extras.gated else g.n
    assert not (e.a_scales or 0) % 8 and not (e.b_scales or 0) % 8
    b_shape = (g.batch, *((columns, g.k) if g.layout == 0 else (g.k, columns)))
    b = tensor_at(b, b_shape, (g.b_strides.batch, g.b_strides.row, 1), DTYPES[g.dtype]).float()
    b = b.mT if g.layout == 0 else b
    of_a, of_b = torch.ones(a.shape[:2]), torch.ones(g.batch, columns)
    if d.extras.scaling == 3:
        assert d.extras.accuracy == 1 and d.extras.a_scale_stride % 4 == 0
        blocks, columns = -(-g.k // 128), -(-g.n // 128)
        pitch, b_pitch = d.extras.a_scale_stride, d.extras.b_scale_stride
        by_a = tensor_at(d.extras.a_scales, (*a.shape[:2], blocks), (blocks * pitch, 1, pitch),
                         torch.float32)
        by_b = tensor_at(d.extras.b_scales, (g.batch, columns, blocks), (columns * b_pitch, b_pitch, 1),
                         torch.float32)
        a = a.float() * by_a.repeat_interleave(128, 2)[..., :g.k]
        by_b = by_b.repeat_interleave(128, 1)[:, :g.n].repeat_interleave(128, 2)
        b = b * by_b[..., :g.k].mT
    if d.extras.scaling == 2:
        of_a = tensor_at(d.extras.a_scales, a.shape[:2], (g.m, 1), torch.float32)
        of_b = tensor_at(d.extras.b_scales, (g.batch, g.n), (g.n, 1), torch.float32)
    for matrix in range(a.shape[0]):
        for row in range(g.m):
            if d.groups == _grouped.OFFSETS:
                item = next((i for i, end in enumerate(numbers) if row < end), -1)
            elif masked:
                item = matrix if row < numbers[matrix] else -1
            else:
                item = numbers[row]
            if item >= 0:
                sums = a[matrix, row].float() @ b[item]
                sums = sums * of_a[matrix, row] * of_b[item]
                activate = torch.nn.functional.silu if e.activation == 3 else lambda x: x
                c[matrix, row] = (activate(sums[:g.n]) * sums[g.n:] if e.gated else
                                  activate(sums)).to(c.dtype)
    return 0


def attention(runtime, description, q, k, v, o, lse, stream):
    """What an attention kernel does, without the mask."""
    d = _library.Attention.from_address(description)

    def tensors(address, heads, seq, strides):
        return tensor_at(address, (d.batch, heads, seq, d.head_dim),
                         (strides.batch, strides.head, strides.seq, 1), DTYPES[d.dtype])
    groups = d.heads_q // d.heads_kv
    q, k, v = (tensors(q, d.heads_q, d.seq_q, d.q_strides).float(),
               tensors(k, d.heads_kv, d.seq_kv, d.k_strides).float().repeat_interleave(groups, 1),
               tensors(v, d.heads_kv, d.seq_kv, d.v_strides).float().repeat_interleave(groups, 1))
    scores = q @ k.mT * d.scale
    tensors(o, d.heads_q, d.seq_q, d.o_strides).copy_(scores.softmax(-1) @ v)
    if lse:
        shape = (d.batch, d.heads_q, d.seq_q)
        tensor_at(lse, shape, (shape[1] * shape[2], shape[2], 1),
                  torch.float32).copy_(scores.logsumexp(-1))
    return 0


def prepare_backward(runtime, description, size_bytes):
    ctypes.c_int64.from_address(size_bytes).value = WORKSPACE_BYTES
    return 0


def attention_backward(runtime, description, stream):
    """What the kernels of attention backward do, without the mask, by the description alone."""
    d = _library.AttentionBackward.from_address(description)
    assert d.size == ctypes.sizeof(d) and d.workspace_bytes == WORKSPACE_BYTES and d.workspace

    def tensors(name):
        heads, seq = ((d.heads_kv, d.seq_kv) if name[-1] in "kv" else (d.heads_q, d.seq_q))
        strides = getattr(d, name + "_strides")
        return tensor_at(getattr(d, name), (d.batch, heads, seq, d.head_dim),
                         (strides.batch, strides.head, strides.seq, 1), DTYPES[d.dtype])

    def of_rows(address):
        shape = (d.batch, d.heads_q, d.seq_q)
        return tensor_at(address, shape, (shape[1] * shape[2], shape[2], 1), torch.float32)
    groups = d.heads_q // d.heads_kv
    q, o, d_o = (tensors(name).float() for name in ("q", "o", "d_o"))
    k, v = (tensors(name).float().repeat_interleave(groups, 1) for name in ("k", "v"))
    p = (q @ k.mT * d.scale - of_rows(d.lse)[..., None]).exp()
    sums = (d_o * o).sum(-1) - (of_rows(d.d_lse) if d.d_lse else 0.0)
    ds = p * (d_o @ v.mT - sums[..., None]) * d.scale

    def over_groups(gradient):
        return gradient.unflatten(1, (d.heads_kv, groups)).sum(2)
    tensors("dq").copy_(ds @ k)
    tensors("dk").copy_(over_groups(ds.mT @ q))
    tensors("dv").copy_(over_groups(p.mT @ d_o))
    return 0


WORKSPACE_BYTES = 4096


def normal(*shape, dtype=None):
    return torch.randn(*shape).to(dtype or torch.bfloat16)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class OnTheCpu(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        for patch in (
                mock.patch.object(_torch, "_handle", lambda: 1),
                mock.patch.object(_torch, "_current_device", lambda: -1),
                mock.patch.object(_torch, "_raw_stream", lambda index: 0),
                mock.patch.object(_sdpa, "require_cuda", lambda **tensors: None),
                mock.patch.object(_matmul, "require_cuda", lambda **tensors: None),
                mock.patch.object(_fused, "require_cuda", lambda **tensors: None),
                mock.patch.object(_grouped, "require_cuda", lambda **tensors: None),
                mock.patch.dict(_library.library.__dict__, {
                    "swr_runtime_gemm_at": mock.Mock(side_effect=product),
                    "swr_runtime_fused_gemm": mock.Mock(side_effect=fused_product),
                    "swr_runtime_grouped_gemm_at": mock.Mock(side_effect=grouped_product),
                    "swr_runtime_prepare_backward": mock.Mock(side_effect=prepare_backward),
                    "swr_runtime_attention_backward": mock.Mock(side_effect=attention_backward),
                    "swr_runtime_attention_at": mock.Mock(side_effect=attention)}),
                mock.patch.object(torch.cuda, "device", lambda index: contextlib.nullcontext())):
            patch.start()
            self.addCleanup(patch.stop)

    def assert_close(self, out, reference):
        self.assertEqual(out.shape, reference.shape)
        error = (out.float() - reference).norm() / reference.norm()
        self.assertLess(error, 1e-2)


class Documents(OnTheCpu):
    def test_the_examples_of_readme_and_tutorial_run(self):
        weights, bias = normal(288, 272), normal(288)  # Of a gate, then of what it multiplies.
        names = {"x": normal(70, 272), "weight": weights, "bias": bias, "w": normal(3, 144, 272),
                 "offsets": torch.tensor([20, 45, 70], dtype=torch.int32),
                 "a": normal(70, 272, dtype=torch.float8_e4m3fn),
                 "b": normal(144, 272, dtype=torch.float8_e4m3fn).t(),
                 "scale_a": torch.tensor(0.5), "scale_b": torch.tensor(3.0)}
        names |= {name: normal(1, 2, 33, 64) for name in "qkv"}
        root = pathlib.Path(__file__).resolve().parents[2]
        for page, calls in (("README.md", 5), ("docs/tutorial.md", 3)):
            blocks = re.findall(r"^```python\n(.*?)^```", (root / page).read_text(), re.M | re.S)
            self.assertEqual("".join(blocks).count("swr."), calls, page)
            with mock.patch("swr.configure"):
                for block in blocks:
                    exec(compile(block, page, "exec"), names)
            self.assertEqual(names["o"].shape, names["q"].shape)


class ScaledMm(OnTheCpu):
    """With the conventions of torch._scaled_mm."""

    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.a = torch.randn(70, 272).to(torch.float8_e4m3fn)
        self.w = torch.randn(144, 272).to(torch.float8_e4m3fn)

    def check(self, scale_a, scale_b, every_a, every_b, **more):
        out = _fused.scaled_mm(self.a, self.w.t(), scale_a, scale_b, **more)
        reference = (self.a.float() * every_a) @ (self.w.float() * every_b).T
        self.assert_close(out, reference + (more["bias"].float() if "bias" in more else 0))
        self.assertEqual(out.dtype, more.get("out_dtype", torch.bfloat16))

    def test_scales_of_tensors_and_rows(self):
        one, other = torch.tensor(0.5), torch.tensor([3.0])
        self.check(one, other, 0.5, 3.0, bias=normal(144))
        rows, columns = torch.rand(70, 1) + 1, torch.rand(1, 144) + 1
        for fast in (False, True):
            self.check(rows, columns, rows, columns.T, use_fast_accum=fast, out_dtype=torch.float32)

    def test_scales_of_blocks(self):
        of_a, of_b = torch.rand(3, 70) + 1, torch.rand(2, 4) + 1
        every_a = of_a.T.repeat_interleave(128, 1)[:, :272]
        every_b = of_b[:, :3].repeat_interleave(128, 0)[:144].repeat_interleave(128, 1)[:, :272]
        for padded in (torch.zeros(3, 72), torch.zeros(3, 70)):  # The second is copied.
            padded[:, :70] = of_a
            self.check(padded.T[:70], of_b.T, every_a, every_b)
        torch.set_default_dtype(torch.bfloat16)  # As loaders of models do.
        try:
            self.check(torch.cat([of_a]).T, of_b.T, every_a, every_b)
        finally:
            torch.set_default_dtype(torch.float32)
        odd = torch.zeros(9)[1:].view(2, 4).copy_(of_b)
        self.check(padded.T[:70], odd.T, every_a, every_b)
        with self.assertRaisesRegex(ValueError, "contiguous along their first"):
            _fused.scaled_mm(self.a, self.w.t(), of_a.T.contiguous(), of_b[:, :3].T)

    def test_scales_and_a_bias_at_odd_addresses(self):
        scales, bias, rows = torch.rand(9) + 1, normal(145)[1:], torch.rand(71)[1:, None] + 1
        self.check(scales[3], scales[4], scales[3], scales[4], bias=bias)
        columns = torch.rand(145)[None, 1:] + 1
        self.check(rows, columns, rows, columns.T, bias=bias)

    def test_output_of_fp8(self):
        out = _fused.scaled_mm(self.a, self.w.t(), torch.tensor(1.0), torch.tensor(1.0),
                               scale_result=torch.tensor(4.0), out_dtype=torch.float8_e4m3fn)
        reference = (4 * self.a.float() @ self.w.float().T).clamp(-448, 448)
        self.assertLess((out.float() - reference).norm() / reference.norm(), 0.04)

    def test_what_no_kernel_serves_is_refused(self):
        one = torch.tensor(1.0)
        for wrong, message in (((self.a.float(), self.w.t(), one, one), "float8"),
                               ((self.a, self.w, one, one), "takes b"),
                               ((self.a, self.w.t().contiguous(), one, one), "contiguous columns"),
                               ((self.a, self.w.t(), torch.ones(70, 1), one), "give one value"),
                               ((self.a, self.w.t(), one.double(), one), "float32")):
            with self.assertRaisesRegex((TypeError, ValueError), message):
                _fused.scaled_mm(*wrong)
        for wrong in (None, torch.ones(2), one.half()):
            with self.assertRaisesRegex(ValueError, "scale_result"):
                _fused.scaled_mm(self.a, self.w.t(), one, one, scale_result=wrong,
                                 out_dtype=torch.float8_e4m3fn)


class Linear(OnTheCpu):
    def test_epilogues(self):
        x, w, bias, residual = normal(2, 5, 32), normal(24, 32), normal(24), normal(2, 5, 24)
        functional = torch.nn.functional
        plain = x.float() @ w.float().T
        for options, reference in (
                ({}, plain), ({"residual": residual}, plain + residual.float()),
                ({"bias": bias, "activation": "gelu"}, functional.gelu(plain + bias.float())),
                ({"activation": "silu", "residual": residual},
                 functional.silu(plain) + residual.float()),
                ({"activation": "gelu_tanh"}, functional.gelu(plain, approximate="tanh"))):
            self.assert_close(_fused.linear(x, w, **options), reference)
        gate, up = (plain + bias.float()).chunk(2, -1)
        self.assert_close(_fused.linear(x, w, bias, activation="silu", gated=True),
                          functional.silu(gate) * up)
        with self.assertRaisesRegex(ValueError, "relu"):
            _fused.linear(x, w, activation="relu")

    def test_any_input(self):
        w, bias = normal(24, 32), normal(25)[1:]
        for x in (normal(32, 7).T, normal(7, 64)[:, ::2], normal(1, 32).expand(7, 32),
                  normal(2, 9, 32)[:, 1:4], normal(32, 2)[:, 0], normal(7, 33)[:, 1:]):
            self.assert_close(_fused.linear(x, w, bias), x.float() @ w.float().T + bias.float())
        for shape in ((5, 0), (2, 3, 0)):
            self.assert_close(_fused.linear(normal(*shape), normal(24, 0), bias),
                              bias.float().expand(*shape[:-1], 24))
        self.assertEqual(_fused.linear(normal(0, 32), w).shape, (0, 24))
        self.assertEqual(_fused.linear(normal(5, 32), w[:0], residual=normal(5, 0)).shape, (5, 0))


class Derivatives(OnTheCpu):
    """Those that nobody computes are refused, whichever argument asks."""

    def refuses(self, text, **calls):
        for name, call in calls.items():
            with self.assertRaisesRegex(_library.Error, text, msg=name):
                call()

    def test_gradients_and_tangents_of_any_argument(self):
        x, w, one = normal(5, 32), normal(24, 32), torch.ones(1)
        a, b = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
        offs, rows, columns = torch.tensor([5], dtype=torch.int32), torch.ones(5), torch.ones(1, 24)

        def calls(of):
            return {"bias": lambda: _fused.linear(x, w, of(normal(24))),
                    "residual": lambda: _fused.linear(x, w, residual=of(normal(5, 24))),
                    "scale": lambda: _fused.scaled_mm(a, b.t(), of(one.clone()), one),
                    "fp8 bias": lambda: _fused.scaled_mm(a, b.t(), one, one, of(normal(24))),
                    "scales": lambda: _grouped.scaled_grouped_mm(a, b.t()[None], rows, of(columns.clone()),
                                                                 offs),
                    "experts": lambda: _grouped.grouped_mm(of(x.clone()), w.t()[None], offs),
                    "matmul": lambda: _matmul.matmul(x, of(w.clone()).t())}
        self.refuses("no backward", **calls(lambda t: t.requires_grad_()))
        q = normal(1, 2, 5, 16)
        with torch.autograd.forward_ad.dual_level():
            def dual(t):
                return torch.autograd.forward_ad.make_dual(t, torch.ones_like(t))
            self.refuses("no forward-mode", sdpa=lambda: _sdpa.sdpa(q, dual(q), q), **calls(dual))
            _sdpa.sdpa(q, q, q)

    def test_gradients_by_torch_func(self):
        q, w = normal(1, 2, 5, 16), normal(24, 32)
        self.refuses("not by torch.func", sdpa=lambda: torch.func.grad(lambda t: _sdpa.sdpa(t, q, q).sum())(q))
        self.refuses("no backward", matmul=lambda: torch.func.grad(
            lambda t: _matmul.matmul(t, w.T).sum())(normal(5, 32)))


class Operators(OnTheCpu):
    """With kernels for the CPU beside those of CUDA."""

    @classmethod
    def setUpClass(cls):
        if torch is not None:
            cls.kernels = torch.library.Library("swr", "FRAGMENT")
            for name, kernel in (("linear", _fused._linear), ("scaled_mm", _fused.scaled_product),
                                 ("matmul", _matmul._run),
                                 ("scaled_grouped_mm", _grouped._scaled_product),
                                 ("deep_gemm_fp8", deep_gemm._fp8),
                                 ("deep_gemm_grouped", deep_gemm._write_groups)):
                torch.library.register_kernel(f"swr::{name}", "cpu", kernel, lib=cls.kernels)

    def test_products_are_compiled_without_a_break(self):
        x, w, bias, one = normal(5, 32), normal(24, 32), normal(24), torch.ones(1)
        a, b = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
        offs = torch.tensor([5], dtype=torch.int32)

        def model(x, a):
            y = _fused.linear(x * 0.5, w, bias, activation="silu", residual=x[:, :24])
            y = y + _grouped.scaled_grouped_mm(a, b.t()[None], one.expand(5).clone(), torch.ones(1, 24),
                                               offs)
            return y + _fused.scaled_mm(a, b.t(), one, one, bias)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(x, a), model(x, a)))
        torch.library.opcheck(torch.ops.swr.linear.default, (x, w, bias, None, "gelu", False),
                              test_utils=("test_schema", "test_faketensor"))

    def test_results_of_the_callers_are_written_in_compiled_functions(self):
        a, b = (torch.randn(*shape).to(torch.float8_e4m3fn) for shape in ((8, 16), (24, 16)))
        scales, x, w = (torch.rand(8, 1) + 1, torch.rand(1, 1) + 1), normal(8, 16), normal(2, 24, 16)
        indices = torch.tensor([0] * 4 + [1] * 4, dtype=torch.int32)

        def model(a, x):
            d, e = torch.zeros(8, 24, dtype=torch.bfloat16), torch.zeros(8, 24, dtype=torch.bfloat16)
            deep_gemm.fp8_gemm_nt((a, scales[0]), (b, scales[1]), d)
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(x * 0.5, w, e, indices)
            return d + e
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(a, x), model(a, x)))

    def test_modes_see_what_is_called(self):
        from torch.fx.experimental.proxy_tensor import make_fx
        x, other, w = normal(5, 32), normal(5, 32), normal(24, 32)
        for call in (lambda t: _matmul.matmul(t, w.T), lambda t: _fused.linear(t, w)):
            traced = make_fx(call)(x)
            self.assertTrue(torch.equal(traced(other), call(other)))
            self.assertIn("swr", traced.code)

    def test_vmap_is_a_loop(self):
        x, w = normal(3, 5, 32), normal(24, 32)
        for call in (lambda t: _matmul.matmul(t, w.T), lambda t: _fused.linear(t, w)):
            self.assertTrue(torch.equal(torch.func.vmap(call)(x), torch.stack([call(t) for t in x])))


class Matmul(OnTheCpu):
    def check(self, a, b, **more):
        out = _matmul.matmul(a, b, **more)
        self.assert_close(out, a.float() @ b.float())
        self.assertEqual(out.dtype, more.get("out_dtype", a.dtype))
        fake = _matmul._output(a, b, out.dtype)
        self.assertEqual((fake.shape, fake.stride()), (out.shape, out.stride()))
        return out

    def test_every_storage_order(self):
        for a in (normal(5, 7), normal(7, 5).T, normal(5, 20)[:, 3:10], normal(7, 9).T[:5]):
            for b in (normal(7, 6), normal(6, 7).T, normal(9, 6)[2:], normal(7, 11)[:, 5:]):
                self.check(a, b)

    def test_batches(self):
        for a in (normal(3, 5, 7), normal(3, 7, 5).mT, normal(5, 3, 7).transpose(0, 1)):
            for b in (normal(3, 7, 6), normal(3, 6, 7).mT):
                self.check(a, b)

    def test_leading_dimensions_are_rows(self):
        self.check(normal(2, 3, 5, 7), normal(6, 7).T)
        self.check(normal(2, 3, 8)[..., :7], normal(7, 6))
        with self.assertRaisesRegex(ValueError, "a.contiguous"):
            _matmul.matmul(normal(3, 2, 7).transpose(0, 1), normal(7, 6))

    def test_dimensions_of_one_and_none(self):
        self.check(normal(1, 7), normal(7, 1))
        self.check(normal(7, 1), normal(1, 6))
        self.check(normal(7, 2)[:, :1], normal(6, 2)[:, :1].T)
        self.assertEqual(_matmul.matmul(normal(0, 7), normal(7, 3)).shape, (0, 3))
        self.assertTrue(torch.equal(_matmul.matmul(normal(2, 0), normal(0, 3)),
                                    torch.zeros(2, 3, dtype=torch.bfloat16)))

    def test_output_types(self):
        for out_dtype in DTYPES[:3]:
            self.check(normal(5, 7), normal(7, 6), out_dtype=out_dtype)
        self.check(normal(5, 7, dtype=torch.float16), normal(7, 6, dtype=torch.float16))

    def test_refusals(self):
        a, b = normal(5, 7), normal(7, 6)
        for kind, text, action in (
                (TypeError, "float32", lambda: _matmul.matmul(a.float(), b.float())),
                (TypeError, "float16", lambda: _matmul.matmul(a, b.half())),
                (TypeError, "out_dtype", lambda: _matmul.matmul(a, b, out_dtype=torch.int8)),
                (ValueError, r"\(5, 7\), \(6, 7\)", lambda: _matmul.matmul(a, b.T)),
                (ValueError, "batch", lambda: _matmul.matmul(normal(2, 5, 7), normal(3, 7, 6))),
                (ValueError, "rows or the columns of b", lambda: _matmul.matmul(
                    a, normal(14, 12)[::2, ::2])),
                (ValueError, "expanded", lambda: _matmul.matmul(a[:1].expand(5, 7), b)),
                (_library.Error, "no backward", lambda: _matmul.matmul(a.requires_grad_(), b))):
            with self.assertRaisesRegex(kind, text):
                action()

    def test_a_refusal_of_the_library_is_an_error(self):
        refuse = mock.Mock(return_value=13)
        with mock.patch.dict(_library.library.__dict__, {"swr_runtime_gemm_at": refuse}), \
                mock.patch.object(_library.library, "_library") as opened:
            opened.swr_last_error.return_value = b"no kernel"
            with self.assertRaisesRegex(_library.Error, "no kernel") as caught:
                _matmul.matmul(normal(5, 7), normal(7, 6))
        self.assertEqual(caught.exception.code, "not_compiled")


class GroupedMm(OnTheCpu):
    COUNTS = (3, 0, 5, 1)

    def offs(self):
        return torch.tensor(self.COUNTS).cumsum(0).to(torch.int32)

    def expected(self, a, b):
        parts = a[:sum(self.COUNTS)].float().split(self.COUNTS)
        return torch.cat([part @ b[group].float() for group, part in enumerate(parts)])

    def test_rows_of_each_group_in_every_storage_order(self):
        for a in (normal(9, 16), normal(12, 20)[:, 2:18]):
            for b in (normal(4, 16, 24), normal(4, 24, 16).mT, normal(6, 16, 24)[1:5]):
                for out_dtype in (None, torch.float32):
                    out = _grouped.grouped_mm(a, b, self.offs(), out_dtype=out_dtype)
                    self.assertEqual(out.dtype, out_dtype or a.dtype)
                    self.assertEqual(out.shape, (a.shape[0], 24))
                    self.assert_close(out[:9], self.expected(a, b))

    def test_activation_and_gate(self):
        a, b = normal(9, 16), normal(4, 48, 16)
        whole = self.expected(a, b.mT)
        silu = torch.nn.functional.silu
        out = _grouped.grouped_mm(a, b.mT, self.offs(), activation="silu", gated=True)
        self.assert_close(out, silu(whole[:, :24]) * whole[:, 24:])
        self.assert_close(_grouped.grouped_mm(a, b.mT, self.offs(), activation="silu"), silu(whole))
        with self.assertRaisesRegex(ValueError, "contiguous columns"):
            _grouped.grouped_mm(a, b.mT.contiguous(), self.offs(), gated=True)
        with self.assertRaisesRegex(ValueError, "activation"):
            _grouped.grouped_mm(a, b.mT, self.offs(), activation="relu")

    def test_deep_gemm_signatures(self):
        a, b = normal(4 * 8, 16), normal(4, 24, 16)
        indices = torch.repeat_interleave(torch.arange(4, dtype=torch.int32), 8)
        indices[5:8] = -1
        d = torch.full((32, 24), 7.0, dtype=torch.bfloat16)
        deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, b, d, indices)
        expected = torch.cat([part @ b[group].mT.float()
                              for group, part in enumerate(a.float().split(8))])
        expected[5:8] = 7.0
        self.assert_close(d, expected)
        d = torch.full((4, 8, 24), 7.0, dtype=torch.bfloat16)
        counts = torch.tensor(self.COUNTS, dtype=torch.int32)
        deep_gemm.m_grouped_bf16_gemm_nt_masked(a.view(4, 8, 16), b, d, counts, 3)
        for group, count in enumerate(self.COUNTS):
            self.assertTrue(bool((d[group, count:] == 7.0).all()))
            if count:
                self.assert_close(d[group, :count], a.view(4, 8, 16)[group, :count].float()
                                  @ b[group].mT.float())

    def test_deep_gemm_signatures_of_fp8(self):
        def drawn(*shape):
            return torch.randn(*shape).to(torch.float8_e4m3fn)

        def of_blocks(scale, rows):
            scale = scale.repeat_interleave(128, -2)[..., :rows, :] if rows else scale
            return scale.repeat_interleave(128, -1)[..., :160]
        a, b = drawn(4, 10, 160), drawn(4, 136, 160)
        by_a, by_b = torch.rand(4, 10, 2) + 0.5, torch.rand(4, 2, 2) + 0.5
        plain_a, plain_b = a.float() * of_blocks(by_a, 0), b.float() * of_blocks(by_b, 136)
        aligned = torch.zeros(4, 2, 12)
        aligned[..., :10] = by_a.mT
        counts = torch.tensor(self.COUNTS, dtype=torch.int32)
        for scale in (by_a, aligned.mT[:, :10]):
            d = torch.full((4, 10, 136), 7.0, dtype=torch.bfloat16)
            deep_gemm.m_grouped_fp8_gemm_nt_masked((a, scale), (b, by_b), d, counts, 3)
            for group, count in enumerate(self.COUNTS):
                self.assertTrue(bool((d[group, count:] == 7.0).all()))
                if count:
                    self.assert_close(d[group, :count],
                                      plain_a[group, :count] @ plain_b[group].mT)
        indices = torch.repeat_interleave(torch.arange(4, dtype=torch.int32), 10)
        d = torch.full((40, 136), 7.0, dtype=torch.bfloat16)
        rows, scales = a.view(40, 160), by_a.view(40, 2)
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous((rows, scales), (b, by_b), d, indices)
        self.assert_close(d, (plain_a @ plain_b.mT).view(40, 136))
        d = torch.full((40, 136), 7.0, dtype=torch.bfloat16)
        deep_gemm.fp8_gemm_nt((rows, scales), (b[1], by_b[1]), d)
        self.assert_close(d, plain_a.view(40, 160) @ plain_b[1].mT)
        with self.assertRaisesRegex(ValueError, "scale_b"):
            deep_gemm.m_grouped_fp8_gemm_nt_masked((a, by_a), (b, by_b[:, :1]), d.view(4, 10, 136),
                                                   counts, 3)
        with self.assertRaisesRegex(ValueError, "psum"):
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous((rows, scales), (b, by_b), d, indices,
                                                       use_psum_layout=True)

    def test_fp8_with_scales_of_rows(self):
        a = torch.randn(9, 16).to(torch.float8_e4m3fn)
        b = torch.randn(4, 24, 16).to(torch.float8_e4m3fn).mT
        scale_a, scale_b = torch.rand(9) + 0.5, torch.rand(4, 24) + 0.5
        expected = self.expected(a.float() * scale_a[:, None], b.float() * scale_b[:, None])
        out = _grouped.scaled_grouped_mm(a, b, scale_a, scale_b, self.offs())
        self.assertEqual(out.dtype, torch.bfloat16)
        self.assert_close(out, expected)
        for scale in (scale_b[:3], scale_b.double(), scale_b.T):
            with self.assertRaisesRegex(ValueError, "scale_b"):
                _grouped.scaled_grouped_mm(a, b, scale_a, scale, self.offs())
        with self.assertRaisesRegex(TypeError, "scaled_grouped_mm"):
            _grouped.grouped_mm(a, b, self.offs())

    def test_nothing_to_compute(self):
        out = _grouped.grouped_mm(normal(0, 16), normal(4, 16, 24), self.offs())
        self.assertEqual(out.shape, (0, 24))

    def test_refusals(self):
        a, b, offs = normal(9, 16), normal(4, 16, 24), self.offs()
        for kind, text, action in (
                (TypeError, "float32", lambda: _grouped.grouped_mm(a.float(), b.float(), offs)),
                (ValueError, "int32", lambda: _grouped.grouped_mm(a, b, offs.long())),
                (ValueError, "4 contiguous", lambda: _grouped.grouped_mm(a, b, offs[:3])),
                (ValueError, r"\(9, 16\), \(4, 24, 16\)",
                 lambda: _grouped.grouped_mm(a, b.mT, offs)),
                (ValueError, "must be", lambda: _grouped.grouped_mm(a, b[0], offs)),
                (ValueError, "rows of a", lambda: _grouped.grouped_mm(normal(16, 9).T, b, offs)),
                (_library.Error, "bias", lambda: _grouped.grouped_mm(a, b, offs, normal(4, 24))),
                (_library.Error, "no backward",
                 lambda: _grouped.grouped_mm(a.requires_grad_(), b, offs))):
            with self.assertRaisesRegex(kind, text):
                action()


class Sdpa(OnTheCpu):
    def check(self, q, k, v, **more):
        groups = q.shape[1] // k.shape[1]
        keys, values = (t.float().repeat_interleave(groups, 1) for t in (k, v))
        scores = q.float() @ keys.mT * more.get("scale", q.shape[-1] ** -0.5)
        out, lse = _sdpa.sdpa(q, k, v, return_lse=True, **more)
        self.assert_close(out, scores.softmax(-1) @ values)
        self.assert_close(lse, scores.logsumexp(-1))
        self.assertTrue(torch.equal(_sdpa.sdpa(q, k, v, **more), out))
        self.assertEqual(_sdpa._output_like(q).stride(), out.stride())

    def test_strides_and_grouped_heads(self):
        self.check(normal(2, 4, 9, 16), normal(2, 2, 11, 16), normal(2, 2, 11, 16))
        packed = normal(2, 9, 3, 4, 16)
        self.check(*(packed[:, :, i].transpose(1, 2) for i in range(3)))

    def test_calls_that_look_alike_but_for_one_thing_are_not_confused(self):
        q, k, v = normal(1, 4, 8, 16), normal(1, 4, 8, 16), normal(1, 4, 8, 16)
        self.check(q, k, v)
        self.check(q, k, v, scale=0.5)
        self.check(q, k.transpose(1, 2).contiguous().transpose(1, 2), v)
        self.check(*(t.half() for t in (q, k, v)))
        self.check(normal(1, 4, 8, 16), normal(1, 4, 8, 16), normal(1, 4, 8, 16))
        with self.assertRaises(TypeError):
            _sdpa.sdpa(q, k, v.half())
        with self.assertRaises(ValueError):
            _sdpa.sdpa(q, k, normal(1, 4, 9, 16))

    def test_what_was_refused_is_refused_again(self):
        q = normal(1, 4, 8, 16)
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "positive"):
                _sdpa.sdpa(q, q, q, scale=-1.0)
            self.check(q, q, q)

    def test_descriptions_do_not_pile_up(self):
        plans = _torch.Plans()
        with mock.patch.object(_torch.Plans, "_MOST", 3):
            for key in range(10):
                plans.remember(key, str(key))
                self.assertEqual(plans.find(key), str(key))
        self.assertLessEqual(len(plans._plans), 3)

    def test_the_mask_is_part_of_the_description(self):
        q = normal(1, 1, 4, 16)
        for causal in (False, True, 1, 0):
            _sdpa.sdpa(q, q, q, causal=causal)
            call = _library.library.swr_runtime_attention_at.call_args.args
            self.assertEqual(_library.Attention.from_address(call[1]).causal, int(causal))


class SdpaBackward(OnTheCpu):
    """The operators themselves, with kernels for the CPU beside those of CUDA."""

    @classmethod
    def setUpClass(cls):
        if torch is not None:
            cls.kernels = torch.library.Library("swr", "FRAGMENT")
            torch.library.register_kernel("swr::sdpa", "cpu", lambda q, k, v, causal, scale: (
                _sdpa._run(q, k, v, causal, scale, False)), lib=cls.kernels)
            torch.library.register_kernel(
                "swr::sdpa_lse", "cpu", lambda q, k, v, causal, scale, deterministic=False: (
                    _sdpa._run(q, k, v, causal, scale, True)), lib=cls.kernels)
            torch.library.register_kernel("swr::sdpa_backward", "cpu", _sdpa._run_backward,
                                          lib=cls.kernels)

    def inputs(self, groups=2, dtype=None):
        q = normal(2, 2 * groups, 9, 16, dtype=dtype)
        packed = normal(2, 11, 2, 2, 16, dtype=dtype)
        k, v = (packed[:, :, i].transpose(1, 2) for i in range(2))
        return [tensor.detach().requires_grad_() for tensor in (q, k, v)]

    def reference(self, q, k, v, loss):
        leaves = [tensor.detach().float().requires_grad_() for tensor in (q, k, v)]
        keys, values = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in leaves[1:])
        scores = leaves[0] @ keys.mT * q.shape[-1] ** -0.5
        return torch.autograd.grad(loss(scores.softmax(-1) @ values, scores.logsumexp(-1)), leaves,
                                   allow_unused=True)

    def check(self, q, k, v, loss, function=None):
        function = function or _sdpa.sdpa
        gradients = torch.autograd.grad(loss(*function(q, k, v, return_lse=True)), (q, k, v))
        for gradient, expected, leaf in zip(gradients, self.reference(q, k, v, loss), (q, k, v)):
            self.assertEqual(gradient.dtype, leaf.dtype)
            if expected is None:
                self.assertEqual(gradient.count_nonzero(), 0)
                continue
            self.assertLess((gradient.float() - expected).norm() / expected.norm(), 2e-2)
        return gradients

    def test_gradients_through_both_results(self):
        weights = torch.randn(2, 4, 9, 16)
        for loss in (lambda o, lse: (o.float() * weights).sum(),
                     lambda o, lse: lse.sin().sum(),
                     lambda o, lse: (o.float() * weights).sum() + (lse * weights[..., 0]).sum()):
            self.check(*self.inputs(), loss)
            self.check(*self.inputs(dtype=torch.float16), loss)

    def test_an_expanded_gradient_and_one_input_alone(self):
        q, k, v = self.inputs()
        self.check(q, k, v, lambda o, lse: o.float().sum() * 0.1 + (o.float() ** 2).sum())
        out = _sdpa.sdpa(q.detach(), k, v.detach())
        out.sum().backward()
        self.assertIsNotNone(k.grad)
        self.assertIsNone(q.grad)

    def test_twice_through_one_graph_and_through_a_checkpoint(self):
        from torch.utils.checkpoint import checkpoint
        q, k, v = self.inputs()
        out = _sdpa.sdpa(q, k, v)
        once = torch.autograd.grad(out.sum(), (q, k, v), retain_graph=True)
        again = torch.autograd.grad(out.sum(), (q, k, v))
        stored = checkpoint(lambda *t: _sdpa.sdpa(*t), q, k, v, use_reentrant=False)
        recomputed = torch.autograd.grad(stored.sum(), (q, k, v))
        for a, b, c in zip(once, again, recomputed):
            self.assertTrue(torch.equal(a, b) and torch.equal(a, c))

    def test_gradients_lie_in_memory_as_their_inputs_do(self):
        q, k, v = self.inputs()
        gradients = self.check(q, k, v, lambda o, lse: (o.float() ** 2).sum())
        fakes = [_sdpa._output_like(tensor) for tensor in (q, k, v)]
        for gradient, fake in zip(gradients, fakes):
            self.assertEqual(gradient.stride(), fake.stride())

    def test_torchs_global_flag_asks_for_deterministic_kernels(self):
        backward = _library.library.swr_runtime_attention_backward
        for flag in (False, True):
            seen = []
            backward.side_effect = lambda runtime, at, stream: seen.append(
                _library.AttentionBackward.from_address(at).deterministic) or attention_backward(
                    runtime, at, stream)
            torch.use_deterministic_algorithms(flag)
            try:
                out = _sdpa.sdpa(*self.inputs())
            finally:
                torch.use_deterministic_algorithms(False)
            out.sum().backward()
            self.assertEqual(seen, [int(flag)])

    def test_the_operators_pass_torchs_checks(self):
        q, k, v = self.inputs()
        torch.library.opcheck(torch.ops.swr.sdpa_lse.default, (q, k, v, False, 0.25, True),
                              test_utils=("test_schema", "test_autograd_registration",
                                          "test_faketensor"))
        o, lse = (tensor.detach() for tensor in _sdpa.sdpa(q, k, v, return_lse=True))
        tensors = [tensor.detach() for tensor in (q, k, v)]
        for d_lse in (None, torch.randn_like(lse)):
            torch.library.opcheck(
                torch.ops.swr.sdpa_backward.default,
                (torch.randn_like(o), *tensors, o, lse, d_lse, False, 0.25, False),
                test_utils=("test_schema", "test_faketensor"))

    def test_it_is_compiled_without_a_break(self):
        def model(q, k, v, return_lse=True):
            o, lse = _sdpa.sdpa(q * 0.5, k, v, return_lse=True)
            return o * 2.0, lse
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        q, k, v = self.inputs()
        eager = torch.autograd.grad(model(q, k, v)[0].sum(), (q, k, v))
        traced = torch.autograd.grad(compiled(q, k, v)[0].sum(), (q, k, v))
        for a, b in zip(eager, traced):
            self.assertTrue(torch.equal(a, b))

    def test_refusals(self):
        q = normal(1, 2, 8, 144).requires_grad_()
        with self.assertRaisesRegex(ValueError, "multiple of 32, not 144"):
            _sdpa.sdpa(q, q, q)
        with torch.no_grad():
            _sdpa.sdpa(q, q, q)
        q, k, v = self.inputs()
        first = torch.autograd.grad(_sdpa.sdpa(q, k, v).float().sum(), q, create_graph=True)[0]
        with self.assertRaisesRegex(RuntimeError, "sdpa_backward"):
            first.float().sum().backward()

    def test_nothing_to_do(self):
        q, k = normal(2, 2, 0, 16).requires_grad_(), normal(2, 2, 3, 16).requires_grad_()
        _sdpa.sdpa(q, k, k).sum().backward()
        self.assertTrue(torch.equal(k.grad, torch.zeros_like(k)))


if __name__ == "__main__":
    unittest.main()
