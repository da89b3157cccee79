#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What swr answers before anything is tuned, beside the tuned choice and the vendor's library.

    PYTHONPATH=python SWR_LIBRARY=BUILD/capi/libswr.so.1 SWR_TUNE=BUILD/tuner/cli/swr-tune \\
        experiments/right_answers/right_answers.py --database tuned.db --out OUT_DIR [--small]
    experiments/right_answers/right_answers.py --summarise OUT_DIR/*.csv

Shapes come in an order drawn by the seed, so that a run that is cut short (--within) has seen a fair part of
each list; the next run with the same OUT_DIR and database goes on. One swr-tune tunes all of them first, for
four fifths of the time, while other processors compile ahead. Then, per shape that was tuned and in turns,
one process, the same tensors, a CUDA graph each: `fresh` (no database: what comes
with swr, else the closed form), `model` (the closed form alone: what comes with swr is of a warm L2, so a
runtime that asks for a cold one has nothing), `tuned` (swr-tune for this very shape) and `peer` (cuDNN's
attention, cuBLASLt's product). A ratio of a round is tuned or peer time over that of fresh or model.
Results are compared with the peer's before anything is timed.
"""

import argparse
import concurrent.futures
import csv
import json
import math
import pathlib
import random
import shlex
import statistics
import sys

TOLERANCE = 2e-2
ROUNDS = 11
PROFILE = "h200"
JOBS_AHEAD = 3
AHEAD = set()  # Processes that compile ahead.
TUNING_SHARE = 0.8  # Of the time: comparing a shape takes about a fifth of tuning it.


def attention(seq_q, seq_kv, batch, heads, kv_heads, head_dim, causal, dtype="bf16"):
    return dict(op="attention", seq_q=seq_q, seq_kv=seq_kv, batch=batch, heads_q=heads, heads_kv=kv_heads,
                head_dim=head_dim, causal=causal, dtype=dtype)


def gemm(m, n, k, dtype="bf16"):
    return dict(op="gemm", m=m, n=n, k=k, dtype=dtype)


def grid():
    return [attention(seq, seq, max(1, 16384 // seq), 16, 16, head_dim, causal, dtype)
            for head_dim in (64, 96, 128, 160) for dtype in ("bf16", "fp16") for causal in (False, True)
            for seq in (512, 1024, 2048, 4096, 8192)]


def decode():
    return [attention(1, seq, batch, heads, 8, 128, False)
            for heads in (32, 64) for batch in (1, 4, 16, 64) for seq in (2048, 8192, 32768)
            if batch * seq <= 1 << 20][:20]


def projections():
    sizes = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 8192),
             (57344, 8192), (8192, 28672)]
    return [gemm(m, n, k) for m in (16, 64, 256, 2048, 8192) for n, k in sizes]


def drawn(seed, count=60):
    """Far from what is stored as often as near it: drawn, not chosen."""
    draw = random.Random(seed)

    def log_uniform(low, high):
        return round(2 ** draw.uniform(math.log2(low), math.log2(high)))

    shapes = []
    while len(shapes) < count:
        if len(shapes) % 3 == 2:
            shapes.append(gemm(log_uniform(1, 16384), 8 * log_uniform(16, 4096), 8 * log_uniform(16, 4096),
                               draw.choice(("bf16", "fp16"))))
            continue
        kv_heads = draw.choice((1, 2, 4, 8, 16))
        heads, seq_kv = kv_heads * draw.choice((1, 2, 4, 8)), log_uniform(64, 65536)
        causal, batch = draw.random() < 0.5, log_uniform(1, 32)
        seq_q = draw.choice((1, seq_kv, seq_kv, min(seq_kv, log_uniform(16, 4096))))
        head_dim = draw.choice((64, 64, 80, 96, 128, 128, 128, 192, 256))
        if 4.0 * batch * heads * seq_q * seq_kv * head_dim < 2e13 and batch * kv_heads * seq_kv < 1 << 24:
            shapes.append(attention(seq_q, seq_kv, batch, heads, kv_heads, head_dim, causal,
                                    draw.choice(("bf16", "fp16"))))
    return shapes


def far(seed, count=20):
    """Far from everything that comes with swr: two octaves in one size, say."""
    lookup, device = swr.Lookup(), swr.profiled_device("h200")
    answers = ((shape, lookup.best(problem(shape), device)) for shape in drawn(seed + 1, 40 * count))
    return [shape for shape, answer in answers if answer.match == "modelled" or answer.distance >= 2.0][:count]


def shapes(options):
    """(list, shape), in an order drawn by the seed."""
    makers = {"grid": grid, "decode": decode, "gemm": projections, "drawn": lambda: drawn(options.seed),
              "far": lambda: far(options.seed)}
    draw = random.Random(options.seed)
    chosen = []
    for name in options.lists.split(","):
        of_list = makers[name]()
        chosen += [(name, shape) for shape in (draw.sample(of_list, 3) if options.small else of_list)]
    draw.shuffle(chosen)
    return chosen


def problem(shape):
    names = {"seq_q": "seq", "heads_q": "heads", "heads_kv": "kv_heads"}
    sizes = {names.get(name, name): value for name, value in shape.items() if name != "op"}
    return swr.Problem(**sizes) if shape["op"] == "attention" else swr.GemmProblem(**sizes)


def sizes_of(shape):
    """As swr-tune spells them."""
    if shape["op"] == "gemm":
        return dict(op="gemm", m=shape["m"], n=shape["n"], k=shape["k"], dtype=shape["dtype"])
    sizes = {"seq": shape["seq_q"], "seq-kv": shape["seq_kv"], "batch": shape["batch"], "heads": shape["heads_q"],
             "kv-heads": shape["heads_kv"], "head-dim": shape["head_dim"], "dtype": shape["dtype"]}
    return sizes | (dict(causal=None) if shape["causal"] else {})


def swr_tune(command, shape, *arguments):
    words = [word for name, value in sizes_of(shape).items()
             for word in ([f"--{name}"] if value is None else [f"--{name}", str(value)])]
    process = subprocess.Popen([os.environ["SWR_TUNE"], command, *words, *arguments],
                               stdout=subprocess.DEVNULL, preexec_fn=lambda: os.nice(10))
    AHEAD.add(process)
    process.wait()
    AHEAD.discard(process)


def code_of(shape):
    """Shapes alike in it share most of their kernels: attention's know no sizes but head_dim."""
    if shape["op"] == "gemm":
        return text_of(shape)
    return shape["head_dim"], shape["dtype"], shape["causal"], shape["seq_q"] == 1


def compile_ahead(shape, options):
    """Into the cubin cache: what the search will begin with, and what fresh and model answer."""
    with tempfile.TemporaryDirectory() as folder:
        swr_tune("tune", shape, "--gpu", PROFILE, "--jobs", str(JOBS_AHEAD), "--db", f"{folder}/ahead.db", "--quiet",
                 *shlex.split(options.tune_arguments))
    for name in ("fresh", "model"):
        swr_tune("explain", shape, "--gpu", PROFILE, "--variant", match_of(name, shape, options)[1])


class Tuning:
    """One swr-tune for all shapes in their order, since a process of its own for each would begin a context
    and a worker each time; the other processors compile for the shapes that come."""

    def __init__(self, wanted, options):
        lines = [" ".join(name if value is None else f"{name}={value}" for name, value in sizes_of(shape).items())
                 for shape in wanted]
        self.folder = tempfile.TemporaryDirectory()
        shapes_file, work = f"{self.folder.name}/shapes.txt", f"{self.folder.name}/work.json"
        pathlib.Path(shapes_file).write_text("\n".join(lines) + "\n", encoding="utf-8")
        program = os.environ["SWR_TUNE"]
        subprocess.run([program, "plan", "--shapes", shapes_file, "--out", work], check=True)
        within = [] if math.isinf(options.within) else ["--within", f"{TUNING_SHARE * options.within:.0f}"]
        self.process = subprocess.Popen([program, "tune", "--work", work, "--db", str(options.database), "--quiet",
                                         "--top", "1", *within, *shlex.split(options.tune_arguments)])
        self.ahead = concurrent.futures.ThreadPoolExecutor(max(1, os.cpu_count() // (JOBS_AHEAD + 1)))
        first_of_code = {}
        for shape in wanted:
            first_of_code.setdefault(code_of(shape), shape)
        for shape in first_of_code.values():
            self.ahead.submit(compile_ahead, shape, options)

    def wait(self):
        self.process.wait()
        # What compiles for shapes that do not come any more would be waited for.
        self.ahead.shutdown(wait=False, cancel_futures=True)
        for process in list(AHEAD):
            process.terminate()
        self.ahead.shutdown()
        self.folder.cleanup()


def calls_of(shape):
    """swr's call and the peer's, on the same tensors."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[shape["dtype"]]

    def normal(*sizes):
        return torch.randn(*sizes, device="cuda", dtype=dtype)

    if shape["op"] == "gemm":
        a, weight = normal(shape["m"], shape["k"]), normal(shape["n"], shape["k"])
        return lambda: swr.matmul(a, weight.T), lambda: torch.matmul(a, weight.T)
    q = normal(shape["batch"], shape["seq_q"], shape["heads_q"], shape["head_dim"]).transpose(1, 2)
    k, v = (normal(shape["batch"], shape["seq_kv"], shape["heads_kv"], shape["head_dim"]).transpose(1, 2)
            for _ in range(2))
    # The peer's mask is aligned to the top left; swr's to the bottom right.
    masked = shape["causal"] and shape["seq_q"] == shape["seq_kv"]
    grouped = shape["heads_q"] != shape["heads_kv"]

    def peer():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=masked, enable_gqa=grouped)

    is_comparable = masked or not shape["causal"] or shape["seq_q"] == 1
    return (lambda: swr.sdpa(q, k, v, causal=shape["causal"])), (peer if is_comparable else None)


def configurations(options):
    sources = {"fresh": dict(database=None), "model": dict(database=None, l2="cold")}
    if not options.no_tuning:
        sources["tuned"] = dict(database=options.database)
    return sources


def match_of(name, shape, options):
    l2 = "cold" if name == "model" else "warm"
    answer = swr.Lookup(options.database if name == "tuned" else None, l2).best(problem(shape), options.device)
    return answer.match, answer.variant, answer.distance


def tuned_problems(options):
    """What the database holds, without what comes with swr: that answers some shapes exactly as well."""
    with tempfile.TemporaryDirectory() as folder:
        recording = pathlib.Path(folder) / "tuned.spaces"
        subprocess.run([os.environ["SWR_TUNE"], "db", "record", "--db", str(options.database), "--out",
                        str(recording)], check=True, stdout=subprocess.DEVNULL)
        lines = recording.read_text(encoding="utf-8").splitlines()
    return [json.loads(line.removeprefix("space "))["problem"] for line in lines if line.startswith("space ")]


def compare(shape, options, seed):
    torch.manual_seed(seed)
    own, peer = calls_of(shape)
    graphs, errors = {}, {}
    expected = None
    if peer is not None:
        try:
            expected = peer().float()
            graphs["peer"] = graph_of(peer)
        except RuntimeError as error:
            print("the peer refuses:", str(error).splitlines()[0])
    for name, source in configurations(options).items():
        swr.configure(**source)
        out = own().float()
        expected = out if expected is None else expected
        errors[name] = ((out - expected).norm() / expected.norm()).item()
        if not errors[name] <= TOLERANCE:
            raise SystemExit(f"{text_of(shape)}: {name} is wrong, relative error {errors[name]:.2e}")
        graphs[name] = graph_of(own)
    samples = sample_in_turns(graphs, ROUNDS, seed)
    row = {name + "_us": f"{statistics.median(times):.3f}" for name, times in samples.items()}
    for name in ("fresh", "model"):
        row[name + "_match"], row[name + "_variant"], row[name + "_distance"] = match_of(name, shape, options)
        for other in ("tuned", "peer"):
            if other in samples:
                ratios = [theirs / ours for theirs, ours in zip(samples[other], samples[name])]
                row[f"{name}_to_{other}"] = f"{statistics.median(ratios):.4f}"
    return row


COLUMNS = ["list", "shape"] + [f"{name}_us" for name in ("fresh", "model", "tuned", "peer")] + [
    f"{name}_{what}" for name in ("fresh", "model")
    for what in ("match", "distance", "to_tuned", "to_peer", "variant")]


def text_of(shape):
    return " ".join(f"{name}={value}" for name, value in shape.items())


def rows_of(path):
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def measure(options, began, wanted):
    path = csv_of(options)
    is_new = not path.exists()
    tuned = [] if options.no_tuning else tuned_problems(options)
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        if is_new:
            writer.writeheader()
        for number, (name, shape) in enumerate(wanted):
            if not options.no_tuning and not any(shape.items() <= one.items() for one in tuned):
                continue
            if time.monotonic() - began > options.within:
                print("the time is over; the same command goes on")
                return
            row = {"list": name, "shape": text_of(shape)} | compare(shape, options, number + 1)
            writer.writerow(row)
            file.flush()
            print(row, flush=True)
            torch.cuda.empty_cache()


def csv_of(options):
    return options.out / f"right_answers-{options.shard.split('/')[0]}.csv"


def unmeasured(options):
    index, count = (int(part) for part in options.shard.split("/"))
    known = {(row["list"], row["shape"]) for row in rows_of(csv_of(options))}
    return [(name, shape) for name, shape in shapes(options)[index::count] if (name, text_of(shape)) not in known]


def summarise(paths):
    rows = [row for path in paths for row in rows_of(pathlib.Path(path))]
    print("| answer | over | list | shapes | geometric mean | lowest |\n|---|---|---|---|---|---|")
    lists = [*dict.fromkeys(row["list"] for row in rows), "all"]
    for name in ("fresh", "model"):
        for other in ("tuned", "peer"):
            for wanted in lists:
                ratios = [float(row[f"{name}_to_{other}"]) for row in rows
                          if wanted in (row["list"], "all") and row[f"{name}_to_{other}"]]
                if ratios:
                    mean = math.exp(statistics.fmean(map(math.log, ratios)))
                    print(f"| {name} | {other} | {wanted} | {len(ratios)} | {mean:.3f} | {min(ratios):.3f} |")


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", type=pathlib.Path, help="of the tuned choices; made if missing")
    parser.add_argument("--out", type=pathlib.Path, help="directory for the CSV")
    parser.add_argument("--lists", default="grid,decode,gemm,drawn,far")
    parser.add_argument("--seed", type=int, default=25, help="of the drawn shapes, and of those of --small")
    parser.add_argument("--small", action="store_true", help="three shapes of each list")
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th shape from the I-th on")
    parser.add_argument("--no-tuning", action="store_true", help="without the tuned choice")
    parser.add_argument("--tuned-already", action="store_true", help="compare what the database holds, tune nothing")
    parser.add_argument("--within", type=float, default=math.inf, metavar="S",
                        help="tune for four fifths of so many seconds, then compare what is tuned")
    parser.add_argument("--tune-arguments", default="--strategy model --budget 16 --time 10 --no-counters",
                        help="for swr-tune")
    parser.add_argument("--summarise", nargs="+", metavar="CSV", help="print a table of CSV files")
    options = parser.parse_args()
    if not options.summarise and not (options.database and options.out):
        parser.error("name --database and --out, or CSV files to --summarise")
    return options


if __name__ == "__main__":
    OPTIONS = parsed_arguments()
    if OPTIONS.summarise:
        summarise(OPTIONS.summarise)
        sys.exit(0)
    import os
    import subprocess
    import tempfile
    import time

    import swr
    BEGAN = time.monotonic()
    OPTIONS.out.mkdir(parents=True, exist_ok=True)
    OPTIONS.device = swr.present_device()
    WANTED = unmeasured(OPTIONS)
    IS_TUNING = not (OPTIONS.no_tuning or OPTIONS.tuned_already)
    TUNING = Tuning([shape for _, shape in WANTED], OPTIONS) if IS_TUNING else None

    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
    from gpu_timing import graph_of, sample_in_turns
    if TUNING:
        TUNING.wait()
    with torch.no_grad():
        measure(OPTIONS, BEGAN, WANTED)
