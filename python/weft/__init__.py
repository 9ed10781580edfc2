"""Weft's planner for Python: lengths in as a NumPy array, a plan out as arrays.

>>> import numpy as np, weft
>>> plan = weft.make_plan(np.array([30000, 5000, 800]), num_ranks=8, capacity=8192)
>>> plan.gap < 0.05
True
>>> pieces = plan.pieces()      # rank, micro_batch, slot, group, sequence_id, begin, end: one row a piece
>>> groups = plan.groups()      # ranks of group g: groups["ranks"][groups["offsets"][g]:groups["offsets"][g + 1]]
"""

from ._weft import Plan, WeftError, strategies
from . import _weft

__all__ = ["Plan", "WeftError", "draw_lengths", "make_plan", "strategies"]


def make_plan(lengths, num_ranks, capacity, *, strategy="hdp", max_context=0, cost="", step=0, seed=0,
              ranks_per_node=8, speed=(), memory=(), ids=None):
    """Plans one step.

    lengths: tokens of each sequence, a 1-D array of integers. ids: one for each sequence; by default its place in
    `lengths`. capacity: tokens that a rank holds in one micro-batch. cost: path of a cost file; by default the
    reference cost of a 7B model. speed, memory: one number for each rank (1 = the cost's device, 1 = the whole
    capacity; memory 0 = a dead rank), or empty. max_context sizes the mesh of "static" and "sorted".

    The same set of sequences gives the same plan in any order. Raises WeftError (a ValueError) for lengths below 1,
    a capacity below 1, an unknown strategy, or a sequence that the ranks do not hold together.
    """
    return _weft.make_plan(lengths, num_ranks, capacity, strategy, max_context, cost, step, seed, ranks_per_node,
                           list(speed), list(memory), ids)


def draw_lengths(workload, batch_tokens, *, context=1 << 21, seed=0, batch=0):
    """Lengths of one batch of a workload: "byted", "github", "wikipedia", "lognormal:MEAN,SIGMA,MAX" or a file."""
    return _weft.draw_lengths(workload, context, batch_tokens, seed, batch)
