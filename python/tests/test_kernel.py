# SPDX-License-Identifier: MIT
"""Kernels of one's own from Python, without PyTorch and without a GPU: specs, spaces, compiling,
answers, arguments, errors."""

import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import swr
from swr import _program
from swr._library import RuntimeOptions, library

SOURCE = """extern "C" __global__ void blur(float* out, const float* source, int n) {
  const int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i > 0 && i < n - 1) out[i] = (source[i - 1] + source[i] + source[i + 1]) / 3;
}
"""
NAIVE = SOURCE.replace("block_size_x", "256")


def blur_of(**more):
    @swr.kernel(SOURCE, parameters={"block_size_x": [64, 128, 256]}, block="block_size_x",
                grid="div_ceil(n, block_size_x)", constraints=["block_size_x <= n"],
                reference={"source": NAIVE, "entry": "blur", "block": 256, "grid": "div_ceil(n, 256)"}, **more)
    def blur(out=swr.array("float32", "n", output=True), source=swr.array("float32", "n"), n=swr.size(1000000)):
        """The mean of each element and its neighbours."""
    return blur


class Tensor:
    """What a CUDA array looks like to others."""

    def __init__(self, dtype="<f4", address=4096, strides=None):
        self.__cuda_array_interface__ = {"data": (address, False), "typestr": dtype, "shape": (4,),
                                         "strides": strides, "version": 3}
        self.device = types.SimpleNamespace(id=0)


class OwnKernel(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        cache = mock.patch.dict("os.environ", {"XDG_CACHE_HOME": str(self.folder / "cache")})
        cache.start()
        self.addCleanup(cache.stop)

    def test_messages_are_read_in_every_locale(self):
        script = ("import os, swr\ntry:\n    swr.tune(64, gpu=os.fsdecode(b'\\xc3\\xbc'))\n"
                  "except swr.Error as error:\n    print(ascii(str(error)))")
        environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0",
                       "PYTHONPATH": os.pathsep.join(sys.path)}
        found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True,
                               check=False)
        self.assertIn("unknown GPU '\\xfc'", found.stdout, found.stderr)

    def test_the_signature_makes_the_spec(self):
        blur = blur_of(bytes="8 * n")
        self.assertEqual(blur.name, "blur")
        self.assertEqual(blur.sizes, ["n"])
        self.assertEqual(blur.spec["summary"], "The mean of each element and its neighbours.")
        self.assertEqual(blur.spec["arguments"], [
            {"name": "out", "type": "float*", "size": "n", "output": True, "fill": "zeros"},
            {"name": "source", "type": "const float*", "size": "n", "fill": "random"},
            {"name": "n", "type": "int", "value": "n"}])
        written = blur.write(self.folder / "specs")
        self.assertEqual(json.loads(written.read_text()), blur.spec)
        self.assertEqual((self.folder / "specs" / "blur.cu").read_text(), SOURCE)

    def test_types_and_shapes_are_those_of_arrays(self):
        self.assertEqual(swr.array("float16x", 4).type, "const float16x*")
        self.assertEqual(swr.array(types.SimpleNamespace(name="uint8"), (4, "n + 1")).size, "4 * (n + 1)")
        self.assertEqual(swr.array("float64", 1, constant=True).type, "double")
        self.assertEqual(swr.scalar("int64", "n - 1").type, "long long")

    def test_the_space_is_counted_without_a_gpu(self):
        space = blur_of().space(gpu="h200", n=[100, 5000])["spaces"]
        self.assertEqual([one["legal"] for one in space], [1, 3])
        with self.assertRaises(swr.Error) as caught:
            blur_of().space(gpu="h200", m=4)
        self.assertIn("the kernel has no size 'm'", str(caught.exception))

    def test_what_a_spec_cannot_hold_is_named(self):
        def refused(**more):
            with self.assertRaises(swr.Error) as caught:
                described(**more)
            return str(caught.exception)

        def described(**more):
            given = {"parameters": {"block_size_x": [64, 128]}, "constraints": ["block_size_x <= n"], **more}

            @swr.kernel(SOURCE, block="block_size_x", grid="div_ceil(n, block_size_x)", **given)
            def blur(out=swr.array("float32", "n", output=True), source=swr.array("float32", "n"), n=swr.size(1000)):
                pass
            return blur.spec

        self.assertEqual(described(constraints="block_size_x > 64")["constraints"], ["block_size_x > 64"])
        self.assertEqual(described(parameters={"a": range(2), "b": (1, 2.5)})["parameters"], {"a": [0, 1], "b": [1, 2.5]})
        array = types.SimpleNamespace(tolist=lambda: [64, 128])  # As NumPy's.
        self.assertEqual(described(parameters={"a": array})["parameters"], {"a": [64, 128]})
        self.assertIn("reference must be a dict", refused(reference="naive.cu"))
        self.assertIn("problem must be a dict", refused(problem=["n"]))
        self.assertIn("constraints[0]: functions cannot be in a spec", refused(constraints=[lambda p: True]))
        self.assertIn("constraints: functions cannot be in a spec", refused(constraints=lambda p: True))
        self.assertIn("parameters['a']: sets have no order", refused(parameters={"a": {1, 2}}))
        self.assertIn("parameters['a']: it must be text", refused(parameters={"a": (i for i in range(2))}))
        self.assertIn("parameters['a'][1] is inf", refused(parameters={"a": [1.0, float("inf")]}))
        self.assertIn("tolerance['absolute'] is nan", refused(tolerance={"absolute": float("nan")}))

    def test_small_types_are_cudas(self):
        self.assertEqual(swr.array("float16", 1).type, "const half*")
        self.assertEqual(swr.array("torch.bfloat16", 1).type, "const __nv_bfloat16*")
        self.assertEqual(swr.array("complex64", 1, output=True).type, "complex64*")
        self.assertEqual(swr.scalar("float16", 0.5).type, "half")

    def test_an_objective_is_that_of_spec_files(self):
        self.assertNotIn("objective", blur_of().spec)
        self.assertEqual(blur_of(objective="edp").spec["objective"], "edp")
        large = blur_of(objective="occupancy", objective_higher_is_better=True)
        self.assertTrue(large.spec["objective_higher_is_better"])
        self.assertEqual(large.space(gpu="h200", n=5000)["spaces"][0]["legal"], 3)
        words = "objective 'enrgy': it is no objective and no metric; did you mean 'energy'?"
        for refused in (lambda blur: blur.space(gpu="h200"), lambda blur: blur.tune(),
                        lambda blur: blur.best(swr.profiled_device("h200"), n=5000)):
            with self.assertRaises(swr.Error) as caught:
                refused(blur_of(objective="enrgy"))
            self.assertIn(words, str(caught.exception))

    def test_tuning_may_look_for_something_else(self):
        with mock.patch.object(swr.Kernel, "run", return_value={}) as run:
            blur_of(objective="edp").tune(n=64, objective="energy")
        self.assertEqual(run.call_args.args[-2:], ("--objective", "energy"))

    def test_swr_tune_compiles_what_was_written(self):
        done = subprocess.run([_program.program(), "kernel", str(blur_of().path), "--compile-only", "--quiet",
                               "--gpu", "h200", "--cache-dir", str(self.folder / "cubins")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("registers", done.stdout)

    def test_the_cache_is_not_open_to_the_group(self):
        self.addCleanup(os.umask, os.umask(0o002))
        self.assertTrue(blur_of().path.is_file())
        self.assertEqual((self.folder / "cache" / "swr").stat().st_mode & 0o777, 0o755)

    def test_who_has_tuned_nothing_gets_the_default_variant(self):
        answer = blur_of().best(swr.profiled_device("h200"), n=5000)
        self.assertEqual(answer.match, "default_only")
        self.assertIn("block_size_x=64", answer.variant)
        self.assertIsNone(answer.time_us)

    def test_arguments_are_packed_by_the_spec(self):
        packed, memory, index = blur_of().packed((Tensor(address=64), Tensor(address=128), 5))
        self.assertEqual((memory, index), (64, 0))
        self.assertEqual([ctypes.string_at(one.bytes, one.size) for one in packed],
                         [struct.pack("P", 64), struct.pack("P", 128), struct.pack("i", 5)])

    def test_a_texture_is_an_object_of_the_callers(self):
        @swr.kernel(SOURCE, parameters={"block_size_x": [64]}, block="block_size_x", grid=1)
        def blur(out=swr.array("float32", 64, output=True),
                 image=swr.texture("float32", ("n", 4), address="border", filter="linear"), n=swr.size(16)):
            pass
        self.assertEqual(blur.spec["arguments"][1], {
            "name": "image", "type": "float", "fill": "random", "texture": {
                "extent": ["n", 4], "address": "border", "filter": "linear", "coordinates": "elements",
                "read": "elements"}})
        self.assertEqual(blur.space(gpu="h200")["spaces"][0]["legal"], 1)
        packed, _, _ = blur.packed((Tensor(), 7, 16))
        self.assertEqual(ctypes.string_at(packed[1].bytes, packed[1].size), struct.pack("Q", 7))
        with self.assertRaisesRegex(swr.Error, "image must be a number"):
            blur.packed((Tensor(), "image", 16))

    def test_arguments_that_do_not_fit_are_named(self):
        good = (Tensor(), Tensor(), 5)
        for arguments, words in [
                (good[:2], "takes 3 arguments (out, source, n), and 2 are given"),
                ((1.5, *good[1:]), "out must be an array on the GPU, not float"),
                ((good[0], Tensor("<f8"), 5), "source must have elements of float32, not float64"),
                ((good[0], Tensor(strides=(8,)), 5), "source must be contiguous"),
                ((*good[:2], 2**31), "n must be a number that int holds"),
                ((*good[:2], "many"), "n must be a number that int holds")]:
            with self.assertRaises(swr.Error) as caught:
                blur_of().packed(arguments)
            self.assertIn(words, str(caught.exception))

    def test_a_source_may_be_of_another_encoding(self):
        (self.folder / "latin.cu").write_bytes(b"// \xf6\n" + SOURCE.encode())

        @swr.kernel(self.folder / "latin.cu", parameters={"block_size_x": [64]}, block="block_size_x", grid=1)
        def blur(out=swr.array("float32", "n", output=True), source=swr.array("float32", "n"), n=swr.size(9)):
            pass
        self.assertEqual(blur.write(self.folder / "out").with_name("latin.cu").read_bytes(),
                         (self.folder / "latin.cu").read_bytes())

    def test_what_no_kernel_can_be_is_refused(self):
        with self.assertRaises(swr.Error) as caught:
            @swr.kernel(SOURCE, parameters={}, block=1, grid=1)
            def blur(out=4):
                pass
        self.assertIn("the default of out must be swr.array()", str(caught.exception))
        with self.assertRaises(swr.Error) as caught:
            swr.kernel("absent.cu", parameters={}, block=1, grid=1)(lambda: None)
        self.assertEqual(caught.exception.code, "not_found")
        with self.assertRaisesRegex(swr.Error, "source must be a path or a text, not bytes"):
            swr.kernel(b"absent.cu", parameters={}, block=1, grid=1)(lambda: None)
        with self.assertRaisesRegex(swr.Error, "n: it must be text"):
            blur_of().space(gpu="h200", n=object())
        with self.assertRaises(swr.Error) as caught:
            blur_of(options=["--pre-include=x"]).best(swr.profiled_device("h200"))
        self.assertIn("is not allowed in a spec", str(caught.exception))
        with self.assertRaises(swr.Error) as caught:
            blur_of().best(swr.profiled_device("h200"), n=0)
        self.assertIn("n must be 1 to 2147483647, not 0", str(caught.exception))

    def test_a_size_beyond_31_bits_is_fixed(self):
        blur = blur_of(problem={"rows": 2**32})
        self.assertEqual(blur.sizes, ["n"])
        with self.assertRaises(swr.Error) as caught:
            blur.best(swr.profiled_device("h200"), rows=5)
        self.assertIn("rows is 4294967296 for all problems, not 5", str(caught.exception))

    def test_a_launch_without_a_driver_says_so(self):
        blur, runtime = blur_of(), ctypes.c_void_p()
        library.swr_runtime_create(RuntimeOptions(None, None, None, None, 1, b"warm"), runtime)
        packed, memory, _ = blur.packed((Tensor(), Tensor(), 5))
        values, count = blur._sizes({"n": 5})
        status = library.swr_runtime_launch_kernel(
            runtime, blur._known(), values, count, ctypes.cast(packed, ctypes.c_void_p), 3, memory, None)
        library.swr_runtime_destroy(runtime)
        self.assertNotEqual(status, 0)
        self.assertIn(library.error(status).code, ("no_driver", "driver_failed"))


if __name__ == "__main__":
    unittest.main()
