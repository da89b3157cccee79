#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swr's tuned attention against PyTorch's back ends, side by side on the GPU present.

    PYTHONPATH=python SWR_LIBRARY=BUILD/capi/libswr.so.1 SWR_TUNE=BUILD/tuner/cli/swr-tune \\
        experiments/hopper_attention/attention_peers.py --database tuned.db --out OUT_DIR
    experiments/hopper_attention/attention_peers.py --summarise OUT_DIR/*.csv

Each shape is tuned by swr-tune unless --no-tuning. swr.sdpa then runs what the database answers, in turns
with the peers: one process, the same random tensors of [B, S, H, D] strides, every kernel in a CUDA
graph of its own that is long enough to time, each round in an order drawn anew. The ratio of a round is
peer time over swr time. Outputs are compared with attention in fp32 before anything is timed.
With --shard I/N several GPUs share the list.

--shapes decode has one query token on long K and V. What is measured there is memory: consecutive launches take turns over
copies of K and V that together are several times the L2, for every contender alike, so that none finds them there;
gb_per_s is the bytes of K and V over the time of a launch. Tuning itself times a variant on one K and V, of which a warm L2 may keep
those of 8192 keys: --l2 cold.
"""

import argparse
import collections
import csv
import dataclasses
import itertools
import math
import pathlib
import shlex
import statistics
import sys

PEERS = ("cudnn", "flash")
TOLERANCE = {"fp16": 2e-3, "bf16": 1e-2}
ROUNDS = 21
# Copies of K and V that decoding takes turns over: at least so many times the L2.
L2_MULTIPLE = 4


@dataclasses.dataclass(frozen=True)
class Shape:
    batch: int
    heads: int
    kv_heads: int
    seq: int
    head_dim: int
    dtype: str
    causal: bool
    seq_q: int = 0  # 0: as long as K and V.

    def queries(self):
        return self.seq_q or self.seq

    def tflops(self, microseconds):
        """Causal counts half the operations, as the peers' publications do."""
        operations = 4.0 * self.batch * self.heads * self.queries() * self.seq * self.head_dim
        return operations * (0.5 if self.causal else 1.0) / microseconds / 1e6

    def kv_bytes(self):
        return 2 * 2 * self.batch * self.kv_heads * self.seq * self.head_dim


def tokens_16k(seq, head_dim, dtype, causal, heads=16, kv_heads=16):
    return Shape(max(1, 16384 // seq), heads, kv_heads, seq, head_dim, dtype, causal)


def shapes(name):
    masks = (False, True)
    grid = [tokens_16k(seq, head_dim, dtype, causal)
            for head_dim, dtype, causal, seq in itertools.product(
                (64, 96, 128, 160), ("bf16", "fp16"), masks, (512, 1024, 2048, 4096, 8192))]
    beyond = [tokens_16k(seq, head_dim, "bf16", causal)
              for head_dim, causal, seq in itertools.product(
                  (192, 256), masks, (512, 1024, 2048, 4096, 8192))]
    beyond += [tokens_16k(seq, head_dim, "bf16", causal)
               for head_dim, causal, seq in itertools.product((64, 128), masks, (16384, 32768))]
    beyond += [tokens_16k(seq, 128, "bf16", causal, heads=64, kv_heads=8)
               for causal, seq in itertools.product(masks, (2048, 8192))]
    decode = [Shape(batch, 64, 8, seq, 128, "bf16", False, seq_q=1)
              for batch, seq in itertools.product((1, 8), (8192, 32768, 131072))]
    return {"grid": grid, "beyond": beyond, "all": grid + beyond, "decode": decode}[name]


def random_tensors(shape):
    """[B, H, S, D]; decoding has the strides of a cache of K and V, others those of [B, S, H, D]."""
    def normal(heads, seq):
        if shape.seq_q:
            return torch.randn(shape.batch, heads, seq, shape.head_dim, device="cuda",
                               dtype=DTYPES[shape.dtype])
        return torch.randn(shape.batch, seq, heads, shape.head_dim, device="cuda",
                           dtype=DTYPES[shape.dtype]).transpose(1, 2)
    return (normal(shape.heads, shape.queries()), normal(shape.kv_heads, shape.seq),
            normal(shape.kv_heads, shape.seq))


def copies_of(shape, k, v):
    """What launches take turns over: K and V alone, or for decoding copies that exceed the L2."""
    if not shape.seq_q:
        return [(k, v)]
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(2, math.ceil(L2_MULTIPLE * l2_bytes / shape.kv_bytes()))
    return [(k, v)] + [(k.clone(), v.clone()) for _ in range(count - 1)]


def reference(q, k, v, causal):
    """Attention in fp32, one head after the other so that the scores fit."""
    group = q.shape[1] // k.shape[1]
    out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
    for batch, head in itertools.product(range(q.shape[0]), range(q.shape[1])):
        scores = q[batch, head].float() @ k[batch, head // group].float().t()
        scores *= 1.0 / math.sqrt(q.shape[3])
        if causal:
            scores.masked_fill_(mask, float("-inf"))
        out[batch, head] = scores.softmax(-1) @ v[batch, head // group].float()
    return out


def relative_error(out, expected):
    return ((out.float() - expected).norm() / expected.norm()).item()


def contenders(shape, q, copies):
    """Name to a call that computes the output; every call takes the next copy of K and V."""
    def in_turns(attention):
        turn = itertools.count()
        return lambda: attention(*copies[next(turn) % len(copies)])

    def peer(backend):
        def attention(k, v):
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(
                    q, k, v, is_causal=shape.causal, enable_gqa=shape.heads != shape.kv_heads)
        return in_turns(attention)
    return {"swr": in_turns(lambda k, v: swr.sdpa(q, k, v, causal=shape.causal)),
            "cudnn": peer(SDPBackend.CUDNN_ATTENTION), "flash": peer(SDPBackend.FLASH_ATTENTION)}


def time_in_turns(calls, copies, seed):
    """Name to microseconds per launch, one sample a round; the rounds of all names correspond."""
    graphs = {name: graph_of(call, copies=copies) for name, call in calls.items()}
    return sample_in_turns(graphs, ROUNDS, seed)


def nearest_rank(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def compare(shape, variant, seed):
    """The CSV rows of one shape."""
    torch.manual_seed(seed)
    q, k, v = random_tensors(shape)
    expected = reference(q, k, v, shape.causal)
    calls, errors, rows = {}, {}, []
    copies = copies_of(shape, k, v)
    for name, call in contenders(shape, q, copies).items():
        try:
            errors[name] = relative_error(call(), expected)
        except RuntimeError as error:
            if name == "swr":
                raise
            rows.append({"who": name, "refused": str(error).splitlines()[0]})
            continue
        if name == "swr" and not errors[name] <= TOLERANCE[shape.dtype]:
            raise SystemExit(f"{shape}: {variant} is wrong, relative error {errors[name]:.2e}")
        calls[name] = call
    del expected
    samples = time_in_turns(calls, len(copies), seed)
    for name, times in samples.items():
        ratios = [time / own for time, own in zip(times, samples["swr"])]
        median = statistics.median(times)
        rows.append({"who": name, "variant": variant if name == "swr" else "",
                     "relative_error": f"{errors[name]:.2e}", "median_us": f"{median:.3f}",
                     "p95_us": f"{nearest_rank(times, 0.95):.3f}", "rounds": ROUNDS,
                     "tflops": f"{shape.tflops(median):.1f}",
                     "gb_per_s": f"{shape.kv_bytes() / median / 1e3:.0f}",
                     "ratio": f"{statistics.median(ratios):.4f}",
                     "ratio_p5": f"{nearest_rank(ratios, 0.05):.4f}",
                     "ratio_p95": f"{nearest_rank(ratios, 0.95):.4f}"})
    return [dataclasses.asdict(shape) | row for row in rows]


def tune(shape, options):
    swr.tune(shape.queries(), seq_kv=shape.seq, heads=shape.heads, kv_heads=shape.kv_heads,
             batch=shape.batch, head_dim=shape.head_dim, dtype=shape.dtype, causal=shape.causal,
             database=options.database,
             arguments=[*shlex.split(options.tune_arguments), "--l2", options.l2])


def stored_variant(shape, lookup, device):
    problem = swr.Problem(shape.queries(), seq_kv=shape.seq, batch=shape.batch, heads=shape.heads,
                          kv_heads=shape.kv_heads, head_dim=shape.head_dim, dtype=shape.dtype,
                          causal=shape.causal)
    answer = lookup.best(problem, device)
    return f"{answer.variant} ({answer.match})"


COLUMNS = [field.name for field in dataclasses.fields(Shape)] + [
    "who", "variant", "relative_error", "median_us", "p95_us", "rounds", "tflops", "gb_per_s", "ratio",
    "ratio_p5", "ratio_p95", "refused"]


def measure(options):
    index, count = (int(part) for part in options.shard.split("/"))
    device = swr.present_device()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"attention_peers-{index}.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        chosen = shapes(options.shapes)[options.skip:][:options.count]
        for number, shape in enumerate(chosen[index::count]):
            if not options.no_tuning:
                tune(shape, options)
            swr.configure(database=options.database, l2=options.l2)
            variant = stored_variant(shape, swr.Lookup(options.database, options.l2), device)
            rows = compare(shape, variant, seed=number + 1)
            torch.cuda.empty_cache()
            writer.writerows(rows)
            file.flush()
            shown = "gb_per_s" if shape.seq_q else "ratio"
            print(shape, shown, {row["who"]: row.get(shown, "refused") for row in rows}, flush=True)


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def summarise(paths):
    """One Markdown table per peer: TFLOP/s of swr and the ratio to the peer, by shape."""
    rows = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            rows += [row for row in csv.DictReader(file) if row["median_us"]]

    def key(row):
        return tuple(row.get(field.name, "0") for field in dataclasses.fields(Shape))

    own = {key(row): row for row in rows if row["who"] == "swr"}
    for peer in PEERS:
        theirs = {key(row): row for row in rows if row["who"] == peer}
        print(f"\n## swr over {peer}\n")
        table = collections.defaultdict(dict)
        for shape, row in theirs.items():
            heads = f"{row['heads']}/{row['kv_heads']}"
            mask = "causal" if row["causal"] == "True" else "none"
            line = (int(row["head_dim"]), heads, mask, row["dtype"])
            table[line][int(row["seq"])] = f"{float(own[shape]['tflops']):.0f} ({float(row['ratio']):.2f})"
        lengths = sorted({seq for line in table.values() for seq in line})
        print("| D | heads | mask | type | " + " | ".join(f"S {seq}" for seq in lengths) + " |")
        print("|---" * (4 + len(lengths)) + "|")
        for line in sorted(table):
            cells = [str(part) for part in line] + [table[line].get(seq, "") for seq in lengths]
            print("| " + " | ".join(cells) + " |")
        ratios = [float(row["ratio"]) for row in theirs.values()]
        if ratios:
            print(f"\n{len(ratios)} shapes: geometric mean {geometric_mean(ratios):.3f}, lowest "
                  f"{min(ratios):.3f}, highest {max(ratios):.3f}")


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", type=pathlib.Path, help="swr-tune's database; made if missing")
    parser.add_argument("--out", type=pathlib.Path, help="directory for the CSV")
    parser.add_argument("--shapes", default="all", choices=("grid", "beyond", "all", "decode"))
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of the first shapes")
    parser.add_argument("--count", type=int, help="so many shapes after those [all]")
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th shape from the I-th on")
    parser.add_argument("--no-tuning", action="store_true", help="take what the database holds")
    parser.add_argument("--l2", default="warm", choices=("warm", "cold"), help="when tuning")
    parser.add_argument("--tune-arguments", default="--strategy model", help="for swr-tune")
    parser.add_argument("--summarise", nargs="+", metavar="CSV", help="print tables of CSV files")
    options = parser.parse_args()
    if not options.summarise and not (options.database and options.out):
        parser.error("name --database and --out, or CSV files to --summarise")
    return options


if __name__ == "__main__":
    OPTIONS = parsed_arguments()
    if OPTIONS.summarise:
        summarise(OPTIONS.summarise)
        sys.exit(0)
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import swr
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
    from gpu_timing import graph_of, sample_in_turns
    DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
    with torch.no_grad():
        measure(OPTIONS)
