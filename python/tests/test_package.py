# SPDX-License-Identifier: MIT
"""The package without PyTorch and without a GPU: tuning by prediction, asking, errors."""

import ctypes
import importlib.util
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import swr
from swr import _background, _library, _program
from swr._declarations import declared
from swr._library import library


class Package(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.database = pathlib.Path(directory.name) / "tuned.db"
        self.cache = pathlib.Path(directory.name) / "cache"

    def tune(self, **more):
        return swr.tune(256, head_dim=64, gpu="rtx5090", database=self.database,
                        arguments=("--tile", "32x32", "--stages", "1", "--persistence", "persistent", "--cache-dir",
                                   str(self.cache)), **more)

    def test_what_was_tuned_is_found(self):
        self.assertIn("results", str(self.tune()))
        lookup = swr.Lookup(self.database)
        device = swr.profiled_device("rtx5090")
        answer = lookup.best(swr.Problem(256), device)
        self.assertEqual(answer.match, "predicted")
        self.assertEqual(answer.distance, 0)
        self.assertGreater(answer.time_us, 0)
        self.assertIn("tile_m=32", answer.variant)
        # A narrow tile that nothing but the search was restricted to loses to the closed form.
        self.assertEqual(lookup.best(swr.Problem(512), device).match, "modelled")
        self.assertEqual(lookup.best(swr.Problem(256, causal=True), device).match, "modelled")

    def test_who_has_tuned_nothing_is_answered_by_what_comes_with_swr(self):
        lookup = swr.Lookup()
        decode = swr.Problem(1, 8192, batch=8, heads=32, kv_heads=8, head_dim=128, dtype="bf16", causal=True)
        answer = lookup.best(decode, swr.profiled_device("h200"))
        self.assertEqual(answer.match, "exact")
        self.assertTrue(answer.shipped)
        modelled = lookup.best(decode, swr.profiled_device("gb10"))
        self.assertEqual(modelled.match, "modelled")
        self.assertFalse(modelled.shipped)
        self.assertFalse(lookup.refresh())

    def test_without_pytorch_its_functions_say_what_is_missing(self):
        with mock.patch.dict(sys.modules, {"torch": None}):
            for name in ("swr._matmul", "swr._torch"):
                sys.modules.pop(name, None)
            with self.assertRaisesRegex(ImportError, "swr.matmul works on PyTorch's tensors"):
                swr.__getattr__("matmul")

    def test_an_incomplete_device_is_refused(self):
        device = swr.profiled_device("h200")
        device.registers_per_sm = 0
        with self.assertRaises(swr.Error) as caught:
            swr.Lookup().best(swr.Problem(4096), device)
        self.assertIn("registers_per_sm", str(caught.exception))

    def test_gemm_is_asked_for_by_its_own_problem(self):
        self.tune()
        lookup = swr.Lookup(self.database)
        problem = swr.GemmProblem(64, 4096, 4096, layout="tn", output="fp32")
        self.assertIn("output=2, layout=2", repr(problem))
        answer = lookup.best(problem, swr.profiled_device("h200"))
        self.assertEqual(answer.match, "modelled")
        self.assertIn("swizzle_stride=", answer.variant)
        with self.assertRaises(swr.Error) as caught:
            lookup.best(swr.GemmProblem(0, 1, 1), swr.profiled_device("h200"))
        self.assertEqual(caught.exception.code, "invalid_argument")

    def program_that_tells(self):
        """One that prints its arguments as JSON in place of tuning, and something as progress."""
        path = self.database.parent / "swr-tune-that-tells"
        path.write_text(f"#!{sys.executable}\nimport json, sys\nprint('works', file=sys.stderr)\n"
                        "print(json.dumps(sys.argv[1:]))\nsys.exit(3 if '--fail' in sys.argv else 0)\n",
                        encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def test_names_and_defaults_are_the_command_lines(self):
        program = self.program_that_tells()
        gemm = swr.tune_gemm(64, 128, 256, layout="tn", program=program, gpu="gb10")
        self.assertEqual(gemm, ["--gpu", "gb10", "--json", "--quiet", "--op", "gemm", "--m", "64", "--n", "128", "--k",
                                "256", "--batch", "1", "--dtype", "fp16", "--layout", "tn"])
        attention = swr.tune(64, kv_heads=2, heads=4, causal=True, program=program)
        self.assertEqual(attention[4:], ["--seq", "64", "--heads", "4", "--kv-heads", "2", "--batch", "1",
                                         "--head-dim", "64", "--dtype", "fp16", "--causal"])
        self.assertEqual(swr.Problem(64, heads=4, kv_heads=2).heads_kv, 2)
        self.assertEqual(swr.GemmProblem(1, 1, 1).dtype, 0, "fp16, as swr-tune --op gemm")

    def test_progress_is_shown_where_it_is_asked_for(self):
        program = self.program_that_tells()
        self.assertNotIn("--quiet", swr.tune(64, program=program, progress=True))
        self.assertIn("--quiet", swr.tune(64, program=program, progress=False))
        with self.assertRaises(swr.Error) as caught:
            swr.tune(64, program=program, arguments=("--fail",))
        self.assertEqual(str(caught.exception), "works")

    def test_what_a_block_missed_is_tuned_behind_it(self):
        with mock.patch.dict(sys.modules, {"torch": mock.MagicMock()}):
            from swr import _torch
            self.addCleanup(vars(swr).pop, "_torch")
            _torch.configure()
            with mock.patch.object(_torch, "_default_database", return_value=self.database), \
                    mock.patch.object(_torch, "tune_missed") as tuned:
                with _torch.autotune(5):
                    self.assertEqual(_torch._settings["tune"], "note")
                    self.assertFalse(tuned.called)
                self.assertEqual(tuned.call_args.args[0], self.database)
                self.assertEqual(tuned.call_args.args[1][:2], ["--within", "5"])
                self.assertIsNone(_torch._settings["tune"])
                with self.assertRaises(ZeroDivisionError), _torch.autotune():
                    raise ZeroDivisionError
                self.assertEqual(tuned.call_count, 1, "a block that fails tunes nothing")

    def assert_one_answer(self):
        """Of the program and of Python, for what is tuned here, near and far of it."""
        for size in (256, 300, 4096):
            for problem, words in ((swr.Problem(size), ["--seq", str(size)]),
                                   (swr.GemmProblem(size, 512, 512),
                                    ["--op", "gemm", "--m", str(size), "--n", "512", "--k", "512"])):
                for gpu in ("rtx5090", "h200", "gb10"):
                    asked = subprocess.run([_program.program(), "query", *words, "--gpu", gpu, "--json", "--db",
                                            str(self.database)], capture_output=True, check=True, text=True)
                    told = json.loads(asked.stdout)["answers"][0]
                    answer = swr.Lookup(self.database).best(problem, swr.profiled_device(gpu))
                    self.assertEqual((told["key"], told["match"]), (answer.variant, answer.match), (words, gpu))

    def test_python_and_the_program_give_one_answer(self):
        self.tune()
        self.assert_one_answer()
        swr.tune_gemm(256, 512, 512, gpu="rtx5090", database=self.database, arguments=(
            "--tile", "64x64", "--tile-k", "32", "--stages", "3", "--persistence", "grid"))
        self.assert_one_answer()

    def test_a_refresh_sees_what_was_tuned_since(self):
        self.tune()
        lookup = swr.Lookup(self.database)
        self.assertFalse(lookup.refresh())
        self.tune(causal=True)
        self.assertTrue(lookup.refresh())

    def test_what_was_missed_is_tuned_in_the_background(self):
        question = ('{"op":"attention","batch":1,"heads_q":1,"heads_kv":1,"seq_q":256,"seq_kv":256,'
                    '"head_dim":64,"dtype":"fp16","causal":false,"alignment_bytes":16}\n')
        missed, swapped = _background.missed_file(self.database), threading.Event()
        arguments = ("--gpu", "rtx5090", "--tile", "32x32", "--stages", "1", "--persistence", "persistent",
                     "--cache-dir", str(self.cache))
        # On a busy machine a child of low priority may wait for minutes.
        tuning = _background.BackgroundTuning(self.database, swapped.set, pause_s=0.05, niceness=0,
                                              arguments=arguments)
        try:
            self.assertFalse(swapped.wait(0.3), "nothing was missed")
            missed.write_text(question, encoding="utf-8")
            self.assertTrue(swapped.wait(120))
        finally:
            tuning.stop()
        answer = swr.Lookup(self.database).best(swr.Problem(256), swr.profiled_device("rtx5090"))
        self.assertEqual(answer.match, "predicted")
        self.assertEqual(answer.distance, 0)
        self.assertFalse(missed.exists())

    def test_a_database_that_the_background_made_is_served(self):
        database = self.database.parent / "new" / "tuned.db"
        with mock.patch.dict(sys.modules, {"torch": mock.MagicMock()}):
            from swr import _torch
            self.addCleanup(vars(swr).pop, "_torch")
            with mock.patch.object(_torch, "BackgroundTuning") as background:
                _torch.configure(database=database, tune="background")
                first, (beside, swap) = _torch._runtime, background.call_args.args
                self.assertEqual(beside, database)
                self.assertTrue(database.parent.is_dir(), "questions can be noted")
                self.database = database
                self.tune()
                swap()
                self.assertIsNot(_torch._runtime, first, "one that reads the new file")
                background.return_value.stop.assert_called_once()
                second, swap = _torch._runtime, background.call_args.args[1]
                self.tune(causal=True)
                swap()
                self.assertIs(_torch._runtime, second, "which then is read again")
            with self.assertRaises(swr.Error):
                _torch.configure(tune="always")

    def test_a_failure_in_the_background_is_logged_and_serving_goes_on(self):
        missed, swapped = _background.missed_file(self.database), threading.Event()
        missed.write_text("seq=4096\n", encoding="utf-8")
        with self.assertLogs("swr", "WARNING") as logged:
            tuning = _background.BackgroundTuning(self.database, swapped.set, pause_s=0.05, niceness=0)
            while not logged.output:
                swapped.wait(0.05)
            tuning.stop()
        self.assertIn("is no question that swr noted", logged.output[0])
        self.assertFalse(swapped.is_set())

    def test_a_child_that_is_at_work_is_ended(self):
        waits = pathlib.Path(self.database).parent / "waits"
        waits.write_text("#!/bin/sh\ntouch '" + str(waits) + ".began'\nexec sleep 600\n", encoding="utf-8")
        waits.chmod(0o755)
        _background.missed_file(self.database).write_text("{}\n", encoding="utf-8")
        tuning = _background.BackgroundTuning(self.database, lambda: None, pause_s=0.01, niceness=0,
                                              program=str(waits))
        while not pathlib.Path(str(waits) + ".began").exists():
            time.sleep(0.01)
        tuning.stop()

    def test_a_size_that_32_bits_do_not_hold_is_refused(self):
        for problem in (lambda: swr.Problem(2**32 + 1000), lambda: swr.GemmProblem(1, 2**31, 1)):
            with self.assertRaises(swr.Error) as caught:
                problem()
            self.assertEqual(caught.exception.code, "invalid_argument")

    def test_a_lookup_is_closed_once(self):
        self.tune()
        lookup = swr.Lookup(self.database)
        lookup.__del__()
        lookup.__del__()
        with self.assertRaises(swr.Error) as caught:
            lookup.refresh()
        self.assertEqual(caught.exception.code, "invalid_argument")
    def test_wrong_names_are_refused_with_those_there_are(self):
        for make in (lambda: swr.Problem(4096, dtype="fp8"),
                     lambda: swr.GemmProblem(1, 1, 1, dtype="fp32"),
                     lambda: swr.GemmProblem(1, 1, 1, layout="tt")):
            with self.assertRaises(swr.Error) as caught:
                make()
            self.assertEqual(caught.exception.code, "invalid_argument")
            self.assertIn("must be one of", str(caught.exception))

    def test_structures_print_their_fields(self):
        self.assertIn("Device(name='NVIDIA", repr(swr.profiled_device("h200")))
        self.assertIn("sm_arch=90", repr(swr.profiled_device("h200")))
        self.assertIn("seq_q=4096", repr(swr.Problem(4096)))

    def test_the_version_is_the_projects(self):
        said = subprocess.run([_program.program(), "--version"], capture_output=True, text=True,
                              check=True).stdout
        self.assertEqual(said, f"swr-tune {swr.__version__}\n")

    def test_a_copied_folder_has_a_version_too(self):
        folder = self.database.parent / "swr"
        folder.mkdir()
        shutil.copy(pathlib.Path(swr.__file__).parent / "_version.py", folder)
        script = "import runpy; print(runpy.run_path('swr/_version.py')['__version__'])"
        said = subprocess.run([sys.executable, "-S", "-c", script], cwd=folder.parent, capture_output=True, text=True,
                              check=False)
        self.assertEqual((said.stdout, said.returncode), ("0+unknown\n", 0), said.stderr)

    def test_nvrtc_is_the_one_that_is_named(self):
        with mock.patch.dict(os.environ, {"SWR_NVRTC": "/some/libnvrtc.so"}):
            self.assertEqual(_program.nvrtc(), "/some/libnvrtc.so")
            self.assertEqual(_program.environment()["SWR_NVRTC"], "/some/libnvrtc.so")

    def test_nvrtc_of_nvidias_package_is_found(self):
        root = pathlib.Path(self.database).parent
        library = root / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
        library.parent.mkdir(parents=True)
        library.touch()
        spec = types.SimpleNamespace(submodule_search_locations=[str(root / "nvidia")])
        with mock.patch.object(importlib.util, "find_spec", return_value=spec), \
                mock.patch.dict(os.environ):
            os.environ.pop("SWR_NVRTC", None)
            self.assertEqual(_program.nvrtc(), str(library))
            self.assertIn(str(library.parent), _program.environment()["LD_LIBRARY_PATH"])

    def test_kernels_of_the_data_package_are_found(self):
        root = pathlib.Path(self.database).parent / "swr_kernels"
        root.mkdir()
        spec = types.SimpleNamespace(submodule_search_locations=[str(root)])
        with mock.patch.object(importlib.util, "find_spec", return_value=spec), \
                mock.patch.dict(os.environ):
            os.environ.pop("SWR_KERNELS", None)
            self.assertIsNone(_program.kernels())
            archive = root / "swr-kernels.bin"
            archive.write_bytes(b"something else")
            self.assertEqual(_program.kernels(), str(archive))
            self.assertEqual(_program.environment()["SWR_KERNELS"], str(archive))
            os.environ["SWR_KERNELS"] = "/another"
            self.assertIsNone(_program.kernels())

    def test_the_library_has_every_function_that_headers_declare(self):
        self.assertGreater(len(declared.functions), 30)
        for name in declared.functions:
            self.assertTrue(callable(getattr(library, name)), name)

    def test_kernels_that_are_damaged_are_refused(self):
        archive = pathlib.Path(self.database).parent / "swr-kernels.bin"
        archive.write_bytes(b"something else")
        runtime = ctypes.c_void_p()
        library.swr_runtime_create(_library.RuntimeOptions(
            None, None, str(self.cache).encode(), None, 1, None), runtime)
        with self.assertRaises(swr.Error) as refused:
            library.swr_runtime_use_kernels(runtime, str(archive).encode())
        self.assertEqual(refused.exception.code, "unreadable")
        self.assertIn("no archive of kernels", str(refused.exception))
        library.swr_runtime_destroy(runtime)

    def test_structures_of_serving_are_those_of_the_library(self):
        """What is wrong with a field is said of that field, wherever it lies."""
        runtime = ctypes.c_void_p()
        library.swr_runtime_create(_library.RuntimeOptions(
            None, None, str(self.cache).encode(), None, 1, None), runtime)
        memory = 1 << 20

        def said(text, append=None, **fields):
            call = _library.ServingAttention(
                size=ctypes.sizeof(_library.ServingAttention), q=memory, k=memory, v=memory, o=memory,
                batch=2, heads_q=4, heads_kv=2, head_dim=64, dtype=1, max_seq_q=1, max_seq_kv=64,
                total_q=2, cu_seqlens_q=memory, seqused_k=memory, page_table=memory,
                page_table_stride=4, pages_per_sequence=4, page_size=16, mask=1)
            for name, value in fields.items():
                setattr(call, name, value)
            if append is not None:
                call.append = ctypes.addressof(append)
            status = library.swr_runtime_serving_attention(runtime, ctypes.addressof(call), None)
            self.assertEqual(status, 1, text)
            self.assertIn(text, str(library.error(status)))
        said("sizeof", size=8)
        said("not 72", head_dim=72)
        said("page_size must be", page_size=2000)
        said("lengths must be 0 to 6, not 9", lengths=9)
        said("sink_dtype", sinks=memory, sink_dtype=7)
        said("softcap must be", softcap=-2.0)
        said("the chunk must be", mask=2, chunk=-1)
        append = _library.KvAppend(size=ctypes.sizeof(_library.KvAppend), k_new=memory, v_new=memory,
                                   seq_k_new=1, rotary_cos=memory, rotary_sin=memory, rotary_dim=24)
        said("rotary dimension must be a multiple of 16", append)
        append.rotary_dim, append.rotary_positions = 32, memory + 2
        said("rotary positions must be a multiple of 4", append)
        states = _library.States(size=ctypes.sizeof(_library.States), parts=memory, part_lse=memory,
                                 o=memory, part_count=2, heads=1, rows=1, head_dim=8, part_dtype=2,
                                 output_dtype=9)
        status = library.swr_merge_states(runtime, ctypes.addressof(states), None)
        self.assertIn("output must be", str(library.error(status)))
        library.swr_runtime_destroy(runtime)

    def test_errors_carry_a_code_and_advice(self):
        with self.assertRaises(swr.Error) as caught:
            swr.Lookup(self.database, l2="tepid")
        self.assertEqual(caught.exception.code, "invalid_argument")
        with self.assertRaises(swr.Error) as caught:
            swr.Lookup(self.database)
        self.assertEqual(caught.exception.code, "not_found")
        self.assertIn("tuned.db", str(caught.exception))
        with self.assertRaises(swr.Error) as caught:
            swr.profiled_device("no such gpu")
        self.assertEqual(caught.exception.code, "not_found")
        with self.assertRaises(swr.Error) as caught:
            swr.tune(0, gpu="rtx5090", database=self.database)
        self.assertEqual(caught.exception.code, "tune_failed")
        sent = pickle.loads(pickle.dumps(caught.exception))  # As from a worker of a pool.
        self.assertEqual((sent.code, str(sent)), (caught.exception.code, str(caught.exception)))


if __name__ == "__main__":
    unittest.main()
