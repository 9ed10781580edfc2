"""The Python module against what the plan promises. Run by ctest with the built module on PYTHONPATH."""

import unittest

import numpy as np

import weft


class PlanTest(unittest.TestCase):
    def test_every_token_is_in_one_piece(self):
        lengths = weft.draw_lengths("github", 1 << 20, context=64 << 10, seed=3)
        self.assertEqual(lengths.sum(), 1 << 20)
        plan = weft.make_plan(lengths, num_ranks=16, capacity=8192)
        plan.validate()
        pieces = plan.pieces()
        held = np.zeros(len(lengths), dtype=np.int64)
        np.add.at(held, pieces["sequence_id"], pieces["end"] - pieces["begin"])
        np.testing.assert_array_equal(held, lengths)
        self.assertLess(plan.gap, 0.05)
        self.assertEqual(plan.busy_s.shape, (16,))
        self.assertLessEqual(plan.busy_s.max(), plan.makespan_s + 1e-9)

    def test_groups_list_the_ranks_of_shared_sequences(self):
        plan = weft.make_plan(np.array([40000, 100]), num_ranks=8, capacity=8192, ids=np.array([7, 9]))
        groups = plan.groups()
        self.assertIn(7, groups["sequence_id"])
        pieces = plan.pieces()
        for g, sequence in enumerate(groups["sequence_id"]):
            ranks = groups["ranks"][groups["offsets"][g]:groups["offsets"][g + 1]]
            self.assertEqual(set(ranks), set(pieces["rank"][pieces["sequence_id"] == sequence]))

    def test_order_does_not_matter_and_the_seed_is_recorded(self):
        lengths = np.array([500, 9000, 20, 7000, 12345])
        ids = np.arange(5)
        a = weft.make_plan(lengths, 4, 4096, ids=ids)
        b = weft.make_plan(lengths[::-1].copy(), 4, 4096, ids=ids[::-1].copy())
        self.assertEqual(a.hash, b.hash)
        self.assertNotEqual(a.hash, weft.make_plan(lengths, 4, 4096, ids=ids, seed=1).hash)

    def test_every_strategy_plans(self):
        for strategy in weft.strategies():
            self.assertEqual(weft.make_plan([9000, 30], 4, 4096, strategy=strategy).strategy, strategy)

    def test_a_dead_rank_gets_nothing(self):
        plan = weft.make_plan([9000, 800, 700, 600], 4, 4096, memory=[1, 0, 1, 1])
        self.assertNotIn(1, plan.pieces()["rank"])

    def test_bad_input_is_named(self):
        for bad in ([0], [-5], [10, 0]):
            with self.assertRaisesRegex(weft.WeftError, "expected at least 1"):
                weft.make_plan(bad, 4, 4096)
        with self.assertRaisesRegex(ValueError, "capacity"):
            weft.make_plan([1], 4, 0)
        with self.assertRaisesRegex(weft.WeftError, "did you mean 'hdp'"):
            weft.make_plan([1], 4, 8, strategy="hpd")
        with self.assertRaisesRegex(weft.WeftError, "dimensions"):
            weft.make_plan([[1, 2]], 4, 8)
        with self.assertRaisesRegex(weft.WeftError, "ids"):
            weft.make_plan([1, 2], 4, 8, ids=[1])


if __name__ == "__main__":
    unittest.main()
