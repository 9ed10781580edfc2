#!/usr/bin/env python3
"""Memory budgets of `weft train` as a user meets them: chosen capacities, refusals, and what is measured beside what was
predicted, on threads and on MPI processes.

    tests/e2e/memory_test.py build/release
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import unittest

from runs import Runs

MIB = 2**20
BUILD = sys.argv.pop(1)
HAS_MPI = shutil.which("mpirun") is not None


class Budget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = Runs(BUILD)

    @classmethod
    def tearDownClass(cls):
        cls.runs.remove()

    def train(self, name, *extra, ranks=2):
        return self.runs.train(name, steps=2, save_interval=0, extra=["--ranks", ranks, "--train.threads_per_rank", 1, *extra])

    def capacity(self, name):
        return tomllib.loads((self.runs.out(name) / "config.toml").read_text())["plan"]["capacity"]

    def test_capacity_zero_is_the_largest_that_the_budget_holds_and_one_more_is_refused(self):
        budget = ["--memory.budget_bytes", "12M"]
        chosen = self.train("auto", "--plan.capacity", "0", *budget)
        self.assertEqual(chosen.returncode, 0, chosen.stderr)
        self.assertIn("memory  predicted peak 12.0 MiB of budget 12.0 MiB per rank (parameters ", chosen.stdout)
        self.assertRegex(chosen.stdout, r"memory  measured peak .* of budget 12.0 MiB per rank in step \d, predicted for its "
                                        r"plan .*; the largest process grew by ")
        capacity = self.capacity("auto")
        self.assertGreater(capacity, 100)
        same = self.train("same", "--plan.capacity", capacity, *budget)
        self.assertEqual(same.returncode, 0, same.stderr)
        more = self.train("more", "--plan.capacity", capacity + 1, *budget)
        self.assertEqual(more.returncode, 2)
        self.assertIn(f"plan.capacity up to {capacity} with memory.recompute", more.stderr)
        self.assertFalse(self.runs.out("more").exists())

    def test_a_budget_that_leaves_the_longest_sequence_no_place_says_what_would(self):
        result = self.train("long", "--plan.capacity", "0", "--memory.budget_bytes", "9992K", ranks=1)
        self.assertEqual(result.returncode, 2)
        found = re.search(r'plan.capacity up to (\d+) with memory.recompute = "none", and (\d+) ranks', result.stderr)
        self.assertTrue(found, result.stderr)
        fits = self.train("fits", "--plan.capacity", "0", "--memory.budget_bytes", "9992K", ranks=int(found[2]))
        self.assertEqual(fits.returncode, 0, fits.stderr)

    def test_replayed_plans_are_checked_before_the_first_step(self):
        saved = self.train("saved", "--save-plans")
        self.assertEqual(saved.returncode, 0, saved.stderr)
        replayed = self.train("replayed", "--plan", self.runs.out("saved") / "plans", "--memory.budget_bytes", "9692K")
        self.assertEqual(replayed.returncode, 2)
        self.assertRegex(replayed.stderr, r"micro-batch \d+ of rank \d in the plan of step 0 has \d+ tokens")
        self.assertNotIn("step 1/2", replayed.stdout)

    def check_measures(self, name, processes):
        for step in self.runs.metrics(name):
            predicted, measured = step["predicted_peak_bytes"], step["peak_bytes"]
            self.assertLessEqual(measured, predicted + 64 * 1024)
            self.assertGreaterEqual(measured, 0.9 * predicted)
            if "ASAN_OPTIONS" in os.environ:
                continue  # a sanitizer holds as much again for itself
            # A process has a few MiB of its own: libraries' buffers, stacks, messages.
            self.assertGreater(step["resident_bytes"], 0.9 * measured)
            self.assertLess(step["resident_bytes"], 1.1 * processes * predicted + 40 * MIB)

    @unittest.skipUnless(HAS_MPI, "mpirun is not installed")
    def test_the_measured_peak_is_the_predicted_one_on_threads_and_on_processes(self):
        size = ["--model.hidden_size", "192", "--model.intermediate_size", "512", "--model.num_layers", "4"]
        threads = self.train("threads", *size)
        self.assertEqual(threads.returncode, 0, threads.stderr)
        self.check_measures("threads", 2)
        arguments = ["mpirun", "-n", "2", "--bind-to", "none", "--oversubscribe", str(self.runs.build / "weft"),
                     *self.runs.arguments("processes", steps=2, save_interval=0, extra=size)]
        processes = subprocess.run(arguments, capture_output=True, text=True, timeout=240,
                                   env=self.runs.environment(arguments))
        self.assertEqual(processes.returncode, 0, processes.stderr)
        self.check_measures("processes", 1)
        peaks = lambda name: [step["peak_bytes"] for step in self.runs.metrics(name)]
        self.assertEqual(peaks("threads"), peaks("processes"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
