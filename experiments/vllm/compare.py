# SPDX-License-Identifier: MIT
"""vLLM on swr beside vLLM on FlashAttention: tokens, then times in turns.
    python3 compare.py FOLDER MODEL... --do tokens times soak"""

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys

import models

HERE = pathlib.Path(__file__).parent
SPECULATIVE = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3,
               "prompt_lookup_min": 1}
SMALL_CACHE = {"kv_cache_memory_bytes": 3 << 30}
NGRAM = {"speculative_config": SPECULATIVE, "disable_log_stats": False, **SMALL_CACHE}
FP8 = {"quantization": "fp8"}
LAYERS = {"SWR_VLLM_LINEAR": "1"}
# By name: the back end, options and variables of the environment.
CONTENDERS = {
    "FLASH_ATTN": ("FLASH_ATTN", {}, {}), "swr": ("CUSTOM", {}, {}),
    "TRITON_ATTN": ("TRITON_ATTN", {}, {}),  # How much two of vLLM's own differ.
    "FLASHINFER": ("FLASHINFER", {"kernel_config": {"enable_flashinfer_autotune": False}}, {}),
    "swr, pages of 16": ("CUSTOM", {"block_size": 16}, {}),
    "swr, linear layers too": ("CUSTOM", {}, LAYERS),
    # Layers of FP8 are CUTLASS's unless it is said whose. The controls have nothing of swr.
    "FLASH_ATTN, FP8": ("FLASH_ATTN", FP8, {}),
    "FLASH_ATTN, FP8 by PyTorch": ("FLASH_ATTN", {**FP8, "kernel_config": {"linear_backend": "torch"}}, {}),
    "TRITON_ATTN, FP8": ("TRITON_ATTN", FP8, {}),
    "FLASH_ATTN, FP8 by swr": ("FLASH_ATTN", FP8, LAYERS),
    "swr, FP8": ("CUSTOM", FP8, {}),
    "swr, FP8 layers": ("CUSTOM", FP8, LAYERS),
    # The same numbers as weights of bf16, so that activations are not rounded to FP8.
    "FLASH_ATTN, weights of FP8": ("FLASH_ATTN", {}, {"SWR_FILL": "fp8"}),
    # Of prompts that repeat themselves, a few.
    "FLASH_ATTN, ngram": ("FLASH_ATTN", NGRAM, {}), "swr, ngram": ("CUSTOM", NGRAM, {})}
OPTIONS = {"max_model_len": 8704, "max_num_seqs": 128, "max_num_batched_tokens": 8192,
           "gpu_memory_utilization": 0.1, "enable_prefix_caching": True, "enable_chunked_prefill": True,
           "compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 128]}}

# A cache that does not hold all that runs at a time.
OF_SOAK = {"max_model_len": 512, "kv_cache_memory_bytes": 8 << 20, "disable_log_stats": False,
           "max_num_seqs": 256, "block_size": 16,
           "compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 128, 256]}}


class Process:
    def __init__(self, label, path, options, log):
        backend, own, variables = CONTENDERS[label]
        self.label = label
        self.child = subprocess.Popen(
            [sys.executable, str(HERE / "engine.py"), path, backend, json.dumps({**options, **own})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, **variables})

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
    one token after the same tokens, and where they part, if they do, how far the second engine's token
    is from the best in the first."""
    steps = next((j for j, (a, b) in enumerate(zip(first["tokens"], second["tokens"])) if a != b),
                 len(first["tokens"]))
    common = min(steps + 1, len(first["tokens"]))
    tables = [[dict(map(tuple, step)) for step in e["logprobs"][:common]] for e in (first, second)]
    noise = max(abs(a[t] - b[t]) for a, b in zip(*tables) for t in a.keys() & b.keys())
    if steps == common:
        return common, noise, None
    other = tables[0][steps].get(second["tokens"][steps], -math.inf)
    return common, noise, max(tables[0][steps].values()) - other


def right_of(found):
    """Whether all part where the two best are as near as the engines are, and how that is said."""
    gaps = [gap for _, _, gap in found if gap is not None]
    noise = sorted(noise for _, noise, _ in found)
    right = noise[-1] < 0.5 and all(gap <= 2 * noise[-1] for gap in gaps)
    return right, (f"{sum(steps for steps, _, _ in found)} tokens | {len(gaps)} of {len(found)} part | "
                   f"largest gap {max(gaps, default=0.0):.4f} | logarithms differ by {noise[-1]:.4f}, at "
                   f"the median {noise[len(noise) // 2]:.4f} | {'right' if right else 'WRONG'}")


def compare_tokens(engines, name):
    """Greedy tokens of all beside those of the first."""
    draw = random.Random(5)
    kinds = {
        "64 prompts of 1 to 3000 tokens": prompts_of([draw.randrange(1, 3000) for _ in range(64)], 1),
        "8 prompts of 8000, in chunks": prompts_of([8000] * 8, 2),
        "32 prompts with 2048 tokens in common": prompts_of([64] * 32, 3, shared=2048),
        "the same again, from the prefix cache": prompts_of([64] * 32, 3, shared=2048),
        "one prompt of 700": prompts_of([700], 4)}
    all_right = True
    for kind, prompts in kinds.items():
        answers = [e.ask("generate", prompts=prompts, tokens=48, logprobs=8) for e in engines]
        rows = [[{"tokens": a["tokens"][i], "logprobs": a["logprobs"][i]} for i in range(len(prompts))]
                for a in answers]
        for engine, row in zip(engines[1:], rows[1:]):
            right, text = right_of([parting(*pair) for pair in zip(rows[0], row)])
            all_right &= right
            print(f"tokens | {name} | {engine.label} | {kind} | {text}", flush=True)
    return all_right


def soak(engines, name, given):
    """Requests that come, are cancelled and preempted at random: those that ended in both engines have
    the same tokens but for ties. A process is both engine and model, which spares time."""
    paths = [pathlib.Path(given.folder) / f"soak.{i}" for i in range(len(engines))]
    for at, (engine, path) in enumerate(zip(engines, paths)):
        engine.tell("soak", count=given.requests, seconds=given.seconds, seed=at, path=str(path),
                    generated=given.generated)
    for engine in engines:
        print(f"soak | {name} | {engine.label} | {engine.answer()}", flush=True)
    ended = []
    for path in paths:
        with open(path) as lines:
            ended.append({number: {"tokens": tokens, "logprobs": best}
                          for number, tokens, best in map(json.loads, lines)})
    both = ended[0].keys() & ended[1].keys()
    equal = sum(ended[0][i]["tokens"] == ended[1][i]["tokens"] for i in both)
    print(f"soak | {name} | {len(both)} requests ended in both, {equal} with the same tokens", flush=True)
    right, text = right_of([parting(ended[0][i], ended[1][i]) for i in both if ended[0][i]["logprobs"]])
    print(f"soak | {name} | one in 16, with logarithms | {text}", flush=True)
    return right


WORKLOADS = {  # Prompts, their length, tokens in common, tokens to generate.
    # All but the last token lies in whole pages, of 16 rows or of 64, and so in the prefix cache.
    "decode, batch 1": (1, 2049, 0, 128), "decode, batch 16": (16, 2049, 0, 128),
    "decode, batch 128": (128, 513, 0, 128), "prompts of 4096": (12, 4096, 0, 1),
    "shared prefix of 4096": (64, 128, 4096, 32)}


REPEATING = {"batch 1": (1, 2049, 128), "batch 16": (16, 2049, 128)}  # Prompts of 32 tokens, over and over.


def repeated(prompts):
    return [(prompt[:32] * len(prompt))[:len(prompt)] for prompt in prompts]


def time_in_turns(engines, name, rounds):
    """Those that speculate and those that do not, each beside FlashAttention."""
    speculate = [engine for engine in engines if engine.label.endswith("ngram")]
    others = [engine for engine in engines if engine not in speculate]
    if others:
        time_workloads(others, name, rounds, WORKLOADS)
    if speculate:
        time_workloads(speculate, name, 2 * rounds, {  # Turns differ by what is guessed right.
            f"decode, {kind}": (count, length, 0, tokens)
            for kind, (count, length, tokens) in REPEATING.items()}, repeated)


def time_workloads(engines, name, rounds, workloads, change=lambda prompts: prompts):
    for kind, (count, length, shared, tokens) in workloads.items():
        times = {engine.label: [] for engine in engines}
        for turn in range(rounds + 1):
            prompts = change(prompts_of([length] * count, 100 + turn, shared))
            for engine in random.Random(turn).sample(engines, len(engines)):
                engine.ask("forget")
                if kind.startswith("decode"):  # From then on the prompts are in the prefix cache.
                    engine.ask("generate", prompts=prompts, tokens=1)
                seconds = engine.ask("generate", prompts=prompts, tokens=tokens)["seconds"]
                if turn > 0:  # The first warms up.
                    times[engine.label].append(seconds * 1e3)
        for engine in engines:
            if engine.label.endswith("ngram"):  # Other tokens at a tie guess other tokens right.
                print(f"times | {name} | {kind} | {engine.label} | {engine.ask('guesses')}", flush=True)
        peer = statistics.median(times[engines[0].label])
        for label, of_label in times.items():
            print(f"times | {name} | {kind} | {label} | {statistics.median(of_label):.1f} ms | "
                  f"{peer / statistics.median(of_label):.3f} | {[round(t, 1) for t in of_label]}",
                  flush=True)


def start(name, given):
    """Processes, which only import vLLM until they are told to start."""
    path = models.write(name, given.layers, given.folder)
    # Times need what 128 sequences fill; tokens come from several engines at a time.
    of_layer = 380 if "times" in given.do else 256
    options = {**OPTIONS, "kv_cache_memory_bytes": given.layers * of_layer << 20}
    options = {**options, **OF_SOAK} if "soak" in given.do else options
    if "soak" in given.do:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    return [Process(label, path, options, open(f"{given.folder}/{name}.{label}.log", "w"))
            for label in given.contenders]


def run(name, engines, given):
    for engine in engines:
        ready = engine.answer()
        print(f"start | {name} | {engine.label} | {ready['seconds']:.1f} s | {ready['classes']}",
              flush=True)
    right = True
    if "tokens" in given.do:
        right &= compare_tokens(engines, name)
    if "soak" in given.do:
        right &= soak(engines, name, given)
    if "times" in given.do:
        time_in_turns(engines, name, given.rounds)
    for engine in engines:
        engine.close()
    return right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, metavar="CONTENDER",
                        default=["FLASH_ATTN", "swr"], help="the first is whom the others are beside")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--generated", type=int, default=16,
                        help="tokens of a request at most; 200 outgrow the cache, so that many are preempted")
    parser.add_argument("--do", nargs="+", choices=["tokens", "times", "soak"], default=["tokens", "times"],
                        help="soak is alone: its cache holds less than runs at a time")
    given = parser.parse_args()
    pathlib.Path(given.folder).mkdir(parents=True, exist_ok=True)
    processes = {name: start(name, given) for name in given.models}
    right, at_once = [], "times" not in given.do
    for engine in [e for engines in processes.values() for e in engines] if at_once else []:
        engine.tell("start")
    for name, engines in processes.items():
        for engine in engines if not at_once else []:
            engine.tell("start")
        right.append(run(name, engines, given))
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
