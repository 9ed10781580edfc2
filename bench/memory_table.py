#!/usr/bin/env python3
"""Predicted against measured memory of `weft train` over random configurations, ranks as MPI processes.

    bench/memory_table.py build/release [--count 30] [--seed 1] [--least-mib 40]

One Markdown row a configuration: what the plan let expect of the tensors, what the allocator counted, and by how much the
largest process grew since before its model was made, against the whole prediction (tensors and what is outside them).
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "CI": "1",
}
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
MIB = 2**20


def draw(rng):
    kv_heads = rng.choice([1, 2, 4])
    return {
        "model.hidden_size": rng.choice([64, 96, 128, 192]),
        "model.num_layers": rng.randint(1, 6),
        "model.num_heads": kv_heads * rng.choice([1, 2, 3]),
        "model.num_kv_heads": kv_heads,
        "model.head_dim": rng.choice([16, 32, 64]),
        "model.intermediate_size": rng.choice([128, 256, 512]),
        "model.vocab_size": rng.choice([300, 2000, 8000]),
        "model.tie_word_embeddings": rng.choice(["true", "false"]),
        "plan.strategy": rng.choice(["hdp", "hdp", "static", "pow2", "hdp-naive"]),
        "plan.capacity": rng.choice([2048, 3000, 4096, 5000]),
        "memory.recompute": rng.choice(["none", "none", "attention", "full"]),
        "train.dtype": rng.choice(["float32", "float32", "float64"]),
        "ranks": rng.randint(1, 4),
    }


def make_corpus(weft, folder, rng):
    text = folder / "text"
    text.mkdir()
    for i in range(60):
        length = rng.randint(1, 900) if i % 6 else rng.randint(900, 4000)
        (text / f"{i:03}.txt").write_text("".join(rng.choice("abcdefgh ") for _ in range(length)))
    subprocess.run([weft, "corpus", "build", "--out", folder / "corpus", text], check=True, capture_output=True)


def train(weft, folder, config, name):
    ranks = config["ranks"]
    power = 1 << (ranks.bit_length() - 1)  # the ranks that every strategy can use for one sequence
    context = min(4000, power * config["plan.capacity"])
    options = {key: value for key, value in config.items() if key != "ranks"}
    options |= {
        "data.corpus": folder / "corpus",
        "data.max_context": context,
        "data.over_long": "split",
        "data.global_batch_tokens": max(context, ranks * config["plan.capacity"]),
        "train.steps": 1,
        "train.out": folder / name,
        "train.save_interval": 0,
        "train.threads_per_rank": 1,
        "comm.wait_limit_s": 600,
    }
    (folder / "empty.toml").write_text("")
    command = ["mpirun", "-n", str(ranks), "--bind-to", "none", "--oversubscribe", weft, "train", "--config",
               folder / "empty.toml"]
    for key, value in options.items():
        command.append(f"--{key}={value}")
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env=dict(os.environ, **MPI_ENVIRONMENT))
    if done.returncode != 0:
        raise SystemExit(f"{config}\n{done.stderr[-2000:]}")
    outside = re.search(r"outside tensors ([0-9.]+) (\w+)", done.stdout)
    steps = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    shutil.rmtree(folder / name)
    largest = max(steps, key=lambda step: step["predicted_peak_bytes"])
    return {
        "predicted": largest["predicted_peak_bytes"],
        "measured": largest["peak_bytes"],
        "outside": float(outside[1]) * UNITS[outside[2]],
        "resident": max(step["resident_bytes"] for step in steps),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least-mib", type=float, default=40, help="smaller predictions are drawn again")
    options = parser.parse_args()
    weft = (options.build / "weft").resolve()
    rng = random.Random(options.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_memory_"))
    try:
        make_corpus(weft, folder, rng)
        print("| hidden, layers, heads/kv x width, feed-forward, vocabulary | ranks, strategy, capacity, recompute, dtype "
              "| predicted MiB | allocator MiB | ratio | predicted with outside | process grew MiB | ratio |")
        print("|---|---|---|---|---|---|---|---|")
        rows = 0
        tensor_ratios, process_ratios = [], []
        while rows < options.count:
            config = draw(rng)
            result = train(weft, folder, config, f"run{rows}")
            if result["predicted"] < options.least_mib * MIB:
                continue
            rows += 1
            total = result["predicted"] + result["outside"]
            tensor_ratios.append(result["measured"] / result["predicted"])
            process_ratios.append(result["resident"] / total)
            c = {key.split(".")[-1]: value for key, value in config.items()}
            print(f"| {c['hidden_size']}, {c['num_layers']}, {c['num_heads']}/{c['num_kv_heads']} x {c['head_dim']}, "
                  f"{c['intermediate_size']}, {c['vocab_size']}{' tied' if c['tie_word_embeddings'] == 'true' else ''} "
                  f"| {c['ranks']}, {c['strategy']}, {c['capacity']}, {c['recompute']}, {c['dtype']} "
                  f"| {result['predicted'] / MIB:.1f} | {result['measured'] / MIB:.1f} | {tensor_ratios[-1]:.4f} "
                  f"| {total / MIB:.1f} | {result['resident'] / MIB:.1f} | {process_ratios[-1]:.3f} |", flush=True)
        print(f"\nallocator / predicted: {min(tensor_ratios):.4f} to {max(tensor_ratios):.4f}; "
              f"process / predicted: {min(process_ratios):.3f} to {max(process_ratios):.3f}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
