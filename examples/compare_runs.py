#!/usr/bin/env python3
"""Compares training runs by their metrics.jsonl: one row per run.

Usage: compare_runs.py RUN_FOLDER... The first step of each run (cold caches) is left out of the speeds.
"""

import json
import pathlib
import statistics
import sys


def load(folder):
    with open(folder / "metrics.jsonl") as lines:
        return [json.loads(line) for line in lines]


def row(name, steps):
    timed = steps[1:] or steps
    return [
        name,
        f"{sum(s['tokens'] for s in timed) / sum(s['step_s'] for s in timed):.0f}",
        f"{statistics.median(s['step_s'] for s in timed):.2f}",
        f"{statistics.median(s['predicted_s'] for s in timed):.2f}",
        f"{sum(s['exchange_bytes'] for s in steps) / 2**20:.1f}",
        f"{statistics.mean(s['imbalance'] for s in timed):.2f}",
        f"{100 * statistics.mean(s['gap'] for s in timed):.1f}",
        f"{sum(s['sharded_sequences'] for s in steps)}",
        f"{max(s['max_degree'] for s in steps)}",
        f"{max(s['peak_bytes'] for s in steps) / 2**20:.0f}",
        f"{steps[0]['loss']:.6f}",
        f"{steps[-1]['loss']:.6f}",
    ]


HEAD = ["run", "tokens/s", "step s", "predicted s", "exchange MiB", "imbalance", "gap %", "sharded", "degree",
        "peak MiB", "first loss", "last loss"]


def main():
    folders = [pathlib.Path(argument) for argument in sys.argv[1:]]
    if not folders:
        sys.exit(__doc__)
    runs = [load(folder) for folder in folders]
    table = [HEAD] + [row(folder.name, steps) for folder, steps in zip(folders, runs)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD))]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))
    worst = max(abs(a["loss"] - b["loss"]) for steps in runs for a, b in zip(runs[0], steps))
    print(f"largest difference of the loss between runs, over all {len(runs[0])} steps: {worst:.2e}")


if __name__ == "__main__":
    main()
