#!/usr/bin/env python3
"""The rows of tools/links_bench.py from made-up runs. Usage: links_rows_test.py SOURCE_DIR"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1)).resolve() / "tools"))
import links_bench  # noqa: E402


def run(*step_s):
    return [{"step": i, "step_s": s, "predicted_s": 1.0 + i, "exchange_bytes": 100 * i} for i, s in enumerate(step_s)]


def prediction(*step_s):
    return [{"step_s": s, "planned_s": 1.0 + i, "exchange_bytes": 100 * i} for i, s in enumerate(step_s)]


class Rows(unittest.TestCase):
    def test_unlike_steps_are_compared_with_their_own_predictions(self):
        """Nine short steps and a long one, all predicted to the point: a median of steps would not say so."""
        short_and_long = [50.0] + [1.0] * 9 + [11.0]
        predicted = {"static": prediction(*short_and_long), "hdp": prediction(*[s / 2 for s in short_and_long])}
        first_is_slow = [99.0] + short_and_long[1:]
        runs = {"static": [run(*first_is_slow)] * 3, "hdp": [run(*[s / 2 for s in first_is_slow])] * 3}
        static, hdp, speedup = links_bench.rows_of_runs("1gbit", runs, predicted)
        self.assertEqual((static["name"], static["samples"]), ("links/1gbit/static", 3))
        for row, value in ((static, 2.0), (hdp, 1.0), (speedup, 2.0)):
            for key in ("value", "limit", "min", "p50", "max"):
                self.assertAlmostEqual(row[key], value, msg=f"{row['name']} {key}")
            self.assertAlmostEqual(row["share"], 1.0)
        self.assertAlmostEqual(static["worst_step"], 0.0)

    def test_the_worst_step_of_any_run_is_told(self):
        predicted = {"static": prediction(1, 2, 3), "hdp": prediction(1, 1, 1)}
        runs = {"static": [run(1, 2, 3), run(1, 2.5, 3), run(1, 2, 2)], "hdp": [run(1, 1, 1)] * 3}
        static, hdp, speedup = links_bench.rows_of_runs("1gbit", runs, predicted)
        self.assertAlmostEqual(static["worst_step"], 0.5)
        self.assertAlmostEqual(hdp["worst_step"], 0.0)
        self.assertAlmostEqual(speedup["max"], 2.75)

    def test_a_prediction_of_other_steps_is_refused(self):
        predicted = {"static": prediction(1, 2), "hdp": prediction(1, 1)}
        predicted["static"][1]["exchange_bytes"] += 1
        runs = {"static": [run(1, 2)], "hdp": [run(1, 1)]}
        with self.assertRaisesRegex(SystemExit, "another step"):
            list(links_bench.rows_of_runs("1gbit", runs, predicted))
        predicted["static"] = prediction(1)
        with self.assertRaisesRegex(SystemExit, "2 steps were measured and 1 predicted"):
            list(links_bench.rows_of_runs("1gbit", runs, predicted))


if __name__ == "__main__":
    unittest.main()
