#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swr's dense GEMM on the GPU present, beside torch.matmul and cuBLASLt: sizes nobody tuned for.

    dense_peers.py times SWR_TUNE CSV SECONDS LIST...   nothing is tuned where SWR_TUNE is `none`; lists, in this
                                                  order until the seconds are over: `listed` (of issue 21),
                                                  `cubes`, `projections`, M,N,K,nt,bf16, COUNT:SEED, drawn; of
                                                  these `whole` or `odd` takes those whose rows are whole 16
                                                  bytes, or not, and I/N every Nth from the Ith on
    dense_peers.py random COUNT [odd]             the new tiles, or kernels for odd rows, against fp64
    dense_peers.py kernels                        the kernels of torch.matmul where rows are odd

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
CUBES = [(size, size, size) for size in (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)]
PROJECTIONS = [(m, n, k) for i, (n, k) in enumerate([
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 28672), (4608, 3584), (37888, 3584),
    (2112, 7168), (24576, 1536)]) for m in ((1, 64, 512, 4096), (16, 128, 2048, 8192))[i % 2]]
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


def alignment_of(size):
    """The largest power of two, at most 16, that divides the bytes of the rows of all three matrices."""
    m, n, k, layout, _ = size
    return math.gcd(16, 2 * n, 2 * (m if layout == "tn" else k), 2 * (k if layout == "nt" else n))


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
         "--alignment", str(alignment_of(size)), "--strategy", "model", "--budget", "48", "--no-counters", "--quiet", "--db", database],
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


def sizes_of(lists):
    """(list, size) of the command line's lists."""
    rows_are, part, parts = "", 0, 1
    for name in lists:
        if name in ("whole", "odd"):
            rows_are = name
        elif "/" in name:
            part, parts = map(int, name.split("/"))
    fixed = {"listed": LISTED, "cubes": CUBES, "projections": PROJECTIONS}
    for name in lists:
        if name in fixed:
            sizes = [(*size, "nt", "bf16") for size in fixed[name]]
        elif "," in name:
            *size, layout, dtype = name.split(",")
            yield "given", (*map(int, size), layout, dtype)
            continue
        elif ":" in name:
            sizes = [size for size in drawn(*map(int, name.split(":")))
                     if not rows_are or (alignment_of(size) == 16) == (rows_are == "whole")][part::parts]
        else:
            continue
        for size in sizes:
            yield name, size


def summarize(name, rows):
    """Means over the rows of one list: microseconds of untuned, tuned, torch, lt and lt_best."""
    def say(what, ratios):
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{name}, {len(ratios)} sizes, {what}: geometric mean {mean:.3f}, least {min(ratios):.3f}", flush=True)
    for against, what in ((3, "cuBLASLt's first choice"), (4, "its best of eight"), (2, "torch.matmul")):
        say(what, [us[against] / us[1] for us in rows])
    say("untuned of tuned", [us[1] / us[0] for us in rows])


def times(program, csv, seconds, lists):
    import swr
    end, database = time.monotonic() + seconds, f"{pathlib.Path(csv).stem}.db"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    columns = ["untuned", "tuned", "torch", "lt", "lt_best"]
    rows = {}
    with open(csv, "w", encoding="ascii") as out:
        out.write("m,n,k,layout,type," + ",".join(f"{name}_us" for name in columns) + ",variant\n")
        for number, (name, size) in enumerate(sizes_of(lists)):
            if time.monotonic() > end:
                break
            begun = time.monotonic()
            try:
                variant = tune(program, database, size, 25) if program != "none" else "untuned"
                tuned = time.monotonic()
                inputs = Rotated(size)
                graphs, wrong, _lt = contestants(size, inputs, swr, database if program != "none" else None)
                samples = gpu_timing.sample_in_turns(graphs, 7, number)
                us = [statistics.median(samples[column]) for column in columns]
            except (RuntimeError, subprocess.TimeoutExpired, swr.Error) as error:
                print("failed", size, str(error)[:300], flush=True)
                continue
            rows.setdefault(name, []).append(us)
            line = ",".join(map(str, size)) + "," + ",".join(f"{one:.2f}" for one in us)
            out.write(f"{line},{variant}\n")
            out.flush()
            print(f"{'x'.join(map(str, size[:3]))} {size[3]} {size[4]}: untuned {us[0]:.1f} tuned {us[1]:.1f} "
                  f"torch {us[2]:.1f} lt {us[3]:.1f} best {us[4]:.1f} us, {us[3] / us[1]:.3f} {variant} "
                  f"(tuned in {tuned - begun:.1f} s, timed in {time.monotonic() - tuned:.1f}) "
                  f"{'WRONG ' + ', '.join(wrong) if wrong else ''}", flush=True)
            del graphs, inputs
    for name, of in rows.items():
        summarize(name, of)


def new_forms(config_of):
    """Forms of whole rows, with the sizes that are drawn for them."""
    forms = [((192, 168), dict(consumers=3)), ((192, 128), dict(consumers=3, cluster=(2, 1, 1))),
             ((192, 160), dict(consumers=3, splits=3)), ((256, 152), dict(cluster=(2, 1, 1), reads_c=True)),
             ((256, 176), dict(cluster=(1, 2, 1), output="fp32")),
             ((128, 248), dict(output="fp32", reads_c=True)),
             ((128, 184), dict(mainloop="pingpong")), ((128, 200), dict(cluster=(4, 1, 1), persistence="grid")),
             ((128, 144), dict(cluster=(1, 4, 1), persistence="grid", splits=2))]
    sizes = lambda draw: (draw.randint(1, 2500), 8 * draw.randint(1, 300), 8 * draw.randint(24, 200))
    return [config_of(tile, **more) for tile, more in forms], sizes


def odd_forms(config_of):
    """Those that copy A and B first, and whose warps store C."""
    layouts = [dict(layout=layout) for layout in ("nt", "nn", "tn")]
    forms = [((128, 192), dict(mainloop="pingpong")), ((256, 152), dict(cluster=(1, 2, 1), has_bias=True)),
             ((64, 96), dict(consumers=1, dtype="fp16", output="fp16", persistence="grid")),
             ((128, 248), dict(cluster=(2, 1, 1), reads_c=True)),
             ((128, 80), dict(cluster=(1, 1, 2), persistence="grid", output="fp32", reads_c=True, alignment=4))]
    log = lambda draw, most: round(math.exp(draw.uniform(0, math.log(most))))
    sizes = lambda draw: (log(draw, 1200), log(draw, 1200), max(130, log(draw, 2000)) if draw.random() < 0.5 else log(draw, 128))
    return [config_of(tile, **{"alignment": 2, **layout, **more}) for tile, more in forms for layout in layouts], sizes


class Placed:
    """A matrix whose rows lie `gap` units apart after `skipped` of them, in memory of NaN."""

    def __init__(self, rows, columns, dtype, unit, draw):
        stride = (math.ceil(columns / unit) + draw.randint(0, 2)) * unit
        skipped = unit * draw.randint(0, 3) + 64
        self.memory = torch.full((skipped + rows * stride + 64,), float("nan"), dtype=dtype, device="cuda")
        self.view = self.memory[skipped:skipped + rows * stride].view(rows, stride)[:, :columns]
        self.view.copy_(torch.randn(rows, columns, device="cuda"))

    def is_kept(self):
        """Whether all but the rows is still NaN, which the rows become."""
        self.view.fill_(float("nan"))
        return bool(self.memory.isnan().all())


def check_random(count, odd):
    """Random sizes, each twice, which must give the same bits."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parent / "fp8"))
    from kernels import Config, Kernels
    config_of = lambda tile, **more: Config(tile, **{"dtype": "bf16", "scaling": "none", "tile_k": 64, **more})
    configs, sizes = (odd_forms if odd else new_forms)(config_of)
    kernels = Kernels()
    kernels.compile(configs, keep_spilled=True)
    draw = random.Random(21)
    wrong, worst = 0, 0.0
    for number in range(count):
        config = configs[number % len(configs)]
        m, n, k = sizes(draw)
        if config.cluster[2] > 1 or config.splits > 1:
            k = max(k, 64 * max(config.cluster[2], config.splits))
        torch.manual_seed(number)
        dtype, type_of_c = TYPES[config.dtype], {"fp32": torch.float32, **TYPES}[config.output]
        unit = config.alignment // 2
        tn, nt = config.layout == "tn", config.layout == "nt"
        a = Placed(k if tn else m, m if tn else k, dtype, unit, draw)
        b = Placed(n if nt else k, k if nt else n, dtype, unit, draw)
        c = Placed(m, n, type_of_c, max(1, unit * 2 // type_of_c.itemsize), draw)
        alpha, beta = draw.choice((1.0, 0.5, 0.0)) if odd else 1.0, draw.choice((0.0, 0.5)) if config.reads_c else 0.0
        before = c.view.clone()
        bias = Placed(1, n, type_of_c, 4, draw).view[0] if config.has_bias else None
        run = kernels.launcher(config, a.view, b.view, c.view, bias=bias, alpha=alpha, beta=beta)
        results = []
        for _ in range(2):
            c.view.copy_(before) if beta else c.view.fill_(float("nan"))
            run()
            results.append(c.view.clone())
        of_a, of_b = a.view.double(), b.view.double()
        of_a, of_b = of_a.t() if tn else of_a, of_b.t() if nt else of_b
        expected = alpha * of_a @ of_b + (beta * before.double() if beta else 0.0)
        magnitude = abs(alpha) * of_a.abs() @ of_b.abs() + beta * before.double().abs()
        if bias is not None:
            expected, magnitude = expected + bias.double(), magnitude + bias.double().abs()
        unit = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}[config.output]
        error = ((results[0].double() - expected).abs() / (unit * expected.abs() + 2e-6 * magnitude + 1e-7)).max().item()
        same, kept = torch.equal(results[0], results[1]), c.is_kept()
        worst = max(worst, error)
        if not (error <= 1.1 and kept and same):
            wrong += 1
            print(f"WRONG {m}x{n}x{k} {config.layout} {config}: {error:.2f} of the bound, same bits {same}, outside kept {kept}",
                  flush=True)
    print(f"random: {count} problems, {len(configs)} kernels, {wrong} wrong, largest error {worst:.2f} of the bound")
    return wrong


def print_kernels():
    from torch.profiler import ProfilerActivity, profile
    for size in [(4737, 1063, 4259, "nt", "bf16"), (709, 14387, 3626, "nt", "fp16"), (904, 484, 4895, "nn", "fp16"),
                 (35, 3545, 6039, "nn", "fp16"), (13411, 109, 1837, "tn", "bf16")]:
        inputs = Rotated(size)
        torch.matmul(*inputs.views[0])
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            torch.matmul(*inputs.views[0])
            torch.cuda.synchronize()
        print(size, [(event.key, event.device_time_total) for event in profiled.key_averages()
                     if event.device_time_total > 0], flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "random":
        sys.exit(check_random(int(sys.argv[2]), "odd" in sys.argv[3:]) > 0)
    if sys.argv[1] == "kernels":
        print_kernels()
        sys.exit()
    times(sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5:])
