# SPDX-License-Identifier: MIT
"""The operators on PyTorch tensors without a GPU: tensors of the CPU pass for tensors of a device,
and a computation on the CPU, which reads memory as the description says, for the kernels."""

import ctypes
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    from swr import _library, _matmul, _sdpa, _torch

    DTYPES = [torch.float16, torch.bfloat16, torch.float32]


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
                mock.patch.dict(_library.library.__dict__, {
                    "swr_runtime_gemm_at": mock.Mock(side_effect=product),
                    "swr_runtime_attention_at": mock.Mock(side_effect=attention)})):
            patch.start()
            self.addCleanup(patch.stop)

    def assert_close(self, out, reference):
        self.assertEqual(out.shape, reference.shape)
        error = (out.float() - reference).norm() / reference.norm()
        self.assertLess(error, 1e-2)


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
        for out_dtype in DTYPES:
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
            with self.assertRaisesRegex(_library.Error, "no backward"):
                _sdpa.sdpa(normal(1, 4, 8, 16).requires_grad_(), q, q)
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


if __name__ == "__main__":
    unittest.main()
