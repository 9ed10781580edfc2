#!/usr/bin/env python3
"""Plans a step of the github mix for 64 ranks and shows what rank 0 runs.

Usage: PYTHONPATH=build/release/python python3 examples/plan_from_python.py
"""

import weft

lengths = weft.draw_lengths("github", 4 << 20, context=256 << 10, seed=1)
plan = weft.make_plan(lengths, num_ranks=64, capacity=8192)
print(f"{len(lengths)} sequences, {lengths.sum()} tokens: {plan.makespan_s:.3f} s, gap {100 * plan.gap:.2f} %, "
      f"largest degree {plan.max_degree}")
pieces = plan.pieces()
mine = pieces["rank"] == 0
for micro_batch in range(pieces["micro_batch"][mine].max() + 1):
    rows = mine & (pieces["micro_batch"] == micro_batch)
    tokens = (pieces["end"] - pieces["begin"])[rows].sum()
    shared = (pieces["group"][rows] >= 0).any()
    print(f"rank 0, micro-batch {micro_batch}: {tokens} tokens in {rows.sum()} pieces" + (", shared" if shared else ""))
