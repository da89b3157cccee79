# SPDX-License-Identifier: MIT
"""vLLM on swr beside vLLM on FlashAttention: tokens, then times in turns.
    python3 compare.py FOLDER MODEL... [--rounds 5] [--soak REQUESTS]"""

import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

import models

HERE = pathlib.Path(__file__).parent
BACKENDS = ("FLASH_ATTN", "CUSTOM")
OPTIONS = {"max_model_len": 8704, "max_num_seqs": 128, "max_num_batched_tokens": 8192,
           "gpu_memory_utilization": 0.45, "kv_cache_memory_bytes": 8 << 30,
           "enable_prefix_caching": True, "enable_chunked_prefill": True,
           "compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 128]}}

# A cache that does not hold all that runs at a time.
OF_SOAK = {"max_model_len": 512, "kv_cache_memory_bytes": 6 << 20, "disable_log_stats": False}


class Process:
    def __init__(self, path, backend, options, log):
        self.child = subprocess.Popen(
            [sys.executable, str(HERE / "engine.py"), path, backend, json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"the engine ended: {self.child.wait()}")
        return json.loads(line)

    def tell(self, do, **arguments):
        print(json.dumps({"do": do, **arguments}), file=self.child.stdin, flush=True)

    def ask(self, do, **arguments):
        self.tell(do, **arguments)
        return self.answer()

    def close(self):
        self.child.stdin.close()
        self.child.wait(60)


def prompts_of(lengths, seed, shared=0):
    draw = random.Random(seed)
    prefix = [draw.randrange(3, 32000) for _ in range(shared)]
    return [prefix + [draw.randrange(3, 32000) for _ in range(n)] for n in lengths]


def parting(first, second):
    """Of one sequence: steps compared, the largest difference of a logarithm that both engines give
    of one token after the same tokens, and the gap of the two best where they part, if they do."""
    steps = next((j for j, (a, b) in enumerate(zip(first["tokens"], second["tokens"])) if a != b),
                 len(first["tokens"]))
    common = min(steps + 1, len(first["tokens"]))
    tables = [[dict(map(tuple, step)) for step in e["logprobs"][:common]] for e in (first, second)]
    noise = max(abs(a[t] - b[t]) for a, b in zip(*tables) for t in a.keys() & b.keys())
    if steps == common:
        return common, noise, None
    best = sorted(tables[0][steps].values())[-2:]
    is_second = second["tokens"][steps] in tables[0][steps]
    return common, noise, best[1] - best[0] if is_second else math.inf


def compare_tokens(engines, name):
    """Greedy tokens of both. They may part where the gap of the two best is within what differs
    between the two engines anyway."""
    draw = random.Random(5)
    kinds = {
        "64 prompts of 1 to 3000 tokens": prompts_of([draw.randrange(1, 3000) for _ in range(64)], 1),
        "8 prompts of 8000, in chunks": prompts_of([8000] * 8, 2),
        "32 prompts with 2048 tokens in common": prompts_of([64] * 32, 3, shared=2048),
        "the same again, from the prefix cache": prompts_of([64] * 32, 3, shared=2048),
        "one prompt of 700": prompts_of([700], 4)}
    all_right = True
    for kind, prompts in kinds.items():
        answers = [e.ask("generate", prompts=prompts, tokens=48, logprobs=2) for e in engines]
        found = [parting(*({"tokens": a["tokens"][i], "logprobs": a["logprobs"][i]} for a in answers))
                 for i in range(len(prompts))]
        gaps = [gap for _, _, gap in found if gap is not None]
        noise = max(noise for _, noise, _ in found)
        right = noise < 0.2 and all(gap <= 2 * noise for gap in gaps)
        all_right &= right
        print(f"tokens | {name} | {kind} | {sum(steps for steps, _, _ in found)} | {len(gaps)} of "
              f"{len(prompts)} | {max(gaps, default=0.0):.4f} | {noise:.4f} | "
              f"{'right' if right else 'WRONG'}", flush=True)
    return all_right


def soak(engines, name, count, folder):
    """Requests that come, are cancelled and preempted at random: those that ended in both engines have
    the same tokens but for ties."""
    paths = [pathlib.Path(folder) / f"soak.{backend}" for backend in BACKENDS]
    for at, (engine, path) in enumerate(zip(engines, paths)):
        engine.tell("soak", count=count, seed=at, path=str(path))
    for backend, engine in zip(BACKENDS, engines):
        print(f"soak | {name} | {backend} | {engine.answer()}", flush=True)
    ended = []
    for path in paths:
        with open(path) as lines:
            ended.append({number: {"tokens": tokens, "logprobs": best}
                          for number, tokens, best in map(json.loads, lines)})
    found = [parting(ended[0][i], ended[1][i]) for i in ended[0].keys() & ended[1].keys()]
    gaps = [gap for _, _, gap in found if gap is not None]
    noise = sorted(noise for _, noise, _ in found)
    right = noise[-1] < 0.3 and all(gap <= 2 * noise[-1] for gap in gaps)
    print(f"soak | {name} | {len(found)} of {count} ended in both | {sum(n for n, _, _ in found)} tokens | "
          f"{len(gaps)} part | largest gap {max(gaps, default=0.0):.4f} | logarithms differ by "
          f"{noise[-1]:.4f}, at the median {noise[len(noise) // 2]:.4f} | "
          f"{'right' if right else 'WRONG'}", flush=True)
    return right


WORKLOADS = {  # Prompts, their length, tokens in common, tokens to generate.
    "decode, batch 1": (1, 2048, 0, 128), "decode, batch 16": (16, 2048, 0, 128),
    "decode, batch 128": (128, 1024, 0, 128), "prompts of 4096": (12, 4096, 0, 1),
    "shared prefix of 4096": (64, 128, 4096, 32)}


def time_in_turns(engines, name, rounds):
    for kind, (count, length, shared, tokens) in WORKLOADS.items():
        times = {backend: [] for backend in BACKENDS}
        for turn in range(rounds + 1):
            prompts = prompts_of([length] * count, 100 + turn, shared)
            for at in random.Random(turn).sample(range(2), 2):
                engines[at].ask("forget")
                seconds = engines[at].ask("generate", prompts=prompts, tokens=tokens)["seconds"]
                if turn > 0:  # The first warms up.
                    times[BACKENDS[at]].append(seconds)
        peer, ours = (statistics.median(times[backend]) for backend in BACKENDS)
        print(f"times | {name} | {kind} | FLASH_ATTN {peer * 1e3:.1f} ms | swr {ours * 1e3:.1f} ms | "
              f"{peer / ours:.3f} | {[round(t * 1e3, 1) for t in times['FLASH_ATTN']]} "
              f"{[round(t * 1e3, 1) for t in times['CUSTOM']]}", flush=True)


def run(name, folder, rounds, soak_count):
    path = models.write(name, folder)
    logs = [open(pathlib.Path(folder) / f"{name}.{backend}.log", "w") for backend in BACKENDS]
    options = {**OPTIONS, **OF_SOAK} if soak_count else OPTIONS
    engines = [Process(path, backend, options, log) for backend, log in zip(BACKENDS, logs)]
    for backend, engine in zip(BACKENDS, engines):
        ready = engine.answer()
        print(f"start | {name} | {backend} | {ready['ready']:.1f} s | {ready['backends']}", flush=True)
    if soak_count:
        right = soak(engines, name, soak_count, folder)
    else:
        right = compare_tokens(engines, name)
        time_in_turns(engines, name, rounds)
    for engine in engines:
        engine.close()
    return right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--soak", type=int, default=0, help="requests, in place of tokens and times")
    given = parser.parse_args()
    pathlib.Path(given.folder).mkdir(parents=True, exist_ok=True)
    right = [run(name, given.folder, given.rounds, given.soak) for name in given.models]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
