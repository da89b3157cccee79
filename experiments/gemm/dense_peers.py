#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swr's dense GEMM on the GPU present, beside torch.matmul and cuBLASLt: sizes nobody tuned for.

    dense_peers.py times SWR_TUNE CSV SECONDS [COUNT SEED [copied]]   the list of issue 21, then drawn sizes,
                                                  with `copied` only those whose rows are whole 16 bytes
    dense_peers.py padded SWR_TUNE COUNT          drawn sizes of other rows: copied to padded ones and back
    dense_peers.py random COUNT                   the new tiles against fp64

Each size is tuned on the spot (model, 48 variants). CUDA graphs in turns; A and B are copies that launches
take in turn, more than L2 holds."""

import ctypes
import math
import pathlib
import random
import statistics
import subprocess
import sys
import time

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import gpu_timing  # noqa: E402

LISTED = [(5000, 5000, 5000), (4992, 4992, 5000), (4992, 4992, 4992), (3000, 1000, 7000), (1024, 2112, 7168),
          (64, 2112, 7168), (4096, 4096, 4096), (8192, 2112, 7168), (512, 4864, 896), (1000, 1000, 8192)]
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def drawn(count, seed):
    """(m, n, k, layout, type): log-uniform sizes, two thirds of them multiples of 8, 1e9 to 4e12 operations."""
    draw = random.Random(seed)
    while count > 0:
        size = [round(math.exp(draw.uniform(math.log(16), math.log(16384)))) for _ in range(3)]
        if draw.random() < 2 / 3:
            size = [max(16, value // 8 * 8) for value in size]
        more = draw.choice(("nt", "nn", "tn")), draw.choice(tuple(TYPES))
        if 1e9 <= 2 * math.prod(size) <= 4e12:
            count -= 1
            yield (*size, *more)


def is_copied(size):
    """Whether the copy engine takes all three matrices."""
    m, n, k, layout, _ = size
    return n % 8 == 0 and (m if layout == "tn" else k) % 8 == 0 and (k if layout == "nt" else n) % 8 == 0


class CublasLt:
    """cuBLASLt's products of one kind by the algorithms of its heuristic, in its order."""

    WORKSPACE = 64 << 20

    def __init__(self, m, n, k, layout, dtype):
        self.lt = ctypes.CDLL("libcublasLt.so.13")
        self.handle, self.op, preference = (ctypes.c_void_p() for _ in range(3))
        self._do("cublasLtCreate", ctypes.byref(self.handle))
        self._do("cublasLtMatmulDescCreate", ctypes.byref(self.op), 68, 0)  # fp32 sums and scales.
        transposed = (layout == "nt", layout == "tn")
        for attribute, value in zip((3, 4), transposed):
            self._set("cublasLtMatmulDescSetAttribute", self.op, attribute, ctypes.c_int(value))
        kind = 14 if dtype is torch.bfloat16 else 2
        self.layouts = []  # Of B, A and C, which columns first are B^T, A^T and C^T.
        for rows, columns in ((k, n) if transposed[0] else (n, k), (m, k) if transposed[1] else (k, m), (n, m)):
            self.layouts.append(ctypes.c_void_p())
            self._do("cublasLtMatrixLayoutCreate", ctypes.byref(self.layouts[-1]), kind, ctypes.c_uint64(rows),
                     ctypes.c_uint64(columns), ctypes.c_int64(rows))
        self._do("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        self._set("cublasLtMatmulPreferenceSetAttribute", preference, 1, ctypes.c_uint64(self.WORKSPACE))
        self.found, count = ctypes.create_string_buffer(8 * 96), ctypes.c_int()
        b, a, c = self.layouts
        self._do("cublasLtMatmulAlgoGetHeuristic", self.handle, self.op, b, a, c, c, preference, 8, self.found,
                 ctypes.byref(count))
        self.count = count.value
        self.workspace = torch.empty(self.WORKSPACE, dtype=torch.uint8, device="cuda")

    def _do(self, name, *arguments):
        status = getattr(self.lt, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: status {status}")

    def _set(self, name, of, attribute, value):
        self._do(name, of, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def run(self, algorithm, a, b, c):
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        of_b, of_a, of_c = self.layouts
        self._do("cublasLtMatmul", self.handle, self.op, ctypes.byref(one), pointer(b), of_b, pointer(a), of_a,
                 ctypes.byref(zero), pointer(c), of_c, pointer(c), of_c, ctypes.byref(self.found, 96 * algorithm),
                 pointer(self.workspace), ctypes.c_size_t(self.WORKSPACE),
                 ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))


def tune(program, database, size, limit):
    m, n, k, layout, dtype = size
    done = subprocess.run(
        [program, "--op", "gemm", "--m", str(m), "--n", str(n), "--k", str(k), "--dtype", dtype, "--layout", layout,
         "--strategy", "model", "--budget", "48", "--no-counters", "--quiet", "--db", database],
        capture_output=True, text=True, timeout=limit)
    best = [line for line in done.stdout.splitlines() if line.startswith("best: ")]
    return best[0][6:].split(":")[0].replace(",", "") if best else "failed " + (done.stderr.strip() or done.stdout)[-200:]


class Rotated:
    """Copies of A and B that calls take in turn; all calls write the same C."""

    def __init__(self, size):
        m, n, k, layout, dtype = size
        bytes_of_all = 2 * (m * k + n * k + m * n)
        self.copies = max(1, min(16, (160 << 20) // bytes_of_all + 1))
        new = lambda rows, columns: torch.randn(rows, columns, device="cuda", dtype=TYPES[dtype])
        self.a = [new(k, m) if layout == "tn" else new(m, k) for _ in range(self.copies)]
        self.b = [new(n, k) if layout == "nt" else new(k, n) for _ in range(self.copies)]
        self.views = [(a.t() if layout == "tn" else a, b.t() if layout == "nt" else b)
                      for a, b in zip(self.a, self.b)]
        self.c = torch.empty(m, n, device="cuda", dtype=TYPES[dtype])
        self.next = 0

    def turn(self):
        self.next = (self.next + 1) % self.copies
        return self.next


def contestants(size, inputs, swr, database):
    """Graphs by name. What swr chose is kept in the graph that captured it."""
    m, n, k, layout, dtype = size
    graph = lambda call: gpu_timing.graph_of(call, 400.0, 32, inputs.copies)
    expected = inputs.views[0][0].double() @ inputs.views[0][1].double()
    graphs, wrong = {}, []
    for name, of in (("untuned", None), ("tuned", database)):
        swr.configure(database=of)
        error = (swr.matmul(*inputs.views[0]).double() - expected).norm() / expected.norm()
        if not error < 4e-3:
            wrong.append(f"{name} {error:.1e}")
        graphs[name] = graph(lambda: swr.matmul(*inputs.views[inputs.turn()]))
    graphs["torch"] = graph(lambda: torch.matmul(*inputs.views[inputs.turn()]))
    lt = CublasLt(m, n, k, layout, TYPES[dtype])

    def with_algorithm(index):
        turn = inputs.turn()
        lt.run(index, inputs.a[turn], inputs.b[turn], inputs.c)
    all_of_lt = {index: graph(lambda: with_algorithm(index)) for index in range(lt.count)}
    screened = gpu_timing.sample_in_turns(all_of_lt, 3, 1)
    best = min(screened, key=lambda index: statistics.median(screened[index]))
    graphs["lt"], graphs["lt_best"] = all_of_lt[0], all_of_lt[best]
    return graphs, wrong, lt


def times(program, csv, seconds, count, seed, copied):
    import swr
    end, database = time.monotonic() + seconds, "dense.db"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    columns = ["untuned", "tuned", "torch", "lt", "lt_best"]
    rows = []
    with open(csv, "w", encoding="ascii") as out:
        out.write("m,n,k,layout,type," + ",".join(f"{name}_us" for name in columns) + ",variant\n")
        listed = [(*size, "nt", "bf16") for size in LISTED]
        for number, size in enumerate(listed + list(drawn(count, seed))):
            if time.monotonic() > end:
                break
            if copied and not is_copied(size):
                continue
            try:
                variant = tune(program, database, size, 25)
                inputs = Rotated(size)
                graphs, wrong, _lt = contestants(size, inputs, swr, database)
                samples = gpu_timing.sample_in_turns(graphs, 7, number)
                us = [statistics.median(samples[name]) for name in columns]
            except (RuntimeError, subprocess.TimeoutExpired, swr.Error) as error:
                print("failed", size, str(error)[:300], flush=True)
                continue
            rows.append((number < len(listed), us))
            line = ",".join(map(str, size)) + "," + ",".join(f"{one:.2f}" for one in us)
            out.write(f"{line},{variant}\n")
            out.flush()
            print(f"{'x'.join(map(str, size[:3]))} {size[3]} {size[4]}: untuned {us[0]:.1f} tuned {us[1]:.1f} "
                  f"torch {us[2]:.1f} lt {us[3]:.1f} best {us[4]:.1f} us, {us[3] / us[1]:.3f} {variant} "
                  f"{'WRONG ' + ', '.join(wrong) if wrong else ''}", flush=True)
            del graphs, inputs
    mean = lambda ratios: math.exp(statistics.fmean(map(math.log, ratios)))
    for name, is_listed in (("listed", True), ("drawn", False)):
        of = [us for listed_one, us in rows if listed_one == is_listed]
        for against, what in ((3, "cuBLASLt's first choice"), (4, "its best of eight"), (2, "torch.matmul")):
            ratios = [us[against] / us[1] for us in of] or [1.0]
            print(f"{name}, {len(of)} sizes, {what}: geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}")
        ratios = [us[1] / us[0] for us in of] or [1.0]
        print(f"{name}, untuned of tuned: geometric mean {mean(ratios):.3f}, least {min(ratios):.3f}", flush=True)


def padded(program, count):
    """What copies of A and B to rows of whole 128 bytes, and of C back, would bring: by torch, all timed."""
    import swr
    database = "padded.db"
    new = lambda rows, columns, dtype: torch.empty(rows, math.ceil(columns / 64) * 64, device="cuda",
                                                   dtype=dtype)[:, :columns]
    for size in [size for size in drawn(200, 20261125) if not is_copied(size)][:count]:
        m, n, k, layout, dtype = size
        whole_n = math.ceil(n / 8) * 8
        variant = tune(program, database, (m, whole_n, k, layout, dtype), 25)
        inputs = Rotated(size)
        swr.configure(database=database)
        of_a = new(*inputs.a[0].shape, TYPES[dtype])
        wide = new(whole_n, k, TYPES[dtype]) if layout == "nt" else new(k, whole_n, TYPES[dtype])
        of_b = wide[:n] if layout == "nt" else wide[:, :n]

        def copied():
            turn = inputs.turn()
            of_a.copy_(inputs.a[turn])
            of_b.copy_(inputs.b[turn])
            c = swr.matmul(of_a.t() if layout == "tn" else of_a, wide.t() if layout == "nt" else wide)
            inputs.c.copy_(c[:, :n])
        graph = lambda call: gpu_timing.graph_of(call, 400.0, 32, inputs.copies)
        inputs.next = -1
        copied()
        expected = inputs.views[0][0].double() @ inputs.views[0][1].double()
        error = ((inputs.c.double() - expected).norm() / expected.norm()).item()
        graphs = {"copied": graph(copied), "torch": graph(lambda: torch.matmul(*inputs.views[inputs.turn()]))}
        samples = gpu_timing.sample_in_turns(graphs, 7, 1)
        us = {name: statistics.median(samples[name]) for name in graphs}
        print(f"{m}x{n}x{k} {layout} {dtype}: copied {us['copied']:.1f} torch {us['torch']:.1f} us, "
              f"{us['torch'] / us['copied']:.3f}, error {error:.1e}, {variant}", flush=True)


def check_random(count):
    """Random sizes, each twice, which must give the same bits."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parent / "fp8"))
    from kernels import Config, Kernels
    forms = [((192, 168), dict(consumers=3)), ((192, 128), dict(consumers=3, cluster=(2, 1, 1))),
             ((192, 160), dict(consumers=3, splits=3)), ((256, 152), dict(cluster=(2, 1, 1))),
             ((256, 176), dict(cluster=(1, 2, 1), output="fp32")), ((128, 248), {}),
             ((128, 184), dict(mainloop="pingpong")), ((128, 200), dict(cluster=(4, 1, 1), persistence="grid")),
             ((128, 144), dict(cluster=(1, 4, 1), persistence="grid", splits=2))]
    configs = [Config(tile, **{"dtype": "bf16", "scaling": "none", "tile_k": 64, **more}) for tile, more in forms]
    kernels = Kernels()
    kernels.compile(configs, keep_spilled=True)
    draw = random.Random(21)
    wrong, worst = 0, 0.0
    for number in range(count):
        config = configs[number % len(configs)]
        m, n, k = (draw.randint(1, 2500), 8 * draw.randint(1, 300), 8 * draw.randint(24, 200))
        torch.manual_seed(number)
        a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
        type_of_c = torch.float32 if config.output == "fp32" else torch.bfloat16
        results = []
        for _ in range(2):
            c = torch.full((m + 2, n), float("nan"), dtype=type_of_c, device="cuda")
            kernels.launcher(config, a, b, c[1:-1])()
            results.append(c)
        expected = a.double() @ b.double().t()
        magnitude = a.double().abs() @ b.double().abs().t()
        unit = 2.0**-24 if config.output == "fp32" else 2.0**-8
        error = ((results[0][1:-1].double() - expected).abs() / (unit * expected.abs() + 2e-6 * magnitude)).max().item()
        outside = results[0][0].isnan().all() and results[0][-1].isnan().all()
        same = torch.equal(results[0][1:-1], results[1][1:-1])
        worst = max(worst, error)
        if not (error <= 1.1 and outside and same):
            wrong += 1
            print(f"WRONG {m}x{n}x{k} {config}: {error:.2f} of the bound, same bits {same}, outside kept {bool(outside)}",
                  flush=True)
    print(f"random: {count} problems, {len(configs)} kernels, {wrong} wrong, largest error {worst:.2f} of the bound")
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "random":
        sys.exit(check_random(int(sys.argv[2])) > 0)
    if sys.argv[1] == "padded":
        padded(sys.argv[2], int(sys.argv[3]))
        sys.exit()
    given = sys.argv[2:]
    times(given[0], given[1], float(given[2]), int(given[3]) if len(given) > 3 else 200,
          int(given[4]) if len(given) > 4 else 20261125, len(given) > 5)
