#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts what the portable attention kernels execute per K/V tile, from their machine code.

    experiments/portable_attention/instruction_mix.py --swr-tune BUILD/tuner/cli/swr-tune --nvdisasm NVDISASM [--csv FILE]

Needs no GPU: swr-tune predicts the best variant of each head_dim on each chip, and nvdisasm (of a CUDA
toolkit, or of NVIDIA's Python package nvidia-cuda-nvdisasm) shows its cubin. Counted is the loop over
K/V tiles that no mask cuts, per warp; what is executed only when a row outgrows its softmax shift, and
what only the warp executes that asks for tiles by tensor maps, is left out and listed apart.
experiments/portable_attention derives the minimum.
"""

import argparse
import collections
import csv
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile

KINDS = {
    "tensor": r"HMMA",
    "special": r"MUFU",
    "shared": r"LDSM|LDS|STS",
    "fp32": r"FFMA|FADD|FMUL|FMNMX3?|FSEL|FSETP|FSET",
    "convert": r"F2FP|F2F",
    "copy": r"LDGSTS",
    "exchange": r"SHFL|VOTE|VOTEU",
    "spill": r"LDL|STL",
    "nop": r"NOP",
}
# Beside scores, output and Q: fragments of K or V in flight, softmax state, addresses. As in
# templates/attention/config.h.
OPERAND_REGISTERS = 80
BARRED = ("tensor", "special", "shared")
INSTRUCTION = re.compile(r"/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][A-Z0-9_]*)(.*)")
LABEL = re.compile(r"^(\.L_x_\d+):")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")


@dataclasses.dataclass(frozen=True)
class Instruction:
    name: str
    target: str = ""

    def kind(self):
        return next((kind for kind, names in KINDS.items() if re.fullmatch(names, self.name)),
                    "integer and control")


def disassemble(nvdisasm, cubin):
    """The kernel's instructions, and the index that each label stands at."""
    try:
        text = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        sys.exit(f"instruction_mix: {nvdisasm} was not found: install it (nvidia-cuda-nvdisasm of PyPI has it) "
                 "or name it with --nvdisasm")
    instructions, labels = [], {}
    for line in text.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif found := INSTRUCTION.search(line):
            target = TARGET.search(found[3])
            # @!PT: never executed; the compiler puts such loads before copies.
            name = "NOP" if "@!PT" in line else found[2]
            instructions.append(Instruction(name, target[1] if target else ""))
    return instructions, labels


def main_loop(instructions, labels):
    """The instructions of the shortest loop that multiplies: that of the tiles without a mask."""
    loops = []
    for end, instruction in enumerate(instructions):
        start = labels.get(instruction.target, end)
        body = instructions[start:end + 1]
        if instruction.name == "BRA" and start < end and any(i.name == "HMMA" for i in body):
            loops.append((start, end))
    start, end = min(loops, key=lambda loop: loop[1] - loop[0])
    return start, instructions[start:end + 1]


def split_off_rescaling(start, loop, labels):
    """What every tile executes, and what only those do in which a row outgrows its shift: the block
    that a branch skips and in which O is multiplied."""
    for index, instruction in enumerate(loop):
        skipped = labels.get(instruction.target, 0) - start
        block = loop[index + 1:skipped]
        if instruction.name == "BRA" and sum(i.name == "FMUL" for i in block) > len(block) / 2:
            return loop[:index + 1] + loop[skipped:], block
    return loop, []


def asking_blocks(start, loop, labels):
    """The blocks that only the warp executes whose turn it is to ask for tiles by tensor maps."""
    asking, index = [], 0
    while index < len(loop):
        skipped = labels.get(loop[index].target, 0) - start
        block = [i.name for i in loop[index + 1:skipped]]
        index += 1
        if loop[index - 1].name == "BRA" and "UTMALDG" in block and "HMMA" not in block:
            asking += loop[index:skipped]
            index = skipped
    return asking


def minimum(variant, head_dim):
    """Per warp and tile: the products, an exponential per score, the fragments of its K and V once, and per
    score its share of the maximum, the argument of its exponential and the sum. Fragments of Q stay in
    registers where they fit, and are read with K's where they do not (see the document). Warps beyond one
    to a block of 16 rows divide the keys."""
    key_groups = max(1, 16 * variant["warps"] // variant["tile_m"])
    rows = variant["tile_m"] * key_groups // (16 * variant["warps"])
    keys = variant["tile_n"] // key_groups
    held = rows * (keys // 2 + head_dim // 2 + head_dim // 4)
    by_threads = variant["kv_copy"] == "cp_async"
    copies = -(-2 * variant["tile_n"] * head_dim // (8 * 32 * variant["warps"])) if by_threads else 0
    q_reads = 0 if held + OPERAND_REGISTERS <= 255 else rows * head_dim // 16
    return {"tensor": rows * keys * head_dim // 64, "special": rows * keys // 2,
            "shared": keys * head_dim // 128 + q_reads, "fp32": rows * 3 * keys // 2,
            "convert": rows * keys // 4,
            "copy": copies, "exchange": 4 * rows}


def tuned(options, gpu, head_dim, causal, cache):
    """The best predicted variant's row and the chip's architecture."""
    command = [options.swr_tune, "tune", "--gpu", gpu, "--seq", "4096", "--batch", "4", "--heads", "16",
               "--head-dim", str(head_dim), "--dtype", "bf16", "--family", "portable", "--order",
               options.order, "--persistence", options.persistence, "--swizzle", "q_fastest",
               "--kv-copy", options.kv_copy, "--longest-first", "off", "--db",
               cache / "rows.db", "--cache-dir", cache, "--json", "--quiet"]
    command += ["--causal"] if causal else []
    command += ["--tile", options.tile] if options.tile else []
    command += ["--stages", options.stages] if options.stages else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"instruction_mix: swr-tune failed: {done.stderr.strip()}")
    report = json.loads(done.stdout)["reports"][0]
    best = next(row for row in report["results"] if row["key"] == report["best"])
    return best, report["device"]["sm_arch"]


def count(options, gpu, head_dim, causal, cache):
    best, arch = tuned(options, gpu, head_dim, causal, cache)
    cubin = cache / "cubins" / f"{best['cubin_digest']}.cubin"
    instructions, labels = disassemble(options.nvdisasm, cubin)
    start, loop = main_loop(instructions, labels)
    every_tile, rescaling = split_off_rescaling(start, loop, labels)
    asking = asking_blocks(start, loop, labels)
    counts = collections.Counter(i.kind() for i in every_tile)
    counts.subtract(i.kind() for i in asking)
    least = minimum(best["variant"], head_dim)
    variant, resources = best["variant"], best["resources"]
    row = {"gpu": gpu, "sm_arch": arch, "head_dim": head_dim, "causal": causal,
           "tile": f"{variant['tile_m']}x{variant['tile_n']}x{variant['warps']}",
           "stages": variant["stages"], "registers": resources["registers_per_thread"],
           "spill_bytes": resources["spill_store_bytes"] + resources["spill_load_bytes"],
           "ctas_per_sm": best["ctas_per_sm"]}
    for kind in [*KINDS, "integer and control"]:
        row[kind] = counts[kind]
        row[f"least {kind}"] = least.get(kind, 0)
    row["rescaling"] = len(rescaling)
    row["asking"] = len(asking)
    row["worst barred ratio"] = round(max(counts[kind] / least[kind] for kind in BARRED), 3)
    return row


def markdown(rows):
    shown = [*KINDS, "integer and control"]
    shown.remove("spill")
    print("| chip | D | mask | tile | stages | registers | CTAs/SM | " + " | ".join(shown) +
          " | rescaling | asking | worst of three |")
    print("|---" * (10 + len(shown)) + "|")
    for row in rows:
        cells = [f"{row[kind]} / {row[f'least {kind}']}" if row[f"least {kind}"] else str(row[kind])
                 for kind in shown]
        print(f"| {row['gpu']} | {row['head_dim']} | {'causal' if row['causal'] else 'none'} | "
              f"{row['tile']} | {row['stages']} | {row['registers']} | {row['ctas_per_sm']} | " +
              " | ".join(cells) +
              f" | {row['rescaling']} | {row['asking']} | {row['worst barred ratio']:.2f} |")


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--swr-tune", required=True, help="the program")
    parser.add_argument("--nvdisasm", default="nvdisasm", help="the disassembler")
    parser.add_argument("--gpu", default="gb10,rtx5090,a100,h200", help="profiles, comma-separated")
    parser.add_argument("--head-dim", default="64,96,128,160", help="comma-separated")
    parser.add_argument("--mask", default="none,causal", help="none, causal or both")
    parser.add_argument("--tile", help="instead of the default space's, MxNxWARPS")
    parser.add_argument("--stages", help="instead of the default space's")
    parser.add_argument("--order", default="cyclic", help="of K and V")
    parser.add_argument("--persistence", default="grid", help="sawtooth needs persistent or pairs")
    parser.add_argument("--kv-copy", default="cp_async", help="how K and V come: cp_async or tma")
    parser.add_argument("--csv", type=pathlib.Path, help="also write the counts to a file")
    return parser.parse_args()


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        rows = [count(options, gpu, int(head_dim), mask == "causal", pathlib.Path(folder))
                for gpu in options.gpu.split(",") for head_dim in options.head_dim.split(",")
                for mask in options.mask.split(",")]
    markdown(rows)
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    over = [row for row in rows if row["worst barred ratio"] > 1.1 or row["spill_bytes"] > 0]
    print(f"\n{len(rows) - len(over)} of {len(rows)} within 1.1 of the minimum and without spills")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(parsed_arguments()))
