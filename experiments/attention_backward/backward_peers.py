#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attention backward through swr.sdpa on the GPU present.

    PYTHONPATH=python SWR_LIBRARY=BUILD/capi/libswr.so.1 SWR_TUNE=BUILD/tuner/cli/swr-tune \\
        experiments/attention_backward/backward_peers.py WHAT --out OUT_DIR --seconds N [--database DB]

random   random problems against autograd in fp64; each that is wrong is printed
repeat   100 deterministic launches of a shape equal to the bit, and what another process found
peers    beside cuDNN and FlashAttention-2 through torch and, where it is installed, FlashAttention-4: backward
         alone, each in a CUDA graph, in turns, in an order drawn anew each round. TFLOP/s of five products;
         causal counts half. All shapes as they are served without tuning, then, while time is left, again
         with each tuned
train    a decoder of 6 layers on random data with swr and with torch's back ends, from one seed

Each writes OUT_DIR/backward_WHAT.csv, ends with 1 when something is wrong, and begins nothing new once
--seconds have passed.
"""

import argparse
import csv
import hashlib
import itertools
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import traceback

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import swr

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_timing import elapsed_us, graph_of, sample_in_turns  # noqa: E402

try:  # flash-attn-4 of PyPI, with kernels for Hopper. It compiles each when it is first asked for.
    from flash_attn.cute import flash_attn_func
except ImportError:
    flash_attn_func = None

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# Half a unit in the last place, relative, and how many of them an error may have of the sizes below: of one
# row, of a whole gradient. tests/support/attention_reference.h says why.
UNITS = {"fp16": 2.0 ** -11, "bf16": 2.0 ** -8}
OF_ROW, OF_ALL = 3.0, 2.0


class Table:
    """Rows of a CSV file, written as they come."""

    def __init__(self, path, columns):
        self.path, self.columns = path, columns
        self.write("w", lambda writer: writer.writeheader())

    def write(self, mode, what):
        with open(self.path, mode, newline="", encoding="utf-8") as file:
            what(csv.DictWriter(file, self.columns, restval=""))

    def add(self, **row):
        self.write("a", lambda writer: writer.writerow(row))
        print(row, flush=True)


def tensors(batch, heads, kv_heads, seq, kv_seq, head_dim, dtype):
    """Q, K, V of strides of [B, S, H, D], and dO."""
    def normal(count, length):
        return torch.randn(batch, length, count, head_dim, device="cuda",
                           dtype=DTYPES[dtype]).transpose(1, 2)
    return [normal(heads, seq).requires_grad_(), normal(kv_heads, kv_seq).requires_grad_(),
            normal(kv_heads, kv_seq).requires_grad_(), normal(heads, seq)]


def math_attention(q, k, v, causal):
    """One operation after the other in the type of the inputs, the mask aligned to the bottom right."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        rows = torch.arange(q.shape[2], device=q.device)[:, None]
        keys = torch.arange(k.shape[2], device=q.device)[None, :]
        hidden = keys > rows + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(hidden, float("-inf"))
        # Rows that see no key give zeros, and nothing to anybody.
        empty = hidden.all(-1, keepdim=True)
        return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0) @ v
    return scores.softmax(-1) @ v


def gradients(function, q, k, v, d_o):
    return torch.autograd.grad(function(q, k, v), (q, k, v), d_o)


def sizes_of(q, k, v, d_o, exact, causal):
    """Of each row of dQ, dK and dV, in fp64, the size of the terms that rounding errors are relative to: the
    gradient's, those of the sum it is, and what a rounded O leaves in rowsum(dO * O), which stays where
    P (dP - rowsum) cancels."""
    groups, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    q, d_o = q.detach().double(), d_o.double()
    k, v = (t.detach().double().repeat_interleave(groups, 1) for t in (k, v))
    # Identity in place of V: the probabilities.
    keys = torch.eye(k.shape[2], dtype=q.dtype, device=q.device).expand(*k.shape[:2], -1, -1)
    p = math_attention(q, k, keys, causal)
    o = p @ v
    ds = scale * p * (d_o @ v.mT - (d_o * o).sum(-1, keepdim=True))
    of_delta = scale ** 2 * ((d_o * o) ** 2).sum(-1, keepdim=True)

    def squares(tensor):
        return (tensor ** 2).sum(-1, keepdim=True)

    def over_groups(terms):
        return terms.unflatten(1, (-1, groups)).sum(2)
    terms = (ds ** 2 @ squares(k) + of_delta * squares(p @ k),
             over_groups((ds ** 2 + of_delta * p ** 2).mT @ squares(q)),
             over_groups((p ** 2).mT @ squares(d_o)))
    # Below its least normal number fp16 rounds by as much as there.
    return [(of_terms + squares(g) + g.shape[-1] * 2.0 ** -28).sqrt() for of_terms, g in zip(terms, exact)]


def errors_in(found, exact, sizes, unit):
    """Units that the whole gradient is off, and its worst row."""
    off = ((found.double() - exact) ** 2).sum(-1, keepdim=True).sqrt()
    errors = ((off.norm() / sizes.norm()).item() / unit, (off / sizes).max().item() / unit)
    return tuple(error if math.isfinite(error) else math.inf for error in errors)


def relative_error(found, other):
    """Of two gradients beside each other; says little where they cancel."""
    error = ((found.double() - other.double()).norm() / other.double().norm().clamp_min(1e-30)).item()
    return error if math.isfinite(error) else math.inf


def run_random(options):
    table = Table(options.out / "backward_random.csv", [
        "problems", "wrong", "head_dim", "dtype", "causal", "deterministic", "units_dq", "units_dk",
        "units_dv", "units_of_row", "units_of_row_of_torch"])
    draw = random.Random(1)
    kinds = list(itertools.product((64, 128, 96, 256, 32), DTYPES, (False, True), (False, True)))
    wrong_of_all = problems_of_all = 0
    for number, (head_dim, dtype, causal, deterministic) in enumerate(kinds):
        share = options.begun + options.seconds * (number + 1) / len(kinds)
        worst, worst_row, worst_of_torch, wrong, problems = [0.0] * 3, 0.0, 0.0, 0, 0
        while problems < options.count // len(kinds) and (problems == 0 or time.time() < share):
            kv_heads = draw.choice((1, 2, 3))
            seq = draw.choice((draw.randint(1, 40), draw.randint(1, 500), 128 * draw.randint(1, 4)))
            kv_seq = draw.choice((seq, draw.randint(1, 500)))
            shape = (draw.choice((1, 2)), kv_heads * draw.choice((1, 2, 4)), kv_heads, seq, kv_seq)
            seed = 1000 * number + problems
            torch.manual_seed(seed)
            q, k, v, d_o = tensors(*shape, head_dim, dtype)
            torch.use_deterministic_algorithms(deterministic)
            found = gradients(lambda *t: swr.sdpa(*t, causal=causal), q, k, v, d_o)
            torch.use_deterministic_algorithms(False)
            exact = gradients(lambda *t: math_attention(*t, causal), q.detach().double().requires_grad_(),
                              k.detach().double().requires_grad_(), v.detach().double().requires_grad_(),
                              d_o.double())
            theirs = gradients(lambda *t: math_attention(*t, causal), q, k, v, d_o)
            sizes = sizes_of(q, k, v, d_o, exact, causal)
            errors, of_torch = ([errors_in(*one, UNITS[dtype]) for one in zip(all_three, exact, sizes)]
                                for all_three in (found, theirs))
            if any(of_all > OF_ALL or of_row > OF_ROW for of_all, of_row in errors):
                wrong += 1
                print("WRONG:", dict(zip(("batch", "heads", "kv_heads", "seq", "kv_seq"), shape),
                                     head_dim=head_dim, dtype=dtype, causal=causal,
                                     deterministic=deterministic, seed=seed),
                      "units of dQ, dK, dV and their worst rows:", errors, "torch's:", of_torch, flush=True)
            worst = [max(most, of_all) for most, (of_all, _) in zip(worst, errors)]
            worst_row = max(worst_row, *(of_row for _, of_row in errors))
            worst_of_torch = max(worst_of_torch, *(of_row for _, of_row in of_torch))
            problems += 1
        table.add(problems=problems, wrong=wrong, head_dim=head_dim, dtype=dtype, causal=causal,
                  deterministic=deterministic, units_of_row=f"{worst_row:.2f}",
                  units_of_row_of_torch=f"{worst_of_torch:.2f}",
                  **{"units_" + name: f"{one:.2f}" for name, one in zip(("dq", "dk", "dv"), worst)})
        wrong_of_all += wrong
        problems_of_all += problems
    print(f"{problems_of_all} random problems, {wrong_of_all} wrong")
    return wrong_of_all


def digest_of(gradient):
    return hashlib.sha256(gradient.contiguous().view(torch.uint8).cpu().numpy()).hexdigest()[:16]


def repeat_shapes():
    return [(128, True, 16, 16, 4096), (128, False, 16, 4, 4096), (64, True, 16, 16, 4096),
            (96, False, 16, 16, 2048), (256, True, 8, 8, 4096)]


def run_repeat(options):
    table = Table(options.out / "backward_repeat.csv",
                  ["head_dim", "causal", "heads", "kv_heads", "seq", "launches", "different", "digest"])
    torch.use_deterministic_algorithms(True)
    different_of_all = 0
    for head_dim, causal, heads, kv_heads, seq in repeat_shapes():
        torch.manual_seed(3)
        q, k, v, d_o = tensors(1, heads, kv_heads, seq, seq, head_dim, "bf16")
        out = swr.sdpa(q, k, v, causal=causal)
        first = torch.autograd.grad(out, (q, k, v), d_o, retain_graph=True)
        launches = 1 if options.once else 100
        different = 0
        for _ in range(launches - 1):
            again = torch.autograd.grad(out, (q, k, v), d_o, retain_graph=True)
            different += not all(torch.equal(a, b) for a, b in zip(first, again))
        table.add(head_dim=head_dim, causal=causal, heads=heads, kv_heads=kv_heads, seq=seq,
                  launches=launches, different=different,
                  digest=" ".join(digest_of(gradient) for gradient in first))
        different_of_all += different
    if not options.once:
        different_of_all += differs_in_another_process(options)
    return different_of_all


def differs_in_another_process(options):
    def digests(path):
        with open(path, newline="", encoding="utf-8") as file:
            return [row["digest"] for row in csv.DictReader(file)]
    other = options.out / "other_process"
    other.mkdir(exist_ok=True)
    arguments = ["--database", str(options.database)] if options.database else []
    subprocess.run([sys.executable, __file__, "repeat", "--once", "--out", str(other), *arguments],
                   check=True)
    equal = digests(other / "backward_repeat.csv") == digests(options.out / "backward_repeat.csv")
    print("another process:", "equal to the bit" if equal else "OTHER BITS")
    return not equal


def contenders(q, k, v, d_o, causal):
    """Name to what makes its backward alone. Forward is run by the maker, on the current stream."""
    def of_forward(forward):
        out = forward()
        return lambda: torch.autograd.grad(out, (q, k, v), d_o, retain_graph=True)

    def of_swr(deterministic):
        torch.use_deterministic_algorithms(deterministic)  # Read by forward alone.
        try:
            return of_forward(lambda: swr.sdpa(q, k, v, causal=causal))
        finally:
            torch.use_deterministic_algorithms(False)

    def of_torch(backend):
        with sdpa_kernel(backend):
            return of_forward(lambda: functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]))

    def of_flash_4():
        rows_first = (tensor.transpose(1, 2) for tensor in (q, k, v))
        return of_forward(lambda: flash_attn_func(*rows_first, causal=causal)[0].transpose(1, 2))
    makers = {"swr": lambda: of_swr(False), "swr deterministic": lambda: of_swr(True),
              "cudnn": lambda: of_torch(SDPBackend.CUDNN_ATTENTION),
              "flash": lambda: of_torch(SDPBackend.FLASH_ATTENTION)}
    return makers | ({"flash 4": of_flash_4} if flash_attn_func else {})


def peer_shapes():
    """The most asked first: (head_dim, batch, heads, kv_heads, seq)."""
    shapes = [(128, 1, 64, 8, 16384), (128, 4, 16, 16, 4096), (64, 4, 16, 16, 4096),
              (128, 16, 16, 16, 1024), (256, 4, 16, 16, 4096), (96, 4, 16, 16, 4096),
              (128, 1, 16, 16, 16384), (64, 1, 16, 16, 16384), (128, 32, 16, 16, 512),
              (128, 1, 64, 8, 4096), (256, 1, 16, 16, 16384), (128, 1, 16, 16, 32768)]
    return [(causal, *shape) for shape in shapes for causal in (True, False)]


def pairs_of(numbered):
    _, (causal, _, batch, heads, _, seq) = numbered
    return batch * heads * seq ** 2 * (0.5 if causal else 1.0)


def tune(options, causal, head_dim, batch, heads, kv_heads, seq):
    """Whether both kinds of kernel are tuned now, within the time."""
    for extra in ([], ["--deterministic"]):
        left = options.begun + options.seconds - time.time()
        try:
            subprocess.run([os.environ["SWR_TUNE"], "--op", "attention_backward", "--batch", str(batch),
                            "--heads", str(heads), "--kv-heads", str(kv_heads), "--seq", str(seq),
                            "--head-dim", str(head_dim), "--dtype", "bf16",
                            *(["--causal"] if causal else []), *extra, "--db", str(options.database),
                            "--quiet", *options.tune_arguments.split()],
                           check=True, stdout=subprocess.DEVNULL, timeout=max(1.0, left))
        except (subprocess.SubprocessError, OSError) as error:
            print("not tuned:", error, flush=True)
            return False
    swr.configure(database=options.database)
    return True


class Launches:
    """Stands for a graph of so many calls."""

    def __init__(self, call, count):
        self.call, self.count = call, count

    def replay(self):
        for _ in range(self.count):
            self.call()


def repeated(call, graphs):
    """A graph of some calls and their number; plain launches where no graph is wanted or can be captured."""
    graph_us, most = 2000.0, 16
    try:
        if graphs:
            return graph_of(call, graph_us=graph_us, most=most)
    except RuntimeError:
        traceback.print_exc()
    call()
    count = max(1, min(most, round(graph_us / elapsed_us(call))))
    return Launches(call, count), count


def timed_backwards(options, number, shape):
    """Of every contender: microseconds of each round, its gradients, whether they were launched in a graph;
    what failed, and why."""
    torch.manual_seed(number)
    q, k, v, d_o = tensors(shape["batch"], shape["heads"], shape["kv_heads"], shape["seq"], shape["seq"],
                           shape["head_dim"], "bf16")
    calls, graphs, found, failed = {}, {}, {}, {}
    for name, make in contenders(q, k, v, d_o, shape["causal"]).items():
        try:
            # Kept until all are timed: a graph reads what its forward left, and does not hold it.
            calls[name] = make()
            found[name] = calls[name]()
            graphs[name] = repeated(calls[name], options.graphs)
        except Exception as error:  # noqa: BLE001: the others' times count without this one's.
            failed[name] = (str(error) or repr(error)).splitlines()[0]
            traceback.print_exc()
    plain = [name for name, (graph, _) in graphs.items() if isinstance(graph, Launches)]
    return sample_in_turns(graphs, options.rounds, number), found, plain, failed


def compare_peers(options, table, number, shape, tuned, ratios):
    """Adds the rows of a shape. The number of swr's kernels that failed or are far from the others'."""
    samples, found, plain, failed = timed_backwards(options, number, shape)
    for name, why in failed.items():
        table.add(**shape, who=name, tuned=tuned, refused=why)
    pairs = shape["batch"] * shape["heads"] * shape["seq"] ** 2 * (0.5 if shape["causal"] else 1.0)
    wrong = sum(name.startswith("swr") for name in failed)
    for name, times in samples.items():
        median = statistics.median(times)
        row = {"median_us": f"{median:.1f}", "launched": "plain" if name in plain else "graph",
               "tflops": f"{10.0 * pairs * shape['head_dim'] / median / 1e6:.1f}"}
        if "swr" in samples:
            ratio = statistics.median(t / own for t, own in zip(times, samples["swr"]))
            off = max(relative_error(a, b) for a, b in zip(found[name], found["swr"]))
            row |= {"ratio": f"{ratio:.4f}", "off_swr": f"{off:.1e}"}
            ratios.setdefault((tuned, name), []).append(ratio)
            wrong += off > 2e-2
        table.add(**shape, who=name, tuned=tuned, **row)
    return wrong


def run_peers(options):
    table = Table(options.out / "backward_peers.csv", [
        "head_dim", "batch", "heads", "kv_heads", "seq", "causal", "tuned", "who", "launched", "median_us",
        "tflops", "ratio", "off_swr", "refused"])
    tunes = bool(options.database and os.environ.get("SWR_TUNE")) and not options.no_tuning
    ratios, wrong = {}, 0
    shapes = [(number, shape) for number, shape in enumerate(peer_shapes())
              if not options.head_dims or str(shape[1]) in options.head_dims.split(",")]
    # Tuning verifies in fp64, which takes long for what is large.
    passes = [(False, shapes)] + [(True, sorted(shapes, key=pairs_of))] * tunes
    # Not the default stream, which no graph is captured on.
    with torch.cuda.stream(torch.cuda.Stream()):
        for tuned, (number, (causal, *sizes)) in ((tuned, one) for tuned, all_shapes in passes
                                                  for one in all_shapes):
            if ratios and time.time() > options.begun + options.seconds:
                print("stopped, the time has passed, before", causal, sizes, "tuned" if tuned else "as served")
                break
            if tuned and not tune(options, causal, *sizes):
                continue
            shape = dict(zip(("head_dim", "batch", "heads", "kv_heads", "seq"), sizes), causal=causal)
            wrong += compare_peers(options, table, number, shape, tuned, ratios)
            torch.cuda.empty_cache()
    for (tuned, name), all_ratios in ratios.items():
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in all_ratios))
        print(f"{name}{', swr tuned' if tuned else ''}: time over swr's, geometric mean {mean:.3f}, "
              f"lowest {min(all_ratios):.3f}, highest {max(all_ratios):.3f}, {len(all_ratios)} shapes")
    return wrong or not ratios


class Decoder(torch.nn.Module):
    """Pre-normalised layers of causal attention and a gated-free MLP; random data, a linear head."""

    def __init__(self, attention, width=1024, heads=8, layers=6, words=4096):
        super().__init__()
        self.attention, self.heads = attention, heads
        linear = torch.nn.Linear
        self.embedding = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(torch.nn.ModuleDict({
            "norm1": torch.nn.LayerNorm(width), "qkv": linear(width, 3 * width),
            "out": linear(width, width), "norm2": torch.nn.LayerNorm(width),
            "up": linear(width, 4 * width), "down": linear(4 * width, width)}) for _ in range(layers))
        self.head = linear(width, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            split = layer["qkv"](layer["norm1"](x)).unflatten(-1, (3, self.heads, -1))
            q, k, v = (split[:, :, i].transpose(1, 2) for i in range(3))
            x = x + layer["out"](self.attention(q, k, v).transpose(1, 2).flatten(2))
            x = x + layer["down"](functional.gelu(layer["up"](layer["norm2"](x))))
        return self.head(x)


def train(attention, steps):
    """Losses, and milliseconds a step."""
    torch.manual_seed(5)
    model = Decoder(attention).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    # Few sequences, seen again and again, so that there is something to learn.
    data = torch.randint(0, 4096, (16, 1025), device="cuda", generator=torch.Generator(
        "cuda").manual_seed(6))
    losses, begun = [], 0.0
    for step in range(steps):
        if step == steps // 10:
            torch.cuda.synchronize()
            begun = time.time()
        batch = data[step % 4 * 4:step % 4 * 4 + 4]
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    return torch.stack(losses).tolist(), (time.time() - begun) * 1e3 / (steps - steps // 10)


def run_train(options):
    table = Table(options.out / "backward_train.csv", ["who", "run", "step", "loss", "ms_per_step"])

    def of_torch(backend):
        def attention(q, k, v):
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return attention
    runs = {"swr": lambda *t: swr.sdpa(*t, causal=True), "swr deterministic": None,
            "flash": of_torch(SDPBackend.FLASH_ATTENTION),
            "cudnn": of_torch(SDPBackend.CUDNN_ATTENTION)}
    curves = {}
    for run, (who, attention) in itertools.product(range(2), runs.items()):
        if time.time() > options.begun + options.seconds:
            break
        torch.use_deterministic_algorithms(attention is None, warn_only=True)
        losses, ms = train(attention or runs["swr"], options.steps)
        torch.use_deterministic_algorithms(False)
        curves.setdefault(who, []).append(losses)
        for step in range(0, options.steps, max(1, options.steps // 10)):
            table.add(who=who, run=run, step=step, loss=f"{losses[step]:.5f}", ms_per_step=f"{ms:.2f}")
        table.add(who=who, run=run, step=options.steps - 1, loss=f"{losses[-1]:.5f}",
                  ms_per_step=f"{ms:.2f}")
    both = curves.get("swr deterministic", [])
    if len(both) == 2:
        print("deterministic training repeats to the bit:", both[0] == both[1])
        return both[0] != both[1]
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("random", "repeat", "peers", "train"))
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--database", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10000, help="random problems at most")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--head-dims", help="peers of these alone, with a comma between")
    parser.add_argument("--steps", type=int, default=500, help="of training")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-graphs", action="store_false", dest="graphs", help="time plain launches")
    parser.add_argument("--no-tuning", action="store_true", help="take what the database holds")
    parser.add_argument("--tune-arguments", default="--strategy model --budget 8")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.begun = time.time()
    if options.database:
        swr.configure(database=options.database if options.database.exists() else None)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    failed = {"random": run_random, "repeat": run_repeat, "peers": run_peers, "train": run_train}[
        options.what](options)
    print(f"{options.what}: {time.time() - options.begun:.0f} s, "
          f"{'something is wrong' if failed else 'nothing wrong'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
