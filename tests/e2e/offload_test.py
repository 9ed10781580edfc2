#!/usr/bin/env python3
"""Runs that offload activations to disk. Usage: offload_test.py BUILD_DIR"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import runs as tools  # noqa: E402

BUILD = sys.argv.pop(1)
HAS_MPI = shutil.which("mpirun") is not None
# 512 tokens on three ranks of 128: they fit only when four of six layers go out.
MODEL = ["--model.num_layers", "6", "--plan.capacity", "128"]
OFFLOAD = [*MODEL, "--memory.offload", "disk"]
FAST = ["--memory.offload_bytes_per_second", "1e15"]


def lies_in_memory(path):
    shown = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True)
    return shown.stdout.strip() == "tmpfs"


class Offload(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = tools.Runs(BUILD)
        if lies_in_memory(cls.runs.folder):
            raise unittest.SkipTest(f"{cls.runs.folder} lies in memory; set TMPDIR to a folder on a disk")

    @classmethod
    def tearDownClass(cls):
        cls.runs.remove()

    def train(self, name, expected=tools.FINISHED, **options):
        done = self.runs.train(name, **options)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done

    def test_sequences_that_do_not_fit_otherwise_train_with_the_same_losses(self):
        refused = self.train("refused", tools.USAGE, extra=["--ranks", "3", *MODEL])
        self.assertIn("at least 4 ranks", refused.stderr)
        self.train("kept", steps=8, extra=["--ranks", "4", *MODEL])
        done = self.train("offloaded", steps=8, extra=["--ranks", "3", *OFFLOAD, *FAST])
        self.assertIn("offload to files without a name", done.stdout)
        kept, offloaded = self.runs.metrics("kept"), self.runs.metrics("offloaded")
        for a, b in zip(kept, offloaded, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=2e-3)
            self.assertEqual(a["offload_bytes"], 0)
        self.assertGreater(sum(step["offload_bytes"] for step in offloaded), 0)
        self.assertIn("| offload ", done.stdout)
        self.assertEqual(sorted(os.listdir(self.runs.out("kept"))), sorted(os.listdir(self.runs.out("offloaded"))))

    def test_threads_and_mpi_give_the_same_bits(self):
        if not HAS_MPI:
            self.skipTest("no mpirun")
        self.train("threads", steps=6, extra=["--ranks", "3", *OFFLOAD, *FAST])
        self.train("mpi", steps=6, extra=["--ranks", "3", "--launch", "mpi", *OFFLOAD, *FAST])
        self.assertEqual(self.runs.essence("threads"), self.runs.essence("mpi"))
        self.assertEqual(self.runs.weights("threads"), self.runs.weights("mpi"))

    def rate_of(self, name):
        lines = (self.runs.out(name) / "config.toml").read_text().splitlines()
        return [line for line in lines if line.startswith("offload_bytes_per_second")]

    def test_a_killed_run_leaves_nothing_and_goes_on_with_the_rate_that_was_measured(self):
        scratch = self.runs.folder / "scratch"
        scratch.mkdir()
        # Four ranks, so that any rate will do.
        options = {"steps": 12, "save_interval": 2,
                   "extra": ["--ranks", "4", *OFFLOAD, "--memory.offload_path", scratch]}
        process = self.runs.start("killed", **options)
        try:
            self.assertTrue(tools.wait_until(lambda: len(self.runs.metrics("killed")) >= 4))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
        finally:
            tools.end_group(process)
        self.assertEqual(os.listdir(scratch), [])
        rate = self.rate_of("killed")
        self.assertNotIn("= 0", rate[0])
        done = self.train("killed", **options)
        self.assertEqual(self.rate_of("killed"), rate)
        self.assertIn("as before, from", done.stdout)
        self.assertNotIn("memory.offload_bytes_per_second: was", done.stdout)
        self.assertEqual([step["step"] for step in self.runs.metrics("killed")], list(range(12)))
        self.assertEqual(os.listdir(scratch), [])

    def test_a_folder_in_memory_or_that_is_not_there_is_refused_before_the_first_step(self):
        for folder in ["/dev/shm", self.runs.folder / "none"]:
            if folder == "/dev/shm" and not lies_in_memory(folder):
                continue
            done = self.train("folder", tools.USAGE, extra=["--ranks", "3", *OFFLOAD, *FAST, "--memory.offload_path", folder])
            self.assertIn(f"'{folder}'", done.stderr)
            self.assertIn("memory.offload_path", done.stderr)
            self.assertEqual(self.runs.metrics("folder"), [])

    def test_a_full_disk_ends_the_run_and_names_the_folder(self):
        scratch = self.runs.folder / "small"
        scratch.mkdir()
        command = [str(self.runs.build / "weft"),
                   *self.runs.arguments("full", extra=["--ranks", "3", *OFFLOAD, *FAST, "--memory.offload_path", scratch])]
        limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash", *command]  # files of 64 KiB at most
        done = subprocess.run(limited, capture_output=True, text=True, timeout=240, env=self.runs.environment())
        self.assertEqual(done.returncode, tools.FAILED, done.stdout + done.stderr)
        self.assertIn(str(scratch), done.stderr)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual(os.listdir(scratch), [])

    def test_another_strategy_is_refused_and_saved_plans_need_the_setting(self):
        refused = self.train("strategy", tools.USAGE, extra=["--ranks", "3", *OFFLOAD, "--plan.strategy", "static"])
        self.assertIn("memory.offload", refused.stderr)
        self.train("saved", steps=3, extra=["--ranks", "3", *OFFLOAD, *FAST, "--save-plans"])
        plans = self.runs.out("saved") / "plans"
        without = self.train("replayed", tools.USAGE, steps=3, extra=["--ranks", "3", *MODEL, "--plan", plans])
        self.assertIn('set memory.offload = "disk"', without.stderr)
        self.train("replayed", steps=3, extra=["--ranks", "3", *OFFLOAD, "--plan", plans])
        self.assertEqual(self.runs.essence("saved"), self.runs.essence("replayed"))


if __name__ == "__main__":
    unittest.main()
