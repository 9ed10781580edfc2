#!/usr/bin/env python3
"""Runs that are stopped, killed and started again, as threads and as MPI processes. Usage: resume_test.py BUILD_DIR

WEFT_LONG_TESTS=1 kills at 100 random moments instead of a few, and watches memory over 10,000 steps.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import runs as tools  # noqa: E402

BUILD = sys.argv.pop(1)
LONG = os.environ.get("WEFT_LONG_TESTS") == "1"
HAS_MPI = shutil.which("mpirun") is not None
SEED = int(os.environ.get("WEFT_TEST_SEED", "20261130"))


class Interrupted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = tools.Runs(BUILD)
        cls.ranks = ["--ranks", "3"]
        done = cls.runs.train("whole", extra=cls.ranks)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.runs.remove()

    def assert_same_run(self, name, whole="whole"):
        self.assertEqual(self.runs.essence(name), self.runs.essence(whole))
        self.assertEqual(self.runs.weights(name), self.runs.weights(whole))

    def finish(self, name, **options):
        done = self.runs.train(name, **options)
        self.assertEqual(done.returncode, tools.FINISHED, done.stderr)
        return done

    def stop(self, name, signals, when, expected=tools.STOPPED, **options):
        """Starts a run, sends signals when the moment has come, returns its exit code."""
        process = self.runs.start(name, **options)
        try:
            self.assertTrue(tools.wait_until(lambda: when(process) or process.poll() is not None))
            for number in signals:
                process.send_signal(number)
                time.sleep(0.05)
            code = process.wait(timeout=120)
        finally:
            tools.end_group(process)
        self.assertEqual(code, expected, self.runs.log(name))

    def test_a_stop_signal_in_any_phase_saves_and_exits_75(self):  # C094
        steps_done = lambda name, count: lambda process: len(self.runs.metrics(name)) >= count
        moments = {
            "loading": lambda process: tools.engines(process.pid),
            "starting": lambda process: (self.runs.out("starting") / ".lock").exists(),
            "stepping": steps_done("stepping", 3),
            "saving": lambda process: any((self.runs.out("saving") / "checkpoints").glob("*.incomplete")),
        }
        for (name, when), number in zip(moments.items(),
                                        [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT]):
            with self.subTest(moment=name, signal=number.name):
                # Steps enough that none of the moments is missed.
                self.stop(name, [number], when, steps=20, save_interval=1, extra=self.ranks)
                steps = len(self.runs.metrics(name))
                self.assertEqual(self.runs.checkpoints(name)[-1], steps)
                self.assertIn(f"stopped by {number.name}", self.runs.log(name))
                self.assertFalse((self.runs.out(name) / "model.safetensors").exists())
                self.finish(name, extra=self.ranks)
                self.assert_same_run(name)

    def test_a_stop_signal_to_every_process_of_the_group_saves_once(self):  # C095
        for name, launch in {"group": [], "group_mpi": ["--launch", "mpi"]}.items():
            if launch and not HAS_MPI:
                continue
            process = self.runs.start(name, extra=[*self.ranks, *launch])
            try:
                self.assertTrue(tools.wait_until(lambda: len(self.runs.metrics(name)) >= 2))
                os.killpg(process.pid, signal.SIGTERM)
                self.assertEqual(process.wait(timeout=120), tools.STOPPED, self.runs.log(name))
                self.assertEqual(tools.descendants(process.pid), set())
            finally:
                tools.end_group(process)
            self.assertEqual(self.runs.checkpoints(name)[-1], len(self.runs.metrics(name)))
            self.finish(name, extra=self.ranks)
            self.assert_same_run(name)

    def test_a_second_interrupt_leaves_at_once(self):
        self.stop("twice", [signal.SIGINT, signal.SIGINT, signal.SIGINT],
                  lambda process: self.runs.metrics("twice"), expected=tools.INTERRUPTED, steps=100000,
                  extra=self.ranks)

    def kill_until_done(self, name, kills, save_interval, extra, steps=20, whole="whole"):
        draw = random.Random(f"{SEED} {name}")
        landed = 0
        while landed < kills:
            before = self.runs.checkpoints(name)
            process = self.runs.start(name, steps=steps, save_interval=save_interval, extra=extra)
            try:
                # Most of the first second is loading: aim behind it, too.
                time.sleep(draw.uniform(0, 1.0))
                if draw.random() < 0.8:
                    tools.wait_until(lambda: (self.runs.out(name) / ".lock").exists())
                    time.sleep(draw.uniform(0, 1.0))
                ranks = tools.engines(process.pid)
                victims = ranks if draw.random() < 0.3 else draw.sample(ranks, min(1, len(ranks)))
                for victim in victims:
                    os.kill(victim, signal.SIGKILL)
                code = process.wait(timeout=120)
            except ProcessLookupError:
                code = process.wait(timeout=120)
            finally:
                tools.end_group(process)
            landed += 1
            if code == tools.FINISHED and not victims:
                continue
            done = [step["step"] for step in self.runs.metrics(name)]
            after = self.runs.checkpoints(name)
            if done:
                self.assertGreaterEqual((after or [0])[-1], done[-1] + 1 - save_interval, "more than one interval lost")
            self.assertGreaterEqual((after or [0])[-1], (before or [0])[-1], "an earlier save was harmed")
            if code == tools.FINISHED:
                self.assert_same_run(name, whole)
                shutil.rmtree(self.runs.out(name))
        self.finish(name, steps=steps, save_interval=save_interval, extra=extra)
        self.assert_same_run(name, whole)
        print(f"{name}: {landed} kills, seed {SEED}", file=sys.stderr)

    def test_kill_9_at_random_moments_loses_at_most_one_interval(self):
        self.kill_until_done("killed", 100 if LONG else 5, 2, self.ranks)

    @unittest.skipUnless(HAS_MPI, "mpirun is not installed")
    def test_kill_9_of_any_mpi_rank_or_all_loses_at_most_one_interval(self):
        self.kill_until_done("killed_mpi", 100 if LONG else 3, 2, ["--launch", "mpi", *self.ranks])

    @unittest.skipUnless(HAS_MPI, "mpirun is not installed")
    def test_threads_and_mpi_give_the_same_bits_and_may_take_turns(self):
        for count in (1, 2, 3, 4, 7):
            with self.subTest(ranks=count):
                threads, processes = f"threads{count}", f"mpi{count}"
                self.finish(threads, extra=["--ranks", count])
                self.finish(processes, extra=["--launch", "mpi", "--ranks", count])
                self.assert_same_run(processes, threads)
        self.stop("turns", [signal.SIGTERM], lambda process: len(self.runs.metrics("turns")) >= 2, steps=20,
                  save_interval=0, extra=["--launch", "mpi", *self.ranks])
        self.finish("turns", extra=self.ranks)
        self.assert_same_run("turns")

    @unittest.skipUnless(HAS_MPI, "mpirun is not installed")
    def test_a_mistake_of_the_user_is_said_once_by_many_processes(self):
        for extra in (["--train.stepz", "3"], ["--data.corpus", "nowhere"], ["--plan.capacity", "7"]):
            done = self.runs.train("mistake", extra=["--launch", "mpi", *self.ranks, *extra])
            self.assertNotEqual(done.returncode, 0)
            errors = [line for line in done.stderr.splitlines() if line.startswith("weft: error")]
            self.assertEqual(len(errors), 1, done.stderr)

    def test_the_newest_whole_checkpoint_is_found_and_what_is_damaged_is_named(self):  # C074, C106
        shutil.copytree(self.runs.out("whole"), self.runs.out("damaged"))
        part = self.runs.out("damaged") / "checkpoints" / "step-000000020" / "part-00001.safetensors"
        content = bytearray(part.read_bytes())
        content[-5] ^= 4
        part.write_bytes(content)
        done = self.finish("damaged", extra=self.ranks)
        self.assertIn("part-00001.safetensors' is damaged", done.stderr)
        self.assertIn("step 15 of 20", done.stdout)
        self.assert_same_run("damaged")
        superseded = (self.runs.out("damaged") / "metrics.superseded.jsonl").read_text().splitlines()
        self.assertEqual(len(superseded), 5)

    def test_what_would_change_the_data_order_is_refused_and_can_be_allowed(self):
        shutil.copytree(self.runs.out("whole"), self.runs.out("order"))
        refused = self.runs.train("order", steps=22, extra=[*self.ranks, "--data.seed", "9"])
        self.assertEqual(refused.returncode, tools.USAGE)
        self.assertIn("--allow data-order", refused.stderr)
        self.assertEqual(self.runs.essence("order"), self.runs.essence("whole"))
        allowed = self.finish("order", steps=22,
                              extra=[*self.ranks, "--data.seed", "9", "--allow", "data-order"])
        self.assertIn("starts again at epoch 0", allowed.stderr)
        self.assertEqual(len(self.runs.metrics("order")), 22)

    def test_two_runs_do_not_share_a_folder(self):
        process = self.runs.start("shared", steps=100000, extra=self.ranks)
        try:
            self.assertTrue(tools.wait_until(lambda: self.runs.metrics("shared")))
            second = self.runs.train("shared", extra=self.ranks)
            self.assertEqual(second.returncode, tools.USAGE)
            self.assertIn("another process is training", second.stderr)
        finally:
            tools.end_group(process)

    def test_a_full_disk_harms_no_earlier_checkpoint_and_every_rank_knows(self):
        out = self.runs.out("small")
        out.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", out]).returncode:
            self.skipTest("a small file system needs root and mount")
        try:
            ballast = out / "ballast"
            done = self.runs.train("small", steps=8, save_interval=0, extra=self.ranks)
            self.assertEqual(done.returncode, tools.FINISHED, done.stderr)
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
            launches = [[]] + ([["--launch", "mpi"]] if HAS_MPI else [])
            for launch in launches:
                full = self.runs.train("small", steps=12, save_interval=1, extra=[*self.ranks, *launch])
                self.assertEqual(full.returncode, tools.FAILED, full.stderr)
                self.assertIn("No space left on device", full.stderr)
                self.assertEqual(self.runs.checkpoints("small"), [8])
            ballast.unlink()
            self.finish("small", steps=12, save_interval=0, extra=self.ranks)
            self.assertEqual(self.runs.checkpoints("small"), [8, 12])
        finally:
            subprocess.run(["umount", out], check=True)

    @unittest.skipUnless(LONG, "WEFT_LONG_TESTS is not set")
    def test_memory_stays_flat_from_step_100_to_10000(self):
        for name, launch in {"flat": [], "flat_mpi": ["--launch", "mpi"]}.items():
            process = self.runs.start(name, steps=10000, save_interval=1000, extra=["--ranks", "2", *launch])
            try:
                self.assertTrue(tools.wait_until(lambda: len(self.runs.metrics(name)) >= 100, 300))
                resident = lambda: {pid: int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4
                                    for pid in tools.engines(process.pid)}
                start, last = resident(), {}
                while process.poll() is None:
                    last = resident() or last
                    time.sleep(0.2)
            finally:
                tools.end_group(process)
            print(f"{name}: resident KiB at step 100 {start}, before the end {last}", file=sys.stderr)
            for pid, kib in last.items():
                self.assertLess(kib, 1.01 * start[pid])


if __name__ == "__main__":
    unittest.main(verbosity=2)
