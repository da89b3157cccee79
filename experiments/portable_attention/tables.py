#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tables of what experiments/portable_attention/measure measured, from the CSV files of swr-tune.

    experiments/portable_attention/tables.py limit CSV...     the best variant, and the best within 99 KiB
    experiments/portable_attention/tables.py orders CSV...    sawtooth beside cyclic of the same kernel
"""

import argparse
import csv
import math
import statistics
import sys

GB10_BYTES = 101376
COUNTERS = ("l2_misses_sectors", "dram_read_bytes")


def rows_of(paths):
    """Rows that ran, of all files."""
    rows = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            rows += [row for row in csv.DictReader(file) if row["state"] == "ok"]
    if not rows:
        sys.exit("tables.py: no variant ran in " + " ".join(paths))
    return rows


def name(row):
    return f"{row['tile_m']}x{row['tile_n']}x{row['warps']}, {row['stages']} stages"


def time_us(row):
    return float(row["time_us"])


def limit_table(rows):
    print("| problem | provenance | best | us | best within 99 KiB | us | loss |")
    print("|---" * 7 + "|")
    losses = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        mine = [row for row in rows if row["problem"] == problem]
        small = [row for row in mine if int(row["smem_bytes"]) <= GB10_BYTES]
        best, fitting = min(mine, key=time_us), min(small, key=time_us)
        losses.append(time_us(fitting) / time_us(best))
        print(f"| {problem} | {best['provenance']} | {name(best)} | {time_us(best):.1f} | "
              f"{name(fitting)} | {time_us(fitting):.1f} | {100 * (losses[-1] - 1):.1f} % |")
    mean = math.exp(statistics.fmean(math.log(loss) for loss in losses))
    print(f"\nGeometric mean of the loss {100 * (mean - 1):.1f} %, most {100 * (max(losses) - 1):.1f} %")


def ratio_of(sawtooth, cyclic, column):
    """Blank where a counter was not read."""
    if not (sawtooth[column] and cyclic[column] and float(cyclic[column])):
        return ""
    return f"{float(sawtooth[column]) / float(cyclic[column]):.3f}"


def orders_table(rows):
    columns = ("time_us", "excess_miss_sectors", *COUNTERS)
    print("| problem | provenance | persistence | stages | cyclic, us | " +
          " | ".join(f"sawtooth / cyclic {column}" for column in columns) + " |")
    print("|---" * (5 + len(columns)) + "|")
    found = {(row["problem"], row["persistence"], row["stages"], row["order"]): row for row in rows}
    for (problem, persistence, stages, order), sawtooth in sorted(found.items()):
        cyclic = found.get((problem, persistence, stages, "cyclic"))
        if order != "sawtooth" or cyclic is None:
            continue
        ratios = [ratio_of(sawtooth, cyclic, column) for column in columns]
        print(f"| {problem} | {sawtooth['provenance']} | {persistence} | {stages} | "
              f"{time_us(cyclic):.1f} | " + " | ".join(ratios) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("limit", "orders"))
    parser.add_argument("csv", nargs="+")
    options = parser.parse_args()
    {"limit": limit_table, "orders": orders_table}[options.table](rows_of(options.csv))


if __name__ == "__main__":
    main()
