# SPDX-License-Identifier: MIT
"""experiments/attention_backward/backward_peers.py on a CPU: kernels stood in for, calls of torch.cuda by
what does nothing, so that a machine with a GPU is not where its faults are found."""

import contextlib
import csv
import importlib.util
import io
import pathlib
import subprocess
import tempfile
import time
import types
import unittest
import weakref
from unittest import mock

import test_torch

torch = test_torch.torch
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "experiments/attention_backward/backward_peers.py"


def loaded_script():
    spec = importlib.util.spec_from_file_location("backward_peers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Graph:
    """Calls what was captured again."""

    def __init__(self, call):
        self.replay = call


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BackwardPeers(test_torch.OnTheCpu):
    @classmethod
    def setUpClass(cls):
        test_torch.SdpaBackward.setUpClass.__func__(cls)

    def setUp(self):
        super().setUp()
        self.script = script = loaded_script()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.options = types.SimpleNamespace(
            out=pathlib.Path(folder.name), begun=time.time(), seconds=600.0, database=None, count=8, rounds=2,
            head_dims=None, no_tuning=False, tune_arguments="--budget 1", once=False, steps=20, graphs=True)

        def randn(*sizes, device, dtype):
            return torch.empty(*sizes, dtype=dtype).normal_()

        def graph_of(call, graph_us, most):
            call()
            return Graph(call), 1

        for patch in (
                mock.patch.object(script, "torch", mock.Mock(wraps=torch, randn=randn)),
                mock.patch.object(script, "graph_of", graph_of),
                mock.patch.object(script, "elapsed_us", lambda action: (action(), 500.0)[1]),
                mock.patch.object(torch.cuda, "Stream", lambda: None),
                mock.patch.object(torch.cuda, "stream", lambda stream: contextlib.nullcontext()),
                mock.patch.dict(script.sample_in_turns.__globals__, {
                    "elapsed_us": lambda action: (action(), 1.0)[1]}),
                # No back end but the plain one is on a CPU; masks are not stood in for.
                mock.patch.object(script, "sdpa_kernel", lambda backend: contextlib.nullcontext()),
                mock.patch.object(script, "peer_shapes", lambda: [
                    (False, 16, 2, 4, 2, 8), (False, 32, 1, 2, 2, 12)])):
            patch.start()
            self.addCleanup(patch.stop)
        quiet = contextlib.ExitStack()
        self.addCleanup(quiet.close)
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))

    def rows(self, name):
        with open(self.options.out / f"backward_{name}.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_peers_are_timed_without_tuning_and_with_it(self):
        self.assertEqual(self.script.run_peers(self.options), 0)
        rows = self.rows("peers")
        self.assertEqual([row["who"] for row in rows],
                         ["swr", "swr deterministic", "cudnn", "flash"] * 2)
        for row in rows:
            self.assertLess(float(row["off_swr"]), 1e-2)
            self.assertEqual((row["ratio"], row["refused"]), ("1.0000", ""))
        self.options.database = self.options.out / "tuned.db"
        runs = []
        with mock.patch.dict("os.environ", {"SWR_TUNE": "swr-tune"}), \
                mock.patch.object(self.script.swr, "configure", lambda database: runs.append(database)), \
                mock.patch.object(subprocess, "run", lambda command, **more: runs.append(command)):
            self.assertEqual(self.script.run_peers(self.options), 0)
        self.assertEqual([row["tuned"] for row in self.rows("peers")], ["False"] * 8 + ["True"] * 8)
        self.assertIn("--deterministic", runs[1])
        self.assertEqual(len(runs), 6)

    def test_what_a_graph_reads_lives_until_it_was_timed(self):
        alive = []

        def graph_of(call, graph_us, most):
            call()
            called = weakref.ref(call)
            return Graph(lambda: alive.append(called() is not None)), 1
        with mock.patch.object(self.script, "graph_of", graph_of):
            self.assertEqual(self.script.run_peers(self.options), 0)
        self.assertEqual(set(alive), {True})

    def test_only_the_deterministic_contender_asks_for_it(self):
        seen = []
        q, k, v, d_o = self.script.tensors(1, 2, 2, 8, 8, 16, "bf16")
        calls = {name: make() for name, make in self.script.contenders(q, k, v, d_o, False).items()}
        backward = test_torch._library.library.swr_runtime_attention_backward
        backward.side_effect = lambda runtime, at, stream: seen.append(
            test_torch._library.AttentionBackward.from_address(at).deterministic
            ) or test_torch.attention_backward(runtime, at, stream)
        for name in ("swr", "swr deterministic"):
            calls[name]()
        self.assertEqual(seen, [0, 1])
        self.assertFalse(torch.are_deterministic_algorithms_enabled())

    def test_a_contender_that_fails_leaves_the_others_times(self):
        def refuse(*tensors, **more):
            raise RuntimeError("no such kernel\nand more")
        with mock.patch.object(self.script.functional, "scaled_dot_product_attention", refuse):
            self.assertEqual(self.script.run_peers(self.options), 0)
        rows = self.rows("peers")
        self.assertEqual([row["refused"] for row in rows[:2]], ["no such kernel"] * 2)
        self.assertEqual([row["who"] for row in rows[2:4]], ["swr", "swr deterministic"])
        with mock.patch.object(self.script.swr, "sdpa", refuse):
            self.assertTrue(self.script.run_peers(self.options))
        self.assertEqual(len(self.rows("peers")), 8)

    def test_where_no_graph_is_captured_plain_launches_are_timed(self):
        refuse = mock.Mock(side_effect=RuntimeError("operation not permitted when stream is capturing"))
        with mock.patch.object(self.script, "graph_of", refuse):
            self.assertEqual(self.script.run_peers(self.options), 0)
        rows = self.rows("peers")
        self.assertEqual({row["launched"] for row in rows}, {"plain"})
        self.assertEqual(len([row for row in rows if row["median_us"] == "0.2"]), 8)  # Of four calls, 1 us.

    def without_masks(self):
        products = self.script.itertools.product
        return mock.patch.object(self.script, "itertools", types.SimpleNamespace(
            product=lambda dims, types_, causal, flags: products((32,), types_, (False,), flags)))

    def test_random_problems_are_right_and_a_fault_is_printed(self):
        with self.without_masks():
            self.assertEqual(self.script.run_random(self.options), 0)
            self.assertEqual(sum(int(row["problems"]) for row in self.rows("random")), 8)

            def off(runtime, at, stream):
                test_torch.attention_backward(runtime, at, stream)
                d = test_torch._library.AttentionBackward.from_address(at)
                row = test_torch.tensor_at(d.dq, (d.head_dim,), (1,), test_torch.DTYPES[d.dtype])
                row.mul_(1.1)
                return 0
            test_torch._library.library.swr_runtime_attention_backward.side_effect = off
            with mock.patch("builtins.print") as printed:
                self.assertEqual(self.script.run_random(self.options), 8)
        said = [call.args for call in printed.call_args_list if call.args[0] == "WRONG:"]
        self.assertIn("kv_seq", said[0][1])

    def test_sizes_are_those_of_the_sums(self):
        """One row, one key: the gradients of Q and K are 0, what a rounded O leaves of them is not."""
        q, k, v, d_o = (torch.randn(1, 1, 1, 4, dtype=torch.float64) for _ in range(4))
        zero = torch.zeros_like(q)
        dq, dk, dv = self.script.sizes_of(q, k, v, d_o, (zero, zero, d_o), False)
        of_delta = 0.5 * (d_o * v).norm()
        floor = 4 * 2.0 ** -28
        for found, squares in ((dq, (of_delta * k.norm()) ** 2), (dk, (of_delta * q.norm()) ** 2),
                               (dv, 2 * d_o.norm() ** 2)):
            self.assertAlmostEqual(found.item() ** 2, (squares + floor).item(), places=12)


if __name__ == "__main__":
    unittest.main()
